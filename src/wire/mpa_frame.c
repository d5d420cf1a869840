/* SPDX-License-Identifier: MIT
 *
 * See mpa_frame.h.
 */
#include "wire/mpa_frame.h"

#include <assert.h>
#include <string.h>

#include "base/bytes.h"

enum {
	KEY = 16,
	MARKERS = 0x80,
	CRC = 0x40,
	REJECT = 0x20,
	ENHANCED = 0x10,
	LARGE = 0x08,
	HALF_CLOSE = 0x04,
	PEER_TO_PEER = 0x8000,           /* in the word of the IRD */
	RTR_SEND = 0x4000,
	RTR_WRITE = 0x8000,              /* in that of the ORD */
	RTR_READ = 0x4000,
	DEPTH = 0x3fff,
};

static const char keys[][KEY + 1] = {[VB_MPA_REQUEST] = "MPA ID Req Frame", [VB_MPA_REPLY] = "MPA ID Rep Frame"};

static uint16_t get16(const uint8_t *bytes)
{
	return be16_get((struct be16){{bytes[0], bytes[1]}});
}

static void put16(uint8_t *bytes, unsigned value)
{
	struct be16 v = be16_of((uint16_t)value);

	memcpy(bytes, v.b, sizeof(v.b));
}

size_t vb_mpa_frame_length(enum vb_mpa_kind kind, const uint8_t *bytes, size_t there)
{
	size_t data;

	if (memcmp(bytes, keys[kind], there < KEY ? there : KEY) != 0)
		return 0;
	if (there < VB_MPA_HEADER)
		return VB_MPA_HEADER;
	data = get16(bytes + 18);
	if (data > VB_MPA_MAX_DATA || (bytes[16] & ENHANCED && data < VB_MPA_ENHANCEMENT))
		return 0;
	return VB_MPA_HEADER + data;
}

bool vb_mpa_frame_decode(struct vb_mpa_frame *frame, enum vb_mpa_kind kind, const uint8_t *bytes, size_t length)
{
	uint8_t flags;

	if (length < VB_MPA_HEADER || vb_mpa_frame_length(kind, bytes, length) != length)
		return false;
	flags = bytes[16];
	/* What is reserved is not looked at (RFC 5044 7.1.1). Enhanced frames came with revision 2. */
	if (bytes[17] == 0 || bytes[17] > VB_MPA_MAX_REVISION || (flags & ENHANCED && bytes[17] < 2))
		return false;
	*frame = (struct vb_mpa_frame){
		.kind = kind,
		.revision = bytes[17],
		.markers = flags & MARKERS,
		.crc = flags & CRC,
		.reject = kind == VB_MPA_REPLY && flags & REJECT,
		.enhanced = flags & ENHANCED,
		.large = flags & LARGE,
		.half_close = flags & HALF_CLOSE,
	};
	bytes += VB_MPA_HEADER;
	length -= VB_MPA_HEADER;
	if (frame->enhanced) {
		uint16_t ird = get16(bytes), ord = get16(bytes + 2);

		frame->peer_to_peer = ird & PEER_TO_PEER;
		frame->rtr_send = ird & RTR_SEND;
		frame->rtr_write = ord & RTR_WRITE;
		frame->rtr_read = ord & RTR_READ;
		frame->ird = ird & DEPTH;
		frame->ord = ord & DEPTH;
		bytes += VB_MPA_ENHANCEMENT;
		length -= VB_MPA_ENHANCEMENT;
	}
	frame->private_length = (uint16_t)length;
	memcpy(frame->private_data, bytes, length);
	return true;
}

size_t vb_mpa_frame_encode(const struct vb_mpa_frame *frame, uint8_t bytes[VB_MPA_MAX_FRAME])
{
	size_t data = frame->private_length + (frame->enhanced ? VB_MPA_ENHANCEMENT : 0u);
	uint8_t *at = bytes + VB_MPA_HEADER;

	assert(data <= VB_MPA_MAX_DATA);
	memcpy(bytes, keys[frame->kind], KEY);
	bytes[16] = (uint8_t)((frame->markers ? MARKERS : 0) | (frame->crc ? CRC : 0) | (frame->reject ? REJECT : 0) |
			      (frame->enhanced ? ENHANCED : 0) | (frame->large ? LARGE : 0) |
			      (frame->half_close ? HALF_CLOSE : 0));
	bytes[17] = frame->revision;
	put16(bytes + 18, (unsigned)data);
	if (frame->enhanced) {
		put16(at, (frame->peer_to_peer ? PEER_TO_PEER : 0u) | (frame->rtr_send ? RTR_SEND : 0u) | (frame->ird & DEPTH));
		put16(at + 2, (frame->rtr_write ? RTR_WRITE : 0u) | (frame->rtr_read ? RTR_READ : 0u) | (frame->ord & DEPTH));
		at += VB_MPA_ENHANCEMENT;
	}
	memcpy(at, frame->private_data, frame->private_length);
	return VB_MPA_HEADER + data;
}
