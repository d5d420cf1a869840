/* SPDX-License-Identifier: MIT
 *
 * One pass of progress, which every thread that makes progress runs: queue pairs that had more to send, then each link, then timers.
 */
#include "progress/endpoint_parts.h"
#include "queue/qp.h"

enum {
	EXPIRIES_PER_PASS = 256,
	LOOK_AT_UNUSED_LINK = 1024,        /* every so many passes: some 50 us where all goes through memory */
};

/* Looking at a socket costs more than the rest of a pass: only now and then where nothing is expected of it. */
static bool is_for_all(const struct vb_schedule *schedule)
{
	return schedule->passes % LOOK_AT_UNUSED_LINK == 0 || __atomic_load_n(&schedule->page->queue_pairs, __ATOMIC_RELAXED) == 0;
}

static struct vb_link *used_links(struct vb_schedule *schedule)
{
	/* Before the members. Partner: the release in vb_link_carry. */
	uint32_t changes = __atomic_load_n(&schedule->changes, __ATOMIC_ACQUIRE);
	struct vb_link **end = &schedule->used;

	if (changes == schedule->changes_seen)
		return schedule->used;
	for (struct vb_link *link = schedule->links; link; link = link->next) {
		if (__atomic_load_n(&link->members, __ATOMIC_RELAXED) == 0)
			continue;
		*end = link;
		end = &link->next_used;
	}
	*end = NULL;
	schedule->changes_seen = changes;
	return schedule->used;
}

static bool expire(struct vb_qp *qp, vb_time now)
{
	struct vb_binding *binding = qp->scheduler;
	bool done;

	vb_lock_take(&qp->lock);
	done = binding->carrier->driver->expire(binding->carrier, qp, now);
	vb_lock_release(&qp->lock);
	return done;
}

static bool run_timers(struct vb_schedule *schedule, vb_time now)
{
	struct vb_qp *qp;
	struct vb_cq *cq;
	bool done = false;

	if (vb_timers_next(&schedule->timers) > now)
		return false;
	for (unsigned i = 0; i < EXPIRIES_PER_PASS && (qp = vb_timers_pop(&schedule->timers, now)) != NULL; i++)
		done |= expire(qp, now);
	for (struct vb_link *link = schedule->flushed; link; link = link->next_flushed)
		link->driver->flush(link);
	while ((cq = vb_timers_pop_cq(&schedule->timers, now)) != NULL) {
		vb_cq_expire(cq, now);
		done = true;
	}
	return done;
}

bool vb_endpoint_pass_lane(struct vb_endpoint *endpoint, unsigned lane, vb_time now, bool all)
{
	struct vb_schedule *schedule = &endpoint->schedule;
	const struct vb_link_lanes *lanes = schedule->laned->driver->lanes;
	bool done = vb_links_send_active(schedule, lane, now, false);

	done |= lanes->drain(schedule->laned, lane, now, all);
	lanes->finish(schedule->laned, lane);
	return done;
}

/* Beyond the first. Who is at one does there what we would. */
static bool pass_other_lanes(struct vb_endpoint *endpoint, vb_time now, bool all) VB_UNCHECKED
{
	struct vb_schedule *schedule = &endpoint->schedule;
	bool done = false;

	for (uint32_t i = 1, lanes = __atomic_load_n(&schedule->lanes, __ATOMIC_ACQUIRE); i < lanes; i++) {
		struct vb_lane *lane = &schedule->lane[i];

		if ((!all && now - __atomic_load_n(&lane->polled, __ATOMIC_RELAXED) < VB_LANE_IS_POLLED) || !vb_lock_try(lane->lock))
			continue;
		lane->by_engine = schedule->lane[0].by_engine;
		done |= vb_endpoint_pass_lane(endpoint, i, now, all);
		lane->by_engine = false;
		vb_lock_release(lane->lock);
	}
	return done;
}

bool vb_endpoint_pass(struct vb_endpoint *endpoint, vb_time now, bool all)
{
	struct vb_schedule *schedule = &endpoint->schedule;
	bool done;

	vb_lock_assert_held(&schedule->progress);
	__atomic_store_n(&schedule->spinner.pass, schedule->spinner.pass + 1, __ATOMIC_RELAXED);
	schedule->passes++;
	schedule->is_brief = false;
	/* First, because what the links bring may have something put off until the next pass. */
	done = vb_links_send_active(schedule, 0, now, false);
	if (all || is_for_all(schedule))
		for (struct vb_link *link = schedule->links; link; link = link->next)
			done |= link->driver->drain(link, now, all);
	else
		for (struct vb_link *link = used_links(schedule); link; link = link->next_used)
			done |= link->driver->drain(link, now, all);
	done |= run_timers(schedule, now);
	for (struct vb_link *link = schedule->finished; link; link = link->next_finished)
		link->driver->finish(link);
	done |= pass_other_lanes(endpoint, now, all);
	return done;
}
