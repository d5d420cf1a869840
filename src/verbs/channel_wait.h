/* SPDX-License-Identifier: MIT
 *
 * How a thread waits in ibv_get_cq_event: on the sockets of the wire and on what host peers raise, where it may (schedule/waiter.h), and
 * then it makes the pass that brings its event; else until another thread has raised the channel.
 */
#ifndef VB_VERBS_CHANNEL_WAIT_H
#define VB_VERBS_CHANNEL_WAIT_H

#include "verbs/objects.h"

/* 0: look for an event. Or -EAGAIN: the program made its descriptor non-blocking; -EINTR; -EBADF: destroyed. Caller holds no lock; the
 * thread may be cancelled. */
int vb_channel_wait(struct vb_channel *channel);
/* The calling thread makes a pass for that channel, and takes from it what the pass brings: no thread has to be woken. */
bool vb_channel_is_collected(const struct vb_channel *channel);

#endif
