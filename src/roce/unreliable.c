/* SPDX-License-Identifier: MIT
 *
 * Unreliable connections (IBA 9.8.2): messages like RC's without answers. A message of which a packet is missing,
 * late or wrong is dropped as a whole and its sender is not told; its receive, if it took one, waits for the next message.
 * A WRITE may have put its beginning into memory by then, as the specification allows: it is the completion that
 * says a message is whole.
 *
 * Sending is paced (flow.c), and an element is complete when its last packet was handed over: the completion
 * is made at the next call, when the kernel has the bytes and the application may have its buffer back.
 */
#include "roce/engine.h"
#include "roce/unacknowledged.h"

/* PSNs this far behind are packets the network doubled or delayed. Anything further away is taken as where the
 * sender now is. */
enum { LATE = 256 };

/* Forget the message under way, keep its receive. */
static void abandon(struct vb_qp *qp)
{
	struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;

	if (responder->underway != VB_UNDERWAY_NOTHING)
		VB_COUNT(qp->host->counters, dropped_pkts);
	responder->underway = VB_UNDERWAY_NOTHING;
}

static void drop(struct vb_qp *qp)
{
	VB_COUNT(qp->host->counters, dropped_pkts);
	vb_roce_engine(qp)->responder.underway = VB_UNDERWAY_NOTHING;
}

static void fail(struct vb_qp *qp, vb_time now, const struct vb_roce_packet *packet, struct vb_fault_record *why,
		 enum ibv_wc_status status)
{
	struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;

	vb_roce_fault_of_packet(qp, packet, VB_FAULT_NONE, why);
	responder->has_receive = false;
	responder->underway = VB_UNDERWAY_NOTHING;
	vb_qp_fail_receive(qp, &responder->taken, status, why, IBV_EVENT_QP_REQ_ERR, false, now);
}

static bool has_right(const struct vb_qp *qp, const struct vb_roce_packet *packet)
{
	return packet->op->kind != VB_KIND_WRITE || (qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE);
}

static void begin(struct vb_roce_responder *responder, const struct vb_roce_packet *packet)
{
	responder->received = 0;
	responder->underway = packet->op->kind == VB_KIND_SEND ? VB_UNDERWAY_SEND : VB_UNDERWAY_WRITE;
	responder->write_address = packet->reth.address;
	responder->write_rkey = packet->reth.rkey;
	responder->write_length = packet->reth.length;
}

/* Put the payload where it belongs. False: the message is over, one way or the other. */
static bool place(struct vb_qp *qp, vb_time now, const struct vb_roce_packet *packet)
{
	struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;
	struct vb_accessor who = {
		.pd = qp->pd,
		.qpn = qp->qpn,
		.key = responder->write_rkey,
		.rights = IBV_ACCESS_REMOTE_WRITE,
		.remote = true,
	};
	struct vb_fault_record why = {0};

	if (packet->op->kind == VB_KIND_WRITE) {
		if (vb_memory_place(qp->host->memory, &who, responder->write_address + responder->received,
				    packet->payload, packet->payload_length, &why))
			return true;
		drop(qp);
		return false;
	}
	if ((uint64_t)responder->received + packet->payload_length > responder->taken.length) {
		why.fault = VB_FAULT_LOCAL_LENGTH;
		why.length = (uint64_t)responder->received + packet->payload_length;
		why.region_length = responder->taken.length;
		fail(qp, now, packet, &why, IBV_WC_LOC_LEN_ERR);
		return false;
	}
	if (vb_memory_scatter(qp->host->memory, qp->receive_pd, qp->qpn, responder->taken.list, responder->taken.sge_count,
			      responder->received, packet->payload, packet->payload_length, &why))
		return true;
	fail(qp, now, packet, &why, IBV_WC_LOC_PROT_ERR);
	return false;
}

/* Does the packet begin, or continue, a message that may be taken? */
static bool is_acceptable(struct vb_qp *qp, const struct vb_roce_packet *packet)
{
	struct vb_fault_record why = {0};

	return vb_roce_check_sequence(&vb_roce_engine(qp)->responder, packet->op) && has_right(qp, packet) &&
	       vb_roce_check_length(qp, packet, &why) && vb_roce_check_rkey(qp, packet, &why);
}

static bool needs_receive(const struct vb_roce_opcode *op)
{
	return op->kind == VB_KIND_SEND ? vb_position_is_start(op->position) : op->makes_completion;
}

void vb_roce_unreliable_receive(struct vb_qp *qp, vb_time now, const struct vb_roce_packet *packet)
{
	struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;
	int32_t distance = psn_distance(packet->psn, responder->expected);

	if (!packet->op->is_request || (distance < 0 && distance >= -LATE)) {
		VB_COUNT(qp->host->counters, dropped_pkts);
		return;
	}
	responder->expected = psn_add(packet->psn, 1);
	/* C9-192: a gap, or a new beginning, ends what was under way. */
	if (distance != 0 || vb_position_is_start(packet->op->position))
		abandon(qp);
	if (!is_acceptable(qp, packet) || (needs_receive(packet->op) && !vb_roce_take_receive(qp))) {
		drop(qp);
		return;
	}
	if (vb_position_is_start(packet->op->position))
		begin(responder, packet);
	if (!place(qp, now, packet))
		return;
	responder->received += packet->payload_length;
	if (!vb_position_is_end(packet->op->position))
		return;
	responder->underway = VB_UNDERWAY_NOTHING;
	if (!packet->op->makes_completion) {
		responder->message_charge = 0;
		return;
	}
	vb_roce_flow_took(vb_roce_engine(qp), responder->received);
	vb_roce_responder_complete(qp, now, packet, responder->received);
}

static void note_sent(struct vb_roce_requester *requester, uint32_t count)
{
	requester->send = psn_add(requester->send, count);
	requester->acknowledged = requester->high = requester->send;
}

/* Packets from `index` on that are neither first nor last, as many as the receiver and a run have room for. Returns how many went;
 * none means nothing but that they must be tried singly. */
static uint32_t transmit_middle_packets(struct vb_qp *qp, struct vb_send_wqe *wqe, uint32_t index, struct vb_burst *out)
{
	struct vb_roce_engine *engine = vb_roce_engine(qp);
	uint32_t charge = vb_roce_charge(engine->mtu, 1), count = vb_roce_note(wqe)->packets - 1 - index;
	uint32_t fit = vb_roce_flow_room(&engine->requester, charge), room = vb_burst_run_room(out, engine->mtu);
	struct vb_roce_packet packet;

	if (room > 0 && count > room)
		count = room;
	if (count > fit)
		count = fit;
	if (count < 2)
		return 0;
	vb_roce_work_headers(qp, wqe, index, &packet);
	count = vb_roce_work_append_alike(qp, wqe, index, count, &packet, out);
	if (count > 0) {
		vb_roce_flow_sent(&engine->requester, count * charge);
		note_sent(&engine->requester, count);
	}
	return count;
}

/* Packets of the element at send_index, or its local execution. */
static enum vb_roce_progress advance(struct vb_qp *qp, vb_time now, struct vb_burst *out)
{
	struct vb_roce_engine *engine = vb_roce_engine(qp);
	struct vb_roce_requester *requester = &engine->requester;
	struct vb_send_wqe *wqe = vb_send_queue_at(&qp->send, requester->send_index);
	enum vb_roce_progress progress;
	struct vb_roce_packet packet;
	uint32_t index;

	if (requester->failure.waits || (!wqe->started && qp->state != IBV_QPS_RTS))
		return VB_PROGRESS_MUST_WAIT;
	if (!wqe->started && !vb_roce_work_start(qp, wqe, now))
		return VB_PROGRESS_MUST_WAIT;
	if (vb_roce_note(wqe)->packets == 0) {
		requester->send_index++;
		return VB_PROGRESS_SENT;
	}
	index = psn_ahead(requester->send, vb_roce_note(wqe)->first_psn);
	if (!vb_burst_has_room(out, engine->mtu))
		return VB_PROGRESS_BURST_FULL;
	if (index > 0 && index + 1 < vb_roce_note(wqe)->packets && transmit_middle_packets(qp, wqe, index, out) > 0)
		return VB_PROGRESS_SENT;
	if (!vb_roce_flow_allows(qp, wqe, vb_roce_charge(vb_roce_payload(wqe->length, engine->mtu, index), 1), now))
		return VB_PROGRESS_MUST_WAIT;
	vb_roce_work_headers(qp, wqe, index, &packet);
	progress = vb_roce_work_append(qp, wqe, index, &qp->path, &packet, out);
	if (progress != VB_PROGRESS_SENT)
		return progress;
	note_sent(requester, 1);
	if (index + 1 == vb_roce_note(wqe)->packets)
		requester->send_index++;
	return VB_PROGRESS_SENT;
}

bool vb_roce_unreliable_send(struct vb_qp *qp, vb_time now, struct vb_burst *out)
{
	return vb_roce_send_unacknowledged(qp, now, out, advance);
}
