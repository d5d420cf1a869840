/* SPDX-License-Identifier: MIT
 *
 * The table behind memory/region.h, shared by the files of this room alone: entries in chunks that never
 * move, and the protocol by which an entry is looked at without a lock.
 *
 *   looking:  users++ ; word == LIVE | key ? use the fields : go away ; users--
 *   changing: (mutex) word = something else ; (no mutex) users == 0 ? ; (mutex) change the fields ; word = LIVE | new key
 *
 * Both sides are sequentially consistent: a thread that counts itself in after the word changed sees that it did, one that
 * counted itself in before is waited for (Dekker's argument). Fields are plain memory: they are read only between a
 * successful look and users--, and written only when no access is inside.
 *
 * Leaving: what was copied must be done before the count shows that it is. A release does that, and waits for it: on aarch64 the
 * exclusive store of a release ends when every store before it has, bytes in a receive that is not in the cache among them.
 * Without it eight bytes between two ranks of Open MPI take 0.50 us instead of 0.57. So where `host.barrier` is to be had a thread
 * leaves without a release (`light`), and the one that waits pays for both:
 *
 *   leaving:  copy ; users--                                  (the compiler does not exchange the two)
 *   waiting:  users == 0 ? ; barrier on all threads of this process ; now the copies are done
 *
 * Each thread that has left passes the barrier's fence at some point of its program, which is after the barrier was asked for and
 * before it returns. That point is not before its users--: what comes behind the fence is not seen by a load that was done before
 * the barrier was asked for, and the load of `users` has seen it. So it is behind it, and behind the copy: the fence makes its stores
 * visible and has its loads done before the barrier returns. A thread that runs nowhere passed a fence when it was taken off its
 * processor. Threads of other processes do not count themselves in, see below. tests/unit/litmus takes every execution.
 *
 * Other processes look too where the table is published (memory/foreign.h): they cannot count themselves in and show
 * instead, in memory of their own, by which key they copy. host.is_copying tells whether one does.
 *
 * No thread waits under the mutex: a peer may be stopped in the middle of a copy for as long as it likes, and a thread that
 * holds a region may need the mutex before it lets go (a SEND_WITH_INV in the middle of a batch). Between the two
 * steps the entry has no owner: its word names no bytes and it is not free. A window is `leaving` then, and the thread that
 * comes by and finds no access inside ends it.
 */
#ifndef VB_MEMORY_TABLE_H
#define VB_MEMORY_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/mutex.h"
#include "memory/fault.h"
#include "memory/key.h"
#include "memory/region.h"

#define VB_NO_MR_ENTRY UINT32_MAX

enum {
	VB_CHUNK_ENTRIES = 512,
	VB_KNOWN_KEYS = 1024,
	VB_ENTRIES_RESTING = 128,        /* so many free entries are kept out of use, that keys stay dead for a while */
};

/* Upper half of an entry's word; the lower half is the key. */
enum vb_mr_entry_state {
	VB_MR_ENTRY_FREE = 0,
	VB_MR_ENTRY_LIVE = 1,            /* the key names bytes */
	VB_MR_ENTRY_UNBOUND = 2,         /* the key belongs to a window that names no bytes */
};

/* Two cache lines, where the table is one that others read: they look at the first, and would wait each time we count
 * an access in. An eight-byte WRITE both ways between two regions takes 1.0 us with both in one line, 0.85 us so. */
struct vb_mr_entry {
	uint64_t word;                   /* atomic: state and key */

	/* Stable while a user is inside. */
	uint64_t start, length, iova;
	struct vb_pd *pd;
	uint32_t access;
	uint32_t qpn;                    /* type 2 windows: of the QP they are bound through */
	uint8_t kind;                    /* enum vb_region_kind */
	bool checked;
	bool null;                       /* there are no bytes behind it */
	uint8_t tag;                     /* under the table's mutex only: of the last key this entry had */
	/* For other processes, stable like the rest. */
	uint32_t pd_handle;              /* they cannot follow a pointer */
	uint64_t generation;             /* tells this registration or binding from all others of the table: keys come again */

	uint32_t users;                  /* atomic: accesses under way */

	/* Under the table's mutex only. */
	uint32_t index;
	uint32_t windows;                /* regions: windows bound to it */
	uint32_t region;                 /* bound windows: index of the region's entry */
	uint32_t next;                   /* free list; list of bound windows */
	uint32_t previous;
	uint32_t leaving;                /* windows: bound no more, but an access may be inside: the region must stay */
	int32_t sync;                    /* stable while a user is inside: as in struct vb_region_info */
	int64_t gone_at;                 /* atomic: when the region that had the key was withdrawn */
	void *gpu;                       /* the same */
	uint64_t light;                  /* never changes: accesses leave without a release */
	uint64_t unused;
};

struct vb_memory {
	struct vb_memory_host host;
	struct vb_key_secret secret;     /* of the index permutation */
	/* Atomic: where keys were found that were looked up before, scrambled index << 32 | index + 1. */
	uint64_t known[VB_KNOWN_KEYS];
	uint32_t max_entries, chunk_count;
	struct vb_mr_entry **chunks;     /* pointers are set once, with release order */
	bool light;                      /* accesses leave without a release, and host.barrier makes up for it */

	struct vb_mutex mutex;           /* everything below, and all changes to entries */
	uint64_t generations;            /* registrations and bindings so far */
	uint32_t entries_made;
	uint32_t free_first, free_last, free_count; /* first in, first out */
	uint32_t bound;                  /* list of windows, with those that are leaving; VB_NO_MR_ENTRY: none */
	uint32_t count[VB_REGION_MW_TYPE_2 + 1]; /* atomic for readers */
	uint32_t gpu_regions, peers;     /* one of them is 0; the first is atomic for readers */

	struct vb_mutex gpu_atomics;     /* one at a time */
};

static inline uint64_t vb_mr_entry_word(enum vb_mr_entry_state state, uint32_t key)
{
	return (uint64_t)state << 32 | key;
}

static inline uint32_t vb_mr_entry_key(const struct vb_mr_entry *entry)
{
	return (uint32_t)__atomic_load_n(&entry->word, __ATOMIC_SEQ_CST);
}

static inline enum vb_mr_entry_state vb_mr_entry_state(const struct vb_mr_entry *entry)
{
	return (enum vb_mr_entry_state)(__atomic_load_n(&entry->word, __ATOMIC_SEQ_CST) >> 32);
}

/* The entry whose index the key carries, whatever its state and tag, or NULL. No lock needed. */
struct vb_mr_entry *vb_table_find(struct vb_memory *memory, uint32_t key);

/* Count in. NULL: the key names nothing, and *fault says how. */
struct vb_mr_entry *vb_table_enter(struct vb_memory *memory, uint32_t key, enum vb_fault *fault);

static inline void vb_table_leave(struct vb_mr_entry *entry)
{
	if (entry->light) {
		/* Partner: the barrier behind the look at `users` (vb_table_has_users). */
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		__atomic_fetch_sub(&entry->users, 1, __ATOMIC_RELAXED);
	} else {
		/* Release: our copies happen before whatever the one waiting for us does next. */
		__atomic_fetch_sub(&entry->users, 1, __ATOMIC_RELEASE);
	}
}

/* Between two looks at what others do, of which there were `looks` before. Caller holds no mutex. */
void vb_table_pause(const struct vb_memory *memory, unsigned looks);

/* Are threads of this process inside an entry that names no bytes any more? If not, all that they copied is done. No lock needed. */
bool vb_table_has_users(const struct vb_memory *memory, const struct vb_mr_entry *entry);
/* Is no access inside an entry that names no bytes any more? If so, all that was copied is done. No lock needed. */
bool vb_table_is_left(const struct vb_memory *memory, const struct vb_mr_entry *entry);
/* Wait until none is. The entry is the caller's: it names no bytes, and no other thread changes it. Caller holds no mutex. */
void vb_table_await(const struct vb_memory *memory, const struct vb_mr_entry *entry);

/* ---- Caller holds memory->mutex ---- */

/* A free entry with a new key (not published), or NULL. */
struct vb_mr_entry *vb_table_take(struct vb_memory *memory, uint32_t *key) VB_NEEDS(memory->mutex);
/* The key with a tag that differs from the entry's last one. */
uint32_t vb_table_new_key(const struct vb_memory *memory, struct vb_mr_entry *entry);
void vb_table_publish(struct vb_memory *memory, struct vb_mr_entry *entry, enum vb_mr_entry_state state, uint32_t key)
	VB_NEEDS(memory->mutex);
/* Take the bytes away: no access comes in any more. Those inside may still be there. */
void vb_table_withdraw(struct vb_mr_entry *entry, enum vb_mr_entry_state state);
/* Withdrawn already, and no access is inside. */
void vb_table_release(struct vb_memory *memory, struct vb_mr_entry *entry) VB_NEEDS(memory->mutex);

/* Windows that are bound no more and that no access is inside of any more: their regions may go (window.c). */
void vb_window_end_those_left(struct vb_memory *memory) VB_NEEDS(memory->mutex);

static inline struct vb_mr_entry *vb_table_at(const struct vb_memory *memory, uint32_t index)
{
	struct vb_mr_entry *chunk = __atomic_load_n(&memory->chunks[index / VB_CHUNK_ENTRIES], __ATOMIC_ACQUIRE);

	return chunk ? &chunk[index % VB_CHUNK_ENTRIES] : NULL;
}

static inline void vb_mr_entry_set_pd(struct vb_mr_entry *entry, struct vb_pd *pd)
{
	entry->pd = pd;
	entry->pd_handle = pd ? pd->handle : 0;
}

static inline void vb_table_count(struct vb_memory *memory, enum vb_region_kind kind, uint32_t change)
{
	__atomic_fetch_add(&memory->count[kind], change, __ATOMIC_RELAXED);
}

static inline void vb_pd_count(struct vb_pd *pd, uint32_t change)
{
	if (pd)
		__atomic_fetch_add(&pd->users, change, __ATOMIC_RELAXED);
}

#endif
