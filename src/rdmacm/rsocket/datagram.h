/* SPDX-License-Identifier: MIT
 *
 * What a datagram rsocket is made of, for the files that share it: datagram.c (the socket and its messages), datagram_qp.c (queue
 * pairs), datagram_peer.c (who is where, learned over UDP).
 */
#ifndef VB_RDMACM_RSOCKET_DATAGRAM_H
#define VB_RDMACM_RSOCKET_DATAGRAM_H

#include <netinet/in.h>

#include "rdmacm/rsocket/rsocket.h"

enum {
	VB_DATAGRAM_GRH = 40,
	VB_DATAGRAM_SLOT = 2048,         /* header and data of one message */
	VB_DATAGRAM_QUEUE = 64,          /* messages under way, each direction, each queue pair */
	VB_DATAGRAM_MOST_UNREAD = 256,
};

union vb_datagram_address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/* A message that nobody has read yet. */
struct vb_datagram_message {
	struct vb_list node;
	union vb_datagram_address from;
	uint32_t length;
	uint8_t data[];
};

/* One per local address in use. */
struct vb_datagram_qp {
	struct vb_list node;
	struct rdma_cm_id *id;
	union vb_datagram_address local;
	struct vb_rsocket_header header;
	uint8_t gid[16];
	uint32_t mtu;
	uint8_t *memory;                 /* receive slots, then send slots */
	struct ibv_mr *mr;
	uint64_t free_slots;             /* of sending; bit set: free */
	bool armed;
	unsigned cq_events;
};

struct vb_datagram_peer {
	struct vb_list node;
	union vb_datagram_address address;
	struct vb_datagram_qp *qp;       /* the one to send from */
	struct ibv_ah *ah;               /* NULL: its queue pair is not known yet, UDP it is */
	uint32_t qpn;
};

struct vb_rsocket_datagram {
	struct vb_list qps, peers, unread;
	unsigned unread_count;
	struct vb_datagram_peer *connected;
};

_Static_assert(VB_DATAGRAM_QUEUE <= 64, "one bit each in free_slots");

socklen_t vb_datagram_address_length(const union vb_datagram_address *address);
bool vb_datagram_address_equals(const union vb_datagram_address *a, const union vb_datagram_address *b);

/* All under rs->lock. */

/* datagram.c. Queue a message for the program; dropped when too many wait. */
void vb_datagram_deliver(struct vb_rsocket_datagram *datagram, const union vb_datagram_address *from, const void *data,
			 uint32_t length);

/* datagram_qp.c */
int vb_datagram_qp_get(struct vb_rsocket_datagram *datagram, const union vb_datagram_address *local, struct vb_datagram_qp **qp);
void vb_datagram_qp_destroy(struct vb_datagram_qp *qp);
void vb_datagram_qp_poll(struct vb_rsocket_datagram *datagram, struct vb_datagram_qp *qp);
/* 0, -EAGAIN: all slots under way, or -errno. */
int vb_datagram_qp_send(struct vb_datagram_qp *qp, const struct vb_datagram_peer *peer, const struct iovec *iov, int count);
void vb_datagram_qp_arm(struct vb_datagram_qp *qp);

/* datagram_peer.c */
int vb_datagram_peer_get(struct vb_rsocket *rs, const struct sockaddr *address, socklen_t length, struct vb_datagram_peer **peer);
void vb_datagram_peer_destroy(struct vb_datagram_peer *peer);
/* Over the UDP socket, with our queue pair number. Bytes of data sent, or -errno. */
ssize_t vb_datagram_peer_tell(struct vb_rsocket *rs, const struct vb_datagram_peer *peer, uint8_t what, const struct iovec *iov,
			      int count);
/* Read what has come over UDP. */
void vb_datagram_peer_listen(struct vb_rsocket *rs);

#endif
