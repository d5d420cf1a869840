/* SPDX-License-Identifier: MIT */
#include "fabric/rmpp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct vb_rmpp *rmpp_of(struct vb_mad *mad)
{
	return (struct vb_rmpp *)(void *)mad;
}

/* ---- sending ---- */

int vb_rmpp_sender_init(struct vb_rmpp_sender *sender, const void *message, size_t length, vb_time now, vb_time timeout, unsigned retries)
{
	uint8_t mgmt_class = length > 1 ? ((const uint8_t *)message)[1] : 0;
	size_t offset = vb_mad_data_offset(mgmt_class), step = VB_MAD_LENGTH - offset;

	if (offset < VB_RMPP_DATA || length < offset)
		return -EINVAL;
	if (length > VB_RMPP_MAX_MESSAGE)
		return -EMSGSIZE;
	*sender = (struct vb_rmpp_sender){
		.message = malloc(length),
		.length = length,
		.offset = offset,
		.segments = length == offset ? 1 : (uint32_t)((length - offset + step - 1) / step),
		.window_last = 1,
		.timeout = timeout,
		.deadline = now + timeout,
		.retries = retries,
		.retries_left = retries,
	};
	if (!sender->message)
		return -ENOMEM;
	memcpy(sender->message, message, length);
	return 0;
}

void vb_rmpp_sender_fini(struct vb_rmpp_sender *sender)
{
	free(sender->message);
	sender->message = NULL;
}

bool vb_rmpp_sender_next(struct vb_rmpp_sender *sender, struct vb_mad *out)
{
	struct vb_rmpp *rmpp = rmpp_of(out);
	size_t step = VB_MAD_LENGTH - sender->offset, before = sender->offset - VB_RMPP_DATA, at, count;
	uint32_t segment = sender->sent + 1;
	uint8_t flags = VB_RMPP_ACTIVE;
	size_t payload = 0;

	if (segment > sender->segments || segment > sender->window_last)
		return false;
	at = sender->offset + (size_t)(segment - 1) * step;
	count = sender->length - at < step ? sender->length - at : step;
	memset(out, 0, sizeof(*out));
	memcpy(out, sender->message, sender->offset);
	memcpy((uint8_t *)out + sender->offset, sender->message + at, count);
	/* IBA 13.6.2.1: the first tells the length of all, the last its own. */
	if (segment == 1) {
		flags |= VB_RMPP_FIRST;
		payload = sender->length - sender->offset + before * sender->segments;
	}
	if (segment == sender->segments) {
		flags |= VB_RMPP_LAST;
		payload = before + count;
	}
	rmpp->version = VB_RMPP_VERSION;
	rmpp->type = VB_RMPP_DATA_SEGMENT;
	rmpp->time_flags = (uint8_t)(VB_RMPP_NO_RESPONSE_TIME | flags);
	rmpp->status = VB_RMPP_OK;
	rmpp->segment = be32_of(segment);
	rmpp->length_or_window = be32_of((uint32_t)payload);
	sender->sent = segment;
	return true;
}

enum vb_rmpp_result vb_rmpp_sender_receive(struct vb_rmpp_sender *sender, vb_time now, const struct vb_mad *mad)
{
	const struct vb_rmpp *rmpp = (const struct vb_rmpp *)(const void *)mad;
	uint32_t segment = be32_get(rmpp->segment), window = be32_get(rmpp->length_or_window);

	if (rmpp->type == VB_RMPP_STOP || rmpp->type == VB_RMPP_ABORT)
		return VB_RMPP_FAILED;
	/* An ACK of what was never sent, or with a window that is behind its own segment, is of another message or of none. */
	if (rmpp->type != VB_RMPP_ACK || rmpp->version != VB_RMPP_VERSION || segment > sender->sent || window < segment)
		return VB_RMPP_GOES_ON;
	if (segment < sender->acked || window < sender->window_last)
		return VB_RMPP_GOES_ON;
	if (segment > sender->acked)
		sender->retries_left = sender->retries;
	sender->acked = segment;
	sender->window_last = window;
	sender->deadline = now + sender->timeout;
	return sender->acked == sender->segments ? VB_RMPP_DONE : VB_RMPP_GOES_ON;
}

enum vb_rmpp_result vb_rmpp_sender_expire(struct vb_rmpp_sender *sender, vb_time now)
{
	if (now < sender->deadline)
		return VB_RMPP_GOES_ON;
	if (sender->retries_left == 0)
		return VB_RMPP_FAILED;
	sender->retries_left--;
	sender->sent = sender->acked;
	sender->deadline = now + sender->timeout;
	return VB_RMPP_GOES_ON;
}

/* ---- receiving ---- */

void vb_rmpp_receiver_init(struct vb_rmpp_receiver *receiver, uint8_t mgmt_class)
{
	*receiver = (struct vb_rmpp_receiver){.offset = vb_mad_data_offset(mgmt_class)};
}

void vb_rmpp_receiver_fini(struct vb_rmpp_receiver *receiver)
{
	free(receiver->message);
	receiver->message = NULL;
}

/* The header of the segment, turned round: an ACK travels from responder to requester or back, so the response bit changes. */
static void make_reply(struct vb_mad *reply, const struct vb_mad *mad, enum vb_rmpp_type type, uint8_t status)
{
	struct vb_rmpp *rmpp = rmpp_of(reply);

	memset(reply, 0, sizeof(*reply));
	memcpy(reply, mad, vb_mad_data_offset(mad->mgmt_class));
	reply->method ^= VB_MAD_RESPONSE;
	rmpp->version = VB_RMPP_VERSION;
	rmpp->type = (uint8_t)type;
	rmpp->time_flags = VB_RMPP_NO_RESPONSE_TIME | VB_RMPP_ACTIVE;
	rmpp->status = status;
}

static void acknowledge(const struct vb_rmpp_receiver *receiver, const struct vb_mad *mad, struct vb_mad *reply)
{
	make_reply(reply, mad, VB_RMPP_ACK, VB_RMPP_OK);
	rmpp_of(reply)->segment = be32_of(receiver->received);
	rmpp_of(reply)->length_or_window = be32_of(receiver->window_last);
}

void vb_rmpp_turn_round(const struct vb_mad *last, struct vb_mad *out)
{
	make_reply(out, last, VB_RMPP_ACK, VB_RMPP_OK);
	rmpp_of(out)->segment = be32_of(0);
	rmpp_of(out)->length_or_window = be32_of(1);
}

/* What is wrong with a segment, or VB_RMPP_OK. */
static uint8_t find_fault(const struct vb_rmpp_receiver *receiver, const struct vb_rmpp *rmpp)
{
	uint32_t segment = be32_get(rmpp->segment), payload = be32_get(rmpp->length_or_window);
	size_t before = receiver->offset - VB_RMPP_DATA;

	if (rmpp->version != VB_RMPP_VERSION)
		return VB_RMPP_BAD_VERSION;
	if (rmpp->type != VB_RMPP_DATA_SEGMENT)
		return VB_RMPP_BAD_TYPE;
	if (rmpp->status != VB_RMPP_OK)
		return VB_RMPP_BAD_STATUS;
	if (segment == 0 || (segment == 1) != ((rmpp->time_flags & VB_RMPP_FIRST) != 0))
		return VB_RMPP_INCONSISTENT_FIRST;
	if ((rmpp->time_flags & VB_RMPP_LAST) != 0 && (payload > VB_RMPP_DATA_LENGTH || payload < before))
		return VB_RMPP_INCONSISTENT_LAST;
	/* The length of all: it may be unknown (0), else it cannot be that of one segment where more follow. */
	if (segment == 1 && !(rmpp->time_flags & VB_RMPP_LAST) && payload != 0 && payload <= VB_RMPP_DATA_LENGTH)
		return VB_RMPP_INCONSISTENT_LAST;
	if (segment == 1 && payload > VB_RMPP_MAX_MESSAGE)
		return VB_RMPP_RESOURCES;
	return VB_RMPP_OK;
}

/* Memory grows with what has come, not with what a first segment promises. */
static bool append(struct vb_rmpp_receiver *receiver, const void *bytes, size_t count)
{
	if (receiver->length + count > VB_RMPP_MAX_MESSAGE)
		return false;
	if (receiver->length + count > receiver->room) {
		size_t room = receiver->room ? 2 * receiver->room : 4096;
		uint8_t *message = realloc(receiver->message, room);

		if (!message)
			return false;
		receiver->message = message;
		receiver->room = room;
	}
	memcpy(receiver->message + receiver->length, bytes, count);
	receiver->length += count;
	return true;
}

static enum vb_rmpp_result abort_it(const struct vb_mad *mad, struct vb_mad *reply, bool *has_reply, uint8_t status)
{
	make_reply(reply, mad, VB_RMPP_ABORT, status);
	*has_reply = true;
	return VB_RMPP_FAILED;
}

enum vb_rmpp_result vb_rmpp_receiver_receive(struct vb_rmpp_receiver *receiver, const struct vb_mad *mad, struct vb_mad *reply,
					     bool *has_reply)
{
	const struct vb_rmpp *rmpp = (const struct vb_rmpp *)(const void *)mad;
	const uint8_t *bytes = (const uint8_t *)mad;
	uint32_t segment = be32_get(rmpp->segment), payload = be32_get(rmpp->length_or_window);
	bool last = (rmpp->time_flags & VB_RMPP_LAST) != 0;
	size_t count = last ? payload - (receiver->offset - VB_RMPP_DATA) : VB_MAD_LENGTH - receiver->offset;
	uint8_t fault = find_fault(receiver, rmpp);

	*has_reply = false;
	if (fault != VB_RMPP_OK)
		return abort_it(mad, reply, has_reply, fault);
	/* Go-back-N: what comes out of order is not kept. The sender is told how far we are. */
	if (receiver->complete || segment != receiver->received + 1) {
		if (receiver->received == 0)
			return VB_RMPP_GOES_ON;
		acknowledge(receiver, mad, reply);
		*has_reply = true;
		return receiver->complete ? VB_RMPP_DONE : VB_RMPP_GOES_ON;
	}
	if ((segment == 1 && !append(receiver, bytes, receiver->offset)) || !append(receiver, bytes + receiver->offset, count))
		return abort_it(mad, reply, has_reply, VB_RMPP_RESOURCES);
	receiver->received = segment;
	receiver->complete = last;
	if (segment == 1 || segment == receiver->window_last || last) {
		if (!last)
			receiver->window_last = segment + VB_RMPP_WINDOW;
		else if (receiver->window_last < segment)
			receiver->window_last = segment;
		acknowledge(receiver, mad, reply);
		*has_reply = true;
	}
	return last ? VB_RMPP_DONE : VB_RMPP_GOES_ON;
}
