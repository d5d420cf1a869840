/* SPDX-License-Identifier: MIT
 *
 * All access to user memory. Nothing else in the stack writes or reads an application's bytes; every call names a
 * key and who is asking, and every check (key, PD, rights, range) is made before the first byte moves.
 *
 * Order of stores: the last bytes of a placement become visible last, because applications poll on them.
 */
#ifndef VB_MEMORY_PLACE_H
#define VB_MEMORY_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "memory/fault.h"
#include "memory/region.h"

struct vb_mr_entry;

/* Who asks, for what. */
struct vb_accessor {
	struct vb_pd *pd;
	uint32_t qpn;
	uint32_t key;
	uint32_t rights;   /* IBV_ACCESS_LOCAL_WRITE for a local store, 0 for a local load, IBV_ACCESS_REMOTE_* */
	bool remote;       /* key is an rkey: windows allowed, and REMOTE_* rights demanded */
};

/* All return true, or false with `why` filled. Length 0 always succeeds and checks nothing (IBA C9-88). */
bool vb_memory_check(struct vb_memory *memory, const struct vb_accessor *who, uint64_t address, uint64_t length,
		     struct vb_fault_record *why);
bool vb_memory_place(struct vb_memory *memory, const struct vb_accessor *who, uint64_t address, const void *from,
		     size_t length, struct vb_fault_record *why);
bool vb_memory_fetch(struct vb_memory *memory, const struct vb_accessor *who, uint64_t address, void *to,
		     size_t length, struct vb_fault_record *why);

/* The same for code that copies in a way that survives memory that is not mapped (another process pulling it): on-demand memory
 * has an address too. *at is 0 for null regions, which have none. */
bool vb_memory_locate(struct vb_memory *memory, const struct vb_accessor *who, uint64_t address, size_t length, uint64_t *at,
		      struct vb_fault_record *why);

/* A region held: the checks made once for a whole range, so that the packets of a message need only show that they
 * stay inside it. The region cannot be taken away meanwhile, so a hold lasts no longer than a batch of packets. */
struct vb_hold {
	struct vb_mr_entry *entry;       /* NULL: nothing is held */
	uint32_t key, rights;
	uint64_t address, length;
	uint8_t *bytes;
};

/* Let go of what `hold` holds, and hold this range. False: refused, a window, or there is no plain pointer; nothing is
 * held then, and the ordinary access says why. */
bool vb_memory_hold(struct vb_memory *memory, const struct vb_accessor *who, uint64_t address, uint64_t length,
		    struct vb_hold *hold);
/* The same, and as much as there is of the region on either side of the range. */
bool vb_memory_hold_around(struct vb_memory *memory, const struct vb_accessor *who, uint64_t address, uint64_t length,
			   struct vb_hold *hold);
void vb_memory_let_go(struct vb_hold *hold);

/* The same for what is looked at once, with the reason if it is refused (false). Nothing is held, and true returned, where
 * there is no plain pointer (on-demand and null regions) and for a length of 0. `hold` holds nothing before. */
bool vb_memory_span(struct vb_memory *memory, const struct vb_accessor *who, uint64_t address, size_t length,
		    struct vb_hold *hold, struct vb_fault_record *why);

/* Where the bytes are, if they are inside what is held for that key and those rights, else NULL. */
static inline uint8_t *vb_hold_bytes(const struct vb_hold *hold, uint32_t key, uint32_t rights, uint64_t address,
				     uint64_t length)
{
	uint64_t offset = address - hold->address;

	if (!hold->entry || hold->key != key || hold->rights != rights || offset > hold->length ||
	    length > hold->length - offset)
		return NULL;
	return hold->bytes + offset;
}

/* What vb_memory_place does once the checks are made. */
void vb_hold_place(uint8_t *to, const void *from, size_t length);

enum vb_atomic { VB_ATOMIC_CMP_SWP, VB_ATOMIC_FETCH_ADD, VB_ATOMIC_WRITE };

/* Eight bytes at `address`, atomically with respect to this host's processors; the old value to *original. */
bool vb_memory_atomic(struct vb_memory *memory, const struct vb_accessor *who, enum vb_atomic operation,
		      uint64_t address, uint64_t swap_or_add, uint64_t compare, uint64_t *original,
		      struct vb_fault_record *why);

/* Scatter/gather lists: `offset` bytes into the list. Each element is checked as it is touched; a list that is too
 * short is VB_FAULT_LOCAL_LENGTH. */
bool vb_memory_scatter(struct vb_memory *memory, struct vb_pd *pd, uint32_t qpn, const struct ibv_sge *list,
		       unsigned count, uint64_t offset, const void *from, size_t length, struct vb_fault_record *why);
bool vb_memory_gather(struct vb_memory *memory, struct vb_pd *pd, uint32_t qpn, const struct ibv_sge *list,
		      unsigned count, uint64_t offset, void *to, size_t length, struct vb_fault_record *why);

/* Like gather, but as spans into the registered memory (at most `room`), each held until it is let go of. Returns the
 * number of spans; 0 when some part has no plain pointer or there are too many (gather instead), -1 on a fault: then
 * nothing is held. */
int vb_memory_gather_spans(struct vb_memory *memory, struct vb_pd *pd, uint32_t qpn, const struct ibv_sge *list,
			   unsigned count, uint64_t offset, size_t length, struct iovec *spans, struct vb_hold *holds,
			   unsigned room, struct vb_fault_record *why);
static inline void vb_memory_let_go_all(struct vb_hold *holds, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		vb_memory_let_go(&holds[i]);
}

/* Check every element of a local list (all keys, PDs, ranges), for `rights`. */
bool vb_memory_check_list(struct vb_memory *memory, struct vb_pd *pd, uint32_t qpn, const struct ibv_sge *list,
			  unsigned count, uint32_t rights, struct vb_fault_record *why);

#endif
