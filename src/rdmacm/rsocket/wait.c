/* SPDX-License-Identifier: MIT
 *
 * Why no sleeper misses a change: a sleeper first watches the rsocket, then arms its completions, then looks, all under
 * the rsocket's lock, and only then sleeps. Whatever happens later either makes the completion descriptor readable
 * and keeps it so, or was taken by another thread, which under the same lock wakes every watcher. Without the second
 * part a thread could be woken by a descriptor that another has emptied before it looked, and sleep on although its
 * data had come.
 */
#include "rdmacm/rsocket/wait.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/inline.h"
#include "io/cancellation.h"
#include "io/event.h"
#include "io/signals.h"
#include "io/uncancelled.h"
#include "rdmacm/rsocket/pace.h"
#include "rdmacm/rsocket/rsocket.h"
#include "rdmacm/rsocket/settings.h"

/* One sleeper's interest in one rsocket. Not on the sleeper's stack: iperf3, for one, leaves its signal handlers with
 * longjmp, and what is linked must outlive that. */
struct watch {
	struct vb_list node;             /* in rs->watchers */
	struct watch *next;              /* of the same thread */
	struct vb_rsocket *rs;           /* a reference */
	int wake_fd;
};

/* A thread that has slept: its descriptor, the process that opened it (after fork it would wake the parent's thread),
 * and what it watches. */
static _Thread_local struct sleeper {
	int wake_fd;
	pid_t pid;
	struct watch *watches;
} own = {.wake_fd = -1};
static pthread_key_t key;
static bool key_is_made;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void forget_thread(void *unused)
{
	(void)unused;
	vb_rsocket_unwatch_all();
	if (own.wake_fd >= 0)
		close(own.wake_fd);
	own.wake_fd = -1;
}

static void make_key(void)
{
	key_is_made = pthread_key_create(&key, forget_thread) == 0;
}

int vb_rsocket_wake_fd(void)
{
	pid_t self = getpid();

	if (own.wake_fd >= 0 && own.pid == self)
		return own.wake_fd;

	VB_UNCANCELLED;

	if (own.wake_fd >= 0)
		close(own.wake_fd);
	own.watches = NULL;              /* the parent's, if any */
	own.wake_fd = vb_event_open();
	if (own.wake_fd < 0)
		return own.wake_fd;
	own.pid = self;
	pthread_once(&once, make_key);
	if (key_is_made)
		pthread_setspecific(key, &own);
	return own.wake_fd;
}

void vb_rsocket_wake_clear(int wake_fd)
{
	uint64_t count;

	(void)!vb_call_read(wake_fd, &count, sizeof(count));
}

int vb_rsocket_watch(struct vb_rsocket *rs)
{
	int wake_fd = vb_rsocket_wake_fd();
	struct watch *watch;

	if (wake_fd < 0)
		return wake_fd;
	watch = calloc(1, sizeof(*watch));
	if (watch == NULL)
		return -ENOMEM;
	watch->rs = vb_rsocket_hold(rs);
	watch->wake_fd = wake_fd;
	watch->next = own.watches;
	own.watches = watch;
	vb_mutex_lock(&rs->lock);
	vb_list_append(&rs->watchers, &watch->node);
	vb_mutex_unlock(&rs->lock);
	return wake_fd;
}

void vb_rsocket_unwatch_all(void)
{
	struct watch *watch;

	while ((watch = own.watches) != NULL) {
		own.watches = watch->next;
		vb_mutex_lock(&watch->rs->lock);
		vb_list_remove(&watch->node);
		vb_mutex_unlock(&watch->rs->lock);
		vb_rsocket_put(watch->rs);
		free(watch);
	}
}

void vb_rsocket_wake(struct vb_rsocket *rs)
{
	VB_LIST_FOR_EACH(node, &rs->watchers) {
		const struct watch *watch = vb_container_of(node, struct watch, node);

		if (watch->wake_fd != own.wake_fd)
			(void)!vb_call_write(watch->wake_fd, &(uint64_t){1}, sizeof(uint64_t));
	}
}

bool vb_rsocket_is_watched(struct vb_rsocket *rs)
{
	vb_mutex_assert_held(&rs->lock);
	VB_LIST_FOR_EACH(node, &rs->watchers)
		if (vb_container_of(node, struct watch, node)->wake_fd != own.wake_fd)
			return true;
	return false;
}

void vb_rsocket_progress(struct vb_rsocket *rs)
{
	if (rs->kind->progress(rs))
		vb_rsocket_wake(rs);
}

vb_time vb_rsocket_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return VB_SECONDS(now.tv_sec) + now.tv_nsec;
}

struct vb_pace *vb_rsocket_pace(void)
{
	static VB_THREAD_LOCAL struct vb_pace pace;

	return &pace;
}

vb_time vb_rsocket_look_until(vb_time least)
{
	vb_time configured = VB_MICROSECONDS(vb_rsocket_settings()->polling_microseconds), length = vb_pace_length(vb_rsocket_pace());

	if (length < configured)
		length = configured;
	return vb_rsocket_now() + (length > least ? length : least);
}

void vb_rsocket_looked(bool saw_something)
{
	if (saw_something)
		vb_pace_saw(vb_rsocket_pace());
	else
		vb_pace_saw_nothing(vb_rsocket_pace());
}

/* The rsocket of a call of this thread that may end while it sleeps, with the reference of that call. */
static VB_THREAD_LOCAL struct vb_rsocket *may_end;

void vb_rsocket_may_end(struct vb_rsocket *rs)
{
	may_end = rs;
}

static void give_up_call(void *rs)
{
	vb_rsocket_unwatch_all();
	vb_rsocket_put(rs);
}

/* As ppoll(2); the thread may be cancelled in the call of a program that may wait, and in no other. Caller holds no lock. */
static int sleep_on(struct vb_rsocket *rs, struct pollfd *fds, nfds_t count, const struct timespec *timeout)
{
	int result, error;

	if (may_end == rs) {
		unsigned owed = vb_cancellation_owe(give_up_call, rs), scopes = vb_cancellation_allow();

		result = ppoll(fds, count, timeout, NULL);
		error = errno;
		vb_cancellation_forbid(scopes);
		vb_cancellation_settled(owed);
	} else {
		VB_UNCANCELLED;

		result = ppoll(fds, count, timeout, NULL);
		error = errno;
	}
	errno = error;
	return result;
}

/* Caller holds rs->lock, and holds it again afterwards. 0, -EAGAIN or -EINTR. */
static int sleep_until_change(struct vb_rsocket *rs, int wake_fd, vb_time deadline) VB_NEEDS(rs->lock)
{
	vb_time left = deadline == VB_TIME_NEVER ? 0 : deadline - vb_rsocket_now();
	struct timespec timeout = {.tv_sec = left / VB_SECONDS(1), .tv_nsec = left % VB_SECONDS(1)};
	struct pollfd fds[] = {
		{.fd = wake_fd, .events = POLLIN},
		{.fd = rs->kind->wait_fd(rs), .events = POLLIN},
	};
	int result = 0;

	if (left < 0)
		return -EAGAIN;
	vb_mutex_unlock(&rs->lock);
	/* With a timeout they are never restarted (man 7 signal). */
	if (sleep_on(rs, fds, 2, deadline == VB_TIME_NEVER ? NULL : &timeout) < 0 && errno == EINTR &&
	    (deadline != VB_TIME_NEVER || !vb_signals_restart_calls()))
		result = -EINTR;
	if (fds[0].revents != 0)
		vb_rsocket_wake_clear(wake_fd);
	vb_mutex_lock(&rs->lock);
	if (!rs->closed && fds[1].revents != 0) {
		VB_UNCANCELLED;

		rs->kind->collect(rs);
	}
	return result;
}

/* Look for a while before the expense of sleeping. Caller holds rs->lock. */
static bool becomes_ready_soon(struct vb_rsocket *rs, bool (*ready)(struct vb_rsocket *rs)) VB_NEEDS(rs->lock)
{
	vb_time end = vb_rsocket_look_until(0);
	bool is_ready;

	do {
		/* Let the others have a look too. */
		vb_mutex_unlock(&rs->lock);
		vb_mutex_lock(&rs->lock);
		if (rs->closed)
			return false;
		vb_rsocket_progress(rs);
		is_ready = ready(rs);
	} while (!is_ready && vb_rsocket_now() < end);
	vb_rsocket_looked(is_ready);
	return is_ready;
}

int vb_rsocket_wait(struct vb_rsocket *rs, vb_time patience, bool (*ready)(struct vb_rsocket *rs))
{
	vb_time deadline = VB_TIME_NEVER;
	int wake_fd, error = 0;

	vb_mutex_assert_held(&rs->lock);
	vb_rsocket_progress(rs);
	if (ready(rs))
		return 0;
	if (patience == 0)
		return -EAGAIN;
	if (patience != VB_TIME_NEVER)
		deadline = vb_rsocket_now() + patience;
	if (becomes_ready_soon(rs, ready))
		return 0;
	vb_rsocket_unwatch_all();
	wake_fd = vb_rsocket_watch(rs);
	if (wake_fd < 0)
		return wake_fd;
	while (error == 0) {
		if (rs->closed) {
			error = -EBADF;
			break;
		}
		rs->kind->arm(rs);
		vb_rsocket_progress(rs);
		if (ready(rs))
			break;
		error = sleep_until_change(rs, wake_fd, deadline);
	}
	vb_rsocket_unwatch_all();
	return error;
}
