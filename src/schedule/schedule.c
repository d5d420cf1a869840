/* SPDX-License-Identifier: MIT
 *
 * See schedule.h.
 */
#include "schedule/schedule.h"

#include "io/clock.h"
#include "io/event.h"

void vb_schedule_init(struct vb_schedule *schedule)
{
	vb_lock_init(&schedule->progress, VB_RANK_PROGRESS);
	for (unsigned i = 0; i < VB_DAEMON_LANES; i++) {
		struct vb_lane *lane = &schedule->lane[i];

		vb_lock_init(&lane->own, VB_RANK_LANE);
		lane->lock = i == 0 ? &schedule->progress : &lane->own;
		vb_lock_init(&lane->active_lock, VB_RANK_ACTIVE);
		vb_list_init(&lane->active);
	}
	schedule->lanes = 1;
	vb_timers_init(&schedule->timers);
	schedule->event_fd = -1;
}

void vb_schedule_fini(struct vb_schedule *schedule)
{
	vb_timers_fini(&schedule->timers);
}

vb_time vb_schedule_yield(void)
{
	vb_time before = vb_clock_now(), after;

	vb_thread_yield();
	after = vb_clock_now();
	vb_spinner_yielded(after - before);
	return after;
}

void vb_schedule_kick(struct vb_schedule *schedule)
{
	vb_event_raise(schedule->event_fd);
}

static struct vb_lane *lane_of(struct vb_schedule *schedule, const struct vb_qp *qp)
{
	const struct vb_binding *binding = qp->scheduler;

	return &schedule->lane[binding ? __atomic_load_n(&binding->lane, __ATOMIC_RELAXED) : 0];
}

/* Most belong to lane 0 for good: then all of this is under the lock of one list. */
static bool may_change_lanes(const struct vb_qp *qp)
{
	const struct vb_binding *binding = qp->scheduler;

	return binding && binding->home > 0;
}

/* Of one that may change its lane, `is_active` says who may touch `active` and `active_lane`: who has made it true until they are in a
 * list, then the holder of that list's lock. With acquire and release: the next one finds what the one before has left. */
uint32_t vb_schedule_enlist(struct vb_schedule *schedule, struct vb_qp *qp)
{
	struct vb_lane *lane = lane_of(schedule, qp);
	bool changes = may_change_lanes(qp);
	uint32_t count = 0;

	if (__atomic_load_n(&qp->is_active, __ATOMIC_RELAXED) || (changes && __atomic_exchange_n(&qp->is_active, true, __ATOMIC_ACQ_REL)))
		return 0;
	vb_lock_take(&lane->active_lock);
	if (changes || !__atomic_load_n(&qp->is_active, __ATOMIC_RELAXED)) {
		vb_list_append(&lane->active, &qp->active);
		__atomic_store_n(&qp->is_active, true, __ATOMIC_RELAXED);
		__atomic_store_n(&qp->active_lane, (uint8_t)(lane - schedule->lane), __ATOMIC_RELAXED);
		count = __atomic_add_fetch(&lane->active_count, 1, __ATOMIC_SEQ_CST);
	}
	vb_lock_release(&lane->active_lock);
	return count;
}

void vb_schedule_mark_active(struct vb_schedule *schedule, struct vb_qp *qp)
{
	if (vb_schedule_enlist(schedule, qp) == 1)
		vb_schedule_kick(schedule);
}

unsigned vb_schedule_note_post(struct vb_schedule *schedule, vb_time now)
{
	if (vb_spinner_note_post(&schedule->spinner, now))
		__atomic_store_n(&schedule->spinner.ran_on, vb_thread_cpu() + 1, __ATOMIC_RELAXED);
	return vb_spinner_count_post(&schedule->spinner);
}

int vb_schedule_application_cpu(const struct vb_schedule *schedule)
{
	return __atomic_load_n(&schedule->spinner.ran_on, __ATOMIC_RELAXED) - 1;
}

/* Until the next pass, which a thread that polls will make in a moment, and the engine thread after VB_LONGEST_PUT_OFF at the latest
 * (schedule/naps.h) if that thread has stopped. If the engine thread does not nap it is told once, and makes the pass or
 * naps from then on. Where no thread has polled for a while there is none to wait for. */
bool vb_schedule_defer(struct vb_schedule *schedule, struct vb_qp *qp, vb_time now)
{
	struct vb_spinner *spinner = &schedule->spinner;

	vb_lock_assert_held(&qp->lock);
	if (!vb_spinner_may_put_off(spinner, now))
		return false;
	/* Most likely it is put off already, with what was posted before. Who takes it out of the list takes its lock, which we have,
	 * before it sends: this is among it then. */
	if (__atomic_load_n(&qp->is_active, __ATOMIC_RELAXED))
		return true;
	/* Still napping, or told and not yet back: then it will see the count before it sleeps. All are sequentially consistent on both
	 * sides. */
	if (vb_schedule_enlist(schedule, qp) > 0 && !__atomic_load_n(&spinner->napping, __ATOMIC_SEQ_CST) &&
	    !__atomic_exchange_n(&schedule->told, true, __ATOMIC_SEQ_CST))
		vb_schedule_kick(schedule);
	return true;
}

bool vb_schedule_waits(const struct vb_schedule *schedule)
{
	for (uint32_t i = 0, lanes = __atomic_load_n(&schedule->lanes, __ATOMIC_SEQ_CST); i < lanes; i++)
		if (__atomic_load_n(&schedule->lane[i].active_count, __ATOMIC_SEQ_CST) > 0)
			return true;
	return false;
}

bool vb_schedule_has_active(struct vb_schedule *schedule)
{
	__atomic_store_n(&schedule->told, false, __ATOMIC_SEQ_CST);
	return vb_schedule_waits(schedule);
}

bool vb_schedule_is_enlisted(const struct vb_qp *qp)
{
	return __atomic_load_n(&qp->is_active, __ATOMIC_ACQUIRE);
}

/* Caller holds the lane's active_lock. */
static void take_out(struct vb_lane *lane, struct vb_qp *qp)
{
	vb_list_remove(&qp->active);
	__atomic_store_n(&qp->active_lane, VB_NO_LANE, __ATOMIC_RELAXED);
	__atomic_sub_fetch(&lane->active_count, 1, __ATOMIC_SEQ_CST);
	if (may_change_lanes(qp))
		__atomic_store_n(&qp->is_active, false, __ATOMIC_RELEASE);
	else
		__atomic_store_n(&qp->is_active, false, __ATOMIC_RELAXED);
}

/* True: it was there, and is not any more. */
static bool forget_in(struct vb_lane *lane, struct vb_qp *qp, uint8_t number)
{
	bool found;

	vb_lock_take(&lane->active_lock);
	found = __atomic_load_n(&qp->is_active, __ATOMIC_RELAXED) && __atomic_load_n(&qp->active_lane, __ATOMIC_RELAXED) == number;
	if (found)
		take_out(lane, qp);
	vb_lock_release(&lane->active_lock);
	return found;
}

/* Of one that may change its lane: another thread may be about to put it into a list, which is waited for. One that is withdrawn may have
 * been such a one. */
void vb_schedule_forget(struct vb_schedule *schedule, struct vb_qp *qp)
{
	if (qp->scheduler && !may_change_lanes(qp)) {
		(void)forget_in(&schedule->lane[0], qp, 0);
		return;
	}
	while (__atomic_load_n(&qp->is_active, __ATOMIC_ACQUIRE)) {
		uint8_t number = __atomic_load_n(&qp->active_lane, __ATOMIC_RELAXED);

		if (number == VB_NO_LANE)
			vb_lock_relax();
		else if (forget_in(&schedule->lane[number], qp, number))
			return;
	}
}

struct vb_qp *vb_schedule_next_active(struct vb_lane *lane)
{
	struct vb_qp *qp = NULL;

	if (__atomic_load_n(&lane->active_count, __ATOMIC_SEQ_CST) == 0)
		return NULL;
	vb_lock_take(&lane->active_lock);
	if (!vb_list_is_empty(&lane->active)) {
		qp = vb_container_of(lane->active.next, struct vb_qp, active);
		take_out(lane, qp);
	}
	vb_lock_release(&lane->active_lock);
	return qp;
}

void vb_schedule_arm(struct vb_schedule *schedule, struct vb_qp *qp, vb_time deadline)
{
	if (deadline != VB_TIME_NEVER && vb_timers_arm(&schedule->timers, qp, deadline))
		vb_schedule_kick(schedule);
}

void vb_schedule_note_probe(struct vb_schedule *schedule, struct vb_lane *lane, uint64_t nonce)
{
	vb_lock_assert_held(lane->lock);
	if (lane->probes == VB_KEPT_PROBES)
		return;
	lane->probe[lane->probes++] = nonce;
	vb_schedule_kick(schedule);
}
