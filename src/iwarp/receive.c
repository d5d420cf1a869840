/* SPDX-License-Identifier: MIT
 *
 * The stream becomes FPDUs. Without CRC the bytes of a payload are placed as they come: what is kept of an FPDU is at
 * most its headers. With it they are placed when all of the FPDU is there and right (RFC 5044 6; in the same pass where that is
 * safe, one_pass.c): out of the caller's bytes where it lies there whole, else it is collected.
 *
 *   CRC off:  HEADER -> PAYLOAD -> TRAILER -> HEADER      resumable at every byte
 *   CRC on:   HEADER (whole at once), or HEADER -> WHOLE -> HEADER
 */
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "iwarp/engine.h"

enum step { STEP_ON, STEP_STARVES, STEP_STALLS, STEP_ENDS };

/* What is there to be taken. */
struct stream {
	const uint8_t *bytes;
	size_t left;
};

void vb_iwarp_receive_begin(struct vb_iwarp_receiver *receiver)
{
	receiver->phase = VB_IWARP_HEADER;
	receiver->send_msn = receiver->read_msn = receiver->atomic_msn = 1;
}

void vb_iwarp_receive_end(struct vb_iwarp_receiver *receiver)
{
	vb_memory_let_go(&receiver->placing);
	free(receiver->fpdu);
	receiver->fpdu = NULL;
	receiver->phase = VB_IWARP_DEAF;
	receiver->stalled = false;
	receiver->tail_at = receiver->tail_end = 0;
}

bool vb_iwarp_receive_is_between(const struct vb_iwarp_receiver *receiver)
{
	return receiver->phase == VB_IWARP_HEADER && receiver->have == 0 && !receiver->send_underway && !receiver->write_underway;
}

/* ---- what both ways share ---- */

/* The headers are there: may the payload come? */
static enum step begin_payload(struct vb_qp *qp, vb_time now, uint32_t payload)
{
	struct vb_iwarp_receiver *receiver = &vb_iwarp_engine(qp)->receiver;

	receiver->placed = 0;
	receiver->left = payload;
	switch (vb_iwarp_deliver_begin(qp, now, payload)) {
	case VB_IWARP_GO_ON:
		receiver->stalled = false;
		return STEP_ON;
	case VB_IWARP_WAIT:
		if (!receiver->stalled) {
			receiver->stalled = true;
			receiver->give_up_at = now + VB_IWARP_PATIENCE;
			VB_COUNT(qp->host->counters, send_rnr_err);
		}
		return STEP_STALLS;
	default:
		return STEP_ENDS;
	}
}

void vb_iwarp_receive_expire(struct vb_qp *qp, vb_time now)
{
	struct vb_iwarp_receiver *receiver = &vb_iwarp_engine(qp)->receiver;

	if (receiver->stalled && now >= receiver->give_up_at)
		vb_iwarp_fall_by(qp, now, VB_TERMINATE_DDP, 2, 0x02, VB_FAULT_NO_RECEIVE);
}

/* Of a TERMINATE what we can use; what follows is passed over. */
static uint32_t headers_of(const struct vb_iwarp_receiver *receiver)
{
	uint32_t most = VB_DDP_UNTAGGED_LENGTH + VB_TERMINATE_MOST;

	if (receiver->op->kind != VB_RDMAP_KIND_TERMINATE)
		return receiver->op->header_length;
	return receiver->ulpdu < most ? receiver->ulpdu : most;
}

static enum step too_short(struct vb_qp *qp, vb_time now)
{
	vb_iwarp_fall_by(qp, now, VB_TERMINATE_MPA, 0, 0x03, VB_FAULT_FRAME);
	return STEP_ENDS;
}

/* ---- CRC off ---- */

static bool fill_head(struct vb_iwarp_receiver *receiver, struct stream *stream, uint32_t need)
{
	uint32_t missing = need - receiver->have;
	size_t some = stream->left < missing ? stream->left : missing;

	if (some > 0)
		memcpy(receiver->head + receiver->have, stream->bytes, some);
	receiver->have += (uint32_t)some;
	stream->bytes += some;
	stream->left -= some;
	return receiver->have == need;
}

/* Length, control field, DDP header, body: each says how long the next is. */
static enum step take_header(struct vb_qp *qp, vb_time now, struct stream *stream)
{
	struct vb_iwarp_receiver *receiver = &vb_iwarp_engine(qp)->receiver;
	uint32_t ddp;

	if (receiver->have < VB_FPDU_LENGTH_FIELD + VB_DDP_CONTROL_LENGTH) {
		if (receiver->have < VB_FPDU_LENGTH_FIELD && !fill_head(receiver, stream, VB_FPDU_LENGTH_FIELD))
			return STEP_STARVES;
		receiver->ulpdu = vb_fpdu_get_length(receiver->head);
		if (receiver->ulpdu < VB_DDP_CONTROL_LENGTH)
			return too_short(qp, now);
		if (!fill_head(receiver, stream, VB_FPDU_LENGTH_FIELD + VB_DDP_CONTROL_LENGTH))
			return STEP_STARVES;
	}
	ddp = (uint32_t)vb_ddp_length_by(receiver->head[VB_FPDU_LENGTH_FIELD]);
	if (receiver->ulpdu < ddp)
		return too_short(qp, now);
	if (receiver->have < VB_FPDU_LENGTH_FIELD + ddp) {
		if (!fill_head(receiver, stream, VB_FPDU_LENGTH_FIELD + ddp))
			return STEP_STARVES;
		vb_ddp_decode(&receiver->header, receiver->head + VB_FPDU_LENGTH_FIELD, ddp);
		if (vb_iwarp_deliver_check(qp, now) == VB_IWARP_REFUSED)
			return STEP_ENDS;
	}
	if (!fill_head(receiver, stream, VB_FPDU_LENGTH_FIELD + headers_of(receiver)))
		return STEP_STARVES;
	receiver->phase = VB_IWARP_PAYLOAD;
	return begin_payload(qp, now, receiver->ulpdu - headers_of(receiver));
}

static enum step take_payload(struct vb_qp *qp, vb_time now, struct stream *stream)
{
	struct vb_iwarp_receiver *receiver = &vb_iwarp_engine(qp)->receiver;
	uint32_t some = stream->left < receiver->left ? (uint32_t)stream->left : receiver->left;

	if (receiver->op->kind == VB_RDMAP_KIND_TERMINATE)
		receiver->left -= some;
	else if (!vb_iwarp_place(qp, now, stream->bytes, some))
		return STEP_ENDS;
	stream->bytes += some;
	stream->left -= some;
	if (receiver->left > 0)
		return STEP_STARVES;
	receiver->phase = VB_IWARP_TRAILER;
	receiver->left = vb_fpdu_pad(receiver->ulpdu) + VB_FPDU_CRC_LENGTH;
	return STEP_ON;
}

static enum step take_trailer(struct vb_qp *qp, vb_time now, struct stream *stream)
{
	struct vb_iwarp_receiver *receiver = &vb_iwarp_engine(qp)->receiver;
	uint32_t some = stream->left < receiver->left ? (uint32_t)stream->left : receiver->left;
	uint32_t ddp = (uint32_t)vb_ddp_header_length(&receiver->header), headers = headers_of(receiver);

	stream->bytes += some;
	stream->left -= some;
	receiver->left -= some;
	if (receiver->left > 0)
		return STEP_STARVES;
	if (!vb_iwarp_deliver_end(qp, now, receiver->head + VB_FPDU_LENGTH_FIELD + ddp, headers - ddp))
		return STEP_ENDS;
	receiver->phase = VB_IWARP_HEADER;
	receiver->have = 0;
	return STEP_ON;
}

/* ---- CRC on ---- */

static bool crc_is_right(const uint8_t *fpdu, uint32_t length)
{
	uint32_t covered = length - VB_FPDU_CRC_LENGTH;

	return vb_crc32c(0, fpdu, covered) == vb_fpdu_get_crc(fpdu + covered);
}

static enum step take_checked(struct vb_qp *qp, vb_time now, const uint8_t *fpdu)
{
	struct vb_iwarp_receiver *receiver = &vb_iwarp_engine(qp)->receiver;
	const uint8_t *ulpdu = fpdu + VB_FPDU_LENGTH_FIELD;
	uint32_t ddp, headers;
	enum step step;

	if (!vb_ddp_decode(&receiver->header, ulpdu, receiver->ulpdu))
		return too_short(qp, now);
	if (vb_iwarp_deliver_check(qp, now) == VB_IWARP_REFUSED)
		return STEP_ENDS;
	ddp = (uint32_t)vb_ddp_header_length(&receiver->header);
	headers = headers_of(receiver);
	step = begin_payload(qp, now, receiver->ulpdu - headers);
	if (step != STEP_ON)
		return step;
	if (receiver->op->kind != VB_RDMAP_KIND_TERMINATE && !vb_iwarp_place(qp, now, ulpdu + headers, receiver->ulpdu - headers))
		return STEP_ENDS;
	return vb_iwarp_deliver_end(qp, now, ulpdu + ddp, headers - ddp) ? STEP_ON : STEP_ENDS;
}

static enum step take_fpdu(struct vb_qp *qp, vb_time now, const uint8_t *fpdu, uint32_t length)
{
	enum vb_iwarp_passed passed = vb_iwarp_one_pass(qp, fpdu, length);

	if (passed == VB_IWARP_PASSED_RIGHT)
		return vb_iwarp_deliver_end(qp, now, NULL, 0) ? STEP_ON : STEP_ENDS;
	if (passed == VB_IWARP_PASSED_NOTHING && crc_is_right(fpdu, length))
		return take_checked(qp, now, fpdu);
	vb_iwarp_fall_by(qp, now, VB_TERMINATE_MPA, 0, 0x02, VB_FAULT_FRAME_CRC);
	return STEP_ENDS;
}

/* An FPDU begins. */
static enum step take_length(struct vb_qp *qp, vb_time now, struct stream *stream)
{
	struct vb_iwarp_receiver *receiver = &vb_iwarp_engine(qp)->receiver;
	uint32_t length;
	enum step step;

	if (receiver->have == 0 && stream->left >= VB_FPDU_LENGTH_FIELD) {
		receiver->ulpdu = vb_fpdu_get_length(stream->bytes);
		length = vb_fpdu_length(receiver->ulpdu);
		if (stream->left >= length) {
			step = take_fpdu(qp, now, stream->bytes, length);
			if (step == STEP_ON) {
				stream->bytes += length;
				stream->left -= length;
			}
			return step;
		}
	}
	if (!fill_head(receiver, stream, VB_FPDU_LENGTH_FIELD))
		return STEP_STARVES;
	receiver->ulpdu = vb_fpdu_get_length(receiver->head);
	receiver->fpdu = malloc(vb_fpdu_length(receiver->ulpdu));
	if (!receiver->fpdu) {
		vb_iwarp_fall_by(qp, now, VB_TERMINATE_RDMAP, 0, 0xff, VB_FAULT_RESPONDER_OPERATION);
		return STEP_ENDS;
	}
	memcpy(receiver->fpdu, receiver->head, VB_FPDU_LENGTH_FIELD);
	receiver->phase = VB_IWARP_WHOLE;
	return STEP_ON;
}

static enum step collect(struct vb_qp *qp, vb_time now, struct stream *stream)
{
	struct vb_iwarp_receiver *receiver = &vb_iwarp_engine(qp)->receiver;
	uint32_t length = vb_fpdu_length(receiver->ulpdu), missing = length - receiver->have;
	uint32_t some = stream->left < missing ? (uint32_t)stream->left : missing;
	enum step step;

	if (some > 0)
		memcpy(receiver->fpdu + receiver->have, stream->bytes, some);
	receiver->have += some;
	stream->bytes += some;
	stream->left -= some;
	if (receiver->have < length)
		return STEP_STARVES;
	step = take_fpdu(qp, now, receiver->fpdu, length);
	if (step != STEP_ON)
		return step;
	free(receiver->fpdu);
	receiver->fpdu = NULL;
	receiver->have = 0;
	receiver->phase = VB_IWARP_HEADER;
	return STEP_ON;
}

/* ---- entry ---- */

static enum step take_step(struct vb_qp *qp, vb_time now, struct stream *stream)
{
	struct vb_iwarp_engine *engine = vb_iwarp_engine(qp);

	switch (engine->receiver.phase) {
	case VB_IWARP_HEADER:
		return engine->terms.crc ? take_length(qp, now, stream) : take_header(qp, now, stream);
	case VB_IWARP_PAYLOAD:
		/* It waited for a receive. */
		if (engine->receiver.stalled) {
			enum step step = begin_payload(qp, now, engine->receiver.left);

			if (step != STEP_ON)
				return step;
		}
		return take_payload(qp, now, stream);
	case VB_IWARP_TRAILER:
		return take_trailer(qp, now, stream);
	case VB_IWARP_WHOLE:
		return collect(qp, now, stream);
	default:
		return STEP_ENDS;
	}
}

/* Returns how many of the bytes were taken. */
static size_t feed(struct vb_qp *qp, vb_time now, const uint8_t *bytes, size_t length)
{
	struct stream stream = {bytes, length};
	enum step step;

	do
		step = take_step(qp, now, &stream);
	while (step == STEP_ON && (stream.left > 0 || vb_iwarp_engine(qp)->receiver.phase != VB_IWARP_HEADER));
	/* The receiver does not look at what follows. */
	return step == STEP_ENDS ? length : length - stream.left;
}

static bool feed_tail(struct vb_qp *qp, vb_time now)
{
	struct vb_iwarp_receiver *receiver = &vb_iwarp_engine(qp)->receiver;
	size_t taken;

	if (receiver->tail_at == receiver->tail_end)
		return true;
	taken = feed(qp, now, receiver->tail + receiver->tail_at, (size_t)(receiver->tail_end - receiver->tail_at));
	/* The stream's end empties it. */
	if (receiver->tail_end > 0)
		receiver->tail_at = (uint8_t)(receiver->tail_at + taken);
	return receiver->tail_at == receiver->tail_end;
}

size_t vb_iwarp_take(struct vb_qp *qp, vb_time now, const void *bytes, size_t length)
{
	struct vb_iwarp_receiver *receiver = &vb_iwarp_engine(qp)->receiver;
	size_t taken = 0;

	vb_lock_assert_held(&qp->lock);
	if (!vb_iwarp_is_alive(qp))
		return length;
	if (feed_tail(qp, now))
		taken = feed(qp, now, bytes ? bytes : receiver->tail, length);
	vb_memory_let_go(&receiver->placing);
	vb_iwarp_check_invariants(qp);
	return taken;
}

size_t vb_iwarp_take_at_once(const struct vb_qp *qp, size_t most)
{
	const struct vb_iwarp_engine *engine = vb_iwarp_engine_of(qp);
	const struct vb_iwarp_receiver *receiver = &engine->receiver;
	size_t fpdu = vb_fpdu_length(receiver->ulpdu), missing = receiver->phase == VB_IWARP_WHOLE ? fpdu - receiver->have : 0;

	if (fpdu < VB_IWARP_DIRECT || receiver->phase == VB_IWARP_PAYLOAD || receiver->phase == VB_IWARP_DEAF)
		return most;
	if (!engine->terms.crc)
		return most < VB_IWARP_HEAD ? most : VB_IWARP_HEAD;
	if (missing + fpdu > most)
		return most;
	return missing + (most - missing) / fpdu * fpdu;
}

unsigned vb_iwarp_want(struct vb_qp *qp, struct iovec *spans, unsigned room)
{
	struct vb_iwarp_receiver *receiver = &vb_iwarp_engine(qp)->receiver;
	uint32_t length = receiver->left;
	uint8_t *to;

	vb_lock_assert_held(&qp->lock);
	if (!vb_iwarp_is_alive(qp) || receiver->phase != VB_IWARP_PAYLOAD || receiver->stalled || receiver->left < VB_IWARP_DIRECT ||
	    receiver->tail_at != receiver->tail_end || room < 2 || receiver->op->kind == VB_RDMAP_KIND_TERMINATE)
		return 0;
	to = vb_iwarp_place_at(qp, &length);
	if (!to || length < VB_IWARP_DIRECT) {
		vb_memory_let_go(&receiver->placing);
		return 0;
	}
	receiver->wanted = length;
	spans[0] = (struct iovec){to, length};
	spans[1] = (struct iovec){receiver->tail, sizeof(receiver->tail)};
	return 2;
}

void vb_iwarp_got(struct vb_qp *qp, vb_time now, size_t length)
{
	struct vb_iwarp_receiver *receiver = &vb_iwarp_engine(qp)->receiver;
	uint32_t placed = length < receiver->wanted ? (uint32_t)length : receiver->wanted;

	vb_lock_assert_held(&qp->lock);
	receiver->placed += placed;
	receiver->left -= placed;
	receiver->wanted = 0;
	receiver->tail_at = 0;
	receiver->tail_end = (uint8_t)(length - placed);
	vb_memory_let_go(&receiver->placing);
	feed_tail(qp, now);
	vb_memory_let_go(&receiver->placing);
	vb_iwarp_check_invariants(qp);
}

bool vb_iwarp_is_stalled(const struct vb_qp *qp)
{
	return vb_iwarp_engine_of(qp)->receiver.stalled;
}
