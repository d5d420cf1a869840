/* SPDX-License-Identifier: MIT
 *
 * Connections are asked, all else the kernel is; if there is nothing to tell the thread sleeps on everything at once
 * (rdmacm/rsocket/wait.c says why nothing is missed).
 */
#include "preload/sockets/poll.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "base/time.h"
#include "io/cancellation.h"
#include "preload/next.h"
#include "preload/sockets/connection.h"
#include "preload/sockets/patience.h"
#include "preload/sockets/readiness.h"
#include "rdmacm/rsocket/stream.h"
#include "rdmacm/rsocket/wait.h"

#define KERNEL_INTERVAL VB_MICROSECONDS(50)

/* The kernel's list: for each of the program's entries as many as a connection needs, the thread's eventfd and the sockets of the wire. */
enum { WAKE, WIRE, OWN_FDS };              /* behind those of the program's entries */

/* Not on the stack, which is gone when a thread that was cancelled gives it back. */
struct polling {
	struct pollfd *fds;
	nfds_t count;
	struct pollfd *kernel;
	bool has_rsockets;
	struct pollfd *own_fds;            /* of select, for a thread that does not come back; or NULL */
	struct vb_connection *connections[]; /* NULL: an ordinary descriptor */
};

/* A thread that polls is a server's loop or a client that waits for its server, and does the same again. */
static _Thread_local struct vb_patience patience;

static struct pollfd *kernel_of(const struct polling *polling, nfds_t i)
{
	return &polling->kernel[i * VB_READINESS_FDS];
}

static struct pollfd *own_of(const struct polling *polling)
{
	return kernel_of(polling, polling->count);
}

/* NULL: there is no memory for it. */
static struct polling *begin(struct pollfd *fds, nfds_t count, struct pollfd *own_fds)
{
	size_t head = sizeof(struct polling) + count * sizeof(struct vb_connection *);
	struct polling *polling = calloc(1, head + (count * VB_READINESS_FDS + OWN_FDS) * sizeof(struct pollfd));

	if (polling == NULL)
		return NULL;
	polling->fds = fds;
	polling->count = count;
	polling->kernel = (void *)((char *)polling + head);
	polling->own_fds = own_fds;
	for (nfds_t i = 0; i < count; i++) {
		struct pollfd *kernel = kernel_of(polling, i);

		polling->connections[i] = fds[i].fd >= 0 ? vb_connection_get(fds[i].fd) : NULL;
		kernel[0] = (struct pollfd){.fd = polling->connections[i] != NULL ? -1 : fds[i].fd,
					    .events = fds[i].events};
		kernel[1].fd = -1;
	}
	for (unsigned i = 0; i < OWN_FDS; i++)
		own_of(polling)[i] = (struct pollfd){.fd = -1, .events = POLLIN};
	return polling;
}

static void end_sleep(struct polling *polling)
{
	if (own_of(polling)[WIRE].fd >= 0)
		vb_rstream_sleep_end();
	own_of(polling)[WIRE].fd = -1;
}

static void end(void *argument)
{
	struct polling *polling = argument;

	end_sleep(polling);
	vb_rsocket_unwatch_all();
	for (nfds_t i = 0; i < polling->count; i++)
		if (polling->connections[i] != NULL)
			vb_connection_put(polling->connections[i]);
	free(polling->own_fds);
	free(polling);
}

static short ask(struct polling *polling, nfds_t i, bool before_sleep)
{
	struct vb_connection *connection = polling->connections[i];
	struct pollfd *kernel = kernel_of(polling, i);
	short happened;

	vb_mutex_lock(&connection->lock);
	if (kernel[1].revents != 0) {
		vb_readiness_collect(connection);
		vb_connection_ring(connection, NULL);
	}
	happened = vb_readiness_look(connection, before_sleep);
	if (before_sleep)
		vb_readiness_sleep(connection, polling->fds[i].events, kernel);
	else
		kernel[0].fd = kernel[1].fd = -1;
	kernel[0].revents = kernel[1].revents = 0;
	if (connection->rs != NULL)
		polling->has_rsockets = true;
	vb_mutex_unlock(&connection->lock);
	return happened;
}

static int look(struct polling *polling, bool before_sleep)
{
	int ready = 0;

	for (nfds_t i = 0; i < polling->count; i++) {
		short happened = polling->connections[i] != NULL ? ask(polling, i, before_sleep) :
				 kernel_of(polling, i)->revents;

		polling->fds[i].revents = happened & (polling->fds[i].events | POLLERR | POLLHUP | POLLNVAL);
		if (polling->fds[i].revents != 0)
			ready++;
	}
	return ready;
}

static int ask_kernel(struct polling *polling, const struct timespec *timeout, const sigset_t *mask)
{
	const struct pollfd *wake = &own_of(polling)[WAKE];
	unsigned owed = vb_cancellation_owe(end, polling);
	int count = NEXT(ppoll)(polling->kernel, polling->count * VB_READINESS_FDS + OWN_FDS, timeout, mask);

	vb_cancellation_settled(owed);
	if (count < 0)
		return -errno;
	if (wake->revents != 0)
		vb_rsocket_wake_clear(wake->fd);
	return 0;
}

/* To ask the kernel costs more than all else of a look: while connections are looked at, now and then. A thread that does not wait
 * wants to know all. */
static int ask_kernel_if_due(struct polling *polling, bool waits)
{
	static const struct timespec at_once;
	static _Thread_local vb_time asked;
	vb_time now = vb_rsocket_now();

	if (waits && now - asked < KERNEL_INTERVAL)
		return 0;
	asked = now;
	return ask_kernel(polling, &at_once, NULL);
}

static int look_a_while(struct polling *polling, vb_time deadline)
{
	vb_time began = vb_rsocket_now(), enough = vb_rsocket_look_until(vb_patience_length(&patience, began)), last = began;
	int result;

	if (enough > deadline)
		enough = deadline;
	do {
		result = ask_kernel_if_due(polling, deadline > began);
		if (result == 0)
			result = look(polling, false);
	} while (result == 0 && polling->has_rsockets && vb_patience_goes_on(&patience, &last, vb_rsocket_now(), enough));
	/* Who does not wait has learned nothing. */
	if (result != 0 || enough < deadline)
		vb_rsocket_looked(result != 0);
	return result;
}

static void watch_all(struct polling *polling)
{
	vb_rsocket_unwatch_all();
	own_of(polling)[WAKE].fd = vb_rsocket_wake_fd();
	for (nfds_t i = 0; i < polling->count; i++)
		if (polling->connections[i] != NULL)
			vb_readiness_watch(polling->connections[i]);
}

static void begin_sleep(struct polling *polling)
{
	struct pollfd *wire = &own_of(polling)[WIRE];

	for (nfds_t i = 0; i < polling->count && wire->fd < 0; i++) {
		struct vb_connection *connection = polling->connections[i];

		if (connection == NULL || vb_connection_phase(connection) != VB_CONNECTION_UP)
			continue;
		vb_mutex_lock(&connection->lock);
		wire->fd = vb_readiness_sleep_begin(connection);
		vb_mutex_unlock(&connection->lock);
		/* It is the same for all. */
		break;
	}
}

/* A thread that has slept on the wire itself makes the pass itself: it need not tell itself of what that brings. */
static int look_without_events(struct polling *polling)
{
	for (nfds_t i = 0; i < polling->count; i++) {
		struct vb_connection *connection = polling->connections[i];

		if (connection == NULL || kernel_of(polling, i)[1].revents != 0)
			continue;
		vb_mutex_lock(&connection->lock);
		vb_readiness_disarm(connection, NULL);
		vb_mutex_unlock(&connection->lock);
	}
	return look(polling, false);
}

static int poll_until(struct polling *polling, vb_time deadline, const sigset_t *mask)
{
	int result = look_a_while(polling, deadline);

	while (result == 0) {
		struct timespec timeout;
		vb_time left, now, woke;

		bool by_itself, woken;

		watch_all(polling);
		begin_sleep(polling);
		result = look(polling, true);
		if (result == 0 && own_of(polling)[WIRE].fd >= 0)
			vb_rstream_sleep_settle();
		now = vb_rsocket_now();
		left = deadline == VB_TIME_NEVER ? VB_TIME_NEVER : deadline - now;
		if (result != 0 || left <= 0)
			break;
		timeout = (struct timespec){.tv_sec = left / VB_SECONDS(1), .tv_nsec = left % VB_SECONDS(1)};
		result = ask_kernel(polling, left == VB_TIME_NEVER ? NULL : &timeout, mask);
		woke = vb_rsocket_now();
		by_itself = own_of(polling)[WIRE].fd >= 0;
		woken = by_itself && own_of(polling)[WIRE].revents != 0;
		end_sleep(polling);
		vb_patience_slept(&patience, woke - now, woke, by_itself);
		if (by_itself && result == 0) {
			if (woken)
				vb_rstream_sleep_woken();
			result = look_without_events(polling);
		}
	}
	end_sleep(polling);
	return result;
}

static vb_time deadline_of(const struct timespec *timeout)
{
	if (timeout == NULL || timeout->tv_sec > INT_MAX)
		return VB_TIME_NEVER;
	return vb_rsocket_now() + VB_SECONDS(timeout->tv_sec) + timeout->tv_nsec;
}

bool vb_sockets_poll_concerns(struct pollfd *fds, nfds_t count)
{
	for (nfds_t i = 0; i < count; i++) {
		struct vb_connection *connection = vb_connection_get(fds[i].fd);

		if (connection == NULL)
			continue;
		vb_connection_put(connection);
		return true;
	}
	return false;
}

static int poll_for(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask, struct pollfd *own_fds)
{
	struct polling *polling = begin(fds, count, own_fds);
	int result;

	if (polling == NULL)
		return -ENOMEM;
	result = poll_until(polling, deadline_of(timeout), mask);
	polling->own_fds = NULL;
	end(polling);
	return result;
}

int vb_sockets_poll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
	return poll_for(fds, count, timeout, mask, NULL);
}

/* ---- select ---- */

/* The kernel's own translation (select(2), "Correspondence between select() and poll() notifications"). */

static const short asked_by[3] = {POLLIN, POLLOUT, POLLPRI};
static const short told_by[3] = {POLLIN | POLLHUP | POLLERR, POLLOUT | POLLERR, POLLPRI};

static short events_of(int fd, const fd_set *const sets[3])
{
	short events = 0;

	for (unsigned i = 0; i < 3; i++)
		if (sets[i] != NULL && FD_ISSET(fd, sets[i]))
			events |= asked_by[i];
	return events;
}

bool vb_sockets_select_concerns(int count, const fd_set *const sets[3])
{
	for (int fd = 0; fd < count && fd < FD_SETSIZE; fd++) {
		struct pollfd one = {.fd = fd};

		if (events_of(fd, sets) != 0 && vb_sockets_poll_concerns(&one, 1))
			return true;
	}
	return false;
}

static int report(const struct pollfd *fds, nfds_t used, fd_set *sets[3])
{
	int bits = 0;

	for (nfds_t i = 0; i < used; i++)
		if (fds[i].revents & POLLNVAL)
			return -EBADF;
	for (nfds_t i = 0; i < used; i++)
		for (unsigned set = 0; set < 3; set++) {
			if (sets[set] == NULL)
				continue;
			FD_CLR(fds[i].fd, sets[set]);
			if (!(fds[i].events & asked_by[set]) || !(fds[i].revents & told_by[set]))
				continue;
			FD_SET(fds[i].fd, sets[set]);
			bits++;
		}
	return bits;
}

int vb_sockets_select(int count, fd_set *sets[3], const struct timespec *timeout, const sigset_t *mask)
{
	const fd_set *const asked[3] = {sets[0], sets[1], sets[2]};
	struct pollfd *fds;
	nfds_t used = 0;
	int result;

	if (count < 0 || count > FD_SETSIZE)
		return -EINVAL;
	fds = calloc((size_t)count + 1, sizeof(*fds));
	if (fds == NULL)
		return -ENOMEM;
	for (int fd = 0; fd < count; fd++) {
		short events = events_of(fd, asked);

		if (events != 0)
			fds[used++] = (struct pollfd){.fd = fd, .events = events};
	}
	result = poll_for(fds, used, timeout, mask, fds);
	if (result >= 0)
		result = report(fds, used, sets);
	free(fds);
	return result;
}
