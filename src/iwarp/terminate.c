/* SPDX-License-Identifier: MIT
 *
 * TERMINATE: a stream ends because we say it, or because the peer does. First cause wins. What is common to all ends: end.c.
 *
 * A SEND or WRITE has completed before the peer finds fault with it; so of our own work only READs and atomics fail by
 * name, and the rest is flushed.
 */
#include "iwarp/engine.h"

/* RFC 5041 8.2 has no code for a right that is missing: the STag is invalid then (siw does so, too). */
struct vb_terminate_cause vb_iwarp_cause_of(const struct vb_fault_record *why, bool is_read)
{
	unsigned layer = is_read ? VB_TERMINATE_RDMAP : VB_TERMINATE_DDP;
	bool wraps = why->length > 0 && why->length - 1 > UINT64_MAX - why->address;

	switch (why->fault) {
	case VB_FAULT_RANGE:
		return vb_terminate_cause(layer, 1, wraps ? (is_read ? 0x04 : 0x03) : 0x01);
	case VB_FAULT_RIGHTS:
	case VB_FAULT_QP_RIGHTS:
		return vb_terminate_cause(layer, 1, is_read ? 0x02 : 0x00);
	case VB_FAULT_PD_MISMATCH:
	case VB_FAULT_QP_MISMATCH:
		return vb_terminate_cause(layer, 1, is_read ? 0x03 : 0x02);
	default:
		return vb_terminate_cause(layer, 1, 0x00);
	}
}

static void owe(struct vb_iwarp_engine *engine, struct vb_terminate_cause cause)
{
	engine->stage = VB_IWARP_TERMINATING;
	engine->terminate = (struct vb_terminate){.cause = cause};
}

static void name_message(struct vb_iwarp_engine *engine, const struct vb_iwarp_fall *fall)
{
	struct vb_terminate *terminate = &engine->terminate;

	terminate->has_length = terminate->has_header = true;
	if (!fall->read) {
		terminate->header = engine->receiver.header;
		terminate->segment_length = (uint16_t)engine->receiver.ulpdu;
		return;
	}
	terminate->has_read = true;
	terminate->header = vb_ddp_header_of(VB_RDMAP_READ_REQUEST, true);
	terminate->header.msn = fall->read->msn;
	terminate->segment_length = VB_DDP_UNTAGGED_LENGTH + VB_RDMAP_READ_LENGTH;
	terminate->read = (struct vb_rdmap_read){
		.sink_stag = fall->read->sink_stag,
		.sink_offset = fall->read->sink_offset,
		.size = fall->read->size,
		.source_stag = fall->read->key,
		.source_offset = fall->read->address,
	};
}

void vb_iwarp_fail_oldest(struct vb_qp *qp, vb_time now, enum ibv_wc_status status, struct vb_fault_record *why)
{
	const struct vb_send_wqe *wqe = vb_send_queue_at(&qp->send, qp->send.tail);

	why->waited = now - wqe->started_at;
	vb_work_evidence(qp, wqe, why);
	qp->host->qp_event(qp, IBV_EVENT_QP_FATAL);
	vb_qp_fail_send(qp, status, why, now);
}

void vb_iwarp_fall(struct vb_qp *qp, vb_time now, const struct vb_iwarp_fall *fall, const struct vb_fault_record *found)
{
	struct vb_iwarp_engine *engine = vb_iwarp_engine(qp);
	struct vb_iwarp_receiver *receiver = &engine->receiver;
	struct vb_fault_record why = *found;
	bool taken = fall->fails_receive && receiver->has_receive;

	if (vb_iwarp_is_over(engine))
		return;
	owe(engine, fall->cause);
	if (fall->names_message)
		name_message(engine, fall);
	why.terminate = fall->cause.v;
	why.opcode = receiver->header.opcode;
	if (fall->fails_send) {
		vb_iwarp_fail_oldest(qp, now, fall->status, &why);
		return;
	}
	if (taken)
		receiver->has_receive = false;
	vb_qp_fail_receive(qp, taken ? &receiver->taken : NULL, fall->status, &why, fall->event, fall->has_event, now);
}

void vb_iwarp_fall_by(struct vb_qp *qp, vb_time now, unsigned layer, unsigned type, unsigned code, enum vb_fault fault)
{
	struct vb_iwarp_fall fall = {
		.cause = vb_terminate_cause(layer, type, code),
		/* Of what is no frame, or has no fault of a frame, there is no header to show. */
		.names_message = layer != VB_TERMINATE_MPA && type != 0,
		.has_event = true,
		.event = IBV_EVENT_QP_FATAL,
	};
	const struct vb_fault_record why = {.fault = fault, .length = vb_iwarp_engine(qp)->receiver.ulpdu};

	vb_iwarp_fall(qp, now, &fall, &why);
}

void vb_iwarp_fall_local(struct vb_qp *qp)
{
	struct vb_iwarp_engine *engine = vb_iwarp_engine(qp);

	if (!vb_iwarp_is_over(engine))
		owe(engine, vb_terminate_cause(VB_TERMINATE_RDMAP, 0, 0xff));
}

/* ---- the peer's ---- */

static enum ibv_wc_status status_of(struct vb_terminate_cause cause, enum vb_fault *fault)
{
	unsigned layer = vb_terminate_layer(cause), type = vb_terminate_type(cause), code = vb_terminate_code(cause);

	if (layer == VB_TERMINATE_RDMAP && type == 1) {
		*fault = VB_FAULT_REMOTE_ACCESS;
		return IBV_WC_REM_ACCESS_ERR;
	}
	/* What we asked for was wrong as such: version, opcode, queue, number, more than the peer answers at once. */
	if ((layer == VB_TERMINATE_RDMAP && type == 2 && (code == 0x05 || code == 0x06)) || layer == VB_TERMINATE_DDP) {
		*fault = VB_FAULT_REMOTE_INVALID_REQUEST;
		return IBV_WC_REM_INV_REQ_ERR;
	}
	*fault = VB_FAULT_REMOTE_OPERATION;
	return IBV_WC_REM_OP_ERR;
}

/* The READ or atomic that it names, by its number in ours. siw shows the size of a READ in the place of its MSN: only
 * its sink tells. */
static bool find_named(const struct vb_iwarp_engine *engine, const struct vb_terminate *terminate, uint32_t *index)
{
	uint32_t outstanding = engine->sender.cursor.asked - engine->reads.done;

	if (terminate->has_read)
		*index = (uint32_t)(terminate->read.sink_offset >> 32);
	else if (terminate->has_header && !terminate->by_siw && !terminate->header.tagged && terminate->header.queue == VB_DDP_QUEUE_READ)
		*index = engine->sender.cursor.asked - (engine->sender.cursor.read_msn - terminate->header.msn);
	else
		return false;
	return *index - engine->reads.done < outstanding && !vb_iwarp_asked(engine, *index)->greeting;
}

void vb_iwarp_terminated(struct vb_qp *qp, vb_time now, const struct vb_terminate *terminate)
{
	struct vb_iwarp_engine *engine = vb_iwarp_engine(qp);
	struct vb_fault_record why = {.remote = true, .terminate = terminate->cause.v};
	enum ibv_wc_status status;
	uint32_t index, element;

	engine->stage = VB_IWARP_TERMINATED;
	status = status_of(terminate->cause, &why.fault);
	if (!find_named(engine, terminate, &index)) {
		why.fault = VB_FAULT_TERMINATED;
		vb_qp_fail_receive(qp, NULL, IBV_WC_SUCCESS, &why, IBV_EVENT_QP_FATAL, true, now);
		return;
	}
	/* Those before it are not answered, either. */
	element = vb_iwarp_asked(engine, index)->element;
	while (vb_iwarp_is_alive(qp) && qp->send.tail != element)
		vb_qp_complete_send(qp, IBV_WC_WR_FLUSH_ERR, VB_FAULT_FLUSHED, now);
	/* A completion queue that overran has ended it already. */
	if (vb_iwarp_is_alive(qp))
		vb_iwarp_fail_oldest(qp, now, status, &why);
}
