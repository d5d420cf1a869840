/* SPDX-License-Identifier: MIT */
#include "preload/sockets/patience.h"

vb_time vb_patience_length(const struct vb_patience *patience)
{
	vb_time length = __atomic_load_n(&patience->length, __ATOMIC_RELAXED);

	return length < VB_PATIENCE_LEAST ? VB_PATIENCE_LEAST : length;
}

void vb_patience_slept(struct vb_patience *patience, vb_time how_long)
{
	vb_time length = vb_patience_length(patience);

	if (how_long >= VB_PATIENCE_LONG_SLEEP)
		length = __atomic_add_fetch(&patience->long_sleeps, 1, __ATOMIC_RELAXED) % VB_PATIENCE_TRIES == 0 ? VB_PATIENCE_MOST :
			 VB_PATIENCE_LEAST;
	else
		length = length * 2 < VB_PATIENCE_MOST ? length * 2 : VB_PATIENCE_MOST;
	__atomic_store_n(&patience->length, length, __ATOMIC_RELAXED);
}
