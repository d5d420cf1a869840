/* SPDX-License-Identifier: MIT
 *
 * A ULPDU of MPA: the DDP header (RFC 5041 4), of which two bytes are RDMAP's control field (RFC 5040 4.1) and four its STag to
 * invalidate, and the bodies of RDMAP messages behind it (RFC 5040 4.4, RFC 7306 5 and 6).
 *
 *             0        1                 2                6                14       18
 *   tagged    T L DV | RV opcode |       STag |           TO |             payload
 *   untagged  T L DV | RV opcode |       STag to invalidate | QN | MSN | MO | body or payload
 */
#ifndef VB_WIRE_DDP_H
#define VB_WIRE_DDP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	VB_DDP_CONTROL_LENGTH = 2,
	VB_DDP_TAGGED_LENGTH = 14,
	VB_DDP_UNTAGGED_LENGTH = 18,
	VB_RDMAP_READ_LENGTH = 28,
	VB_RDMAP_ATOMIC_LENGTH = 52,
	VB_RDMAP_ATOMIC_RESPONSE_LENGTH = 12,
	VB_RDMAP_IMMEDIATE_LENGTH = 8,
	VB_RDMAP_TERMINATE_LENGTH = 4,   /* at least */
	VB_RDMAP_LONGEST_HEADER = VB_DDP_UNTAGGED_LENGTH + VB_RDMAP_ATOMIC_LENGTH,

	VB_DDP_VERSION = 1,
	VB_RDMAP_VERSION = 1,
};

struct vb_ddp_header {
	bool tagged, last;
	uint8_t ddp_version, rdmap_version;
	uint8_t opcode;                  /* enum vb_rdmap_opcode_number, 4 bits */
	uint8_t reserved;                /* of the first byte 0x3c, of the second 0x30 >> 4: sent as 0, not looked at */
	uint32_t stag;                   /* untagged: to invalidate, or 0 */
	uint64_t offset;                 /* tagged: TO */
	uint32_t queue, msn, mo;         /* untagged */
};

/* Of a message of ours: versions and reserved bits as they should be. */
struct vb_ddp_header vb_ddp_header_of(uint8_t opcode, bool last);

static inline size_t vb_ddp_header_length(const struct vb_ddp_header *header)
{
	return header->tagged ? VB_DDP_TAGGED_LENGTH : VB_DDP_UNTAGGED_LENGTH;
}

/* How long is the header that begins with this byte? */
static inline size_t vb_ddp_length_by(uint8_t first)
{
	return first & 0x80 ? VB_DDP_TAGGED_LENGTH : VB_DDP_UNTAGGED_LENGTH;
}

/* False: there are fewer bytes than the header has. Versions and opcode are not checked: what to answer depends on them. */
bool vb_ddp_decode(struct vb_ddp_header *header, const uint8_t *bytes, size_t length);
/* Returns its length. */
size_t vb_ddp_encode(const struct vb_ddp_header *header, uint8_t *bytes);

/* ---- bodies ---- */

struct vb_rdmap_read {
	uint32_t sink_stag, size, source_stag;
	uint64_t sink_offset, source_offset;
};
void vb_rdmap_read_decode(struct vb_rdmap_read *read, const uint8_t bytes[VB_RDMAP_READ_LENGTH]);
void vb_rdmap_read_encode(const struct vb_rdmap_read *read, uint8_t bytes[VB_RDMAP_READ_LENGTH]);

enum { VB_RDMAP_FETCH_ADD = 0, VB_RDMAP_COMPARE_SWAP = 2 };

/* RFC 7306 5.2: 28 reserved bits and the operation in the first word. */
struct vb_rdmap_atomic {
	uint32_t operation, id, stag;
	uint64_t offset;
	uint64_t add_or_swap, add_or_swap_mask, compare, compare_mask;
};
void vb_rdmap_atomic_decode(struct vb_rdmap_atomic *atomic, const uint8_t bytes[VB_RDMAP_ATOMIC_LENGTH]);
void vb_rdmap_atomic_encode(const struct vb_rdmap_atomic *atomic, uint8_t bytes[VB_RDMAP_ATOMIC_LENGTH]);

struct vb_rdmap_atomic_response {
	uint32_t id;
	uint64_t original;
};
void vb_rdmap_atomic_response_decode(struct vb_rdmap_atomic_response *response, const uint8_t bytes[VB_RDMAP_ATOMIC_RESPONSE_LENGTH]);
void vb_rdmap_atomic_response_encode(const struct vb_rdmap_atomic_response *response, uint8_t bytes[VB_RDMAP_ATOMIC_RESPONSE_LENGTH]);

#endif
