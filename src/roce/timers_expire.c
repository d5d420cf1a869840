/* SPDX-License-Identifier: MIT
 *
 * The requester's clocks have run out. timers.c says which there are and starts them.
 */
#include "queue/patience.h"
#include "roce/engine.h"
#include "roce/roce.h"

enum { MAX_BACKOFF = 16, MOST_PROBES = 4 };

vb_time vb_roce_timers_next(const struct vb_qp *qp)
{
	const struct vb_roce_requester *requester = &vb_roce_engine_of(qp)->requester;
	vb_time next;

	if (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD)
		return VB_TIME_NEVER;
	if (requester->rnr_until != 0)
		return requester->rnr_until;
	next = vb_time_earlier(requester->retransmit_at, requester->probe_at);
	if (requester->pace_until != 0)
		next = vb_time_earlier(next, requester->pace_until);
	if (requester->local_retry_at != 0)
		next = vb_time_earlier(next, requester->local_retry_at);
	return next;
}

/* Of an expiry at retransmit_at. Nothing has left since we went back: it is not the peer's silence, but there is an end to that, too. */
static bool is_hopeless(const struct vb_qp *qp, const struct vb_roce_requester *requester)
{
	vb_time patience = vb_patience_in_all(qp);
	vb_time waited = requester->retransmit_at - requester->waiting_since;

	return patience != 0 && waited >= (requester->again_owed ? 2 * patience : patience) + requester->extension;
}

bool vb_roce_gives_up(const struct vb_qp *qp, vb_time now)
{
	const struct vb_roce_requester *requester = &vb_roce_engine_of(qp)->requester;

	return (qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD) && vb_qp_is_reliable(qp) &&
	       requester->retransmit_at <= now && is_hopeless(qp, requester);
}

vb_time vb_roce_extend_wait(struct vb_qp *qp, vb_time more)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;
	vb_time waited = requester->retransmit_at - requester->waiting_since;

	vb_lock_assert_held(&qp->lock);
	requester->extension = waited + more - vb_patience_in_all(qp);
	return requester->extension;
}

bool vb_roce_wait_is_extended(const struct vb_qp *qp)
{
	return vb_roce_engine_of(qp)->requester.extension != 0;
}

static void give_up(struct vb_qp *qp, vb_time now)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;
	const struct vb_send_wqe *wqe = vb_send_queue_at(&qp->send, qp->send.tail);
	struct vb_fault_record why = {
		.fault = VB_FAULT_RETRY_EXCEEDED,
		.psn = requester->acknowledged.v,
		.tries = requester->retransmissions,
		.waited = now - requester->waiting_since,
	};

	VB_COUNT(qp->host->counters, retry_exceeded_err);
	vb_work_evidence(qp, wqe, &why);
	vb_qp_fail_send(qp, IBV_WC_RETRY_EXC_ERR, &why, now);
}

void vb_roce_timers_expire(struct vb_qp *qp, vb_time now)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;

	if (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD)
		return;
	if (requester->pace_until <= now)
		requester->pace_until = 0;
	if (requester->rnr_until != 0 && requester->rnr_until <= now)
		requester->rnr_until = 0;
	if (requester->local_retry_at <= now)
		requester->local_retry_at = 0;
	if (requester->probe_at <= now) {
		/* Once until something comes, but where much is lost: then a probe or its answer may well be, too. */
		requester->probe_at = VB_TIME_NEVER;
		if (!vb_roce_timers_is_losing(requester, now))
			requester->probed = true;
		else if (++requester->probes < MOST_PROBES)
			vb_roce_timers_arm_probe(requester, now);
		requester->probe_owed = true;
		/* What it brings may be the answer to the packet it repeats. */
		requester->sampling = false;
	}
	if (requester->retransmit_at > now)
		return;
	/* Late: it was we who were away (stopped, or off the processor), and what the peer said meanwhile may lie unread
	 * still. That time is not the peer's. */
	requester->waiting_since += now - requester->retransmit_at;
	requester->retransmit_at = now;
	if (is_hopeless(qp, requester)) {
		give_up(qp, now);
		return;
	}
	VB_COUNT(qp->host->counters, local_ack_timeout_err);
	if (requester->backoff < MAX_BACKOFF)
		requester->backoff++;
	requester->expired = true;
	requester->expired_at = now;
	requester->expired_high = requester->high;
	requester->congestion.algorithm->timed_out(&requester->congestion);
	vb_roce_requester_rewind(qp, now);
}
