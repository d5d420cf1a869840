/* SPDX-License-Identifier: MIT
 *
 * See pcapng.h. Written in this machine's byte order, read in either; our own blocks only in this one's.
 */
#include "capture/pcapng.h"

#include <stdio.h>
#include <string.h>

#include "capture/buffer.h"
#include "capture/frame.h"

enum {
	SECTION = 0x0a0d0d0a, INTERFACE = 1, ENHANCED_PACKET = 6,
	ORDER_MAGIC = 0x1a2b3c4d, ORDER_MAGIC_SWAPPED = 0x4d3c2b1a,
	OPTION_END = 0, OPTION_COMMENT = 1, OPTION_PACKET_FLAGS = 2, OPTION_APPLICATION = 4,
	OPTION_INTERFACE_NAME = 2, OPTION_RESOLUTION = 9, OPTION_OFFSET = 14,
	NANOSECONDS = 9,
	LONGEST_FRAME = 1 << 17,
};

static const char application[] = "Verbena";
static const char clock_label[] = "clock ";

/* ---- writing ---- */

static void put_32(struct vb_capture_buffer *buffer, uint32_t v)
{
	vb_capture_buffer_add(buffer, &v, sizeof(v));
}

static void put_padded(struct vb_capture_buffer *buffer, const void *bytes, size_t length)
{
	vb_capture_buffer_add(buffer, bytes, length);
	(void)vb_capture_buffer_extend(buffer, -length & 3);
}

static void put_option(struct vb_capture_buffer *buffer, uint16_t code, const void *bytes, size_t length)
{
	uint16_t head[2] = {code, (uint16_t)length};

	vb_capture_buffer_add(buffer, head, sizeof(head));
	put_padded(buffer, bytes, length);
}

static size_t begin_block(struct vb_capture_buffer *buffer, uint32_t type)
{
	size_t start = buffer->used;

	put_32(buffer, type);
	put_32(buffer, 0);
	return start;
}

static void end_block(struct vb_capture_buffer *buffer, size_t start)
{
	uint32_t length = (uint32_t)(buffer->used + 4 - start);

	put_32(buffer, length);
	if (!buffer->failed)
		memcpy(buffer->bytes + start + 4, &length, sizeof(length));
}

void vb_pcapng_interface(struct vb_capture_buffer *buffer, uint16_t link_type)
{
	const char *name = link_type == VB_FRAME_ERF ? "InfiniBand" : link_type == VB_FRAME_ETHERNET ? "RoCEv1" : "verbena";
	const uint16_t link[2] = {link_type, 0};
	const uint8_t resolution = NANOSECONDS;
	size_t start = begin_block(buffer, INTERFACE);

	vb_capture_buffer_add(buffer, link, sizeof(link));
	put_32(buffer, 0);                 /* frames are never cut */
	put_option(buffer, OPTION_INTERFACE_NAME, name, strlen(name));
	put_option(buffer, OPTION_RESOLUTION, &resolution, 1);
	put_32(buffer, OPTION_END);
	end_block(buffer, start);
}

void vb_pcapng_begin(struct vb_capture_buffer *buffer, int64_t clock)
{
	const uint16_t version[2] = {1, 0};
	const int64_t unknown_length = -1;
	char comment[64];
	size_t start = begin_block(buffer, SECTION);
	int length = snprintf(comment, sizeof(comment), "%s%lld", clock_label, (long long)clock);

	put_32(buffer, ORDER_MAGIC);
	vb_capture_buffer_add(buffer, version, sizeof(version));
	vb_capture_buffer_add(buffer, &unknown_length, sizeof(unknown_length));
	put_option(buffer, OPTION_APPLICATION, application, strlen(application));
	put_option(buffer, OPTION_COMMENT, comment, (size_t)length);
	put_32(buffer, OPTION_END);
	end_block(buffer, start);
	vb_pcapng_interface(buffer, VB_FRAME_RAW);
}

void vb_pcapng_record(struct vb_capture_buffer *buffer, const struct vb_capture_record *record)
{
	size_t start = begin_block(buffer, VB_CAPTURE_BLOCK);

	vb_capture_buffer_add(buffer, record, sizeof(*record));
	end_block(buffer, start);
}

void vb_pcapng_packet(struct vb_capture_buffer *buffer, uint32_t interface, int64_t time, uint32_t flags, const uint8_t *headers,
		      size_t header_length, const uint8_t *rest, size_t rest_length, const char *comment)
{
	/* epb_flags: 1 inbound, 2 outbound. What was seen at both ends is shown as sent. */
	uint32_t direction = flags & VB_CAPTURE_SENT ? 2 : 1, length = (uint32_t)(header_length + rest_length);
	size_t start = begin_block(buffer, ENHANCED_PACKET);

	put_32(buffer, interface);
	put_32(buffer, (uint32_t)((uint64_t)time >> 32));
	put_32(buffer, (uint32_t)time);
	put_32(buffer, length);
	put_32(buffer, length);
	vb_capture_buffer_add(buffer, headers, header_length);
	vb_capture_buffer_add(buffer, rest, rest_length);
	(void)vb_capture_buffer_extend(buffer, -(size_t)length & 3);
	if (comment && *comment)
		put_option(buffer, OPTION_COMMENT, comment, strlen(comment));
	put_option(buffer, OPTION_PACKET_FLAGS, &direction, sizeof(direction));
	put_32(buffer, OPTION_END);
	end_block(buffer, start);
}

/* ---- reading ---- */

static uint32_t get_32(const struct vb_pcapng_reader *reader, const uint8_t *at)
{
	uint32_t v;

	memcpy(&v, at, sizeof(v));
	return reader->swapped ? __builtin_bswap32(v) : v;
}

static uint16_t get_16(const struct vb_pcapng_reader *reader, const uint8_t *at)
{
	uint16_t v;

	memcpy(&v, at, sizeof(v));
	return reader->swapped ? __builtin_bswap16(v) : v;
}

/* The next option, or NULL at the end or where it does not fit. */
static const uint8_t *next_option(const struct vb_pcapng_reader *reader, const uint8_t **at, const uint8_t *end,
				  uint16_t *code, uint16_t *length)
{
	const uint8_t *value = *at + 4;
	size_t padded;

	if (end - *at < 4)
		return NULL;
	*code = get_16(reader, *at);
	*length = get_16(reader, *at + 2);
	padded = ((size_t)*length + 3) & ~(size_t)3;
	if (*code == OPTION_END || padded > (size_t)(end - value))
		return NULL;
	*at = value + padded;
	return value;
}

static enum vb_pcapng_item_kind complain(struct vb_pcapng_reader *reader, const char *fault)
{
	reader->fault = fault;
	return VB_PCAPNG_FAULT;
}

static const char *read_interface(struct vb_pcapng_reader *reader, const uint8_t *body, size_t length)
{
	const uint8_t *at = body + 8, *value;
	uint16_t code, size;
	unsigned i = reader->interfaces;

	if (length < 8)
		return "an interface description is too short";
	if (i == VB_PCAPNG_INTERFACES)
		return "it has too many interfaces";
	reader->interface[i].link_type = get_16(reader, body);
	reader->interface[i].resolution = 6;
	reader->interface[i].offset = 0;
	while ((value = next_option(reader, &at, body + length, &code, &size)) != NULL) {
		if (code == OPTION_RESOLUTION && size >= 1)
			reader->interface[i].resolution = value[0];
		if (code == OPTION_OFFSET && size >= 8) {
			uint64_t offset;

			memcpy(&offset, value, sizeof(offset));
			reader->interface[i].offset = (int64_t)(reader->swapped ? __builtin_bswap64(offset) : offset);
		}
	}
	reader->interfaces++;
	return NULL;
}

static int64_t to_nanoseconds(uint64_t units, uint8_t resolution, int64_t offset)
{
	uint64_t result = units;

	if (resolution & 0x80) {
		unsigned bits = resolution & 0x7f, excess = bits > 32 ? bits - 32 : 0;
		uint64_t fraction;

		/* Finer than 2^-32 s is finer than we can tell. */
		units = excess > 63 ? 0 : units >> excess;
		bits -= excess;
		fraction = units & ((UINT64_C(1) << bits) - 1);
		result = (units >> bits) * 1000000000u + (fraction * 1000000000u >> bits);
	} else {
		for (unsigned i = resolution; i < NANOSECONDS; i++)
			result *= 10;
		for (unsigned i = NANOSECONDS; i < resolution; i++)
			result /= 10;
	}
	return (int64_t)(result + (uint64_t)offset * 1000000000u);
}

static const char *read_packet(struct vb_pcapng_reader *reader, const uint8_t *body, size_t length,
			       struct vb_pcapng_item *item)
{
	uint32_t interface, kept, full;
	uint64_t units;

	if (length < 20)
		return "a packet block is too short";
	interface = get_32(reader, body);
	units = (uint64_t)get_32(reader, body + 4) << 32 | get_32(reader, body + 8);
	kept = get_32(reader, body + 12);
	full = get_32(reader, body + 16);
	if (interface >= reader->interfaces)
		return "a packet names an interface that is not described";
	if (kept > length - 20 || kept > LONGEST_FRAME)
		return "a packet is longer than its block";
	item->time = to_nanoseconds(units, reader->interface[interface].resolution, reader->interface[interface].offset);
	item->link_type = reader->interface[interface].link_type;
	item->frame = body + 20;
	item->length = kept;
	item->cut = kept < full;
	return NULL;
}

void vb_pcapng_read(struct vb_pcapng_reader *reader, const uint8_t *bytes, size_t length)
{
	memset(reader, 0, sizeof(*reader));
	reader->bytes = bytes;
	reader->length = length;
}

static const char *begin_section(struct vb_pcapng_reader *reader, const uint8_t *at)
{
	uint32_t magic;

	memcpy(&magic, at + 8, sizeof(magic));
	if (magic != ORDER_MAGIC && magic != ORDER_MAGIC_SWAPPED)
		return reader->at == 0 ? "it is neither a pcapng nor a pcap file" : "a section has no byte order";
	reader->swapped = magic == ORDER_MAGIC_SWAPPED;
	reader->interfaces = 0;
	return NULL;
}

enum vb_pcapng_item_kind vb_pcapng_next(struct vb_pcapng_reader *reader, struct vb_pcapng_item *item)
{
	for (;;) {
		const uint8_t *at = reader->bytes + reader->at, *body = at + 8;
		size_t left = reader->length - reader->at;
		const char *fault = NULL;
		uint32_t type, length;

		if (left == 0)
			return reader->at == 0 ? complain(reader, "it is empty") : VB_PCAPNG_END;
		if (left < 12)
			return complain(reader, reader->at == 0 ? "it is neither a pcapng nor a pcap file" : "it ends within a block");
		memcpy(&type, at, sizeof(type));
		if (reader->at == 0 && type != SECTION)
			return complain(reader, "it is neither a pcapng nor a pcap file");
		if (type == SECTION && left < 28)
			return complain(reader, "it ends within a block");
		if (type == SECTION && (fault = begin_section(reader, at)) != NULL)
			return complain(reader, fault);
		type = get_32(reader, at);
		length = get_32(reader, at + 4);
		if (length < 12 || length % 4 != 0)
			return complain(reader, "a block has an impossible length");
		if (length > left)
			return complain(reader, "it ends within a block");
		if (get_32(reader, at + length - 4) != length)
			return complain(reader, "a block's two lengths differ");
		reader->at += length;
		length -= 12;
		if (type == INTERFACE) {
			fault = read_interface(reader, body, length);
		} else if (type == ENHANCED_PACKET) {
			fault = read_packet(reader, body, length, item);
			if (!fault)
				return VB_PCAPNG_PACKET;
		} else if (type == VB_CAPTURE_BLOCK && !reader->swapped && length == sizeof(item->record)) {
			memcpy(&item->record, body, sizeof(item->record));
			item->record.text[sizeof(item->record.text) - 1] = '\0';
			if (item->record.kind >= 1 && item->record.kind < VB_CAPTURE_KINDS)
				return VB_PCAPNG_RECORD;
		}
		if (fault) {
			reader->at -= length + 12;
			return complain(reader, fault);
		}
	}
}

bool vb_pcapng_is_ours(const uint8_t *bytes, size_t length, int64_t *clock)
{
	struct vb_pcapng_reader reader = {0};
	const uint8_t *at = bytes + 24, *end, *value;
	bool named = false, timed = false;
	uint16_t code, size;
	uint32_t type, total, magic;

	if (length < 28)
		return false;
	memcpy(&type, bytes, 4);
	memcpy(&total, bytes + 4, 4);
	memcpy(&magic, bytes + 8, 4);
	if (type != SECTION || magic != ORDER_MAGIC || total < 28 || total > length)
		return false;
	end = bytes + total - 4;
	while ((value = next_option(&reader, &at, end, &code, &size)) != NULL) {
		char text[64] = "";

		if (size >= sizeof(text))
			continue;
		memcpy(text, value, size);
		if (code == OPTION_APPLICATION && strcmp(text, application) == 0)
			named = true;
		if (code == OPTION_COMMENT && strncmp(text, clock_label, strlen(clock_label)) == 0) {
			*clock = strtoll(text + strlen(clock_label), NULL, 10);
			timed = true;
		}
	}
	return named && timed;
}
