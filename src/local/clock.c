/* SPDX-License-Identifier: MIT
 *
 * Patience. Work that gets nowhere fails when an adapter might have used its retries up (queue/patience.h). Timeout 0 waits for
 * ever (IBA C9-140).
 *
 * Nothing is sent again here. But each timeout on the way there is looked at: a peer that waits for a receive, or is in the middle of
 * a long message, is not silent; and time for which we ourselves were away is not the peer's.
 */
#include "local/engine.h"
#include "queue/patience.h"

#define CEILING VB_SECONDS(2)
#define LONGEST_STALL (8 * vb_rnr_timer_delay(0))
/* UC has no timeout of its own. It looks whether the peer is alive, and gives up when a process that was only kept from its processor
 * would have come back. */
#define UNRELIABLE_LOOK VB_MILLISECONDS(50)
#define UNRELIABLE_SILENCE VB_SECONDS(2)

static vb_time timeout_of(const struct vb_qp *qp)
{
	return vb_qp_is_reliable(qp) ? vb_patience_timeout(qp) : UNRELIABLE_LOOK;
}

/* Draining, what has not begun does not wait. */
static bool something_waits(const struct vb_qp *qp)
{
	return vb_send_queue_count(&qp->send) > 0 &&
	       (qp->state == IBV_QPS_RTS || vb_send_queue_at(&qp->send, qp->send.tail)->started);
}

static vb_time give_up_at(const struct vb_qp *qp, const struct vb_local_initiator *initiator)
{
	return initiator->waiting_since + (vb_qp_is_reliable(qp) ? vb_patience_in_all(qp) : UNRELIABLE_SILENCE);
}

static void arm(struct vb_local *local, vb_time now)
{
	vb_time timeout = timeout_of(local->qp);

	local->initiator.progressed = false;
	local->initiator.look_at = timeout == 0 ? VB_TIME_NEVER :
						  vb_time_earlier(now + (timeout < CEILING ? timeout : CEILING),
								  give_up_at(local->qp, &local->initiator));
}

static void give_up(struct vb_local *local, vb_time now)
{
	struct vb_qp *qp = local->qp;
	const struct vb_send_wqe *wqe = vb_send_queue_at(&qp->send, qp->send.tail);
	vb_time waited = now - local->initiator.waiting_since;
	struct vb_fault_record why = {
		.fault = VB_FAULT_RETRY_EXCEEDED,
		.psn = qp->attr.sq_psn,
		.tries = (uint32_t)(waited / vb_patience_timeout(qp)),
		.waited = waited,
	};

	VB_COUNT(qp->host->counters, retry_exceeded_err);
	vb_work_evidence(qp, wqe, &why);
	vb_qp_fail_send(qp, IBV_WC_RETRY_EXC_ERR, &why, now);
}

uint32_t vb_local_clock_retries(const struct vb_local *local)
{
	const struct vb_local_initiator *initiator = &local->initiator;
	vb_time timeout = vb_patience_in_all(local->qp) / (local->qp->attr.retry_cnt + 1u), gone;
	uint32_t retries;

	if (!initiator->waits || timeout == 0 || initiator->look_at == VB_TIME_NEVER)
		return 0;
	/* The look that comes next is at the end of one that has not gone by. */
	gone = initiator->look_at - initiator->waiting_since - timeout;
	retries = gone > 0 ? (uint32_t)(gone / timeout) : 0;
	return retries < local->qp->attr.retry_cnt ? retries : local->qp->attr.retry_cnt;
}

/* Waiting for a receive. The peer counts our patience, and it should have had an end by now, unless it is endless (7). */
static bool peer_is_stalled(struct vb_local *local, vb_time now)
{
	struct vb_local_initiator *initiator = &local->initiator;

	if (initiator->stalled == 0 || initiator->stalled != initiator->consumed + 1) {
		initiator->stalled_since = 0;
		return false;
	}
	if (initiator->stalled_since == 0)
		initiator->stalled_since = now;
	return local->qp->attr.rnr_retry == 7 || now - initiator->stalled_since <= LONGEST_STALL;
}

/* The peer is at work, or waits for its application: that is an answer. */
static bool peer_is_busy(struct vb_local *local, vb_time now)
{
	struct vb_local_initiator *initiator = &local->initiator;
	uint64_t pulled = __atomic_load_n(&local->theirs->pulled, __ATOMIC_RELAXED);
	bool advanced = pulled != initiator->pulled;

	initiator->pulled = pulled;
	if (!initiator->open || __atomic_load_n(&local->peer->gone, __ATOMIC_RELAXED))
		return false;
	return advanced || peer_is_stalled(local, now);
}

/* For each message, or nearly: the time to look is left as it is, too early, and put right when it has come. */
static void note_progress(struct vb_local *local, vb_time now)
{
	struct vb_local_initiator *initiator = &local->initiator;

	initiator->waits = true;
	initiator->waiting_since = now;
	initiator->progressed = true;
	if (initiator->look_at == VB_TIME_NEVER || now >= initiator->look_at)
		arm(local, now);
}

/* Nothing has moved for as long as is waited, or the peer has died: what was left is lost (unreliable.c). */
static void give_up_unreliably(struct vb_local *local, vb_time now)
{
	struct vb_local_initiator *initiator = &local->initiator;

	if (__atomic_load_n(&local->peer->gone, __ATOMIC_RELAXED)) {
		vb_local_unreliable_write_off(local);
	} else {
		(void)vb_local_records_look(local);
		vb_local_unreliable_let_go(local, true);
		initiator->silent = initiator->again = true;
		initiator->silent_at = initiator->consumed;
		vb_local_unreliable_settle(local);
	}
	vb_local_initiator_retire(local, now);
}

void vb_local_clock_run(struct vb_local *local, vb_time now, bool progress)
{
	struct vb_local_initiator *initiator = &local->initiator;
	struct vb_qp *qp = local->qp;

	if (!something_waits(qp)) {
		initiator->waits = false;
		return;
	}
	if (progress || !initiator->waits) {
		note_progress(local, now);
		return;
	}
	if (now < initiator->look_at)
		return;
	if (initiator->progressed)
		arm(local, initiator->waiting_since);
	if (now < initiator->look_at)
		return;
	initiator->waiting_since += now - initiator->look_at;
	if (peer_is_busy(local, now)) {
		initiator->waiting_since = now;
	} else if (!vb_qp_is_reliable(qp) && (give_up_at(qp, initiator) <= now || __atomic_load_n(&local->peer->gone, __ATOMIC_RELAXED))) {
		give_up_unreliably(local, now);
	} else if (give_up_at(qp, initiator) <= now) {
		give_up(local, now);
		return;
	} else {
		if (vb_qp_is_reliable(qp))
			VB_COUNT(qp->host->counters, local_ack_timeout_err);
		/* It was told; it does not hurt to say it again. */
		local->kick = true;
	}
	arm(local, now);
}
