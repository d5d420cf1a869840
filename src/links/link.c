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

void vb_link_carry(struct vb_qp *qp, struct vb_link *link)
{
	struct vb_binding *binding = qp->scheduler;
	struct vb_link *before = binding->carrier;

	if (before == link)
		return;
	if (link)
		__atomic_add_fetch(&link->members, 1, __ATOMIC_SEQ_CST);
	__atomic_store_n(&binding->carrier, link, __ATOMIC_RELEASE);
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

static void transmit_in_pass(struct vb_qp *qp, vb_time now)
{
	struct vb_binding *binding = qp->scheduler;

	if (binding)
		binding->carrier->driver->transmit_in_pass(binding->carrier, qp, now);
}

/* One that is not done is put behind the others, for the next time. */
bool vb_links_send_active(struct vb_schedule *schedule, vb_time now, bool only_try)
{
	uint32_t count = __atomic_load_n(&schedule->active_count, __ATOMIC_RELAXED);
	uint64_t until = schedule->sent + ACTIVE_SENDS_PER_PASS;
	struct vb_qp *qp;
	bool done = false;

	vb_lock_assert_held(&schedule->progress);
	if (count > ACTIVE_PER_PASS)
		count = ACTIVE_PER_PASS;
	for (; count > 0 && schedule->sent < until && (qp = vb_schedule_next_active(schedule)) != NULL; count--) {
		if (!only_try) {
			vb_lock_take(&qp->lock);
		} else if (!vb_lock_try(&qp->lock)) {
			vb_schedule_mark_active(schedule, qp);
			continue;
		}
		transmit_in_pass(qp, now);
		vb_lock_release(&qp->lock);
		done = true;
	}
	for (struct vb_link *link = schedule->flushed; link; link = link->next_flushed)
		link->driver->flush(link);
	return done;
}
