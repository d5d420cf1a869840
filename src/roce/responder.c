/* SPDX-License-Identifier: MIT
 *
 * The RC responder. A request comes in here, is checked (responder_checks.c), executed, and noted as to be
 * acknowledged; what is owed is sent when the batch of packets it came with is through, so that one acknowledgement
 * speaks for many (coalesced, IBA 9.7.5.1.2). Order on the wire is that of the PSNs: answers to reads and atomics
 * first, then the acknowledgement of what came after them.
 */
#include <string.h>

#include "roce/engine.h"

/* The message under way, if this packet begins it. */
static void begin_message(struct vb_roce_responder *responder, const struct vb_roce_packet *packet)
{
	responder->received = 0;
	if (packet->op->kind == VB_KIND_SEND) {
		responder->underway = VB_UNDERWAY_SEND;
		return;
	}
	responder->underway = VB_UNDERWAY_WRITE;
	responder->write_address = packet->reth.address;
	responder->write_rkey = packet->reth.rkey;
	responder->write_length = packet->reth.length;
}

static bool place_send(struct vb_qp *qp, vb_time now, const struct vb_roce_packet *packet)
{
	struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;
	struct vb_fault_record why = {0};
	/* What is held open is held for regions of the queue pair's domain. */
	uint8_t *to = qp->receive_pd != qp->pd ?
			      NULL :
			      vb_roce_hold_list(qp, &vb_roce_engine(qp)->placing, responder->taken.list,
						responder->taken.sge_count, responder->received, packet->payload_length,
						IBV_ACCESS_LOCAL_WRITE);

	if (to) {
		vb_hold_place(to, packet->payload, packet->payload_length);
	} else if (!vb_memory_scatter(qp->host->memory, qp->receive_pd, qp->qpn, responder->taken.list,
				      responder->taken.sge_count, responder->received, packet->payload,
				      packet->payload_length, &why)) {
		/* The receive's own memory is at fault, not the request (IBA table 58: remote operational error). */
		vb_roce_responder_refuse(qp, now, packet, VB_NAK_REMOTE_OPERATIONAL_ERROR, &why, IBV_WC_LOC_PROT_ERR);
		return false;
	}
	if (!(packet->op->headers & VB_HEADER_IETH) ||
	    vb_memory_invalidate(qp->host->memory, packet->invalidate_rkey, qp->pd, qp->qpn, true, &why))
		return true;
	why.key = packet->invalidate_rkey;
	vb_roce_responder_refuse(qp, now, packet, VB_NAK_REMOTE_ACCESS_ERROR, &why, IBV_WC_LOC_ACCESS_ERR);
	return false;
}

static bool place_write(struct vb_qp *qp, vb_time now, const struct vb_roce_packet *packet)
{
	struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;
	struct vb_accessor who = {
		.pd = qp->pd,
		.qpn = qp->qpn,
		.key = responder->write_rkey,
		.rights = IBV_ACCESS_REMOTE_WRITE,
		.remote = true,
	};
	struct vb_roce_range message = {qp->pd, responder->write_address, responder->write_rkey, responder->write_length};
	uint8_t *to = vb_roce_hold_remote(qp, &vb_roce_engine(qp)->placing, &message, responder->received,
					  packet->payload_length, IBV_ACCESS_REMOTE_WRITE);
	struct vb_fault_record why = {0};

	if (to) {
		vb_hold_place(to, packet->payload, packet->payload_length);
		return true;
	}
	if (vb_memory_place(qp->host->memory, &who, responder->write_address + responder->received, packet->payload,
			    packet->payload_length, &why))
		return true;
	vb_roce_responder_refuse(qp, now, packet, VB_NAK_REMOTE_ACCESS_ERROR, &why, IBV_WC_LOC_ACCESS_ERR);
	return false;
}

static void execute_message(struct vb_qp *qp, vb_time now, const struct vb_roce_packet *packet)
{
	struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;

	if (vb_position_is_start(packet->op->position))
		begin_message(responder, packet);
	if (packet->op->kind == VB_KIND_SEND ? !place_send(qp, now, packet) : !place_write(qp, now, packet))
		return;
	responder->received += packet->payload_length;
	responder->expected = psn_add(responder->expected, 1);
	responder->ack_psn = packet->psn;
	responder->ack_of_write = packet->op->kind == VB_KIND_WRITE && !(packet->op->headers & VB_HEADER_IMMEDIATE);
	if (packet->ack_request && !(responder->begins_anew && !vb_position_is_end(packet->op->position)))
		vb_roce_responder_owe_acknowledgement(qp);
	else if (responder->is_known && packet->op->makes_completion)
		vb_roce_late_owe(qp, now);
	if (!vb_position_is_end(packet->op->position))
		return;
	responder->underway = VB_UNDERWAY_NOTHING;
	responder->msn = (responder->msn + 1) & VB_PSN_MASK;
	if (packet->op->makes_completion)
		vb_roce_responder_complete(qp, now, packet, responder->received);
}

static void execute_read(struct vb_qp *qp, const struct vb_roce_packet *packet)
{
	struct vb_roce_engine *engine = vb_roce_engine(qp);
	struct vb_roce_responder *responder = &engine->responder;
	uint32_t packets = vb_roce_packets(packet->reth.length, engine->mtu);

	/* C9-148: a read counts as complete when it is accepted, and its response says so. */
	responder->msn = (responder->msn + 1) & VB_PSN_MASK;
	/* What claims to be in the place of its responses was no request. */
	vb_roce_reorder_forget(&responder->reorder, psn_add(responder->expected, 1), packets - 1);
	responder->expected = psn_add(responder->expected, packets);
	vb_roce_resources_add_read(qp, packet);
}

static void refuse_atomic(struct vb_qp *qp, vb_time now, const struct vb_roce_packet *packet, const struct vb_fault_record *why)
{
	vb_roce_responder_refuse(qp, now, packet,
				 why->fault == VB_FAULT_UNALIGNED_ATOMIC ? VB_NAK_INVALID_REQUEST : VB_NAK_REMOTE_ACCESS_ERROR, why,
				 IBV_WC_SUCCESS);
}

static void execute_atomic(struct vb_qp *qp, vb_time now, const struct vb_roce_packet *packet)
{
	struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;
	struct vb_accessor who = {
		.pd = qp->pd,
		.qpn = qp->qpn,
		.key = packet->atomic.rkey,
		.rights = IBV_ACCESS_REMOTE_ATOMIC,
		.remote = true,
	};
	struct vb_fault_record why = {0};
	uint64_t original;

	if (!vb_memory_atomic(qp->host->memory, &who,
			      packet->op->kind == VB_KIND_ATOMIC_CMP_SWP ? VB_ATOMIC_CMP_SWP : VB_ATOMIC_FETCH_ADD,
			      packet->atomic.address, packet->atomic.swap_or_add, packet->atomic.compare, &original,
			      &why)) {
		refuse_atomic(qp, now, packet, &why);
		return;
	}
	responder->msn = (responder->msn + 1) & VB_PSN_MASK;
	responder->expected = psn_add(responder->expected, 1);
	vb_roce_resources_add_atomic(qp, packet, original);
}

/* IBA A19: eight bytes that no reader sees half of. */
static void execute_atomic_write(struct vb_qp *qp, vb_time now, const struct vb_roce_packet *packet)
{
	struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;
	struct vb_accessor who = {
		.pd = qp->pd,
		.qpn = qp->qpn,
		.key = packet->reth.rkey,
		.rights = IBV_ACCESS_REMOTE_WRITE,
		.remote = true,
	};
	struct vb_fault_record why = {0};
	uint64_t value, original;

	memcpy(&value, packet->payload, sizeof(value));
	if (!vb_memory_atomic(qp->host->memory, &who, VB_ATOMIC_WRITE, packet->reth.address, value, 0, &original, &why)) {
		refuse_atomic(qp, now, packet, &why);
		return;
	}
	responder->msn = (responder->msn + 1) & VB_PSN_MASK;
	responder->expected = psn_add(responder->expected, 1);
	vb_roce_resources_add_atomic_write(qp, packet);
}

static void execute(struct vb_qp *qp, vb_time now, const struct vb_roce_packet *packet)
{
	switch (packet->op->kind) {
	case VB_KIND_READ_REQUEST:
		execute_read(qp, packet);
		break;
	case VB_KIND_ATOMIC_CMP_SWP:
	case VB_KIND_ATOMIC_FETCH_ADD:
		execute_atomic(qp, now, packet);
		break;
	case VB_KIND_ATOMIC_WRITE:
		execute_atomic_write(qp, now, packet);
		break;
	default:
		execute_message(qp, now, packet);
	}
}

/* The requester sends packets again, one behind the other, and has come to this one. */
static void note_repeated(struct vb_roce_responder *responder, struct psn psn)
{
	responder->repeated = psn;
	responder->repeated_while = responder->expected;
}

static bool goes_on_repeating(const struct vb_roce_responder *responder, struct psn psn)
{
	return psn_equal(psn, psn_add(responder->repeated, 1)) && psn_equal(responder->repeated_while, responder->expected);
}

static void acknowledge_duplicate(struct vb_qp *qp, const struct vb_roce_packet *packet)
{
	struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;

	if (vb_position_is_end(packet->op->position) || !goes_on_repeating(responder, packet->psn)) {
		vb_roce_responder_owe_acknowledgement(qp);
	} else if (!responder->ack_owed || responder->ack_partial) {
		responder->ack_owed = responder->ack_partial = true;
		responder->ack_partial_psn = packet->psn;
	}
}

/* A PSN before the expected one: executed already, only the answer can have been lost (IBA 9.7.5.1.3). It is given again where
 * the duplicate asks for it, as to a new request. The kernel's rxe, told that a message has arrived while it is in the middle of
 * repeating it, takes the end of it for acknowledged and still waits for that: if then its last packet is lost, it falls silent
 * for good. So a requester in the middle of a repetition is acknowledged as far as it has come. */
static void repeat(struct vb_qp *qp, const struct vb_roce_packet *packet)
{
	VB_COUNT(qp->host->counters, duplicate_request);
	if (packet->op->kind == VB_KIND_SEND || packet->op->kind == VB_KIND_WRITE) {
		if (packet->ack_request)
			acknowledge_duplicate(qp, packet);
		note_repeated(&vb_roce_engine(qp)->responder, packet->psn);
		return;
	}
	if (!vb_roce_resources_repeat(qp, packet))
		VB_COUNT(qp->host->counters, dropped_pkts);
}

/* Go-back-0: the message under way is expected from its beginning. Nothing of it was acknowledged. */
static void forget_message(struct vb_qp *qp)
{
	struct vb_roce_engine *engine = vb_roce_engine(qp);
	struct vb_roce_responder *responder = &engine->responder;

	if (responder->underway == VB_UNDERWAY_NOTHING)
		return;
	responder->expected = psn_of(responder->expected.v - responder->received / engine->mtu);
	responder->underway = VB_UNDERWAY_NOTHING;
	responder->received = 0;
}

static void keep(struct vb_qp *qp, const struct vb_roce_packet *packet)
{
	struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;
	enum vb_roce_kept kept = vb_roce_reorder_keep(&responder->reorder, responder->expected, packet);

	if (kept == VB_KEPT_IN_PLACE && !vb_roce_ahead_is_the_same(qp, packet)) {
		vb_roce_reorder_dispute(&responder->reorder, packet->psn);
		kept = VB_KEPT_DISPUTED;
	}
	if (kept == VB_KEPT_DISPUTED)
		VB_COUNT(qp->host->counters, conflicting_request);
}

/* A PSN beyond the expected one: something is missing. Told once, until it comes (C9-114). */
static void miss(struct vb_qp *qp, const struct vb_roce_packet *packet)
{
	struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;

	VB_COUNT(qp->host->counters, out_of_seq_request);
	if (responder->begins_anew)
		forget_message(qp);
	if (!responder->drops_ahead)
		keep(qp, packet);
	responder->came_ahead = packet->psn;
	if (!responder->nak_outstanding || responder->tells_all)
		vb_roce_responder_owe_nak(responder, VB_AETH_NAK | VB_NAK_PSN_SEQUENCE_ERROR, responder->expected);
}

/* Returns whether the next can be looked at. */
static bool handle_expected(struct vb_qp *qp, vb_time now, const struct vb_roce_packet *packet)
{
	struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;
	struct vb_fault_record why = {0};

	responder->nak_owed = responder->nak_outstanding = false;
	switch (vb_roce_check_request(qp, packet, &why)) {
	case VB_ANSWER_EXECUTE:
		execute(qp, now, packet);
		/* A completion queue that overruns ends the QP, too. */
		return qp->state != IBV_QPS_ERR;
	case VB_ANSWER_DROP:
		VB_COUNT(qp->host->counters, dropped_pkts);
		break;
	case VB_ANSWER_RNR:
		VB_COUNT(qp->host->counters, send_rnr_err);
		vb_roce_responder_owe_nak(responder, VB_AETH_RNR_NAK | qp->attr.min_rnr_timer, packet->psn);
		break;
	case VB_ANSWER_INVALID_REQUEST:
		vb_roce_responder_refuse(qp, now, packet, VB_NAK_INVALID_REQUEST, &why, IBV_WC_LOC_QP_OP_ERR);
		break;
	case VB_ANSWER_REMOTE_ACCESS:
		vb_roce_responder_refuse(qp, now, packet, VB_NAK_REMOTE_ACCESS_ERROR, &why, IBV_WC_LOC_ACCESS_ERR);
		break;
	case VB_ANSWER_TOO_LONG:
		vb_roce_responder_refuse(qp, now, packet, VB_NAK_INVALID_REQUEST, &why, IBV_WC_LOC_LEN_ERR);
		break;
	}
	return false;
}

/* Of the WRITE under way, what came ahead and stands in its place (bulk_ahead.c) counts from now on. */
static void count_placed(struct vb_qp *qp)
{
	struct vb_roce_engine *engine = vb_roce_engine(qp);
	struct vb_roce_responder *responder = &engine->responder;
	bool ack_request;
	uint32_t count = vb_roce_reorder_take_placed(&responder->reorder, responder->expected, &ack_request);

	if (count == 0)
		return;
	responder->received += count * engine->mtu;
	responder->expected = psn_add(responder->expected, count);
	responder->ack_psn = psn_add(responder->expected, VB_PSN_MASK);
	if (ack_request)
		vb_roce_responder_owe_acknowledgement(qp);
}

/* What was missing is there: now what came ahead of it, up to the next gap, which is told in its turn. If one of them cannot be
 * executed the requester will send all that follow it again. */
static void catch_up(struct vb_qp *qp, vb_time now)
{
	struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;
	const struct vb_roce_packet *packet;

	for (count_placed(qp); (packet = vb_roce_reorder_find(&responder->reorder, responder->expected)) != NULL; count_placed(qp)) {
		struct psn psn = packet->psn;
		bool good;

		if (vb_roce_bulk_kept_writes(qp) > 0)
			continue;
		good = handle_expected(qp, now, packet);
		vb_roce_reorder_forget(&responder->reorder, psn, 1);
		if (!good) {
			vb_roce_reorder_clear(&responder->reorder);
			return;
		}
	}
	if (responder->reorder.count > 0)
		vb_roce_responder_owe_nak(responder, VB_AETH_NAK | VB_NAK_PSN_SEQUENCE_ERROR, responder->expected);
}

/* A requester that was told what is missing, and sends it without asking for an acknowledgement, is about to send all behind it
 * again. What was kept is executed, and acknowledged where its repetition asks (repeat). One that sends the missing packet alone asks. */
static void take_expected(struct vb_qp *qp, vb_time now, const struct vb_roce_packet *packet)
{
	struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;
	bool told = responder->nak_outstanding && !responder->nak_owed;
	bool good = handle_expected(qp, now, packet), owed = responder->ack_owed;

	if (responder->reorder.count == 0)
		return;
	vb_roce_reorder_forget(&responder->reorder, packet->psn, 1);
	if (good)
		catch_up(qp, now);
	else
		vb_roce_reorder_clear(&responder->reorder);
	if (told && !packet->ack_request && good) {
		/* A program that has the message may end at once: then it leaves without being asked for. */
		responder->ack_withheld |= responder->ack_owed;
		responder->ack_owed = responder->ack_partial = owed;
		responder->ack_partial_psn = packet->psn;
		note_repeated(responder, packet->psn);
	}
}

void vb_roce_responder_receive(struct vb_qp *qp, vb_time now, const struct vb_roce_packet *packet)
{
	struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;
	int32_t distance = psn_distance(packet->psn, responder->expected);

	/* The end was told, and the telling may have been lost. The specification would let the requester run into
	 * its retry limit; saying it again lets it complete with the true status. */
	if (responder->fatal) {
		if (psn_equal(packet->psn, responder->nak_psn))
			responder->nak_owed = true;
		else
			VB_COUNT(qp->host->counters, dropped_pkts);
		return;
	}
	if (distance == 0)
		take_expected(qp, now, packet);
	else if (distance < 0)
		repeat(qp, packet);
	else
		miss(qp, packet);
}

static void append_acknowledge(struct vb_qp *qp, struct vb_burst *out, uint8_t syndrome, struct psn psn)
{
	struct vb_roce_packet packet;

	vb_roce_prepare(qp, &packet, vb_roce_opcode_find(vb_roce_service(qp), VB_KIND_ACKNOWLEDGE, VB_POSITION_ONLY, 0),
			psn);
	packet.aeth.syndrome = syndrome;
	packet.aeth.msn = vb_roce_engine(qp)->responder.msn;
	if (vb_roce_engine(qp)->responder.tells_all && syndrome == (VB_AETH_NAK | VB_NAK_PSN_SEQUENCE_ERROR))
		packet.aeth.msn = vb_roce_engine(qp)->responder.came_ahead.v;
	vb_burst_append(out, &qp->path, &packet, NULL, 0);
}

bool vb_roce_responder_owes(const struct vb_qp *qp)
{
	const struct vb_roce_responder *responder = &vb_roce_engine_of(qp)->responder;

	return responder->nak_owed || responder->ack_owed || responder->resources_owed > 0;
}

bool vb_roce_responder_send(struct vb_qp *qp, vb_time now, struct vb_burst *out)
{
	struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;

	if (responder->resources_owed > 0 && vb_roce_resources_send(qp, now, out))
		return true;
	if (!responder->nak_owed && !responder->ack_owed)
		return false;
	if (!vb_burst_has_room(out, 0))
		return true;
	/* A NAK acknowledges everything before it. */
	if (responder->nak_owed)
		append_acknowledge(qp, out, responder->nak_syndrome, responder->nak_psn);
	else
		append_acknowledge(qp, out, vb_roce_acknowledge_syndrome(qp),
				   responder->ack_partial ? responder->ack_partial_psn : responder->ack_psn);
	if (responder->nak_owed || !responder->ack_partial) {
		responder->late_at = 0;
		responder->ack_withheld = responder->awaits = false;
	}
	responder->nak_owed = responder->ack_owed = responder->ack_partial = false;
	return false;
}
