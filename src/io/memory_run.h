/* SPDX-License-Identifier: MIT
 *
 * Which pages a program is going to register next: one that registers its memory piece beside piece, upwards, goes on with the piece
 * behind. A run of such pieces, and how far ahead of it pages are brought in: by a quarter of its length, so that a program that
 * stops has at most a quarter more than it asked for, and by MOST at most. Whole huge pages: the kernel brings in no less where
 * it uses them, and a part of one would be all of it.
 */
#ifndef VB_IO_MEMORY_RUN_H
#define VB_IO_MEMORY_RUN_H

#include <stdbool.h>
#include <stdint.h>

enum { VB_RUN_SMALLEST = 256 << 10, VB_RUN_PIECE = 2 << 20, VB_RUN_MOST = 8 << 20 };

struct vb_memory_run {
	uint64_t start, end;               /* registered */
	uint64_t ahead;                    /* brought in, or about to be: up to here */
};

/* These pages were registered. Small ones are not looked at: control messages have theirs between the pieces of a run. */
static inline void vb_memory_run_add(struct vb_memory_run *run, uint64_t start, uint64_t end)
{
	if (end - start < VB_RUN_SMALLEST)
		return;
	if (start != run->end)
		*run = (struct vb_memory_run){.start = start, .end = end, .ahead = end};
	run->end = end;
	if (run->ahead < end)
		run->ahead = end;
}

/* The next pages to bring in; they count as brought in from now on. False: none. */
static inline bool vb_memory_run_next(struct vb_memory_run *run, uint64_t *from, uint64_t *to)
{
	uint64_t most = (run->end - run->start) / 4, limit = run->end + (most < VB_RUN_MOST ? most : VB_RUN_MOST);
	uint64_t piece = (run->ahead & ~(uint64_t)(VB_RUN_PIECE - 1)) + VB_RUN_PIECE;

	if (limit < run->end || piece > limit)
		return false;
	*from = run->ahead;
	*to = run->ahead = piece;
	return true;
}

/* This range is registered no more: a run that had it ends. */
static inline void vb_memory_run_forget(struct vb_memory_run *run, uint64_t start, uint64_t length)
{
	if (start < run->end && run->start < start + length)
		*run = (struct vb_memory_run){.start = 0};
}

#endif
