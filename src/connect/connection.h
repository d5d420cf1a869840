/* SPDX-License-Identifier: MIT
 *
 * Inside the connection manager: one communication id, the engine that holds them all, and what the files of this room
 * call of one another. No file outside includes this.
 */
#ifndef VB_CONNECT_CONNECTION_H
#define VB_CONNECT_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "connect/connect.h"
#include "connect/ports.h"
#include "connect/states.h"
#include "connect/timers.h"
#include "wire/cm_mad.h"

/* What the kernel's rdma_cm puts into its messages; peers time us by these. Exponents of 4.096 us * 2^n. */
enum {
	VB_CONNECT_RESPONSE_TIMEOUT = 20,    /* 4.3 s */
	VB_CONNECT_MAX_RETRIES = 15,
	VB_CONNECT_PACKET_LIFE = 16,         /* 0.27 s, one way */
	VB_CONNECT_ACK_TIMEOUT = 17,
	VB_CONNECT_TARGET_ACK_DELAY = 15,
	VB_CONNECT_SERVICE_TIMEOUT = 24,     /* how long an MRA of ours asks for: 69 s */
	VB_CONNECT_HOP_LIMIT = 64,
	VB_CONNECT_BACKLOG = 1024,           /* the most, and what 0 stands for */
	VB_CONNECT_OWNER_IDS = 262144,
	/* Peers choose timeouts too: within these bounds. */
	VB_CONNECT_TIMEOUT_LEAST = 14,       /* 67 ms */
	VB_CONNECT_TIMEOUT_MOST = 24,
	VB_CONNECT_TIMEWAIT_MOST = 20,
};

struct vb_connection {
	uint32_t id;                         /* towards its process and, as communication id, towards its peer */
	enum vb_connect_state state;
	struct vb_connect_owner *owner;      /* NULL: let go by its process */
	struct vb_list owner_node;
	struct vb_connect_quota *quota;      /* where it is counted, or NULL */
	struct vb_connection *id_next, *remote_next, *qpn_next; /* chains of ids.c */
	bool has_remote_key, has_qpn_key;
	struct vb_connect_timer timer;

	uint32_t port_space;
	uint8_t qp_type;                     /* enum ibv_qp_type */
	bool is_active;                      /* asked, rather than was asked */
	bool is_adopted;                     /* was another daemon's: is_active and local_qpn are not known */
	struct vb_connect_binding binding;   /* children of a listener have none */
	struct vb_cm_address source, destination;

	/* A listener: requests that its process has not taken notice of, and how many may be. */
	uint32_t backlog, waiting;
	/* A request: whose backlog it fills; 0: none any more. */
	uint32_t listener_id;

	struct vb_path path;                 /* of its MADs */
	struct vb_connect_device device;
	uint32_t remote_id;                  /* communication id of the peer, 0: not known */
	uint64_t remote_guid;                /* 0: not known */
	uint32_t local_qpn, remote_qpn;      /* local 0: not known */
	uint64_t service_id;
	uint8_t responder_resources, initiator_depth; /* active: what we offered. Passive: what the peer offered */
	uint8_t ack_timeout, path_mtu, retry_count, traffic_class;
	uint32_t flow_label;

	vb_time response_timeout;            /* how long to wait for an answer */
	uint8_t retries_left, max_retries;
	uint64_t transaction;                /* of the exchange under way */
	uint64_t probe_transaction;          /* of the question whether the peer still knows it; 0: none was asked */
	vb_time probe_again;                 /* not asked before */
	uint8_t mad[VB_CM_MAD_LENGTH];       /* what we last said: repeated by timers and for repeated questions */
};

struct vb_connect {
	struct vb_connect_host host;
	struct vb_connect_ports ports;
	struct vb_connect_timers timers;
	struct vb_connection **by_id, **by_remote, **by_qpn;
	uint32_t buckets;                    /* of each, a power of two */
	uint32_t count;
	uint32_t secret;                     /* peers choose what by_remote and by_qpn hash */
	vb_time adoption_until;
};

/* Before the program's private data rdma_cm tells the IP addresses; where addresses are GIDs (AF_IB) there is nothing to tell. */
static inline unsigned vb_connect_private_offset(const struct vb_cm_address *ours)
{
	return vb_cm_address_is_native(ours) ? 0 : VB_CM_IP_HEADER_LENGTH;
}

static inline bool vb_connect_gid_is_link_local(const uint8_t gid[16])
{
	return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

/* ids.c. Keys: a REQ is recognised by the asker's communication id, GUID and address; a SIDR_REQ by its request id and
 * address. */
int vb_connection_create(struct vb_connect *connect, struct vb_connect_owner *owner, uint32_t wanted_id,
			 struct vb_connection **connection); /* wanted_id 0: any. 0, -ENOMEM, -EADDRINUSE */
void vb_connection_free(struct vb_connect *connect, struct vb_connection *connection);
struct vb_connection *vb_connection_find(struct vb_connect *connect, uint32_t id);
struct vb_connection *vb_connection_find_remote(struct vb_connect *connect, bool is_sidr, uint32_t remote_id,
						uint64_t remote_guid, const uint8_t remote_gid[16]);
struct vb_connection *vb_connection_find_qpn(struct vb_connect *connect, uint32_t remote_qpn, uint64_t remote_guid,
					     const uint8_t remote_gid[16]);
/* Find it by remote_id, remote_guid, path.destination from now on; by remote_qpn likewise. */
void vb_connection_key_remote(struct vb_connect *connect, struct vb_connection *connection);
void vb_connection_key_qpn(struct vb_connect *connect, struct vb_connection *connection);
void vb_connection_unkey(struct vb_connect *connect, struct vb_connection *connection);
bool vb_connection_is_sidr(const struct vb_connection *connection);

/* connect.c: steps that several files take. */
void vb_connection_enter(struct vb_connect *connect, struct vb_connection *connection, enum vb_connect_state state);
void vb_connection_enter_timewait(struct vb_connect *connect, vb_time now, struct vb_connection *connection);
/* We said no: ready for a while to say it again. */
void vb_connection_enter_rejected(struct vb_connect *connect, vb_time now, struct vb_connection *connection);
/* Its request counts no more towards its listener's backlog. */
void vb_connection_leave_backlog(struct vb_connect *connect, struct vb_connection *connection);
vb_time vb_connect_exponent(unsigned exponent, unsigned least, unsigned most); /* 4.096 us * 2^exponent */

/* compose.c. What a state transition says: the message is kept in connection->mad; those that want an answer start the
 * timer. */
void vb_connect_send_req(struct vb_connect *connect, vb_time now, struct vb_connection *connection,
			 const struct vb_cm_conn *conn);
void vb_connect_send_rep(struct vb_connect *connect, vb_time now, struct vb_connection *connection,
			 const struct vb_cm_conn *conn);
void vb_connect_send_rtu(struct vb_connect *connect, struct vb_connection *connection);
/* Enters DREQ_SENT. */
void vb_connect_send_dreq(struct vb_connect *connect, vb_time now, struct vb_connection *connection);
void vb_connect_send_rej(struct vb_connect *connect, struct vb_connection *connection, uint16_t reason,
			 const void *private_data, unsigned length);
void vb_connect_send_sidr_req(struct vb_connect *connect, vb_time now, struct vb_connection *connection,
			      const struct vb_cm_conn *conn);
void vb_connect_send_sidr_rep(struct vb_connect *connect, struct vb_connection *connection, uint8_t status,
			      const struct vb_cm_conn *conn);
/* Asks whether the peer still knows the connection, without ending it; not more than once a second. */
void vb_connect_send_probe(struct vb_connect *connect, vb_time now, struct vb_connection *connection);
/* Said once, not kept. */
void vb_connect_send_drep(struct vb_connect *connect, const struct vb_connection *connection, uint64_t transaction);
void vb_connect_send_mra(struct vb_connect *connect, const struct vb_connection *connection);
/* Say the kept message again. */
void vb_connect_repeat(struct vb_connect *connect, const struct vb_connection *connection);
/* Answer a message that has no id here. */
void vb_connect_answer(struct vb_connect *connect, const struct vb_path *from, const struct vb_cm_mad *mad);
struct vb_path vb_connect_path_back(const struct vb_path *from);

/* release.c */
/* The process let go: tell the peer what the state asks for, then forget it as soon as the protocol allows. */
void vb_connection_release(struct vb_connect *connect, vb_time now, struct vb_connection *connection);

/* events.c */
void vb_connect_event_begin(struct vb_cm_event *event, const struct vb_connection *connection,
			    enum vb_cm_event_kind kind, int status);
void vb_connect_event_private(struct vb_cm_event *event, const void *bytes, unsigned length);
/* Dropped where the id has no owner any more. */
void vb_connect_event_send(struct vb_connect *connect, const struct vb_connection *connection,
			   const struct vb_cm_event *event);
void vb_connect_tell(struct vb_connect *connect, const struct vb_connection *connection, enum vb_cm_event_kind kind,
		     int status);

#endif
