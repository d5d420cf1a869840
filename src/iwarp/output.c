/* SPDX-License-Identifier: MIT
 *
 * FPDUs become spans. Headers and trailers stand in the arena of what is offered; a payload is a span into registered
 * memory, or is copied between them where it is small, where its CRC is computed (the memory may change under us, and a
 * CRC of the old bytes in front of the new ones would end the connection), and where there is no plain pointer to it.
 * What is adjacent becomes one span.
 *
 * Holds last until vb_iwarp_sent. All are of the queue pair's own domain.
 */
#include <string.h>

#include "base/crc32c.h"
#include "iwarp/engine.h"

void vb_iwarp_output_reset(struct vb_iwarp_out *out)
{
	out->count = out->marks = out->holds = 0;
	out->bytes = out->used = 0;
}

void vb_iwarp_output_let_go(struct vb_iwarp_out *out)
{
	vb_memory_let_go_all(out->hold, out->holds);
	out->holds = 0;
}

void vb_iwarp_output_mark(struct vb_iwarp_out *out, const struct vb_iwarp_cursor *after)
{
	out->mark[out->marks++] = (struct vb_iwarp_mark){out->bytes, *after};
}

static void add_span(struct vb_iwarp_out *out, uint8_t *bytes, size_t length)
{
	struct iovec *last = out->count > 0 ? &out->spans[out->count - 1] : NULL;

	if (last && (uint8_t *)last->iov_base + last->iov_len == bytes)
		last->iov_len += length;
	else
		out->spans[out->count++] = (struct iovec){bytes, length};
	out->bytes += length;
}

void vb_iwarp_output_kept(struct vb_iwarp_out *out, uint8_t *bytes, uint32_t length)
{
	add_span(out, bytes, length);
}

static bool has_room(const struct vb_iwarp_out *out, uint32_t fpdu, uint32_t in_arena, uint32_t elements)
{
	return out->marks < VB_IWARP_MARKS && (out->bytes + fpdu <= VB_IWARP_BYTES || out->bytes == 0) &&
	       out->used + in_arena <= VB_IWARP_ARENA && out->count + elements + 2 <= VB_IWARP_SPANS &&
	       out->holds + (elements > 0 ? elements : 1) <= VB_IWARP_HOLDS;
}

/* ---- where the bytes are ---- */

static uint8_t *hold(struct vb_qp *qp, struct vb_iwarp_out *out, const struct vb_accessor *who, uint64_t address, uint64_t range,
		     uint32_t length)
{
	struct vb_hold *next = &out->hold[out->holds];
	uint8_t *bytes = out->holds > 0 ? vb_hold_bytes(next - 1, who->key, who->rights, address, length) : NULL;

	if (bytes)
		return bytes;
	next->entry = NULL;
	if (!vb_memory_hold(qp->host->memory, who, address, range, next))
		return NULL;
	out->holds++;
	return next->bytes;
}

/* In one piece, held; NULL: not in one, or no plain pointer. */
static uint8_t *find(struct vb_qp *qp, struct vb_iwarp_out *out, const struct vb_iwarp_source *source, uint64_t offset, uint32_t length)
{
	struct vb_accessor who = {.pd = qp->pd, .qpn = qp->qpn, .key = source->key, .rights = IBV_ACCESS_REMOTE_READ, .remote = true};
	const struct ibv_sge *element = source->list, *end = element + source->count;

	if (source->count == 0)
		return hold(qp, out, &who, source->address + offset, length, length);
	while (element < end && offset >= element->length)
		offset -= element++->length;
	if (element == end || length > element->length - offset)
		return NULL;
	who = (struct vb_accessor){.pd = qp->pd, .qpn = qp->qpn, .key = element->lkey};
	return hold(qp, out, &who, element->addr + offset, element->length - offset, length);
}

static bool fetch(struct vb_qp *qp, const struct vb_iwarp_source *source, uint64_t offset, uint8_t *to, uint32_t length,
		  struct vb_fault_record *why)
{
	struct vb_accessor who = {.pd = qp->pd, .qpn = qp->qpn, .key = source->key, .rights = IBV_ACCESS_REMOTE_READ, .remote = true};

	if (source->count > 0)
		return vb_memory_gather(qp->host->memory, qp->pd, qp->qpn, source->list, source->count, offset, to, length, why);
	return vb_memory_fetch(qp->host->memory, &who, source->address + offset, to, length, why);
}

/* Copy the payload to `to`, and go on with the CRC. */
static bool copy(struct vb_qp *qp, struct vb_iwarp_out *out, const struct vb_iwarp_source *source, uint64_t offset, uint32_t length,
		 uint8_t *to, uint32_t *crc, struct vb_fault_record *why)
{
	const uint8_t *from = source->bytes ? source->bytes + offset : find(qp, out, source, offset, length);
	bool crc_is_used = vb_iwarp_engine(qp)->terms.crc;

	if (from) {
		if (crc_is_used)
			*crc = vb_crc32c_copy(*crc, to, from, length);
		else
			memcpy(to, from, length);
		return true;
	}
	if (!fetch(qp, source, offset, to, length, why))
		return false;
	if (crc_is_used)
		*crc = vb_crc32c(*crc, to, length);
	return true;
}

/* The payload as spans behind those of `out`, which are not counted yet. How many; 0: it must be copied; -1: a fault. */
static int spans_of(struct vb_qp *qp, struct vb_iwarp_out *out, struct iovec *spans, const struct vb_iwarp_source *source, uint64_t offset,
		    uint32_t length, struct vb_fault_record *why)
{
	uint8_t *bytes = find(qp, out, source, offset, length);
	int found;

	if (bytes) {
		spans[0] = (struct iovec){bytes, length};
		return 1;
	}
	if (source->count == 0)
		return 0;
	found = vb_memory_gather_spans(qp->host->memory, qp->pd, qp->qpn, source->list, source->count, offset, length, spans,
				       &out->hold[out->holds], VB_IWARP_HOLDS - out->holds, why);
	if (found > 0)
		out->holds += (unsigned)found;
	return found;
}

/* ---- an FPDU ---- */

enum vb_iwarp_made vb_iwarp_output_fpdu(struct vb_qp *qp, struct vb_iwarp_out *out, const struct vb_ddp_header *header, const uint8_t *body,
					uint32_t body_length, const struct vb_iwarp_source *source, uint64_t offset, uint32_t length,
					struct vb_fault_record *why)
{
	bool crc_is_used = vb_iwarp_engine(qp)->terms.crc, copied = crc_is_used || length <= VB_IWARP_COPIED;
	uint32_t ulpdu = (uint32_t)vb_ddp_header_length(header) + body_length + length, head, trailer, crc = 0;
	uint8_t *at = out->arena + out->used;
	struct iovec spans[VB_MAX_SGE];
	int found = 0;

	if (!has_room(out, vb_fpdu_length(ulpdu), vb_fpdu_length(ulpdu) + VB_FPDU_MOST_TRAILER - (copied ? 0 : length),
		      copied || !source ? 0 : source->count))
		return VB_IWARP_NO_ROOM;
	vb_fpdu_put_length(at, ulpdu);
	head = VB_FPDU_LENGTH_FIELD + (uint32_t)vb_ddp_encode(header, at + VB_FPDU_LENGTH_FIELD);
	if (body_length > 0)
		memcpy(at + head, body, body_length);
	head += body_length;
	if (crc_is_used)
		crc = vb_crc32c(0, at, head);
	if (!copied) {
		found = spans_of(qp, out, spans, source, offset, length, why);
		if (found < 0)
			return VB_IWARP_FAULT;
		copied = found == 0;
		if (copied && !has_room(out, vb_fpdu_length(ulpdu), vb_fpdu_length(ulpdu) + VB_FPDU_MOST_TRAILER, 0))
			return VB_IWARP_NO_ROOM;
	}
	if (copied && length > 0) {
		if (!copy(qp, out, source, offset, length, at + head, &crc, why))
			return VB_IWARP_FAULT;
		head += length;
	}
	trailer = vb_fpdu_put_trailer(at + head, ulpdu, crc, crc_is_used);
	out->used += head + trailer;
	if (found == 0) {
		add_span(out, at, head + trailer);
	} else {
		add_span(out, at, head);
		for (int i = 0; i < found; i++)
			add_span(out, spans[i].iov_base, spans[i].iov_len);
		add_span(out, at + head, trailer);
	}
	return VB_IWARP_MADE;
}
