/* SPDX-License-Identifier: MIT
 *
 * The fast path of packets that came ahead of a missing one, in the WRITE under way: those that are neither its first nor its last go to
 * their place at once, in the same pass that computes the ICRC, and all that is kept of them is that they came (reorder.c). Kept as
 * packets they would be read three times and written twice.
 *
 * That is allowed for the reasons that bulk_receive.c names: key, rights and range of the message were checked, and what its memory holds
 * before its end is undefined. The PSN says which part of the message a packet is. One whose PSN is damaged leaves rubbish where
 * nothing has come yet, and what belongs there is still expected: a place that is taken is left alone.
 *
 * A second packet for such a place is compared with what lies there. If it is unlike it, or the memory can no longer be looked at, neither
 * counts, as with packets that are kept.
 *
 * Whatever else comes ahead is kept as a packet, in one pass as well: SENDs, and WRITEs that have not begun. Of those with further headers
 * only WRITEs of one packet are, because a long one's series (series.c) is made of them.
 */
#include <string.h>

#include "roce/engine.h"
#include "roce/roce.h"
#include "wire/icrc.h"

/* Where packets of the WRITE under way go from `expected` on, `most` of them, without the last. NULL: by the ordinary way. */
static uint8_t *find_places(struct vb_qp *qp, uint32_t *most)
{
	struct vb_roce_engine *engine = vb_roce_engine(qp);
	const struct vb_roce_responder *responder = &engine->responder;
	struct vb_roce_range message = {qp->pd, responder->write_address, responder->write_rkey, responder->write_length};
	uint32_t left = responder->write_length - responder->received;

	uint8_t *places;

	*most = 0;
	if (responder->underway != VB_UNDERWAY_WRITE || left <= engine->mtu || !(qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE))
		return NULL;
	left = (left - 1) / engine->mtu;
	places = vb_roce_hold_remote(qp, &engine->placing, &message, responder->received, left * engine->mtu, IBV_ACCESS_REMOTE_WRITE);
	if (places)
		*most = left;
	return places;
}

static void note_missing(struct vb_qp *qp, uint32_t count, struct psn last)
{
	struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;

	if (qp->state == IBV_QPS_RTR)
		vb_qp_communication_established(qp);
	VB_COUNT_MANY(qp->host->counters, out_of_seq_request, count);
	responder->came_ahead = last;
	if (!responder->nak_outstanding)
		vb_roce_responder_owe_nak(responder, VB_AETH_NAK | VB_NAK_PSN_SEQUENCE_ERROR, responder->expected);
}

/* What is looked at for each packet. */
struct ahead {
	const struct vb_path *from;
	struct vb_icrc_prefix *prefix;
	uint8_t middle, only;            /* opcodes of WRITEs */
	uint8_t *places;                 /* NULL: none */
	uint32_t most;
};

enum outcome { TAKEN, DAMAGED, OTHERWISE };

static enum outcome place(struct vb_qp *qp, const struct ahead *ahead, const uint8_t *datagram, size_t size, unsigned index, struct psn psn,
			  bool ack_request)
{
	struct vb_roce_engine *engine = vb_roce_engine(qp);
	uint8_t *to = ahead->places + (size_t)psn_ahead(psn, engine->responder.expected) * engine->mtu;

	if (!vb_roce_reorder_is_free(&engine->responder.reorder, engine->responder.expected, psn))
		return OTHERWISE;
	if (!vb_icrc_copy_is_valid(ahead->prefix, ahead->from, datagram, size, (uint16_t)index, VB_BTH_LENGTH, to))
		return DAMAGED;
	vb_roce_reorder_placed(&engine->responder.reorder, psn, ack_request);
	return TAKEN;
}

static enum outcome keep(struct vb_qp *qp, const struct ahead *ahead, const uint8_t *datagram, size_t size, unsigned index, struct psn psn)
{
	struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;
	struct vb_roce_packet *packet;
	uint8_t *payload;

	if (!vb_roce_reorder_is_free(&responder->reorder, responder->expected, psn))
		return OTHERWISE;
	payload = vb_roce_reorder_place(&responder->reorder, psn, &packet);
	if (vb_roce_packet_decode_again(packet, datagram, size, ahead->from, NULL, 0) != VB_PACKET_OK)
		return OTHERWISE;
	if (!vb_icrc_copy_is_valid(ahead->prefix, ahead->from, datagram, size, (uint16_t)index, packet->op->header_length, payload))
		return DAMAGED;
	packet->payload = payload;
	vb_roce_reorder_kept(&responder->reorder, psn);
	return TAKEN;
}

/* It has room in its place, and a packet that goes to memory fills it. */
static bool is_of_size(const struct vb_qp *qp, const struct vb_roce_opcode *op, bool is_only, size_t size)
{
	size_t full = op->header_length + vb_roce_engine_of(qp)->mtu + VB_ICRC_LENGTH;

	return is_only ? size <= full : op->header_length == VB_BTH_LENGTH && size == full;
}

static enum outcome take(struct vb_qp *qp, const struct ahead *ahead, const uint8_t *datagram, size_t size, unsigned index, struct psn psn)
{
	const struct vb_roce_opcode *op = vb_roce_opcode(datagram[0]);
	uint32_t distance = psn_ahead(psn, vb_roce_engine(qp)->responder.expected);
	bool ack_request;

	if (distance == 0 || op->service != VB_SERVICE_RC || !op->is_request || !is_of_size(qp, op, datagram[0] == ahead->only, size) ||
	    !vb_roce_packet_is_next(datagram, size, datagram[0], qp->qpn, psn, &ack_request))
		return OTHERWISE;
	return datagram[0] == ahead->middle && distance < ahead->most ? place(qp, ahead, datagram, size, index, psn, ack_request) :
								       keep(qp, ahead, datagram, size, index, psn);
}

bool vb_roce_bulk_ahead(struct vb_qp *qp, const struct vb_path *from, struct vb_icrc_prefix *prefix, struct vb_roce_bulk *got)
{
	struct vb_roce_engine *engine = vb_roce_engine(qp);
	struct vb_roce_responder *responder = &engine->responder;
	struct ahead ahead = {.from = from, .prefix = prefix};
	size_t size = got->segment;
	enum outcome outcome = TAKEN;
	struct psn last = responder->expected;
	uint32_t count = 0;

	if (got->length < size || psn_distance(vb_bth_psn(got->bytes), responder->expected) <= 0)
		return false;
	if (qp->type != IBV_QPT_RC || responder->fatal || responder->drops_ahead || responder->tells_all)
		return true;
	ahead.middle = (uint8_t)vb_roce_opcode_find(VB_SERVICE_RC, VB_KIND_WRITE, VB_POSITION_MIDDLE, 0);
	ahead.only = (uint8_t)vb_roce_opcode_find(VB_SERVICE_RC, VB_KIND_WRITE, VB_POSITION_ONLY, 0);
	ahead.places = find_places(qp, &ahead.most);
	while (count * got->stride + size <= got->length) {
		const uint8_t *datagram = got->bytes + count * got->stride;
		struct psn psn = vb_bth_psn(datagram);

		outcome = take(qp, &ahead, datagram, size, got->index + count, psn);
		if (outcome != TAKEN)
			break;
		last = psn;
		count++;
	}
	got->taken = count;
	got->damaged = outcome == DAMAGED;
	if (count > 0)
		note_missing(qp, count, last);
	return true;
}

bool vb_roce_ahead_is_the_same(struct vb_qp *qp, const struct vb_roce_packet *packet)
{
	const struct vb_roce_engine *engine = vb_roce_engine(qp);
	uint32_t most, ahead = psn_ahead(packet->psn, engine->responder.expected);
	const uint8_t *places = find_places(qp, &most);

	return places && ahead < most && packet->op->kind == VB_KIND_WRITE && packet->op->position == VB_POSITION_MIDDLE &&
	       packet->payload_length == engine->mtu && memcmp(places + (size_t)ahead * engine->mtu, packet->payload, engine->mtu) == 0;
}
