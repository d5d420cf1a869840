/* SPDX-License-Identifier: MIT
 *
 * How a stream ends: by a TERMINATE (terminate.c), closed by one side in order, or lost; and what the link is to do about it.
 */
#include "iwarp/engine.h"

/* A receive that a message under way had taken is flushed like those that still stand in the queue. */
static void flush_receive_in_hand(struct vb_qp *qp, vb_time now)
{
	struct vb_iwarp_receiver *receiver = &vb_iwarp_engine(qp)->receiver;
	struct vb_completion completion = {
		.wr_id = receiver->taken.wr_id,
		.status = IBV_WC_WR_FLUSH_ERR,
		.opcode = IBV_WC_RECV,
		.vendor_error = VB_FAULT_FLUSHED,
		.qpn = qp->qpn,
		.timestamp = now,
	};

	if (!receiver->has_receive)
		return;
	receiver->has_receive = false;
	vb_qp_complete_receive(qp, &completion);
}

void vb_iwarp_entered_error(struct vb_qp *qp, vb_time now)
{
	struct vb_iwarp_engine *engine = vb_iwarp_engine(qp);

	/* By the application, or by a completion queue that overran: the latter is a fault of ours that the peer is told of. */
	if (!vb_iwarp_is_over(engine)) {
		if (qp->fault.fault == VB_FAULT_NONE)
			engine->stage = VB_IWARP_ABORTED;
		else
			vb_iwarp_fall_local(qp);
	}
	vb_iwarp_receive_end(&engine->receiver);
	vb_iwarp_sender_end(qp);
	engine->first.at = VB_TIME_NEVER;
	flush_receive_in_hand(qp, now);
}

static void lost(struct vb_qp *qp, vb_time now, enum vb_fault fault)
{
	const struct vb_fault_record why = {.fault = fault, .remote = true};

	vb_qp_fail_receive(qp, NULL, IBV_WC_SUCCESS, &why, IBV_EVENT_QP_FATAL, true, now);
}

static void closed(struct vb_qp *qp, vb_time now, bool by_us)
{
	struct vb_iwarp_engine *engine = vb_iwarp_engine(qp);
	const struct vb_fault_record why = {.fault = VB_FAULT_CLOSED, .remote = true, .qpn = qp->qpn};

	if (vb_iwarp_reads_oldest(engine) || !vb_iwarp_receive_is_between(&engine->receiver)) {
		lost(qp, now, VB_FAULT_CLOSED);
		return;
	}
	if (!by_us)
		vb_fault_keep(&qp->fault, &why);
	vb_qp_enter_error(qp, now);
}

static void timed_out(struct vb_qp *qp, vb_time now)
{
	struct vb_fault_record why = {.fault = VB_FAULT_TIMED_OUT};

	if (vb_send_queue_count(&qp->send) > 0)
		vb_iwarp_fail_oldest(qp, now, IBV_WC_RETRY_EXC_ERR, &why);
	else
		lost(qp, now, VB_FAULT_TIMED_OUT);
}

void vb_iwarp_ended(struct vb_qp *qp, vb_time now, enum vb_iwarp_end how)
{
	struct vb_iwarp_engine *engine = vb_iwarp_engine(qp);
	enum vb_iwarp_stage stage = engine->stage;

	vb_lock_assert_held(&qp->lock);
	engine->stage = VB_IWARP_CLOSED;
	if (stage != VB_IWARP_OPEN && stage != VB_IWARP_CLOSING)
		return;
	switch (how) {
	case VB_IWARP_END_FIN:
		closed(qp, now, stage == VB_IWARP_CLOSING);
		break;
	case VB_IWARP_END_RESET:
		lost(qp, now, VB_FAULT_RESET);
		break;
	case VB_IWARP_END_TIMEOUT:
		timed_out(qp, now);
		break;
	}
	vb_iwarp_check_invariants(qp);
}

enum vb_iwarp_wish vb_iwarp_wish(const struct vb_qp *qp)
{
	const struct vb_iwarp_engine *engine = vb_iwarp_engine_of(qp);

	switch (engine->stage) {
	case VB_IWARP_OPEN:
		return VB_IWARP_CARRY_ON;
	case VB_IWARP_CLOSING:
		return vb_iwarp_sender_is_idle(qp) ? VB_IWARP_SHUT : VB_IWARP_CARRY_ON;
	case VB_IWARP_TERMINATING:
		return engine->sender.cursor.terminated ? VB_IWARP_SHUT : VB_IWARP_CARRY_ON;
	case VB_IWARP_TERMINATED:
		return VB_IWARP_SHUT;
	default:
		return VB_IWARP_ABORT;
	}
}
