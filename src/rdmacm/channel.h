/* SPDX-License-Identifier: MIT
 *
 * An event channel: a queue of events and a file descriptor that is readable while the queue is not empty.
 */
#ifndef VB_RDMACM_CHANNEL_H
#define VB_RDMACM_CHANNEL_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/mutex.h"
#include "base/time.h"
#include "rdmacm/id.h"

struct vb_rdmacm_group;

/* One event, from the moment it happens until the program acknowledges it. */
struct vb_rdmacm_event {
	struct rdma_cm_event event;      /* first: what the program holds */
	struct vb_list node;             /* in its channel's queue */
	struct vb_rdmacm_id *owner;      /* whose acknowledgements it counts for: a request's is the listener */
	struct vb_rdmacm_id *child;      /* CONNECT_REQUEST: the new id */
	struct vb_rdmacm_group *group;   /* MULTICAST_JOIN, MULTICAST_ERROR */
	bool from_daemon;
	struct vb_cm_event told;         /* from_daemon: what verbenad said */
};

struct vb_rdmacm_channel {
	struct rdma_event_channel channel; /* first: what the program holds */
	struct vb_mutex lock;
	struct vb_list events;
	unsigned inside;                 /* under `lock`: threads that take an event or wait for one. */
	bool destroyed;                  /* under `lock` */
	uint32_t sequence;               /* futex: bumped with every event */
	unsigned sleepers;               /* threads that wait for it, or are about to; atomic. Too many only after longjmp from a handler */
	unsigned untouched;              /* requests handed out whose ids the program has not used yet; atomic */
	unsigned left_untouched;         /* times in a row that one was still so when the next was asked for; atomic */
	vb_time patience;                /* until when to wait for that, before handing out another; atomic */
};

static inline struct vb_rdmacm_channel *vb_rdmacm_channel_of(struct rdma_event_channel *channel)
{
	return (struct vb_rdmacm_channel *)(void *)channel;
}

/* Queue an event and make the descriptor readable. Caller holds the lock of the event's owner. */
void vb_rdmacm_channel_put(struct vb_rdmacm_channel *channel, struct vb_rdmacm_event *event);

/* The same for one of many events: true, who sleeps is to be woken when the caller has let go of what that thread will want. Until then
 * the caller sees to it that the channel stays. */
bool vb_rdmacm_channel_append(struct vb_rdmacm_channel *channel, struct vb_rdmacm_event *event);
void vb_rdmacm_channel_wake(struct vb_rdmacm_channel *channel);

/* The oldest event; counts as unacknowledged by its owner from here on. Waits, unless the descriptor is O_NONBLOCK.
 * 0 or -errno (EAGAIN, EINTR). */
int vb_rdmacm_channel_take(struct vb_rdmacm_channel *channel, struct vb_rdmacm_event **event);

bool vb_rdmacm_channel_is_empty(struct vb_rdmacm_channel *channel);

/* A request's id goes to the program. Programs hand it to another thread and come back for the next request; some
 * have room for just one (rping). So the next is held back until a thread has used the id, or two milliseconds. */
void vb_rdmacm_channel_handed_out(struct vb_rdmacm_channel *channel, struct vb_rdmacm_id *child);
void vb_rdmacm_channel_touched(struct vb_rdmacm_id *child);

/* Move the events that belong to `owner` into `events` (an initialised list). */
void vb_rdmacm_channel_remove(struct vb_rdmacm_channel *channel, const struct vb_rdmacm_id *owner, struct vb_list *events);

/* An event of the library's own making for `id`: ADDR_RESOLVED and the like. 0 or -ENOMEM. */
int vb_rdmacm_channel_tell(struct vb_rdmacm_id *id, enum rdma_cm_event_type type, int status);

#endif
