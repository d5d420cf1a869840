/* SPDX-License-Identifier: MIT
 *
 * CRC and copy in one pass. An FPDU is to be verified before it is placed (RFC 5044 6): by a header that was damaged its payload would be
 * placed anywhere. A header that is the very one that has to come next of a message under way (vb_iwarp_deliver_is_next) misplaces
 * nothing: what is written wrong then is where the peer is writing, and it is never delivered, as the stream ends. The last bytes,
 * on which programs poll, are placed when the CRC was found to be right.
 */
#include "base/crc32c.h"
#include "iwarp/engine.h"

enum {
	LEAST = 4 << 10,                 /* of a payload: less is not worth it */
	LAST = 64,
};

/* How the header stands, without a change to anything: the ordinary way says what is wrong with others. */
static bool header_is_plain(const struct vb_iwarp_receiver *receiver)
{
	const struct vb_ddp_header *header = &receiver->header;

	return header->ddp_version == VB_DDP_VERSION && header->rdmap_version == VB_RDMAP_VERSION && receiver->op->name &&
	       receiver->op->carries_payload && receiver->op->tagged == header->tagged &&
	       (header->tagged || header->queue == receiver->op->queue);
}

enum vb_iwarp_passed vb_iwarp_one_pass(struct vb_qp *qp, const uint8_t *fpdu, uint32_t length)
{
	struct vb_iwarp_receiver *receiver = &vb_iwarp_engine(qp)->receiver;
	uint32_t covered = length - VB_FPDU_CRC_LENGTH, head, payload, piece, crc;
	uint8_t *to;

	if (receiver->ulpdu < LEAST || !vb_ddp_decode(&receiver->header, fpdu + VB_FPDU_LENGTH_FIELD, receiver->ulpdu))
		return VB_IWARP_PASSED_NOTHING;
	receiver->op = vb_rdmap_opcode(receiver->header.opcode);
	if (!header_is_plain(receiver))
		return VB_IWARP_PASSED_NOTHING;
	head = VB_FPDU_LENGTH_FIELD + (uint32_t)vb_ddp_header_length(&receiver->header);
	payload = VB_FPDU_LENGTH_FIELD + receiver->ulpdu - head;
	if (payload < LEAST || !vb_iwarp_deliver_is_next(qp, payload))
		return VB_IWARP_PASSED_NOTHING;
	receiver->placed = 0;
	receiver->left = piece = payload;
	to = vb_iwarp_place_at(qp, &piece);
	if (!to || piece < payload)
		return VB_IWARP_PASSED_NOTHING;
	crc = vb_crc32c_copy(vb_crc32c(0, fpdu, head), to, fpdu + head, payload - LAST);
	crc = vb_crc32c(crc, fpdu + head + payload - LAST, covered - head - payload + LAST);
	if (crc != vb_fpdu_get_crc(fpdu + covered))
		return VB_IWARP_PASSED_WRONG;
	vb_hold_place(to + payload - LAST, fpdu + head + payload - LAST, LAST);
	receiver->placed = payload;
	receiver->left = 0;
	return VB_IWARP_PASSED_RIGHT;
}
