/* SPDX-License-Identifier: MIT
 *
 * See schedule.h.
 */
#include "schedule/schedule.h"

#include "io/event.h"

void vb_schedule_init(struct vb_schedule *schedule)
{
	vb_lock_init(&schedule->progress, VB_RANK_PROGRESS);
	vb_lock_init(&schedule->active_lock, VB_RANK_ACTIVE);
	vb_list_init(&schedule->active);
	vb_timers_init(&schedule->timers);
	schedule->event_fd = -1;
}

void vb_schedule_fini(struct vb_schedule *schedule)
{
	vb_timers_fini(&schedule->timers);
}

void vb_schedule_kick(struct vb_schedule *schedule)
{
	vb_event_raise(schedule->event_fd);
}

uint32_t vb_schedule_enlist(struct vb_schedule *schedule, struct vb_qp *qp)
{
	uint32_t count = 0;

	vb_lock_take(&schedule->active_lock);
	if (vb_list_is_empty(&qp->active)) {
		vb_list_append(&schedule->active, &qp->active);
		__atomic_store_n(&qp->is_active, true, __ATOMIC_RELAXED);
		count = __atomic_add_fetch(&schedule->active_count, 1, __ATOMIC_SEQ_CST);
	}
	vb_lock_release(&schedule->active_lock);
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

bool vb_schedule_has_active(struct vb_schedule *schedule)
{
	__atomic_store_n(&schedule->told, false, __ATOMIC_SEQ_CST);
	return __atomic_load_n(&schedule->active_count, __ATOMIC_SEQ_CST) > 0;
}

bool vb_schedule_is_enlisted(struct vb_schedule *schedule, const struct vb_qp *qp)
{
	bool enlisted;

	vb_lock_take(&schedule->active_lock);
	enlisted = !vb_list_is_empty(&qp->active);
	vb_lock_release(&schedule->active_lock);
	return enlisted;
}

/* Caller holds active_lock. */
static void take_out(struct vb_schedule *schedule, struct vb_qp *qp)
{
	vb_list_remove(&qp->active);
	__atomic_store_n(&qp->is_active, false, __ATOMIC_RELAXED);
	__atomic_sub_fetch(&schedule->active_count, 1, __ATOMIC_SEQ_CST);
}

void vb_schedule_forget(struct vb_schedule *schedule, struct vb_qp *qp)
{
	vb_lock_take(&schedule->active_lock);
	if (!vb_list_is_empty(&qp->active))
		take_out(schedule, qp);
	vb_lock_release(&schedule->active_lock);
}

struct vb_qp *vb_schedule_next_active(struct vb_schedule *schedule)
{
	struct vb_qp *qp = NULL;

	if (__atomic_load_n(&schedule->active_count, __ATOMIC_SEQ_CST) == 0)
		return NULL;
	vb_lock_take(&schedule->active_lock);
	if (!vb_list_is_empty(&schedule->active)) {
		qp = vb_container_of(schedule->active.next, struct vb_qp, active);
		take_out(schedule, qp);
	}
	vb_lock_release(&schedule->active_lock);
	return qp;
}

void vb_schedule_arm(struct vb_schedule *schedule, struct vb_qp *qp, vb_time deadline)
{
	if (deadline != VB_TIME_NEVER && vb_timers_arm(&schedule->timers, qp, deadline))
		vb_schedule_kick(schedule);
}

void vb_schedule_note_probe(struct vb_schedule *schedule, uint64_t nonce)
{
	vb_lock_assert_held(&schedule->progress);
	if (schedule->probes == VB_KEPT_PROBES)
		return;
	schedule->probe[schedule->probes++] = nonce;
	vb_schedule_kick(schedule);
}
