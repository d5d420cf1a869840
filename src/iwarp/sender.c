/* SPDX-License-Identifier: MIT
 *
 * Work requests, and answers to the peer's READs and atomics, become FPDUs. Messages are never interleaved; requests and answers take
 * turns message by message, long WRITEs and READs being several of them.
 *
 * What is offered to the socket is not sent yet. Each FPDU made notes in the offer where the sender stands behind it (struct
 * vb_iwarp_cursor); when the socket has said how much it took, the cursor of the last whole FPDU becomes the sender's. Of an FPDU that
 * was taken in part the rest is kept and offered again as it is: its source may have changed meanwhile, or be gone.
 *
 * When a request is done: retire.c.
 */
#include <stdlib.h>
#include <string.h>

#include "iwarp/engine.h"

enum next { NEXT_MADE, NEXT_NOTHING, NEXT_NO_ROOM };

/* What one call of vb_iwarp_send has at hand. */
struct sending {
	struct vb_qp *qp;
	struct vb_iwarp_engine *engine;
	struct vb_iwarp_out *out;
	struct vb_iwarp_cursor at;
	vb_time now;
	uint32_t past;                   /* so many bytes may still be moved past the stream */
};

void vb_iwarp_sender_begin(struct vb_qp *qp)
{
	struct vb_iwarp_sender *sender = &vb_iwarp_engine(qp)->sender;

	sender->cursor = (struct vb_iwarp_cursor){
		.request = qp->send.tail,
		.send_msn = 1,
		.read_msn = 1,
		.atomic_msn = 1,
	};
}

/* No more requests. What is kept must leave before a TERMINATE can. */
void vb_iwarp_sender_end(struct vb_qp *qp)
{
	struct vb_iwarp_sender *sender = &vb_iwarp_engine(qp)->sender;

	sender->failure.waits = false;
	sender->local_retry_at = 0;
	sender->past = 0;
	sender->held_since = 0;
}

bool vb_iwarp_sender_is_idle(const struct vb_qp *qp)
{
	const struct vb_iwarp_engine *engine = vb_iwarp_engine_of(qp);

	/* The first FPDU, too: a peer may count on a ready-to-receive message that was agreed on. */
	return vb_send_queue_count(&qp->send) == 0 && engine->reads.owed_head == engine->sender.cursor.answer && !engine->sender.kept &&
	       (engine->first.owed == 0 || engine->sender.cursor.greetings > 0);
}

bool vb_iwarp_has_output(const struct vb_qp *qp)
{
	const struct vb_iwarp_engine *engine = vb_iwarp_engine_of(qp);

	return vb_send_queue_count(&qp->send) > 0 || engine->reads.owed_head != engine->sender.cursor.answer || engine->sender.kept ||
	       engine->sender.cursor.greetings < engine->first.owed || engine->stage != VB_IWARP_OPEN ||
	       vb_iwarp_introduction_is_owed(engine, &engine->sender.cursor);
}

/* ---- starting a request ---- */

enum start { START_READY, START_WAITS };

static enum start fail(struct sending *sending, enum ibv_wc_status status, const struct vb_fault_record *why)
{
	vb_work_fail(&sending->engine->sender.failure, sending->qp, sending->at.request, status, why, 0);
	return START_WAITS;
}

static enum start execute_local(struct sending *sending, struct vb_send_wqe *wqe)
{
	struct vb_fault_record why = {0};
	enum vb_window_result result = vb_work_execute_local(sending->qp, wqe, &why);

	if (result == VB_WINDOW_LATER) {
		sending->engine->sender.local_retry_at = sending->now + VB_IWARP_LOCAL_RETRY;
		return START_WAITS;
	}
	if (result == VB_WINDOW_REFUSED)
		return fail(sending, IBV_WC_MW_BIND_ERR, &why);
	wqe->started = wqe->done = true;
	return START_READY;
}

/* Behind a request that fails nothing follows; what the socket has not taken of those before it does. */
static bool is_at_its_end(const struct sending *sending)
{
	const struct vb_work_failure *failure = &sending->engine->sender.failure;

	return failure->waits && (int32_t)(sending->at.request - failure->index) >= 0;
}

/* Once for each request, before its first byte. */
static enum start start(struct sending *sending, struct vb_send_wqe *wqe)
{
	const struct vb_work *work = vb_work(wqe->opcode);
	struct vb_qp *qp = sending->qp;
	struct vb_fault_record why = {0};
	enum ibv_wc_status status;

	if (wqe->started)
		return START_READY;
	/* READs and atomics before a fence must be complete (IBA 10.8.3.3; RFC 5040 5.5 leaves it to the verbs). */
	if ((wqe->send_flags & IBV_SEND_FENCE) && sending->at.asked != sending->engine->reads.done)
		return START_WAITS;
	wqe->started_at = sending->now;
	if (!vb_work_check(qp, wqe, VB_MAX_MESSAGE, &status, &why))
		return fail(sending, status, &why);
	if (work->kind == VB_WORK_LOCAL)
		return execute_local(sending, wqe);
	if (!wqe->is_inline && !vb_memory_check_list(qp->host->memory, qp->pd, qp->qpn, wqe->list, wqe->sge_count,
						     work->is_read ? IBV_ACCESS_LOCAL_WRITE : 0, &why))
		return fail(sending, IBV_WC_LOC_PROT_ERR, &why);
	if (work->is_read && !vb_iwarp_reads_provide(sending->engine)) {
		why.fault = VB_FAULT_LOCAL_OPERATION;
		return fail(sending, IBV_WC_LOC_QP_OP_ERR, &why);
	}
	wqe->started = true;
	vb_work_count(qp->host->counters, work->kind);
	return START_READY;
}

/* ---- FPDUs ---- */

static enum next made(enum vb_iwarp_made made)
{
	return made == VB_IWARP_MADE ? NEXT_MADE : NEXT_NO_ROOM;
}

static enum next put(struct sending *sending, const struct vb_ddp_header *header, const uint8_t *body, uint32_t body_length)
{
	return made(vb_iwarp_output_fpdu(sending->qp, sending->out, header, body, body_length, NULL, 0, 0, NULL));
}

/* Bytes of a payload that fit an FPDU. Long ones are kept at a round number. */
static uint32_t room_for(const struct vb_iwarp_engine *engine, const struct vb_ddp_header *header)
{
	if (engine->terms.mulpdu == VB_MULPDU_LARGE)
		return VB_MULPDU_LARGE - VB_DDP_UNTAGGED_LENGTH;
	return engine->terms.mulpdu - (uint32_t)vb_ddp_header_length(header);
}

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static struct vb_iwarp_source source_of(struct vb_send_wqe *wqe)
{
	return (struct vb_iwarp_source){
		.list = wqe->list,
		.count = wqe->sge_count,
		.bytes = wqe->is_inline ? vb_send_wqe_inline(wqe) : NULL,
	};
}

static void end_request(struct vb_iwarp_cursor *at)
{
	at->request++;
	at->request_offset = 0;
	at->immediate_next = false;
	at->underway = VB_IWARP_UNDERWAY_NOTHING;
	at->answers_first = true;
}

/* The next segment of a SEND or WRITE: `left` bytes to the end of its message. */
static enum next put_payload(struct sending *sending, struct vb_send_wqe *wqe, struct vb_ddp_header *header, uint32_t left)
{
	struct vb_iwarp_source source = source_of(wqe);
	uint32_t length = least(left, room_for(sending->engine, header));
	struct vb_fault_record why = {0};

	header->last = length == left;
	switch (vb_iwarp_output_fpdu(sending->qp, sending->out, header, NULL, 0, &source, sending->at.request_offset, length, &why)) {
	case VB_IWARP_MADE:
		sending->at.request_offset += length;
		return NEXT_MADE;
	case VB_IWARP_FAULT:
		fail(sending, IBV_WC_LOC_PROT_ERR, &why);
		return NEXT_NOTHING;
	default:
		return NEXT_NO_ROOM;
	}
}

static enum next put_send(struct sending *sending, struct vb_send_wqe *wqe)
{
	struct vb_iwarp_cursor *at = &sending->at;
	bool invalidates = wqe->opcode == IBV_WR_SEND_WITH_INV;
	struct vb_ddp_header header = vb_ddp_header_of(vb_rdmap_send(wqe->send_flags & IBV_SEND_SOLICITED, invalidates), false);
	enum next next;

	header.stag = invalidates ? wqe->invalidate_rkey : 0;
	header.msn = at->send_msn;
	header.mo = at->request_offset;
	next = put_payload(sending, wqe, &header, wqe->length - at->request_offset);
	if (next != NEXT_MADE)
		return next;
	at->underway = VB_IWARP_UNDERWAY_REQUEST;
	at->receives = at->fpdus + 1;
	if (header.last) {
		at->send_msn++;
		end_request(at);
	}
	return next;
}

static enum next put_immediate(struct sending *sending, const struct vb_send_wqe *wqe)
{
	bool solicited = wqe->send_flags & IBV_SEND_SOLICITED;
	struct vb_ddp_header header = vb_ddp_header_of(solicited ? VB_RDMAP_IMMEDIATE_SOLICITED : VB_RDMAP_IMMEDIATE, true);
	uint8_t body[VB_RDMAP_IMMEDIATE_LENGTH] = {0};
	enum next next;

	memcpy(body, &wqe->immediate, sizeof(wqe->immediate));
	header.msn = sending->at.send_msn;
	next = put(sending, &header, body, sizeof(body));
	if (next == NEXT_MADE) {
		sending->at.receives = sending->at.fpdus + 1;
		sending->at.send_msn++;
		end_request(&sending->at);
	}
	return next;
}

static enum next put_write(struct sending *sending, struct vb_send_wqe *wqe)
{
	struct vb_iwarp_cursor *at = &sending->at;
	struct vb_ddp_header header = vb_ddp_header_of(VB_RDMAP_WRITE, false);
	bool immediate = wqe->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	uint32_t left = wqe->length - at->request_offset;
	enum next next;

	if (at->immediate_next)
		return put_immediate(sending, wqe);
	/* The length of a WRITE with immediate is told to the receiver: it stays one message. */
	if (!immediate)
		left = least(left, VB_IWARP_MESSAGE - at->request_offset % VB_IWARP_MESSAGE);
	header.stag = wqe->rdma.rkey;
	header.offset = wqe->rdma.address + at->request_offset;
	next = put_payload(sending, wqe, &header, left);
	if (next != NEXT_MADE)
		return next;
	at->underway = VB_IWARP_UNDERWAY_REQUEST;
	if (!header.last)
		return next;
	if (immediate) {
		at->immediate_next = true;
	} else if (at->request_offset == wqe->length) {
		end_request(at);
	} else {
		at->underway = VB_IWARP_UNDERWAY_NOTHING;
		at->answers_first = true;
	}
	return next;
}

/* One more is asked for. Made a second time it is the same one. */
static void book(struct sending *sending, struct vb_iwarp_asked asked)
{
	*vb_iwarp_asked(sending->engine, sending->at.asked) = asked;
	sending->at.asked++;
	sending->at.read_msn++;
	sending->at.answers_first = true;
}

static enum next put_read(struct sending *sending, const struct vb_send_wqe *wqe)
{
	struct vb_iwarp_cursor *at = &sending->at;
	struct vb_ddp_header header = vb_ddp_header_of(VB_RDMAP_READ_REQUEST, true);
	uint32_t size = least(wqe->length - at->request_offset, VB_IWARP_MESSAGE);
	const struct vb_rdmap_read read = {
		.sink_stag = VB_IWARP_SINK_STAG,
		.sink_offset = (uint64_t)at->asked << 32,
		.size = size,
		.source_stag = wqe->rdma.rkey,
		.source_offset = wqe->rdma.address + at->request_offset,
	};
	struct vb_iwarp_asked asked = {.element = at->request, .offset = at->request_offset, .size = size};
	uint8_t body[VB_RDMAP_READ_LENGTH];
	enum next next;

	if (!vb_iwarp_reads_have_room(sending->engine, at))
		return NEXT_NOTHING;
	header.msn = at->read_msn;
	vb_rdmap_read_encode(&read, body);
	next = put(sending, &header, body, sizeof(body));
	if (next != NEXT_MADE)
		return next;
	at->request_offset += size;
	asked.ends = at->request_offset == wqe->length;
	book(sending, asked);
	if (asked.ends)
		end_request(at);
	return next;
}

static enum next put_atomic(struct sending *sending, const struct vb_send_wqe *wqe)
{
	struct vb_iwarp_cursor *at = &sending->at;
	struct vb_ddp_header header = vb_ddp_header_of(VB_RDMAP_ATOMIC_REQUEST, true);
	bool swap = wqe->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
	const struct vb_rdmap_atomic atomic = {
		.operation = swap ? VB_RDMAP_COMPARE_SWAP : VB_RDMAP_FETCH_ADD,
		.id = at->asked,
		.stag = wqe->atomic.rkey,
		.offset = wqe->atomic.address,
		.add_or_swap = swap ? wqe->atomic.swap : wqe->atomic.compare_or_add,
		.add_or_swap_mask = swap ? UINT64_MAX : 0,
		.compare = swap ? wqe->atomic.compare_or_add : 0,
		.compare_mask = swap ? UINT64_MAX : 0,
	};
	uint8_t body[VB_RDMAP_ATOMIC_LENGTH];
	enum next next;

	if (!vb_iwarp_reads_have_room(sending->engine, at))
		return NEXT_NOTHING;
	header.msn = at->read_msn;
	vb_rdmap_atomic_encode(&atomic, body);
	next = put(sending, &header, body, sizeof(body));
	if (next != NEXT_MADE)
		return next;
	book(sending, (struct vb_iwarp_asked){.element = at->request, .size = sizeof(uint64_t), .ends = true});
	end_request(at);
	return next;
}

/* The request that is next, and those behind it that can be moved past the stream with it. */
static void put_row(struct sending *sending)
{
	struct vb_send_queue *queue = &sending->qp->send;
	struct vb_iwarp_cursor *at = &sending->at;
	const uint32_t first = at->request;
	struct vb_iwarp_row row;
	struct vb_send_wqe *wqe;

	row.count = row.elements = row.bytes = 0;
	for (; at->request != queue->head; at->request++) {
		wqe = vb_send_queue_at(queue, at->request);
		if (!vb_iwarp_past_row_takes(&row, wqe, sending->past) || start(sending, wqe) == START_WAITS)
			break;
		vb_iwarp_past_row_add(&row, wqe);
	}
	at->request = first;
	vb_iwarp_past_row(sending->qp, at, &row, &sending->past);
}

/* What the send queue has, if it may be sent. */
static enum next put_request(struct sending *sending)
{
	struct vb_iwarp_cursor *at = &sending->at;
	struct vb_send_queue *queue = &sending->qp->send;
	enum vb_iwarp_past past;
	struct vb_send_wqe *wqe;

	for (; at->request != queue->head; at->request++) {
		wqe = vb_send_queue_at(queue, at->request);
		if (is_at_its_end(sending) || start(sending, wqe) == START_WAITS)
			return NEXT_NOTHING;
		if (vb_iwarp_past_begins_row(sending->qp, sending->now, at, wqe))
			put_row(sending);
		past = vb_iwarp_past(sending->qp, sending->now, at, wqe, &sending->past);
		if (past == VB_IWARP_PAST_DONE)
			continue;
		if (past != VB_IWARP_PAST_NOT)
			return past == VB_IWARP_PAST_MORE ? NEXT_NO_ROOM : NEXT_NOTHING;
		switch (vb_work(wqe->opcode)->kind) {
		case VB_WORK_SEND:
			return put_send(sending, wqe);
		case VB_WORK_WRITE:
			return put_write(sending, wqe);
		case VB_WORK_READ:
			return put_read(sending, wqe);
		case VB_WORK_ATOMIC:
			return put_atomic(sending, wqe);
		default:
			break; /* local, and done */
		}
	}
	return NEXT_NOTHING;
}

/* ---- answers ---- */

static void end_answer(struct vb_iwarp_cursor *at)
{
	at->answer++;
	at->answer_offset = 0;
	at->underway = VB_IWARP_UNDERWAY_NOTHING;
	at->answers_first = false;
}

static enum next put_atomic_response(struct sending *sending, const struct vb_iwarp_owed *owed)
{
	struct vb_ddp_header header = vb_ddp_header_of(VB_RDMAP_ATOMIC_RESPONSE, true);
	const struct vb_rdmap_atomic_response response = {owed->id, owed->original};
	uint8_t body[VB_RDMAP_ATOMIC_RESPONSE_LENGTH];
	enum next next;

	header.msn = sending->at.atomic_msn;
	vb_rdmap_atomic_response_encode(&response, body);
	next = put(sending, &header, body, sizeof(body));
	if (next == NEXT_MADE) {
		sending->at.atomic_msn++;
		end_answer(&sending->at);
	}
	return next;
}

static enum next put_answer(struct sending *sending)
{
	struct vb_iwarp_cursor *at = &sending->at;
	const struct vb_iwarp_owed *owed = vb_iwarp_owed(sending->engine, at->answer);
	struct vb_ddp_header header = vb_ddp_header_of(VB_RDMAP_READ_RESPONSE, false);
	const struct vb_iwarp_source source = {.key = owed->key, .address = owed->address};
	uint32_t left = owed->size - at->answer_offset, length = least(left, room_for(sending->engine, &header));
	struct vb_fault_record why = {0};
	struct vb_iwarp_fall fall = {.read = owed, .names_message = true, .has_event = true, .event = IBV_EVENT_QP_ACCESS_ERR};

	if (owed->is_atomic)
		return put_atomic_response(sending, owed);
	header.last = length == left;
	header.stag = owed->sink_stag;
	header.offset = owed->sink_offset + at->answer_offset;
	switch (vb_iwarp_output_fpdu(sending->qp, sending->out, &header, NULL, 0, &source, at->answer_offset, length, &why)) {
	case VB_IWARP_MADE:
		at->answer_offset += length;
		at->underway = VB_IWARP_UNDERWAY_ANSWER;
		if (header.last)
			end_answer(at);
		return NEXT_MADE;
	case VB_IWARP_FAULT:
		/* The region was there when the READ came. */
		fall.cause = vb_iwarp_cause_of(&why, true);
		vb_iwarp_fall(sending->qp, sending->now, &fall, &why);
		return NEXT_NOTHING;
	default:
		return NEXT_NO_ROOM;
	}
}

/* ---- what else there is ---- */

static enum next put_terminate(struct sending *sending)
{
	struct vb_ddp_header header = vb_ddp_header_of(VB_RDMAP_TERMINATE, true);
	uint8_t body[VB_TERMINATE_MOST];
	enum next next;

	if (sending->at.terminated)
		return NEXT_NOTHING;
	header.msn = 1;
	next = put(sending, &header, body, (uint32_t)vb_terminate_encode(&sending->engine->terminate, body));
	if (next == NEXT_MADE)
		sending->at.terminated = true;
	return next;
}

/* The first FPDU of an initiator (first.c): zero bytes, of the kind that was agreed on. Repeated, or a responder's, it is a WRITE. */
static enum next put_greeting(struct sending *sending)
{
	struct vb_iwarp_cursor *at = &sending->at;
	const struct vb_iwarp_terms *terms = &sending->engine->terms;
	enum vb_iwarp_ready ready = at->greetings > 0 || !terms->initiator ? VB_IWARP_READY_WRITE : terms->ready;
	struct vb_ddp_header header = vb_ddp_header_of(VB_RDMAP_WRITE, true);
	const struct vb_rdmap_read read = {.sink_stag = VB_IWARP_SINK_STAG, .sink_offset = (uint64_t)at->asked << 32};
	uint8_t body[VB_RDMAP_READ_LENGTH];
	uint32_t body_length = 0;
	enum next next;

	if (ready == VB_IWARP_READY_READ && !vb_iwarp_reads_provide(sending->engine))
		ready = VB_IWARP_READY_WRITE;
	header.stag = VB_IWARP_GREETING_STAG;
	if (ready == VB_IWARP_READY_SEND) {
		header = vb_ddp_header_of(VB_RDMAP_SEND, true);
		header.msn = at->send_msn;
	} else if (ready == VB_IWARP_READY_READ) {
		header = vb_ddp_header_of(VB_RDMAP_READ_REQUEST, true);
		header.msn = at->read_msn;
		vb_rdmap_read_encode(&read, body);
		body_length = sizeof(body);
	}
	next = put(sending, &header, body, body_length);
	if (next != NEXT_MADE)
		return next;
	at->greetings++;
	if (ready == VB_IWARP_READY_SEND)
		at->send_msn++;
	else if (ready == VB_IWARP_READY_READ)
		book(sending, (struct vb_iwarp_asked){.greeting = true, .ends = true});
	return next;
}

static enum next put_introduction(struct sending *sending)
{
	const struct vb_ddp_header header = vb_iwarp_introduction_header(sending->qp);
	enum next next = put(sending, &header, NULL, 0);

	if (next == NEXT_MADE)
		sending->at.introduced = true;
	return next;
}

static bool owes_answers(const struct sending *sending)
{
	return sending->at.answer != sending->engine->reads.owed_head;
}

/* The next FPDU. */
static enum next put_next(struct sending *sending)
{
	struct vb_iwarp_cursor *at = &sending->at;
	enum next next = NEXT_NOTHING;

	if (sending->engine->stage == VB_IWARP_TERMINATING)
		return put_terminate(sending);
	if (!vb_iwarp_is_alive(sending->qp) || sending->engine->first.holds_back)
		return NEXT_NOTHING;
	if (at->underway == VB_IWARP_UNDERWAY_REQUEST)
		return put_request(sending);
	if (at->underway == VB_IWARP_UNDERWAY_ANSWER)
		return put_answer(sending);
	if (at->greetings < sending->engine->first.owed)
		return put_greeting(sending);
	if (vb_iwarp_introduction_is_owed(sending->engine, at))
		return put_introduction(sending);
	if (at->answers_first && owes_answers(sending))
		return put_answer(sending);
	next = put_request(sending);
	if (next == NEXT_NOTHING && owes_answers(sending) && sending->engine->stage != VB_IWARP_TERMINATING)
		next = put_answer(sending);
	return next;
}

static enum next fill(struct sending *sending)
{
	enum next next;

	while ((next = put_next(sending)) == NEXT_MADE) {
		sending->at.fpdus++;
		vb_iwarp_output_mark(sending->out, &sending->at);
	}
	return next;
}

bool vb_iwarp_send(struct vb_qp *qp, vb_time now, struct vb_iwarp_out *out)
{
	struct vb_iwarp_engine *engine = vb_iwarp_engine(qp);
	struct vb_iwarp_sender *sender = &engine->sender;
	struct sending sending = {qp, engine, out, sender->cursor, now, VB_IWARP_BYTES};
	bool ended_before = engine->stage == VB_IWARP_TERMINATING;
	enum next next;

	vb_lock_assert_held(&qp->lock);
	vb_iwarp_output_reset(out);
	sender->local_retry_at = 0;
	if (sender->kept) {
		vb_iwarp_output_kept(out, sender->kept + sender->kept_at, sender->kept_length - sender->kept_at);
		vb_iwarp_output_mark(out, &sender->kept_after);
		sending.at = sender->kept_after;
		vb_iwarp_cursor_catch_up(qp, &sending.at);
	}
	next = fill(&sending);
	vb_iwarp_sender_retire(qp, now);
	/* A failure that was found on the way is told to the peer behind what was made before it. */
	if (next == NEXT_NOTHING && engine->stage == VB_IWARP_TERMINATING && !ended_before)
		next = fill(&sending);
	if (out->marks > 0 && engine->bypass)
		engine->bypass->sends(engine->bypass);
	if (out->marks > 0)
		VB_COUNT_MANY(qp->host->counters, sent_pkts, out->marks);
	else
		vb_iwarp_output_let_go(out);
	vb_iwarp_check_invariants(qp);
	return next == NEXT_NO_ROOM;
}

/* ---- what the socket took ---- */

static bool keep(struct vb_iwarp_sender *sender, const struct vb_iwarp_out *out, size_t from, const struct vb_iwarp_mark *mark)
{
	uint32_t length = (uint32_t)(mark->end - from), copied = 0;
	uint8_t *kept = malloc(length);
	size_t skip = from;

	if (!kept)
		return false;
	for (unsigned i = 0; copied < length; i++) {
		const struct iovec *span = &out->spans[i];
		size_t some;

		if (skip >= span->iov_len) {
			skip -= span->iov_len;
			continue;
		}
		some = span->iov_len - skip < length - copied ? span->iov_len - skip : length - copied;
		memcpy(kept + copied, (const uint8_t *)span->iov_base + skip, some);
		copied += (uint32_t)some;
		skip = 0;
	}
	sender->kept = kept;
	sender->kept_at = 0;
	sender->kept_length = length;
	sender->kept_after = mark->after;
	return true;
}

static void release_kept(struct vb_iwarp_sender *sender)
{
	free(sender->kept);
	sender->kept = NULL;
}

void vb_iwarp_sent(struct vb_qp *qp, vb_time now, struct vb_iwarp_out *out, size_t length)
{
	struct vb_iwarp_engine *engine = vb_iwarp_engine(qp);
	struct vb_iwarp_sender *sender = &engine->sender;
	const struct vb_fault_record why = {.fault = VB_FAULT_RESPONDER_OPERATION};
	bool was_kept = sender->kept, lost = false;
	unsigned whole = 0;
	size_t end;

	vb_lock_assert_held(&qp->lock);
	while (whole < out->marks && out->mark[whole].end <= length)
		whole++;
	end = whole > 0 ? out->mark[whole - 1].end : 0;
	if (was_kept && whole == 0)
		sender->kept_at += (uint32_t)length;
	else if (was_kept)
		release_kept(sender);
	if (length > end && !(was_kept && whole == 0))
		lost = !keep(sender, out, length, &out->mark[whole]);
	if (whole > 0)
		sender->cursor = out->mark[whole - 1].after;
	vb_iwarp_output_let_go(out);
	/* Without memory for the rest of an FPDU nothing can follow it. */
	if (lost) {
		engine->stage = VB_IWARP_ABORTED;
		vb_qp_fail_receive(qp, NULL, IBV_WC_SUCCESS, &why, IBV_EVENT_QP_FATAL, true, now);
	}
	vb_iwarp_sender_retire(qp, now);
	vb_iwarp_check_invariants(qp);
}
