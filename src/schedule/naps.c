/* SPDX-License-Identifier: MIT
 *
 * See naps.h.
 */
#include "schedule/naps.h"

#define FIRST_NAP VB_MICROSECONDS(16)
#define SHORTEST_NAP VB_MICROSECONDS(4)

enum {
	SHORTEST_HOLDOFF = 128,            /* wake-ups without naps */
	LONGEST_HOLDOFF = 16384,
	BAD_NAPS = 3,                      /* in a row: no more naps */
	COSTS_APART = 8,                   /* a nap is so many times as long as what it costs */
	COST_WEIGHT = 8,                   /* of the average against the last one */
};

void vb_naps_init(struct vb_naps *naps)
{
	*naps = (struct vb_naps){.length = FIRST_NAP, .holdoff = SHORTEST_HOLDOFF};
}

static vb_time longest(const struct vb_naps *naps)
{
	vb_time length = naps->cost * COSTS_APART;

	if (length <= VB_LONGEST_NAP)
		return VB_LONGEST_NAP;
	return length < VB_LONGEST_COSTLY_NAP ? length : VB_LONGEST_COSTLY_NAP;
}

bool vb_naps_is_measured(const struct vb_naps *naps)
{
	return naps->length >= VB_LONGEST_NAP;
}

void vb_naps_learn_cost(struct vb_naps *naps, vb_time cost)
{
	naps->cost += (cost - naps->cost) / COST_WEIGHT;
	if (naps->length > longest(naps))
		naps->length = longest(naps);
}

bool vb_naps_begin(struct vb_naps *naps, const struct vb_naps_view *view)
{
	if (!view->spins)
		return false;
	if (naps->length == 0) {
		if (--naps->holdoff_left > 0)
			return false;
		naps->length = SHORTEST_NAP;
	}
	naps->seen = view->seen;
	naps->pass = view->pass;
	naps->put_off = view->put_off;
	return true;
}

void vb_naps_lengthen(struct vb_naps *naps)
{
	naps->length = naps->length * 2 < longest(naps) ? naps->length * 2 : longest(naps);
}

static void learn_good(struct vb_naps *naps)
{
	if (naps->length >= VB_LONGEST_NAP)
		naps->holdoff = SHORTEST_HOLDOFF;
	vb_naps_lengthen(naps);
	naps->bad = 0;
}

void vb_naps_learn_bad(struct vb_naps *naps)
{
	naps->length = naps->length / 4 > SHORTEST_NAP ? naps->length / 4 : SHORTEST_NAP;
	if (++naps->bad < BAD_NAPS)
		return;
	naps->length = 0;
	naps->holdoff_left = naps->holdoff;
	naps->holdoff = naps->holdoff * 2 < LONGEST_HOLDOFF ? naps->holdoff * 2 : LONGEST_HOLDOFF;
	/* The next nap, when it comes, is a trial: if that is bad too, there are none again. */
	naps->bad = BAD_NAPS - 1;
}

enum vb_nap_end vb_naps_end(struct vb_naps *naps, const struct vb_naps_view *view)
{
	/* Those who poll do not send what waits: no pass has been made. */
	if (naps->put_off && view->put_off && view->pass == naps->pass)
		return VB_NAP_WORK;
	if (view->seen == naps->seen)
		return VB_NAP_LOOK;
	learn_good(naps);
	return VB_NAP_AGAIN;
}
