/* SPDX-License-Identifier: MIT
 *
 * Requests that came ahead of one that is missing. An adapter drops them, and after the NAK all of them are sent again; here
 * they are kept, as they came, until the missing one is there, and are then executed as if they came only now: order, checks
 * and what an application can see are those of a network that was late, not of one that lost. The acknowledgement that follows
 * speaks for all of them (coalesced, IBA 9.7.5.1.2), and a requester that goes by it need not send them again; selective.c is one.
 *
 * Where two unlike packets come for one PSN, one of them is not the peer's: an attacker who hits anything within reach would have
 * its packet executed. Neither is kept then, nor any other for that PSN; it is asked for when its turn has come, and must
 * come at that very moment.
 *
 * Of some the payload is in its place already, and it is only known that they came (bulk_ahead.c).
 *
 * They stand in blocks of 64 PSNs, because memory for each of them singly took a third of the receiver's time where one packet in
 * a hundred is lost. What is kept is bounded for a queue pair and for the process, for a peer can send what it likes; beyond that
 * it is dropped, as by an adapter. Empty blocks are held ready, as long as they are few in the process.
 */
#include <stdlib.h>
#include <string.h>

#include "roce/engine.h"

enum {
	PLACES = 64,                     /* of a block: bits of its mask */
	REACH = VB_ROCE_REORDER_BLOCKS * PLACES,
	ALIGNMENT = 64,
	MOST_OF_ONE = 1024 * 1024,
	MOST_OF_ALL = 64 * 1024 * 1024,
	MOST_READY = 8 * 1024 * 1024,
};

struct kept {
	struct vb_roce_packet packet;
	uint8_t payload[];
};

struct vb_roce_reorder_block {
	struct vb_roce_reorder_block *next;      /* of those that are ready */
	uint64_t taken;                  /* and with it `disputed` or not */
	uint64_t disputed;               /* two unlike packets came: nothing is kept */
	uint64_t placed;                 /* the payload is in its place (bulk_ahead.c) */
	uint64_t asking;                 /* of those: for an acknowledgement */
	_Alignas(ALIGNMENT) uint8_t places[];
};

static size_t blocks_in_all;            /* atomic: bytes, of the whole process */

static size_t place_size(const struct vb_roce_reorder *reorder)
{
	return (sizeof(struct kept) + reorder->mtu + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static size_t block_size(const struct vb_roce_reorder *reorder)
{
	return sizeof(struct vb_roce_reorder_block) + PLACES * place_size(reorder);
}

static struct kept *place_at(const struct vb_roce_reorder *reorder, struct vb_roce_reorder_block *block, uint32_t number)
{
	return (struct kept *)(void *)(block->places + number * place_size(reorder));
}

static struct vb_roce_reorder_block *make_block(struct vb_roce_reorder *reorder)
{
	struct vb_roce_reorder_block *block = reorder->ready;
	size_t size = block_size(reorder);

	if (block) {
		reorder->ready = block->next;
		return block;
	}
	if (reorder->bytes + size > MOST_OF_ONE)
		return NULL;
	if (__atomic_add_fetch(&blocks_in_all, size, __ATOMIC_RELAXED) <= MOST_OF_ALL)
		block = aligned_alloc(ALIGNMENT, size);
	if (!block) {
		__atomic_sub_fetch(&blocks_in_all, size, __ATOMIC_RELAXED);
		return NULL;
	}
	reorder->bytes += size;
	block->taken = block->disputed = block->placed = block->asking = 0;
	return block;
}

static void free_block(struct vb_roce_reorder *reorder, struct vb_roce_reorder_block *block)
{
	size_t size = block_size(reorder);

	reorder->bytes -= size;
	__atomic_sub_fetch(&blocks_in_all, size, __ATOMIC_RELAXED);
	free(block);
}

static void put_away(struct vb_roce_reorder *reorder, struct vb_roce_reorder_block *block)
{
	if (__atomic_load_n(&blocks_in_all, __ATOMIC_RELAXED) > MOST_READY) {
		free_block(reorder, block);
		return;
	}
	block->next = reorder->ready;
	reorder->ready = block;
}

static struct vb_roce_reorder_block **block_of(struct vb_roce_reorder *reorder, struct psn psn)
{
	return &reorder->block[psn.v / PLACES % VB_ROCE_REORDER_BLOCKS];
}

static uint64_t bit_of(struct psn psn)
{
	return UINT64_C(1) << psn.v % PLACES;
}

void vb_roce_reorder_open(struct vb_roce_reorder *reorder, uint32_t mtu)
{
	*reorder = (struct vb_roce_reorder){.mtu = mtu};
}

void vb_roce_reorder_clear(struct vb_roce_reorder *reorder)
{
	struct vb_roce_reorder_block *block;

	for (unsigned i = 0; i < VB_ROCE_REORDER_BLOCKS; i++) {
		if (reorder->block[i])
			free_block(reorder, reorder->block[i]);
		reorder->block[i] = NULL;
	}
	while ((block = reorder->ready) != NULL) {
		reorder->ready = block->next;
		free_block(reorder, block);
	}
	reorder->count = 0;
}

/* Is it the packet that was sent before? Not all is compared: a repetition may ask for an acknowledgement where the first did not,
 * and be marked by the network. */
static bool is_the_same(const struct vb_roce_packet *a, const struct vb_roce_packet *b)
{
	const uint16_t headers = a->op->headers;

	if (a->opcode != b->opcode || a->payload_length != b->payload_length || a->solicited != b->solicited)
		return false;
	if ((headers & VB_HEADER_RETH) && (a->reth.address != b->reth.address || a->reth.rkey != b->reth.rkey ||
					   a->reth.length != b->reth.length))
		return false;
	if ((headers & VB_HEADER_ATOMIC_ETH) &&
	    (a->atomic.address != b->atomic.address || a->atomic.rkey != b->atomic.rkey ||
	     a->atomic.swap_or_add != b->atomic.swap_or_add || a->atomic.compare != b->atomic.compare))
		return false;
	if ((headers & VB_HEADER_IMMEDIATE) && memcmp(&a->immediate, &b->immediate, sizeof(a->immediate)) != 0)
		return false;
	if ((headers & VB_HEADER_IETH) && a->invalidate_rkey != b->invalidate_rkey)
		return false;
	return a->payload_length == 0 || memcmp(a->payload, b->payload, a->payload_length) == 0;
}

enum vb_roce_kept vb_roce_reorder_keep(struct vb_roce_reorder *reorder, struct psn expected, const struct vb_roce_packet *packet)
{
	struct vb_roce_reorder_block **block = block_of(reorder, packet->psn);
	uint64_t bit = bit_of(packet->psn);
	struct kept *kept;

	/* One block less than there are: `expected` may stand in the middle of the first. */
	if (psn_ahead(packet->psn, expected) > REACH - PLACES || packet->payload_length > reorder->mtu)
		return VB_KEPT_NOT;
	if (!*block)
		*block = make_block(reorder);
	if (!*block || ((*block)->disputed & bit))
		return VB_KEPT_NOT;
	kept = place_at(reorder, *block, packet->psn.v % PLACES);
	if ((*block)->placed & bit)
		return VB_KEPT_IN_PLACE;
	if ((*block)->taken & bit) {
		if (is_the_same(&kept->packet, packet))
			return VB_KEPT;
		(*block)->disputed |= bit;
		return VB_KEPT_DISPUTED;
	}
	(*block)->taken |= bit;
	reorder->count++;
	kept->packet = *packet;
	kept->packet.payload = kept->payload;
	if (packet->payload_length > 0)
		memcpy(kept->payload, packet->payload, packet->payload_length);
	return VB_KEPT;
}

const struct vb_roce_packet *vb_roce_reorder_find(struct vb_roce_reorder *reorder, struct psn psn)
{
	struct vb_roce_reorder_block *block = *block_of(reorder, psn);

	if (!block || !(block->taken & ~block->disputed & ~block->placed & bit_of(psn)))
		return NULL;
	return &place_at(reorder, block, psn.v % PLACES)->packet;
}

/* `bits`: places that are taken. */
static void clear_bits(struct vb_roce_reorder *reorder, struct vb_roce_reorder_block **block, uint64_t bits, uint32_t count)
{
	(*block)->taken &= ~bits;
	(*block)->disputed &= ~bits;
	(*block)->placed &= ~bits;
	(*block)->asking &= ~bits;
	reorder->count -= count;
	if ((*block)->taken != 0)
		return;
	put_away(reorder, *block);
	*block = NULL;
}

static void forget(struct vb_roce_reorder *reorder, struct psn psn)
{
	struct vb_roce_reorder_block **block = block_of(reorder, psn);

	if (*block && ((*block)->taken & bit_of(psn)))
		clear_bits(reorder, block, bit_of(psn), 1);
}

void vb_roce_reorder_forget(struct vb_roce_reorder *reorder, struct psn psn, uint32_t count)
{
	for (uint32_t i = 0; i < count && i < REACH && reorder->count > 0; i++)
		forget(reorder, psn_add(psn, i));
}

bool vb_roce_reorder_is_free(struct vb_roce_reorder *reorder, struct psn expected, struct psn psn)
{
	struct vb_roce_reorder_block **block = block_of(reorder, psn);

	if (psn_ahead(psn, expected) > REACH - PLACES)
		return false;
	if (!*block)
		*block = make_block(reorder);
	return *block && !((*block)->taken & bit_of(psn));
}

uint8_t *vb_roce_reorder_place(struct vb_roce_reorder *reorder, struct psn psn, struct vb_roce_packet **packet)
{
	struct kept *kept = place_at(reorder, *block_of(reorder, psn), psn.v % PLACES);

	*packet = &kept->packet;
	return kept->payload;
}

void vb_roce_reorder_kept(struct vb_roce_reorder *reorder, struct psn psn)
{
	(*block_of(reorder, psn))->taken |= bit_of(psn);
	reorder->count++;
}

void vb_roce_reorder_placed(struct vb_roce_reorder *reorder, struct psn psn, bool ack_request)
{
	struct vb_roce_reorder_block *block = *block_of(reorder, psn);

	block->taken |= bit_of(psn);
	block->placed |= bit_of(psn);
	if (ack_request)
		block->asking |= bit_of(psn);
	reorder->count++;
}

void vb_roce_reorder_dispute(struct vb_roce_reorder *reorder, struct psn psn)
{
	struct vb_roce_reorder_block *block = *block_of(reorder, psn);

	block->placed &= ~bit_of(psn);
	block->disputed |= bit_of(psn);
}

uint32_t vb_roce_reorder_take_placed(struct vb_roce_reorder *reorder, struct psn psn, bool *ack_request)
{
	uint32_t taken = 0;

	*ack_request = false;
	for (;;) {
		struct vb_roce_reorder_block **block = block_of(reorder, psn_add(psn, taken));
		uint32_t from = psn_add(psn, taken).v % PLACES, count = 0;
		uint64_t bits;

		if (!*block)
			return taken;
		while (from + count < PLACES && ((*block)->placed >> (from + count) & 1))
			count++;
		if (count == 0)
			return taken;
		bits = (count == PLACES ? ~UINT64_C(0) : (UINT64_C(1) << count) - 1) << from;
		*ack_request |= ((*block)->asking & bits) != 0;
		clear_bits(reorder, block, bits, count);
		taken += count;
	}
}
