/* SPDX-License-Identifier: MIT
 *
 * What a message means. Every rule is checked before the first byte of a payload is placed, with nothing changed; what happens to the
 * queue pair happens when the FPDU is whole (and its CRC, where there is one, is right).
 *
 * Tagged and untagged messages may be interleaved (siw does so), two of one kind not: their segments come in order (RFC 5041 5.3).
 */
#include <string.h>

#include "base/bytes.h"
#include "iwarp/engine.h"

static struct vb_iwarp_receiver *receiver_of(struct vb_qp *qp)
{
	return &vb_iwarp_engine(qp)->receiver;
}

static enum vb_iwarp_result refuse(struct vb_qp *qp, vb_time now, unsigned layer, unsigned type, unsigned code, enum vb_fault fault)
{
	vb_iwarp_fall_by(qp, now, layer, type, code, fault);
	return VB_IWARP_REFUSED;
}

enum vb_iwarp_result vb_iwarp_deliver_check(struct vb_qp *qp, vb_time now)
{
	struct vb_iwarp_receiver *receiver = receiver_of(qp);
	const struct vb_ddp_header *header = &receiver->header;

	receiver->op = vb_rdmap_opcode(header->opcode);
	if (header->ddp_version != VB_DDP_VERSION)
		return refuse(qp, now, VB_TERMINATE_DDP, header->tagged ? 1 : 2, header->tagged ? 0x04 : 0x06, VB_FAULT_FRAME);
	if (header->rdmap_version != VB_RDMAP_VERSION)
		return refuse(qp, now, VB_TERMINATE_RDMAP, 2, 0x05, VB_FAULT_FRAME);
	if (!receiver->op->name || receiver->op->tagged != header->tagged)
		return refuse(qp, now, VB_TERMINATE_RDMAP, 2, 0x06, VB_FAULT_OPCODE_UNSUPPORTED);
	if (receiver->ulpdu < receiver->op->header_length)
		return refuse(qp, now, VB_TERMINATE_MPA, 0, 0x03, VB_FAULT_FRAME);
	if (!header->tagged && header->queue != receiver->op->queue)
		return refuse(qp, now, VB_TERMINATE_DDP, 2, 0x01, VB_FAULT_MESSAGE_SEQUENCE);
	return VB_IWARP_GO_ON;
}

/* ---- before the payload ---- */

/* RFC 5041 7.1: the messages of a queue are numbered, and the segments of one say where they belong. */
static enum vb_iwarp_result check_position(struct vb_qp *qp, vb_time now, uint32_t msn, uint32_t mo)
{
	const struct vb_ddp_header *header = &receiver_of(qp)->header;

	if (header->msn != msn)
		return refuse(qp, now, VB_TERMINATE_DDP, 2, 0x03, VB_FAULT_MESSAGE_SEQUENCE);
	if (header->mo != mo)
		return refuse(qp, now, VB_TERMINATE_DDP, 2, 0x04, VB_FAULT_MESSAGE_SEQUENCE);
	return VB_IWARP_GO_ON;
}

/* A message that is one segment with nothing behind its body. */
static enum vb_iwarp_result check_single(struct vb_qp *qp, vb_time now, uint32_t msn, uint32_t payload)
{
	if (payload > 0 || !receiver_of(qp)->header.last)
		return refuse(qp, now, VB_TERMINATE_DDP, 2, 0x05, VB_FAULT_MESSAGE_LENGTH);
	return check_position(qp, now, msn, 0);
}

static enum vb_iwarp_result begin_write(struct vb_qp *qp, vb_time now, uint32_t payload)
{
	const struct vb_ddp_header *header = &receiver_of(qp)->header;
	struct vb_accessor who = {
		.pd = qp->pd,
		.qpn = qp->qpn,
		.key = header->stag,
		.rights = IBV_ACCESS_REMOTE_WRITE,
		.remote = true,
	};
	struct vb_fault_record why = {
		.key = header->stag,
		.address = header->offset,
		.length = payload,
		.rights_asked = IBV_ACCESS_REMOTE_WRITE,
		.rights_granted = qp->attr.qp_access_flags,
	};
	struct vb_iwarp_fall fall = {.names_message = true, .has_event = true, .event = IBV_EVENT_QP_ACCESS_ERR};

	/* RFC 5040 5.1: of no bytes neither STag nor TO is looked at. */
	if (payload == 0)
		return VB_IWARP_GO_ON;
	if (!(qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE))
		why.fault = VB_FAULT_QP_RIGHTS;
	else if (vb_memory_check(qp->host->memory, &who, header->offset, payload, &why))
		return VB_IWARP_GO_ON;
	fall.cause = vb_iwarp_cause_of(&why, false);
	vb_iwarp_fall(qp, now, &fall, &why);
	return VB_IWARP_REFUSED;
}

/* The answer to something else than the oldest READ, or not its next bytes. */
static enum vb_iwarp_result refuse_response(struct vb_qp *qp, vb_time now, unsigned layer, unsigned type, unsigned code)
{
	struct vb_iwarp_fall fall = {
		.cause = vb_terminate_cause(layer, type, code),
		.names_message = true,
		.fails_send = vb_iwarp_reads_oldest(vb_iwarp_engine(qp)) != NULL,
		.status = IBV_WC_BAD_RESP_ERR,
		.has_event = true,
		.event = IBV_EVENT_QP_FATAL,
	};
	struct vb_fault_record why = {.fault = VB_FAULT_BAD_RESPONSE};

	vb_iwarp_fall(qp, now, &fall, &why);
	return VB_IWARP_REFUSED;
}

static bool is_read(struct vb_qp *qp, const struct vb_iwarp_asked *asked)
{
	return asked && (asked->greeting || vb_send_queue_at(&qp->send, asked->element)->opcode == IBV_WR_RDMA_READ);
}

static bool is_sink(const struct vb_iwarp_engine *engine, const struct vb_iwarp_asked *asked)
{
	return asked->size == 0 || engine->receiver.header.stag == VB_IWARP_SINK_STAG;
}

/* The next bytes of what was asked for, and the last of them only if they are. */
static bool is_next_of_read(const struct vb_iwarp_engine *engine, const struct vb_iwarp_asked *asked, uint32_t payload)
{
	const struct vb_ddp_header *header = &engine->receiver.header;
	uint64_t expected = (uint64_t)engine->reads.done << 32 | asked->received;

	return (asked->size == 0 || header->offset == expected) && payload <= asked->size - asked->received &&
	       header->last == (payload == asked->size - asked->received);
}

static enum vb_iwarp_result begin_response(struct vb_qp *qp, vb_time now, uint32_t payload)
{
	struct vb_iwarp_engine *engine = vb_iwarp_engine(qp);
	const struct vb_iwarp_asked *asked = vb_iwarp_reads_oldest(engine);

	if (!is_read(qp, asked))
		return refuse_response(qp, now, VB_TERMINATE_RDMAP, 2, 0x06);
	if (!is_sink(engine, asked))
		return refuse_response(qp, now, VB_TERMINATE_DDP, 1, 0x00);
	if (!is_next_of_read(engine, asked, payload))
		return refuse_response(qp, now, VB_TERMINATE_DDP, 1, 0x01);
	return VB_IWARP_GO_ON;
}

static bool take_receive(struct vb_qp *qp)
{
	struct vb_iwarp_receiver *receiver = receiver_of(qp);

	if (!receiver->has_receive)
		receiver->has_receive = vb_qp_take_receive(qp, &receiver->taken);
	return receiver->has_receive;
}

/* RFC 6581 9.2: agreed on as ready-to-receive message, it is for MPA alone. */
static bool is_greeting(const struct vb_iwarp_engine *engine, uint32_t payload)
{
	const struct vb_iwarp_receiver *receiver = &engine->receiver;

	return engine->terms.ready == VB_IWARP_READY_SEND && !engine->terms.initiator && !receiver->heard && payload == 0 &&
	       receiver->header.last;
}

static enum vb_iwarp_result begin_send(struct vb_qp *qp, vb_time now, uint32_t payload)
{
	struct vb_iwarp_receiver *receiver = receiver_of(qp);
	struct vb_iwarp_fall fall = {
		.cause = vb_terminate_cause(VB_TERMINATE_DDP, 2, 0x05),
		.names_message = true,
		.fails_receive = true,
		.status = IBV_WC_LOC_LEN_ERR,
		.has_event = true,
		.event = IBV_EVENT_QP_FATAL,
	};
	struct vb_fault_record why = {.fault = VB_FAULT_LOCAL_LENGTH};

	if (check_position(qp, now, receiver->send_msn, receiver->send_underway ? receiver->send_received : 0) == VB_IWARP_REFUSED)
		return VB_IWARP_REFUSED;
	if (is_greeting(vb_iwarp_engine(qp), payload))
		return VB_IWARP_GO_ON;
	if (!take_receive(qp))
		return VB_IWARP_WAIT;
	if (!receiver->send_underway)
		receiver->send_received = 0;
	if ((uint64_t)receiver->send_received + payload <= receiver->taken.length)
		return VB_IWARP_GO_ON;
	why.length = (uint64_t)receiver->send_received + payload;
	why.region_length = receiver->taken.length;
	vb_iwarp_fall(qp, now, &fall, &why);
	return VB_IWARP_REFUSED;
}

static enum vb_iwarp_result begin_immediate(struct vb_qp *qp, vb_time now, uint32_t payload)
{
	struct vb_iwarp_receiver *receiver = receiver_of(qp);

	if (check_single(qp, now, receiver->send_msn, payload) == VB_IWARP_REFUSED)
		return VB_IWARP_REFUSED;
	/* In the middle of a SEND. */
	if (receiver->send_underway)
		return refuse(qp, now, VB_TERMINATE_RDMAP, 2, 0x06, VB_FAULT_OPCODE_SEQUENCE);
	return take_receive(qp) ? VB_IWARP_GO_ON : VB_IWARP_WAIT;
}

static enum vb_iwarp_result begin_atomic_response(struct vb_qp *qp, vb_time now, uint32_t payload)
{
	const struct vb_iwarp_asked *asked = vb_iwarp_reads_oldest(vb_iwarp_engine(qp));

	if (!asked || is_read(qp, asked))
		return refuse_response(qp, now, VB_TERMINATE_RDMAP, 2, 0x06);
	return check_single(qp, now, receiver_of(qp)->atomic_msn, payload);
}

enum vb_iwarp_result vb_iwarp_deliver_begin(struct vb_qp *qp, vb_time now, uint32_t payload)
{
	switch (receiver_of(qp)->op->kind) {
	case VB_RDMAP_KIND_WRITE:
		return begin_write(qp, now, payload);
	case VB_RDMAP_KIND_READ_RESPONSE:
		return begin_response(qp, now, payload);
	case VB_RDMAP_KIND_SEND:
		return begin_send(qp, now, payload);
	case VB_RDMAP_KIND_IMMEDIATE:
		return begin_immediate(qp, now, payload);
	case VB_RDMAP_KIND_READ_REQUEST:
	case VB_RDMAP_KIND_ATOMIC_REQUEST:
		return check_single(qp, now, receiver_of(qp)->read_msn, payload);
	case VB_RDMAP_KIND_ATOMIC_RESPONSE:
		return begin_atomic_response(qp, now, payload);
	default:
		return VB_IWARP_GO_ON; /* TERMINATE: it is the end in any case */
	}
}

bool vb_iwarp_deliver_is_next(struct vb_qp *qp, uint32_t payload)
{
	struct vb_iwarp_engine *engine = vb_iwarp_engine(qp);
	const struct vb_iwarp_receiver *receiver = &engine->receiver;
	const struct vb_ddp_header *header = &receiver->header;
	const struct vb_iwarp_asked *asked;

	switch (receiver->op->kind) {
	case VB_RDMAP_KIND_WRITE:
		/* How long the message is was not said: all segments but the last are as long as the one before. */
		return receiver->write_underway && header->stag == receiver->write_stag && header->offset == receiver->write_next &&
		       !header->last && payload == receiver->write_segment && (qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE);
	case VB_RDMAP_KIND_READ_RESPONSE:
		asked = vb_iwarp_reads_oldest(engine);
		return is_read(qp, asked) && is_sink(engine, asked) && is_next_of_read(engine, asked, payload);
	case VB_RDMAP_KIND_SEND:
		return receiver->send_underway && header->msn == receiver->send_msn && header->mo == receiver->send_received &&
		       (uint64_t)receiver->send_received + payload <= receiver->taken.length;
	default:
		return false;
	}
}

/* ---- when it is whole ---- */

static void complete(struct vb_qp *qp, vb_time now, enum ibv_wc_opcode opcode, uint32_t length, unsigned flags, uint32_t immediate)
{
	struct vb_iwarp_receiver *receiver = receiver_of(qp);
	struct vb_completion completion = {
		.wr_id = receiver->taken.wr_id,
		.status = IBV_WC_SUCCESS,
		.opcode = opcode,
		.byte_length = length,
		.immediate = immediate,
		.qpn = qp->qpn,
		.source_qpn = qp->attr.dest_qp_num,
		.wc_flags = flags,
		.solicited = receiver->op->solicited,
		.timestamp = now,
	};

	receiver->has_receive = false;
	VB_COUNT(qp->host->counters, rdma_recvs);
	vb_qp_complete_receive(qp, &completion);
}

/* RFC 5040 5.3: a refused invalidation ends the stream. Ordinary regions are not the peer's to invalidate. */
static bool invalidate(struct vb_qp *qp, vb_time now, uint32_t stag)
{
	struct vb_iwarp_fall fall = {
		.cause = vb_terminate_cause(VB_TERMINATE_RDMAP, 1, 0x09),
		.names_message = true,
		.fails_receive = true,
		.status = IBV_WC_LOC_ACCESS_ERR,
		.has_event = true,
		.event = IBV_EVENT_QP_ACCESS_ERR,
	};
	struct vb_fault_record why = {0};

	if (vb_memory_invalidate(qp->host->memory, stag, qp->pd, qp->qpn, true, &why))
		return true;
	why.key = stag;
	vb_iwarp_fall(qp, now, &fall, &why);
	return false;
}

static bool end_send(struct vb_qp *qp, vb_time now)
{
	struct vb_iwarp_receiver *receiver = receiver_of(qp);

	receiver->write_received = 0;
	receiver->send_underway = !receiver->header.last;
	receiver->send_received += receiver->placed;
	if (receiver->send_underway)
		return true;
	receiver->send_msn++;
	if (!receiver->has_receive) /* a greeting */
		return true;
	if (receiver->op->invalidates && !invalidate(qp, now, receiver->header.stag))
		return false;
	complete(qp, now, IBV_WC_RECV, receiver->send_received, receiver->op->invalidates ? IBV_WC_WITH_INV : 0,
		 receiver->op->invalidates ? receiver->header.stag : 0);
	return true;
}

static bool end_write(struct vb_iwarp_engine *engine)
{
	struct vb_iwarp_receiver *receiver = &engine->receiver;

	if (!receiver->write_underway)
		receiver->write_received = 0;
	receiver->write_underway = !receiver->header.last;
	receiver->write_received += receiver->placed;
	receiver->write_stag = receiver->header.stag;
	receiver->write_segment = receiver->placed;
	receiver->write_next = receiver->header.offset + receiver->placed;
	if (receiver->write_received == 0)
		vb_iwarp_introduction_heard(engine, &receiver->header);
	return true;
}

/* RFC 7306 6.1, and what it is good for: a WRITE with immediate data is a WRITE and this directly behind it. */
static bool end_immediate(struct vb_qp *qp, vb_time now, const uint8_t *body)
{
	struct vb_iwarp_receiver *receiver = receiver_of(qp);
	uint32_t length = receiver->write_received, immediate;

	memcpy(&immediate, body, sizeof(immediate));
	receiver->write_received = 0;
	receiver->send_msn++;
	complete(qp, now, IBV_WC_RECV_RDMA_WITH_IMM, length, IBV_WC_WITH_IMM, immediate);
	return true;
}

static bool end_response(struct vb_qp *qp, vb_time now)
{
	struct vb_iwarp_engine *engine = vb_iwarp_engine(qp);

	vb_iwarp_reads_oldest(engine)->received += engine->receiver.placed;
	if (engine->receiver.header.last)
		vb_iwarp_reads_answered(qp, now);
	return true;
}

/* The application reads the old value as a number of its own byte order. */
static bool end_atomic_response(struct vb_qp *qp, vb_time now, const uint8_t *body)
{
	struct vb_iwarp_engine *engine = vb_iwarp_engine(qp);
	const struct vb_iwarp_asked *asked = vb_iwarp_reads_oldest(engine);
	const struct vb_send_wqe *wqe = vb_send_queue_at(&qp->send, asked->element);
	struct vb_rdmap_atomic_response response;
	struct vb_fault_record why = {0};

	vb_rdmap_atomic_response_decode(&response, body);
	if (response.id != engine->reads.done)
		return refuse_response(qp, now, VB_TERMINATE_RDMAP, 2, 0x07) == VB_IWARP_GO_ON;
	engine->receiver.atomic_msn++;
	if (vb_memory_scatter(qp->host->memory, qp->pd, qp->qpn, wqe->list, wqe->sge_count, 0, &response.original,
			      sizeof(response.original), &why)) {
		vb_iwarp_reads_answered(qp, now);
		return true;
	}
	vb_iwarp_fall_local(qp);
	vb_work_evidence(qp, wqe, &why);
	vb_qp_fail_send(qp, IBV_WC_LOC_PROT_ERR, &why, now);
	return false;
}

static bool end_terminate(struct vb_qp *qp, vb_time now, const uint8_t *body, uint32_t length)
{
	struct vb_terminate terminate;

	/* One that is cut short is the end, too. */
	if (!vb_terminate_decode(&terminate, body, length, !receiver_of(qp)->heard))
		terminate.has_header = terminate.has_read = false;
	vb_iwarp_terminated(qp, now, &terminate);
	return false;
}

bool vb_iwarp_deliver_end(struct vb_qp *qp, vb_time now, const uint8_t *body, uint32_t length)
{
	struct vb_iwarp_engine *engine = vb_iwarp_engine(qp);
	struct vb_iwarp_receiver *receiver = &engine->receiver;
	struct vb_rdmap_read read;
	struct vb_rdmap_atomic atomic;
	bool good;

	if (engine->bypass)
		engine->bypass->hears(engine->bypass);
	switch (receiver->op->kind) {
	case VB_RDMAP_KIND_WRITE:
		good = end_write(engine);
		break;
	case VB_RDMAP_KIND_SEND:
		good = end_send(qp, now);
		break;
	case VB_RDMAP_KIND_IMMEDIATE:
		good = end_immediate(qp, now, body);
		break;
	case VB_RDMAP_KIND_READ_REQUEST:
		vb_rdmap_read_decode(&read, body);
		good = vb_iwarp_reads_take(qp, now, &read);
		break;
	case VB_RDMAP_KIND_READ_RESPONSE:
		good = end_response(qp, now);
		break;
	case VB_RDMAP_KIND_ATOMIC_REQUEST:
		vb_rdmap_atomic_decode(&atomic, body);
		good = vb_iwarp_reads_take_atomic(qp, now, &atomic);
		break;
	case VB_RDMAP_KIND_ATOMIC_RESPONSE:
		good = end_atomic_response(qp, now, body);
		break;
	default:
		good = end_terminate(qp, now, body, length);
	}
	VB_COUNT(qp->host->counters, rcvd_pkts);
	if (!receiver->heard) {
		receiver->heard = true;
		vb_iwarp_first_heard(engine);
	}
	vb_iwarp_past_took(engine);
	/* A completion queue that overran took the queue pair with it. */
	return good && vb_iwarp_is_alive(qp);
}
