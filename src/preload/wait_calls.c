/* SPDX-License-Identifier: MIT
 *
 * The calls that wait on descriptors, as a preloaded library sees them. Where none of those is a completion channel, or a set with one in
 * it, they pass.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <time.h>

#include "preload/next.h"
#include "preload/waits.h"

int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t room);
int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask, size_t room);

static const struct timespec at_once;

static bool waits(const struct timespec *timeout)
{
	return timeout == NULL || timeout->tv_sec > 0 || timeout->tv_nsec > 0;
}

/* What the kernel refuses it is to refuse. */
static bool is_valid(const struct timespec *timeout)
{
	return timeout == NULL || (timeout->tv_sec >= 0 && timeout->tv_nsec >= 0 && timeout->tv_nsec < 1000000000L);
}

static struct timespec milliseconds(int count)
{
	return (struct timespec){.tv_sec = count / 1000, .tv_nsec = count % 1000 * 1000000L};
}

/* ---- poll ---- */

PRELOAD int poll(struct pollfd *fds, nfds_t count, int timeout)
{
	struct timespec limit = milliseconds(timeout);

	if (timeout == 0 || !vb_preload_waits_concern(fds, count))
		return NEXT(poll)(fds, count, timeout);
	return vb_preload_wait(fds, count, timeout < 0 ? NULL : &limit, NULL);
}

PRELOAD int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
	if (!waits(timeout) || !is_valid(timeout) || !vb_preload_waits_concern(fds, count))
		return NEXT(ppoll)(fds, count, timeout, mask);
	return vb_preload_wait(fds, count, timeout, mask);
}

PRELOAD int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t room)
{
	if (room / sizeof(*fds) < count)
		return NEXT(__poll_chk)(fds, count, timeout, room);
	return poll(fds, count, timeout);
}

PRELOAD int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask, size_t room)
{
	if (room / sizeof(*fds) < count)
		return NEXT(__ppoll_chk)(fds, count, timeout, mask, room);
	return ppoll(fds, count, timeout, mask);
}

/* ---- epoll ---- */

PRELOAD int epoll_create(int size)
{
	int set = NEXT(epoll_create)(size);

	vb_preload_waits_new_set(set);
	return set;
}

PRELOAD int epoll_create1(int flags)
{
	int set = NEXT(epoll_create1)(flags);

	vb_preload_waits_new_set(set);
	return set;
}

PRELOAD int epoll_ctl(int set, int operation, int fd, struct epoll_event *event)
{
	int result = NEXT(epoll_ctl)(set, operation, fd, event);

	if (result == 0 && operation == EPOLL_CTL_ADD)
		vb_preload_waits_add(set, fd);
	return result;
}

static bool set_concerns(int set)
{
	return vb_preload_waits_concern(&(struct pollfd){.fd = set}, 1);
}

static struct timespec left_until(const struct timespec *deadline)
{
	struct timespec now, left;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	left = (struct timespec){.tv_sec = deadline->tv_sec - now.tv_sec, .tv_nsec = deadline->tv_nsec - now.tv_nsec};
	if (left.tv_nsec < 0) {
		left.tv_sec--;
		left.tv_nsec += 1000000000L;
	}
	return left.tv_sec < 0 ? at_once : left;
}

static struct timespec deadline_of(const struct timespec *timeout)
{
	struct timespec deadline;

	(void)clock_gettime(CLOCK_MONOTONIC, &deadline);
	deadline.tv_sec += timeout->tv_sec;
	deadline.tv_nsec += timeout->tv_nsec;
	if (deadline.tv_nsec >= 1000000000L) {
		deadline.tv_sec++;
		deadline.tv_nsec -= 1000000000L;
	}
	return deadline;
}

/* The set is a descriptor like others, which says that it has something; of two threads that hear so one may find it gone. */
static int wait_for_set(int set, struct epoll_event *events, int room, const struct timespec *timeout, const sigset_t *mask)
{
	struct timespec deadline = timeout != NULL ? deadline_of(timeout) : at_once, left = timeout != NULL ? *timeout : at_once;
	int count;

	for (;;) {
		struct pollfd one = {.fd = set, .events = POLLIN};
		int ready = vb_preload_wait(&one, 1, timeout != NULL ? &left : NULL, mask);

		if (ready <= 0)
			return ready;
		count = NEXT(epoll_pwait)(set, events, room, 0, mask);
		if (count != 0)
			return count;
		if (timeout != NULL)
			left = left_until(&deadline);
	}
}

PRELOAD int epoll_pwait(int set, struct epoll_event *events, int room, int timeout, const sigset_t *mask)
{
	struct timespec limit = milliseconds(timeout);

	if (timeout == 0 || room <= 0 || !set_concerns(set))
		return NEXT(epoll_pwait)(set, events, room, timeout, mask);
	return wait_for_set(set, events, room, timeout < 0 ? NULL : &limit, mask);
}

PRELOAD int epoll_wait(int set, struct epoll_event *events, int room, int timeout)
{
	if (timeout == 0 || room <= 0 || !set_concerns(set))
		return NEXT(epoll_wait)(set, events, room, timeout);
	return epoll_pwait(set, events, room, timeout, NULL);
}

PRELOAD int epoll_pwait2(int set, struct epoll_event *events, int room, const struct timespec *timeout, const sigset_t *mask)
{
	if (!waits(timeout) || !is_valid(timeout) || room <= 0 || !set_concerns(set))
		return NEXT(epoll_pwait2)(set, events, room, timeout, mask);
	return wait_for_set(set, events, room, timeout, mask);
}
