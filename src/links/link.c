/* SPDX-License-Identifier: MIT
 *
 * What is the same for all links: who carries a queue pair, and the turn of those that have more to send.
 */
#include "links/link.h"

#include "queue/qp.h"
#include "schedule/schedule.h"

enum {
	ACTIVE_PER_PASS = 256,
	ACTIVE_SENDS_PER_PASS = 16,        /* of bursts, handed to the system */
};

void vb_link_transmit(struct vb_qp *qp, vb_time now)
{
	struct vb_binding *binding = qp->scheduler;

	vb_lock_assert_held(&qp->lock);
	if (binding && !vb_schedule_of(qp)->abandoned)
		binding->carrier->driver->transmit(binding->carrier, qp, now);
}

/* With its carrier: from the first to its own, or back. If it waits to be served, then there. */
static void change_lane(struct vb_qp *qp, struct vb_binding *binding, const struct vb_link *link)
{
	uint8_t lane = link && link == binding->wire && link == link->schedule->laned ? binding->home : 0;

	struct vb_schedule *schedule = vb_schedule_of(qp);

	if (lane == binding->lane)
		return;
	if (lane > 0)
		__atomic_add_fetch(&schedule->lane[lane].members, 1, __ATOMIC_RELAXED);
	else
		__atomic_sub_fetch(&schedule->lane[binding->lane].members, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&binding->lane, lane, __ATOMIC_RELAXED);
	if (!vb_schedule_is_enlisted(qp))
		return;
	vb_schedule_forget(schedule, qp);
	vb_schedule_mark_active(schedule, qp);
}

void vb_link_carry(struct vb_qp *qp, struct vb_link *link)
{
	struct vb_binding *binding = qp->scheduler;
	struct vb_link *before = binding->carrier;

	if (before == link)
		return;
	if (link)
		__atomic_add_fetch(&link->members, 1, __ATOMIC_SEQ_CST);
	__atomic_store_n(&binding->carrier, link, __ATOMIC_RELEASE);
	change_lane(qp, binding, link);
	if (before)
		__atomic_sub_fetch(&before->members, 1, __ATOMIC_SEQ_CST);
	/* After the counts. Partner: the acquire in a pass. */
	__atomic_add_fetch(&(link ? link : before)->schedule->changes, 1, __ATOMIC_RELEASE);
}

bool vb_link_carries_all(const struct vb_link *link)
{
	uint32_t members = __atomic_load_n(&link->members, __ATOMIC_RELAXED);

	return members != 0 && members == __atomic_load_n(&link->schedule->page->queue_pairs, __ATOMIC_RELAXED);
}

bool vb_link_carries_all_peers(const struct vb_link *link)
{
	uint32_t members = __atomic_load_n(&link->members, __ATOMIC_RELAXED) + __atomic_load_n(&link->schedule->peerless, __ATOMIC_RELAXED);

	return members == __atomic_load_n(&link->schedule->page->queue_pairs, __ATOMIC_RELAXED);
}

void vb_link_count_sent(struct vb_counters *counters, uint32_t packets, size_t bytes, uint32_t lost)
{
	if (lost > 0) {
		VB_COUNT_MANY(counters, send_err, lost);
		/* Which ones is not known: as many bytes as they have on average. */
		bytes -= bytes / packets * lost;
	}
	VB_COUNT_MANY(counters, sent_pkts, packets - lost);
	VB_COUNT_MANY(counters, sent_bytes, bytes);
}

/* It may have changed its lane since it was put into the list. */
static void transmit_in_pass(struct vb_qp *qp, unsigned lane, vb_time now)
{
	struct vb_binding *binding = qp->scheduler;

	if (!binding)
		return;
	if (binding->lane == lane)
		binding->carrier->driver->transmit_in_pass(binding->carrier, qp, now);
	else
		vb_schedule_mark_active(vb_schedule_of(qp), qp);
}

static void flush(struct vb_schedule *schedule, unsigned lane)
{
	if (lane > 0)
		schedule->laned->driver->lanes->flush(schedule->laned, lane);
	else
		for (struct vb_link *link = schedule->flushed; link; link = link->next_flushed)
			link->driver->flush(link);
}

/* One that is not done is put behind the others, for the next time. */
bool vb_links_send_active(struct vb_schedule *schedule, unsigned number, vb_time now, bool only_try)
{
	struct vb_lane *lane = &schedule->lane[number];
	uint32_t count = __atomic_load_n(&lane->active_count, __ATOMIC_RELAXED);
	uint64_t until = lane->sent + ACTIVE_SENDS_PER_PASS;
	struct vb_qp *qp;
	bool done = false;

	vb_lock_assert_held(lane->lock);
	if (count > ACTIVE_PER_PASS)
		count = ACTIVE_PER_PASS;
	for (; count > 0 && lane->sent < until && (qp = vb_schedule_next_active(lane)) != NULL; count--) {
		if (!only_try) {
			vb_lock_take(&qp->lock);
		} else if (!vb_lock_try(&qp->lock)) {
			vb_schedule_mark_active(schedule, qp);
			continue;
		}
		transmit_in_pass(qp, number, now);
		vb_lock_release(&qp->lock);
		done = true;
	}
	flush(schedule, number);
	return done;
}
