/* SPDX-License-Identifier: MIT
 *
 * A region table as other processes of the host see it. Its owner keeps the entries in an area of shared memory that others map
 * read-only; they look a key up there and copy into or out of the owner's memory by themselves.
 *
 *   area:  header | entry 0 | entry 1 | ...        (vb_foreign_publish, vb_foreign_chunk as the table's host.chunk)
 *
 * A reader cannot count itself into an entry. It shows, in shared memory of its own, by which key it is about to copy
 * (sequentially consistent), then looks the key up, copies, and withdraws what it showed. The owner takes the key away
 * first and looks at what others show after that (host.quiesce): one of the two sees the other, as in memory/table.h.
 *
 * The area is hostile: every field is copied out once and checked, and nothing found there is followed but as an
 * address in its owner's memory.
 */
#ifndef VB_MEMORY_FOREIGN_H
#define VB_MEMORY_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory/fault.h"
#include "memory/region.h"

/* By the owner, before another process can find the area. */
void vb_foreign_publish(const struct vb_memory *memory, void *area);
/* The owner's table is about to go: from now on its keys name nothing. */
void vb_foreign_withdraw(void *area);
/* Where a chunk of entries belongs, zeroed, or NULL: beyond the area. */
void *vb_foreign_chunk(void *area, size_t area_bytes, uint32_t index, size_t chunk_bytes);

/* Where the keys that were asked for last were found: the asker's, zeroed at first. Only where to look: what stands
 * there is looked at each time, and it says which key it has. */
enum { VB_FOREIGN_HINTS = 8 };
struct vb_foreign_hint {
	struct vb_foreign_known {
		const void *area, *entry;
		uint32_t key;
	} known[VB_FOREIGN_HINTS];
};

/* Who asks, on behalf of which queue pair of the owner. */
struct vb_foreign_asker {
	uint32_t pd;                     /* handle of the owner's queue pair's PD */
	uint32_t qpn;                    /* of the owner's queue pair */
	uint32_t rights;                 /* IBV_ACCESS_REMOTE_* */
	struct vb_foreign_hint *hint;    /* or NULL */
};

struct vb_foreign_range {
	uint64_t theirs;                 /* address in the owner's memory */
	uint64_t region_start, region_length; /* of the region or window, in the owner's memory */
	uint64_t generation;             /* of this registration or binding */
	const void *entry;               /* where it stands, for vb_foreign_stands */
	uint32_t access;
	bool null;                       /* no bytes behind it: reads give zeros, writes vanish */
	bool checked;                    /* on-demand: may not be mapped */
};

/* The checks of the owner's own access (memory/place.h) for a remote key, in the same order. False: refused, `why`
 * filled. A length of 0 is not to be asked for: it names no key (IBA C9-88). The key must be shown already. */
bool vb_foreign_find(const void *area, size_t area_bytes, uint32_t key, const struct vb_foreign_asker *who, uint64_t address,
		     uint64_t length, struct vb_foreign_range *out, struct vb_fault_record *why);

/* Is the registration that was found in that entry by that key still the one that stands there? Then all that was found
 * holds. The key must be shown already, and the table must still be there. */
bool vb_foreign_stands(const void *entry, uint32_t key, uint64_t generation);

/* The same, where the entry is not known, nor whether there is a table. */
bool vb_foreign_lives(const void *area, size_t area_bytes, uint32_t key, uint64_t generation);

#endif
