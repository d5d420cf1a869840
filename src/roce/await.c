/* SPDX-License-Identifier: MIT
 *
 * An acknowledgement that awaits the program's answer, so that it leaves with that.
 *
 * A program may wait by looking at its memory, as ib_write_lat does: it polls until its own WRITE is completed, and looks then. Two such
 * programs answer each other without the engine threads as long as the completion comes with the answer (piggyback.c): who polls for the
 * one receives the other. Once an acknowledgement has come by itself, its receiver polls no more when the answer comes; the engine thread
 * must receive that, and if it acknowledged at once the same would befall the other side, for good. Where each program and its engine
 * thread share a processor, which the looking program does not give away, one exchange in fifty took milliseconds: 33 us on average, 4 so.
 *
 * So a WRITE that the engine thread receives for such a program is acknowledged LATEST after it came if no answer carries the
 * acknowledgement before. Where answers do not come it is acknowledged at once for a while: peers of programs that never answer wait for
 * that.
 */
#include "roce/engine.h"
#include "roce/roce.h"

/* Longer than it takes for a program to have the processor back on which the engine thread has run, to see what came and to answer. */
#define LATEST VB_MICROSECONDS(40)

enum {
	IN_VAIN = 3,                       /* in a row: answers do not come */
	LEFT_OUT = 256,                    /* then so many acknowledgements leave at once before one awaits an answer again */
};

static void was_in_vain(struct vb_roce_responder *responder)
{
	responder->awaits = false;
	if (++responder->awaited_in_vain < IN_VAIN)
		return;
	/* The next one is a trial. */
	responder->awaited_in_vain = IN_VAIN - 1;
	responder->await_left_out = LEFT_OUT;
}

bool vb_roce_await_answer(struct vb_qp *qp, vb_time now)
{
	struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;

	vb_lock_assert_held(&qp->lock);
	/* Who waits for a message polls for it, and may end the connection when it has come. One that is partial the peer must not take
	 * for more than it says. */
	if (!responder->ack_of_write || responder->ack_partial)
		return false;
	if (responder->awaits && psn_equal(responder->awaited, responder->ack_psn))
		return true;
	/* More came before an answer: this is no conversation. */
	if (responder->awaits)
		was_in_vain(responder);
	if (responder->await_left_out > 0) {
		responder->await_left_out--;
		return false;
	}
	if (responder->late_at == 0 || responder->late_at > now + LATEST)
		responder->late_at = now + LATEST;
	responder->awaits = true;
	responder->awaited = responder->ack_psn;
	return true;
}

void vb_roce_await_answered(struct vb_roce_responder *responder)
{
	responder->awaits = false;
	responder->awaited_in_vain = 0;
}

void vb_roce_await_expired(struct vb_roce_responder *responder)
{
	if (responder->awaits)
		was_in_vain(responder);
}
