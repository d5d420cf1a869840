/* SPDX-License-Identifier: MIT
 *
 * Acknowledgements that no completion waits for. The last message in a queue asks for one, for the sake of the retransmission timer,
 * even if it is not signaled; in a conversation of short messages each carries then an acknowledgement of the one before.
 *
 * A peer of our own takes it upon itself instead. Asked once (flow.c), it acknowledges a short message that does not ask for it all the
 * same: LATEST after it came while a thread polls (where that stops, when the engine thread's nap ends), unless it was covered by
 * another meanwhile; at once where no thread polls, and the engine thread would have to wake up for it; and before the queue pair, or
 * the process, ends. So the requester waits no longer than for any other, is told of
 * what arrived before the end, and its probe (timers.c) comes after the acknowledgement.
 *
 * The requester asks as ever where it is waited for: by a completion, by credits, by the window; or where packets were lost a moment ago.
 */
#include "queue/qp.h"
#include "roce/engine.h"
#include "roce/roce.h"

/* Less than a probe waits for. */
#define LATEST VB_MICROSECONDS(400)

enum { ENOUGH = 32 /* such messages, until it is worth while to ask the peer */ };

static bool suits(const struct vb_qp *qp, const struct vb_send_wqe *wqe)
{
	return !(wqe->send_flags & IBV_SEND_SIGNALED) && vb_work(wqe->opcode)->takes_receive && vb_roce_note(wqe)->packets == 1 &&
	       qp->type == IBV_QPT_RC;
}

bool vb_roce_late_will_do(const struct vb_qp *qp, const struct vb_send_wqe *wqe, vb_time now)
{
	const struct vb_roce_requester *requester = &vb_roce_engine_of(qp)->requester;

	/* Without a round trip there is no probe. */
	return requester->peer_acknowledges && requester->round_trip != 0 && requester->backoff == 0 && suits(qp, wqe) &&
	       !vb_roce_timers_is_losing(requester, now);
}

void vb_roce_late_asked(struct vb_qp *qp, const struct vb_send_wqe *wqe)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;

	if (suits(qp, wqe) && vb_roce_is_time_to_ask(&requester->asked_in_vain, ENOUGH))
		requester->peer_ask_owed = true;
}

void vb_roce_late_owe(struct vb_qp *qp, vb_time now)
{
	struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;

	if (responder->late_at == 0)
		responder->late_at = now + LATEST;
}

bool vb_roce_hurry(struct vb_qp *qp)
{
	struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;

	vb_lock_assert_held(&qp->lock);
	if (responder->late_at == 0 && !responder->ack_withheld)
		return false;
	responder->late_at = 0;
	responder->ack_withheld = false;
	responder->ack_owed = true;
	responder->ack_partial = false;
	return true;
}
