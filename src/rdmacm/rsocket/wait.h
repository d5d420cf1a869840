/* SPDX-License-Identifier: MIT
 *
 * Sleeping on rsockets. A thread sleeps on the descriptors of completions and on an eventfd of its own, through which
 * the thread that changes an rsocket wakes those that watch it.
 */
#ifndef VB_RDMACM_RSOCKET_WAIT_H
#define VB_RDMACM_RSOCKET_WAIT_H

#include <stdbool.h>

#include "base/time.h"

struct vb_pace;
struct vb_rsocket;

/* Be woken when rs changes: the calling thread's eventfd, or -errno. Locks rs. */
int vb_rsocket_watch(struct vb_rsocket *rs);
/* The same without an rsocket: only the eventfd. */
int vb_rsocket_wake_fd(void);
void vb_rsocket_wake_clear(int wake_fd);
/* No more of the calling thread's watches. Locks each rsocket. */
void vb_rsocket_unwatch_all(void);

/* Something about rs has changed: wake everybody who watches it but the caller. Caller holds rs->lock. */
void vb_rsocket_wake(struct vb_rsocket *rs);
/* Is there such a thread? Caller holds rs->lock. */
bool vb_rsocket_is_watched(struct vb_rsocket *rs);

/* Take what has arrived and tell the others. Caller holds rs->lock. */
void vb_rsocket_progress(struct vb_rsocket *rs);

/* Until `ready`; lets go of rs->lock while sleeping. 0, -EAGAIN (out of patience), -EINTR, or -EBADF: closed
 * meanwhile, and only the caller's reference keeps rs. Caller holds rs->lock. */
int vb_rsocket_wait(struct vb_rsocket *rs, vb_time patience, bool (*ready)(struct vb_rsocket *rs));

/* The calling thread is in a call on rs, with a reference of its own, at which it may be cancelled while it sleeps: the reference is given
 * back then. NULL: it is in none. In all other waits it is not cancelled. */
void vb_rsocket_may_end(struct vb_rsocket *rs);

vb_time vb_rsocket_now(void);

/* The calling thread's. */
struct vb_pace *vb_rsocket_pace(void);
/* Until when it is to look, now, before it sleeps; at least `least`. */
vb_time vb_rsocket_look_until(vb_time least);
/* How that has ended. */
void vb_rsocket_looked(bool saw_something);

#endif
