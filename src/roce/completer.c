/* SPDX-License-Identifier: MIT
 *
 * Answers to our requests: acknowledgements, NAKs, read responses, atomic acknowledgements (IBA 9.7.5, 9.7.6).
 *
 * Everything before the PSN of an answer was executed. But data that a read or atomic should have brought cannot be
 * implied: an answer from beyond one that is incomplete says that its response was lost, and it is asked for again
 * (C9-105, implicit NAK). Answers from outside acknowledged..high are of the past, or invented, and ignored.
 */
#include <assert.h>
#include <string.h>

#include "roce/engine.h"

#define SAME_LOSS VB_MICROSECONDS(100)

static bool is_alive(const struct vb_qp *qp)
{
	return qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD;
}

/* Is the oldest element done? */
static bool oldest_is_done(struct vb_qp *qp)
{
	const struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;
	const struct vb_roce_note *note;
	const struct vb_send_wqe *wqe;

	if (vb_send_queue_count(&qp->send) == 0)
		return false;
	/* UC, UD: done when sent. */
	if (!vb_qp_is_reliable(qp))
		return qp->send.tail != requester->send_index;
	wqe = vb_send_queue_at(&qp->send, qp->send.tail);
	if (!wqe->started)
		return false;
	note = vb_roce_note(wqe);
	return note->packets == 0 ? wqe->done : psn_ahead(requester->acknowledged, note->first_psn) >= note->packets;
}

static bool drain_is_over(const struct vb_qp *qp, const struct vb_roce_requester *requester)
{
	if (!qp->draining || qp->state != IBV_QPS_SQD || vb_roce_requester_outstanding(requester))
		return false;
	return vb_send_queue_count(&qp->send) == 0 || !vb_send_queue_at(&qp->send, qp->send.tail)->started;
}

bool vb_roce_completer_owes(struct vb_qp *qp)
{
	const struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;

	return is_alive(qp) && (oldest_is_done(qp) || vb_work_failure_is_due(&requester->failure, qp) || drain_is_over(qp, requester));
}

void vb_roce_completer_retire(struct vb_qp *qp, vb_time now)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;

	/* A completion queue that overruns ends the QP in the middle of this. */
	while (is_alive(qp) && oldest_is_done(qp))
		vb_qp_complete_send(qp, IBV_WC_SUCCESS, VB_FAULT_NONE, now);
	if (!is_alive(qp))
		return;
	if (vb_work_failure_is_due(&requester->failure, qp))
		vb_work_tell_failure(&requester->failure, qp, now);
	else if (drain_is_over(qp, requester))
		vb_qp_drained(qp);
}

/* Charge of the packets from `acknowledged` up to `upto`, and note which message the last of them belongs to. */
static uint32_t account(struct vb_qp *qp, struct psn upto)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;
	uint32_t mtu = vb_roce_engine(qp)->mtu, charge = 0;
	struct psn at = requester->acknowledged;

	for (uint32_t index = qp->send.tail; !psn_equal(at, upto); index++) {
		const struct vb_send_wqe *wqe = vb_send_queue_at(&qp->send, index);
		uint32_t from, packets;
		uint64_t start, end;

		assert(index != qp->send.head && wqe->started);
		requester->receives_acknowledged = vb_roce_note(wqe)->receives_through;
		if (vb_roce_note(wqe)->packets == 0)
			continue;
		from = psn_ahead(at, vb_roce_note(wqe)->first_psn);
		packets = psn_ahead(upto, at);
		if (packets > vb_roce_note(wqe)->packets - from)
			packets = vb_roce_note(wqe)->packets - from;
		if (!vb_work(wqe->opcode)->is_read) {
			start = (uint64_t)from * mtu;
			end = start + (uint64_t)packets * mtu;
			if (end > wqe->length)
				end = wqe->length;
			charge += vb_roce_charge((uint32_t)(end - start), packets);
		}
		at = psn_add(at, packets);
	}
	return charge;
}

/* Everything before `upto` was executed by the responder. Returns false when a read or atomic whose response is
 * missing stands in the way: acknowledged is then at the first missing packet. */
static bool advance(struct vb_qp *qp, vb_time now, struct psn upto)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;
	bool whole = true;
	uint32_t charge;

	if (!vb_roce_reads_is_idle(requester)) {
		struct psn first = vb_roce_reads_at(requester, requester->asked_tail)->first;

		if (psn_before(first, upto)) {
			whole = false;
			upto = psn_before(first, requester->acknowledged) ? requester->acknowledged : first;
		}
	}
	if (psn_equal(upto, requester->acknowledged))
		return whole;
	charge = account(qp, upto);
	requester->congestion.algorithm->acknowledged(&requester->congestion, charge, requester->in_flight, upto);
	requester->acknowledged = upto;
	if (psn_before(requester->send, upto)) {
		/* A late answer to what we were about to send again. */
		requester->send = upto;
		requester->in_flight = 0;
		requester->send_index = qp->send.tail;
	} else {
		assert(requester->in_flight >= charge);
		requester->in_flight -= charge;
	}
	vb_roce_timers_progress(qp, now);
	return whole;
}

/* After advance and retire, when `send` stands in an element that is retired: it follows. */
static void retire(struct vb_qp *qp, vb_time now)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;

	vb_roce_completer_retire(qp, now);
	if (is_alive(qp) && (int32_t)(requester->send_index - qp->send.tail) < 0)
		requester->send_index = qp->send.tail;
}

/* Move back once for one loss: what was under way behind the lost packet keeps telling of it for a round trip. */
static void go_back(struct vb_qp *qp, vb_time now, bool response_lost, vb_time same_loss)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;

	requester->gap_seen = true;
	if (psn_equal(requester->send, requester->acknowledged))
		return;
	if (requester->rewound && psn_equal(requester->rewound_to, requester->acknowledged) &&
	    now - requester->rewound_at < same_loss)
		return;
	VB_COUNT(qp->host->counters, completer_retry_err);
	if (response_lost)
		vb_roce_congestion_response_lost(&requester->congestion, requester->high);
	else
		requester->congestion.algorithm->lost(&requester->congestion, requester->high);
	vb_roce_requester_rewind(qp, now);
}

static void response_is_missing(struct vb_qp *qp, vb_time now)
{
	const struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;
	vb_time same_loss = requester->round_trip > SAME_LOSS ? requester->round_trip : SAME_LOSS;

	if (requester->early.count > 0)
		vb_roce_early_told(qp, now, same_loss);
	else
		go_back(qp, now, true, same_loss);
}

static void note_credits(struct vb_roce_requester *requester, uint8_t syndrome)
{
	uint8_t code = syndrome & VB_AETH_VALUE_MASK;

	if ((syndrome & VB_AETH_TYPE_MASK) != VB_AETH_ACK)
		return;
	requester->credits_known = code != VB_AETH_NO_CREDITS;
	requester->credit_limit = requester->receives_acknowledged + vb_roce_credits_decode(code);
}

static void fail_oldest(struct vb_qp *qp, vb_time now, const struct vb_roce_packet *packet, enum ibv_wc_status status,
			enum vb_fault fault, bool remote)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;
	const struct vb_send_wqe *wqe = vb_send_queue_at(&qp->send, qp->send.tail);
	struct vb_fault_record why = {
		.fault = fault,
		.remote = remote,
		.psn = packet->psn.v,
		.syndrome = packet->op->headers & VB_HEADER_AETH ? packet->aeth.syndrome : 0,
		.tries = fault == VB_FAULT_RNR_RETRY_EXCEEDED ? requester->rnr_retries : requester->retransmissions,
		.waited = now - wqe->started_at,
	};

	vb_work_evidence(qp, wqe, &why);
	vb_qp_fail_send(qp, status, &why, now);
}

static void bad_response(struct vb_qp *qp, vb_time now, const struct vb_roce_packet *packet)
{
	fail_oldest(qp, now, packet, IBV_WC_BAD_RESP_ERR, VB_FAULT_BAD_RESPONSE, false);
}

static void handle_rnr(struct vb_qp *qp, vb_time now, const struct vb_roce_packet *packet)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;

	VB_COUNT(qp->host->counters, rcvd_rnr_err);
	if (requester->rnr_until != 0 || psn_equal(requester->send, requester->acknowledged))
		return;
	/* 7 is for ever (IBA 9.7.5.2.8). */
	if (qp->attr.rnr_retry != 7 && requester->rnr_retries >= qp->attr.rnr_retry) {
		VB_COUNT(qp->host->counters, retry_rnr_exceeded_err);
		fail_oldest(qp, now, packet, IBV_WC_RNR_RETRY_EXC_ERR, VB_FAULT_RNR_RETRY_EXCEEDED, true);
		return;
	}
	requester->rnr_retries++;
	/* As good as an acknowledgement that says: no credits. */
	requester->credits_known = true;
	requester->credit_limit = requester->receives_acknowledged;
	vb_roce_requester_rewind(qp, now);
	vb_roce_timers_receiver_not_ready(qp, now, packet->aeth.syndrome & VB_AETH_VALUE_MASK);
}

static void handle_nak(struct vb_qp *qp, vb_time now, const struct vb_roce_packet *packet)
{
	switch (packet->aeth.syndrome & VB_AETH_VALUE_MASK) {
	case VB_NAK_PSN_SEQUENCE_ERROR:
		VB_COUNT(qp->host->counters, rcvd_seq_err);
		if (vb_roce_engine(qp)->requester.missing.came && vb_roce_reads_is_idle(&vb_roce_engine(qp)->requester)) {
			vb_roce_missing_told(qp, now, psn_of(packet->aeth.msn));
			break;
		}
		/* The network may double a NAK; a true second one takes a round trip. */
		if (!vb_roce_reads_lost(qp, now, packet->psn) && !vb_roce_selective_begin(qp, now))
			go_back(qp, now, false, vb_roce_engine(qp)->requester.round_trip / 4);
		break;
	case VB_NAK_INVALID_REQUEST:
		fail_oldest(qp, now, packet, IBV_WC_REM_INV_REQ_ERR, VB_FAULT_REMOTE_INVALID_REQUEST, true);
		break;
	case VB_NAK_REMOTE_ACCESS_ERROR:
		fail_oldest(qp, now, packet, IBV_WC_REM_ACCESS_ERR, VB_FAULT_REMOTE_ACCESS, true);
		break;
	case VB_NAK_REMOTE_OPERATIONAL_ERROR:
		fail_oldest(qp, now, packet, IBV_WC_REM_OP_ERR, VB_FAULT_REMOTE_OPERATION, true);
		break;
	default:
		bad_response(qp, now, packet);
	}
}

/* What every AETH says of requests before it. Returns what advance does. */
static bool take_aeth(struct vb_qp *qp, vb_time now, struct psn psn, uint8_t syndrome)
{
	bool positive = (syndrome & VB_AETH_TYPE_MASK) == VB_AETH_ACK;
	/* An ACK includes its PSN, a NAK says that all before it was executed. */
	bool whole = advance(qp, now, positive ? psn_add(psn, 1) : psn);

	if (positive && whole)
		note_credits(&vb_roce_engine(qp)->requester, syndrome);
	retire(qp, now);
	if (is_alive(qp))
		vb_roce_selective_answered(qp, now, positive);
	return whole;
}

static void handle_acknowledge(struct vb_qp *qp, vb_time now, const struct vb_roce_packet *packet)
{
	bool whole = take_aeth(qp, now, packet->psn, packet->aeth.syndrome);

	if (!is_alive(qp))
		return;
	if (!whole) {
		/* Responses to earlier reads are missing as well. */
		if (packet->aeth.syndrome == (VB_AETH_NAK | VB_NAK_PSN_SEQUENCE_ERROR))
			vb_roce_reads_lost(qp, now, packet->psn);
		response_is_missing(qp, now);
		return;
	}
	switch (packet->aeth.syndrome & VB_AETH_TYPE_MASK) {
	case VB_AETH_RNR_NAK:
		handle_rnr(qp, now, packet);
		break;
	case VB_AETH_NAK:
		handle_nak(qp, now, packet);
		break;
	default:
		break;
	}
}

/* Does the packet, of that piece, look like what was asked for? */
static bool response_fits(const struct vb_qp *qp, const struct vb_send_wqe *wqe, const struct vb_roce_asked *asked,
			  const struct vb_roce_packet *packet)
{
	uint32_t mtu = vb_roce_engine_of(qp)->mtu;
	bool last = psn_ahead(packet->psn, asked->first) + 1 == asked->packets;

	/* It brings nothing back, in a response nevertheless (IBA A19; rxe). */
	if (wqe->opcode == IBV_WR_ATOMIC_WRITE)
		return packet->op->kind == VB_KIND_READ_RESPONSE && packet->op->position == VB_POSITION_ONLY &&
		       packet->payload_length == 0;
	if (wqe->opcode != IBV_WR_RDMA_READ)
		return packet->op->kind == VB_KIND_ATOMIC_ACKNOWLEDGE;
	/* Whether it says FIRST or MIDDLE depends on where the responder was last asked to begin, LAST on where to end; each may say
	 * ONLY where that was permitted. */
	if (vb_position_is_end(packet->op->position) != last && (last || !(asked->in_parts || asked->singly)))
		return false;
	return packet->op->kind == VB_KIND_READ_RESPONSE &&
	       packet->payload_length == vb_roce_payload(wqe->length, mtu, psn_ahead(packet->psn, vb_roce_note(wqe)->first_psn));
}

static bool place_response(struct vb_qp *qp, const struct vb_send_wqe *wqe, const struct vb_roce_packet *packet,
			   struct vb_fault_record *why)
{
	uint64_t offset = (uint64_t)psn_ahead(packet->psn, vb_roce_note(wqe)->first_psn) * vb_roce_engine(qp)->mtu;
	const void *bytes = packet->payload;
	uint32_t length = packet->payload_length;
	uint8_t *to;

	/* The application reads the old value as a number of its own byte order. */
	if (packet->op->kind == VB_KIND_ATOMIC_ACKNOWLEDGE) {
		bytes = &packet->atomic_original;
		length = sizeof(packet->atomic_original);
	}
	to = vb_roce_hold_list(qp, &vb_roce_engine(qp)->placing, wqe->list, wqe->sge_count, offset, length,
			       IBV_ACCESS_LOCAL_WRITE);
	if (to) {
		vb_hold_place(to, bytes, length);
		return true;
	}
	return vb_memory_scatter(qp->host->memory, qp->pd, qp->qpn, wqe->list, wqe->sge_count, offset, bytes, length,
				 why);
}

/* The next `count` responses of the oldest piece are in their places. */
static void pass(struct vb_qp *qp, vb_time now, uint32_t count)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;
	struct vb_roce_asked *asked = vb_roce_reads_at(requester, requester->asked_tail);
	struct vb_roce_note *note = vb_roce_note(vb_send_queue_at(&qp->send, qp->send.tail));

	requester->acknowledged = psn_add(requester->acknowledged, count);
	note->progress = psn_ahead(requester->acknowledged, note->first_psn);
	requester->receives_acknowledged = note->receives_through;
	if (psn_equal(requester->acknowledged, psn_add(asked->first, asked->packets))) {
		if (requester->asked_sent == requester->asked_tail)
			requester->asked_sent++;
		requester->asked_tail++;
	}
	if (psn_before(requester->send, requester->acknowledged)) {
		requester->send = requester->acknowledged;
		requester->send_index = qp->send.tail;
	}
	vb_roce_timers_progress(qp, now);
}

static uint32_t charge_of(const struct vb_send_wqe *wqe, const struct vb_roce_packet *packet)
{
	return vb_roce_charge(wqe->opcode == IBV_WR_RDMA_READ ? packet->payload_length : wqe->length, 1);
}

static void account_response(struct vb_roce_requester *requester, uint32_t charge, struct psn upto)
{
	vb_roce_congestion_arrived(&requester->congestion, charge, requester->read_in_flight, upto);
	if (requester->asked_sent != requester->asked_tail) {
		assert(requester->read_in_flight >= charge);
		requester->read_in_flight -= charge;
	}
}

/* The packet is the next one of the oldest piece. */
static void accept_response(struct vb_qp *qp, vb_time now, const struct vb_roce_packet *packet)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;
	const struct vb_send_wqe *wqe = vb_send_queue_at(&qp->send, qp->send.tail);
	struct vb_fault_record why = {0};

	if (!response_fits(qp, wqe, vb_roce_reads_at(requester, requester->asked_tail), packet)) {
		bad_response(qp, now, packet);
		return;
	}
	if (!place_response(qp, wqe, packet, &why)) {
		vb_work_evidence(qp, wqe, &why);
		vb_qp_fail_send(qp, IBV_WC_LOC_PROT_ERR, &why, now);
		return;
	}
	account_response(requester, charge_of(wqe, packet), psn_add(packet->psn, 1));
	vb_roce_early_arrived(requester, now);
	pass(qp, now, 1);
	if (packet->op->headers & VB_HEADER_AETH)
		note_credits(requester, packet->aeth.syndrome);
	retire(qp, now);
}

/* A response has come: whatever was sent before the oldest read has been executed. */
static void pass_requests(struct vb_qp *qp, vb_time now)
{
	const struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;
	struct psn first = vb_roce_reads_at(requester, requester->asked_tail)->first;

	advance(qp, now, psn_before(first, requester->acknowledged) ? requester->acknowledged : first);
	retire(qp, now);
}

/* After a response that was missing: those behind it that were kept, up to the next that is missing. */
static void follow_early(struct vb_qp *qp, vb_time now)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;

	while (requester->early.count > 0 && is_alive(qp)) {
		const struct vb_roce_asked *asked;
		uint32_t count;

		pass_requests(qp, now);
		if (!is_alive(qp))
			break;
		asked = vb_roce_reads_at(requester, requester->asked_tail);
		count = vb_roce_early_take(requester, asked->packets - psn_ahead(requester->acknowledged, asked->first));
		if (count == 0) {
			response_is_missing(qp, now);
			return;
		}
		pass(qp, now, count);
		retire(qp, now);
	}
}

/* One of that PSN came before. If they are unlike, because one is forged or the peer's memory has changed, neither is
 * preferred: it is asked for again. */
static void compare_response(struct vb_qp *qp, const struct vb_send_wqe *wqe, const struct vb_roce_packet *packet)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;
	uint64_t offset = (uint64_t)psn_ahead(packet->psn, vb_roce_note(wqe)->first_psn) * vb_roce_engine(qp)->mtu;
	const uint8_t *there = vb_roce_hold_list(qp, &vb_roce_engine(qp)->placing, wqe->list, wqe->sge_count, offset,
						 packet->payload_length, IBV_ACCESS_LOCAL_WRITE);

	if (there && memcmp(there, packet->payload, packet->payload_length) == 0)
		return;
	vb_roce_early_remove(requester, packet->psn);
	if (psn_before(packet->psn, requester->early.asked_to))
		requester->early.asked_to = packet->psn;
	requester->read_in_flight += charge_of(wqe, packet);
}

/* It comes ahead of one that is missing. Kept if it is what was asked for and its place is there; if not, that is told when
 * its turn has come. */
static void keep_response(struct vb_qp *qp, const struct vb_roce_packet *packet)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;
	const struct vb_roce_asked *asked = vb_roce_reads_find(requester, packet->psn);
	const struct vb_send_wqe *wqe = asked ? vb_roce_reads_element(qp, packet->psn) : NULL;
	struct vb_fault_record why = {0};

	if (!wqe || wqe->opcode != IBV_WR_RDMA_READ || !response_fits(qp, wqe, asked, packet))
		return;
	if (vb_roce_early_has(requester, packet->psn)) {
		compare_response(qp, wqe, packet);
		return;
	}
	if (!vb_roce_early_add(requester, packet->psn))
		return;
	if (place_response(qp, wqe, packet, &why))
		account_response(requester, charge_of(wqe, packet), requester->acknowledged);
	else
		vb_roce_early_remove(requester, packet->psn);
}

void vb_roce_completer_took(struct vb_qp *qp, vb_time now, uint32_t count, const uint8_t *syndrome)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;

	account_response(requester, vb_roce_charge(count * vb_roce_engine(qp)->mtu, count), psn_add(requester->acknowledged, count));
	pass(qp, now, count);
	if (!syndrome)
		return;
	note_credits(requester, *syndrome);
	retire(qp, now);
}

void vb_roce_completer_kept(struct vb_qp *qp, vb_time now, uint32_t count)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;

	account_response(requester, vb_roce_charge(count * vb_roce_engine(qp)->mtu, count), requester->acknowledged);
	response_is_missing(qp, now);
}

static void handle_response(struct vb_qp *qp, vb_time now, const struct vb_roce_packet *packet)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;
	struct psn first;

	/* Nothing was asked that could be answered like this. */
	if (vb_roce_reads_is_idle(requester)) {
		VB_COUNT(qp->host->counters, dropped_pkts);
		return;
	}
	first = vb_roce_reads_at(requester, requester->asked_tail)->first;
	if (psn_before(packet->psn, first)) {
		/* Data in answer to something else than a read. */
		VB_COUNT(qp->host->counters, dropped_pkts);
		return;
	}
	pass_requests(qp, now);
	if (!is_alive(qp))
		return;
	if (psn_equal(packet->psn, requester->acknowledged)) {
		accept_response(qp, now, packet);
		if (requester->early.count > 0)
			follow_early(qp, now);
	} else {
		keep_response(qp, packet);
		response_is_missing(qp, now);
	}
}

static bool is_outstanding(const struct vb_roce_requester *requester, struct psn psn)
{
	return !psn_before(psn, requester->acknowledged) && psn_before(psn, requester->high);
}

/* Only credits can still be learned, from the last one acknowledged (an unsolicited ACK, C9-154). */
static void take_unsolicited(struct vb_roce_requester *requester, struct psn psn, uint8_t syndrome)
{
	if (psn_equal(psn_add(psn, 1), requester->acknowledged))
		note_credits(requester, syndrome);
}

void vb_roce_completer_acknowledged(struct vb_qp *qp, vb_time now, struct psn psn, uint8_t syndrome)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;

	if (!is_alive(qp))
		return;
	if (!is_outstanding(requester, psn))
		take_unsolicited(requester, psn, syndrome);
	else if (!take_aeth(qp, now, psn, syndrome) && is_alive(qp))
		response_is_missing(qp, now);
}

void vb_roce_completer_receive(struct vb_qp *qp, vb_time now, const struct vb_roce_packet *packet)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;
	bool is_acknowledge = packet->op->kind == VB_KIND_ACKNOWLEDGE;

	if (!is_alive(qp)) {
		VB_COUNT(qp->host->counters, dropped_pkts);
		return;
	}
	if (!is_outstanding(requester, packet->psn)) {
		if (is_acknowledge)
			take_unsolicited(requester, packet->psn, packet->aeth.syndrome);
		return;
	}
	if (is_acknowledge)
		handle_acknowledge(qp, now, packet);
	else
		handle_response(qp, now, packet);
}
