/* SPDX-License-Identifier: MIT
 *
 * See ddp.h.
 */
#include "wire/ddp.h"

#include <string.h>

#include "base/bytes.h"
#include "wire/rdmap_opcode.h"

enum { TAGGED = 0x80, LAST = 0x40, DDP_RESERVED = 0x3c, DDP_VERSION_MASK = 0x03, RDMAP_RESERVED = 0x30, OPCODE_MASK = 0x0f };

struct control {
	uint8_t ddp, rdmap;
};

struct tagged {
	struct control control;
	struct be32 stag;
	struct be64 offset;
};
_Static_assert(sizeof(struct tagged) == VB_DDP_TAGGED_LENGTH, "RFC 5041 figure 3");

struct untagged {
	struct control control;
	struct be32 stag, queue, msn, mo;
};
_Static_assert(sizeof(struct untagged) == VB_DDP_UNTAGGED_LENGTH, "RFC 5041 figure 4");

struct read_request {
	struct be32 sink_stag;
	struct be64 sink_offset;
	struct be32 size, source_stag;
	struct be64 source_offset;
};
_Static_assert(sizeof(struct read_request) == VB_RDMAP_READ_LENGTH, "RFC 5040 figure 8");

struct atomic_request {
	struct be32 operation, id, stag;
	struct be64 offset, add_or_swap, add_or_swap_mask, compare, compare_mask;
};
_Static_assert(sizeof(struct atomic_request) == VB_RDMAP_ATOMIC_LENGTH, "RFC 7306 figure 5");

struct atomic_response {
	struct be32 id;
	struct be64 original;
};
_Static_assert(sizeof(struct atomic_response) == VB_RDMAP_ATOMIC_RESPONSE_LENGTH, "RFC 7306 figure 6");

struct vb_ddp_header vb_ddp_header_of(uint8_t opcode, bool last)
{
	const struct vb_rdmap_opcode *op = vb_rdmap_opcode(opcode);

	return (struct vb_ddp_header){
		.tagged = op->tagged,
		.last = last,
		.ddp_version = VB_DDP_VERSION,
		.rdmap_version = VB_RDMAP_VERSION,
		.opcode = opcode,
		.queue = op->queue,
	};
}

static void decode_control(struct vb_ddp_header *header, const uint8_t *bytes)
{
	*header = (struct vb_ddp_header){
		.tagged = bytes[0] & TAGGED,
		.last = bytes[0] & LAST,
		.ddp_version = bytes[0] & DDP_VERSION_MASK,
		.rdmap_version = bytes[1] >> 6,
		.opcode = bytes[1] & OPCODE_MASK,
		.reserved = (uint8_t)((bytes[0] & DDP_RESERVED) | (bytes[1] & RDMAP_RESERVED) >> 4),
	};
}

static struct control encode_control(const struct vb_ddp_header *header)
{
	return (struct control){
		.ddp = (uint8_t)((header->tagged ? TAGGED : 0) | (header->last ? LAST : 0) | (header->reserved & DDP_RESERVED) |
				 (header->ddp_version & DDP_VERSION_MASK)),
		.rdmap = (uint8_t)(header->rdmap_version << 6 | (header->reserved & RDMAP_RESERVED >> 4) << 4 |
				   (header->opcode & OPCODE_MASK)),
	};
}

bool vb_ddp_decode(struct vb_ddp_header *header, const uint8_t *bytes, size_t length)
{
	struct tagged tagged;
	struct untagged untagged;

	if (length < VB_DDP_CONTROL_LENGTH || length < vb_ddp_length_by(bytes[0]))
		return false;
	decode_control(header, bytes);
	if (header->tagged) {
		memcpy(&tagged, bytes, sizeof(tagged));
		header->stag = be32_get(tagged.stag);
		header->offset = be64_get(tagged.offset);
	} else {
		memcpy(&untagged, bytes, sizeof(untagged));
		header->stag = be32_get(untagged.stag);
		header->queue = be32_get(untagged.queue);
		header->msn = be32_get(untagged.msn);
		header->mo = be32_get(untagged.mo);
	}
	return true;
}

size_t vb_ddp_encode(const struct vb_ddp_header *header, uint8_t *bytes)
{
	struct tagged tagged = {encode_control(header), be32_of(header->stag), be64_of(header->offset)};
	struct untagged untagged = {encode_control(header), be32_of(header->stag), be32_of(header->queue), be32_of(header->msn),
				    be32_of(header->mo)};

	if (header->tagged)
		memcpy(bytes, &tagged, sizeof(tagged));
	else
		memcpy(bytes, &untagged, sizeof(untagged));
	return vb_ddp_header_length(header);
}

void vb_rdmap_read_decode(struct vb_rdmap_read *read, const uint8_t bytes[VB_RDMAP_READ_LENGTH])
{
	struct read_request wire;

	memcpy(&wire, bytes, sizeof(wire));
	*read = (struct vb_rdmap_read){
		.sink_stag = be32_get(wire.sink_stag),
		.sink_offset = be64_get(wire.sink_offset),
		.size = be32_get(wire.size),
		.source_stag = be32_get(wire.source_stag),
		.source_offset = be64_get(wire.source_offset),
	};
}

void vb_rdmap_read_encode(const struct vb_rdmap_read *read, uint8_t bytes[VB_RDMAP_READ_LENGTH])
{
	struct read_request wire = {be32_of(read->sink_stag), be64_of(read->sink_offset), be32_of(read->size),
				    be32_of(read->source_stag), be64_of(read->source_offset)};

	memcpy(bytes, &wire, sizeof(wire));
}

void vb_rdmap_atomic_decode(struct vb_rdmap_atomic *atomic, const uint8_t bytes[VB_RDMAP_ATOMIC_LENGTH])
{
	struct atomic_request wire;

	memcpy(&wire, bytes, sizeof(wire));
	*atomic = (struct vb_rdmap_atomic){
		.operation = be32_get(wire.operation) & OPCODE_MASK,
		.id = be32_get(wire.id),
		.stag = be32_get(wire.stag),
		.offset = be64_get(wire.offset),
		.add_or_swap = be64_get(wire.add_or_swap),
		.add_or_swap_mask = be64_get(wire.add_or_swap_mask),
		.compare = be64_get(wire.compare),
		.compare_mask = be64_get(wire.compare_mask),
	};
}

void vb_rdmap_atomic_encode(const struct vb_rdmap_atomic *atomic, uint8_t bytes[VB_RDMAP_ATOMIC_LENGTH])
{
	struct atomic_request wire = {
		be32_of(atomic->operation), be32_of(atomic->id), be32_of(atomic->stag), be64_of(atomic->offset),
		be64_of(atomic->add_or_swap), be64_of(atomic->add_or_swap_mask), be64_of(atomic->compare), be64_of(atomic->compare_mask),
	};

	memcpy(bytes, &wire, sizeof(wire));
}

void vb_rdmap_atomic_response_decode(struct vb_rdmap_atomic_response *response, const uint8_t bytes[VB_RDMAP_ATOMIC_RESPONSE_LENGTH])
{
	struct atomic_response wire;

	memcpy(&wire, bytes, sizeof(wire));
	response->id = be32_get(wire.id);
	response->original = be64_get(wire.original);
}

void vb_rdmap_atomic_response_encode(const struct vb_rdmap_atomic_response *response, uint8_t bytes[VB_RDMAP_ATOMIC_RESPONSE_LENGTH])
{
	struct atomic_response wire = {be32_of(response->id), be64_of(response->original)};

	memcpy(bytes, &wire, sizeof(wire));
}
