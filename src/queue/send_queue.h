/* SPDX-License-Identifier: MIT
 *
 * Send work requests in a ring. A slot is reserved, filled, then committed with the rest of its list; it is
 * retired in order when its work is done. Protected by qp->lock.
 */
#ifndef VB_QUEUE_SEND_QUEUE_H
#define VB_QUEUE_SEND_QUEUE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/time.h"
#include "memory/region.h"
#include "wire/path.h"
#include "wire/psn.h"

struct vb_send_wqe {
	uint64_t wr_id;
	enum ibv_wr_opcode opcode;
	unsigned send_flags;             /* IBV_SEND_*; SIGNALED is set for all when sq_sig_all */
	uint32_t length;                 /* of the message */
	uint32_t sge_count;
	bool is_inline;                  /* the bytes stand where the list would: vb_send_wqe_inline() */
	struct be32 immediate;
	uint32_t invalidate_rkey;
	union {
		struct { uint64_t address; uint32_t rkey; } rdma;
		struct { uint64_t address, compare_or_add, swap; uint32_t rkey; } atomic;
		struct { struct vb_path path; uint32_t qpn, qkey; uint8_t service_level; } datagram;
		struct vb_window_bind bind;
	};

	/* The engine's notes on this work. */
	struct psn first_psn;
	uint32_t packets;                /* PSNs it takes: requests sent, or responses expected */
	uint32_t progress;               /* of a read: response packets placed so far */
	uint32_t receives_through;       /* messages that take a receive, from the first to this one: for credits */
	bool started;                    /* first_psn and packets are set */
	bool done;                       /* finished, waiting for its turn to complete */
	uint32_t record;                 /* same host: number of the record it was left as, low half */
	vb_time started_at;
	struct ibv_sge list[];
};

struct vb_send_queue {
	uint8_t *slots;
	uint32_t stride;
	uint32_t mask;
	uint32_t max_wr, max_sge, max_inline;
	uint32_t reserved;               /* next to fill; head..reserved is a list under construction */
	uint32_t head;                   /* first not committed */
	uint32_t tail;                   /* oldest not retired */
};

int vb_send_queue_init(struct vb_send_queue *queue, uint32_t max_wr, uint32_t max_sge, uint32_t max_inline);
void vb_send_queue_fini(struct vb_send_queue *queue);

static inline struct vb_send_wqe *vb_send_queue_at(const struct vb_send_queue *queue, uint32_t index)
{
	return (struct vb_send_wqe *)(void *)(queue->slots + (size_t)(index & queue->mask) * queue->stride);
}

static inline uint8_t *vb_send_wqe_inline(struct vb_send_wqe *wqe)
{
	return (uint8_t *)wqe->list;
}

/* NULL: full. The slot's fixed part comes zeroed. */
struct vb_send_wqe *vb_send_queue_reserve(struct vb_send_queue *queue);
static inline void vb_send_queue_commit(struct vb_send_queue *queue) { queue->head = queue->reserved; }
static inline void vb_send_queue_abort(struct vb_send_queue *queue) { queue->reserved = queue->head; }
static inline uint32_t vb_send_queue_count(const struct vb_send_queue *queue) { return queue->head - queue->tail; }

#endif
