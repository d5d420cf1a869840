/* SPDX-License-Identifier: MIT
 *
 * The object, and which descriptor is which connection.
 *
 * After fork a connection that was not used yet is as good in the child as in the parent, and stays so in both:
 * servers accept and leave the connection to a child. Once it has an rsocket that is the parent's. If both directions
 * are still TCP's the child has a plain TCP connection, and the parent stays with TCP too.
 */
#include "preload/sockets/connection.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/cancellation.h"
#include "io/event.h"
#include "preload/sockets/report.h"
#include "preload/sockets/table.h"
#include "rdmacm/rsocket/rsocket.h"

static pid_t process;                      /* whose memory this is */
static struct vb_fd_table table = {.lock = VB_MUTEX_INITIALIZER(VB_RANK_SOCKETS_TABLE)};

static void set_phase(struct vb_connection *connection, enum vb_connection_phase phase)
{
	__atomic_store_n(&connection->phase, phase, __ATOMIC_RELEASE);
}

struct vb_connection *vb_connection_hold(struct vb_connection *connection)
{
	__atomic_add_fetch(&connection->references, 1, __ATOMIC_RELAXED);
	return connection;
}

/* With any phase. Caller owns the reference. */
static struct vb_connection *find(int fd)
{
	struct vb_connection *connection;

	if (vb_fd_table_look(&table, fd) == NULL)
		return NULL;
	vb_mutex_lock(&table.lock);
	connection = vb_fd_table_look(&table, fd);
	if (connection != NULL)
		vb_connection_hold(connection);
	vb_mutex_unlock(&table.lock);
	return connection;
}

struct vb_connection *vb_connection_get(int fd)
{
	struct vb_connection *connection = find(fd);

	if (connection == NULL || vb_connection_phase(connection) != VB_CONNECTION_PLAIN)
		return connection;
	vb_connection_put(connection);
	return NULL;
}

bool vb_connection_is_known(int fd)
{
	return vb_fd_table_look(&table, fd) != NULL;
}

void vb_connection_put(struct vb_connection *connection)
{
	if (__atomic_sub_fetch(&connection->references, 1, __ATOMIC_ACQ_REL) != 0)
		return;

	VB_UNCANCELLED;

	if (connection->listener != NULL)
		vb_upgrade_close_rsocket(connection->listener);
	if (connection->rs != NULL)
		vb_upgrade_close_rsocket(connection->rs);
	vb_mutex_fini(&connection->observers_lock);
	vb_mutex_fini(&connection->lock);
	free(connection);
}

/* ---- fork ---- */

static void init_locks(struct vb_connection *connection)
{
	pthread_mutexattr_t recursive;

	pthread_mutexattr_init(&recursive);
	pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
	vb_mutex_init_with(&connection->lock, VB_RANK_SOCKETS_CONNECTION, &recursive);
	pthread_mutexattr_destroy(&recursive);
	vb_mutex_init(&connection->observers_lock, VB_RANK_SOCKETS_OBSERVERS);
}

static void before_fork(void) VB_TAKES(table.lock)
{
	vb_mutex_lock(&table.lock);
}

static void after_fork_in_parent(void) VB_RELEASES(table.lock)
{
	for (int fd = 0; (fd = vb_fd_table_next(&table, fd)) >= 0; fd++) {
		struct vb_connection *connection = vb_fd_table_look(&table, fd);

		if (vb_connection_phase(connection) != VB_CONNECTION_FRESH)
			__atomic_store_n(&connection->give_up, true, __ATOMIC_RELAXED);
	}
	vb_mutex_unlock(&table.lock);
}

/* Its rsocket, and the thread that held its lock, are the parent's. */
static void leave_to_parent(struct vb_connection *connection)
{
	init_locks(connection);
	vb_list_init(&connection->observers);
	if (vb_connection_phase(connection) == VB_CONNECTION_FRESH)
		return;
	connection->rs = connection->listener = NULL;
	/* An acceptor with an rsocket may have been sent a token that was not read yet. */
	if (connection->phase == VB_CONNECTION_UP || connection->token_sent > 0 ||
	    (connection->phase == VB_CONNECTION_SWITCHING && !connection->is_connector))
		set_phase(connection, VB_CONNECTION_ELSEWHERE);
	else
		set_phase(connection, VB_CONNECTION_PLAIN);
}

static void after_fork_in_child(void) VB_RELEASES(table.lock)
{
	process = getpid();
	for (int fd = 0; (fd = vb_fd_table_next(&table, fd)) >= 0; fd++)
		leave_to_parent(vb_fd_table_look(&table, fd));
	vb_mutex_unlock(&table.lock);
}

__attribute__((constructor)) static void watch_forks(void)
{
	process = getpid();
	pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

/* What is told of forks is not told of vfork. */
bool vb_connection_is_vforked(void)
{
	return getpid() != process;
}

/* ---- descriptors ---- */

void vb_connection_track(int fd, bool is_connector, bool nonblocking, struct vb_rsocket *listener,
			 const uint8_t token[VB_TOKEN])
{
	VB_UNCANCELLED;
	struct vb_connection *connection = calloc(1, sizeof(*connection));
	int error = -ENOMEM;

	vb_connection_forget(fd);
	if (connection != NULL) {
		init_locks(connection);
		vb_list_init(&connection->observers);
		connection->references = 1;
		connection->fd = fd;
		connection->is_connector = is_connector;
		connection->nonblocking = nonblocking;
		connection->listener = listener;
		if (is_connector) {
			set_phase(connection, VB_CONNECTION_OPENING);
			connection->opening_until = VB_TIME_NEVER;
			memcpy(connection->token, token, VB_TOKEN);
		}
		/* A peer that has come must be shown so, though neither side have anything to say: it may hold back the end of what we
		 * wrote, as the beginning of a token (token_reader.h). */
		if (listener != NULL)
			vb_upgrade_observe(connection, listener);
		vb_mutex_lock(&table.lock);
		error = vb_fd_table_set(&table, fd, connection);
		vb_mutex_unlock(&table.lock);
	}
	if (error == 0)
		return;
	if (connection != NULL)
		vb_connection_put(connection);
	else if (listener != NULL)
		vb_upgrade_close_rsocket(listener);
}

void vb_connection_copy(int from, int to)
{
	struct vb_connection *connection = find(from);
	int error;

	if (connection == NULL)
		return;
	vb_mutex_lock(&table.lock);
	error = vb_fd_table_set(&table, to, connection);
	vb_mutex_unlock(&table.lock);
	if (error != 0)
		vb_connection_put(connection);
}

/* Another descriptor of a connection that loses one; -1: it was the last. Caller holds table.lock. */
static int other_descriptor(const struct vb_connection *connection)
{
	int fd = 0;

	while ((fd = vb_fd_table_next(&table, fd)) >= 0 && vb_fd_table_look(&table, fd) != connection)
		fd++;
	return fd;
}

void vb_connection_forget(int fd)
{
	struct vb_connection *connection;
	int other = -1;

	if (vb_fd_table_look(&table, fd) == NULL)
		return;

	VB_UNCANCELLED;

	vb_mutex_lock(&table.lock);
	connection = vb_fd_table_look(&table, fd);
	if (connection != NULL) {
		vb_fd_table_set(&table, fd, NULL);
		if (connection->fd == fd)
			other = other_descriptor(connection);
	}
	vb_mutex_unlock(&table.lock);
	if (connection == NULL)
		return;
	if (connection->fd == fd && other < 0) {
		vb_mutex_lock(&connection->lock);
		vb_sockets_report(connection);
		vb_mutex_unlock(&connection->lock);
	}
	if (other >= 0)
		connection->fd = other;
	vb_connection_put(connection);
}

void vb_connection_forget_range(unsigned first, unsigned last)
{
	int fd = first > INT32_MAX ? -1 : (int)first;

	while (fd >= 0) {
		vb_mutex_lock(&table.lock);
		fd = vb_fd_table_next(&table, fd);
		vb_mutex_unlock(&table.lock);
		if (fd < 0 || (unsigned)fd > last)
			break;
		vb_connection_forget(fd++);
	}
}

/* ---- observers ---- */

void vb_connection_observe(struct vb_connection *connection, struct vb_connection_observer *observer)
{
	vb_mutex_lock(&connection->observers_lock);
	vb_list_append(&connection->observers, &observer->node);
	vb_mutex_unlock(&connection->observers_lock);
}

void vb_connection_unobserve(struct vb_connection *connection, struct vb_connection_observer *observer)
{
	vb_mutex_lock(&connection->observers_lock);
	vb_list_remove(&observer->node);
	vb_mutex_unlock(&connection->observers_lock);
}

bool vb_connection_is_observed(struct vb_connection *connection, const struct vb_connection_observer *but)
{
	bool found = false;

	vb_mutex_lock(&connection->observers_lock);
	VB_LIST_FOR_EACH(node, &connection->observers)
		found |= vb_container_of(node, struct vb_connection_observer, node) != but;
	vb_mutex_unlock(&connection->observers_lock);
	return found;
}

void vb_connection_ring(struct vb_connection *connection, const struct vb_connection_observer *but)
{
	vb_mutex_lock(&connection->observers_lock);
	VB_LIST_FOR_EACH(node, &connection->observers) {
		struct vb_connection_observer *observer = vb_container_of(node, struct vb_connection_observer, node);

		if (observer == but)
			continue;
		__atomic_store_n(&observer->rung, true, __ATOMIC_RELEASE);
		vb_event_raise(observer->wake_fd);
	}
	vb_mutex_unlock(&connection->observers_lock);
}
