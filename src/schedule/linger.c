/* SPDX-License-Identifier: MIT
 *
 * See linger.h.
 */
#include "schedule/linger.h"

void vb_linger_init(struct vb_linger *linger)
{
	*linger = (struct vb_linger){.length = VB_SHORTEST_LINGER};
}

void vb_linger_looked(struct vb_linger *linger, vb_time how_long, bool worked)
{
	linger->awake += how_long;
	if (worked)
		linger->worked += how_long;
	if (linger->awake < VB_LINGER_SPAN)
		return;
	linger->streams = linger->worked > linger->awake / 2;
	if (linger->streams)
		linger->length = VB_SHORTEST_LINGER;
	linger->awake = linger->worked = 0;
}

void vb_linger_slept(struct vb_linger *linger, vb_time how_long)
{
	if (how_long >= VB_LONG_SLEEP || linger->streams)
		linger->length = VB_SHORTEST_LINGER;
	else
		linger->length = linger->length * 2 < VB_LONGEST_LINGER ? linger->length * 2 : VB_LONGEST_LINGER;
}

bool vb_linger_goes_on(const struct vb_linger *linger, vb_time idle, int cpu, int application_cpu, bool sleeps)
{
	return cpu != application_cpu && idle <= (sleeps ? VB_LINGER_BESIDE_SLEEPERS : linger->length);
}
