/* SPDX-License-Identifier: MIT */
#include "rdmacm/rsocket/pace.h"

vb_time vb_pace_length(const struct vb_pace *pace)
{
	return pace->moved >= VB_PACE_MUCH && pace->rest == 0 ? VB_PACE_LOOK : 0;
}

void vb_pace_saw(struct vb_pace *pace)
{
	/* Without a long look nothing is learned of those. */
	if (vb_pace_length(pace) != 0)
		pace->vain = 0;
}

void vb_pace_saw_nothing(struct vb_pace *pace)
{
	if (vb_pace_length(pace) != 0 && ++pace->vain == VB_PACE_VAIN_MOST) {
		pace->vain = VB_PACE_VAIN_MOST - 1;
		pace->rest = VB_PACE_REST;
	} else if (pace->moved >= VB_PACE_MUCH && pace->rest > 0) {
		pace->rest--;
	}
	pace->moved = 0;
}
