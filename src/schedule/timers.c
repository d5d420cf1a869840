/* SPDX-License-Identifier: MIT
 *
 * See timers.h. A QP knows its place in the heap (qp->timer_index) and when its entry fires (qp->timer_armed).
 */
#include "schedule/timers.h"

#include <errno.h>
#include <stdlib.h>

#include "queue/qp.h"

enum { FIRST_ROOM = 64 };

void vb_timers_init(struct vb_timers *timers)
{
	*timers = (struct vb_timers){.next = VB_TIME_NEVER};
	vb_mutex_init(&timers->lock, VB_RANK_TIMERS);
}

void vb_timers_fini(struct vb_timers *timers)
{
	vb_mutex_fini(&timers->lock);
	free(timers->heap);
	free(timers->cq);
}

int vb_timers_reserve(struct vb_timers *timers, uint32_t queue_pairs)
{
	int error = 0;

	vb_mutex_lock(&timers->lock);
	if (queue_pairs + 1 > timers->room) {
		uint32_t room = timers->room ? timers->room : FIRST_ROOM;
		struct vb_timer_entry *heap;

		while (room < queue_pairs + 1)
			room *= 2;
		heap = realloc(timers->heap, room * sizeof(*heap));
		if (heap) {
			timers->heap = heap;
			timers->room = room;
		} else {
			error = -ENOMEM;
		}
	}
	vb_mutex_unlock(&timers->lock);
	return error;
}

/* Caller holds the lock, here and below. */
static void put(struct vb_timers *timers, uint32_t at, struct vb_timer_entry entry)
{
	timers->heap[at] = entry;
	entry.qp->timer_index = at;
}

static void sift_up(struct vb_timers *timers, uint32_t at, struct vb_timer_entry entry)
{
	while (at > 1 && timers->heap[at / 2].when > entry.when) {
		put(timers, at, timers->heap[at / 2]);
		at /= 2;
	}
	put(timers, at, entry);
}

static void sift_down(struct vb_timers *timers, uint32_t at, struct vb_timer_entry entry)
{
	for (uint32_t child; (child = 2 * at) <= timers->count; at = child) {
		if (child < timers->count && timers->heap[child + 1].when < timers->heap[child].when)
			child++;
		if (timers->heap[child].when >= entry.when)
			break;
		put(timers, at, timers->heap[child]);
	}
	put(timers, at, entry);
}

static void take_out(struct vb_timers *timers, struct vb_qp *qp)
{
	uint32_t at = qp->timer_index;
	struct vb_timer_entry last = timers->heap[timers->count--];

	if (last.qp != qp) {
		if (at > 1 && timers->heap[at / 2].when > last.when)
			sift_up(timers, at, last);
		else
			sift_down(timers, at, last);
	}
	qp->timer_index = 0;
	__atomic_store_n(&qp->timer_armed, VB_TIME_NEVER, __ATOMIC_RELAXED);
}

static void update_next(struct vb_timers *timers)
{
	vb_time next = timers->count ? timers->heap[1].when : VB_TIME_NEVER;

	for (uint32_t i = 0; i < timers->cq_count; i++)
		next = vb_time_earlier(next, timers->cq[i].when);
	__atomic_store_n(&timers->next, next, __ATOMIC_RELAXED);
}

/* One wake-up is enough: the sleeper then looks at everything. */
static bool sleeper_must_wake(struct vb_timers *timers, vb_time when)
{
	if (when >= timers->sleeper)
		return false;
	timers->sleeper = 0;
	return true;
}

bool vb_timers_arm(struct vb_timers *timers, struct vb_qp *qp, vb_time when)
{
	struct vb_timer_entry entry = {when, qp};
	bool wake;

	/* Fires early enough already. A firing that races with this asks the engine afterwards, under qp->lock,
	 * which the caller holds. */
	if (when >= __atomic_load_n(&qp->timer_armed, __ATOMIC_RELAXED))
		return false;
	vb_mutex_lock(&timers->lock);
	__atomic_store_n(&qp->timer_armed, when, __ATOMIC_RELAXED);
	sift_up(timers, qp->timer_index ? qp->timer_index : ++timers->count, entry);
	update_next(timers);
	wake = sleeper_must_wake(timers, when);
	vb_mutex_unlock(&timers->lock);
	return wake;
}

void vb_timers_disarm(struct vb_timers *timers, struct vb_qp *qp)
{
	vb_mutex_lock(&timers->lock);
	if (qp->timer_index != 0) {
		take_out(timers, qp);
		update_next(timers);
	}
	vb_mutex_unlock(&timers->lock);
}

struct vb_qp *vb_timers_pop(struct vb_timers *timers, vb_time now)
{
	struct vb_qp *qp = NULL;

	vb_mutex_lock(&timers->lock);
	if (timers->count > 0 && timers->heap[1].when <= now) {
		qp = timers->heap[1].qp;
		take_out(timers, qp);
		update_next(timers);
	}
	vb_mutex_unlock(&timers->lock);
	return qp;
}

/* Without memory the list cannot grow; the event is then late until the next completion, not lost. */
static struct vb_cq_timer *find_cq(struct vb_timers *timers, struct vb_cq *cq, bool make)
{
	for (uint32_t i = 0; i < timers->cq_count; i++)
		if (timers->cq[i].cq == cq)
			return &timers->cq[i];
	if (!make)
		return NULL;
	if (timers->cq_count == timers->cq_room) {
		uint32_t room = timers->cq_room ? timers->cq_room * 2 : 16;
		struct vb_cq_timer *larger = realloc(timers->cq, room * sizeof(*larger));

		if (!larger)
			return NULL;
		timers->cq = larger;
		timers->cq_room = room;
	}
	timers->cq[timers->cq_count] = (struct vb_cq_timer){VB_TIME_NEVER, cq};
	return &timers->cq[timers->cq_count++];
}

bool vb_timers_arm_cq(struct vb_timers *timers, struct vb_cq *cq, vb_time when)
{
	struct vb_cq_timer *timer;
	bool wake = false;

	vb_mutex_lock(&timers->lock);
	timer = find_cq(timers, cq, when != VB_TIME_NEVER);
	if (timer && when == VB_TIME_NEVER) {
		*timer = timers->cq[--timers->cq_count];
	} else if (timer) {
		timer->when = when;
		wake = sleeper_must_wake(timers, when);
	}
	update_next(timers);
	vb_mutex_unlock(&timers->lock);
	return wake;
}

struct vb_cq *vb_timers_pop_cq(struct vb_timers *timers, vb_time now)
{
	struct vb_cq *cq = NULL;

	vb_mutex_lock(&timers->lock);
	for (uint32_t i = 0; i < timers->cq_count && !cq; i++) {
		if (timers->cq[i].when > now)
			continue;
		cq = timers->cq[i].cq;
		timers->cq[i] = timers->cq[--timers->cq_count];
		update_next(timers);
	}
	vb_mutex_unlock(&timers->lock);
	return cq;
}

vb_time vb_timers_sleep(struct vb_timers *timers)
{
	vb_time until;

	vb_mutex_lock(&timers->lock);
	until = timers->sleeper = timers->next;
	vb_mutex_unlock(&timers->lock);
	return until;
}

void vb_timers_awake(struct vb_timers *timers)
{
	vb_mutex_lock(&timers->lock);
	timers->sleeper = 0;
	vb_mutex_unlock(&timers->lock);
}
