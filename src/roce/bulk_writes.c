/* SPDX-License-Identifier: MIT
 *
 * The fast path of WRITEs of one packet each, of one size and in order: a stream of short ones, or a long one's series (series.c). What
 * the ordinary way checks for each of them is checked here as well; what is saved is to find the key again, and all the cases
 * that such a packet is not. Each is a message's end, which an application may be watching for, so nothing of it is placed before
 * its ICRC is known to be good.
 *
 * Those that came ahead of a missing packet, and were kept (bulk_ahead.c), are executed in the same way when that is there.
 */
#include "roce/engine.h"
#include "roce/roce.h"
#include "wire/icrc.h"

enum { HEADERS = VB_BTH_LENGTH + VB_RETH_LENGTH };

/* NULL: it is not for plain memory that the peer may write, and the ordinary way says why. */
static uint8_t *find_place(struct vb_qp *qp, const struct vb_roce_reth *reth)
{
	struct vb_hold *hold = &vb_roce_engine(qp)->placing;
	struct vb_accessor who = {
		.pd = qp->pd,
		.qpn = qp->qpn,
		.key = reth->rkey,
		.rights = IBV_ACCESS_REMOTE_WRITE,
		.remote = true,
	};
	uint8_t *to = vb_hold_bytes(hold, reth->rkey, IBV_ACCESS_REMOTE_WRITE, reth->address, reth->length);

	if (!to && vb_memory_hold_around(qp->host->memory, &who, reth->address, reth->length, hold))
		to = vb_hold_bytes(hold, reth->rkey, IBV_ACCESS_REMOTE_WRITE, reth->address, reth->length);
	return to;
}

static bool takes_writes(const struct vb_qp *qp)
{
	const struct vb_roce_responder *responder = &vb_roce_engine_of(qp)->responder;

	return qp->type == IBV_QPT_RC && (qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE) &&
	       responder->underway == VB_UNDERWAY_NOTHING && !responder->fatal;
}

static bool may_come(const struct vb_qp *qp, size_t segment)
{
	const struct vb_roce_engine *engine = vb_roce_engine_of(qp);

	return takes_writes(qp) && segment > HEADERS + VB_ICRC_LENGTH && segment <= HEADERS + engine->mtu + VB_ICRC_LENGTH &&
	       engine->responder.reorder.count == 0;
}

static void writes_came(struct vb_qp *qp, uint32_t count, uint32_t ack_requests)
{
	struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;

	if (qp->state == IBV_QPS_RTR)
		vb_qp_communication_established(qp);
	responder->nak_owed = responder->nak_outstanding = false;
	responder->expected = psn_add(responder->expected, count);
	responder->ack_of_write = true;
	responder->ack_psn = psn_add(responder->expected, VB_PSN_MASK);
	responder->msn = (responder->msn + count) & VB_PSN_MASK;
	if (ack_requests > 1)
		VB_COUNT_MANY(qp->host->counters, ack_deferred, ack_requests - 1);
	if (ack_requests > 0)
		vb_roce_responder_owe_acknowledgement(qp);
}

void vb_roce_bulk_writes(struct vb_qp *qp, const struct vb_path *from, struct vb_icrc_prefix *prefix, struct vb_roce_bulk *got)
{
	const struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;
	size_t size = got->segment, length = size - HEADERS - VB_ICRC_LENGTH;
	uint8_t opcode = (uint8_t)vb_roce_opcode_find(VB_SERVICE_RC, VB_KIND_WRITE, VB_POSITION_ONLY, 0);
	uint32_t count = 0, ack_requests = 0;
	bool asks;

	if (!may_come(qp, size))
		return;
	for (; count * got->stride + size <= got->length; count++) {
		const uint8_t *datagram = got->bytes + count * got->stride;
		struct vb_roce_reth reth;
		uint8_t *to;

		if (!vb_roce_packet_is_next(datagram, size, opcode, qp->qpn, psn_add(responder->expected, count), &asks))
			break;
		vb_roce_packet_read_reth(datagram + VB_BTH_LENGTH, &reth);
		to = reth.length == length ? find_place(qp, &reth) : NULL;
		if (!to)
			break;
		if (!vb_icrc_is_valid_again(prefix, from, datagram, size, (uint16_t)(got->index + count))) {
			got->damaged = 1;
			break;
		}
		vb_hold_place(to, datagram + HEADERS, length);
		ack_requests += asks;
	}
	got->taken = count;
	if (count > 0)
		writes_came(qp, count, ack_requests);
}

uint32_t vb_roce_bulk_kept_writes(struct vb_qp *qp)
{
	struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;
	int opcode = vb_roce_opcode_find(VB_SERVICE_RC, VB_KIND_WRITE, VB_POSITION_ONLY, 0);
	uint32_t count = 0, ack_requests = 0;

	if (!takes_writes(qp))
		return 0;
	for (;; count++) {
		const struct vb_roce_packet *packet = vb_roce_reorder_find(&responder->reorder, psn_add(responder->expected, count));
		uint8_t *to;

		if (!packet || packet->opcode != opcode || packet->payload_length == 0 || packet->reth.length != packet->payload_length)
			break;
		to = find_place(qp, &packet->reth);
		if (!to)
			break;
		vb_hold_place(to, packet->payload, packet->payload_length);
		ack_requests += packet->ack_request;
	}
	if (count == 0)
		return 0;
	vb_roce_reorder_forget(&responder->reorder, responder->expected, count);
	writes_came(qp, count, ack_requests);
	return count;
}
