/* SPDX-License-Identifier: MIT
 *
 * Encoding and decoding of what stream_wire.h describes. A peer's hello is not to be believed: only what we can work
 * with passes.
 */
#include "rdmacm/rsocket/stream_wire.h"

#include <errno.h>
#include <string.h>

enum { FLAG_BIG_ENDIAN = 1, FLAG_IOMAPS = 2 };

enum { SCALE_PLAIN = 0x80 };             /* up to here a scaled number is the number itself */

uint8_t vb_rstream_scale_encode(uint32_t value)
{
	if (value <= SCALE_PLAIN)
		return (uint8_t)value;
	value >>= 8;
	return (uint8_t)(SCALE_PLAIN | (value < SCALE_PLAIN ? value : SCALE_PLAIN - 1));
}

uint32_t vb_rstream_scale_decode(uint8_t scaled)
{
	return scaled <= SCALE_PLAIN ? scaled : (uint32_t)(scaled - SCALE_PLAIN) << 8;
}

struct vb_rstream_span vb_rstream_span_swap(struct vb_rstream_span span)
{
	return (struct vb_rstream_span){
		.address = __builtin_bswap64(span.address),
		.key = __builtin_bswap32(span.key),
		.length = __builtin_bswap32(span.length),
	};
}

struct vb_rstream_iomap vb_rstream_iomap_swap(struct vb_rstream_iomap iomap)
{
	return (struct vb_rstream_iomap){
		.offset = __builtin_bswap64(iomap.offset),
		.span = vb_rstream_span_swap(iomap.span),
	};
}

void vb_rstream_hello_encode(struct vb_rstream_hello_bytes *bytes, const struct vb_rstream_hello *hello)
{
	*bytes = (struct vb_rstream_hello_bytes){
		.version = VB_RSTREAM_VERSION,
		.flags = (uint8_t)(FLAG_IOMAPS | (hello->big_endian ? FLAG_BIG_ENDIAN : 0)),
		.credits = be16_of(hello->credits),
		.iomaps = vb_rstream_scale_encode(hello->iomaps),
		.target_address = be64_of(hello->targets.address),
		.target_key = be32_of(hello->targets.key),
		.target_entries = be32_of(hello->targets.length),
		.data_address = be64_of(hello->data.address),
		.data_key = be32_of(hello->data.key),
		.data_length = be32_of(hello->data.length),
	};
}

int vb_rstream_hello_decode(struct vb_rstream_hello *hello, const void *bytes, unsigned length)
{
	struct vb_rstream_hello_bytes raw;

	if (bytes == NULL || length < sizeof(raw))
		return -EPROTO;
	memcpy(&raw, bytes, sizeof(raw));
	if (raw.version != VB_RSTREAM_VERSION)
		return -EPROTO;
	*hello = (struct vb_rstream_hello){
		.credits = be16_get(raw.credits),
		.iomaps = raw.flags & FLAG_IOMAPS ? vb_rstream_scale_decode(raw.iomaps) : 0,
		.big_endian = (raw.flags & FLAG_BIG_ENDIAN) != 0,
		.targets = {
			.address = be64_get(raw.target_address),
			.key = be32_get(raw.target_key),
			.length = be32_get(raw.target_entries),
		},
		.data = {
			.address = be64_get(raw.data_address),
			.key = be32_get(raw.data_key),
			.length = be32_get(raw.data_length),
		},
	};
	return hello->targets.length == 0 ? -EPROTO : 0;
}
