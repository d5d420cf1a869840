/* SPDX-License-Identifier: MIT
 *
 * How a request of the peer ends here: with an acknowledgement, with the completion of a receive, with a NAK after which the requester
 * goes on, or with the NAK that is the end of this QP. All services and all parts of the responder end with these.
 */
#include <string.h>

#include "roce/engine.h"

void vb_roce_fault_of_packet(const struct vb_qp *qp, const struct vb_roce_packet *packet, enum vb_fault fault,
			     struct vb_fault_record *why)
{
	if (fault != VB_FAULT_NONE)
		why->fault = fault;
	why->psn = packet->psn.v;
	why->opcode = packet->opcode;
	why->qpn = qp->qpn;
	why->peer_qpn = qp->attr.dest_qp_num;
	if (why->fault == VB_FAULT_PACKET_LENGTH) {
		why->length = packet->payload_length;
		why->region_length = vb_roce_engine_of(qp)->mtu;
	} else if (packet->op->headers & VB_HEADER_RETH) {
		why->key = packet->reth.rkey;
		why->address = packet->reth.address;
		why->length = packet->reth.length;
	} else if (packet->op->headers & VB_HEADER_ATOMIC_ETH) {
		why->key = packet->atomic.rkey;
		why->address = packet->atomic.address;
		why->length = 8;
	}
}

void vb_roce_responder_owe_acknowledgement(struct vb_qp *qp)
{
	struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;

	if (responder->ack_owed)
		vb_roce_tally_one(&vb_roce_engine(qp)->tally, &vb_roce_engine(qp)->tally.deferred);
	responder->ack_owed = true;
	responder->ack_partial = false;
}

void vb_roce_responder_owe_nak(struct vb_roce_responder *responder, uint8_t syndrome, struct psn psn)
{
	responder->nak_owed = responder->nak_outstanding = true;
	responder->nak_syndrome = syndrome;
	responder->nak_psn = psn;
}

void vb_roce_responder_refuse(struct vb_qp *qp, vb_time now, const struct vb_roce_packet *packet,
			      enum vb_nak_code code, const struct vb_fault_record *found, enum ibv_wc_status status)
{
	struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;
	bool taken = responder->has_receive && status != IBV_WC_SUCCESS;
	enum ibv_event_type event = code == VB_NAK_REMOTE_ACCESS_ERROR ? IBV_EVENT_QP_ACCESS_ERR : IBV_EVENT_QP_REQ_ERR;
	struct vb_fault_record why = *found;

	vb_roce_fault_of_packet(qp, packet, VB_FAULT_NONE, &why);
	why.syndrome = VB_AETH_NAK | code;
	/* Noted first: the NAK still leaves while the QP is in the error state. */
	vb_roce_responder_owe_nak(responder, why.syndrome, packet->psn);
	responder->fatal = true;
	responder->underway = VB_UNDERWAY_NOTHING;
	if (taken)
		responder->has_receive = false;
	/* The completion of a receive tells the application; where none is at hand an event must (IBA 10.10.2.3). */
	vb_qp_fail_receive(qp, taken ? &responder->taken : NULL, status, &why, event, !taken, now);
}

/* RoCE packets have no service level. Adapters say in its place which header stands in the 40 bytes before a datagram, and UCX
 * (1.12 to 1.18) drops a datagram that comes without. */
static uint8_t packet_type(const struct vb_roce_packet *packet)
{
	enum { OVER_IPV6 = 0x9, OVER_IPV4 = 0xa };

	/* InfiniBand's do: the path came with LIDs. */
	if (packet->from.slid != 0)
		return packet->from.sl;
	return vb_gid_is_ipv4(packet->from.source) ? OVER_IPV4 : OVER_IPV6;
}

/* To which of its LIDs the packet was sent (IBA 11.4.2.1); a group's LID is none of them. */
static uint8_t path_bits(const struct vb_qp *qp, const struct vb_path *from)
{
	enum { FIRST_OF_GROUPS = 0xc000 };

	if (!qp->host->lmc || from->dlid >= FIRST_OF_GROUPS)
		return 0;
	return (uint8_t)(from->dlid & ((1u << __atomic_load_n(qp->host->lmc, __ATOMIC_RELAXED)) - 1));
}

void vb_roce_responder_complete(struct vb_qp *qp, vb_time now, const struct vb_roce_packet *packet, uint32_t length)
{
	struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;
	struct vb_completion completion = {
		.wr_id = responder->taken.wr_id,
		.status = IBV_WC_SUCCESS,
		.opcode = packet->op->kind == VB_KIND_WRITE ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV,
		.byte_length = length,
		.qpn = qp->qpn,
		.source_qpn = qp->type == IBV_QPT_UD ? packet->deth.source_qpn : qp->attr.dest_qp_num,
		/* Where one was placed before the payload. rxe sets it for all services, adapters do not. */
		.wc_flags = qp->type == IBV_QPT_UD && packet->from.framing != VB_FRAMING_LOCAL ? IBV_WC_GRH : 0,
		.service_level = qp->type == IBV_QPT_UD ? packet_type(packet) : 0,
		.slid = packet->from.slid,
		.dlid_path_bits = path_bits(qp, &packet->from),
		.pkey_index = qp->type == IBV_QPT_UD ? (uint16_t)qp->attr.pkey_index : 0,
		.solicited = packet->solicited,
		.timestamp = now,
	};

	if (packet->op->headers & VB_HEADER_IMMEDIATE) {
		completion.wc_flags |= IBV_WC_WITH_IMM;
		memcpy(&completion.immediate, &packet->immediate, sizeof(completion.immediate));
	}
	if (packet->op->headers & VB_HEADER_IETH) {
		completion.wc_flags |= IBV_WC_WITH_INV;
		completion.immediate = packet->invalidate_rkey;
	}
	responder->has_receive = false;
	vb_roce_tally_one(&vb_roce_engine(qp)->tally, &vb_roce_engine(qp)->tally.receives);
	vb_qp_complete_receive(qp, &completion);
}
