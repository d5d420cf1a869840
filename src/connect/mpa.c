/* SPDX-License-Identifier: MIT
 *
 * See mpa.h.
 */
#include "connect/mpa.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

static uint16_t smaller(uint16_t a, uint16_t b)
{
	return a < b ? a : b;
}

static uint16_t larger(uint16_t a, uint16_t b)
{
	return a > b ? a : b;
}

static void fail(struct vb_mpa *mpa, int error)
{
	mpa->state = VB_MPA_FAILED;
	mpa->error = error;
	mpa->deadline = VB_TIME_NEVER;
	mpa->sent = mpa->to_send = 0;
}

static void send_frame(struct vb_mpa *mpa, struct vb_mpa_frame *frame, const void *private_data, size_t length)
{
	assert(length <= VB_MPA_MAX_PRIVATE);
	frame->private_length = (uint16_t)length;
	if (length > 0)
		memcpy(frame->private_data, private_data, length);
	mpa->to_send = vb_mpa_frame_encode(frame, mpa->out);
	mpa->sent = 0;
}

/* ---- initiator ---- */

void vb_mpa_request(struct vb_mpa *mpa, const struct vb_mpa_wishes *wishes, const void *private_data, size_t length, vb_time now)
{
	struct vb_mpa_frame frame = {
		.kind = VB_MPA_REQUEST,
		.revision = VB_MPA_MAX_REVISION,
		.crc = wishes->crc,
		.enhanced = true,
		.large = wishes->large,
		.peer_to_peer = wishes->peer_to_peer,
		.rtr_write = wishes->peer_to_peer,
		.rtr_read = wishes->peer_to_peer,
		.ird = wishes->ird,
		.ord = wishes->ord,
	};

	memset(mpa, 0, sizeof(*mpa));
	mpa->state = VB_MPA_REQUESTING;
	mpa->initiator = true;
	mpa->wishes = *wishes;
	mpa->deadline = now + VB_MPA_REPLY_PATIENCE;
	send_frame(mpa, &frame, private_data, length);
}

/* Of what we offered; the reply names one (RFC 6581 9.2). NONE: it does not, or one that we did not offer. */
static enum vb_mpa_rtr rtr_of_reply(const struct vb_mpa_frame *reply)
{
	return reply->rtr_write ? VB_MPA_RTR_WRITE : reply->rtr_read ? VB_MPA_RTR_READ : VB_MPA_RTR_NONE;
}

static void take_reply(struct vb_mpa *mpa)
{
	const struct vb_mpa_frame *reply = &mpa->peer;
	const struct vb_mpa_wishes *wishes = &mpa->wishes;
	struct vb_mpa_terms terms = {
		.initiator = true,
		.crc = wishes->crc || reply->crc,
		.large = wishes->large && reply->large,
		.half_close = reply->half_close,
		.rtr = VB_MPA_RTR_WRITE,
		.ird = wishes->ird,
		.ord = wishes->ord,
	};

	if (reply->reject) {
		mpa->state = VB_MPA_REJECTED;
		return;
	}
	/* We never ask for markers, and a peer that wants them has to say so in a request. */
	if (reply->markers) {
		fail(mpa, -EPROTO);
		return;
	}
	if (reply->enhanced) {
		if (reply->ird != VB_MPA_DEPTH_UNKNOWN)
			terms.ord = smaller(wishes->ord, reply->ird);
		/* RFC 6581 9.1: it may ask for more than we said, if we can grant it. */
		if (reply->ord != VB_MPA_DEPTH_UNKNOWN)
			terms.ird = larger(wishes->ird, reply->ord);
		if (terms.ird > VB_MPA_MAX_DEPTH) {
			fail(mpa, -EPROTO);
			return;
		}
	}
	if (wishes->peer_to_peer && reply->enhanced && reply->peer_to_peer) {
		terms.peer_to_peer = true;
		terms.rtr = rtr_of_reply(reply);
		if (terms.rtr == VB_MPA_RTR_NONE) {
			fail(mpa, -EPROTO);
			return;
		}
	}
	mpa->terms = terms;
	mpa->state = VB_MPA_AGREED;
}

/* ---- responder ---- */

void vb_mpa_listen(struct vb_mpa *mpa, vb_time now)
{
	memset(mpa, 0, sizeof(*mpa));
	mpa->state = VB_MPA_LISTENING;
	mpa->deadline = now + VB_MPA_REQUEST_PATIENCE;
}

/* A peer that asks for markers has to do without us (RFC 5044 7.1.1: a reply with R, which the consumer knows nothing of). */
static void take_request(struct vb_mpa *mpa)
{
	mpa->state = VB_MPA_ASKED;
	if (mpa->peer.markers)
		vb_mpa_reject(mpa, NULL, 0);
}

static struct vb_mpa_frame begin_reply(const struct vb_mpa *mpa)
{
	return (struct vb_mpa_frame){
		.kind = VB_MPA_REPLY,
		.revision = mpa->peer.revision,
		.enhanced = mpa->peer.enhanced,
	};
}

/* RFC 6581 9.1: what the other does not negotiate, we do not. */
static void agree_on_depths(const struct vb_mpa_frame *request, struct vb_mpa_terms *terms, struct vb_mpa_frame *reply)
{
	if (request->ord != VB_MPA_DEPTH_UNKNOWN)
		terms->ird = smaller(larger(terms->ird, request->ord), VB_MPA_MAX_DEPTH);
	if (request->ird != VB_MPA_DEPTH_UNKNOWN)
		terms->ord = smaller(terms->ord, request->ird);
	reply->ird = request->ord != VB_MPA_DEPTH_UNKNOWN ? terms->ird : VB_MPA_DEPTH_UNKNOWN;
	reply->ord = request->ird != VB_MPA_DEPTH_UNKNOWN ? terms->ord : VB_MPA_DEPTH_UNKNOWN;
}

static void agree_on_rtr(const struct vb_mpa_frame *request, struct vb_mpa_terms *terms, struct vb_mpa_frame *reply)
{
	terms->peer_to_peer = reply->peer_to_peer = request->peer_to_peer;
	if (!request->peer_to_peer)
		return;
	terms->rtr = request->rtr_write ? VB_MPA_RTR_WRITE : request->rtr_read ? VB_MPA_RTR_READ :
		     request->rtr_send ? VB_MPA_RTR_SEND : VB_MPA_RTR_NONE;
	reply->rtr_write = terms->rtr == VB_MPA_RTR_WRITE;
	reply->rtr_read = terms->rtr == VB_MPA_RTR_READ;
	reply->rtr_send = terms->rtr == VB_MPA_RTR_SEND;
}

void vb_mpa_accept(struct vb_mpa *mpa, const struct vb_mpa_wishes *wishes, const void *private_data, size_t length)
{
	const struct vb_mpa_frame *request = &mpa->peer;
	struct vb_mpa_frame reply = begin_reply(mpa);
	struct vb_mpa_terms terms = {
		.crc = wishes->crc || request->crc,
		.large = wishes->large && request->large,
		.half_close = request->large,
		.ird = wishes->ird,
		.ord = wishes->ord,
	};

	assert(mpa->state == VB_MPA_ASKED);
	if (request->enhanced) {
		agree_on_depths(request, &terms, &reply);
		agree_on_rtr(request, &terms, &reply);
	}
	reply.crc = terms.crc;
	reply.large = terms.large;
	reply.half_close = terms.half_close;
	mpa->wishes = *wishes;
	mpa->terms = terms;
	mpa->state = VB_MPA_AGREED;
	send_frame(mpa, &reply, private_data, length);
}

void vb_mpa_reject(struct vb_mpa *mpa, const void *private_data, size_t length)
{
	struct vb_mpa_frame reply = begin_reply(mpa);

	assert(mpa->state == VB_MPA_ASKED);
	reply.reject = true;
	reply.crc = mpa->peer.crc;
	mpa->state = VB_MPA_REJECTED;
	send_frame(mpa, &reply, private_data, length);
}

/* ---- both ---- */

static bool is_reading(const struct vb_mpa *mpa)
{
	return mpa->state == VB_MPA_LISTENING || mpa->state == VB_MPA_REQUESTING;
}

static enum vb_mpa_kind expected(const struct vb_mpa *mpa)
{
	return mpa->initiator ? VB_MPA_REPLY : VB_MPA_REQUEST;
}

size_t vb_mpa_wants(const struct vb_mpa *mpa)
{
	if (!is_reading(mpa))
		return 0;
	return vb_mpa_frame_length(expected(mpa), mpa->in, mpa->received) - mpa->received;
}

void vb_mpa_take(struct vb_mpa *mpa, const uint8_t *bytes, size_t length)
{
	size_t whole;

	assert(length <= vb_mpa_wants(mpa));
	memcpy(mpa->in + mpa->received, bytes, length);
	mpa->received += length;
	whole = vb_mpa_frame_length(expected(mpa), mpa->in, mpa->received);
	if (whole == 0) {
		fail(mpa, -EPROTO);
		return;
	}
	if (mpa->received < VB_MPA_HEADER || mpa->received < whole)
		return;
	if (!vb_mpa_frame_decode(&mpa->peer, expected(mpa), mpa->in, mpa->received)) {
		fail(mpa, -EPROTO);
		return;
	}
	mpa->deadline = VB_TIME_NEVER;
	if (mpa->initiator)
		take_reply(mpa);
	else
		take_request(mpa);
}

void vb_mpa_closed(struct vb_mpa *mpa, int error)
{
	if (is_reading(mpa) || mpa->state == VB_MPA_ASKED || mpa->sent < mpa->to_send)
		fail(mpa, error != 0 ? error : -ECONNRESET);
}

const uint8_t *vb_mpa_output(const struct vb_mpa *mpa, size_t *length)
{
	*length = mpa->to_send - mpa->sent;
	return *length > 0 ? mpa->out + mpa->sent : NULL;
}

void vb_mpa_sent(struct vb_mpa *mpa, size_t length)
{
	assert(length <= mpa->to_send - mpa->sent);
	mpa->sent += length;
}

void vb_mpa_expire(struct vb_mpa *mpa, vb_time now)
{
	if (now >= mpa->deadline)
		fail(mpa, -ETIMEDOUT);
}
