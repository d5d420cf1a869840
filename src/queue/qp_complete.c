/* SPDX-License-Identifier: MIT
 *
 * How work leaves a queue pair: completions, failures, flushes and the asynchronous events that go with them.
 *
 * Order of a failure: the work at fault completes with its status, the state becomes ERR (SQE for the send side of UC
 * and UD, IBA 10.3.1.6), the engine is told, then what is left is flushed: sends in order, then receives. A
 * completion queue that overruns on the way puts the queue pair into ERR too; since the state is set before anything
 * is flushed, that ends there.
 */
#include <string.h>

#include "queue/qp.h"
#include "queue/qp_flush.h"
#include "queue/wq.h"

static void raise_event(struct vb_qp *qp, enum ibv_event_type event)
{
	qp->host->qp_event(qp, event);
}

/* What a fall into ERR (or, sends only, SQE) takes with it. */
static void tell(struct vb_qp *qp, struct vb_failure *failure, uint32_t sends_at_fault, bool receives_go)
{
	uint32_t sends = vb_send_queue_count(&qp->send);

	failure->flushed_sends = sends > sends_at_fault ? sends - sends_at_fault : 0;
	failure->flushed_receives = receives_go && !qp->srq ? vb_receive_queue_count(&qp->receive) : 0;
	qp->host->watch->failed(qp, failure);
}

/* IBA 10.4.2, 11.6.3.3: the completion is lost, so the queue pair is of no more use. */
VB_RARE static void lose(struct vb_qp *qp, const struct vb_completion *completion)
{
	struct vb_fault_record why = {
		.fault = VB_FAULT_CQ_OVERRUN,
		.qpn = qp->qpn,
		.wr_id = completion->wr_id,
	};

	if (qp->rss) {
		vb_wq_fail(vb_wq_of(qp->srq), completion->timestamp);
		return;
	}
	vb_fault_keep(&qp->fault, &why);
	if (qp->host->watch)
		tell(qp, &(struct vb_failure){.kind = VB_FAILED_OVERRUN, .why = &why, .has_event = true,
					      .event = IBV_EVENT_QP_FATAL}, 0, true);
	raise_event(qp, IBV_EVENT_QP_FATAL);
	vb_qp_enter_error(qp, completion->timestamp);
}

static void push(struct vb_qp *qp, struct vb_cq *cq, const struct vb_completion *completion)
{
	if (!vb_cq_push(cq, completion) && qp->state != IBV_QPS_ERR)
		lose(qp, completion);
}

/* Of the oldest, which is retired next. */
VB_INLINE struct vb_completion send_completion(struct vb_qp *qp, const struct vb_send_wqe *wqe, enum ibv_wc_status status,
					       enum vb_fault fault, vb_time now)
{
	return (struct vb_completion){
		.wr_id = wqe->wr_id,
		.status = status,
		.opcode = vb_wr_to_wc_opcode(wqe->opcode),
		.vendor_error = fault,
		.byte_length = wqe->length,
		.qpn = qp->qpn,
		.through = qp->send.tail + 1,
		.released = &qp->send.released,
		.timestamp = now,
	};
}

void vb_qp_complete_send(struct vb_qp *qp, enum ibv_wc_status status, enum vb_fault fault, vb_time now)
{
	const struct vb_send_wqe *wqe = vb_send_queue_at(&qp->send, qp->send.tail);
	bool wanted = (wqe->send_flags & IBV_SEND_SIGNALED) || status != IBV_WC_SUCCESS;
	struct vb_completion completion;

	vb_lock_assert_held(&qp->lock);
	assert(vb_send_queue_count(&qp->send) > 0);
	if (qp->host->watch)
		qp->host->watch->completing_send(qp, wqe, status, wanted);
	if (wanted)
		completion = send_completion(qp, wqe, status, fault, now);
	if (status == IBV_WC_SUCCESS)
		qp->send.bytes += wqe->length;
	vb_send_queue_retire(&qp->send);
	if (wanted)
		push(qp, qp->send_cq, &completion);
}

bool vb_qp_complete_send_to(struct vb_qp *qp, struct ibv_wc *wc)
{
	const struct vb_send_wqe *wqe = vb_send_queue_at(&qp->send, qp->send.tail);
	bool wanted = (wqe->send_flags & IBV_SEND_SIGNALED) != 0;
	struct vb_completion completion;

	vb_lock_assert_held(&qp->lock);
	assert(vb_send_queue_count(&qp->send) > 0 && !qp->host->watch && !qp->host->observer);
	if (wanted) {
		completion = send_completion(qp, wqe, IBV_WC_SUCCESS, VB_FAULT_NONE, 0);
		vb_completion_to_wc(&completion, wc);
	}
	qp->send.bytes += wqe->length;
	vb_send_queue_retire(&qp->send);
	if (wanted)
		vb_send_queue_release(&qp->send.released, qp->send.tail);
	return wanted;
}

void vb_qp_flush_sends(struct vb_qp *qp, vb_time now)
{
	while (vb_send_queue_count(&qp->send) > 0)
		vb_qp_complete_send(qp, IBV_WC_WR_FLUSH_ERR, VB_FAULT_FLUSHED, now);
}

static void complete_receive_with(struct vb_qp *qp, const struct vb_taken_receive *taken, enum ibv_wc_status status,
				  enum vb_fault fault, vb_time now)
{
	struct vb_completion completion = {
		.wr_id = taken->wr_id,
		.status = status,
		.opcode = IBV_WC_RECV,
		.vendor_error = fault,
		.qpn = vb_qp_receive_number(qp),
		.timestamp = now,
	};

	vb_qp_complete_receive(qp, &completion);
}

void vb_qp_flush_receives(struct vb_qp *qp, vb_time now)
{
	struct vb_taken_receive taken;

	while (vb_receive_queue_take(&qp->receive, &taken))
		complete_receive_with(qp, &taken, IBV_WC_WR_FLUSH_ERR, VB_FAULT_FLUSHED, now);
}

bool vb_qp_take_receive(struct vb_qp *qp, struct vb_taken_receive *taken)
{
	vb_lock_assert_held(&qp->lock);
	return qp->srq ? vb_srq_take(qp->srq, taken) : vb_receive_queue_take(&qp->receive, taken);
}

void vb_qp_complete_receive(struct vb_qp *qp, const struct vb_completion *completion)
{
	vb_lock_assert_held(&qp->lock);
	if (qp->host->watch)
		qp->host->watch->completing_receive(qp);
	if (completion->status == IBV_WC_SUCCESS)
		qp->received_bytes += completion->byte_length;
	push(qp, qp->recv_cq, completion);
}

static void enter_state(struct vb_qp *qp, enum ibv_qp_state to, vb_time now)
{
	enum ibv_qp_state from = qp->state;

	qp->state = to;
	qp->draining = false;
	if (qp->transport->modified)
		qp->transport->modified(qp, from, IBV_QP_STATE, now);
}

void vb_qp_enter_error(struct vb_qp *qp, vb_time now)
{
	vb_lock_assert_held(&qp->lock);
	if (qp->state == IBV_QPS_ERR)
		return;
	/* Every other way here leaves its fault behind. */
	if (qp->host->watch && qp->fault.fault == VB_FAULT_NONE)
		tell(qp, &(struct vb_failure){.kind = VB_FLUSHED_BY_APPLICATION, .status = IBV_WC_WR_FLUSH_ERR,
					      .why = &qp->fault}, 0, true);
	enter_state(qp, IBV_QPS_ERR, now);
	vb_qp_flush_sends(qp, now);
	vb_qp_flush_receives(qp, now);
	/* IBA 10.2.9.2: no more receives will be taken from the shared queue for this queue pair. */
	if (qp->srq && !qp->xrc_domain && !qp->last_wqe_event_sent) {
		qp->last_wqe_event_sent = true;
		raise_event(qp, IBV_EVENT_QP_LAST_WQE_REACHED);
	}
}

void vb_qp_fail_send(struct vb_qp *qp, enum ibv_wc_status status, const struct vb_fault_record *why, vb_time now)
{
	struct vb_fault_record record = *why;

	vb_lock_assert_held(&qp->lock);
	if (vb_send_queue_count(&qp->send) > 0)
		record.wr_id = vb_send_queue_at(&qp->send, qp->send.tail)->wr_id;
	record.qpn = qp->qpn;
	vb_fault_keep(&qp->fault, &record);
	if (qp->host->watch)
		tell(qp, &(struct vb_failure){
				 .kind = VB_FAILED_SEND,
				 .status = status,
				 .why = &record,
				 .wqe = vb_send_queue_count(&qp->send) > 0 ?
						vb_send_queue_at(&qp->send, qp->send.tail) : NULL,
			 }, 1, vb_qp_is_reliable(qp));
	if (vb_send_queue_count(&qp->send) > 0)
		vb_qp_complete_send(qp, status, record.fault, now);
	if (vb_qp_is_reliable(qp)) {
		vb_qp_enter_error(qp, now);
	} else if (qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD) {
		enter_state(qp, IBV_QPS_SQE, now);
		vb_qp_flush_sends(qp, now);
	}
}

void vb_qp_fail_receive(struct vb_qp *qp, const struct vb_taken_receive *taken, enum ibv_wc_status status,
			const struct vb_fault_record *why, enum ibv_event_type event, bool raise, vb_time now)
{
	struct vb_fault_record record = *why;

	vb_lock_assert_held(&qp->lock);
	if (taken)
		record.wr_id = taken->wr_id;
	record.qpn = qp->qpn;
	if (qp->rss) {
		vb_qp_tell_receive_failure(qp, taken, status, &record);
		complete_receive_with(qp, taken, status, record.fault, now);
		vb_wq_fail(vb_wq_of(qp->srq), now);
		return;
	}
	vb_fault_keep(&qp->fault, &record);
	if (qp->host->watch)
		tell(qp, &(struct vb_failure){
				 .kind = taken ? VB_FAILED_RECEIVE : VB_FAILED_REQUEST,
				 .status = status,
				 .why = &record,
				 .taken = taken,
				 .has_event = raise,
				 .event = event,
			 }, 0, true);
	if (taken)
		complete_receive_with(qp, taken, status, record.fault, now);
	if (raise)
		raise_event(qp, event);
	vb_qp_enter_error(qp, now);
}

void vb_qp_tell_receive_failure(struct vb_qp *qp, const struct vb_taken_receive *taken, enum ibv_wc_status status,
				const struct vb_fault_record *why)
{
	const struct vb_failure failure = {.kind = VB_FAILED_RECEIVE, .status = status, .why = why, .taken = taken};

	vb_lock_assert_held(&qp->lock);
	if (qp->host->watch)
		qp->host->watch->failed(qp, &failure);
}

void vb_qp_communication_established(struct vb_qp *qp)
{
	vb_lock_assert_held(&qp->lock);
	if (qp->communication_established || qp->state != IBV_QPS_RTR)
		return;
	qp->communication_established = true;
	raise_event(qp, IBV_EVENT_COMM_EST);
}

void vb_qp_drained(struct vb_qp *qp)
{
	vb_lock_assert_held(&qp->lock);
	if (!qp->draining || qp->state != IBV_QPS_SQD)
		return;
	qp->draining = false;
	if (qp->attr.en_sqd_async_notify)
		raise_event(qp, IBV_EVENT_SQ_DRAINED);
}
