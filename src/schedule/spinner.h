/* SPDX-License-Identifier: MIT
 *
 * Which threads of the application poll, told by the stamps that they leave. While one spins on an empty CQ it does the work of
 * the adapter, and the engine thread keeps out of its way (progress/engine.c); what is posted may wait for its next poll.
 *
 * Arming a CQ means that its user is going to sleep: stamps do not count then, until a thread has polled it empty many times
 * since.
 *
 * Pure: the time is handed in.
 */
#ifndef VB_SCHEDULE_SPINNER_H
#define VB_SCHEDULE_SPINNER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"

enum { VB_LINE = 64 };                     /* bytes of a cache line */

/* A thread that stops counts as polling for so long at most. */
#define VB_LONGEST_SPIN VB_MICROSECONDS(550)

struct vb_spinner {
	bool polling __attribute__((aligned(VB_LINE))); /* atomic: a thread that polls makes a pass */
	unsigned pass;                     /* atomic: the number of the last pass */
	/* Read by every thread that polls, seldom written. */
	vb_time stamp __attribute__((aligned(VB_LINE))); /* atomic: when a thread last polled an empty CQ; 0: never */
	vb_time post_stamp;                /* atomic: when a thread last posted sends, more or less */
	bool watched;                      /* atomic: a CQ was armed and no thread spins since */
	vb_time armed;                     /* atomic: when */
	uint32_t polls_since_watch;        /* atomic */
	uint32_t vain_polls;               /* atomic: in succession, more or less; of threads that poll no CQ */
	int ran_on;                        /* atomic: the processor on which a thread last posted, plus 1; 0: not known */
	bool napping;                      /* atomic: the engine thread leaves the work to spinners for a moment */
	char end[0] __attribute__((aligned(VB_LINE)));
};

/* A poll found nothing. True: the thread counts as a spinner, whose wishes (no wake-ups) are followed, and that was not said for a
 * microsecond. */
bool vb_spinner_polled_empty(struct vb_spinner *spinner, vb_time now);
/* A poll returned completions. True: that counts as polling, and vb_spinner_seen is to be told when. `after_pass`: not
 * before a pass was made, which was seen. */
bool vb_spinner_polled(struct vb_spinner *spinner, bool after_pass);
/* True: the stamp is new. */
bool vb_spinner_seen(struct vb_spinner *spinner, vb_time now);
/* A CQ was armed. True: the engine thread naps and must be told. */
bool vb_spinner_watch(struct vb_spinner *spinner, vb_time now);
/* Threads of the application sleep on CQs, or are on their way to or from it. */
bool vb_spinner_sleeps(const struct vb_spinner *spinner, vb_time now);
/* Sends were posted. True: it was noted, which is not done each time; note where the thread runs, too. */
bool vb_spinner_note_post(struct vb_spinner *spinner, vb_time now);
/* On how many processors this process may run. On one, the peer may need that: a thread that polls an empty CQ gives it away soon, as
 * long as others run then, and the engine thread does not look for more when there is nothing to do. */
void vb_spinner_set_processors(unsigned count);
bool vb_spinner_has_one_processor(void);
/* After each poll, which counts as so many. True: give the processor away now. */
bool vb_spinner_must_yield(uint32_t *vain_polls, unsigned polls, bool done);
/* The calling thread did, and the call took so long. */
void vb_spinner_yielded(vb_time how_long);

/* A thread of the application polls, now and then. */
bool vb_spinner_is_polled_for(const struct vb_spinner *spinner, vb_time now);
/* It polls right now. */
bool vb_spinner_spins(const struct vb_spinner *spinner, vb_time now);
/* One has polled of late and does not sleep: if none polls now it may look at its memory instead, for what comes. */
bool vb_spinner_looks_elsewhere(const struct vb_spinner *spinner, vb_time now);
/* May work that was posted wait for the next pass? A thread makes it, or the engine thread at the end of its nap. */
bool vb_spinner_may_put_off(const struct vb_spinner *spinner, vb_time now);
/* When a spinner was last seen; 0: never. */
vb_time vb_spinner_last_seen(const struct vb_spinner *spinner);

/* ---- posting: how many requests this thread has posted since it last polled an empty CQ ---- */

void vb_spinner_forget_posts(void);
/* One more. Of a thread that never polls, since the last pass. */
unsigned vb_spinner_count_post(const struct vb_spinner *spinner);

#endif
