/* SPDX-License-Identifier: MIT */
#include "preload/sockets/readiness.h"

#include <errno.h>
#include <time.h>

#include "io/cancellation.h"
#include "io/signals.h"
#include "preload/next.h"
#include "preload/sockets/connection.h"
#include "rdmacm/rsocket/stream.h"
#include "rdmacm/rsocket/wait.h"

static const short INPUT = POLLIN | POLLRDNORM | POLLPRI | POLLRDHUP | POLLHUP | POLLERR;
static const short OUTPUT = POLLOUT | POLLWRNORM | POLLERR;

static short ask_tcp(int fd)
{
	VB_UNCANCELLED;
	struct pollfd asked = {.fd = fd, .events = (short)(INPUT | OUTPUT)};

	return NEXT(poll)(&asked, 1, 0) > 0 ? asked.revents : 0;
}

static short ask_rsocket(struct vb_rsocket *rs, bool before_sleep, uint32_t *changes)
{
	short happened = POLLHUP | POLLERR;

	vb_mutex_lock(&rs->lock);
	if (!rs->closed) {
		if (before_sleep)
			rs->kind->arm(rs);
		vb_rsocket_progress(rs);
		happened = rs->kind->revents(rs);
	}
	*changes = rs->stream->changes;
	vb_mutex_unlock(&rs->lock);
	return happened;
}

short vb_readiness_look(struct vb_connection *connection, bool before_sleep)
{
	short tcp = 0, rdma = 0, events = 0;

	vb_upgrade_advance(connection);
	if (connection->phase == VB_CONNECTION_ELSEWHERE)
		return POLLERR | POLLHUP;
	if (connection->phase != VB_CONNECTION_UP)
		tcp = ask_tcp(connection->fd);
	if (connection->phase != VB_CONNECTION_UP && (tcp & POLLIN) && !vb_stream_tcp_is_readable(connection))
		tcp &= (short)~(POLLIN | POLLRDNORM);
	if (connection->receives_by_rdma || connection->sends_by_rdma)
		rdma = ask_rsocket(connection->rs, before_sleep, &connection->changes);
	events |= (connection->receives_by_rdma ? rdma : tcp) & INPUT;
	if (connection->sends_by_rdma)
		events |= rdma & OUTPUT;
	else if (connection->token_sent == 0)
		events |= tcp & OUTPUT;
	return events;
}

void vb_readiness_sleep(struct vb_connection *connection, short events, struct pollfd fds[VB_READINESS_FDS])
{
	struct vb_rsocket *rs = connection->rs;
	short of_tcp = 0;

	if (!connection->receives_by_rdma)
		of_tcp |= events & (POLLIN | POLLRDNORM | POLLPRI | POLLRDHUP);
	if (!connection->sends_by_rdma)
		of_tcp |= events & (POLLOUT | POLLWRNORM);
	/* Without events it would still report that the connection is over, again and again. */
	fds[0] = (struct pollfd){.fd = connection->phase == VB_CONNECTION_UP ? -1 : connection->fd, .events = of_tcp};
	fds[1] = (struct pollfd){.fd = -1, .events = POLLIN};
	if (!connection->receives_by_rdma && !connection->sends_by_rdma)
		return;
	vb_mutex_lock(&rs->lock);
	if (!rs->closed)
		fds[1].fd = rs->kind->wait_fd(rs);
	vb_mutex_unlock(&rs->lock);
}

void vb_readiness_collect(struct vb_connection *connection)
{
	struct vb_rsocket *rs = connection->rs;

	if (rs == NULL)
		return;

	VB_UNCANCELLED;

	vb_mutex_lock(&rs->lock);
	if (!rs->closed) {
		rs->kind->collect(rs);
		vb_rsocket_wake(rs);
	}
	vb_mutex_unlock(&rs->lock);
}

int vb_readiness_sleep_begin(struct vb_connection *connection)
{
	struct vb_rsocket *rs = connection->rs;
	int fd = -1;

	if (connection->phase != VB_CONNECTION_UP || rs == NULL)
		return -1;
	vb_mutex_lock(&rs->lock);
	fd = vb_rstream_sleep_begin(rs);
	vb_mutex_unlock(&rs->lock);
	return fd;
}

void vb_readiness_disarm(struct vb_connection *connection, const struct vb_connection_observer *own)
{
	struct vb_rsocket *rs = connection->rs;

	if (connection->phase != VB_CONNECTION_UP || rs == NULL || vb_connection_is_observed(connection, own))
		return;
	vb_mutex_lock(&rs->lock);
	if (!rs->closed)
		vb_rstream_disarm(rs);
	vb_mutex_unlock(&rs->lock);
}

int vb_readiness_watch(struct vb_connection *connection)
{
	struct vb_rsocket *rs;
	int wake_fd;

	vb_mutex_lock(&connection->lock);
	rs = connection->rs != NULL ? connection->rs : connection->listener;
	if (rs != NULL)
		vb_rsocket_hold(rs);
	vb_mutex_unlock(&connection->lock);
	if (rs == NULL)
		return -1;
	wake_fd = vb_rsocket_watch(rs);
	vb_rsocket_put(rs);
	return wake_fd;
}

static bool becomes_ready_soon(struct vb_connection *connection, short events)
{
	vb_time last = vb_rsocket_now(), end = vb_rsocket_look_until(vb_patience_length(&connection->patience, last));
	bool ready;

	do {
		vb_mutex_lock(&connection->lock);
		ready = (vb_readiness_look(connection, false) & (events | POLLHUP | POLLERR)) != 0;
		vb_mutex_unlock(&connection->lock);
	} while (!ready && vb_connection_phase(connection) == VB_CONNECTION_UP &&
		 vb_patience_goes_on(&connection->patience, &last, vb_rsocket_now(), end));
	vb_rsocket_looked(ready);
	return ready;
}

/* Of the list that a thread sleeps on for one connection. */
enum { WAKE = VB_READINESS_FDS, WIRE, SLEEPER_FDS };

static void give_up(void *connection)
{
	vb_rstream_sleep_end();
	vb_rsocket_unwatch_all();
	vb_connection_put(connection);
}

/* Asleep, and no more: here the thread may be cancelled, but in a call that has more to give back (sendfile). */
static int sleep_in_kernel(struct vb_connection *connection, struct pollfd fds[SLEEPER_FDS], const struct timespec *timeout)
{
	unsigned owed = vb_cancellation_owe(give_up, connection);
	unsigned scopes = vb_cancellation_depth() == 1 ? vb_cancellation_allow() : 0;
	int result = NEXT(ppoll)(fds, SLEEPER_FDS, timeout, NULL) < 0 ? -errno : 0;

	if (scopes > 0)
		vb_cancellation_forbid(scopes);
	vb_cancellation_settled(owed);
	if (fds[WIRE].fd >= 0)
		vb_rstream_sleep_end();
	return result;
}

static int sleep_once(struct vb_connection *connection, struct pollfd fds[SLEEPER_FDS], vb_time deadline)
{
	vb_time now = vb_rsocket_now(), left = deadline == VB_TIME_NEVER ? 0 : deadline - now, woke;
	struct timespec timeout = {.tv_sec = left / VB_SECONDS(1), .tv_nsec = left % VB_SECONDS(1)};

	int error = -EAGAIN;

	if (left >= 0)
		error = sleep_in_kernel(connection, fds, deadline == VB_TIME_NEVER ? NULL : &timeout);
	else if (fds[WIRE].fd >= 0)
		vb_rstream_sleep_end();
	if (error != 0)
		return error == -EINTR && deadline == VB_TIME_NEVER && vb_signals_restart_calls() ? 0 : error;
	woke = vb_rsocket_now();
	vb_patience_slept(&connection->patience, woke - now, woke, fds[WIRE].fd >= 0);
	if (fds[WAKE].revents != 0)
		vb_rsocket_wake_clear(fds[WAKE].fd);
	if (fds[WIRE].fd >= 0 && fds[WIRE].revents != 0)
		vb_rstream_sleep_woken();
	if (fds[1].revents == 0 && fds[WIRE].fd < 0)
		return 0;
	vb_mutex_lock(&connection->lock);
	if (fds[1].revents != 0) {
		vb_readiness_collect(connection);
		vb_connection_ring(connection, NULL);
	} else {
		vb_readiness_disarm(connection, NULL);
	}
	vb_mutex_unlock(&connection->lock);
	return 0;
}

int vb_readiness_wait(struct vb_connection *connection, short events, vb_time deadline)
{
	struct pollfd fds[SLEEPER_FDS];
	int error = 0;

	if (becomes_ready_soon(connection, events))
		return 0;
	while (error == 0) {
		bool ready;

		/* The rsocket may be another one by now: the peer has come. */
		vb_rsocket_unwatch_all();
		fds[WAKE] = (struct pollfd){.fd = vb_readiness_watch(connection), .events = POLLIN};
		vb_mutex_lock(&connection->lock);
		/* What came while it slept is looked for before completions are armed: it need not tell itself of that. */
		ready = (vb_readiness_look(connection, false) & (events | POLLHUP | POLLERR)) != 0;
		fds[WIRE] = (struct pollfd){.fd = ready ? -1 : vb_readiness_sleep_begin(connection), .events = POLLIN};
		ready = ready || (vb_readiness_look(connection, true) & (events | POLLHUP | POLLERR)) != 0;
		vb_readiness_sleep(connection, events, fds);
		vb_mutex_unlock(&connection->lock);
		if (!ready && fds[WIRE].fd >= 0)
			vb_rstream_sleep_settle();
		if (ready) {
			if (fds[WIRE].fd >= 0)
				vb_rstream_sleep_end();
			break;
		}
		error = sleep_once(connection, fds, deadline);
	}
	vb_rsocket_unwatch_all();
	return error;
}
