/* SPDX-License-Identifier: MIT
 *
 * What librdmacm and verbenad say to each other about connections: the conversation that goes through /dev/infiniband/rdma_cm
 * elsewhere. One message per datagram of the daemon's Unix socket (types 0x100 and up; wire/daemon_message.h has the rest);
 * host byte order, both ends are on this machine; either side validates every message wholly before using it.
 *
 *   library -> daemon   command   (answered by exactly one reply that repeats `serial`, or by none: serial 0, only_refusals)
 *   daemon  -> library  reply, and events at any time
 *
 * The library chooses nothing the daemon relies on: ids are the daemon's, and each belongs to the connection that made it. When that
 * connection closes, its ids are destroyed: peers of connected ones get a DREQ at once.
 */
#ifndef VB_WIRE_CM_COMMAND_H
#define VB_WIRE_CM_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/path.h"

enum {
	VB_CM_PRIVATE_DATA = 256,        /* more than any MAD carries */
	VB_CM_PROTOCOL = 1,
	VB_CM_AF_IB = 27,                /* AF_IB: addresses are GIDs of InfiniBand */
};

enum vb_cm_message_type {
	VB_CM_COMMAND = 0x100,
	VB_CM_REPLY = 0x101,
	VB_CM_EVENT = 0x102,
	VB_CM_TRACE = 0x103,             /* daemon -> library, after TELL_PACKETS */
};

enum vb_cm_verb {
	VB_CM_CREATE = 1,    /* port_space, qp_type -> id */
	VB_CM_DESTROY,       /* id; sends DREQ or REJ where one is due; no event of this id follows the reply */
	VB_CM_BIND,          /* id, source (port 0: choose), reuse_address, address_family_only -> source with the port. EADDRINUSE ... */
	VB_CM_LISTEN,        /* id, backlog, by_stream, by_frames */
	VB_CM_CONNECT,       /* id, source, destination, path, conn. RC: REQ; UD: SIDR_REQ (private data only) */
	VB_CM_ACCEPT,        /* id (from CONNECT_REQUEST), conn. RC: REP; UD: SIDR_REP with qpn, qkey */
	VB_CM_REJECT,        /* id, reason (28 consumer), private data */
	VB_CM_ESTABLISH,     /* active side has its QP in RTS: send RTU */
	VB_CM_NOTIFY,        /* passive side saw COMM_EST: counts as RTU */
	VB_CM_DISCONNECT,    /* DREQ, or DREP if the peer asked first */
	VB_CM_ADOPT,         /* after the daemon was restarted: recreate an id in `state` (bound, listening, connected) */
	VB_CM_FETCHED,       /* id (from CONNECT_REQUEST): the application has fetched the event, its place in the listener's backlog is
				free. Not sent: ACCEPT, REJECT or DESTROY frees it. With serial 0 no reply comes. */
	VB_CM_TELL_PACKETS,  /* from now on tell every MAD of this process's ids that is sent or received. No reply */
	VB_CM_LOSE,          /* conn.private_data[i]: that many messages with the attribute VB_CM_REQ + i, the first that are sent for this
				process's ids, are lost on purpose (docs/faults.md). No reply */
	VB_CM_RESOLVE_ADDRESS, /* InfiniBand: id, destination, timeout_ms. ADDR_RESOLVED or ADDR_ERROR will come; ENETUNREACH: there is no
				  subnet manager */
	VB_CM_JOIN,          /* InfiniBand: id, path.destination (MGID), path.pkey, conn.qkey, remote_cookie, timeout_ms.
				MULTICAST_JOIN or _ERROR with that cookie will come; ENETUNREACH */
	VB_CM_LEAVE,         /* InfiniBand: id, path.destination */
	VB_CM_RESOLVE_ROUTE, /* InfiniBand: id, path.destination, path.pkey, timeout_ms. ROUTE_RESOLVED or ROUTE_ERROR will come;
				ENETUNREACH */
};

/* vb_cm_command.state of ADOPT. BOUND and LISTENING: as BIND (and LISTEN) with `source`; CONNECTED, and REQUESTED, which ACCEPT follows:
 * `source`, `destination`, `conn` (the peer's, as its event gave it, qpn and all) and remote_cookie; -> id. */
enum vb_cm_adopted_state {
	VB_CM_ADOPTED_BOUND = 1,
	VB_CM_ADOPTED_LISTENING,
	VB_CM_ADOPTED_CONNECTED,
	VB_CM_ADOPTED_REQUESTED,
};

/* The same numbers as enum rdma_cm_event_type where they have one. */
enum vb_cm_event_kind {
	VB_CM_EVENT_ADDR_RESOLVED = 0,   /* InfiniBand, as the next three: path has the GIDs */
	VB_CM_EVENT_ADDR_ERROR = 1,
	VB_CM_EVENT_ROUTE_RESOLVED = 2,  /* path has all; conn.path_mtu, conn.ack_timeout: the packet lifetime */
	VB_CM_EVENT_ROUTE_ERROR = 3,
	VB_CM_EVENT_CONNECT_REQUEST = 4,
	VB_CM_EVENT_CONNECT_RESPONSE = 5,
	VB_CM_EVENT_CONNECT_ERROR = 6,
	VB_CM_EVENT_UNREACHABLE = 7,
	VB_CM_EVENT_REJECTED = 8,
	VB_CM_EVENT_ESTABLISHED = 9,
	VB_CM_EVENT_DISCONNECTED = 10,
	VB_CM_EVENT_DEVICE_REMOVAL = 11,  /* of no id: interface_index is gone, with all that is bound to it */
	VB_CM_EVENT_MULTICAST_JOIN = 12,  /* InfiniBand: path.dlid is the group's, remote_cookie that of the command */
	VB_CM_EVENT_MULTICAST_ERROR = 13,
	VB_CM_EVENT_TIMEWAIT_EXIT = 15,
};

enum vb_cm_port_space {                  /* enum rdma_port_space */
	VB_CM_PS_IPOIB = 0x0002,
	VB_CM_PS_TCP = 0x0106,
	VB_CM_PS_UDP = 0x0111,
	VB_CM_PS_IB = 0x013f,
};

struct vb_cm_address {
	uint8_t gid[16];                 /* IPv4 mapped; all zero: wildcard */
	uint16_t family;                 /* AF_INET, AF_INET6, VB_CM_AF_IB */
	uint16_t port;                   /* host order; AF_IB: the lowest bits of the service id */
	uint32_t scope;
	/* AF_IB (struct sockaddr_ib); else 0. */
	uint64_t service_id;             /* host order */
	uint32_t flow_info;              /* as it stands there */
	uint16_t pkey;                   /* host order */
	uint16_t reserved;
};

static inline bool vb_cm_address_is_native(const struct vb_cm_address *address)
{
	return address->family == VB_CM_AF_IB;
}

/* Parameters of a connection, both ways. Fields that do not apply are zero. */
struct vb_cm_conn {
	uint32_t qpn, starting_psn;
	uint32_t qkey;                   /* UD */
	uint8_t responder_resources, initiator_depth;
	uint8_t flow_control, retry_count, rnr_retry_count;
	uint8_t srq;
	uint8_t path_mtu;                /* enum ibv_mtu */
	uint8_t ack_timeout;             /* local ack timeout exponent for the QP */
	uint8_t qp_type;                 /* enum ibv_qp_type */
	uint8_t traffic_class, hop_limit;
	uint8_t reserved;
	uint32_t flow_label;
	uint16_t private_data_length;
	uint16_t reserved2;
	uint32_t ece_vendor, ece_options; /* enhanced connection establishment; 0: none. Carried where the MAD has room, else dropped */
	uint8_t private_data[VB_CM_PRIVATE_DATA];
};

struct vb_cm_command {
	uint32_t type;                   /* VB_CM_COMMAND */
	uint32_t verb;
	uint64_t serial;
	uint32_t id;
	uint32_t port_space;
	uint32_t qp_type;
	uint32_t backlog;
	uint32_t reason;                 /* REJECT */
	uint32_t state;                  /* ADOPT */
	uint8_t reuse_address, address_family_only;
	uint8_t by_stream;               /* LISTEN, ADOPT: TCP brings the requests (iWARP), and no REQ is for it */
	uint8_t only_refusals;           /* a reply is wanted only if it says why not */
	uint8_t by_frames;               /* LISTEN, ADOPT: the process speaks RoCEv1, whose REQs come in frames */
	uint8_t reserved[3];
	uint64_t remote_cookie;          /* ADOPT: what the CONNECT_RESPONSE / CONNECT_REQUEST event gave */
	struct vb_cm_address source, destination;
	uint32_t interface_index;        /* device to go through */
	uint32_t timeout_ms;             /* RESOLVE_ADDRESS, RESOLVE_ROUTE */
	struct vb_cm_conn conn;
	struct vb_path path;             /* CONNECT, ADOPT: that of the connection's messages where the framing is GLOBAL (InfiniBand);
					    else the addresses say it */
	uint32_t reserved2;
};

struct vb_cm_reply {
	uint32_t type;                   /* VB_CM_REPLY */
	int32_t error;                   /* 0 or errno */
	uint64_t serial;
	uint32_t id;
	uint32_t reserved;
	struct vb_cm_address source;     /* BIND, CONNECT: with the port chosen */
};

struct vb_cm_event {
	uint32_t type;                   /* VB_CM_EVENT */
	uint32_t kind;
	uint32_t id;
	uint32_t listen_id;              /* CONNECT_REQUEST: the listener; id is new and belongs to the listener's process */
	int32_t status;                  /* REJECTED: IB reason; others: -errno; 0 */
	uint32_t interface_index;        /* device it came through */
	uint64_t remote_cookie;
	struct vb_cm_address source, destination; /* CONNECT_REQUEST: ours, theirs */
	struct vb_cm_conn conn;          /* the peer's, already turned round to our point of view */
	struct vb_path path;             /* from us to the peer */
	uint32_t reserved;
};

/* A packet of connection management, for a capture: BTH, DETH, MAD and ICRC. */
struct vb_cm_trace {
	uint32_t type;                   /* VB_CM_TRACE */
	uint32_t sent;                   /* 0: received, 1: sent, 2: should have been sent, and was lost on purpose */
	int64_t time;                    /* on the monotonic clock */
	struct vb_path path;
	uint32_t length;
	uint8_t destination_mac[6], source_mac[6]; /* of a frame of RoCEv1 */
	uint8_t reserved[4];
	uint8_t datagram[320];
};

/* The same for 32- and 64-bit programs. */
_Static_assert(sizeof(struct vb_cm_trace) == 408, "trace");
_Static_assert(sizeof(struct vb_cm_address) == 40, "address");
_Static_assert(sizeof(struct vb_cm_conn) == 296, "conn");
_Static_assert(sizeof(struct vb_cm_command) == 496, "command");
_Static_assert(sizeof(struct vb_cm_reply) == 64, "reply");
_Static_assert(sizeof(struct vb_cm_event) == 464, "event");

#endif
