/* SPDX-License-Identifier: MIT
 *
 * The send queue. Its elements are started in order: SENDs, WRITEs with immediate and atomics leave a record in our
 * ring, WRITEs and READs are executed at once (direct.c), local work too. They complete in order when the peer shows
 * that it has executed their records.
 */
#include <string.h>

#include "local/engine.h"
#include "wire/roce_packet.h"

/* ---- completing ---- */

/* The old value that an atomic brought. The application reads it as a number of its own byte order. */
static bool place_answer(struct vb_local *local, const struct vb_send_wqe *wqe, vb_time now)
{
	struct vb_qp *qp = local->qp;
	uint64_t answer = __atomic_load_n(&local->their_answers[local->initiator.atomics_done % VB_SEGMENT_ANSWERS], __ATOMIC_RELAXED);
	struct vb_fault_record why = {0};

	local->initiator.atomics_done++;
	if (wqe->opcode == IBV_WR_ATOMIC_WRITE)
		return true;
	if (vb_memory_scatter(qp->host->memory, qp->pd, qp->qpn, wqe->list, wqe->sge_count, 0, &answer, sizeof(answer), &why))
		return true;
	vb_work_evidence(qp, wqe, &why);
	vb_qp_fail_send(qp, IBV_WC_LOC_PROT_ERR, &why, now);
	return false;
}

static const struct {
	enum ibv_wc_status status;
	enum vb_fault fault;
	uint8_t syndrome;
} naks[] = {
	[VB_SEGMENT_NAK_RNR_EXCEEDED] = {IBV_WC_RNR_RETRY_EXC_ERR, VB_FAULT_RNR_RETRY_EXCEEDED, VB_AETH_RNR_NAK},
	[VB_SEGMENT_NAK_INVALID_REQUEST] = {IBV_WC_REM_INV_REQ_ERR, VB_FAULT_REMOTE_INVALID_REQUEST,
					VB_AETH_NAK | VB_NAK_INVALID_REQUEST},
	[VB_SEGMENT_NAK_ACCESS] = {IBV_WC_REM_ACCESS_ERR, VB_FAULT_REMOTE_ACCESS, VB_AETH_NAK | VB_NAK_REMOTE_ACCESS_ERROR},
	[VB_SEGMENT_NAK_OPERATION] = {IBV_WC_REM_OP_ERR, VB_FAULT_REMOTE_OPERATION, VB_AETH_NAK | VB_NAK_REMOTE_OPERATIONAL_ERROR},
	[VB_SEGMENT_NAK_UNREADABLE] = {IBV_WC_LOC_PROT_ERR, VB_FAULT_UNMAPPED, 0},
};

static void fail_oldest(struct vb_local *local, enum ibv_wc_status status, enum vb_fault fault, uint8_t syndrome, vb_time now)
{
	struct vb_qp *qp = local->qp;
	const struct vb_send_wqe *wqe = vb_send_queue_at(&qp->send, qp->send.tail);
	struct vb_fault_record why = {
		.fault = fault,
		.remote = syndrome != 0,
		.psn = qp->attr.sq_psn,
		.syndrome = syndrome,
		.tries = fault == VB_FAULT_RNR_RETRY_EXCEEDED ? qp->attr.rnr_retry : 0,
		.waited = now - wqe->started_at,
	};

	if (fault == VB_FAULT_RNR_RETRY_EXCEEDED)
		VB_COUNT(qp->host->counters, retry_rnr_exceeded_err);
	vb_work_evidence(qp, wqe, &why);
	vb_qp_fail_send(qp, status, &why, now);
}

/* Is the oldest element done? */
static bool oldest_is_done(const struct vb_local *local)
{
	const struct vb_qp *qp = local->qp;
	const struct vb_send_wqe *wqe;

	if (qp->send.tail == local->initiator.next || vb_send_queue_count(&qp->send) == 0)
		return false;
	wqe = vb_send_queue_at(&qp->send, qp->send.tail);
	return wqe->done || (int32_t)((uint32_t)local->initiator.consumed - vb_local_note(wqe)->record) >= 0;
}

bool vb_local_initiator_oldest_is_sent(const struct vb_local *local)
{
	return oldest_is_done(local) && vb_work(vb_send_queue_at(&local->qp->send, local->qp->send.tail)->opcode)->kind == VB_WORK_SEND;
}

bool vb_local_initiator_retire(struct vb_local *local, vb_time now)
{
	struct vb_local_initiator *initiator = &local->initiator;
	struct vb_qp *qp = local->qp;
	bool progress = false;

	/* A completion queue that overruns ends the queue pair in the middle of this. */
	for (; vb_local_sends(qp) && oldest_is_done(local); progress = true) {
		const struct vb_send_wqe *wqe = vb_send_queue_at(&qp->send, qp->send.tail);

		if (!wqe->done && vb_work(wqe->opcode)->kind == VB_WORK_ATOMIC && !place_answer(local, wqe, now))
			return true;
		vb_qp_complete_send(qp, IBV_WC_SUCCESS, VB_FAULT_NONE, now);
	}
	if (!vb_local_sends(qp))
		return progress;
	if (vb_work_failure_is_due(&initiator->failure, qp)) {
		vb_work_tell_failure(&initiator->failure, qp, now);
	} else if (qp->draining && qp->state == IBV_QPS_SQD &&
		   (vb_send_queue_count(&qp->send) == 0 || !vb_send_queue_at(&qp->send, qp->send.tail)->started)) {
		vb_qp_drained(qp);
	}
	return progress;
}

/* Nothing more is expected of such a peer. */
static void write_off(struct vb_local *local)
{
	if (!vb_qp_is_reliable(local->qp)) {
		vb_local_unreliable_write_off(local);
		return;
	}
	VB_LOCAL_HINT(local->initiator.consumed, local->initiator.produced);
	local->initiator.unreachable = true;
	local->initiator.open = false;
}

/* The oldest record was refused. A HELLO cannot be, and there may be nothing else. */
static void take_nak(struct vb_local *local, enum vb_segment_nak nak, vb_time now)
{
	struct vb_local_initiator *initiator = &local->initiator;

	if (initiator->produced == initiator->consumed)
		return;
	/* UC: that the peer's queue pair has failed is not ours to know. */
	if (local->qp->send.tail != initiator->next && vb_send_queue_count(&local->qp->send) > 0 && vb_qp_is_reliable(local->qp))
		fail_oldest(local, naks[nak].status, naks[nak].fault, naks[nak].syndrome, now);
	else
		write_off(local);
}

/* What the peer said since we last looked. True: something is done. */
static bool take_acknowledgements(struct vb_local *local, vb_time now)
{
	struct vb_local_initiator *initiator = &local->initiator;
	struct vb_local_shown shown;
	bool news;

	if (initiator->produced == initiator->consumed || !vb_local_records_read(local, &shown))
		return false;
	if (!vb_local_records_are_possible(initiator, &shown)) {
		write_off(local);
		if (vb_send_queue_count(&local->qp->send) > 0 && vb_qp_is_reliable(local->qp))
			fail_oldest(local, IBV_WC_BAD_RESP_ERR, VB_FAULT_BAD_RESPONSE, 0, now);
		return true;
	}
	news = vb_local_records_accept(local, &shown);
	if (news)
		vb_local_initiator_retire(local, now);
	if (shown.nak != VB_SEGMENT_NAK_NONE && vb_local_sends(local->qp))
		take_nak(local, shown.nak, now);
	return news;
}

/* ---- starting ---- */

/* Room for a record; what the peer has executed meanwhile makes some. */
static uint8_t *reserve(struct vb_local *local, uint32_t body)
{
	uint8_t *at = vb_local_ring_reserve(local, body);

	if (!at && vb_local_records_look(local))
		at = vb_local_ring_reserve(local, body);
	return at;
}

/* Where the message's bytes are, for the peer to pull. */
static bool list_pieces(struct vb_local *local, const struct vb_send_wqe *wqe, uint8_t *body, uint16_t *pieces,
			struct vb_fault_record *why)
{
	struct vb_qp *qp = local->qp;
	struct vb_accessor who = {.pd = qp->pd, .qpn = qp->qpn};

	*pieces = 0;
	for (uint32_t i = 0; i < wqe->sge_count; i++) {
		struct vb_record_piece piece = {.length = wqe->list[i].length};

		if (piece.length == 0)
			continue;
		who.key = wqe->list[i].lkey;
		if (!vb_memory_locate(qp->host->memory, &who, wqe->list[i].addr, piece.length, &piece.address, why))
			return false;
		memcpy(body + *pieces * sizeof(piece), &piece, sizeof(piece));
		++*pieces;
	}
	return true;
}

/* UC: a peer that cannot read what we left does not say so. On-demand memory is read here first. */
VB_APART static bool can_be_read(struct vb_local *local, const struct vb_send_wqe *wqe, struct vb_fault_record *why)
{
	struct vb_qp *qp = local->qp;
	uint8_t buffer[VB_LOCAL_BOUNCE];
	struct vb_local_spans spans;

	if (vb_local_spans_open(qp, qp->pd, wqe->list, wqe->sge_count, 0, wqe->length, 0, &spans)) {
		vb_local_spans_close(&spans);
		return true;
	}
	for (uint64_t offset = 0; offset < wqe->length; offset += sizeof(buffer)) {
		uint64_t left = wqe->length - offset;

		if (!vb_memory_gather(qp->host->memory, qp->pd, qp->qpn, wqe->list, wqe->sge_count, offset, buffer,
				      left < sizeof(buffer) ? left : sizeof(buffer), why))
			return false;
	}
	return true;
}

static enum vb_local_step start_send(struct vb_local *local, struct vb_send_wqe *wqe)
{
	struct vb_qp *qp = local->qp;
	struct vb_local_record record = {.kind = VB_RECORD_SEND, .length = wqe->length};
	bool by_reference = wqe->length > VB_RECORD_INLINE;
	uint32_t bytes = by_reference ? wqe->sge_count * (uint32_t)sizeof(struct vb_record_piece) : wqe->length;
	uint8_t *body = vb_local_names(local, wqe) ? reserve(local, bytes) : NULL;
	struct vb_fault_record why = {0};
	bool good = true;

	if (!body)
		return VB_STEP_WAIT;
	if (by_reference) {
		record.flags = VB_RECORD_BY_REFERENCE;
		vb_local_note(wqe)->place = (uint32_t)(local->initiator.head % VB_RING_BYTES);
		good = list_pieces(local, wqe, body, &record.pieces, &why) &&
		       (vb_qp_is_reliable(qp) || can_be_read(local, wqe, &why));
		bytes = record.pieces * (uint32_t)sizeof(struct vb_record_piece);
	} else if (wqe->is_inline) {
		memcpy(body, vb_send_wqe_inline(wqe), wqe->length);
	} else if (wqe->length > 0) {
		good = vb_memory_gather(qp->host->memory, qp->pd, qp->qpn, wqe->list, wqe->sge_count, 0, body, wqe->length, &why);
	}
	if (!good)
		return vb_local_initiator_fail(local, IBV_WC_LOC_PROT_ERR, &why);
	if (wqe->send_flags & IBV_SEND_SOLICITED)
		record.flags |= VB_RECORD_SOLICITED;
	if (wqe->opcode == IBV_WR_SEND_WITH_IMM) {
		record.flags |= VB_RECORD_HAS_IMMEDIATE;
		memcpy(&record.immediate, &wqe->immediate, sizeof(record.immediate));
	} else if (wqe->opcode == IBV_WR_SEND_WITH_INV) {
		record.flags |= VB_RECORD_INVALIDATES;
		record.immediate = wqe->invalidate_rkey;
	}
	vb_local_records_leave(local, wqe, bytes, &record);
	local->initiator.sent++;
	return VB_STEP_DONE;
}

static uint8_t record_of(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? VB_RECORD_FETCH_ADD :
	       opcode == IBV_WR_ATOMIC_WRITE         ? VB_RECORD_ATOMIC_WRITE :
						       VB_RECORD_COMPARE_SWAP;
}

static enum vb_local_step start_atomic(struct vb_local *local, struct vb_send_wqe *wqe)
{
	struct vb_local_initiator *initiator = &local->initiator;
	struct vb_qp *qp = local->qp;
	bool add = wqe->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	struct vb_local_record record = {.kind = record_of(wqe->opcode), .length = 8};
	struct vb_record_atomic atomic = {
		.address = wqe->atomic.address,
		.compare = add ? 0 : wqe->atomic.compare_or_add,
		.swap_or_add = add ? wqe->atomic.compare_or_add : wqe->atomic.swap,
		.rkey = wqe->atomic.rkey,
	};
	struct vb_fault_record why = {0};
	enum vb_local_step step;
	uint8_t *body;

	if (!vb_memory_check_list(qp->host->memory, qp->pd, qp->qpn, wqe->list, wqe->sge_count, IBV_ACCESS_LOCAL_WRITE, &why))
		return vb_local_initiator_fail(local, IBV_WC_LOC_PROT_ERR, &why);
	step = vb_local_direct_atomic(local, wqe);
	if (step != VB_STEP_MORE)
		return step;
	if (initiator->atomics - initiator->atomics_done >= qp->attr.max_rd_atomic)
		return VB_STEP_WAIT;
	body = vb_local_names(local, wqe) ? reserve(local, sizeof(atomic)) : NULL;
	if (!body)
		return VB_STEP_WAIT;
	memcpy(body, &atomic, sizeof(atomic));
	initiator->atomics++;
	vb_local_records_leave(local, wqe, sizeof(atomic), &record);
	return VB_STEP_DONE;
}

static enum vb_local_step execute_local(struct vb_local *local, struct vb_send_wqe *wqe)
{
	struct vb_fault_record why = {0};
	enum vb_window_result result = vb_work_execute_local(local->qp, wqe, &why);

	if (result == VB_WINDOW_LATER)
		return VB_STEP_MORE;
	if (result == VB_WINDOW_REFUSED)
		return vb_local_initiator_fail(local, IBV_WC_MW_BIND_ERR, &why);
	wqe->done = true;
	return VB_STEP_DONE;
}

/* Fence: reads and atomics before it must be complete (IBA 10.8.3.3). */
static bool fence_holds(const struct vb_local_initiator *initiator, const struct vb_send_wqe *wqe)
{
	return (wqe->send_flags & IBV_SEND_FENCE) && initiator->atomics != initiator->atomics_done;
}

VB_INLINE enum vb_local_step execute(struct vb_local *local, struct vb_send_wqe *wqe, enum vb_work_kind kind)
{
	struct vb_local_initiator *initiator = &local->initiator;
	enum vb_local_step step;

	switch (kind) {
	case VB_WORK_SEND:
		return start_send(local, wqe);
	case VB_WORK_ATOMIC:
		step = start_atomic(local, wqe);
		initiator->operated += step == VB_STEP_DONE;
		return step;
	case VB_WORK_LOCAL:
		return execute_local(local, wqe);
	default:
		step = vb_local_direct_move(local, wqe);
		initiator->fetched += step == VB_STEP_DONE && kind == VB_WORK_READ;
		initiator->written += step == VB_STEP_DONE && kind != VB_WORK_READ;
		return step;
	}
}

/* The peer does not take work, or not all of it. */
VB_APART static enum vb_local_step execute_despite(struct vb_local *local, struct vb_send_wqe *wqe, enum vb_work_kind kind)
{
	enum vb_local_step step;

	if (vb_qp_is_reliable(local->qp))
		return VB_STEP_WAIT;
	step = vb_local_unreliable_begin(local, wqe);
	return step == VB_STEP_MORE ? vb_local_unreliable_tried(local, wqe, execute(local, wqe, kind)) : step;
}

static enum vb_local_step start(struct vb_local *local, struct vb_send_wqe *wqe, vb_time now)
{
	struct vb_local_initiator *initiator = &local->initiator;
	enum vb_work_kind kind = vb_work(wqe->opcode)->kind;
	struct vb_qp *qp = local->qp;
	struct vb_fault_record why = {0};
	enum ibv_wc_status status;
	enum vb_local_step step;

	/* Draining: what was begun ends, nothing begins (IBA 10.3.1.5). */
	if (!wqe->started && (qp->state != IBV_QPS_RTS || fence_holds(initiator, wqe)))
		return VB_STEP_WAIT;
	if (wqe->started_at == 0)
		wqe->started_at = now;
	if (!vb_work_check(qp, wqe, VB_MAX_MESSAGE, &status, &why))
		return vb_local_initiator_fail(local, status, &why);
	step = initiator->open || kind == VB_WORK_LOCAL ? execute(local, wqe, kind) : execute_despite(local, wqe, kind);
	if (step == VB_STEP_DONE)
		wqe->started = true;
	return step;
}

void vb_local_initiator_count(struct vb_local *local, bool all)
{
	struct vb_local_initiator *initiator = &local->initiator;

	struct vb_counters *counters = local->qp->host->counters;
	uint32_t uncounted = vb_local_uncounted(initiator);

	if (uncounted == 0 || (!all && uncounted < VB_LOCAL_COUNT && local->qp->send.tail != initiator->next))
		return;
	if (initiator->sent > 0)
		VB_COUNT_MANY(counters, rdma_sends, initiator->sent);
	if (initiator->written > 0)
		VB_COUNT_MANY(counters, rdma_writes, initiator->written);
	if (initiator->fetched > 0)
		VB_COUNT_MANY(counters, rdma_reads, initiator->fetched);
	if (initiator->operated > 0)
		VB_COUNT_MANY(counters, rdma_atomics, initiator->operated);
	initiator->sent = initiator->written = initiator->fetched = initiator->operated = 0;
}

bool vb_local_initiator_run(struct vb_local *local, vb_time now, bool *more)
{
	struct vb_local_initiator *initiator = &local->initiator;
	struct vb_qp *qp = local->qp;
	enum vb_local_step step = VB_STEP_DONE;
	bool progress = false;
	unsigned budget;

	for (budget = VB_LOCAL_BATCH; budget > 0 && step == VB_STEP_DONE && initiator->next != qp->send.head; budget--) {
		if (initiator->failure.waits)
			break;
		step = start(local, vb_send_queue_at(&qp->send, initiator->next), now);
		initiator->next += step == VB_STEP_DONE;
		progress |= step != VB_STEP_WAIT;
	}
	*more |= step == VB_STEP_MORE || (budget == 0 && initiator->next != qp->send.head);
	/* Looking at acknowledgements costs a cache miss while the peer is at it: not for each message that is only to be sent. */
	if (!progress || now >= initiator->look_at || step != VB_STEP_DONE)
		progress |= take_acknowledgements(local, now);
	if (vb_local_sends(qp) && (oldest_is_done(local) || initiator->failure.waits || qp->draining))
		progress |= vb_local_initiator_retire(local, now);
	return progress;
}
