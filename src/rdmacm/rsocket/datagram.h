/* SPDX-License-Identifier: MIT
 *
 * A datagram rsocket: a UDP socket, which is what is bound and connected, and a UD queue pair for each local address
 * it sends from or is reached at.
 *
 *   datagram.c           open, bind, connect, close
 *   datagram_attend.c    the UDP side, in the service thread
 *   datagram_transfer.c  sending and receiving
 *   datagram_peer.c      peers and how they are reached
 *   datagram_endpoint.c  queue pairs                   datagram_socket.c  the UDP socket, buffers
 *
 * Each calls those below it.
 *
 * All functions here: caller holds rs->lock, unless they say otherwise.
 */
#ifndef VB_RDMACM_RSOCKET_DATAGRAM_H
#define VB_RDMACM_RSOCKET_DATAGRAM_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <sys/types.h>

#include "rdmacm/rsocket/datagram_wire.h"
#include "rdmacm/rsocket/rsocket.h"

struct vb_iov_cursor;

enum {
	VB_RDATAGRAM_SLOT = 2048,        /* the longest datagram with its header */
	VB_RDATAGRAM_GRH = 40,           /* goes before what a UD queue pair receives */
	VB_RDATAGRAM_STRIDE = 2112,      /* of receive slots */
	VB_RDATAGRAM_PEERS_MOST = 4096,  /* any host can become one by sending to us */
	VB_RDATAGRAM_BUCKETS = 64,
};

/* A datagram that has come and is not yet read. */
struct vb_rdatagram_arrival {
	struct vb_list node;
	struct vb_rdatagram_endpoint *endpoint; /* whose slot holds it; NULL: it came over UDP and is a copy */
	union vb_rsocket_address source;
	const uint8_t *bytes;
	uint32_t length;
	uint8_t copy[];
};

struct vb_rdatagram_endpoint {
	struct vb_list node;
	union vb_rsocket_address local;
	struct rdma_cm_id *id;
	struct ibv_comp_channel *completions;
	struct ibv_cq *cq;
	bool armed;
	uint32_t mtu;
	uint8_t gid_index;
	struct ibv_mr *send_mr;
	uint8_t *receive_bytes;
	struct ibv_mr *receive_mr;
	struct vb_rdatagram_arrival *arrivals; /* one for each receive slot */
};

struct vb_rdatagram_peer {
	struct vb_list node;             /* in its bucket */
	union vb_rsocket_address address;
	struct vb_rdatagram_endpoint *endpoint; /* ours, from which it is reached */
	struct ibv_ah *ah;               /* NULL: its queue pair is not known yet */
	uint32_t queue_pair;
};

struct vb_rdatagram {
	int poller;                      /* readable when one of the completion channels is */
	bool started, may_read, may_write;
	struct vb_list endpoints;
	struct vb_list buckets[VB_RDATAGRAM_BUCKETS];
	unsigned peers;
	struct vb_rdatagram_peer *connected;

	uint32_t receive_slots, send_slots, send_free;
	uint8_t *send_bytes;
	uint32_t *free_slots;            /* stack of send_free indices */
	struct vb_list arrived;
	unsigned copies;                 /* of those, copies from UDP */
};

/* rsocket(): a descriptor in the table, or -errno. No lock. */
int vb_rdatagram_open(int domain, int type_flags);
int vb_rdatagram_bind(struct vb_rsocket *rs, const struct sockaddr *address, socklen_t length);
int vb_rdatagram_connect(struct vb_rsocket *rs, const struct sockaddr *address, socklen_t length);
int vb_rdatagram_shutdown(struct vb_rsocket *rs, int how);
bool vb_rdatagram_is_started(const struct vb_rsocket *rs);
/* A UDP socket; -1 with errno. */
int vb_rdatagram_open_udp(int domain);
/* Buffers, a bound UDP socket, and the service thread on it. 0 or -errno. */
int vb_rdatagram_start(struct vb_rsocket *rs);

/* Who is at this address, with an endpoint of ours to reach it from. 0 or -errno. */
int vb_rdatagram_peer_find(struct vb_rsocket *rs, const union vb_rsocket_address *address,
			   struct vb_rdatagram_peer **peer);
/* It answers on this queue pair. */
void vb_rdatagram_peer_learn(struct vb_rdatagram_peer *peer, uint32_t queue_pair);

int vb_rdatagram_endpoint_find(struct vb_rsocket *rs, const union vb_rsocket_address *local,
			       struct vb_rdatagram_endpoint **endpoint);
void vb_rdatagram_endpoint_destroy(struct vb_rsocket *rs, struct vb_rdatagram_endpoint *endpoint);
int vb_rdatagram_endpoint_post_receive(struct vb_rdatagram_endpoint *endpoint, uint32_t slot);
/* The address handle of the peer at `address`, or NULL. */
struct ibv_ah *vb_rdatagram_endpoint_reach(struct vb_rdatagram_endpoint *endpoint,
					   const union vb_rsocket_address *address);

bool vb_rdatagram_progress(struct vb_rsocket *rs);
bool vb_rdatagram_all_sent(struct vb_rsocket *rs);
/* `to` NULL: the connected peer. */
ssize_t vb_rdatagram_send(struct vb_rsocket *rs, struct vb_iov_cursor *from, int flags, const struct sockaddr *to,
			  socklen_t length);
/* Bytes copied, or -errno; `full` is how long the datagram was. */
ssize_t vb_rdatagram_receive(struct vb_rsocket *rs, struct vb_iov_cursor *to, int flags,
			     union vb_rsocket_address *source, size_t *full);
int vb_rdatagram_send_udp(struct vb_rsocket *rs, const struct vb_rdatagram_peer *peer,
			  enum vb_rdatagram_operation operation, struct vb_iov_cursor *from);
/* A datagram that came over UDP. Dropped when too many wait to be read. */
void vb_rdatagram_deliver(struct vb_rsocket *rs, const union vb_rsocket_address *source, const void *bytes,
			  size_t length);
/* Its slot, or its copy, is free again. */
void vb_rdatagram_release(struct vb_rsocket *rs, struct vb_rdatagram_arrival *arrival);

/* No lock. */
void vb_rdatagram_attend(struct vb_rsocket *rs);

#endif
