/* SPDX-License-Identifier: MIT
 *
 * The TERMINATE message (RFC 5040 4.8): why a stream ends, and of the message at fault its headers. Two forms are on the wire: the RFC's,
 * which we send, and that of Linux's siw, whose bit-fields are the other way round on little-endian machines.
 *
 *                0                1      2                        3
 *   RFC          layer | type     code   M 0x80 D 0x40 R 0x20     0    segment length (16)   DDP header (14 or 18)   READ request (28)
 *   siw          type | layer     code   M 0x01 D 0x02 R 0x04     0    the same; the length is the payload's
 */
#ifndef VB_WIRE_TERMINATE_H
#define VB_WIRE_TERMINATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/ddp.h"

enum { VB_TERMINATE_MOST = VB_RDMAP_TERMINATE_LENGTH + 2 + VB_DDP_UNTAGGED_LENGTH + VB_RDMAP_READ_LENGTH };

/* Layer, type and code in one number, as they are written: 1/2/05 is 0x1205. */
struct vb_terminate_cause {
	uint16_t v;
};

enum { VB_TERMINATE_RDMAP = 0, VB_TERMINATE_DDP = 1, VB_TERMINATE_MPA = 2 };

static inline struct vb_terminate_cause vb_terminate_cause(unsigned layer, unsigned type, unsigned code)
{
	return (struct vb_terminate_cause){(uint16_t)(layer << 12 | (type & 15) << 8 | (code & 0xff))};
}

static inline unsigned vb_terminate_layer(struct vb_terminate_cause cause) { return cause.v >> 12; }
static inline unsigned vb_terminate_type(struct vb_terminate_cause cause) { return cause.v >> 8 & 15; }
static inline unsigned vb_terminate_code(struct vb_terminate_cause cause) { return cause.v & 0xff; }

struct vb_terminate {
	struct vb_terminate_cause cause;
	bool by_siw;                     /* in its form */
	bool has_length, has_header, has_read;
	uint16_t segment_length;         /* of the DDP segment at fault */
	struct vb_ddp_header header;
	struct vb_rdmap_read read;
};

/* The body of the message, behind its DDP header. `first`: it is the first FPDU of the stream. False: it is too short for what it says. */
bool vb_terminate_decode(struct vb_terminate *terminate, const uint8_t *body, size_t length, bool first);
/* Returns its length. */
size_t vb_terminate_encode(const struct vb_terminate *terminate, uint8_t body[VB_TERMINATE_MOST]);

/* In words: "RDMAP: remote protection: base and bounds". Codes that the RFCs do not know have a name, too. */
const char *vb_terminate_layer_name(struct vb_terminate_cause cause);
const char *vb_terminate_type_name(struct vb_terminate_cause cause);
const char *vb_terminate_code_name(struct vb_terminate_cause cause);

#endif
