/* SPDX-License-Identifier: MIT
 *
 * Sending: let the engine fill a burst, hand each of its runs to the socket its path names, until the engine has
 * nothing more or has had its share; then see to its timer. Runs in whichever thread made the engine ready: posting,
 * polling or the engine thread.
 *
 * A thread that posts sends at once, from a burst of its own, while it holds the queue pair's lock. A pass goes from
 * one queue pair to the next and lets all put their packets into one burst, the tx batch: requests and acknowledgements
 * of many queue pairs leave in one system call, where each by itself would cost more than all else that is done for it.
 * By the time the tx batch is sent the locks are released. What holds together then:
 *   - payload is copied into a burst, so a queue pair may go meanwhile, and its memory;
 *   - packets of a queue pair leave in the order in which they were made: as long as some are in the tx batch (leaves_with), no thread
 *     sends for it by another way, and what is posted waits for the next pass;
 *   - who has the lane's lock and puts something in empties the tx batch before releasing it, so that with the lock in hand it is empty.
 * Each lane (schedule/lane.h) has a tx batch of its own, and a queue pair puts its packets into that of its lane alone.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "io/clock.h"
#include "links/udp/shaper.h"
#include "links/udp/tap.h"
#include "links/udp/udp_link.h"
#include "queue/qp.h"
#include "roce/roce.h"
#include "schedule/posting.h"
#include "wire/burst.h"

enum {
	/* A post or a received packet keeps its thread no longer than this many bursts; the rest waits for the next pass. */
	BURSTS_PER_CALL = 64,
};

/* Packets the kernel does not take are lost, as on any wire; the protocol deals with that. `qp`: whose they are, for the tap. */
static void send_burst(struct vb_udp_link *udp, const struct vb_qp *qp, struct vb_burst *burst,
		       struct vb_counters *counters)
{
	uint32_t packets = burst->packets, lost_in_all = 0; /* before any are lost on purpose: that is the network's doing */
	size_t bytes = vb_burst_bytes(burst);
	bool sent = udp->tap && vb_tap_sending(udp->tap, qp, burst, &lost_in_all);
	struct vb_shaper *shaper = __atomic_load_n(&udp->shaper, __ATOMIC_ACQUIRE);

	if (!sent && shaper) {
		uint32_t before = burst->packets;

		sent = vb_shaper_take(shaper, counters, burst);
		VB_COUNT_MANY(counters, disturbed_pkts, before - burst->packets);
	}
	if (!sent)
		lost_in_all += vb_udp_send_all(udp, burst);
	vb_link_count_sent(counters, packets, bytes, lost_in_all);
}

static void empty(struct vb_udp_link *udp, struct vb_burst *burst)
{
	vb_burst_reset(burst);
	burst->numbers = &udp->ports.numbers;
}

static void arm(struct vb_udp_link *udp, struct vb_qp *qp)
{
	vb_schedule_arm(udp->schedule, qp, vb_roce_next_deadline(qp));
}

/* ---- the tx batch ---- */

bool vb_udp_is_behind(struct vb_link *link, const struct vb_qp *qp)
{
	struct vb_udp_link *udp = vb_udp_link_of(link);

	/* Pairs with the release in send_tx_batch: a thread that sees them gone sends behind them. */
	return vb_udp_state_of(udp, qp)->leaves_with > __atomic_load_n(&vb_udp_lane_of(udp, qp)->tx_batch.sent, __ATOMIC_ACQUIRE);
}

static void send_tx_batch(struct vb_udp_link *udp, struct vb_udp_lane *lane, const struct vb_qp *qp)
{
	struct vb_tx_batch *tx_batch = &lane->tx_batch;

	if (!tx_batch->burst || vb_burst_is_empty(tx_batch->burst))
		return;
	send_burst(udp, qp, tx_batch->burst, tx_batch->counters);
	empty(udp, tx_batch->burst);
	__atomic_store_n(&tx_batch->sent, tx_batch->sent + 1, __ATOMIC_RELEASE);
	udp->schedule->lane[lane->number].sent++;
}

void vb_udp_flush_lane(struct vb_link *link, unsigned lane)
{
	vb_lock_assert_held(link->schedule->lane[lane].lock);
	send_tx_batch(vb_udp_link_of(link), vb_udp_link_of(link)->lane[lane], NULL);
}

void vb_udp_flush(struct vb_link *link)
{
	vb_udp_flush_lane(link, 0);
}

static bool open_tx_batch(struct vb_udp_link *udp, struct vb_udp_lane *lane, struct vb_counters *counters)
{
	struct vb_tx_batch *tx_batch = &lane->tx_batch;

	if (!tx_batch->burst) {
		tx_batch->burst = malloc(sizeof(*tx_batch->burst));
		if (!tx_batch->burst)
			return false;
		empty(udp, tx_batch->burst);
	}
	if (tx_batch->counters != counters)
		send_tx_batch(udp, lane, NULL);
	tx_batch->counters = counters;
	return true;
}

/* Of answers to reads not more than a burst at a time: the pass sees what else is asked for before it goes on. Nor of
 * requests, where packets get lost: it sees the NAK before more is sent. */
static bool should_look_again(const struct vb_udp_link *udp, const struct vb_qp *qp, vb_time now, unsigned bursts)
{
	return bursts > 0 && !vb_tap_captures(udp->tap) && (vb_roce_answers_reads(qp) || vb_roce_is_losing(qp, now));
}

/* True: there is more. */
static bool put_into_tx_batch(struct vb_udp_link *udp, struct vb_udp_lane *lane, struct vb_qp *qp, vb_time now)
{
	struct vb_binding *binding = qp->scheduler;
	struct vb_burst *burst;
	bool more = true;

	if (!open_tx_batch(udp, lane, binding->counters))
		return true;
	burst = lane->tx_batch.burst;
	for (unsigned i = 0; more && i < BURSTS_PER_CALL && !should_look_again(udp, qp, now, i); i++) {
		uint32_t before = burst->packets;

		more = vb_roce_send(qp, now, burst);
		if (burst->packets != before)
			vb_udp_state_of(udp, qp)->leaves_with = lane->tx_batch.sent + 1;
		/* More: there was no room, or it must be in the kernel's hands before the engine goes on (UC, UD). A tap
		 * wants to know whose packets they are. */
		if (more || udp->tap || burst->arena_used >= VB_BURST_ENOUGH)
			send_tx_batch(udp, lane, qp);
	}
	return more;
}

/* ---- queue pairs ---- */

/* By a burst of our own. True: there is more. */
static bool send_at_once(struct vb_udp_link *udp, struct vb_qp *qp, vb_time now)
{
	struct vb_binding *binding = qp->scheduler;
	struct vb_burst_pool *pool = &vb_udp_lane_of(udp, qp)->bursts;
	struct vb_burst *burst = vb_burst_pool_take(pool);
	bool more = true;

	/* No memory now: try again from the engine thread. */
	if (!burst)
		return true;
	for (unsigned i = 0; more && i < BURSTS_PER_CALL; i++) {
		empty(udp, burst);
		more = vb_roce_send(qp, now, burst);
		if (!vb_burst_is_empty(burst))
			send_burst(udp, qp, burst, binding->counters);
	}
	vb_burst_pool_give(pool, burst);
	return more;
}

void vb_udp_transmit(struct vb_link *link, struct vb_qp *qp, vb_time now)
{
	struct vb_udp_link *udp = vb_udp_link_of(link);

	vb_lock_assert_held(&qp->lock);
	if (vb_udp_is_behind(link, qp) ? !vb_schedule_defer(udp->schedule, qp, now) : send_at_once(udp, qp, now))
		vb_schedule_mark_active(udp->schedule, qp);
	arm(udp, qp);
}

void vb_udp_transmit_in_pass(struct vb_link *link, struct vb_qp *qp, vb_time now)
{
	struct vb_udp_link *udp = vb_udp_link_of(link);
	struct vb_udp_lane *lane = vb_udp_lane_of(udp, qp);
	struct vb_lane *scheduled = &udp->schedule->lane[lane->number];

	vb_lock_assert_held(scheduled->lock);
	if (put_into_tx_batch(udp, lane, qp, now)) {
		vb_schedule_enlist(udp->schedule, qp);
		scheduled->unfinished = true;
	}
	arm(udp, qp);
}

/* ---- posting ---- */

static enum vb_posting decide(struct vb_udp_link *udp, const struct vb_qp *qp, unsigned posts)
{
	struct vb_udp_lane *lane = vb_udp_lane_of(udp, qp);
	bool delivering = __atomic_load_n(&lane->delivering, __ATOMIC_RELAXED);
	enum vb_posting posting;

	if (vb_tap_parts(udp->tap) || qp->send.head == qp->send.tail)
		return VB_POSTING_NOW;
	posting = vb_posting_decide(posts, vb_send_queue_at(&qp->send, qp->send.head - 1)->length, delivering);
	if (posting != VB_POSTING_NOW && delivering && !__atomic_load_n(&lane->posted_meanwhile, __ATOMIC_RELAXED))
		__atomic_store_n(&lane->posted_meanwhile, true, __ATOMIC_RELAXED);
	return posting;
}

/* Those that wait leave, as in a pass. The caller holds qp->lock already, so the lane's lock and the other queue pairs' are only
 * tried. False: another thread makes a pass. */
static bool send_together(struct vb_udp_link *udp, struct vb_qp *qp, vb_time now)
{
	struct vb_schedule *schedule = udp->schedule;
	unsigned number = vb_udp_lane_of(udp, qp)->number;
	struct vb_lane *lane = &schedule->lane[number];

	if (!vb_lock_try(lane->lock))
		return false;
	vb_schedule_forget(schedule, qp);
	vb_udp_transmit_in_pass(&udp->link, qp, now);
	vb_links_send_active(schedule, number, now, true);
	if (lane->unfinished)
		vb_schedule_kick(schedule);
	lane->unfinished = false;
	vb_lock_release(lane->lock);
	return true;
}

void vb_udp_posted(struct vb_link *link, struct vb_qp *qp, vb_time now)
{
	struct vb_udp_link *udp = vb_udp_link_of(link);
	enum vb_posting posting = decide(udp, qp, vb_schedule_note_post(udp->schedule, now));

	if ((posting == VB_POSTING_TOGETHER && send_together(udp, qp, now)) ||
	    (posting == VB_POSTING_WAIT && vb_schedule_defer(udp->schedule, qp, now)))
		return;
	vb_udp_transmit(link, qp, now);
}
