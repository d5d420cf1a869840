/* SPDX-License-Identifier: MIT
 *
 * rpoll. Rsockets are asked, ordinary descriptors are polled by the kernel; when nothing is to be told, the thread
 * watches all the rsockets, arms their completions, looks again and then sleeps in one ppoll on everything (wait.c
 * says why nothing is missed).
 */
#include "rdmacm/rsocket/poll.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/time.h"
#include "io/cancellation.h"
#include "io/uncancelled.h"
#include "rdmacm/rsocket/rsocket.h"
#include "rdmacm/rsocket/settings.h"
#include "rdmacm/rsocket/wait.h"

enum { FEW = 16 };                       /* so many descriptors need no allocation */

struct polling {
	struct pollfd *fds;              /* the program's */
	nfds_t count;
	struct vb_rsocket **polled;      /* the rsocket of each, or NULL: an ordinary descriptor */
	struct pollfd *kernel;           /* what the kernel is asked: the same order, and our eventfd at the end */
	bool has_ordinary, has_rsockets;
	int wake_fd;
	struct pollfd *own_fds;          /* of rselect */
	struct vb_rsocket *few_polled[FEW];
	struct pollfd few_kernel[FEW + 1];
};

static short wanted(short events, short happened)
{
	return happened & (events | POLLERR | POLLHUP | POLLNVAL);
}

static int begin(struct polling *polling, struct pollfd *fds, nfds_t count)
{
	polling->fds = fds;
	polling->count = count;
	polling->polled = polling->few_polled;
	polling->kernel = polling->few_kernel;
	polling->has_ordinary = polling->has_rsockets = false;
	polling->wake_fd = -1;
	if (count > FEW) {
		polling->polled = calloc(count, sizeof(*polling->polled));
		polling->kernel = calloc(count + 1, sizeof(*polling->kernel));
	}
	if (polling->polled == NULL || polling->kernel == NULL) {
		free(polling->polled);
		free(polling->kernel);
		return -ENOMEM;
	}
	for (nfds_t i = 0; i < count; i++) {
		struct vb_rsocket *rs = fds[i].fd < 0 ? NULL : vb_rsocket_get(fds[i].fd);

		polling->polled[i] = rs;
		polling->kernel[i] = (struct pollfd){.fd = rs != NULL ? -1 : fds[i].fd, .events = fds[i].events};
		if (rs != NULL)
			polling->has_rsockets = true;
		else if (fds[i].fd >= 0)
			polling->has_ordinary = true;
	}
	polling->kernel[count] = (struct pollfd){.fd = -1, .events = POLLIN};
	return 0;
}

/* What this thread polls. Not on its stack, which is gone when a thread that was cancelled gives it back. A call in a signal handler, or
 * after one has left a call by longjmp, has another. */
static _Thread_local struct polling own;
static _Thread_local bool own_is_used;

static struct polling *claim(void)
{
	if (own_is_used)
		return malloc(sizeof(struct polling));
	own_is_used = true;
	return &own;
}

static void unclaim(struct polling *polling)
{
	if (polling == &own)
		own_is_used = false;
	else
		free(polling);
}

static void end(void *argument)
{
	struct polling *polling = argument;

	if (polling->wake_fd >= 0)
		vb_rsocket_unwatch_all();
	for (nfds_t i = 0; i < polling->count; i++) {
		struct vb_rsocket *rs = polling->polled[i];

		if (rs != NULL)
			vb_rsocket_put(rs);
	}
	if (polling->polled != polling->few_polled)
		free(polling->polled);
	if (polling->kernel != polling->few_kernel)
		free(polling->kernel);
	free(polling->own_fds);
	unclaim(polling);
}

/* Ask one rsocket; before a sleep also prepare it for that. */
static short ask(struct polling *polling, nfds_t i, bool before_sleep)
{
	struct vb_rsocket *rs = polling->polled[i];
	short happened = POLLNVAL;

	vb_mutex_lock(&rs->lock);
	if (!rs->closed) {
		if (polling->kernel[i].revents != 0) {
			VB_UNCANCELLED;

			rs->kind->collect(rs);
		}
		polling->kernel[i].revents = 0;
		if (before_sleep)
			rs->kind->arm(rs);
		vb_rsocket_progress(rs);
		happened = rs->kind->revents(rs);
		polling->kernel[i].fd = before_sleep ? rs->kind->wait_fd(rs) : -1;
		polling->kernel[i].events = POLLIN;
	}
	vb_mutex_unlock(&rs->lock);
	return happened;
}

/* Fill in the program's revents. How many entries have some. */
static int look(struct polling *polling, bool before_sleep)
{
	int ready = 0;

	for (nfds_t i = 0; i < polling->count; i++) {
		short happened = polling->polled[i] != NULL ? ask(polling, i, before_sleep) :
				 polling->kernel[i].revents;

		polling->fds[i].revents = wanted(polling->fds[i].events, happened);
		if (polling->fds[i].revents != 0)
			ready++;
	}
	return ready;
}

/* Ordinary descriptors as they are now. 0 or -errno. */
static int poll_ordinary(struct polling *polling)
{
	static const struct timespec at_once;

	if (!polling->has_ordinary)
		return 0;
	/* No point at which the thread is cancelled: that is where it sleeps. */
	return vb_call_ppoll(polling->kernel, polling->count, &at_once) < 0 ? -errno : 0;
}

/* Without sleeping, for as long as it is worth it. */
static int look_a_while(struct polling *polling, vb_time deadline)
{
	vb_time enough = vb_rsocket_look_until(0);
	int result;

	if (enough > deadline)
		enough = deadline;
	do {
		result = poll_ordinary(polling);
		if (result == 0)
			result = look(polling, false);
	} while (result == 0 && polling->has_rsockets && vb_rsocket_now() < enough);
	/* Who does not wait has learned nothing. */
	if (result != 0 || enough < deadline)
		vb_rsocket_looked(result != 0);
	return result;
}

static int watch_all(struct polling *polling)
{
	vb_rsocket_unwatch_all();
	polling->wake_fd = vb_rsocket_wake_fd();
	for (nfds_t i = 0; i < polling->count && polling->wake_fd >= 0; i++)
		if (polling->polled[i] != NULL)
			polling->wake_fd = vb_rsocket_watch(polling->polled[i]);
	polling->kernel[polling->count].fd = polling->wake_fd;
	return polling->wake_fd < 0 ? polling->wake_fd : 0;
}

static int sleep_once(struct polling *polling, vb_time now, vb_time deadline)
{
	uint32_t interval = polling->has_rsockets ? vb_rsocket_settings()->wake_up_milliseconds : VB_RSOCKET_NO_INTERVAL;
	vb_time most = interval == VB_RSOCKET_NO_INTERVAL ? VB_TIME_NEVER : VB_MILLISECONDS(interval);
	vb_time left = deadline == VB_TIME_NEVER ? VB_TIME_NEVER : deadline - now;
	struct timespec timeout;
	unsigned owed;
	int result;

	left = vb_time_earlier(left, most);
	timeout = (struct timespec){.tv_sec = left / VB_SECONDS(1), .tv_nsec = left % VB_SECONDS(1)};
	owed = vb_cancellation_owe(end, polling);
	result = ppoll(polling->kernel, polling->count + 1, left == VB_TIME_NEVER ? NULL : &timeout, NULL);
	vb_cancellation_settled(owed);
	if (result < 0)
		return -errno;
	if (polling->kernel[polling->count].revents != 0)
		vb_rsocket_wake_clear(polling->wake_fd);
	return 0;
}

static int poll_until(struct polling *polling, vb_time deadline)
{
	int result = look_a_while(polling, deadline);
	vb_time now;

	if (result != 0 || vb_rsocket_now() >= deadline)
		return result;
	result = watch_all(polling);
	while (result == 0) {
		result = look(polling, true);
		if (result != 0)
			break;
		now = vb_rsocket_now();
		if (now >= deadline)
			break;
		result = sleep_once(polling, now, deadline);
	}
	return result;
}

/* own_fds: to be freed by a thread that does not come back; or NULL. */
static int poll_for(struct pollfd *fds, nfds_t count, int timeout_milliseconds, struct pollfd *own_fds)
{
	struct polling *polling = claim();
	int result = polling != NULL ? begin(polling, fds, count) : -ENOMEM;

	if (result != 0) {
		if (polling != NULL)
			unclaim(polling);
		return result;
	}
	polling->own_fds = own_fds;
	result = poll_until(polling, timeout_milliseconds < 0 ? VB_TIME_NEVER :
				     vb_rsocket_now() + VB_MILLISECONDS(timeout_milliseconds));
	polling->own_fds = NULL;
	end(polling);
	return result;
}

int vb_rsocket_poll(struct pollfd *fds, nfds_t count, int timeout_milliseconds)
{
	return poll_for(fds, count, timeout_milliseconds, NULL);
}

static bool is_set(int fd, const fd_set *set)
{
	return set != NULL && FD_ISSET(fd, set);
}

static nfds_t fill_poll_list(struct pollfd *fds, int count, const fd_set *readable, const fd_set *writable,
			     const fd_set *exceptional)
{
	nfds_t used = 0;

	for (int fd = 0; fd < count; fd++) {
		short events = 0;

		if (is_set(fd, readable))
			events |= POLLIN;
		if (is_set(fd, writable))
			events |= POLLOUT;
		if (is_set(fd, exceptional))
			events |= POLLPRI;
		if (events != 0)
			fds[used++] = (struct pollfd){.fd = fd, .events = events};
	}
	return used;
}

/* Keep fd in the set if one of these happened. */
static int report(int fd, fd_set *set, bool asked, bool happened)
{
	if (set == NULL)
		return 0;
	FD_CLR(fd, set);
	if (!asked || !happened)
		return 0;
	FD_SET(fd, set);
	return 1;
}

/* The kernel's own translation (select(2), "Correspondence between select() and poll() notifications"). */
static int report_all(const struct pollfd *fds, nfds_t used, fd_set *readable, fd_set *writable, fd_set *exceptional)
{
	int bits = 0;

	for (nfds_t i = 0; i < used; i++) {
		short asked = fds[i].events, happened = fds[i].revents;

		if (happened & POLLNVAL)
			return -EBADF;
		bits += report(fds[i].fd, readable, asked & POLLIN, happened & (POLLIN | POLLHUP | POLLERR));
		bits += report(fds[i].fd, writable, asked & POLLOUT, happened & (POLLOUT | POLLERR));
		bits += report(fds[i].fd, exceptional, asked & POLLPRI, happened & POLLPRI);
	}
	return bits;
}

int vb_rsocket_select(int count, fd_set *readable, fd_set *writable, fd_set *exceptional, const struct timeval *timeout)
{
	int milliseconds = -1, result;
	struct pollfd *fds;
	nfds_t used;

	if (count < 0 || (timeout != NULL && (timeout->tv_sec < 0 || timeout->tv_usec < 0)))
		return -EINVAL;
	fds = calloc((size_t)count + 1, sizeof(*fds));
	if (fds == NULL)
		return -ENOMEM;
	if (timeout != NULL)
		milliseconds = timeout->tv_sec > 1000000 ? 1000000000 :
			       (int)(timeout->tv_sec * 1000 + (timeout->tv_usec + 999) / 1000);
	used = fill_poll_list(fds, count, readable, writable, exceptional);
	result = poll_for(fds, used, milliseconds, fds);
	if (result >= 0)
		result = report_all(fds, used, readable, writable, exceptional);
	free(fds);
	return result;
}
