/* SPDX-License-Identifier: MIT
 *
 * Waiting: an eventfd to wake a sleeper, and a wait on a handful of descriptors with a nanosecond deadline.
 *
 * ppoll rather than epoll: the engine thread waits on four descriptors, must often wait on only some of them (a nap must not be
 * ended by a packet), and wants high-resolution timeouts on every kernel.
 */
#ifndef VB_IO_EVENT_H
#define VB_IO_EVENT_H

#include <stdbool.h>

#include "base/time.h"

int vb_event_open(void);                   /* descriptor or -errno */
void vb_event_raise(int fd);
void vb_event_clear(int fd);

struct vb_wait_item {
	int fd;                            /* negative: nobody to wait for */
	bool readable;                     /* out; true also for hang-up and error: reading tells */
};

/* Sleep until an item is readable or `deadline` (VB_TIME_NEVER: no end; past: only look). Signals are the caller's matter:
 * an interrupted wait returns with nothing readable. */
void vb_wait(struct vb_wait_item *items, unsigned count, vb_time deadline);

/* For threads that time naps: round timers to nothing, show this name. */
void vb_thread_prepare(const char *name);

#endif
