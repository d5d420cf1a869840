/* SPDX-License-Identifier: MIT
 *
 * See looks.h.
 */
#include "schedule/looks.h"

/* A thread that was away for longer was asleep, or had no processor. */
#define LONGEST_APART VB_MICROSECONDS(100)
/* A look that took longer was interrupted. */
#define LONGEST_LOOK VB_MICROSECONDS(2)
/* One that begins to wait for answers has used it up after twenty of them. */
#define MOST_SPARE VB_MILLISECONDS(1)
/* A third of what the system leaves a thread its processor for: one that waits after all is found out by this. */
#define LONGEST_KEPT VB_MILLISECONDS(1)

enum {
	FORGOTTEN = 8,                     /* one part in so many, each time */
	WORKS_FOR = 3,                     /* at least one part in so many of what a look takes */
	ANSWERED_MOST = 12,
	ANSWERED_WAITS = 4,                /* then it waits: two in a row */
	ANSWERED_MORE = 2,                 /* one in three yields is enough */
};

static vb_time mean(vb_time before, vb_time newest)
{
	return before == 0 ? newest : before - before / FORGOTTEN + newest / FORGOTTEN;
}

/* The longest counts: one that polls several CQs in a row works after the last of them. */
static vb_time longest(vb_time before, vb_time newest)
{
	before -= before / FORGOTTEN;
	return newest > before ? newest : before;
}

/* What kind of thread it is has not changed. */
static void begin(struct vb_looks *looks, vb_time now)
{
	*looks = (struct vb_looks){.since = now, .took = looks->took, .apart = looks->apart, .spare = looks->spare,
				   .yielded = looks->yielded, .answered = looks->answered};
}

/* One that waits and was without a processor for a moment seems to have worked for so long. */
static bool works_steadily(const struct vb_looks *looks)
{
	return vb_looks_works_between(looks) && looks->apart <= VB_LOOKS_APART * looks->took;
}

void vb_looks_end_vain(struct vb_looks *looks)
{
	vb_time lasted = looks->left > looks->since ? looks->left - looks->since : 0;

	if (lasted < VB_LOOKS_IN_VAIN)
		looks->spare = looks->spare > VB_LOOKS_IN_VAIN ? looks->spare - VB_LOOKS_IN_VAIN : 0;
	else if (works_steadily(looks))
		looks->spare = looks->spare + lasted < MOST_SPARE ? looks->spare + lasted : MOST_SPARE;
	looks->since = 0;
}

/* It works, and what it polls for is no answer that comes soon. */
static bool can_wait(const struct vb_looks *looks, vb_time now)
{
	return now - looks->since >= VB_LOOKS_IN_VAIN ? vb_looks_works_between(looks) : looks->spare > 0 && works_steadily(looks);
}

bool vb_looks_is_timed(const struct vb_looks *looks, vb_time now)
{
	return looks->yielded || looks->spare > 0 || now - looks->since >= VB_LOOKS_IN_VAIN / 2;
}

bool vb_looks_is_due(struct vb_looks *looks, vb_time now)
{
	if (looks->since != 0 && looks->left != 0 && now - looks->left > LONGEST_APART)
		vb_looks_end_vain(looks);
	if (looks->since == 0) {
		begin(looks, now);
		return true;
	}
	if (looks->left != 0)
		looks->apart = longest(looks->apart, now - looks->left);
	if (now >= looks->due)
		return true;
	looks->left = now;
	return false;
}

bool vb_looks_works_between(const struct vb_looks *looks)
{
	return looks->answered < ANSWERED_WAITS && looks->took != 0 && looks->apart >= looks->took / WORKS_FOR;
}

void vb_looks_made(struct vb_looks *looks, vb_time began, vb_time ended, bool done)
{
	vb_time took = ended - began;

	looks->left = ended;
	looks->due = 0;
	/* There may be more. */
	if (done)
		return;
	if (looks->yielded)
		vb_looks_end_yield(looks, false);
	looks->took = mean(looks->took, took < LONGEST_LOOK ? took : LONGEST_LOOK);
	if (can_wait(looks, ended))
		looks->due = ended + VB_LOOKS_APART * looks->took;
}

void vb_looks_leave_to_another(struct vb_looks *looks, vb_time now)
{
	looks->left = 0;
	if (can_wait(looks, now))
		looks->others = now + VB_LOOKS_APART * looks->took;
}

/* What is between its polls goes on to count: one that waits after all, perhaps for the thread that is at it and has no processor, is found
 * out soon, and yields. */
bool vb_looks_is_left_to_another(struct vb_looks *looks, vb_time now)
{
	if (now >= looks->others || !vb_looks_works_between(looks) || (looks->left != 0 && now - looks->left > LONGEST_APART))
		return false;
	if (looks->left != 0)
		looks->apart = longest(looks->apart, now - looks->left);
	looks->left = now;
	return true;
}

bool vb_looks_keeps_processor(const struct vb_looks *looks, vb_time now)
{
	return vb_looks_works_between(looks) && now - (looks->kept != 0 ? looks->kept : looks->since) < LONGEST_KEPT;
}

void vb_looks_yielded(struct vb_looks *looks, vb_time now)
{
	looks->left = 0;
	looks->kept = now;
	looks->yielded = true;
}

void vb_looks_end_yield(struct vb_looks *looks, bool found)
{
	looks->yielded = false;
	if (found)
		looks->answered = looks->answered + ANSWERED_MORE < ANSWERED_MOST ? looks->answered + ANSWERED_MORE : ANSWERED_MOST;
	else if (looks->answered > 0)
		looks->answered--;
}
