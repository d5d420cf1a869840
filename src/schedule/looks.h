/* SPDX-License-Identifier: MIT
 *
 * How often a thread that polls an empty CQ looks at the links. On an adapter an empty poll is a look at memory; here it is a pass over
 * sockets, which takes as long as a good deal of other work.
 *
 * A thread that waits for an answer looks each time: it has nothing else to do. Another kind polls after each small piece of work,
 * whether or not something can have come: QEMU polls two CQs after each page of a machine that it moves, and took longer for that than for
 * the page. Such a thread is known by two things: its polls have returned nothing for longer than an answer takes, and between them it
 * spends a good part of the time that a look takes. It looks now and then, so that vain looks take a small part of its time, and
 * gives no processor away: it does not wait. What it is known for lasts when it finds something: each time that it finds
 * nothing for longer is put to its credit, and each answer that comes sooner takes a part of that away.
 *
 * The time between polls does not tell for certain: UCX does as much between two of them while it waits. So what a thread finds right after
 * it gave its processor away counts more. Where two ranks of MPI share one, that is the answer nearly each time, and such a thread waits,
 * whatever it does between its polls; one that works finds nothing, and goes on to keep its processor for as long as it may.
 *
 * Nor does it ask again and again whether another thread is through that makes a pass. (The engine thread of QEMU's source sends what
 * ibv_post_send left: a fifth of all polls met it, each of them for a quarter of a microsecond.)
 *
 * One for each thread. Pure: the time is handed in.
 */
#ifndef VB_SCHEDULE_LOOKS_H
#define VB_SCHEDULE_LOOKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"

/* Longer than peers take to answer that are awake: one who waits for such answers is not held up. */
#define VB_LOOKS_IN_VAIN VB_MICROSECONDS(50)

enum { VB_LOOKS_APART = 8 };               /* times as long as a look takes: they take a ninth of the time */

struct vb_looks {
	vb_time since;                     /* when the first poll found nothing after one that did; 0: the last one did */
	vb_time left;                      /* when the last poll ended; 0: not known */
	vb_time apart;                     /* from the end of a poll to the beginning of the next: the longest of late */
	vb_time took;                      /* a look that found nothing, on average */
	vb_time due;                       /* no look is made before */
	vb_time spare;                     /* for so long it worked of late and found nothing; 0: it may wait for an answer */
	vb_time others;                    /* another thread was in the middle of a pass: what it does is left to it until then */
	vb_time kept;                      /* since when it has not given its processor away; 0: not since `since` */
	bool yielded;                      /* what that brought is not known yet */
	uint8_t answered;                  /* grows with each time that it brought something */
};

/* A poll begins, and the CQ is empty. False: no look is made this time. */
bool vb_looks_is_due(struct vb_looks *looks, vb_time now);
/* Is it told how long a look took? Reading the clock is not free. */
bool vb_looks_is_timed(const struct vb_looks *looks, vb_time now);
/* A look was made, and did something or did not. */
void vb_looks_made(struct vb_looks *looks, vb_time began, vb_time ended, bool done);
/* Another thread looks at this moment. One that waits asks again at once; one that works does not, whatever there is to do. */
void vb_looks_leave_to_another(struct vb_looks *looks, vb_time now);
/* A poll begins, so soon after that. */
bool vb_looks_is_left_to_another(struct vb_looks *looks, vb_time now);
/* The thread works between its polls: what it does is no waiting. */
bool vb_looks_works_between(const struct vb_looks *looks);
/* It may keep its processor though others may want it. */
bool vb_looks_keeps_processor(const struct vb_looks *looks, vb_time now);
/* It gave its processor away, and has it again. */
void vb_looks_yielded(struct vb_looks *looks, vb_time now);

/* Polls no longer find nothing. */
void vb_looks_end_vain(struct vb_looks *looks);
void vb_looks_end_yield(struct vb_looks *looks, bool found);

/* A poll returned completions. */
static inline void vb_looks_found(struct vb_looks *looks)
{
	if (looks->yielded)
		vb_looks_end_yield(looks, true);
	if (looks->since != 0 && (looks->spare != 0 || looks->left - looks->since >= VB_LOOKS_IN_VAIN))
		vb_looks_end_vain(looks);
	looks->since = 0;
}

/* Time passed that was not taken: for a thread that was at it. It is no work. */
static inline void vb_looks_waited(struct vb_looks *looks)
{
	looks->left = 0;
}

#endif
