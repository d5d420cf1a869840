/* SPDX-License-Identifier: MIT
 *
 * Shared receive queues: one pool of receives for many QPs, with a low-water event.
 */
#ifndef VB_QUEUE_SRQ_H
#define VB_QUEUE_SRQ_H

#include <infiniband/verbs.h>
#include <stdint.h>

#include "base/list.h"
#include "base/lock.h"
#include "memory/region.h"
#include "queue/host.h"
#include "queue/receive_queue.h"

struct vb_cq;
struct vb_xrc_domain;

struct vb_srq {
	struct vb_lock lock;
	struct vb_receive_queue queue;
	uint32_t limit;                  /* SRQ_LIMIT_REACHED when fewer remain; then disarmed (0) */
	bool failed;
	struct vb_pd *pd;
	/* XRC: what a basic one leaves to its queue pairs. */
	struct vb_xrc_domain *xrc_domain;
	struct vb_cq *cq;
	uint32_t number;                 /* on the wire, 24 bits */
	struct vb_list in_domain;
	uint32_t users;                  /* atomic: queue pairs attached */
	const struct vb_queue_host *host;
	void *owner;
};

/* attr: in asked, out granted. allocator: of its memory, or NULL. */
int vb_srq_init_in(struct vb_srq *srq, const struct vb_queue_host *host, void *owner, struct vb_pd *pd, struct ibv_srq_attr *attr,
		   const struct vb_allocator *allocator);
static inline int vb_srq_init(struct vb_srq *srq, const struct vb_queue_host *host, void *owner, struct vb_pd *pd,
			      struct ibv_srq_attr *attr)
{
	return vb_srq_init_in(srq, host, owner, pd, attr, NULL);
}
void vb_srq_fini(struct vb_srq *srq);
int vb_srq_modify(struct vb_srq *srq, const struct ibv_srq_attr *attr, int mask); /* IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT */
void vb_srq_query(struct vb_srq *srq, struct ibv_srq_attr *attr);
int vb_srq_post(struct vb_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);  /* 0 or positive errno */
bool vb_srq_take(struct vb_srq *srq, struct vb_taken_receive *taken);

#endif
