/* SPDX-License-Identifier: MIT
 *
 * What librdmacm keeps behind a struct rdma_cm_id. The program's pointer is the first member, so one cast leads here.
 *
 * Locks, outermost first: link registry (link.c) -> id.lock -> channel.lock. No verbs call is made under any of them.
 * What belongs to a connection is written by the thread that calls the API on the id and by the thread that takes its events;
 * rdma_cm asks programs not to do both at once on one id. `state` is atomic, and `kept_command` and `peer` change
 * under id.lock, because the link's thread reads them when it tells a new daemon about us.
 */
#ifndef VB_RDMACM_ID_H
#define VB_RDMACM_ID_H

#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/mutex.h"
#include "base/time.h"
#include "rdmacm/adoption.h"
#include "rdmacm/turns.h"
#include "wire/cm_command.h"

struct vb_rdmacm_channel;
struct vb_rdmacm_device;
struct vb_rdmacm_stream;

/* While RESOLVING; under the link's lock (resolve.c). */
struct vb_rdmacm_resolving {
	struct vb_list node;
	uint8_t next_hop[16];
	uint32_t interface_index;
	vb_time deadline, look_at, pause;
};

struct vb_rdmacm_id {
	struct rdma_cm_id id;

	struct vb_rdmacm_id *registry_next;
	uint32_t handle;                 /* verbenad's number for it; changes when the daemon is replaced; atomic */
	uint32_t calling;                /* verb of a command that is not answered yet and will be said again to a new daemon; under
					    the link's lock */
	enum vb_rdmacm_state state;
	bool synchronous;                /* NULL channel: the id has one of its own, and calls wait */
	bool untouched;                  /* a request's id that the program has not used yet; atomic */
	bool connect_failed;             /* CONNECT_ERROR was reported: nothing else of this attempt will be */

	struct vb_mutex lock;
	pthread_cond_t acked;
	unsigned unacked;                /* events handed to the program and not yet acknowledged */
	unsigned handed_out;             /* events handed to the program in all */

	struct vb_rdmacm_device *device;
	struct vb_cm_address source, destination;
	uint32_t interface_index;        /* 0 until bound to a device; atomic for link.c */
	struct ibv_sa_path_rec path;
	struct vb_path route;            /* InfiniBand: the path of its messages, as far as it is known */
	uint32_t backlog;                /* most requests not taken yet */
	uint32_t requests;               /* such requests; atomic */

	uint8_t traffic_class, ack_timeout;
	bool has_traffic_class, has_ack_timeout;
	bool reuse_address, address_family_only;

	/* Negotiated; from our point of view. */
	uint32_t starting_psn;
	uint8_t responder_resources, initiator_depth;
	uint8_t retry_count;             /* what the program asked for when connecting */
	struct vb_cm_conn peer;          /* as the last REQ, REP or SIDR_REP said */
	uint64_t remote_cookie;
	struct vb_cm_command *kept_command; /* while CONNECTING or ACCEPTED: to be said again to a new daemon, or after a refusal */
	struct vb_rdmacm_resolving resolving;
	bool source_by_route, device_by_route; /* not the program's choice: undone if the address is not resolved */
	struct vb_list fetched_node;     /* link.c: a request that the program has taken, which verbenad does not know */
	struct vb_rdmacm_turn turn;      /* link.c: CONNECTING, in the order of the calls; under the link's lock */

	struct ibv_ece local_ece, remote_ece;

	struct ibv_qp_init_attr *endpoint_attr; /* create_ep on the passive side: for the ids of requests */
	void *connect_data;              /* create_ep: goes before the program's own private data */
	size_t connect_length;

	struct vb_list groups;           /* of struct vb_rdmacm_group (multicast.c) */

	int bound_fd;                    /* a TCP socket at its address, -1: none (streams.c) */
	uint32_t stream_request;         /* of a request's id, which verbenad does not know: its number. 0: another */
	struct vb_list stream_node;      /* of the ids that have, or had, a stream; under streams.lock */
	struct vb_rdmacm_stream *stream; /* atomic: what it has of a TCP connection, under streams.lock */
};

static inline struct vb_rdmacm_id *vb_rdmacm_id_of(struct rdma_cm_id *id)
{
	return (struct vb_rdmacm_id *)(void *)id;
}

static inline enum vb_rdmacm_state vb_rdmacm_id_state(const struct vb_rdmacm_id *id)
{
	return __atomic_load_n(&id->state, __ATOMIC_ACQUIRE);
}

static inline void vb_rdmacm_id_become(struct vb_rdmacm_id *id, enum vb_rdmacm_state state)
{
	__atomic_store_n(&id->state, state, __ATOMIC_RELEASE);
}

static inline bool vb_rdmacm_id_is_datagram(const struct vb_rdmacm_id *id)
{
	return id->id.qp_type == IBV_QPT_UD;
}

/* An id without a handle yet. channel NULL: synchronous, with a channel of its own. NULL with errno. */
struct vb_rdmacm_id *vb_rdmacm_id_allocate(struct rdma_event_channel *channel, void *context, enum rdma_port_space port_space,
					   enum ibv_qp_type qp_type);
void vb_rdmacm_id_free(struct vb_rdmacm_id *id);

/* The id of an incoming request, made in the link's thread. NULL: no memory. */
struct vb_rdmacm_id *vb_rdmacm_id_create_child(struct vb_rdmacm_id *listener, const struct vb_cm_event *request);

/* Is its connection to be a stream of TCP (iWARP)? */
bool vb_rdmacm_id_is_stream(const struct vb_rdmacm_id *id);

/* Does it go by InfiniBand: GIDs that are no IP addresses, and paths that a subnet manager knows? */
bool vb_rdmacm_id_is_fabric(const struct vb_rdmacm_id *id);

/* Take over what a REQ, REP or SIDR_REP said. */
void vb_rdmacm_id_learn(struct vb_rdmacm_id *id, const struct vb_cm_event *event);

/* The peer has accepted: RESPONDED. False: it is not CONNECTING, or the daemon is dead that told it, and the next one has asked again
 * (adoption.c); the answer to that is another queue pair's. */
bool vb_rdmacm_id_answered(struct vb_rdmacm_id *id, const struct vb_cm_event *event);

/* What was kept to be said again is not needed any more. */
void vb_rdmacm_id_forget_command(struct vb_rdmacm_id *id);

#endif
