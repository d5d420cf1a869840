/* SPDX-License-Identifier: MIT
 *
 * Requests that came ahead of one that is missing. An adapter drops them, and after the NAK all of them are sent again; here
 * they are kept, as they came, until the missing one is there, and are then executed as if they came only now: order, checks
 * and what an application can see are those of a network that was late, not of one that lost. The acknowledgement that follows
 * speaks for all of them (coalesced, IBA 9.7.5.1.2), and a requester that goes by it need not send them again; repair.c is one.
 *
 * Where two unlike packets come for one PSN, one of them is not the peer's: a stranger who hits anything within reach would have
 * its packet executed. Neither is kept then, nor any other for that PSN; it is asked for when its turn has come, and must
 * come at that very moment.
 *
 * They stand in shelves of 64 PSNs, because memory for each of them singly took a third of the receiver's time where one packet in
 * a hundred is lost. What is kept is bounded for a queue pair and for the process, for a peer can send what it likes; beyond that
 * it is dropped, as by an adapter. Empty shelves are held ready, as long as they are few in the process.
 */
#include <stdlib.h>
#include <string.h>

#include "roce/engine.h"

enum {
	PLACES = 64,                     /* of a shelf: bits of its mask */
	REACH = VB_ROCE_SHELVES * PLACES,
	ALIGNMENT = 64,
	MOST_OF_ONE = 1024 * 1024,
	MOST_OF_ALL = 64 * 1024 * 1024,
	MOST_READY = 8 * 1024 * 1024,
};

struct kept {
	struct vb_roce_packet packet;
	uint8_t payload[];
};

struct vb_roce_shelf {
	struct vb_roce_shelf *next;      /* of those that are ready */
	uint64_t taken;                  /* and with it `disputed` or not */
	uint64_t disputed;               /* two unlike packets came: nothing is kept */
	_Alignas(ALIGNMENT) uint8_t places[];
};

static size_t shelves_in_all;            /* atomic: bytes, of the whole process */

static size_t place_size(const struct vb_roce_ahead *ahead)
{
	return (sizeof(struct kept) + ahead->mtu + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static size_t shelf_size(const struct vb_roce_ahead *ahead)
{
	return sizeof(struct vb_roce_shelf) + PLACES * place_size(ahead);
}

static struct kept *place_at(const struct vb_roce_ahead *ahead, struct vb_roce_shelf *shelf, uint32_t number)
{
	return (struct kept *)(void *)(shelf->places + number * place_size(ahead));
}

static struct vb_roce_shelf *make_shelf(struct vb_roce_ahead *ahead)
{
	struct vb_roce_shelf *shelf = ahead->ready;
	size_t size = shelf_size(ahead);

	if (shelf) {
		ahead->ready = shelf->next;
		return shelf;
	}
	if (ahead->bytes + size > MOST_OF_ONE)
		return NULL;
	if (__atomic_add_fetch(&shelves_in_all, size, __ATOMIC_RELAXED) <= MOST_OF_ALL)
		shelf = aligned_alloc(ALIGNMENT, size);
	if (!shelf) {
		__atomic_sub_fetch(&shelves_in_all, size, __ATOMIC_RELAXED);
		return NULL;
	}
	ahead->bytes += size;
	shelf->taken = shelf->disputed = 0;
	return shelf;
}

static void free_shelf(struct vb_roce_ahead *ahead, struct vb_roce_shelf *shelf)
{
	size_t size = shelf_size(ahead);

	ahead->bytes -= size;
	__atomic_sub_fetch(&shelves_in_all, size, __ATOMIC_RELAXED);
	free(shelf);
}

static void put_away(struct vb_roce_ahead *ahead, struct vb_roce_shelf *shelf)
{
	if (__atomic_load_n(&shelves_in_all, __ATOMIC_RELAXED) > MOST_READY) {
		free_shelf(ahead, shelf);
		return;
	}
	shelf->next = ahead->ready;
	ahead->ready = shelf;
}

static struct vb_roce_shelf **shelf_of(struct vb_roce_ahead *ahead, struct psn psn)
{
	return &ahead->shelf[psn.v / PLACES % VB_ROCE_SHELVES];
}

static uint64_t bit_of(struct psn psn)
{
	return UINT64_C(1) << psn.v % PLACES;
}

void vb_roce_ahead_open(struct vb_roce_ahead *ahead, uint32_t mtu)
{
	*ahead = (struct vb_roce_ahead){.mtu = mtu};
}

void vb_roce_ahead_clear(struct vb_roce_ahead *ahead)
{
	struct vb_roce_shelf *shelf;

	for (unsigned i = 0; i < VB_ROCE_SHELVES; i++) {
		if (ahead->shelf[i])
			free_shelf(ahead, ahead->shelf[i]);
		ahead->shelf[i] = NULL;
	}
	while ((shelf = ahead->ready) != NULL) {
		ahead->ready = shelf->next;
		free_shelf(ahead, shelf);
	}
	ahead->count = 0;
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

enum vb_roce_kept vb_roce_ahead_keep(struct vb_roce_ahead *ahead, struct psn expected, const struct vb_roce_packet *packet)
{
	struct vb_roce_shelf **shelf = shelf_of(ahead, packet->psn);
	uint64_t bit = bit_of(packet->psn);
	struct kept *kept;

	/* One shelf less than there are: `expected` may stand in the middle of the first. */
	if (psn_ahead(packet->psn, expected) > REACH - PLACES || packet->payload_length > ahead->mtu)
		return VB_KEPT_NOT;
	if (!*shelf)
		*shelf = make_shelf(ahead);
	if (!*shelf || ((*shelf)->disputed & bit))
		return VB_KEPT_NOT;
	kept = place_at(ahead, *shelf, packet->psn.v % PLACES);
	if ((*shelf)->taken & bit) {
		if (is_the_same(&kept->packet, packet))
			return VB_KEPT;
		(*shelf)->disputed |= bit;
		return VB_KEPT_DISPUTED;
	}
	(*shelf)->taken |= bit;
	ahead->count++;
	kept->packet = *packet;
	kept->packet.payload = kept->payload;
	if (packet->payload_length > 0)
		memcpy(kept->payload, packet->payload, packet->payload_length);
	return VB_KEPT;
}

const struct vb_roce_packet *vb_roce_ahead_find(struct vb_roce_ahead *ahead, struct psn psn)
{
	struct vb_roce_shelf *shelf = *shelf_of(ahead, psn);

	return shelf && (shelf->taken & ~shelf->disputed & bit_of(psn)) ? &place_at(ahead, shelf, psn.v % PLACES)->packet : NULL;
}

static void forget(struct vb_roce_ahead *ahead, struct psn psn)
{
	struct vb_roce_shelf **shelf = shelf_of(ahead, psn);

	if (!*shelf || !((*shelf)->taken & bit_of(psn)))
		return;
	(*shelf)->taken &= ~bit_of(psn);
	(*shelf)->disputed &= ~bit_of(psn);
	ahead->count--;
	if ((*shelf)->taken != 0)
		return;
	put_away(ahead, *shelf);
	*shelf = NULL;
}

void vb_roce_ahead_forget(struct vb_roce_ahead *ahead, struct psn psn, uint32_t count)
{
	for (uint32_t i = 0; i < count && i < REACH && ahead->count > 0; i++)
		forget(ahead, psn_add(psn, i));
}
