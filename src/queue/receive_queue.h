/* SPDX-License-Identifier: MIT
 *
 * Receive work requests in a ring: the receive queue of one QP, or the body of a shared one. Not locked here: its
 * owner's lock (qp->lock or srq->lock) protects it.
 */
#ifndef VB_QUEUE_RECEIVE_QUEUE_H
#define VB_QUEUE_RECEIVE_QUEUE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "profiles/limits.h"
#include "queue/allocator.h"

struct vb_receive_wqe {
	uint64_t wr_id;
	uint64_t length;                 /* sum of the list */
	uint32_t sge_count;
	struct ibv_sge list[];           /* max_sge of the queue */
};

struct vb_receive_queue {
	uint8_t *slots;
	uint32_t stride;
	uint32_t mask;
	uint32_t max_wr, max_sge;
	uint32_t head, tail;
	struct vb_allocation memory;
};

/* A receive that a message has taken: a copy, so that the slot is free at once and shared queues need no lock later. */
struct vb_taken_receive {
	uint64_t wr_id;
	uint64_t length;
	uint32_t sge_count;
	struct ibv_sge list[VB_MAX_SGE];
};

/* `what`: of a queue pair, or shared. */
int vb_receive_queue_init(struct vb_receive_queue *queue, uint32_t max_wr, uint32_t max_sge, const struct vb_allocator *allocator,
			  enum vb_allocated what);
void vb_receive_queue_fini(struct vb_receive_queue *queue);

static inline uint32_t vb_receive_queue_count(const struct vb_receive_queue *queue)
{
	return queue->head - queue->tail;
}

static inline struct vb_receive_wqe *vb_receive_queue_at(const struct vb_receive_queue *queue, uint32_t index)
{
	return (struct vb_receive_wqe *)(void *)(queue->slots + (size_t)(index & queue->mask) * queue->stride);
}

/* The one that is taken next, or NULL; and without a copy of it, it is gone. */
static inline const struct vb_receive_wqe *vb_receive_queue_oldest(const struct vb_receive_queue *queue)
{
	return vb_receive_queue_count(queue) > 0 ? vb_receive_queue_at(queue, queue->tail) : NULL;
}
static inline void vb_receive_queue_drop(struct vb_receive_queue *queue) { queue->tail++; }

/* -ENOMEM: full. -EINVAL: too many elements. */
int vb_receive_queue_post(struct vb_receive_queue *queue, const struct ibv_recv_wr *wr);
bool vb_receive_queue_take(struct vb_receive_queue *queue, struct vb_taken_receive *taken);
int vb_receive_queue_resize(struct vb_receive_queue *queue, uint32_t max_wr);

#endif
