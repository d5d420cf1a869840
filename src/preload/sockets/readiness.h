/* SPDX-License-Identifier: MIT
 *
 * What poll(2) would say of a connection, and what to sleep on until it says something else.
 */
#ifndef VB_PRELOAD_SOCKETS_READINESS_H
#define VB_PRELOAD_SOCKETS_READINESS_H

#include <poll.h>
#include <stdbool.h>

#include "base/time.h"

struct vb_connection;
struct vb_connection_observer;

/* All that poll could report. before_sleep: what comes later makes the descriptors of vb_readiness_sleep readable.
 * Caller holds connection->lock. */
short vb_readiness_look(struct vb_connection *connection, bool before_sleep);

enum { VB_READINESS_FDS = 2 };           /* TCP, completions */

/* What to sleep on for these events, after a look before sleep. Caller holds connection->lock. */
void vb_readiness_sleep(struct vb_connection *connection, short events, struct pollfd fds[VB_READINESS_FDS]);
/* Completions were told of: take that. Caller holds connection->lock. */
void vb_readiness_collect(struct vb_connection *connection);
/* The thread sleeps on that, too (rdmacm/rsocket/stream.h), until vb_rstream_sleep_end; -1: not. Before the look before sleep. Caller holds
 * connection->lock. */
int vb_readiness_sleep_begin(struct vb_connection *connection);
/* It has slept so, and looks itself: completions need not be told of, unless others than it, and than the observer `own`, may wait for
 * that. Caller holds connection->lock. */
void vb_readiness_disarm(struct vb_connection *connection, const struct vb_connection_observer *own);
/* The calling thread is to be woken when another thread has taken it. -1: there is nothing to take yet. */
int vb_readiness_watch(struct vb_connection *connection);

/* Until one of the events is there; 0, -EAGAIN when it is too late, -EINTR. No lock. The caller holds a reference and nothing else: a
 * thread that is cancelled while it sleeps gives that back. */
int vb_readiness_wait(struct vb_connection *connection, short events, vb_time deadline);

#endif
