/* SPDX-License-Identifier: MIT
 *
 * Why nobody misses a change: a sleeper first watches the rsocket, then arms its completions, then looks, all under the
 * rsocket's lock, and only then sleeps. Whatever happens later either makes the completion descriptor readable and keeps it so,
 * or was taken by another thread, which under the same lock wakes every watcher. Without the second part a thread could be
 * woken by a descriptor that another has emptied before it looked, and sleep on although its data had come.
 */
#include "rdmacm/rsocket/wait.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "rdmacm/rsocket/rsocket.h"
#include "rdmacm/rsocket/settings.h"

/* The descriptor and the process that opened it: after fork it would wake the parent's thread. */
static _Thread_local int own_wake_fd = -1;
static _Thread_local pid_t own_wake_pid;
static pthread_key_t key;
static bool key_is_made;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void close_wake_fd(void *opened)
{
	(void)opened;
	if (own_wake_fd >= 0)
		close(own_wake_fd);
	own_wake_fd = -1;
}

static void make_key(void)
{
	key_is_made = pthread_key_create(&key, close_wake_fd) == 0;
}

int vb_rsocket_wake_fd(void)
{
	pid_t self = getpid();

	if (own_wake_fd >= 0 && own_wake_pid == self)
		return own_wake_fd;
	if (own_wake_fd >= 0)
		close(own_wake_fd);
	own_wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (own_wake_fd < 0)
		return -errno;
	own_wake_pid = self;
	pthread_once(&once, make_key);
	if (key_is_made)
		pthread_setspecific(key, &own_wake_fd);
	return own_wake_fd;
}

void vb_rsocket_wake_clear(int wake_fd)
{
	uint64_t count;

	(void)!read(wake_fd, &count, sizeof(count));
}

/* Not inlined: gcc 12 would see a local watch being linked, but not that it is unlinked before it goes. */
__attribute__((noinline)) void vb_rsocket_watch_begin(struct vb_rsocket *rs, struct vb_rsocket_watch *watch, int wake_fd)
{
	watch->wake_fd = wake_fd;
	vb_list_append(&rs->watchers, &watch->node);
}

void vb_rsocket_watch_end(struct vb_rsocket_watch *watch)
{
	vb_list_remove(&watch->node);
}

void vb_rsocket_wake(struct vb_rsocket *rs)
{
	VB_LIST_FOR_EACH(node, &rs->watchers) {
		const struct vb_rsocket_watch *watch = vb_container_of(node, struct vb_rsocket_watch, node);

		if (watch->wake_fd != own_wake_fd)
			(void)!write(watch->wake_fd, &(uint64_t){1}, sizeof(uint64_t));
	}
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

/* ppoll is never restarted after a handler has run, recv and send are if the handler was installed with SA_RESTART (man 7
 * signal). Which handler ran cannot be found out, so: restart when all of the program's handlers ask for it. */
static bool signals_restart_calls(void)
{
	struct sigaction action;

	for (int number = 1; number < NSIG; number++) {
		if (sigaction(number, NULL, &action) != 0 || action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN)
			continue;
		if ((action.sa_flags & SA_RESTART) == 0)
			return false;
	}
	return true;
}

/* Caller holds rs->lock, and holds it again afterwards. 0 or -EINTR. */
static int sleep_until_change(struct vb_rsocket *rs, int wake_fd)
{
	struct pollfd fds[] = {
		{.fd = wake_fd, .events = POLLIN},
		{.fd = rs->kind->wait_fd(rs), .events = POLLIN},
	};
	int result;

	pthread_mutex_unlock(&rs->lock);
	result = ppoll(fds, 2, NULL, NULL) < 0 && errno == EINTR && !signals_restart_calls() ? -EINTR : 0;
	if (fds[0].revents != 0)
		vb_rsocket_wake_clear(wake_fd);
	pthread_mutex_lock(&rs->lock);
	if (!rs->closed && fds[1].revents != 0)
		rs->kind->collect(rs);
	return result;
}

/* Look for a while before the expense of sleeping. Caller holds rs->lock. */
static bool becomes_ready_soon(struct vb_rsocket *rs, bool (*ready)(struct vb_rsocket *rs))
{
	vb_time end = vb_rsocket_now() + VB_MICROSECONDS(vb_rsocket_settings()->polling_microseconds);

	do {
		/* Let the others have a look too. */
		pthread_mutex_unlock(&rs->lock);
		pthread_mutex_lock(&rs->lock);
		if (rs->closed)
			return false;
		vb_rsocket_progress(rs);
		if (ready(rs))
			return true;
	} while (vb_rsocket_now() < end);
	return false;
}

int vb_rsocket_wait(struct vb_rsocket *rs, bool nonblocking, bool (*ready)(struct vb_rsocket *rs))
{
	struct vb_rsocket_watch watch;
	int wake_fd, error = 0;

	vb_rsocket_progress(rs);
	if (ready(rs))
		return 0;
	if (nonblocking)
		return -EAGAIN;
	if (becomes_ready_soon(rs, ready))
		return 0;
	wake_fd = vb_rsocket_wake_fd();
	if (wake_fd < 0)
		return wake_fd;
	vb_rsocket_watch_begin(rs, &watch, wake_fd);
	while (error == 0) {
		if (rs->closed) {
			error = -EBADF;
			break;
		}
		rs->kind->arm(rs);
		vb_rsocket_progress(rs);
		if (ready(rs))
			break;
		error = sleep_until_change(rs, wake_fd);
	}
	vb_rsocket_watch_end(&watch);
	return error;
}
