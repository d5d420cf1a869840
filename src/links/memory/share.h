/* SPDX-License-Identifier: MIT
 *
 * Which of a peer's regions are memory that both can have: those are mapped here, so that a WRITE or READ is plain
 * stores and loads.
 *
 * No program declares such memory. Whether a region is, the peer's list of mappings tells, which takes a while to read; so
 * a region is looked at only after the copies made for it have cost as much as looking does. What was found is kept, a
 * "no" too.
 *
 * Who uses a mapping shows the copy word of its key in our own segment, as for every direct access (local/local.h).
 * That is also what protects it: a mapping goes only when it can be found no more and no copier shows its word.
 */
#ifndef VB_LINKS_MEMORY_SHARE_H
#define VB_LINKS_MEMORY_SHARE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/lock.h"
#include "base/time.h"

struct vb_share_entry;
struct vb_share_mapping;

/* One per peer. */
struct vb_local_share {
	bool self;                         /* the peer is this process */
	int process;                       /* of io/mappings.h, negative: none */
	uint32_t slot;                     /* the peer's */
	const uint64_t *copying;           /* the copy words of our own segment */
	/* Is that registration of the peer still there? NULL: not known. */
	bool (*lives)(void *context, uint32_t table, uint32_t key, uint64_t generation);
	void *context;
	struct vb_share_entry *entries;    /* atomic: made with the first question */

	struct vb_lock lock;               /* the rest, and all changes to entries. Innermost */
	uint64_t given_up;                 /* atomic: mappings, so far; counted before a look at who uses one */
	uint32_t hand;
	uint32_t mapped;                   /* atomic for readers: entries with a mapping, and mappings that leave */
	vb_time cost;                      /* of the last look */
	struct vb_share_mapping *leaving;  /* cannot be found any more, but may still be in use */
};

/* Call it before the peer is proved to be who it says: the process is the one that has this number now. */
void vb_local_share_init(struct vb_local_share *share, pid_t pid, uint32_t slot, const uint64_t *copying);
/* No thread copies to or from the peer any more. */
void vb_local_share_fini(struct vb_local_share *share);

/* What `shared` of struct vb_local_host answers. Any number of threads; takes no lock where the answer is known, and
 * never waits. */
void *vb_local_share_find(struct vb_local_share *share, uint32_t table, uint32_t key, uint64_t generation, uint64_t region_start,
			  uint64_t region_length, uint64_t address, uint64_t length);

/* Give back what belongs to registrations that are gone. For when there is time: a file that is mapped here keeps its memory. */
void vb_local_share_sweep(struct vb_local_share *share);

#endif
