/* SPDX-License-Identifier: MIT
 *
 * Completion queues: a ring of completions under a lock of its own, and the arming rules of ibv_req_notify_cq.
 */
#ifndef VB_QUEUE_COMPLETION_QUEUE_H
#define VB_QUEUE_COMPLETION_QUEUE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/inline.h"
#include "base/lock.h"
#include "base/time.h"
#include "queue/allocator.h"
#include "queue/host.h"

struct vb_completion {
	uint64_t wr_id;
	enum ibv_wc_status status;
	enum ibv_wc_opcode opcode;
	uint32_t vendor_error;           /* enum vb_fault */
	uint32_t byte_length;
	uint32_t immediate;              /* imm_data (network order, as it came) or invalidated_rkey, by wc_flags; else the flow tag */
	uint32_t qpn, source_qpn;
	unsigned wc_flags;
	uint16_t pkey_index;
	uint8_t service_level;
	bool solicited;                  /* wakes a CQ armed for solicited events (errors always do) */
	union {
		uint32_t through;        /* of sends: the places before this one are free once it is polled */
		struct {                 /* of receives; 0: there are no LIDs */
			uint16_t slid;
			uint8_t dlid_path_bits;
		};
	};
	uint32_t *released;              /* of sends: where to say so; its queue pair outlives it (vb_cq_discard). NULL: a receive */
	vb_time timestamp;
};
_Static_assert(sizeof(struct vb_completion) == 64, "a completion is a cache line");

enum vb_cq_armed { VB_CQ_UNARMED, VB_CQ_ARMED_SOLICITED, VB_CQ_ARMED_ANY };

struct vb_cq {
	struct vb_lock lock;
	struct vb_completion *ring;
	uint32_t capacity;               /* entries granted; the ring holds a power of two >= this */
	uint32_t ring_mask;
	uint32_t head, tail;             /* free running: head is the next to write, tail the next to poll */
	enum vb_cq_armed armed;          /* atomic, as is the next: vb_cq_lets_pass */
	bool overrun;                    /* a completion was lost: CQ_ERR was raised, pushes are refused */
	bool event_owed;                 /* moderation: an event waits for count or period */
	uint16_t moderation_count, moderation_period; /* completions; microseconds. 0: every completion */
	uint32_t moderation_pending;
	vb_time moderation_deadline;
	uint32_t users;                  /* atomic: queue pairs attached */
	const struct vb_queue_host *host;
	void *owner;                     /* the public object */
	void *poller;                    /* for the link that makes progress when it is polled; NULL: nothing */
	struct vb_allocation memory;     /* of the ring */
};

/* capacity: 1 to what the profile grants. allocator: of its memory, or NULL. 0 or -errno. */
int vb_cq_init_in(struct vb_cq *cq, const struct vb_queue_host *host, void *owner, uint32_t capacity,
		  const struct vb_allocator *allocator);
static inline int vb_cq_init(struct vb_cq *cq, const struct vb_queue_host *host, void *owner, uint32_t capacity)
{
	return vb_cq_init_in(cq, host, owner, capacity, NULL);
}
void vb_cq_fini(struct vb_cq *cq);

/* -EINVAL: fewer than are waiting, or out of range. */
int vb_cq_resize(struct vb_cq *cq, uint32_t capacity);

/* Add. false: the CQ is full (or was): the completion is lost, CQ_ERR is raised once, and the caller puts its QP into
 * the error state. Takes cq->lock. */
bool vb_cq_push(struct vb_cq *cq, const struct vb_completion *completion);

/* Take up to `room` completions as the public struct. Takes cq->lock. */
int vb_cq_poll(struct vb_cq *cq, int room, struct ibv_wc *wc);

/* For extended polling: the oldest, in place of the one that was taken before (at first all zero). False: there is
 * none. Its timestamp is never before that of the former: threads that complete work read the clock before they take
 * the lock. Takes cq->lock. */
bool vb_cq_take(struct vb_cq *cq, struct vb_completion *current);

/* Arm for the next completion (any, or solicited and errors). A completion that is already waiting does not fire:
 * ibv_req_notify_cq(3) tells callers to poll again after arming; it does when that poll takes several and leaves
 * some. Arming for any is not weakened by solicited. */
void vb_cq_arm(struct vb_cq *cq, bool solicited_only);
/* True: it was armed, and is not any more; no event was raised for that, nor will be. */
bool vb_cq_disarm(struct vb_cq *cq);

void vb_cq_moderate(struct vb_cq *cq, uint16_t count, uint16_t period_microseconds);
/* The deadline given to host->completion_deadline has come. */
void vb_cq_expire(struct vb_cq *cq, vb_time now);

/* Drop the waiting completions of a QP that is reset or destroyed. */
void vb_cq_discard(struct vb_cq *cq, uint32_t qpn);

/* In line: what was just put together need not go through memory. */
VB_INLINE void vb_completion_to_wc(const struct vb_completion *completion, struct ibv_wc *wc)
{
	wc->wr_id = completion->wr_id;
	wc->status = completion->status;
	wc->opcode = completion->opcode;
	wc->vendor_err = completion->vendor_error;
	wc->byte_len = completion->byte_length;
	if (completion->wc_flags & IBV_WC_WITH_INV)
		wc->invalidated_rkey = completion->immediate;
	else
		wc->imm_data = completion->immediate;
	wc->qp_num = completion->qpn;
	wc->src_qp = completion->source_qpn;
	wc->wc_flags = completion->wc_flags;
	wc->pkey_index = completion->pkey_index;
	wc->sl = completion->service_level;
	wc->slid = completion->released ? 0 : completion->slid;
	wc->dlid_path_bits = completion->released ? 0 : completion->dlid_path_bits;
}

/* Lock-free hint for pollers. */
static inline bool vb_cq_looks_empty(const struct vb_cq *cq)
{
	return __atomic_load_n(&cq->head, __ATOMIC_ACQUIRE) == __atomic_load_n(&cq->tail, __ATOMIC_RELAXED);
}

/* May the thread that polls be handed a completion that was not in here? Nothing waits before it, and nothing but the
 * poller wants to know of it. Caller holds the lock of the queue pair that completes, whose earlier completions are
 * thus in here or polled. */
static inline bool vb_cq_lets_pass(const struct vb_cq *cq)
{
	/* Acquire: who polled the last of them has said which places of the send queue are free, and what is said now
	 * must come after it. Partner: the release in set_tail. */
	return __atomic_load_n(&cq->tail, __ATOMIC_ACQUIRE) == __atomic_load_n(&cq->head, __ATOMIC_RELAXED) &&
	       __atomic_load_n(&cq->armed, __ATOMIC_RELAXED) == VB_CQ_UNARMED &&
	       !__atomic_load_n(&cq->overrun, __ATOMIC_RELAXED) && !cq->host->observer;
}

#endif
