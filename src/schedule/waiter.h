/* SPDX-License-Identifier: MIT
 *
 * A thread of the application that sleeps on the sockets of the wire itself, and on what processes of this host raise when they leave
 * something in memory, where it would else sleep until the engine thread has taken a packet and raised an event: one wake-up for each
 * packet instead of two. It makes the pass when it wakes up, for all threads. Such are threads of sockets (wire/sleeping_call.h), and
 * those that wait in ibv_get_cq_event (verbs/channel_wait.h), or for a channel by poll or epoll (verbs/descriptor_wait.h). Packets and
 * sockets stand for both in what follows.
 *
 * To the engine thread it is as one that polls: packets are left to it for a nap (schedule/naps.h), and for VB_WAITER_GRACE more while it
 * is asleep still, and taken after that if they still lie there. So nothing depends on its coming back. What is due by time is not left
 * to it: it sleeps until packets come.
 *
 * One thread at a time, and only if no other went to sleep of late: several would all be woken by each packet, and one that works
 * would keep those waiting that sleep. Nor beside one that polls, whose packets would wake it.
 *
 * Pure: the time is handed in.
 */
#ifndef VB_SCHEDULE_WAITER_H
#define VB_SCHEDULE_WAITER_H

#include <stdbool.h>

#include "base/time.h"

/* Threads that take turns at sleeping do so more often. */
#define VB_WAITER_ALONE VB_MILLISECONDS(2)

/* For so long after it was first seen, what lies in the sockets is left to one that was woken by it. */
#define VB_WAITER_GRACE VB_MILLISECONDS(1)

struct vb_waiter {
	const void *thread;                /* atomic: that last went to sleep: an address of its own */
	vb_time since;                     /* atomic: since when no other did */
	const void *waits;                 /* atomic: the thread that sleeps on the sockets; NULL: none */
	vb_time left;                      /* atomic: when it last stopped; 0: never */
	const void *last;                  /* atomic: the thread that did */
	bool needed;                       /* atomic: another thread counts on the engine thread */
	bool napping;                      /* atomic: the engine thread leaves the work to it for a moment */
};

/* That thread is about to sleep, on whatever. */
void vb_waiter_note(struct vb_waiter *waiter, const void *thread, vb_time now);
/* The same. True: it may sleep on the sockets, until vb_waiter_end. */
bool vb_waiter_begin(struct vb_waiter *waiter, const void *thread, vb_time now);
void vb_waiter_end(struct vb_waiter *waiter, vb_time now);

/* That thread slept on the sockets a moment ago, no other went to sleep since, and so it is about to do so again. */
bool vb_waiter_comes_back(const struct vb_waiter *waiter, const void *thread, vb_time now);
/* That thread is the one that last stopped sleeping on the sockets, a moment ago. */
bool vb_waiter_just_left(const struct vb_waiter *waiter, const void *thread, vb_time now);
/* Another thread is about to sleep, and counts on the engine thread until the next begin. True: that naps and must be told. */
bool vb_waiter_need_engine(struct vb_waiter *waiter);

/* It is asleep; or, and no other thread needs the engine thread, it stopped sleeping a moment ago, and polls before it does so again. */
bool vb_waiter_sleeps(const struct vb_waiter *waiter);
bool vb_waiter_attends(const struct vb_waiter *waiter, vb_time now);
/* Something lies in the sockets, and one that sleeps on them was woken by it: it waits for a processor. To work for it would take that
 * from it, and wake it all the same. Not for ever: it may be stopped. *since: 0, then kept by the caller until it has come. */
bool vb_waiter_may_still_come(const struct vb_waiter *waiter, vb_time *since, vb_time now);
/* When it last stopped sleeping; 0: never. */
vb_time vb_waiter_last_seen(const struct vb_waiter *waiter);

#endif
