/* SPDX-License-Identifier: MIT */
#include "preload/sockets/patience.h"

static vb_time learned(const struct vb_patience *patience)
{
	vb_time length = __atomic_load_n(&patience->length, __ATOMIC_RELAXED);

	return length < VB_PATIENCE_LEAST ? VB_PATIENCE_LEAST : length;
}

vb_time vb_patience_length(const struct vb_patience *patience, vb_time now)
{
	vb_time length = learned(patience), awake = now - __atomic_load_n(&patience->woke, __ATOMIC_RELAXED);

	if (length < VB_PATIENCE_MOST || awake < length)
		return length;
	return awake < VB_PATIENCE_BUSY ? awake : VB_PATIENCE_BUSY;
}

void vb_patience_slept(struct vb_patience *patience, vb_time how_long, vb_time now)
{
	vb_time length = learned(patience);

	if (how_long >= VB_PATIENCE_LONG_SLEEP)
		length = __atomic_add_fetch(&patience->long_sleeps, 1, __ATOMIC_RELAXED) % VB_PATIENCE_TRIES == 0 ? VB_PATIENCE_MOST :
			 VB_PATIENCE_LEAST;
	else
		length = length * 2 < VB_PATIENCE_MOST ? length * 2 : VB_PATIENCE_MOST;
	__atomic_store_n(&patience->length, length, __ATOMIC_RELAXED);
	__atomic_store_n(&patience->woke, now, __ATOMIC_RELAXED);
}
