/* SPDX-License-Identifier: MIT
 *
 * A completion enters by vb_cq_push (engines, flushes) and leaves by vb_cq_poll. Both move free-running counters under
 * cq->lock; the counters are stored atomically only so that vb_cq_looks_empty may glance at them.
 *
 * Events: arming is one shot. A completion that fits what was armed for makes an event due; moderation may hold it
 * back until enough completions or enough time have passed.
 */
#include "queue/completion_queue.h"

#include <errno.h>
#include <string.h>

#include "profiles/profile.h"
#include "queue/observer.h"
#include "queue/send_queue.h"

static uint32_t round_up_to_power_of_two(uint32_t n)
{
	uint32_t power = 1;

	while (power < n)
		power *= 2;
	return power;
}

static uint32_t waiting(const struct vb_cq *cq)
{
	return cq->head - cq->tail;
}

static void set_head(struct vb_cq *cq, uint32_t head)
{
	/* Release: partner of the acquire in vb_cq_looks_empty. */
	__atomic_store_n(&cq->head, head, __ATOMIC_RELEASE);
}

static void set_tail(struct vb_cq *cq, uint32_t tail)
{
	__atomic_store_n(&cq->tail, tail, __ATOMIC_RELEASE);
}

static void set_armed(struct vb_cq *cq, enum vb_cq_armed armed)
{
	__atomic_store_n(&cq->armed, armed, __ATOMIC_RELAXED);
}

int vb_cq_init_in(struct vb_cq *cq, const struct vb_queue_host *host, void *owner, uint32_t capacity,
		  const struct vb_allocator *allocator)
{
	uint32_t slots;

	if (capacity < 1 || capacity > host->profile->limits.cqe)
		return -EINVAL;
	memset(cq, 0, sizeof(*cq));
	slots = round_up_to_power_of_two(capacity);
	if (!vb_allocate(&cq->memory, allocator, VB_ALLOCATED_CQ, slots, sizeof(*cq->ring)))
		return -ENOMEM;
	cq->ring = cq->memory.bytes;
	cq->capacity = capacity;
	cq->ring_mask = slots - 1;
	cq->moderation_deadline = VB_TIME_NEVER;
	cq->host = host;
	cq->owner = owner;
	vb_lock_init(&cq->lock, VB_RANK_CQ);
	return 0;
}

void vb_cq_fini(struct vb_cq *cq)
{
	vb_release(&cq->memory);
	cq->ring = NULL;
}

int vb_cq_resize(struct vb_cq *cq, uint32_t capacity)
{
	struct vb_allocation memory, old;
	struct vb_completion *ring;
	uint32_t slots, count;

	if (capacity < 1 || capacity > cq->host->profile->limits.cqe)
		return -EINVAL;
	slots = round_up_to_power_of_two(capacity);
	if (!vb_allocate(&memory, cq->memory.allocator, VB_ALLOCATED_CQ, slots, sizeof(*ring)))
		return -ENOMEM;
	ring = memory.bytes;
	vb_lock_take(&cq->lock);
	count = waiting(cq);
	if (count > capacity) {
		vb_lock_release(&cq->lock);
		vb_release(&memory);
		return -EINVAL;
	}
	for (uint32_t i = 0; i < count; i++)
		ring[(cq->tail + i) & (slots - 1)] = cq->ring[(cq->tail + i) & cq->ring_mask];
	old = cq->memory;
	cq->memory = memory;
	cq->ring = ring;
	cq->ring_mask = slots - 1;
	cq->capacity = capacity;
	vb_lock_release(&cq->lock);
	vb_release(&old);
	return 0;
}

/* Caller holds cq->lock. */
VB_APART static void fire(struct vb_cq *cq)
{
	set_armed(cq, VB_CQ_UNARMED);
	cq->event_owed = false;
	cq->moderation_pending = 0;
	cq->moderation_deadline = VB_TIME_NEVER;
	cq->host->completion_event(cq);
}

static bool is_due(const struct vb_cq *cq)
{
	if (cq->moderation_count == 0)
		return cq->moderation_period == 0;
	return cq->moderation_pending >= cq->moderation_count;
}

/* Caller holds cq->lock. */
static void notify(struct vb_cq *cq, const struct vb_completion *completion)
{
	if (cq->armed == VB_CQ_UNARMED)
		return;
	/* ibv_req_notify_cq(3): solicited_only wakes for solicited completions and for those in error. */
	if (cq->armed == VB_CQ_ARMED_SOLICITED && !completion->solicited && completion->status == IBV_WC_SUCCESS)
		return;
	cq->moderation_pending++;
	if (is_due(cq)) {
		fire(cq);
	} else if (!cq->event_owed) {
		cq->event_owed = true;
		if (cq->moderation_period > 0) {
			cq->moderation_deadline = completion->timestamp + VB_MICROSECONDS(cq->moderation_period);
			cq->host->completion_deadline(cq, cq->moderation_deadline);
		}
	}
}

bool vb_cq_push(struct vb_cq *cq, const struct vb_completion *completion)
{
	bool taken = false;

	vb_lock_take(&cq->lock);
	if (!cq->overrun && waiting(cq) < cq->capacity) {
		cq->ring[cq->head & cq->ring_mask] = *completion;
		set_head(cq, cq->head + 1);
		notify(cq, completion);
		taken = true;
		if (cq->host->observer)
			cq->host->observer->completed(cq->host->observer, completion);
	} else if (!cq->overrun) {
		/* IBA 10.4.2: an overrun is told once, as an affiliated error of the CQ. */
		__atomic_store_n(&cq->overrun, true, __ATOMIC_RELAXED);
		cq->host->cq_event(cq, IBV_EVENT_CQ_ERR);
	}
	vb_lock_release(&cq->lock);
	return taken;
}

/* The application has it: the places that it speaks for are free. */
static void release(const struct vb_completion *completion)
{
	if (completion->released)
		vb_send_queue_release(completion->released, completion->through);
}

int vb_cq_poll(struct vb_cq *cq, int room, struct ibv_wc *wc)
{
	int taken = 0;

	if (vb_cq_looks_empty(cq))
		return 0;
	vb_lock_take(&cq->lock);
	for (; taken < room && waiting(cq) > 0; taken++) {
		const struct vb_completion *completion = &cq->ring[cq->tail & cq->ring_mask];

		vb_completion_to_wc(completion, &wc[taken]);
		release(completion);
		set_tail(cq, cq->tail + 1);
	}
	/* Programs are about (perftest) that arm, take one handful and sleep again, counting on an event for the rest:
	 * adapters give one because completions take their time to come. Through memory they are all there at once. A
	 * program that polls one by one goes on to the end. */
	if (room > 1 && taken == room && waiting(cq) > 0 && cq->armed == VB_CQ_ARMED_ANY)
		fire(cq);
	vb_lock_release(&cq->lock);
	return taken;
}

bool vb_cq_take(struct vb_cq *cq, struct vb_completion *current)
{
	vb_time before = current->timestamp;
	bool found;

	vb_lock_take(&cq->lock);
	found = waiting(cq) > 0;
	if (found) {
		*current = cq->ring[cq->tail & cq->ring_mask];
		release(current);
		set_tail(cq, cq->tail + 1);
	}
	vb_lock_release(&cq->lock);
	if (current->timestamp < before)
		current->timestamp = before;
	return found;
}

void vb_cq_arm(struct vb_cq *cq, bool solicited_only)
{
	vb_lock_take(&cq->lock);
	if (!solicited_only)
		set_armed(cq, VB_CQ_ARMED_ANY);
	else if (cq->armed == VB_CQ_UNARMED)
		set_armed(cq, VB_CQ_ARMED_SOLICITED);
	vb_lock_release(&cq->lock);
}

bool vb_cq_disarm(struct vb_cq *cq)
{
	bool disarms;

	vb_lock_take(&cq->lock);
	disarms = cq->armed != VB_CQ_UNARMED && !cq->event_owed;
	if (disarms)
		set_armed(cq, VB_CQ_UNARMED);
	vb_lock_release(&cq->lock);
	return disarms;
}

void vb_cq_moderate(struct vb_cq *cq, uint16_t count, uint16_t period_microseconds)
{
	vb_lock_take(&cq->lock);
	cq->moderation_count = count;
	cq->moderation_period = period_microseconds;
	/* What waited under the old rule is told now: under the new one it might wait forever. */
	if (cq->event_owed)
		fire(cq);
	vb_lock_release(&cq->lock);
}

void vb_cq_expire(struct vb_cq *cq, vb_time now)
{
	vb_lock_take(&cq->lock);
	if (cq->event_owed && cq->moderation_deadline != VB_TIME_NEVER) {
		if (now >= cq->moderation_deadline)
			fire(cq);
		else
			cq->host->completion_deadline(cq, cq->moderation_deadline);
	}
	vb_lock_release(&cq->lock);
}

void vb_cq_discard(struct vb_cq *cq, uint32_t qpn)
{
	uint32_t to;

	vb_lock_take(&cq->lock);
	to = cq->tail;
	for (uint32_t from = cq->tail; from != cq->head; from++) {
		const struct vb_completion *completion = &cq->ring[from & cq->ring_mask];

		if (completion->qpn != qpn)
			cq->ring[to++ & cq->ring_mask] = *completion;
	}
	set_head(cq, to);
	vb_lock_release(&cq->lock);
}
