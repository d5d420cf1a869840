/* SPDX-License-Identifier: MIT
 *
 * May the request be executed? One function per rule, in the order of IBA 9.7.4.1; the PSN was checked before. What
 * is found wrong goes into the fault record, what is answered into the return value. Nothing of the QP changes
 * here, but that a receive is taken for a message that needs one.
 */
#include "profiles/limits.h"
#include "roce/engine.h"

/* Table 51 of the specification in one line: a start where nothing is under way, a continuation of what is. */
bool vb_roce_check_sequence(const struct vb_roce_responder *responder, const struct vb_roce_opcode *op)
{
	if (vb_position_is_start(op->position))
		return responder->underway == VB_UNDERWAY_NOTHING;
	return (responder->underway == VB_UNDERWAY_SEND && op->kind == VB_KIND_SEND) ||
	       (responder->underway == VB_UNDERWAY_WRITE && op->kind == VB_KIND_WRITE);
}

static uint32_t right_needed(const struct vb_roce_opcode *op)
{
	switch (op->kind) {
	case VB_KIND_WRITE:
	case VB_KIND_ATOMIC_WRITE:
		return IBV_ACCESS_REMOTE_WRITE;
	case VB_KIND_READ_REQUEST:
		return IBV_ACCESS_REMOTE_READ;
	case VB_KIND_ATOMIC_CMP_SWP:
	case VB_KIND_ATOMIC_FETCH_ADD:
		return IBV_ACCESS_REMOTE_ATOMIC;
	default:
		return 0;
	}
}

/* A14: the SRQ that the request names must be one of the queue pair's domain, and one message has one. Its domain,
 * receives and completion queue are the queue pair's from here on. */
static bool check_srq(struct vb_qp *qp, const struct vb_roce_packet *packet, struct vb_fault_record *why)
{
	if (qp->srq && qp->srq->number == packet->srqn)
		return true;
	if (vb_position_is_start(packet->op->position)) {
		/* What is held open is of the other one's domain. */
		vb_roce_hold_end_batch(qp);
		if (vb_xrc_choose_srq(qp, packet->srqn))
			return true;
	}
	vb_roce_fault_of_packet(qp, packet, VB_FAULT_XRC_SRQ, why);
	why->key = packet->srqn;
	return false;
}

/* C9-63: a QP that is not set up for RDMA does not take the opcode. */
static bool check_rights(const struct vb_qp *qp, const struct vb_roce_packet *packet, struct vb_fault_record *why)
{
	uint32_t needed = right_needed(packet->op);

	if (!(needed & ~qp->attr.qp_access_flags))
		return true;
	vb_roce_fault_of_packet(qp, packet, VB_FAULT_QP_RIGHTS, why);
	why->rights_asked = needed;
	why->rights_granted = qp->attr.qp_access_flags;
	return false;
}

bool vb_roce_take_receive(struct vb_qp *qp)
{
	struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;

	if (!responder->has_receive)
		responder->has_receive = vb_qp_take_receive(qp, &responder->taken);
	return responder->has_receive;
}

/* A SEND takes its receive with its first packet, a WRITE with immediate with its last (IBA 9.7.4.1.4). */
static bool needs_receive(const struct vb_roce_opcode *op)
{
	if (op->kind == VB_KIND_SEND)
		return vb_position_is_start(op->position);
	return op->kind == VB_KIND_WRITE && (op->headers & VB_HEADER_IMMEDIATE);
}

/* IBA 9.7.4.1.5, C9-61 ...: what each position may carry, and that the whole is what its first packet said. */
bool vb_roce_check_length(const struct vb_qp *qp, const struct vb_roce_packet *packet, struct vb_fault_record *why)
{
	const struct vb_roce_engine *engine = vb_roce_engine_of(qp);
	const struct vb_roce_responder *responder = &engine->responder;
	uint32_t length = packet->payload_length;
	enum vb_fault fault = VB_FAULT_NONE;
	uint32_t said, before;

	switch (packet->op->position) {
	case VB_POSITION_FIRST:
	case VB_POSITION_MIDDLE:
		if (length != engine->mtu)
			fault = VB_FAULT_PACKET_LENGTH;
		break;
	case VB_POSITION_LAST:
		if (length == 0 || length > engine->mtu)
			fault = VB_FAULT_PACKET_LENGTH;
		break;
	case VB_POSITION_ONLY:
		if (length > engine->mtu)
			fault = VB_FAULT_PACKET_LENGTH;
		break;
	}
	if (fault == VB_FAULT_NONE && packet->op->kind == VB_KIND_WRITE) {
		bool start = vb_position_is_start(packet->op->position);

		said = start ? packet->reth.length : responder->write_length;
		before = start ? 0 : responder->received;
		if (said > VB_MAX_MESSAGE || length > said - before ||
		    vb_position_is_end(packet->op->position) != (length == said - before))
			fault = VB_FAULT_MESSAGE_LENGTH;
	}
	/* A SEND does not say beforehand how long it will be: it is counted (IBA 9.7.2). */
	if (fault == VB_FAULT_NONE && packet->op->kind == VB_KIND_SEND && !vb_position_is_start(packet->op->position) &&
	    (uint64_t)responder->received + length > VB_MAX_MESSAGE)
		fault = VB_FAULT_MESSAGE_LENGTH;
	if (fault == VB_FAULT_NONE && packet->op->kind == VB_KIND_READ_REQUEST && packet->reth.length > VB_MAX_MESSAGE)
		fault = VB_FAULT_MESSAGE_LENGTH;
	/* IBA A19: eight bytes, no more and no less. */
	if (fault == VB_FAULT_NONE && packet->op->kind == VB_KIND_ATOMIC_WRITE && (length != 8 || packet->reth.length != 8))
		fault = VB_FAULT_MESSAGE_LENGTH;
	if (fault == VB_FAULT_NONE)
		return true;
	vb_roce_fault_of_packet(qp, packet, fault, why);
	return false;
}

/* Is the message longer than the receive it took? */
static bool receive_is_too_short(const struct vb_roce_responder *responder, const struct vb_roce_packet *packet)
{
	uint64_t before = vb_position_is_start(packet->op->position) ? 0 : responder->received;

	return packet->op->kind == VB_KIND_SEND && before + packet->payload_length > responder->taken.length;
}

/* The whole range of a WRITE or READ is checked with its first packet (IBA 9.7.4.1.6), so that nothing is written of a
 * message that would be refused later. */
bool vb_roce_check_rkey(struct vb_qp *qp, const struct vb_roce_packet *packet, struct vb_fault_record *why)
{
	struct vb_accessor who = {
		.pd = qp->pd,
		.qpn = qp->qpn,
		.rights = right_needed(packet->op),
		.remote = true,
	};
	bool good = true;

	if (packet->op->headers & VB_HEADER_RETH) {
		who.key = packet->reth.rkey;
		good = vb_memory_check(qp->host->memory, &who, packet->reth.address, packet->reth.length, why);
	} else if (packet->op->headers & VB_HEADER_ATOMIC_ETH) {
		who.key = packet->atomic.rkey;
		good = vb_memory_check(qp->host->memory, &who, packet->atomic.address, 8, why);
	}
	if (!good)
		vb_roce_fault_of_packet(qp, packet, VB_FAULT_NONE, why);
	return good;
}

static enum vb_roce_answer check_resources(struct vb_qp *qp, const struct vb_roce_packet *packet,
					   struct vb_fault_record *why)
{
	bool takes_resource = packet->op->kind == VB_KIND_READ_REQUEST || packet->op->kind == VB_KIND_ATOMIC_WRITE ||
			      (packet->op->headers & VB_HEADER_ATOMIC_ETH);

	if (needs_receive(packet->op) && !vb_roce_take_receive(qp))
		return VB_ANSWER_RNR;
	if (!takes_resource)
		return VB_ANSWER_EXECUTE;
	switch (vb_roce_resources_room(qp)) {
	case VB_ROOM_TOO_MANY:
		vb_roce_fault_of_packet(qp, packet, VB_FAULT_TOO_MANY_READS, why);
		return VB_ANSWER_INVALID_REQUEST;
	case VB_ROOM_NO_MEMORY:
		/* As if it had been lost: the requester asks again. */
		return VB_ANSWER_DROP;
	case VB_ROOM_YES:
		break;
	}
	return VB_ANSWER_EXECUTE;
}

enum vb_roce_answer vb_roce_check_request(struct vb_qp *qp, const struct vb_roce_packet *packet,
					  struct vb_fault_record *why)
{
	const struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;
	enum vb_roce_answer answer;

	if (qp->xrc_domain && !check_srq(qp, packet, why))
		return VB_ANSWER_INVALID_REQUEST;
	if (!vb_roce_check_sequence(responder, packet->op)) {
		vb_roce_fault_of_packet(qp, packet, VB_FAULT_OPCODE_SEQUENCE, why);
		return VB_ANSWER_INVALID_REQUEST;
	}
	if (!check_rights(qp, packet, why))
		return VB_ANSWER_INVALID_REQUEST;
	answer = check_resources(qp, packet, why);
	if (answer != VB_ANSWER_EXECUTE)
		return answer;
	if (!vb_roce_check_length(qp, packet, why))
		return VB_ANSWER_INVALID_REQUEST;
	if (receive_is_too_short(responder, packet)) {
		vb_roce_fault_of_packet(qp, packet, VB_FAULT_LOCAL_LENGTH, why);
		why->length = packet->payload_length + (uint64_t)responder->received;
		why->region_length = responder->taken.length;
		return VB_ANSWER_TOO_LONG;
	}
	if (((packet->op->headers & VB_HEADER_ATOMIC_ETH) && packet->atomic.address % 8 != 0) ||
	    (packet->op->kind == VB_KIND_ATOMIC_WRITE && packet->reth.address % 8 != 0)) {
		vb_roce_fault_of_packet(qp, packet, VB_FAULT_UNALIGNED_ATOMIC, why);
		return VB_ANSWER_INVALID_REQUEST;
	}
	return vb_roce_check_rkey(qp, packet, why) ? VB_ANSWER_EXECUTE : VB_ANSWER_REMOTE_ACCESS;
}
