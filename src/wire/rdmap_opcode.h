/* SPDX-License-Identifier: MIT
 *
 * THE table of RDMAP messages: one row says how a message travels and what it carries. RFC 5040 4.3 (figure 4) and 4.8, RFC 7306 4.1.
 */
#ifndef VB_WIRE_RDMAP_OPCODE_H
#define VB_WIRE_RDMAP_OPCODE_H

#include <stdbool.h>
#include <stdint.h>

enum vb_rdmap_opcode_number {
	VB_RDMAP_WRITE = 0,
	VB_RDMAP_READ_REQUEST = 1,
	VB_RDMAP_READ_RESPONSE = 2,
	VB_RDMAP_SEND = 3,
	VB_RDMAP_SEND_INVALIDATE = 4,
	VB_RDMAP_SEND_SOLICITED = 5,
	VB_RDMAP_SEND_SOLICITED_INVALIDATE = 6,
	VB_RDMAP_TERMINATE = 7,
	VB_RDMAP_IMMEDIATE = 8,
	VB_RDMAP_IMMEDIATE_SOLICITED = 9,
	VB_RDMAP_ATOMIC_REQUEST = 10,
	VB_RDMAP_ATOMIC_RESPONSE = 11,
	VB_RDMAP_OPCODES = 16,           /* four bits */
};

/* Queues of untagged messages. */
enum { VB_DDP_QUEUE_SEND = 0, VB_DDP_QUEUE_READ = 1, VB_DDP_QUEUE_TERMINATE = 2, VB_DDP_QUEUE_ATOMIC_RESPONSE = 3, VB_DDP_QUEUES = 4 };

enum vb_rdmap_kind {
	VB_RDMAP_KIND_WRITE,
	VB_RDMAP_KIND_READ_REQUEST,
	VB_RDMAP_KIND_READ_RESPONSE,
	VB_RDMAP_KIND_SEND,
	VB_RDMAP_KIND_TERMINATE,
	VB_RDMAP_KIND_IMMEDIATE,
	VB_RDMAP_KIND_ATOMIC_REQUEST,
	VB_RDMAP_KIND_ATOMIC_RESPONSE,
};

struct vb_rdmap_opcode {
	const char *name;                /* NULL: no such opcode */
	enum vb_rdmap_kind kind;
	bool tagged;
	bool solicited, invalidates;
	bool extended;                   /* of RFC 7306 */
	bool carries_payload;            /* any number of bytes in any number of segments; else one segment with the body alone */
	uint8_t queue;                   /* untagged: where it belongs */
	uint8_t body_length;             /* behind the DDP header */
	uint8_t header_length;           /* DDP header and body: the shortest ULPDU */
};

/* Never NULL; `name` is NULL for those that do not exist. */
const struct vb_rdmap_opcode *vb_rdmap_opcode(uint8_t opcode);

/* The SEND of four that carries these. */
static inline uint8_t vb_rdmap_send(bool solicited, bool invalidates)
{
	return (uint8_t)(VB_RDMAP_SEND + (invalidates ? 1 : 0) + (solicited ? 2 : 0));
}

#endif
