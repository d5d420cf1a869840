/* SPDX-License-Identifier: MIT
 *
 * Waiting: an eventfd to wake a sleeper, a wait on a handful of descriptors with a nanosecond deadline, and one on
 * many.
 *
 * ppoll rather than epoll for the handful: the engine thread waits on a few descriptors, must often wait on only some of
 * them (a nap must not be ended by a packet), and wants high-resolution timeouts on every kernel.
 */
#ifndef VB_IO_EVENT_H
#define VB_IO_EVENT_H

#include <stdbool.h>

#include "base/time.h"

int vb_event_open(void);                   /* descriptor or -errno */
void vb_event_raise(int fd);
void vb_event_clear(int fd);

enum { VB_WAIT_ITEMS = 64 };               /* at most, in one wait */

struct vb_wait_item {
	int fd;                            /* negative: nothing to wait for */
	bool readable;                     /* out; true also for hang-up and error: reading tells */
};

/* Sleep until an item is readable or `deadline` (VB_TIME_NEVER: no end; past: only look). Signals are the caller's
 * matter: an interrupted wait returns with nothing readable. */
void vb_wait(struct vb_wait_item *items, unsigned count, vb_time deadline);

/* Many descriptors at once, for the daemon: epoll, level-triggered. */
int vb_poller_open(void);                  /* descriptor or -errno */
int vb_poller_add(int poller, int fd, void *tag);
/* Report its errors only, not that it can be read. */
int vb_poller_add_for_errors(int poller, int fd, void *tag);
/* Report when it can be read (or has ended), when it can be written to. */
int vb_poller_add_wanting(int poller, int fd, void *tag, bool read, bool write);
void vb_poller_remove(int poller, int fd);
/* Report it also when it can be written to. */
void vb_poller_want_write(int poller, int fd, void *tag, bool wanted);
/* Report it when it can be read (or has ended), when it can be written to. It was added; neither: only its errors. */
void vb_poller_want(int poller, int fd, void *tag, bool read, bool write);
/* Tags of ready descriptors, at most `room`; waits until the deadline. */
unsigned vb_poller_wait(int poller, void **tags, unsigned room, vb_time deadline);

/* For threads that time naps: round timers to nothing, show this name. */
void vb_thread_prepare(const char *name);
/* The caller is a process between others: it works for moments, and they wait for it. It is to run as soon as it is woken, though it may be
 * interrupted sooner, too. Costs others nothing, and takes no privilege; where the kernel has no such thing, nothing happens. */
void vb_thread_prefer_soon(void);
/* The processor on which this thread runs, more or less; -1: not known. */
int vb_thread_cpu(void);
/* On how many this process may run. */
unsigned vb_processors(void);
/* Let others have this core for a moment, if another thread waits for it. */
void vb_thread_yield(void);

#endif
