/* SPDX-License-Identifier: MIT
 *
 * Send work requests in a ring. A slot is reserved, filled, then committed with the rest of its list; it is
 * retired in order when its work is done. Protected by qp->lock.
 *
 * A retired slot is not free yet. The application learns that a request is finished from a completion of it or of a
 * later one (IBA 10.8.5.1), and adapters reuse places of the queue when that completion is polled, no earlier:
 * unsignaled requests keep theirs until then. So it is here, on all ways, or a program that never signals would fail
 * only on its first day with hardware.
 *
 * A list may also be put together without that lock (struct vb_send_list): in slots that are free, behind `head`, which
 * no engine looks at, by one thread at a time. `released` is the one thing it shares with the others. It says that a
 * slot's last reader is through with it: vb_send_queue_release, by who polled the completion that was made of it,
 * releases it, vb_send_list_add acquires it.
 */
#ifndef VB_QUEUE_SEND_QUEUE_H
#define VB_QUEUE_SEND_QUEUE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/time.h"
#include "memory/region.h"
#include "queue/allocator.h"
#include "wire/path.h"

struct vb_send_wqe {
	uint64_t wr_id;
	enum ibv_wr_opcode opcode;
	unsigned send_flags;             /* IBV_SEND_*; SIGNALED is set for all when sq_sig_all */
	uint32_t length;                 /* of the message */
	uint32_t sge_count;
	bool is_inline;                  /* the bytes stand where the list would: vb_send_wqe_inline() */
	struct be32 immediate;
	uint32_t invalidate_rkey;
	uint32_t srqn;                   /* XRC: the peer's shared receive queue */
	union {
		struct { uint64_t address; uint32_t rkey; } rdma;
		struct { uint64_t address, compare_or_add, swap; uint32_t rkey; } atomic; /* ATOMIC_WRITE: `swap` is what is written */
		struct { struct vb_path path; uint32_t qpn, qkey; uint8_t service_level; } datagram;
		struct vb_window_bind bind;
	};

	/* How far the engine is with it. What else it keeps of this work stands before the WQE (struct vb_transport,
	 * note_size). */
	bool started;
	bool done;                       /* finished, waiting for its turn to complete */
	vb_time started_at;
	struct ibv_sge list[];
};

struct vb_send_queue {
	uint8_t *slots;                  /* the first WQE; its note stands before it */
	uint32_t note_size;
	uint32_t stride;
	uint32_t mask;
	uint32_t max_wr, max_sge, max_inline;
	uint32_t reserved;               /* next to fill; head..reserved is a list under construction */
	uint32_t head;                   /* first not committed */
	uint32_t tail;                   /* oldest not retired */
	uint64_t bytes;                  /* of all messages of work that was retired with success */
	uint32_t released;               /* oldest that keeps its place. Atomic: who polls the CQ writes it, under cq->lock */
	struct vb_allocation memory;
};

/* Work under construction by the ibv_wr_* builders. Between begin and commit no other work enters the queue. */
struct vb_send_list {
	uint32_t first, count;
};

int vb_send_queue_init(struct vb_send_queue *queue, uint32_t max_wr, uint32_t max_sge, uint32_t max_inline, uint32_t note_size,
		       const struct vb_allocator *allocator);
void vb_send_queue_fini(struct vb_send_queue *queue);

static inline struct vb_send_wqe *vb_send_queue_at(const struct vb_send_queue *queue, uint32_t index)
{
	return (struct vb_send_wqe *)(void *)(queue->slots + (size_t)(index & queue->mask) * queue->stride);
}

/* Where the engine keeps its note on a WQE: `size` bytes, which it writes when it starts the work; they are not cleared before. */
static inline void *vb_send_wqe_note(const struct vb_send_wqe *wqe, size_t size)
{
	return (uint8_t *)(uintptr_t)wqe - size;
}

static inline uint8_t *vb_send_wqe_inline(struct vb_send_wqe *wqe)
{
	return (uint8_t *)wqe->list;
}

/* NULL: full. The slot's fixed part comes zeroed. */
struct vb_send_wqe *vb_send_queue_reserve(struct vb_send_queue *queue);
static inline void vb_send_queue_commit(struct vb_send_queue *queue) { queue->head = queue->reserved; }
/* Places taken: by work to do, and by work that is done and not known to be. */
static inline uint32_t vb_send_queue_occupied(const struct vb_send_queue *queue)
{
	return queue->reserved - __atomic_load_n(&queue->released, __ATOMIC_RELAXED);
}
static inline bool vb_send_queue_is_full(const struct vb_send_queue *queue)
{
	return vb_send_queue_occupied(queue) >= queue->max_wr;
}
/* The places before `through` are free: the application has a completion that speaks for them. */
static inline void vb_send_queue_release(uint32_t *released, uint32_t through)
{
	__atomic_store_n(released, through, __ATOMIC_RELEASE);
}
static inline uint32_t vb_send_queue_count(const struct vb_send_queue *queue) { return queue->head - queue->tail; }
/* The oldest is done, and its slot is not looked at again. */
static inline void vb_send_queue_retire(struct vb_send_queue *queue)
{
	queue->tail++;
}

/* A request that was done when it was posted, and that no completion speaks of: it keeps a place like any other. The
 * queue is empty and has room. */
static inline void vb_send_queue_skip(struct vb_send_queue *queue, uint32_t length)
{
	queue->bytes += length;
	queue->tail = queue->head = ++queue->reserved;
}

static inline void vb_send_list_begin(struct vb_send_list *list, const struct vb_send_queue *queue)
{
	*list = (struct vb_send_list){.first = queue->head};
}
/* NULL: full. The slot's fixed part comes zeroed. */
struct vb_send_wqe *vb_send_list_add(struct vb_send_list *list, const struct vb_send_queue *queue);

#endif
