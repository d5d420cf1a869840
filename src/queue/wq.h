/* SPDX-License-Identifier: MIT
 *
 * Work queues of receives (ibv_create_wq(3)): a receive queue that is an object of its own, with a completion queue and a state. Queue
 * pairs with an indirection table (queue/rss.h) take receives from several of them, and one may be in several tables. To a queue pair it
 * looks like a shared receive queue, which is what lies within.
 *
 *   RESET   empty; posting is refused
 *   RDY     receives are posted and taken
 *   ERR     what is posted is flushed
 *
 * Completions have its number in qp_num, as those of adapters.
 */
#ifndef VB_QUEUE_WQ_H
#define VB_QUEUE_WQ_H

#include <infiniband/verbs.h>
#include <stdint.h>

#include "base/list.h"
#include "base/time.h"
#include "queue/srq.h"

struct vb_wq {
	struct vb_srq receives;          /* its lock, PD, CQ and number are the work queue's; users: entries of tables */
	enum ibv_wq_state state;         /* under receives.lock */
};

static inline struct vb_wq *vb_wq_of(struct vb_srq *receives)
{
	return vb_container_of(receives, struct vb_wq, receives);
}

struct vb_wq_config {
	struct vb_pd *pd;
	struct vb_cq *cq;
	uint32_t max_wr, max_sge;
	uint32_t number;                 /* 24 bits, given by the caller */
	const struct vb_allocator *allocator; /* of its queue, or NULL */
};

/* In RESET. -EINVAL: no PD or CQ, no receives or more than the profile grants. -ENOMEM. Counts itself on PD and CQ. */
int vb_wq_init(struct vb_wq *wq, const struct vb_queue_host *host, void *owner, const struct vb_wq_config *config);
/* No table names it any more. Also discards its completions. */
void vb_wq_fini(struct vb_wq *wq);

/* -EINVAL: nothing leads from the state that it is in to that one. A receive that a message has taken before RESET may still complete:
 * vb_wq_discard, once none can be under way any more. */
int vb_wq_modify(struct vb_wq *wq, enum ibv_wq_state to, vb_time now);
void vb_wq_discard(struct vb_wq *wq);
enum ibv_wq_state vb_wq_state(struct vb_wq *wq);

/* 0 or positive errno, *bad_wr at the first not taken. */
int vb_wq_post(struct vb_wq *wq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr, vb_time now);

/* It is of no more use: to ERR by itself, with IBV_EVENT_WQ_FATAL. Callers may hold a qp->lock. */
void vb_wq_fail(struct vb_wq *wq, vb_time now);

#endif
