/* SPDX-License-Identifier: MIT
 *
 * Event channels. The descriptor is an eventfd that is readable exactly while events are queued: it is written when
 * the queue stops being empty and read when it becomes so, both under the channel's lock, so poll() and
 * rdma_get_cm_event() never disagree. A blocking get waits on a futex rather than in read(): like the kernel's
 * channel it then restarts or returns EINTR as the program's signal handlers ask (SA_RESTART). As there, a thread may be cancelled while it
 * waits, and one that waits for events of a channel that another thread destroys goes on waiting: programs leave one behind as they end.
 */
#include "rdmacm/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "io/cancellation.h"
#include "io/clock.h"
#include "rdmacm/export.h"

/* The first is what a thread may need to get the processor where thirty programs begin at once. A program that takes many
 * requests before it uses any is known after a few that were held back for nothing, and need not wait so long each time. */
#define PATIENCE VB_MILLISECONDS(50)
#define LITTLE_PATIENCE VB_MILLISECONDS(2)
enum { MOST_UNTOUCHED = 3 };

VB_EXPORT struct rdma_event_channel *rdma_create_event_channel(void)
{
	VB_UNCANCELLED;
	struct vb_rdmacm_channel *channel = calloc(1, sizeof(*channel));

	if (channel == NULL)
		return NULL;
	channel->channel.fd = eventfd(0, EFD_CLOEXEC);
	if (channel->channel.fd < 0) {
		free(channel);
		return NULL;
	}
	vb_mutex_init(&channel->lock, VB_RANK_CM_CHANNEL);
	vb_list_init(&channel->events);
	return &channel->channel;
}

/* The last one frees what is destroyed. */
static void leave(void *argument)
{
	struct vb_rdmacm_channel *channel = argument;
	bool last;

	vb_mutex_lock(&channel->lock);
	last = --channel->inside == 0 && channel->destroyed;
	vb_mutex_unlock(&channel->lock);
	if (!last)
		return;
	vb_mutex_fini(&channel->lock);
	free(channel);
}

VB_EXPORT void rdma_destroy_event_channel(struct rdma_event_channel *public_channel)
{
	VB_UNCANCELLED;
	struct vb_rdmacm_channel *channel = vb_rdmacm_channel_of(public_channel);

	if (channel == NULL)
		return;
	/* The man page forbids this while ids are left; events that no thread will take any more are dropped. */
	vb_mutex_lock(&channel->lock);
	VB_LIST_FOR_EACH(node, &channel->events) {
		vb_list_remove(node);
		free(vb_container_of(node, struct vb_rdmacm_event, node));
	}
	close(channel->channel.fd);
	channel->destroyed = true;
	channel->inside++;
	vb_mutex_unlock(&channel->lock);
	leave(channel);
}

/* A sleeper that is not counted yet finds that the sequence has changed: the kernel looks at it after the count was raised. */
static void tell_change(struct vb_rdmacm_channel *channel)
{
	__atomic_add_fetch(&channel->sequence, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&channel->sleepers, __ATOMIC_SEQ_CST) != 0)
		syscall(SYS_futex, &channel->sequence, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void vb_rdmacm_channel_wake(struct vb_rdmacm_channel *channel)
{
	tell_change(channel);
}

/* Who sleeps found the queue empty, or its first event held back: neither changes by one more behind others. Of several sleepers the one
 * that is woken wakes the next (vb_rdmacm_channel_take). */
bool vb_rdmacm_channel_append(struct vb_rdmacm_channel *channel, struct vb_rdmacm_event *event)
{
	bool was_empty;

	vb_mutex_lock(&channel->lock);
	was_empty = vb_list_is_empty(&channel->events);
	vb_list_append(&channel->events, &event->node);
	while (was_empty && write(channel->channel.fd, &(uint64_t){1}, sizeof(uint64_t)) < 0 && errno == EINTR)
		;
	vb_mutex_unlock(&channel->lock);
	return was_empty;
}

void vb_rdmacm_channel_put(struct vb_rdmacm_channel *channel, struct vb_rdmacm_event *event)
{
	/* Who wakes up wants the channel's lock. The channel stays: its ids are destroyed first, and that waits for the owner's lock. */
	if (vb_rdmacm_channel_append(channel, event))
		tell_change(channel);
}

/* Caller holds channel->lock; the last event has just been removed. The eventfd holds 1, so this never blocks. */
static void make_unreadable(struct vb_rdmacm_channel *channel)
{
	uint64_t value;

	while (read(channel->channel.fd, &value, sizeof(value)) < 0 && errno == EINTR)
		;
}

static struct vb_rdmacm_event *pop_event(struct vb_rdmacm_channel *channel)
{
	struct vb_rdmacm_event *event;
	struct vb_rdmacm_id *owner;

	if (vb_list_is_empty(&channel->events))
		return NULL;
	event = vb_container_of(channel->events.next, struct vb_rdmacm_event, node);
	vb_list_remove(&event->node);
	if (vb_list_is_empty(&channel->events))
		make_unreadable(channel);
	/* Counted before the channel is let go: a destroy that runs now either still found the event queued or
	 * waits for its ack. */
	owner = event->owner;
	if (event->child != NULL)
		__atomic_sub_fetch(&owner->requests, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&owner->handed_out, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&owner->unacked, 1, __ATOMIC_SEQ_CST);
	return event;
}

void vb_rdmacm_channel_handed_out(struct vb_rdmacm_channel *channel, struct vb_rdmacm_id *child)
{
	vb_time patience;

	if (child->id.channel != &channel->channel)
		return; /* a synchronous listener: rdma_get_request is called for the next */
	if (__atomic_load_n(&channel->untouched, __ATOMIC_RELAXED) == 0)
		__atomic_store_n(&channel->left_untouched, 0, __ATOMIC_RELAXED);
	else
		__atomic_add_fetch(&channel->left_untouched, 1, __ATOMIC_RELAXED);
	patience = __atomic_load_n(&channel->left_untouched, __ATOMIC_RELAXED) < MOST_UNTOUCHED ? PATIENCE : LITTLE_PATIENCE;
	__atomic_store_n(&child->untouched, true, __ATOMIC_RELAXED);
	__atomic_store_n(&channel->patience, vb_clock_now() + patience, __ATOMIC_RELAXED);
	__atomic_add_fetch(&channel->untouched, 1, __ATOMIC_RELAXED);
}

void vb_rdmacm_channel_touched(struct vb_rdmacm_id *child)
{
	struct vb_rdmacm_channel *channel = vb_rdmacm_channel_of(child->id.channel);

	if (__atomic_load_n(&child->untouched, __ATOMIC_RELAXED) && __atomic_exchange_n(&child->untouched, false, __ATOMIC_RELAXED) &&
	    __atomic_sub_fetch(&channel->untouched, 1, __ATOMIC_SEQ_CST) == 0)
		tell_change(channel);
}

/* How long the next event is to be held back: 0, it is not. Caller holds channel->lock. */
static vb_time held_back(const struct vb_rdmacm_channel *channel)
{
	vb_time left = 0;

	if (__atomic_load_n(&channel->untouched, __ATOMIC_SEQ_CST) != 0 && !vb_list_is_empty(&channel->events) &&
	    vb_container_of(channel->events.next, struct vb_rdmacm_event, node)->child != NULL)
		left = __atomic_load_n(&channel->patience, __ATOMIC_RELAXED) - vb_clock_now();
	return left > 0 ? left : 0;
}

/* A thread that was cancelled may have been woken for an event, which is another's now. */
static void give_up_waiting(void *argument)
{
	struct vb_rdmacm_channel *channel = argument;

	__atomic_sub_fetch(&channel->sleepers, 1, __ATOMIC_RELAXED);
	tell_change(channel);
	leave(channel);
}

/* Since the sequence was `seen`; `most`: 0 is for ever. 0 or -EINTR. Caller holds no lock: the thread may be cancelled. */
static int wait_for_change(struct vb_rdmacm_channel *channel, uint32_t seen, vb_time most)
{
	const struct timespec timeout = {.tv_sec = most / VB_SECONDS(1), .tv_nsec = most % VB_SECONDS(1)};
	unsigned scopes, owed;
	int error;
	long result;

	__atomic_add_fetch(&channel->sleepers, 1, __ATOMIC_SEQ_CST);
	owed = vb_cancellation_owe(give_up_waiting, channel);
	scopes = vb_cancellation_allow();
	/* A system call that is not the C library's ends for no other reason. */
	vb_cancellation_begin_call();
	result = syscall(SYS_futex, &channel->sequence, FUTEX_WAIT_PRIVATE, seen, most > 0 ? &timeout : NULL, NULL, 0);
	error = errno;
	vb_cancellation_end_call();
	vb_cancellation_forbid(scopes);
	vb_cancellation_settled(owed);
	__atomic_sub_fetch(&channel->sleepers, 1, __ATOMIC_RELAXED);
	return result != 0 && error == EINTR ? -EINTR : 0;
}

static int take(struct vb_rdmacm_channel *channel, struct vb_rdmacm_event **event)
{
	for (;;) {
		int flags = 0, error = 0;
		bool more, destroyed;
		uint32_t seen;
		vb_time held;

		vb_mutex_lock(&channel->lock);
		seen = __atomic_load_n(&channel->sequence, __ATOMIC_SEQ_CST);
		destroyed = channel->destroyed;
		held = held_back(channel);
		if (held > 0) {
			vb_mutex_unlock(&channel->lock);
			(void)wait_for_change(channel, seen, held);
			continue;
		}
		*event = pop_event(channel);
		more = !vb_list_is_empty(&channel->events);
		/* Here, where no other thread closes it: its number may be another file's soon. */
		if (*event == NULL && !destroyed) {
			flags = fcntl(channel->channel.fd, F_GETFL);
			error = flags < 0 ? -errno : 0;
		}
		vb_mutex_unlock(&channel->lock);
		if (more)
			tell_change(channel);
		if (*event != NULL || error != 0)
			return error;
		if (flags & O_NONBLOCK)
			return -EAGAIN;
		if (wait_for_change(channel, seen, 0) != 0)
			return -EINTR;
	}
}

int vb_rdmacm_channel_take(struct vb_rdmacm_channel *channel, struct vb_rdmacm_event **event)
{
	int error;

	vb_mutex_lock(&channel->lock);
	channel->inside++;
	vb_mutex_unlock(&channel->lock);
	error = take(channel, event);
	leave(channel);
	return error;
}

bool vb_rdmacm_channel_is_empty(struct vb_rdmacm_channel *channel)
{
	bool empty;

	vb_mutex_lock(&channel->lock);
	empty = vb_list_is_empty(&channel->events);
	vb_mutex_unlock(&channel->lock);
	return empty;
}

void vb_rdmacm_channel_remove(struct vb_rdmacm_channel *channel, const struct vb_rdmacm_id *owner, struct vb_list *events)
{
	bool any = false;

	vb_mutex_lock(&channel->lock);
	VB_LIST_FOR_EACH(node, &channel->events) {
		if (vb_container_of(node, struct vb_rdmacm_event, node)->owner != owner)
			continue;
		vb_list_remove(node);
		vb_list_append(events, node);
		any = true;
	}
	if (any && vb_list_is_empty(&channel->events))
		make_unreadable(channel);
	vb_mutex_unlock(&channel->lock);
}

int vb_rdmacm_channel_tell(struct vb_rdmacm_id *id, enum rdma_cm_event_type type, int status)
{
	struct vb_rdmacm_event *event = calloc(1, sizeof(*event));

	if (event == NULL)
		return -ENOMEM;
	event->owner = id;
	event->event.id = &id->id;
	event->event.event = type;
	event->event.status = status;
	vb_mutex_lock(&id->lock);
	vb_rdmacm_channel_put(vb_rdmacm_channel_of(id->id.channel), event);
	vb_mutex_unlock(&id->lock);
	return 0;
}
