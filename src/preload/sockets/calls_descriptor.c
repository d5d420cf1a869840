/* SPDX-License-Identifier: MIT
 *
 * The calls that begin and end connections, copy descriptors and set what we must know.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "io/cancellation.h"
#include "preload/next.h"
#include "preload/sockets/connection.h"
#include "preload/sockets/epoll.h"
#include "preload/sockets/settings.h"

int fcntl64(int fd, int command, ...);

static bool is_ours(int fd)
{
	return vb_connection_is_known(fd) || vb_sockets_epoll_concerns(fd);
}

static void forget(int fd)
{
	if (!is_ours(fd) && !vb_sockets_epoll_is_noted(fd))
		return;
	if (vb_connection_is_vforked())
		return;
	vb_sockets_epoll_forget(fd);
	vb_connection_forget(fd);
}

/* ---- connections ---- */

static int option_of(int fd, int name)
{
	int value = -1;
	socklen_t length = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, name, &value, &length) == 0 ? value : -1;
}

/* An IPv4 address that an IPv6 socket connects to is reached by IPv4. */
static int family_of(const struct sockaddr *address, socklen_t length, uint16_t *port)
{
	struct sockaddr_in6 v6;
	struct sockaddr_in v4;

	if (address == NULL || length < sizeof(v4))
		return AF_UNSPEC;
	if (address->sa_family == AF_INET) {
		memcpy(&v4, address, sizeof(v4));
		*port = ntohs(v4.sin_port);
		return AF_INET;
	}
	if (address->sa_family != AF_INET6 || length < sizeof(v6))
		return AF_UNSPEC;
	memcpy(&v6, address, sizeof(v6));
	*port = ntohs(v6.sin6_port);
	return IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr) ? AF_INET : AF_INET6;
}

static bool is_candidate(int fd, int family, uint16_t port)
{
	return family != AF_UNSPEC && vb_sockets_port_is_wanted(port) && !vb_sockets_epoll_is_noted(fd) &&
	       option_of(fd, SO_TYPE) == SOCK_STREAM && option_of(fd, SO_PROTOCOL) == IPPROTO_TCP;
}

PRELOAD int connect(int fd, const struct sockaddr *address, socklen_t length)
{
	uint16_t port = 0;
	int family = family_of(address, length, &port), result, error;
	struct vb_rsocket *listener = NULL;
	uint8_t token[VB_TOKEN];

	/* Known already: it asks how its first connect went. */
	if (vb_connection_is_known(fd) || !is_candidate(fd, family, port))
		return NEXT(connect)(fd, address, length);
	pthread_testcancel();
	listener = vb_upgrade_listen(fd, family, token);
	if (listener == NULL)
		return NEXT(connect)(fd, address, length);
	/* Before the peer can see it. */
	vb_connection_track(fd, true, (NEXT(fcntl)(fd, F_GETFL) & O_NONBLOCK) != 0, listener, token);
	result = NEXT(connect)(fd, address, length);
	error = errno;
	if (result != 0 && error != EINPROGRESS && error != EINTR && error != EALREADY)
		vb_connection_forget(fd);
	errno = error;
	return result;
}

PRELOAD int accept(int fd, struct sockaddr *address, socklen_t *length)
{
	int accepted = NEXT(accept)(fd, address, length);

	if (accepted >= 0)
		vb_connection_track(accepted, false, false, NULL, NULL);
	return accepted;
}

PRELOAD int accept4(int fd, struct sockaddr *address, socklen_t *length, int flags)
{
	int accepted = NEXT(accept4)(fd, address, length, flags);

	if (accepted >= 0)
		vb_connection_track(accepted, false, (flags & SOCK_NONBLOCK) != 0, NULL, NULL);
	return accepted;
}

PRELOAD int shutdown(int fd, int how)
{
	struct vb_connection *connection = vb_connection_get(fd);
	int error;

	if (connection == NULL)
		return NEXT(shutdown)(fd, how);
	vb_mutex_lock(&connection->lock);
	error = vb_stream_shutdown(connection, how);
	vb_mutex_unlock(&connection->lock);
	vb_connection_put(connection);
	errno = -error;
	return error == 0 ? 0 : -1;
}

/* ---- descriptors ---- */

/* A thread that was told to end does so before anything has ended, or when everything has. */
static int close_ours(int fd)
{
	int kept = errno;

	pthread_testcancel();

	VB_UNCANCELLED;

	forget(fd);
	errno = kept;
	return NEXT(close)(fd);
}

PRELOAD int close(int fd)
{
	if (is_ours(fd) && !vb_connection_is_vforked())
		return close_ours(fd);
	forget(fd);
	return NEXT(close)(fd);
}

PRELOAD int close_range(unsigned first, unsigned last, int flags)
{
	if (!((unsigned)flags & CLOSE_RANGE_CLOEXEC) && !vb_connection_is_vforked())
		vb_connection_forget_range(first, last);
	return NEXT(close_range)(first, last, flags);
}

PRELOAD void closefrom(int first)
{
	if (!vb_connection_is_vforked())
		vb_connection_forget_range(first < 0 ? 0 : (unsigned)first, ~0U);
	NEXT(closefrom)(first);
}

static int copied(int from, int to)
{
	if (to >= 0 && to != from && vb_connection_is_known(from) && !vb_connection_is_vforked())
		vb_connection_copy(from, to);
	return to;
}

PRELOAD int dup(int fd)
{
	return copied(fd, NEXT(dup)(fd));
}

PRELOAD int dup2(int from, int to)
{
	if (from != to)
		forget(to);
	return copied(from, NEXT(dup2)(from, to));
}

PRELOAD int dup3(int from, int to, int flags)
{
	if (from != to)
		forget(to);
	return copied(from, NEXT(dup3)(from, to, flags));
}

static void note_nonblocking(int fd, bool nonblocking)
{
	struct vb_connection *connection = vb_connection_get(fd);

	if (connection == NULL)
		return;
	connection->nonblocking = nonblocking;
	vb_connection_put(connection);
}

static int control(int fd, int command, void *argument)
{
	int result = NEXT(fcntl)(fd, command, argument);

	if (result < 0)
		return result;
	if (command == F_SETFL)
		note_nonblocking(fd, ((uintptr_t)argument & O_NONBLOCK) != 0);
	else if (command == F_DUPFD || command == F_DUPFD_CLOEXEC)
		copied(fd, result);
	return result;
}

#define FCNTL(name)                                                                     \
	PRELOAD int name(int fd, int command, ...)                                      \
	{                                                                               \
		va_list arguments;                                                      \
		void *argument;                                                         \
		va_start(arguments, command);                                           \
		argument = va_arg(arguments, void *);                                   \
		va_end(arguments);                                                      \
		return control(fd, command, argument);                                  \
	}
FCNTL(fcntl)
FCNTL(fcntl64)

static int readable_bytes(int fd, int *bytes)
{
	struct vb_connection *connection = vb_connection_get(fd);
	int result;

	if (connection == NULL)
		return NEXT(ioctl)(fd, FIONREAD, bytes);
	vb_mutex_lock(&connection->lock);
	result = vb_stream_readable_bytes(connection);
	vb_mutex_unlock(&connection->lock);
	vb_connection_put(connection);
	if (result >= 0) {
		*bytes = result;
		return 0;
	}
	errno = -result;
	return -1;
}

PRELOAD int ioctl(int fd, unsigned long request, ...)
{
	va_list arguments;
	void *argument;
	int result;

	va_start(arguments, request);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	if (request == FIONREAD && argument != NULL)
		return readable_bytes(fd, argument);
	result = NEXT(ioctl)(fd, request, argument);
	if (result == 0 && request == FIONBIO)
		note_nonblocking(fd, *(int *)argument != 0);
	return result;
}

static void note_timeout(int fd, int name, const void *value, socklen_t length)
{
	struct vb_connection *connection = vb_connection_get(fd);
	struct timeval limit;

	if (connection == NULL || length < sizeof(limit))
		return;
	memcpy(&limit, value, sizeof(limit));
	*(name == SO_RCVTIMEO ? &connection->receive_timeout : &connection->send_timeout) =
		VB_SECONDS(limit.tv_sec) + VB_MICROSECONDS(limit.tv_usec);
	vb_connection_put(connection);
}

PRELOAD int setsockopt(int fd, int level, int name, const void *value, socklen_t length)
{
	int result = NEXT(setsockopt)(fd, level, name, value, length);

	if (result == 0 && level == SOL_SOCKET && (name == SO_RCVTIMEO || name == SO_SNDTIMEO))
		note_timeout(fd, name, value, length);
	return result;
}

/* The C library's streams read and write by themselves: such a connection stays TCP's. */
PRELOAD FILE *fdopen(int fd, const char *mode)
{
	struct vb_connection *connection = vb_connection_get(fd);

	if (connection != NULL) {
		vb_mutex_lock(&connection->lock);
		vb_upgrade_decline(connection);
		vb_mutex_unlock(&connection->lock);
		vb_connection_put(connection);
	}
	return NEXT(fdopen)(fd, mode);
}
