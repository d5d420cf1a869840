/* SPDX-License-Identifier: MIT
 *
 * Requests that came ahead of one that is missing. An adapter drops them, and after the NAK all of them are sent again; here
 * they are kept, as they came, until the missing one is there, and are then executed as if they came only now: order, checks
 * and what an application can see are those of a network that was late, not of one that lost. The acknowledgement that follows
 * speaks for all of them (coalesced, IBA 9.7.5.1.2), and a requester that goes by it need not send them again; repair.c is one.
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
	uint64_t taken;
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
	shelf->taken = 0;
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

void vb_roce_ahead_keep(struct vb_roce_ahead *ahead, struct psn expected, const struct vb_roce_packet *packet)
{
	struct vb_roce_shelf **shelf = shelf_of(ahead, packet->psn);
	uint64_t bit = bit_of(packet->psn);
	struct kept *kept;

	/* One shelf less than there are: `expected` may stand in the middle of the first. */
	if (psn_ahead(packet->psn, expected) > REACH - PLACES || packet->payload_length > ahead->mtu)
		return;
	if (!*shelf)
		*shelf = make_shelf(ahead);
	if (!*shelf || ((*shelf)->taken & bit))
		return;
	(*shelf)->taken |= bit;
	ahead->count++;
	kept = place_at(ahead, *shelf, packet->psn.v % PLACES);
	kept->packet = *packet;
	kept->packet.payload = kept->payload;
	if (packet->payload_length > 0)
		memcpy(kept->payload, packet->payload, packet->payload_length);
}

const struct vb_roce_packet *vb_roce_ahead_find(struct vb_roce_ahead *ahead, struct psn psn)
{
	struct vb_roce_shelf *shelf = *shelf_of(ahead, psn);

	return shelf && (shelf->taken & bit_of(psn)) ? &place_at(ahead, shelf, psn.v % PLACES)->packet : NULL;
}

static void forget(struct vb_roce_ahead *ahead, struct psn psn)
{
	struct vb_roce_shelf **shelf = shelf_of(ahead, psn);

	if (!*shelf || !((*shelf)->taken & bit_of(psn)))
		return;
	(*shelf)->taken &= ~bit_of(psn);
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
