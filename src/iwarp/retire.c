/* SPDX-License-Identifier: MIT
 *
 * Requests complete in order: a SEND or WRITE when the socket has taken its last byte (RFC 5041 5.4), a READ or atomic when it is
 * answered.
 */
#include "iwarp/engine.h"

static bool oldest_is_done(const struct vb_qp *qp)
{
	const struct vb_iwarp_sender *sender = &vb_iwarp_engine_of(qp)->sender;
	const struct vb_send_wqe *wqe;
	const struct vb_work *work;

	if (vb_send_queue_count(&qp->send) == 0)
		return false;
	wqe = vb_send_queue_at(&qp->send, qp->send.tail);
	work = vb_work(wqe->opcode);
	/* One that went past the stream moves no cursor. */
	if (wqe->done || work->is_read || work->kind == VB_WORK_LOCAL)
		return wqe->done;
	return (int32_t)(sender->cursor.request - qp->send.tail) > 0;
}

void vb_iwarp_sender_retire(struct vb_qp *qp, vb_time now)
{
	struct vb_iwarp_sender *sender = &vb_iwarp_engine(qp)->sender;

	/* A completion queue that overruns ends the queue pair in the middle of this. */
	while (vb_iwarp_is_alive(qp) && oldest_is_done(qp))
		vb_qp_complete_send(qp, IBV_WC_SUCCESS, VB_FAULT_NONE, now);
	if (!vb_iwarp_is_alive(qp))
		return;
	vb_iwarp_cursor_catch_up(qp, &sender->cursor);
	if (vb_work_failure_is_due(&sender->failure, qp)) {
		vb_iwarp_fall_local(qp);
		vb_work_tell_failure(&sender->failure, qp, now);
	}
}
