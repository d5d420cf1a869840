/* SPDX-License-Identifier: MIT
 *
 * Unreliable datagrams (IBA 9.8.3): one packet is a message. The receiver finds 40 bytes before the payload, where
 * InfiniBand puts the GRH and RoCEv2 the IP header (annex A17.4.5.2), and its own Q_Key is the only thing that
 * stands between it and the network.
 */
#include <string.h>

#include "roce/engine.h"
#include "roce/unacknowledged.h"

static bool is_own_multicast(const struct vb_qp *qp, const struct vb_roce_packet *packet)
{
	return (qp->create_flags & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB) &&
	       packet->destination_qpn == VB_MULTICAST_QPN && packet->deth.source_qpn == qp->qpn;
}

void vb_roce_datagram_dropped(struct vb_qp *qp, const struct vb_roce_packet *packet, enum vb_drop_cause cause)
{
	const struct vb_drop drop = {
		.cause = cause,
		.source = packet->from.source,
		.source_qpn = packet->deth.source_qpn,
		.qkey = packet->deth.qkey,
		.length = packet->payload_length,
		.mtu = vb_roce_engine(qp)->mtu,
	};

	if (qp->host->watch)
		qp->host->watch->dropped(qp, &drop);
}

static bool is_acceptable(struct vb_qp *qp, const struct vb_roce_packet *packet)
{
	if (packet->deth.qkey != qp->attr.qkey) {
		VB_COUNT(qp->host->counters, bad_qkey_pkts);
		vb_roce_datagram_dropped(qp, packet, VB_DROP_QKEY);
		return false;
	}
	if (is_own_multicast(qp, packet)) {
		VB_COUNT(qp->host->counters, dropped_pkts);
		return false;
	}
	/* IBA 9.8.3.2: what is too long, or finds no receive, is dropped in silence. */
	if (packet->op->position != VB_POSITION_ONLY || packet->payload_length > vb_roce_engine(qp)->mtu) {
		VB_COUNT(qp->host->counters, dropped_pkts);
		vb_roce_datagram_dropped(qp, packet, VB_DROP_TOO_LONG);
		return false;
	}
	if (!vb_roce_take_receive(qp)) {
		VB_COUNT(qp->host->counters, dropped_pkts);
		vb_roce_datagram_dropped(qp, packet, VB_DROP_NO_RECEIVE);
		return false;
	}
	return true;
}

/* The buffer is too short for the 40 bytes and the payload. The receive says so, and nothing else changes: any host
 * who knows the Q_Key may send, and must not be able to break the queue pair. */
static void complete_too_short(struct vb_qp *qp, vb_time now, const struct vb_roce_packet *packet)
{
	struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;
	struct vb_completion completion = {
		.wr_id = responder->taken.wr_id,
		.status = IBV_WC_LOC_LEN_ERR,
		.opcode = IBV_WC_RECV,
		.vendor_error = VB_FAULT_LOCAL_LENGTH,
		.qpn = qp->qpn,
		.source_qpn = packet->deth.source_qpn,
		.timestamp = now,
	};
	struct vb_fault_record why = {
		.length = VB_GRH_LENGTH + (uint64_t)packet->payload_length,
		.region_length = responder->taken.length,
		.wr_id = responder->taken.wr_id,
	};

	vb_roce_fault_of_packet(qp, packet, VB_FAULT_LOCAL_LENGTH, &why);
	why.peer_qpn = packet->deth.source_qpn;
	vb_qp_tell_receive_failure(qp, &responder->taken, completion.status, &why);
	responder->has_receive = false;
	vb_qp_complete_receive(qp, &completion);
}

/* The 40 bytes, and what they stand before. */
static bool place(struct vb_qp *qp, const struct vb_roce_packet *packet, struct vb_fault_record *why)
{
	struct vb_taken_receive *taken = &vb_roce_engine(qp)->responder.taken;
	uint32_t datagram_length = packet->op->header_length + packet->payload_length + packet->pad + VB_ICRC_LENGTH;
	uint8_t grh[VB_GRH_LENGTH], *to = NULL;

	vb_roce_grh_area(grh, &packet->from, datagram_length);
	/* What is held open is held for regions of the queue pair's domain. */
	if (qp->receive_pd == qp->pd)
		to = vb_roce_hold_list(qp, &vb_roce_engine(qp)->placing, taken->list, taken->sge_count, 0,
				       VB_GRH_LENGTH + packet->payload_length, IBV_ACCESS_LOCAL_WRITE);
	if (to) {
		memcpy(to, grh, sizeof(grh));
		vb_hold_place(to + sizeof(grh), packet->payload, packet->payload_length);
		return true;
	}
	return vb_memory_scatter(qp->host->memory, qp->receive_pd, qp->qpn, taken->list, taken->sge_count, 0, grh, sizeof(grh), why) &&
	       vb_memory_scatter(qp->host->memory, qp->receive_pd, qp->qpn, taken->list, taken->sge_count, sizeof(grh),
				 packet->payload, packet->payload_length, why);
}

void vb_roce_datagram_receive(struct vb_qp *qp, vb_time now, const struct vb_roce_packet *packet)
{
	struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;
	struct vb_taken_receive *taken = &responder->taken;
	struct vb_fault_record why = {0};

	if (!is_acceptable(qp, packet))
		return;
	if (VB_GRH_LENGTH + (uint64_t)packet->payload_length > taken->length) {
		complete_too_short(qp, now, packet);
		return;
	}
	if (!place(qp, packet, &why)) {
		vb_roce_fault_of_packet(qp, packet, VB_FAULT_NONE, &why);
		why.peer_qpn = packet->deth.source_qpn;
		responder->has_receive = false;
		vb_qp_fail_receive(qp, taken, IBV_WC_LOC_PROT_ERR, &why, IBV_EVENT_QP_REQ_ERR, false, now);
		return;
	}
	vb_roce_flow_took(vb_roce_engine(qp), packet->payload_length);
	vb_roce_responder_complete(qp, now, packet, VB_GRH_LENGTH + packet->payload_length);
}

static enum vb_roce_progress advance(struct vb_qp *qp, vb_time now, struct vb_burst *out)
{
	struct vb_roce_engine *engine = vb_roce_engine(qp);
	struct vb_roce_requester *requester = &engine->requester;
	struct vb_send_wqe *wqe = vb_send_queue_at(&qp->send, requester->send_index);
	enum vb_roce_progress progress;
	struct vb_roce_packet packet;

	if (requester->failure.waits || qp->state != IBV_QPS_RTS)
		return VB_PROGRESS_MUST_WAIT;
	if (!vb_burst_has_room(out, engine->mtu))
		return VB_PROGRESS_BURST_FULL;
	if (!wqe->started && !vb_roce_work_start(qp, wqe, now))
		return VB_PROGRESS_MUST_WAIT;
	if (!vb_roce_flow_allows(qp, wqe, vb_roce_charge(wqe->length, 1), now))
		return VB_PROGRESS_MUST_WAIT;
	vb_roce_work_headers(qp, wqe, 0, &packet);
	packet.destination_qpn = wqe->datagram.qpn;
	packet.deth.qkey = wqe->datagram.qkey;
	packet.deth.source_qpn = qp->qpn;
	progress = vb_roce_work_append(qp, wqe, 0, &wqe->datagram.path, &packet, out);
	if (progress != VB_PROGRESS_SENT)
		return progress;
	requester->send = psn_add(requester->send, 1);
	requester->acknowledged = requester->high = requester->send;
	requester->send_index++;
	return VB_PROGRESS_SENT;
}

bool vb_roce_datagram_send(struct vb_qp *qp, vb_time now, struct vb_burst *out)
{
	return vb_roce_send_unacknowledged(qp, now, out, advance);
}
