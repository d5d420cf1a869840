/* SPDX-License-Identifier: MIT
 *
 * rpoll and rselect, on any mixture of rsockets and other descriptors.
 *
 * Each round looks at every rsocket; if none is ready their completion queues are armed, each is looked at once more (what came
 * before arming gives no event), and poll() sleeps on what stands behind them: completion channels and CM channels, and the other
 * descriptors as they are. It sleeps half a second at most, because another thread working on the same socket may take the
 * event that was to wake this one.
 */
#include <errno.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <stdlib.h>
#include <string.h>

#include "io/clock.h"
#include "rdmacm/export.h"
#include "rdmacm/id.h"
#include "rdmacm/rsocket/limits.h"
#include "rdmacm/rsocket/rsocket.h"
#include "rdmacm/rsocket/wait.h"

enum { BEHIND = 8 };                     /* most descriptors behind one rsocket that are waited on */

static short stream_ready(struct vb_rsocket *rs, short events)
{
	short ready = 0;

	if (rs->state == VB_RSOCKET_LISTENING) {
		struct pollfd fd = {.fd = rs->fd, .events = POLLIN};

		return poll(&fd, 1, 0) > 0 ? (short)(events & POLLIN) : 0;
	}
	if (rs->state == VB_RSOCKET_CONNECTING) {
		struct pollfd fd = {.fd = rs->fd, .events = POLLIN};

		/* A blocking socket's pending connect belongs to the thread that is in it. */
		if (poll(&fd, 1, 0) <= 0 || vb_rsocket_continue(rs) == -EINPROGRESS)
			return 0;
	}
	if (rs->state < VB_RSOCKET_CONNECTING)
		return 0;
	vb_rsocket_progress(rs);
	if (vb_rsocket_has_data(rs) || !rs->readable)
		ready |= POLLIN;
	if (vb_rsocket_is_connected(rs) ? rs->writable && vb_rsocket_can_send(rs) : true)
		ready |= POLLOUT;
	ready &= events;
	if (rs->state == VB_RSOCKET_DISCONNECTED)
		ready |= POLLHUP;
	else if (rs->state == VB_RSOCKET_FAILED)
		ready |= POLLERR | POLLHUP;
	return ready;
}

static short look(struct vb_rsocket *rs, short events)
{
	short ready;

	pthread_mutex_lock(&rs->lock);
	ready = rs->type == SOCK_DGRAM ? vb_rsocket_datagram_ready(rs, events) : stream_ready(rs, events);
	pthread_mutex_unlock(&rs->lock);
	return ready;
}

/* Arm, and say what to wait on. */
static unsigned descriptors_behind(struct vb_rsocket *rs, int fds[BEHIND])
{
	unsigned count = 0;

	pthread_mutex_lock(&rs->lock);
	if (rs->type == SOCK_DGRAM) {
		count = vb_rsocket_datagram_descriptors(rs, fds, BEHIND);
	} else {
		fds[count++] = rs->fd;
		if (vb_rsocket_is_connected(rs)) {
			vb_rsocket_arm(rs);
			fds[count++] = rs->id->recv_cq_channel->fd;
		}
	}
	pthread_mutex_unlock(&rs->lock);
	return count;
}

static void woken(struct vb_rsocket *rs)
{
	pthread_mutex_lock(&rs->lock);
	vb_rsocket_woken(rs);
	pthread_mutex_unlock(&rs->lock);
}

/* One look at everything. Number ready. */
static int look_at_all(struct pollfd *fds, nfds_t count)
{
	int ready = 0;

	for (nfds_t i = 0; i < count; i++) {
		struct vb_rsocket *rs = vb_rsocket_find(fds[i].fd);

		fds[i].revents = 0;
		if (rs != NULL)
			fds[i].revents = look(rs, fds[i].events);
		else if (fds[i].fd >= 0 && poll(&fds[i], 1, 0) < 0)
			return -errno;
		ready += fds[i].revents != 0;
	}
	return ready;
}

/* Sleep until something moves or `timeout` ms have passed. 0 or -errno. */
static int sleep_on_all(struct pollfd *fds, nfds_t count, struct pollfd *real, int timeout)
{
	nfds_t used = 0;
	int result;

	for (nfds_t i = 0; i < count; i++) {
		struct vb_rsocket *rs = vb_rsocket_find(fds[i].fd);
		int behind[BEHIND];
		unsigned n;

		if (rs == NULL) {
			real[used++] = (struct pollfd){.fd = fds[i].fd, .events = fds[i].events};
			continue;
		}
		n = descriptors_behind(rs, behind);
		for (unsigned k = 0; k < n; k++)
			real[used++] = (struct pollfd){.fd = behind[k], .events = POLLIN};
	}
	result = look_at_all(fds, count);
	if (result != 0)
		return result < 0 ? result : 0;
	result = poll(real, used, timeout) < 0 ? -errno : 0;
	for (nfds_t i = 0; i < count; i++) {
		struct vb_rsocket *rs = vb_rsocket_find(fds[i].fd);

		if (rs != NULL && rs->type == SOCK_STREAM)
			woken(rs);
	}
	return result;
}

static bool any_rsocket(const struct pollfd *fds, nfds_t count)
{
	for (nfds_t i = 0; i < count; i++)
		if (vb_rsocket_find(fds[i].fd) != NULL)
			return true;
	return false;
}

static int remaining(vb_time deadline)
{
	vb_time left = deadline - vb_clock_now();

	if (deadline == VB_TIME_NEVER || left > VB_MILLISECONDS(VB_RSOCKET_WAKE_MILLISECONDS))
		return VB_RSOCKET_WAKE_MILLISECONDS;
	return left <= 0 ? 0 : (int)((left + VB_MILLISECONDS(1) - 1) / VB_MILLISECONDS(1));
}

VB_EXPORT int rpoll(struct pollfd *fds, nfds_t nfds, int timeout)
{
	vb_time deadline = timeout < 0 ? VB_TIME_NEVER : vb_clock_now() + VB_MILLISECONDS(timeout);
	vb_time spin_until = vb_clock_now() + VB_MICROSECONDS(VB_RSOCKET_SPIN_MICROSECONDS);
	struct pollfd *real;
	int ready;

	if (!any_rsocket(fds, nfds))
		return poll(fds, nfds, timeout);
	do {
		ready = look_at_all(fds, nfds);
		if (ready != 0 || timeout == 0)
			return ready < 0 ? vb_rdmacm_fail(-ready) : ready;
	} while (vb_clock_now() < spin_until);
	real = calloc(nfds * BEHIND + 1, sizeof(*real));
	if (real == NULL)
		return vb_rdmacm_fail(ENOMEM);
	do {
		int error = sleep_on_all(fds, nfds, real, remaining(deadline));

		ready = error != 0 ? error : look_at_all(fds, nfds);
	} while (ready == 0 && vb_clock_now() < deadline);
	free(real);
	return ready < 0 ? vb_rdmacm_fail(-ready) : ready;
}

static bool is_in(const fd_set *set, int fd)
{
	return set != NULL && FD_ISSET(fd, set);
}

static unsigned sets_to_list(int nfds, const fd_set *readfds, const fd_set *writefds, const fd_set *exceptfds, struct pollfd *list)
{
	unsigned count = 0;

	for (int fd = 0; fd < nfds; fd++) {
		short events = 0;

		if (is_in(readfds, fd))
			events |= POLLIN;
		if (is_in(writefds, fd))
			events |= POLLOUT;
		if (is_in(exceptfds, fd))
			events |= POLLPRI;
		if (events != 0)
			list[count++] = (struct pollfd){.fd = fd, .events = events};
	}
	return count;
}

static int mark(fd_set *set, int fd, bool ready)
{
	if (set == NULL || !FD_ISSET(fd, set))
		return 0;
	if (ready)
		return 1;
	FD_CLR(fd, set);
	return 0;
}

VB_EXPORT int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds, struct timeval *timeout)
{
	struct pollfd *list;
	unsigned count;
	int result, milliseconds = -1;

	if (nfds < 0 || nfds > FD_SETSIZE)
		return vb_rdmacm_fail(EINVAL);
	list = calloc((size_t)nfds + 1, sizeof(*list));
	if (list == NULL)
		return vb_rdmacm_fail(ENOMEM);
	count = sets_to_list(nfds, readfds, writefds, exceptfds, list);
	if (timeout != NULL)
		milliseconds = (int)(timeout->tv_sec * 1000 + (timeout->tv_usec + 999) / 1000);
	result = rpoll(list, count, milliseconds);
	if (result >= 0) {
		result = 0;
		for (unsigned i = 0; i < count; i++) {
			short revents = list[i].revents;

			if (revents & POLLNVAL) {
				free(list);
				return vb_rdmacm_fail(EBADF);
			}
			result += mark(readfds, list[i].fd, revents & (POLLIN | POLLHUP | POLLERR));
			result += mark(writefds, list[i].fd, revents & (POLLOUT | POLLERR));
			result += mark(exceptfds, list[i].fd, revents & POLLPRI);
		}
	}
	free(list);
	return result;
}
