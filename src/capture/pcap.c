/* SPDX-License-Identifier: MIT
 *
 * See pcap.h. Either byte order; microseconds or nanoseconds, as the magic number says.
 */
#include "capture/pcap.h"

#include <string.h>

enum { FILE_HEADER = 24, FRAME_HEADER = 16, LONGEST_FRAME = 1 << 18 };
enum { LINK_TYPE_AT = 20, LINK_TYPE_MASK = 0x0fffffff }; /* above it: whether frames end with a check sequence */

#define MICROSECONDS_MAGIC 0xa1b2c3d4u
#define NANOSECONDS_MAGIC 0xa1b23c4du

static uint32_t get_32(const struct vb_pcap_reader *reader, const uint8_t *at)
{
	uint32_t v;

	memcpy(&v, at, sizeof(v));
	return reader->swapped ? __builtin_bswap32(v) : v;
}

static bool is_magic(uint32_t v)
{
	return v == MICROSECONDS_MAGIC || v == NANOSECONDS_MAGIC;
}

bool vb_pcap_is_one(const uint8_t *bytes, size_t length)
{
	uint32_t magic;

	if (length < sizeof(magic))
		return false;
	memcpy(&magic, bytes, sizeof(magic));
	return is_magic(magic) || is_magic(__builtin_bswap32(magic));
}

void vb_pcap_read(struct vb_pcap_reader *reader, const uint8_t *bytes, size_t length)
{
	memset(reader, 0, sizeof(*reader));
	reader->bytes = bytes;
	reader->length = length;
}

static enum vb_pcapng_item_kind complain(struct vb_pcap_reader *reader, const char *fault)
{
	reader->fault = fault;
	return VB_PCAPNG_FAULT;
}

static const char *read_file_header(struct vb_pcap_reader *reader)
{
	if (!vb_pcap_is_one(reader->bytes, reader->length))
		return "it is no pcap file";
	if (reader->length < FILE_HEADER)
		return "it ends within its first header";
	reader->swapped = !is_magic(get_32(reader, reader->bytes));
	reader->nanoseconds = get_32(reader, reader->bytes) == NANOSECONDS_MAGIC;
	reader->link_type = get_32(reader, reader->bytes + LINK_TYPE_AT) & LINK_TYPE_MASK;
	reader->at = FILE_HEADER;
	return NULL;
}

enum vb_pcapng_item_kind vb_pcap_next(struct vb_pcap_reader *reader, struct vb_pcapng_item *item)
{
	const char *fault = reader->at == 0 ? read_file_header(reader) : NULL;
	const uint8_t *at = reader->bytes + reader->at;
	size_t left = reader->length - reader->at;
	uint32_t kept, full, fraction;

	if (fault)
		return complain(reader, fault);
	if (left == 0)
		return VB_PCAPNG_END;
	if (left < FRAME_HEADER)
		return complain(reader, "it ends within a packet");
	fraction = get_32(reader, at + 4);
	kept = get_32(reader, at + 8);
	full = get_32(reader, at + 12);
	if (kept > LONGEST_FRAME)
		return complain(reader, "a packet has an impossible length");
	if (kept > left - FRAME_HEADER)
		return complain(reader, "it ends within a packet");
	/* Neither overflows: both numbers have 32 bits. */
	item->time = (int64_t)get_32(reader, at) * 1000000000 + (int64_t)fraction * (reader->nanoseconds ? 1 : 1000);
	item->link_type = reader->link_type;
	item->frame = at + FRAME_HEADER;
	item->length = kept;
	item->cut = kept < full;
	reader->at += FRAME_HEADER + kept;
	return VB_PCAPNG_PACKET;
}
