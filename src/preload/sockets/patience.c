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

	if (__atomic_load_n(&patience->crowded, __ATOMIC_RELAXED) > 0)
		return 0;
	if (length < VB_PATIENCE_MOST || awake < length)
		return length;
	return awake < VB_PATIENCE_BUSY ? awake : VB_PATIENCE_BUSY;
}

bool vb_patience_goes_on(struct vb_patience *patience, vb_time *last, vb_time now, vb_time end)
{
	vb_time apart = now - *last;

	*last = now;
	if (apart < VB_PATIENCE_AWAY || !__atomic_load_n(&patience->by_itself, __ATOMIC_RELAXED))
		return now < end;
	__atomic_store_n(&patience->crowded, VB_PATIENCE_CROWDED, __ATOMIC_RELAXED);
	return false;
}

void vb_patience_slept(struct vb_patience *patience, vb_time how_long, vb_time now, bool by_itself)
{
	vb_time length = learned(patience);
	unsigned crowded = __atomic_load_n(&patience->crowded, __ATOMIC_RELAXED);

	if (crowded > 0)
		__atomic_store_n(&patience->crowded, by_itself ? crowded - 1 : 0, __ATOMIC_RELAXED);
	__atomic_store_n(&patience->by_itself, by_itself, __ATOMIC_RELAXED);
	if (how_long >= VB_PATIENCE_LONG_SLEEP)
		length = __atomic_add_fetch(&patience->long_sleeps, 1, __ATOMIC_RELAXED) % VB_PATIENCE_TRIES == 0 ? VB_PATIENCE_MOST :
			 VB_PATIENCE_LEAST;
	else
		length = length * 2 < VB_PATIENCE_MOST ? length * 2 : VB_PATIENCE_MOST;
	__atomic_store_n(&patience->length, length, __ATOMIC_RELAXED);
	__atomic_store_n(&patience->woke, now, __ATOMIC_RELAXED);
}
