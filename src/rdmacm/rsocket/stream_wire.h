/* SPDX-License-Identifier: MIT
 *
 * What stream rsockets say to each other. Interoperates with rdma-core's.
 *
 * When connecting, each side says hello in the CM's private data: how many messages it takes before it grants more,
 * where one half of its receive buffer lies, and where its target list lies, in which the peer announces further free
 * halves of its own.
 *
 *    byte  0        1        2        3        4 .. 6    7
 *         +--------+--------+--------+--------+---------+----------+
 *         | version| flags  |     credits     | zero    | iomaps   |   iomaps: scaled to eight bits
 *       8 +--------+--------+--------+--------+---------+----------+
 *         | target list: address (8), key (4), entries (4)         |   all big-endian
 *      24 +--------------------------------------------------------+
 *         | data buffer: address (8), key (4), length (4)          |
 *      40 +--------------------------------------------------------+
 *
 * Then everything is an RDMA WRITE with immediate data; where there is no such thing, an RDMA WRITE and a SEND of these 32 bits
 * (stream_message.c):
 *
 *    bit 31..29  what it is     28..0
 *         0      data           length of the bytes just written to the data buffer
 *         4      grant          messages the peer may have sent in all (16 bits); with 16 bytes in its target list
 *                               when a half of the receive buffer became free, with none when only messages did
 *         6      iomap          index of the entry just written to the iomap list, which follows the target list
 *         7      control        0 disconnect, 1 keep-alive, 2 no more data follows
 *
 * Entries of both lists are in the byte order of the side that reads them; a flag of the hello tells which that is.
 */
#ifndef VB_RDMACM_RSOCKET_STREAM_WIRE_H
#define VB_RDMACM_RSOCKET_STREAM_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

enum vb_rstream_message {
	VB_RSTREAM_DATA = 0,
	VB_RSTREAM_GRANT = 4,
	VB_RSTREAM_IOMAP = 6,
	VB_RSTREAM_CONTROL = 7,
};

enum vb_rstream_control {
	VB_RSTREAM_DISCONNECT = 0,
	VB_RSTREAM_KEEP_ALIVE = 1,
	VB_RSTREAM_SHUT_DOWN = 2,
};

enum {
	VB_RSTREAM_VERSION = 1,
	VB_RSTREAM_TARGETS = 2,          /* entries of our target list */
	VB_RSTREAM_VALUE_BITS = 29,
};

static inline uint32_t vb_rstream_message_encode(enum vb_rstream_message message, uint32_t value)
{
	return (uint32_t)message << VB_RSTREAM_VALUE_BITS | (value & ((1U << VB_RSTREAM_VALUE_BITS) - 1));
}

static inline unsigned vb_rstream_message_kind(uint32_t immediate)
{
	return immediate >> VB_RSTREAM_VALUE_BITS;
}

static inline uint32_t vb_rstream_message_value(uint32_t immediate)
{
	return immediate & ((1U << VB_RSTREAM_VALUE_BITS) - 1);
}

/* A piece of memory of the side that announced it. */
struct vb_rstream_span {
	uint64_t address;
	uint32_t key, length;
};
_Static_assert(sizeof(struct vb_rstream_span) == 16, "entry of a target list");

/* A span the peer may write to with riowrite, under the offsets from `offset` on. */
struct vb_rstream_iomap {
	uint64_t offset;
	struct vb_rstream_span span;
};
_Static_assert(sizeof(struct vb_rstream_iomap) == 24, "entry of an iomap list");

/* To or from the byte order of a foreign peer. */
struct vb_rstream_span vb_rstream_span_swap(struct vb_rstream_span span);
struct vb_rstream_iomap vb_rstream_iomap_swap(struct vb_rstream_iomap iomap);

struct vb_rstream_hello_bytes {
	uint8_t version, flags;
	struct be16 credits;
	uint8_t reserved[3];
	uint8_t iomaps;
	struct be64 target_address;
	struct be32 target_key, target_entries;
	struct be64 data_address;
	struct be32 data_key, data_length;
};
_Static_assert(sizeof(struct vb_rstream_hello_bytes) == 40, "private data of a stream rsocket");

/* Behind the hello, from those who make an rsocket of a TCP connection (preload/sockets): a number that the other side
 * shows in that connection. All zero, as the CM pads: this rsocket is none of those. */
enum { VB_RSTREAM_TOKEN = 16 };

struct vb_rstream_greeting_bytes {
	struct vb_rstream_hello_bytes hello;
	uint8_t token[VB_RSTREAM_TOKEN];
};
/* A REQ has no more: 92 bytes less the 36 of the IP addressing annex. */
_Static_assert(sizeof(struct vb_rstream_greeting_bytes) == 56, "private data with a token");

struct vb_rstream_hello {
	uint16_t credits;
	uint32_t iomaps;
	bool big_endian;
	struct vb_rstream_span targets;  /* length: entries */
	struct vb_rstream_span data;
};

void vb_rstream_hello_encode(struct vb_rstream_hello_bytes *bytes, const struct vb_rstream_hello *hello);
/* 0, or -EPROTO: too short, another version, or sizes that cannot be worked with. */
int vb_rstream_hello_decode(struct vb_rstream_hello *hello, const void *bytes, unsigned length);

/* Small numbers as they are, larger ones in units of 256, rounded down. */
uint8_t vb_rstream_scale_encode(uint32_t value);
uint32_t vb_rstream_scale_decode(uint8_t scaled);

static inline bool vb_rstream_host_is_big_endian(void)
{
	return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
}

#endif
