/* SPDX-License-Identifier: MIT
 *
 * THE opcode table: what each BTH opcode means. One row says everything; lengths, offsets and names
 * are derived from it. IBA table 38 (BTH opcodes), 9.4 (headers of each transport function), annexes A14 (XRC) and A19 (memory
 * placement extensions: ATOMIC WRITE).
 */
#ifndef VB_WIRE_ROCE_OPCODE_H
#define VB_WIRE_ROCE_OPCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum vb_roce_service {
	VB_SERVICE_RC = 0x00,
	VB_SERVICE_UC = 0x20,
	VB_SERVICE_UD = 0x60,
	VB_SERVICE_CNP = 0x80,
	VB_SERVICE_XRC = 0xa0,
	VB_SERVICE_VENDOR = 0xc0,
};

/* What the packet is about. Requests first, then what answers them. */
enum vb_roce_kind {
	VB_KIND_SEND,
	VB_KIND_WRITE,
	VB_KIND_READ_REQUEST,
	VB_KIND_ATOMIC_CMP_SWP,
	VB_KIND_ATOMIC_FETCH_ADD,
	VB_KIND_ATOMIC_WRITE,
	VB_KIND_READ_RESPONSE,
	VB_KIND_ACKNOWLEDGE,
	VB_KIND_ATOMIC_ACKNOWLEDGE,
	VB_KIND_CNP,
	VB_KIND_FLOW_PROBE,
	VB_KIND_FLOW_REPORT,
};

/* Where in its message the packet stands. */
enum vb_roce_position {
	VB_POSITION_FIRST,
	VB_POSITION_MIDDLE,
	VB_POSITION_LAST,
	VB_POSITION_ONLY,
};

/* Headers that follow the BTH, in the order in which they stand. */
enum vb_roce_header {
	VB_HEADER_XRCETH = 1 << 0,
	VB_HEADER_DETH = 1 << 1,
	VB_HEADER_RETH = 1 << 2,
	VB_HEADER_ATOMIC_ETH = 1 << 3,
	VB_HEADER_AETH = 1 << 4,
	VB_HEADER_ATOMIC_ACK_ETH = 1 << 5,
	VB_HEADER_IMMEDIATE = 1 << 6,
	VB_HEADER_IETH = 1 << 7,
	VB_HEADER_CNP_RESERVED = 1 << 8,
};

struct vb_roce_opcode {
	const char *name;           /* e.g. "RC_SEND_ONLY_WITH_IMMEDIATE"; NULL: no such opcode */
	enum vb_roce_service service;
	enum vb_roce_kind kind;
	enum vb_roce_position position;
	uint16_t headers;           /* enum vb_roce_header bits */
	uint8_t header_length;      /* BTH and the headers above */
	bool carries_payload;
	bool is_request;            /* handled by the responder, else by the requester's completer */
	bool consumes_receive;      /* takes a receive (a SEND at its first or only packet, a WRITE at its last) */
	bool makes_completion;      /* its arrival completes a receive */
};

/* Never NULL; `name` is NULL for the undefined ones. */
const struct vb_roce_opcode *vb_roce_opcode(uint8_t opcode);

/* The opcode of service + kind + position + (VB_HEADER_IMMEDIATE | VB_HEADER_IETH | 0), or -1. */
int vb_roce_opcode_find(enum vb_roce_service service, enum vb_roce_kind kind, enum vb_roce_position position,
			unsigned suffix_header);

static inline bool vb_position_is_start(enum vb_roce_position p)
{
	return p == VB_POSITION_FIRST || p == VB_POSITION_ONLY;
}

static inline bool vb_position_is_end(enum vb_roce_position p)
{
	return p == VB_POSITION_LAST || p == VB_POSITION_ONLY;
}

#endif
