/* SPDX-License-Identifier: MIT
 *
 * See linger.h.
 */
#include "schedule/linger.h"

void vb_linger_init(struct vb_linger *linger)
{
	linger->length = VB_SHORTEST_LINGER;
}

void vb_linger_slept(struct vb_linger *linger, vb_time how_long)
{
	if (how_long >= VB_LONG_SLEEP)
		linger->length = VB_SHORTEST_LINGER;
	else
		linger->length = linger->length * 2 < VB_LONGEST_LINGER ? linger->length * 2 : VB_LONGEST_LINGER;
}

bool vb_linger_goes_on(const struct vb_linger *linger, vb_time idle, int cpu, int application_cpu)
{
	return cpu != application_cpu && idle <= linger->length;
}
