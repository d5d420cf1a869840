/* SPDX-License-Identifier: MIT
 *
 * One look at the links for a round over several CQs. A thread that polls many, as a server does that has one for each connection,
 * makes a pass when it finds the first of them empty, which brings what has come for all of them: the others that it finds empty after
 * that are so. Only when it comes back to one of them it waits for something that came later, and a new round begins.
 *
 * One for each thread. Pure: the time is handed in.
 */
#ifndef VB_SCHEDULE_ROUND_H
#define VB_SCHEDULE_ROUND_H

#include <stdbool.h>
#include <stddef.h>

#include "base/time.h"

/* As long as the looks at a hundred CQs: what was seen before that is told of no more. */
#define VB_LONGEST_ROUND VB_MICROSECONDS(10)

struct vb_round {
	const void *first;                 /* whose poll made the pass */
	const void *spared;                /* whose was the last to do without */
	vb_time began;
};

/* A poll finds this one empty. True: that was looked for in this round already. */
static inline bool vb_round_has_looked(struct vb_round *round, const void *cq, vb_time now)
{
	if (cq == round->first || cq == round->spared || now - round->began >= VB_LONGEST_ROUND)
		return false;
	round->spared = cq;
	return true;
}

/* It made a pass, which found nothing: there is nothing for any other. */
static inline void vb_round_begin(struct vb_round *round, const void *cq, vb_time now)
{
	*round = (struct vb_round){.first = cq, .began = now};
}

#endif
