/* SPDX-License-Identifier: MIT
 *
 * When the engine thread leaves work to threads of the application that poll: it takes naps, during which nothing but a kick wakes it.
 * Pure: what is seen is handed in, so that tests run it in virtual time (tests/unit/schedule/test_naps.c).
 *
 * Naps grow as long as a thread goes on polling, up to a millisecond. A nap in which no thread polled and after which packets lie unserved
 * was one too many: naps shrink. After a few of those in a row (a program that spins on its memory and polls now and then, say) there
 * are none for a while, which is twice as long each time.
 *
 * A nap costs its thread some ten microseconds of a processor, which threads that poll want for themselves. Where it costs much more
 * (half a millisecond in a guest whose processors are emulated, a sixth of what the program had) naps are longer, so that they take
 * a ninth of the time. What a thread waits for a processor costs nothing: on a busy machine they stay as they are.
 *
 * What holds in any case: work that was put off until the next pass (vb_schedule_defer) leaves within
 * VB_LONGEST_PUT_OFF (with costly naps in place of its two), whether a thread polls or not. If the thread that put it
 * off stops, it counts as polling for VB_LONGEST_SPIN at most, and then the nap under way is the last. If threads poll
 * but make no pass (they find completions each time), the nap that saw the work wait from its beginning to its end
 * without a pass is the last.
 */
#ifndef VB_SCHEDULE_NAPS_H
#define VB_SCHEDULE_NAPS_H

#include <stdbool.h>

#include "base/time.h"
#include "schedule/spinner.h"

#define VB_LONGEST_NAP VB_MILLISECONDS(1)
/* Where one costs more than an eighth of that. */
#define VB_LONGEST_COSTLY_NAP VB_MILLISECONDS(8)
/* Two naps, of those that cost little: one during which it is put off, and one that sees it wait. Or a thread that has stopped, and one
 * nap. */
#define VB_LONGEST_PUT_OFF (2 * VB_LONGEST_NAP + VB_LONGEST_SPIN)

struct vb_naps {
	vb_time length;                    /* of the next; 0: none, for as many times as `holdoff_left` says */
	unsigned bad;                      /* in a row */
	vb_time cost;                      /* processor time of one, on average */
	unsigned holdoff, holdoff_left;
	/* As the nap under way began. */
	vb_time seen;
	unsigned pass;
	bool put_off;
};

/* What the engine thread sees. */
struct vb_naps_view {
	bool spins;                        /* a thread polls (vb_spinner_spins) */
	vb_time seen;                      /* when one was last seen (vb_spinner_last_seen) */
	unsigned pass;                     /* number of the last pass */
	bool put_off;                      /* work waits for a pass */
};

void vb_naps_init(struct vb_naps *naps);

/* There is something to do. True: leave it to those who poll, and nap for `length`. */
bool vb_naps_begin(struct vb_naps *naps, const struct vb_naps_view *view);

enum vb_nap_end {
	VB_NAP_AGAIN,                      /* see whether to take another */
	/* No thread has polled. Is one in the middle of a pass? Then again. Does anything wait? Then it was a bad one: work. */
	VB_NAP_LOOK,
	VB_NAP_WORK,
};
/* It was undisturbed to its end. */
enum vb_nap_end vb_naps_end(struct vb_naps *naps, const struct vb_naps_view *view);
void vb_naps_learn_bad(struct vb_naps *naps);
/* What lies there is left to a thread that is about to run (schedule/waiter.h): the next one may be longer. */
void vb_naps_lengthen(struct vb_naps *naps);
/* Is it told what this one costs, from its beginning to where it is judged? To ask for it is not free, and short ones do not last. */
bool vb_naps_is_measured(const struct vb_naps *naps);
void vb_naps_learn_cost(struct vb_naps *naps, vb_time cost);

#endif
