/* SPDX-License-Identifier: MIT
 *
 * When what is due: a binary heap of timers that stand inside the objects they belong to. Room is reserved when such an
 * object is made, so that setting a timer cannot fail.
 */
#ifndef VB_CONNECT_TIMERS_H
#define VB_CONNECT_TIMERS_H

#include <stddef.h>

#include "base/time.h"

struct vb_connect_timer {
	vb_time when;
	size_t place;                    /* 1 + index in the heap; 0: not set */
};

struct vb_connect_timers {
	struct vb_connect_timer **heap;
	size_t count, room;
};

int vb_connect_timers_reserve(struct vb_connect_timers *timers, size_t count); /* 0 or -ENOMEM */
void vb_connect_timers_fini(struct vb_connect_timers *timers);

void vb_connect_timer_set(struct vb_connect_timers *timers, struct vb_connect_timer *timer, vb_time when);
void vb_connect_timer_cancel(struct vb_connect_timers *timers, struct vb_connect_timer *timer);
/* The earliest timer, or NULL. */
struct vb_connect_timer *vb_connect_timers_first(const struct vb_connect_timers *timers);

#endif
