/* SPDX-License-Identifier: MIT
 *
 * Scatter/gather lists: the accesses of memory/place.c, element by element.
 */
#include <errno.h>

#include "memory/place.h"

/* One piece of a list: up to `length` bytes from `offset`, within one element. */
struct piece {
	uint32_t key;
	uint64_t address;
	size_t length;
};

struct walk {
	const struct ibv_sge *list;
	unsigned count, index;
	uint64_t offset;                 /* into list[index] */
};

/* The next piece of at most `wanted` bytes; false: the list has ended. */
static bool next_piece(struct walk *walk, size_t wanted, struct piece *piece)
{
	const struct ibv_sge *element;
	uint64_t left;

	while (walk->index < walk->count && walk->offset >= walk->list[walk->index].length) {
		walk->offset -= walk->list[walk->index].length;
		walk->index++;
	}
	if (walk->index == walk->count)
		return false;
	element = &walk->list[walk->index];
	left = element->length - walk->offset;
	piece->key = element->lkey;
	piece->address = element->addr + walk->offset;
	piece->length = wanted < left ? wanted : (size_t)left;
	walk->offset += piece->length;
	return true;
}

static bool too_short(struct vb_fault_record *why, uint32_t qpn, uint64_t offset, uint64_t length)
{
	*why = (struct vb_fault_record){
		.fault = VB_FAULT_LOCAL_LENGTH,
		.address = offset,
		.length = length,
		.qpn = qpn,
	};
	return false;
}

bool vb_memory_scatter(struct vb_memory *memory, struct vb_pd *pd, uint32_t qpn, const struct ibv_sge *list,
		       unsigned count, uint64_t offset, const void *from, size_t length, struct vb_fault_record *why)
{
	struct vb_accessor who = {.pd = pd, .qpn = qpn, .rights = IBV_ACCESS_LOCAL_WRITE};
	struct walk walk = {list, count, 0, offset};
	const uint8_t *bytes = from;
	struct piece piece;

	for (size_t left = length; left > 0; left -= piece.length, bytes += piece.length) {
		if (!next_piece(&walk, left, &piece))
			return too_short(why, qpn, offset, length);
		who.key = piece.key;
		if (!vb_memory_place(memory, &who, piece.address, bytes, piece.length, why))
			return false;
	}
	return true;
}

bool vb_memory_gather(struct vb_memory *memory, struct vb_pd *pd, uint32_t qpn, const struct ibv_sge *list,
		      unsigned count, uint64_t offset, void *to, size_t length, struct vb_fault_record *why)
{
	struct vb_accessor who = {.pd = pd, .qpn = qpn};
	struct walk walk = {list, count, 0, offset};
	uint8_t *bytes = to;
	struct piece piece;

	/* A message that is one element is what is sent most. */
	if (count == 1 && offset == 0 && length == list[0].length) {
		who.key = list[0].lkey;
		return vb_memory_fetch(memory, &who, list[0].addr, to, length, why);
	}
	for (size_t left = length; left > 0; left -= piece.length, bytes += piece.length) {
		if (!next_piece(&walk, left, &piece))
			return too_short(why, qpn, offset, length);
		who.key = piece.key;
		if (!vb_memory_fetch(memory, &who, piece.address, bytes, piece.length, why))
			return false;
	}
	return true;
}

int vb_memory_gather_spans(struct vb_memory *memory, struct vb_pd *pd, uint32_t qpn, const struct ibv_sge *list,
			   unsigned count, uint64_t offset, size_t length, struct iovec *spans, struct vb_hold *holds,
			   unsigned room, struct vb_fault_record *why)
{
	struct vb_accessor who = {.pd = pd, .qpn = qpn};
	struct walk walk = {list, count, 0, offset};
	bool refused = false, plain = true;
	struct piece piece;
	unsigned found = 0;

	for (size_t left = length; left > 0 && plain && !refused; left -= piece.length) {
		if (!next_piece(&walk, left, &piece)) {
			refused = !too_short(why, qpn, offset, length);
			break;
		}
		if (found == room) {
			plain = false;
			break;
		}
		who.key = piece.key;
		refused = !vb_memory_span(memory, &who, piece.address, piece.length, &holds[found], why);
		plain = !refused && holds[found].entry != NULL;
		if (plain) {
			spans[found].iov_base = holds[found].bytes;
			spans[found].iov_len = piece.length;
			found++;
		}
	}
	if (plain && !refused)
		return (int)found;
	vb_memory_let_go_all(holds, found);
	return refused ? -1 : 0;
}

bool vb_memory_check_list(struct vb_memory *memory, struct vb_pd *pd, uint32_t qpn, const struct ibv_sge *list,
			  unsigned count, uint32_t rights, struct vb_fault_record *why)
{
	struct vb_accessor who = {.pd = pd, .qpn = qpn, .rights = rights};

	for (unsigned i = 0; i < count; i++) {
		who.key = list[i].lkey;
		if (!vb_memory_check(memory, &who, list[i].addr, list[i].length, why))
			return false;
	}
	return true;
}
