/* SPDX-License-Identifier: MIT
 *
 * The calls that wait on many descriptors. Where none of them is a connection of ours the kernel is asked and nothing
 * else.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <time.h>

#include "preload/next.h"
#include "preload/sockets/connection.h"
#include "preload/sockets/epoll.h"
#include "preload/sockets/poll.h"
#include "rdmacm/rsocket/wait.h"

int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t room);
int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask, size_t room);

static int result_of(int result)
{
	if (result >= 0)
		return result;
	errno = -result;
	return -1;
}

static struct timespec milliseconds(int count)
{
	return (struct timespec){.tv_sec = count / 1000, .tv_nsec = count % 1000 * 1000000L};
}

/* ---- poll; a thread that was told to end does so here or where it sleeps (pthreads(7)) ---- */

PRELOAD int poll(struct pollfd *fds, nfds_t count, int timeout)
{
	struct timespec limit = milliseconds(timeout < 0 ? 0 : timeout);

	if (!vb_sockets_poll_concerns(fds, count))
		return NEXT(poll)(fds, count, timeout);
	pthread_testcancel();
	return result_of(vb_sockets_poll(fds, count, timeout < 0 ? NULL : &limit, NULL));
}

PRELOAD int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
	if (!vb_sockets_poll_concerns(fds, count))
		return NEXT(ppoll)(fds, count, timeout, mask);
	pthread_testcancel();
	return result_of(vb_sockets_poll(fds, count, timeout, mask));
}

PRELOAD int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t room)
{
	if (room / sizeof(*fds) < count)
		return NEXT(__poll_chk)(fds, count, timeout, room);
	return poll(fds, count, timeout);
}

PRELOAD int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask,
			size_t room)
{
	if (room / sizeof(*fds) < count)
		return NEXT(__ppoll_chk)(fds, count, timeout, mask, room);
	return ppoll(fds, count, timeout, mask);
}

/* ---- select ---- */

static bool select_concerns(int count, const fd_set *readable, const fd_set *writable, const fd_set *exceptional)
{
	return vb_sockets_select_concerns(count, (const fd_set *const[3]){readable, writable, exceptional});
}

PRELOAD int select(int count, fd_set *readable, fd_set *writable, fd_set *exceptional, struct timeval *timeout)
{
	vb_time began, left;
	struct timespec limit;
	int result;

	if (!select_concerns(count, readable, writable, exceptional))
		return NEXT(select)(count, readable, writable, exceptional, timeout);
	pthread_testcancel();
	if (timeout == NULL)
		return result_of(vb_sockets_select(count, (fd_set *[3]){readable, writable, exceptional}, NULL, NULL));
	began = vb_rsocket_now();
	limit = (struct timespec){.tv_sec = timeout->tv_sec, .tv_nsec = timeout->tv_usec * 1000};
	result = vb_sockets_select(count, (fd_set *[3]){readable, writable, exceptional}, &limit, NULL);
	/* Linux tells how much time was left, and programs count on it. */
	left = VB_SECONDS(limit.tv_sec) + limit.tv_nsec - (vb_rsocket_now() - began);
	if (left < 0)
		left = 0;
	*timeout = (struct timeval){.tv_sec = left / VB_SECONDS(1), .tv_usec = left % VB_SECONDS(1) / 1000};
	return result_of(result);
}

PRELOAD int pselect(int count, fd_set *readable, fd_set *writable, fd_set *exceptional, const struct timespec *timeout,
		    const sigset_t *mask)
{
	if (!select_concerns(count, readable, writable, exceptional))
		return NEXT(pselect)(count, readable, writable, exceptional, timeout, mask);
	pthread_testcancel();
	return result_of(vb_sockets_select(count, (fd_set *[3]){readable, writable, exceptional}, timeout, mask));
}

/* ---- epoll ---- */

PRELOAD int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
	struct vb_connection *connection = vb_connection_get(fd);
	int result;

	if (connection == NULL && !vb_sockets_epoll_has(epoll, fd)) {
		result = NEXT(epoll_ctl)(epoll, operation, fd, event);
		if (result == 0 && operation == EPOLL_CTL_ADD)
			vb_sockets_epoll_note(fd);
		return result;
	}
	result = vb_sockets_epoll_control(epoll, operation, fd, connection, event);
	if (connection != NULL)
		vb_connection_put(connection);
	return result_of(result);
}

PRELOAD int epoll_pwait(int epoll, struct epoll_event *events, int room, int timeout, const sigset_t *mask)
{
	vb_time deadline;

	if (room <= 0 || !vb_sockets_epoll_concerns(epoll))
		return NEXT(epoll_pwait)(epoll, events, room, timeout, mask);
	pthread_testcancel();
	deadline = timeout < 0 ? VB_TIME_NEVER : timeout == 0 ? 0 : vb_rsocket_now() + VB_MILLISECONDS(timeout);
	return result_of(vb_sockets_epoll_wait(epoll, events, room, deadline, mask));
}

PRELOAD int epoll_wait(int epoll, struct epoll_event *events, int room, int timeout)
{
	return epoll_pwait(epoll, events, room, timeout, NULL);
}

PRELOAD int epoll_pwait2(int epoll, struct epoll_event *events, int room, const struct timespec *timeout,
			 const sigset_t *mask)
{
	vb_time deadline = VB_TIME_NEVER;

	if (room <= 0 || !vb_sockets_epoll_concerns(epoll))
		return NEXT(epoll_pwait2)(epoll, events, room, timeout, mask);
	pthread_testcancel();
	if (timeout != NULL)
		deadline = timeout->tv_sec == 0 && timeout->tv_nsec == 0 ? 0 :
			   vb_rsocket_now() + VB_SECONDS(timeout->tv_sec) + timeout->tv_nsec;
	return result_of(vb_sockets_epoll_wait(epoll, events, room, deadline, mask));
}
