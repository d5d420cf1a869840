/* SPDX-License-Identifier: MIT
 *
 * The rsocket protocol, as rdma-core speaks it (its docs/rsocket).
 *
 * Each side has a receive buffer in two halves and a table of two "targets" that the peer keeps up to date: which
 * part of the peer's buffer to write into next. Data goes by RDMA WRITE WITH IMMEDIATE into the current target. The 32 bits of
 * immediate data say what it was:
 *
 *     31..29  what            28..0
 *     000     data            bytes written
 *     100     credit          sequence number up to which data messages may be sent; a target may have been updated
 *     110     mapping         index of the entry of the iomap table that was written
 *     111     control         0 disconnect, 1 keepalive, 2 shutdown of the sender's direction
 *     010     (never sent: names a plain RDMA WRITE in a work request id)
 *
 * The greeting travels as private data of REQ and REP; in it all numbers are big-endian. Table entries are written in the byte
 * order of their reader, which the greeting tells.
 *
 * Datagrams are another protocol: a UDP socket per rsocket carries data and queue pair numbers until the peers know each other, then
 * UD queue pairs carry the data, each message beginning with the sender's address.
 */
#ifndef VB_RDMACM_RSOCKET_WIRE_H
#define VB_RDMACM_RSOCKET_WIRE_H

#include <stdint.h>

#include "base/bytes.h"

enum {
	VB_RSOCKET_DATA = 0,
	VB_RSOCKET_DIRECT = 2,
	VB_RSOCKET_CREDIT = 4,
	VB_RSOCKET_MAPPING = 6,
	VB_RSOCKET_CONTROL = 7,
};

enum { VB_RSOCKET_CONTROL_DISCONNECT = 0, VB_RSOCKET_CONTROL_KEEPALIVE = 1, VB_RSOCKET_CONTROL_SHUTDOWN = 2 };

enum {
	VB_RSOCKET_VERSION = 1,
	VB_RSOCKET_BIG_ENDIAN = 1,       /* greeting.flags */
	VB_RSOCKET_HAS_IOMAP = 2,
	VB_RSOCKET_TARGETS = 2,
	VB_RSOCKET_MOST_BYTES = 0x1fffffff,
};

static inline uint32_t vb_rsocket_message(uint32_t what, uint32_t value)
{
	return what << 29 | (value & VB_RSOCKET_MOST_BYTES);
}

static inline uint32_t vb_rsocket_message_what(uint32_t message)
{
	return message >> 29;
}

static inline uint32_t vb_rsocket_message_value(uint32_t message)
{
	return message & VB_RSOCKET_MOST_BYTES;
}

/* In memory that the peer writes: host order of its owner. */
struct vb_rsocket_span {
	uint64_t address;
	uint32_t key;
	uint32_t length;
};

struct vb_rsocket_iomap {
	uint64_t offset;
	struct vb_rsocket_span span;
};

struct vb_rsocket_greeting_span {
	struct be64 address;
	struct be32 key;
	struct be32 length;
};

struct vb_rsocket_greeting {
	uint8_t version;
	uint8_t flags;
	struct be16 credits;             /* receives posted */
	uint8_t reserved[3];
	uint8_t iomap_size;              /* scaled: see vb_rsocket_scale */
	struct vb_rsocket_greeting_span targets; /* length counts entries; the iomap table follows them */
	struct vb_rsocket_greeting_span buffer;  /* the first target */
};

/* Sizes above 128 in one byte, in steps of 256. */
static inline uint8_t vb_rsocket_scale(uint32_t value)
{
	return (uint8_t)(value <= 128 ? value : 128 | value >> 8);
}

static inline uint32_t vb_rsocket_unscale(uint8_t value)
{
	return value <= 128 ? value : (value & 0x7fu) << 8;
}

/* Datagrams: before the data on the UDP socket ... */
#define VB_RSOCKET_UDP_TAG 0x55555555u
struct vb_rsocket_udp_header {
	struct be32 tag;
	uint8_t version;                 /* of IP: 4 or 6 */
	uint8_t what;                    /* VB_RSOCKET_DATA, VB_RSOCKET_CONTROL: only to tell our QP number */
	uint8_t length;                  /* of this header: 16 or 28 */
	uint8_t reserved;
	struct be32 qpn;                 /* of the sender, 24 bits */
	uint8_t address[16];             /* the IP address sent to; 4 bytes of it for IPv4 */
};

/* ... and before the data on a UD queue pair. */
struct vb_rsocket_header {
	uint8_t version;
	uint8_t length;                  /* 8 or 24 */
	uint8_t port[2];                 /* of the sender, as in its socket address */
	uint8_t rest[20];                /* IPv4 address; or flow information and IPv6 address */
};

_Static_assert(sizeof(struct vb_rsocket_span) == 16, "span");
_Static_assert(sizeof(struct vb_rsocket_iomap) == 24, "iomap");
_Static_assert(sizeof(struct vb_rsocket_greeting) == 40, "greeting");
_Static_assert(sizeof(struct vb_rsocket_udp_header) == 28, "udp header");
_Static_assert(sizeof(struct vb_rsocket_header) == 24, "header");

#endif
