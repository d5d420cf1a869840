/* SPDX-License-Identifier: MIT
 *
 * A binary heap by due time; each timer knows its place, so that it can be moved or taken out from the middle.
 */
#include "connect/timers.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

int vb_connect_timers_reserve(struct vb_connect_timers *timers, size_t count)
{
	struct vb_connect_timer **heap;
	size_t room = timers->room ? timers->room : 64;

	if (count <= timers->room)
		return 0;
	while (room < count)
		room *= 2;
	heap = realloc(timers->heap, room * sizeof(*heap));
	if (!heap)
		return -ENOMEM;
	timers->heap = heap;
	timers->room = room;
	return 0;
}

void vb_connect_timers_fini(struct vb_connect_timers *timers)
{
	free(timers->heap);
	*timers = (struct vb_connect_timers){0};
}

static void put_at(struct vb_connect_timers *timers, size_t index, struct vb_connect_timer *timer)
{
	timers->heap[index] = timer;
	timer->place = index + 1;
}

static void move_up(struct vb_connect_timers *timers, size_t index, struct vb_connect_timer *timer)
{
	while (index > 0 && timer->when < timers->heap[(index - 1) / 2]->when) {
		put_at(timers, index, timers->heap[(index - 1) / 2]);
		index = (index - 1) / 2;
	}
	put_at(timers, index, timer);
}

static void move_down(struct vb_connect_timers *timers, size_t index, struct vb_connect_timer *timer)
{
	for (;;) {
		size_t child = 2 * index + 1;

		if (child >= timers->count)
			break;
		if (child + 1 < timers->count && timers->heap[child + 1]->when < timers->heap[child]->when)
			child++;
		if (timer->when <= timers->heap[child]->when)
			break;
		put_at(timers, index, timers->heap[child]);
		index = child;
	}
	put_at(timers, index, timer);
}

void vb_connect_timer_cancel(struct vb_connect_timers *timers, struct vb_connect_timer *timer)
{
	struct vb_connect_timer *last;
	size_t index;

	if (timer->place == 0)
		return;
	index = timer->place - 1;
	timer->place = 0;
	last = timers->heap[--timers->count];
	if (last == timer)
		return;
	if (index > 0 && last->when < timers->heap[(index - 1) / 2]->when)
		move_up(timers, index, last);
	else
		move_down(timers, index, last);
}

void vb_connect_timer_set(struct vb_connect_timers *timers, struct vb_connect_timer *timer, vb_time when)
{
	vb_connect_timer_cancel(timers, timer);
	if (when == VB_TIME_NEVER)
		return;
	assert(timers->count < timers->room);
	timer->when = when;
	timers->count++;
	move_up(timers, timers->count - 1, timer);
}

struct vb_connect_timer *vb_connect_timers_first(const struct vb_connect_timers *timers)
{
	return timers->count > 0 ? timers->heap[0] : NULL;
}
