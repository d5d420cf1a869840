/* SPDX-License-Identifier: MIT
 *
 * The peer's records, executed. What is refused, with which status at this end and which NAK at the other, is what the wire's
 * responder does (roce/responder.c, responder_checks.c), in its order.
 *
 * A record stands for as long as its sender's word does. Bytes are placed first and the word is looked at again after
 * that: if it has changed they are void, the receive they went to stays in hand, and nothing was executed.
 */
#include <errno.h>
#include <string.h>

#include "base/stamped_ring.h"
#include "local/engine.h"
#include "wire/rnr_timer.h"
#include "wire/roce_packet.h"

/* A shared receive queue does not tell when it is filled. */
#define RECEIVE_RETRY VB_MILLISECONDS(1)
/* UC: for how long a receiver whose receives have run out may be behind. */
#define BEHIND VB_SECONDS(1)

enum outcome {
	EXECUTED,
	UNFINISHED,                      /* can go on at once */
	VOID,                            /* the sender is not what it was */
	WAITS,                           /* for a receive */
	DROPPED,                         /* UC: nothing came of it, and its sender does not hear of that */
	ENDED,                           /* nothing more is executed */
};

void vb_local_target_publish(struct vb_local *local)
{
	struct vb_local_target *target = &local->target;
	struct vb_segment_qp *mine = local->mine;

	if (target->shown == target->consumed)
		return;
	target->shown = target->consumed;
	/* Answers, and what was placed, are there before it. */
	vb_stamped_give_back(&mine->released, target->position, &mine->consumed, target->consumed);
	local->kick = true;
}

static void give_nak(struct vb_local *local, enum vb_segment_nak nak, enum vb_fault fault)
{
	vb_local_target_publish(local);
	__atomic_store_n(&local->mine->nak_fault, fault, __ATOMIC_RELAXED);
	__atomic_store_n(&local->mine->nak, nak, __ATOMIC_RELEASE);
	local->target.ended = true;
	local->kick = true;
}

/* The request is at fault, and this queue pair at its end. `status`: of the receive in hand, if there is one. */
VB_RARE static enum outcome refuse(struct vb_local *local, vb_time now, enum vb_segment_nak nak,
				   const struct vb_fault_record *found, enum ibv_wc_status status)
{
	static const uint8_t codes[] = {
		[VB_SEGMENT_NAK_INVALID_REQUEST] = VB_NAK_INVALID_REQUEST,
		[VB_SEGMENT_NAK_ACCESS] = VB_NAK_REMOTE_ACCESS_ERROR,
		[VB_SEGMENT_NAK_OPERATION] = VB_NAK_REMOTE_OPERATIONAL_ERROR,
	};
	struct vb_local_target *target = &local->target;
	bool taken = target->has_receive && status != IBV_WC_SUCCESS;
	struct vb_fault_record why = *found;

	why.qpn = local->qp->qpn;
	why.peer_qpn = local->peer_qpn;
	why.syndrome = VB_AETH_NAK | codes[nak];
	/* Shown first: the peer still reads it when we are in the error state. */
	give_nak(local, nak, why.fault);
	if (taken)
		target->has_receive = false;
	/* The completion of a receive tells the application; where none is at hand an event must (IBA 10.10.2.3). */
	vb_qp_fail_receive(local->qp, taken ? &target->taken : NULL, status, &why,
			   nak == VB_SEGMENT_NAK_ACCESS ? IBV_EVENT_QP_ACCESS_ERR : IBV_EVENT_QP_REQ_ERR, !taken, now);
	return ENDED;
}

/* ---- receives ---- */

static void clear_stall(struct vb_local *local)
{
	if (!local->target.stalled)
		return;
	VB_LOCAL_HINT(local->target.stalled, false);
	__atomic_store_n(&local->mine->stalled, 0, __ATOMIC_RELAXED);
}

/* What stands in its ring is no record. Of UC nothing more is executed, as if packets came that cannot be read. */
VB_RARE static enum outcome refuse_nonsense(struct vb_local *local, vb_time now, const struct vb_fault_record *why)
{
	if (!vb_local_sender_stands(local))
		return VOID;
	if (vb_qp_is_reliable(local->qp))
		return refuse(local, now, VB_SEGMENT_NAK_INVALID_REQUEST, why, IBV_WC_LOC_QP_OP_ERR);
	clear_stall(local);
	local->target.ended = true;
	return ENDED;
}

void vb_local_target_forget(struct vb_local *local)
{
	clear_stall(local);
}

/* IBA 9.8.2.2.3: the message is gone; a receive that it took waits for the next one. */
static enum outcome drop(struct vb_local *local)
{
	VB_COUNT(local->qp->host->counters, dropped_pkts);
	return DROPPED;
}

static enum outcome drop_starved(struct vb_local *local)
{
	clear_stall(local);
	local->target.starved = local->target.consumed + 1;
	return drop(local);
}

/* UC without a receive. Where the message before found one the application is only behind, maybe not on its processor, and a stream would
 * lose much: as long as that can be the message waits here, as if it were on its way. (By wire a sender in bulk waits for receives, too:
 * roce/flow.c.) */
static enum outcome starve(struct vb_local *local, vb_time now)
{
	struct vb_local_target *target = &local->target;

	if (!target->stalled) {
		if (target->starved == target->consumed)
			return drop_starved(local);
		VB_LOCAL_HINT(target->stalled, true);
		target->give_up_at = now + BEHIND;
		vb_local_target_publish(local);
		__atomic_store_n(&local->mine->stalled, target->consumed + 1, __ATOMIC_RELEASE);
		local->kick = true;
	}
	if (now >= target->give_up_at)
		return drop_starved(local);
	target->retry_at = now + RECEIVE_RETRY;
	return WAITS;
}

/* No receive: as after an RNR NAK, but that the sender need not come again. It is we who count its patience. */
VB_APART static enum outcome stall(struct vb_local *local, vb_time now)
{
	struct vb_local_target *target = &local->target;
	uint8_t retries = __atomic_load_n(&local->theirs->rnr_retry, __ATOMIC_RELAXED) & 7;
	vb_time delay = vb_rnr_timer_delay(local->qp->attr.min_rnr_timer);

	if (!vb_qp_is_reliable(local->qp))
		return starve(local, now);
	if (!target->stalled) {
		VB_COUNT(local->qp->host->counters, send_rnr_err);
		VB_LOCAL_HINT(target->stalled, true);
		/* 7 is for ever (IBA 9.7.5.2.8). 0: not even once again. */
		target->give_up_at = retries == 7 ? VB_TIME_NEVER : now + retries * delay;
		vb_local_target_publish(local);
		__atomic_store_n(&local->mine->stalled, target->consumed + 1, __ATOMIC_RELEASE);
	}
	if (now >= target->give_up_at) {
		clear_stall(local);
		give_nak(local, VB_SEGMENT_NAK_RNR_EXCEEDED, VB_FAULT_NO_RECEIVE);
		return ENDED;
	}
	target->retry_at = now + (delay < RECEIVE_RETRY ? delay : RECEIVE_RETRY);
	return WAITS;
}

static bool has_receive(struct vb_local *local)
{
	struct vb_local_target *target = &local->target;

	if (!target->has_receive)
		target->has_receive = vb_qp_take_receive(local->qp, &target->taken);
	if (target->has_receive)
		clear_stall(local);
	return target->has_receive;
}

static void complete(struct vb_local *local, const struct vb_local_record *record, enum ibv_wc_opcode opcode, vb_time now)
{
	struct vb_completion completion = vb_local_completion_of(local, local->target.taken.wr_id, record, opcode, now);

	local->target.has_receive = false;
	local->target.received++;
	vb_qp_complete_receive(local->qp, &completion);
}

void vb_local_target_flush(struct vb_local *local, vb_time now)
{
	struct vb_completion completion = {
		.wr_id = local->target.taken.wr_id,
		.status = IBV_WC_WR_FLUSH_ERR,
		.opcode = IBV_WC_RECV,
		.vendor_error = VB_FAULT_FLUSHED,
		.qpn = local->qp->qpn,
		.timestamp = now,
	};

	vb_local_target_publish(local);
	clear_stall(local);
	if (!local->target.has_receive || local->qp->state != IBV_QPS_ERR)
		return;
	local->target.has_receive = false;
	vb_qp_complete_receive(local->qp, &completion);
}

/* ---- long messages: the bytes are in the sender's memory ---- */

struct pull {
	struct vb_record_piece piece[VB_MAX_SGE];
	unsigned pieces;
	bool zeros;                      /* some of them have no memory behind them */
};

/* What of the list lies between offset and offset + bytes. False: the list is not what the record says. */
static bool cut(const uint8_t *body, const struct vb_local_record *record, uint64_t offset, uint64_t bytes, struct pull *pull)
{
	struct vb_record_piece list[VB_MAX_SGE];
	uint64_t total = 0;

	/* Copied out first: its owner might change it under our eyes. */
	memcpy(list, body, record->pieces * sizeof(list[0]));
	pull->pieces = 0;
	pull->zeros = false;
	for (unsigned i = 0; i < record->pieces; i++) {
		uint64_t start = total > offset ? total : offset, end;

		if (list[i].length > VB_MAX_MESSAGE)
			return false;
		end = total + list[i].length < offset + bytes ? total + list[i].length : offset + bytes;
		if (start < end) {
			pull->piece[pull->pieces++] = (struct vb_record_piece){
				list[i].address == 0 ? 0 : list[i].address + (start - total), end - start};
			pull->zeros |= list[i].address == 0;
		}
		total += list[i].length;
	}
	return total == record->length;
}

/* In steps through a buffer, where either side has no plain pointer. -EIO: our own list is at fault, see why. */
static int pull_bounced(struct vb_local *local, const struct pull *pull, uint64_t offset, struct vb_fault_record *why)
{
	const struct vb_taken_receive *taken = &local->target.taken;
	struct vb_qp *qp = local->qp;
	uint8_t buffer[VB_LOCAL_BOUNCE];

	for (unsigned i = 0; i < pull->pieces; i++) {
		for (uint64_t done = 0; done < pull->piece[i].length; done += VB_LOCAL_BOUNCE) {
			uint64_t left = pull->piece[i].length - done;
			struct iovec span = {buffer, left < VB_LOCAL_BOUNCE ? left : VB_LOCAL_BOUNCE};
			const struct vb_record_piece piece = {pull->piece[i].address + done, span.iov_len};
			int rc = 0;

			if (pull->piece[i].address == 0)
				memset(buffer, 0, span.iov_len);
			else
				rc = local->peer->host->read(local->peer, &span, 1, &piece, 1);
			if (rc != 0)
				return rc;
			if (!vb_memory_scatter(qp->host->memory, qp->receive_pd, qp->qpn, taken->list, taken->sge_count, offset, buffer,
					       span.iov_len, why))
				return -EIO;
			offset += span.iov_len;
		}
	}
	return 0;
}

/* The next piece of the record under way. */
VB_APART static enum outcome pull_piece(struct vb_local *local, const struct vb_local_record *record, const uint8_t *body,
					vb_time now)
{
	struct vb_local_target *target = &local->target;
	const struct vb_taken_receive *taken = &target->taken;
	uint64_t offset = target->pulled, left = record->length - offset;
	uint64_t bytes = left < VB_LOCAL_PIECE ? left : VB_LOCAL_PIECE;
	struct vb_fault_record why = {.fault = VB_FAULT_MESSAGE_LENGTH, .length = record->length};
	struct vb_local_spans spans;
	struct pull pull;
	int rc;

	if (record->flags & VB_RECORD_WITHDRAWN)
		return drop(local);
	/* A list that changed because its sender is gone is no fault; nor may it become shorter than what
	 * was pulled. */
	if (offset >= record->length || !cut(body, record, offset, bytes, &pull))
		return refuse_nonsense(local, now, &why);
	if (!pull.zeros && vb_local_spans_open(local->qp, local->qp->receive_pd, taken->list, taken->sge_count, offset, bytes,
						IBV_ACCESS_LOCAL_WRITE, &spans)) {
		rc = local->peer->host->read(local->peer, spans.span, spans.count, pull.piece, pull.pieces);
		vb_local_spans_close(&spans);
	} else {
		rc = pull_bounced(local, &pull, offset, &why);
	}
	if (!vb_local_sender_stands(local))
		return VOID;
	if (vb_local_ring_is_withdrawn(local))
		return drop(local);
	/* The receive's own memory is at fault, not the request (IBA table 58: remote operational error). */
	if (rc == -EIO)
		return refuse(local, now, VB_SEGMENT_NAK_OPERATION, &why, IBV_WC_LOC_PROT_ERR);
	/* UC: what a sender cannot read it would not have sent. */
	if (rc == -EFAULT && !vb_qp_is_reliable(local->qp))
		return drop(local);
	if (rc == -EFAULT) {
		give_nak(local, VB_SEGMENT_NAK_UNREADABLE, VB_FAULT_UNMAPPED);
		return ENDED;
	}
	if (rc != 0) {
		target->ended = true;
		return ENDED;
	}
	target->pulled += (uint32_t)bytes;
	target->pulled_total += bytes;
	__atomic_store_n(&local->mine->pulled, target->pulled_total, __ATOMIC_RELAXED);
	return target->pulled == record->length ? EXECUTED : UNFINISHED;
}

/* ---- the kinds of records ---- */

/* A receive of one element: its region is looked up once for many. NULL: go by the ordinary access. */
static uint8_t *place_for(struct vb_local *local, uint32_t length)
{
	const struct ibv_sge *element = &local->target.taken.list[0];
	struct vb_hold *hold = &local->target.placing;
	struct vb_accessor who = {.pd = local->qp->receive_pd, .qpn = local->qp->qpn, .key = element->lkey,
				  .rights = IBV_ACCESS_LOCAL_WRITE};
	uint8_t *to = vb_hold_bytes(hold, element->lkey, IBV_ACCESS_LOCAL_WRITE, element->addr, length);

	if (to)
		return to;
	return vb_memory_hold(local->qp->host->memory, &who, element->addr, element->length, hold) ? hold->bytes : NULL;
}

static enum outcome place_inline(struct vb_local *local, const struct vb_local_record *record, const uint8_t *body, vb_time now)
{
	const struct vb_taken_receive *taken = &local->target.taken;
	struct vb_qp *qp = local->qp;
	uint8_t *to = taken->sge_count == 1 && record->length > 0 ? place_for(local, record->length) : NULL;
	struct vb_fault_record why;

	if (to)
		vb_hold_place(to, body, record->length);
	if (to || vb_memory_scatter(qp->host->memory, qp->receive_pd, qp->qpn, taken->list, taken->sge_count, 0, body, record->length,
				    &why))
		return vb_local_sender_stands(local) ? EXECUTED : VOID;
	return refuse(local, now, VB_SEGMENT_NAK_OPERATION, &why, IBV_WC_LOC_PROT_ERR);
}

VB_RARE static enum outcome refuse_length(struct vb_local *local, const struct vb_local_record *record, vb_time now)
{
	const struct vb_fault_record why = {
		.fault = VB_FAULT_LOCAL_LENGTH, .length = record->length, .region_length = local->target.taken.length};

	return refuse(local, now, VB_SEGMENT_NAK_INVALID_REQUEST, &why, IBV_WC_LOC_LEN_ERR);
}

VB_APART static enum outcome invalidate(struct vb_local *local, const struct vb_local_record *record, vb_time now)
{
	struct vb_qp *qp = local->qp;
	struct vb_fault_record why = {0};

	if (!vb_qp_is_reliable(qp))
		return drop(local);
	if (vb_memory_invalidate(qp->host->memory, record->immediate, qp->pd, qp->qpn, true, &why))
		return EXECUTED;
	why.key = record->immediate;
	return refuse(local, now, VB_SEGMENT_NAK_ACCESS, &why, IBV_WC_LOC_ACCESS_ERR);
}

static enum outcome execute_send(struct vb_local *local, const struct vb_local_record *record, const uint8_t *body, vb_time now)
{
	struct vb_local_target *target = &local->target;
	enum outcome outcome;

	if (!has_receive(local))
		return stall(local, now);
	if (record->length > target->taken.length)
		return refuse_length(local, record, now);
	/* Nothing to pull is nothing by reference. */
	outcome = record->flags & VB_RECORD_BY_REFERENCE && record->length > 0 ? pull_piece(local, record, body, now) :
										 place_inline(local, record, body, now);
	if (outcome == EXECUTED && (record->flags & VB_RECORD_INVALIDATES))
		outcome = invalidate(local, record, now);
	if (outcome != EXECUTED)
		return outcome;
	complete(local, record, IBV_WC_RECV, now);
	return EXECUTED;
}

static enum outcome execute_write_immediate(struct vb_local *local, const struct vb_local_record *record, vb_time now)
{
	struct vb_fault_record why = {.fault = VB_FAULT_QP_RIGHTS, .rights_asked = IBV_ACCESS_REMOTE_WRITE,
				      .rights_granted = local->qp->attr.qp_access_flags};

	/* The bytes came before it, if they were allowed to come. */
	if (!(local->qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE) && !vb_qp_is_reliable(local->qp))
		return drop(local);
	if (!(local->qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE))
		return refuse(local, now, VB_SEGMENT_NAK_INVALID_REQUEST, &why, IBV_WC_LOC_QP_OP_ERR);
	if (!has_receive(local))
		return stall(local, now);
	if (!vb_local_sender_stands(local))
		return VOID;
	complete(local, record, IBV_WC_RECV_RDMA_WITH_IMM, now);
	return EXECUTED;
}

static enum vb_atomic atomic_of(const struct vb_local_record *record)
{
	return record->kind == VB_RECORD_FETCH_ADD    ? VB_ATOMIC_FETCH_ADD :
	       record->kind == VB_RECORD_ATOMIC_WRITE ? VB_ATOMIC_WRITE :
							VB_ATOMIC_CMP_SWP;
}

VB_APART static enum outcome execute_atomic(struct vb_local *local, const struct vb_local_record *record, const uint8_t *body,
					vb_time now)
{
	struct vb_local_target *target = &local->target;
	struct vb_qp *qp = local->qp;
	struct vb_record_atomic atomic;
	struct vb_accessor who = {.pd = qp->pd, .qpn = qp->qpn, .remote = true};
	enum vb_atomic operation = atomic_of(record);
	struct vb_fault_record why;
	uint64_t original;

	memcpy(&atomic, body, sizeof(atomic));
	if (!vb_local_sender_stands(local))
		return VOID;
	if (!vb_qp_is_reliable(qp))
		return drop(local);
	who.key = atomic.rkey;
	who.rights = operation == VB_ATOMIC_WRITE ? IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_ATOMIC;
	why = (struct vb_fault_record){.key = atomic.rkey, .address = atomic.address, .length = 8, .rights_asked = who.rights,
				       .rights_granted = qp->attr.qp_access_flags};
	if (!(qp->attr.qp_access_flags & who.rights))
		why.fault = VB_FAULT_QP_RIGHTS;
	else if (qp->attr.max_dest_rd_atomic == 0)
		why.fault = VB_FAULT_TOO_MANY_READS;
	else if (atomic.address % 8 != 0)
		why.fault = VB_FAULT_UNALIGNED_ATOMIC;
	if (why.fault != VB_FAULT_NONE)
		return refuse(local, now, VB_SEGMENT_NAK_INVALID_REQUEST, &why, IBV_WC_SUCCESS);
	if (!vb_memory_atomic(qp->host->memory, &who, operation, atomic.address, atomic.swap_or_add, atomic.compare, &original, &why))
		return refuse(local, now,
			      why.fault == VB_FAULT_UNALIGNED_ATOMIC ? VB_SEGMENT_NAK_INVALID_REQUEST : VB_SEGMENT_NAK_ACCESS, &why,
			      IBV_WC_SUCCESS);
	__atomic_store_n(&local->answers[target->atomics++ % VB_SEGMENT_ANSWERS], original, __ATOMIC_RELAXED);
	return EXECUTED;
}

static bool is_invalid_request(uint32_t fault)
{
	return fault == VB_FAULT_QP_RIGHTS || fault == VB_FAULT_TOO_MANY_READS || fault == VB_FAULT_UNALIGNED_ATOMIC ||
	       fault == VB_FAULT_XRC_SRQ;
}

/* The peer found in what we show that we refuse. We say so, with what we know better. */
VB_RARE static enum outcome execute_fault(struct vb_local *local, const struct vb_local_record *record, const uint8_t *body,
					vb_time now)
{
	struct vb_qp *qp = local->qp;
	struct vb_accessor who = {.pd = qp->pd, .qpn = qp->qpn, .remote = true};
	struct vb_record_fault claim;
	struct vb_fault_record why;
	bool invalid;

	memcpy(&claim, body, sizeof(claim));
	if (!vb_local_sender_stands(local))
		return VOID;
	if (!vb_qp_is_reliable(qp))
		return drop(local);
	if ((record->flags & VB_RECORD_TAKES_RECEIVE) && !has_receive(local))
		return stall(local, now);
	invalid = is_invalid_request(claim.fault);
	who.key = claim.key;
	who.rights = claim.rights;
	if (invalid || vb_memory_check(qp->host->memory, &who, claim.address, claim.length, &why))
		why = (struct vb_fault_record){
			.fault = invalid || claim.fault == VB_FAULT_UNMAPPED ? (enum vb_fault)claim.fault : VB_FAULT_KEY_UNKNOWN,
			.key = claim.key,
			.address = claim.address,
			.length = claim.length,
			.rights_asked = claim.rights,
			.rights_granted = qp->attr.qp_access_flags,
		};
	return refuse(local, now, invalid ? VB_SEGMENT_NAK_INVALID_REQUEST : VB_SEGMENT_NAK_ACCESS, &why,
		      invalid ? IBV_WC_LOC_QP_OP_ERR : IBV_WC_LOC_ACCESS_ERR);
}

/* XRC: which SRQ the records that follow are for is known when they come. */
VB_APART static enum outcome execute_srq(struct vb_local *local, const struct vb_local_record *record, vb_time now)
{
	static const struct vb_fault_record nonsense = {.fault = VB_FAULT_OPCODE_UNSUPPORTED};

	if (!local->qp->xrc_domain)
		return refuse_nonsense(local, now, &nonsense);
	if (!vb_local_sender_stands(local))
		return VOID;
	local->target.srqn = record->immediate;
	return EXECUTED;
}

VB_RARE static enum outcome refuse_srq(struct vb_local *local, vb_time now)
{
	const struct vb_fault_record why = {.fault = VB_FAULT_XRC_SRQ, .key = local->target.srqn};

	return vb_local_sender_stands(local) ? refuse(local, now, VB_SEGMENT_NAK_INVALID_REQUEST, &why, IBV_WC_LOC_QP_OP_ERR) : VOID;
}

static bool is_request(const struct vb_local_record *record)
{
	return record->kind != VB_RECORD_SRQ && record->kind != VB_RECORD_HELLO;
}

static enum outcome execute(struct vb_local *local, const struct vb_local_record *record, const uint8_t *body, vb_time now)
{
	/* A14: before anything else is looked at. */
	if (local->qp->xrc_domain && is_request(record) && !vb_local_xrc_use_named(local))
		return refuse_srq(local, now);
	switch (record->kind) {
	case VB_RECORD_SEND:
		return execute_send(local, record, body, now);
	case VB_RECORD_WRITE_IMMEDIATE:
		return execute_write_immediate(local, record, now);
	case VB_RECORD_COMPARE_SWAP:
	case VB_RECORD_FETCH_ADD:
	case VB_RECORD_ATOMIC_WRITE:
		return execute_atomic(local, record, body, now);
	case VB_RECORD_FAULT:
		return execute_fault(local, record, body, now);
	case VB_RECORD_SRQ:
		return execute_srq(local, record, now);
	default:
		return EXECUTED; /* HELLO: that it came is all */
	}
}

/* A peer acknowledges before it answers: who waits for an answer finds its request completed first, as on the wire. */
static void take_acknowledgements_first(struct vb_local *local, vb_time now)
{
	struct vb_local_initiator *initiator = &local->initiator;

	if (initiator->produced == initiator->consumed || !vb_local_sends(local->qp) || !vb_local_records_look(local))
		return;
	initiator->waiting_since = now;
	vb_local_initiator_retire(local, now);
}

/* The next record. */
static enum outcome execute_next(struct vb_local *local, vb_time now, bool *found)
{
	static const struct vb_fault_record nonsense = {.fault = VB_FAULT_OPCODE_UNSUPPORTED};
	struct vb_local_record record;
	const uint8_t *body = NULL;
	enum outcome outcome;

	switch (vb_local_ring_find(local, &record, &body)) {
	case VB_FOUND_NOTHING:
		clear_stall(local);
		return WAITS;
	case VB_FOUND_NONSENSE:
		*found = true;
		return refuse_nonsense(local, now, &nonsense);
	case VB_FOUND_RECORD:
		break;
	}
	*found = true;
	take_acknowledgements_first(local, now);
	if (!vb_local_receives(local->qp))
		return VOID;
	vb_qp_communication_established(local->qp);
	outcome = execute(local, &record, body, now);
	/* It may have waited for a receive as something else: the peer can change what it left. */
	if (outcome != WAITS)
		clear_stall(local);
	if (outcome != EXECUTED && outcome != DROPPED)
		return outcome;
	/* A completion queue that overran took the queue pair with it: what it lost is not acknowledged. */
	if (!vb_local_receives(local->qp))
		return ENDED;
	vb_local_ring_consume(local, &record);
	return EXECUTED;
}

void vb_local_target_count(struct vb_local *local)
{
	if (local->target.received > 0)
		VB_COUNT_MANY(local->qp->host->counters, rdma_recvs, local->target.received);
	local->target.received = 0;
}

VB_FLAT bool vb_local_target_run(struct vb_local *local, vb_time now, bool polled, bool *more)
{
	struct vb_local_target *target = &local->target;
	const uint64_t pulls_end = target->pulled_total + (polled ? 1 : VB_LOCAL_PIECES) * (uint64_t)VB_LOCAL_PIECE;
	enum outcome outcome = EXECUTED;
	bool did = false, found = false;

	/* Looking again for a receive is something new only if there is one. A thread that polls sees a long message when it is
	 * there: it has a receive to post again, and while it copies it does not show that it polls, so that the engine thread
	 * comes to help and is in its way. */
	for (unsigned i = 1; i <= VB_LOCAL_BATCH && outcome == EXECUTED && target->pulled_total < pulls_end && !target->ended &&
			     vb_local_receives(local->qp); i++) {
		outcome = execute_next(local, now, &found);
		did |= found && outcome != WAITS;
		if (i % VB_LOCAL_PUBLISH == 0)
			vb_local_target_publish(local);
	}
	vb_memory_let_go(&target->placing);
	vb_local_target_count(local);
	vb_local_target_publish(local);
	*more |= outcome == UNFINISHED || (outcome == EXECUTED && vb_local_receives(local->qp) && !target->ended);
	return did;
}
