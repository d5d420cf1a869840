/* SPDX-License-Identifier: MIT
 *
 * The calls that move bytes, as programs make them: those on a connection of ours are ours, all others pass.
 *
 * __read_chk and its kind are what programs call that were compiled with _FORTIFY_SOURCE.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include <fcntl.h>

#include "io/cancellation.h"
#include "preload/next.h"
#include "preload/sockets/connection.h"
#include "preload/sockets/transfer.h"

ssize_t __read_chk(int fd, void *buffer, size_t length, size_t room);
ssize_t __recv_chk(int fd, void *buffer, size_t length, size_t room, int flags);
ssize_t __recvfrom_chk(int fd, void *buffer, size_t length, size_t room, int flags, struct sockaddr *from,
		       socklen_t *size);

/* The beginning of a call at which no thread ends. */
static struct vb_connection *enter_uncancelled(int fd)
{
	struct vb_connection *connection;

	vb_cancellation_enter();
	connection = vb_connection_get(fd);
	if (connection == NULL)
		vb_cancellation_leave(NULL);
	return connection;
}

/* The beginning of a call at which a thread that was told to end does so (pthreads(7)): here, where nothing is held, or where it sleeps.
 * Not in between: threads may be cancelled asynchronously, as iperf3's are since 3.16. */
static struct vb_connection *enter(int fd)
{
	if (!vb_connection_is_known(fd))
		return NULL;
	pthread_testcancel();
	return enter_uncancelled(fd);
}

/* The connection is not for this call, after all. */
static void pass(struct vb_connection *connection)
{
	vb_connection_put(connection);
	vb_cancellation_leave(NULL);
}

/* The end of a call on a connection. */
static ssize_t leave(struct vb_connection *connection, ssize_t result)
{
	pass(connection);
	if (result >= 0)
		return result;
	errno = (int)-result;
	return -1;
}

static ssize_t receive(struct vb_connection *connection, void *buffer, size_t length, int flags)
{
	struct iovec iov = {.iov_base = buffer, .iov_len = length};

	return leave(connection, vb_transfer_receive(connection, &iov, 1, flags));
}

static ssize_t transmit(struct vb_connection *connection, const void *buffer, size_t length, int flags)
{
	struct iovec iov = {.iov_base = (void *)(uintptr_t)buffer, .iov_len = length};

	return leave(connection, vb_transfer_send(connection, &iov, 1, flags));
}

/* ---- in ---- */

PRELOAD ssize_t read(int fd, void *buffer, size_t length)
{
	struct vb_connection *connection = enter(fd);

	return connection == NULL ? NEXT(read)(fd, buffer, length) : receive(connection, buffer, length, 0);
}

PRELOAD ssize_t __read_chk(int fd, void *buffer, size_t length, size_t room)
{
	struct vb_connection *connection = enter(fd);

	if (connection == NULL || length > room) {
		if (connection != NULL)
			pass(connection);
		return NEXT(__read_chk)(fd, buffer, length, room);
	}
	return receive(connection, buffer, length, 0);
}

PRELOAD ssize_t readv(int fd, const struct iovec *iov, int count)
{
	struct vb_connection *connection = enter(fd);

	if (connection == NULL)
		return NEXT(readv)(fd, iov, count);
	return leave(connection, count < 0 ? -EINVAL : vb_transfer_receive(connection, iov, (size_t)count, 0));
}

PRELOAD ssize_t recv(int fd, void *buffer, size_t length, int flags)
{
	struct vb_connection *connection = flags & MSG_ERRQUEUE ? NULL : enter(fd);

	return connection == NULL ? NEXT(recv)(fd, buffer, length, flags) : receive(connection, buffer, length, flags);
}

PRELOAD ssize_t __recv_chk(int fd, void *buffer, size_t length, size_t room, int flags)
{
	if (length > room)
		return NEXT(__recv_chk)(fd, buffer, length, room, flags);
	return recv(fd, buffer, length, flags);
}

PRELOAD ssize_t recvfrom(int fd, void *buffer, size_t length, int flags, struct sockaddr *from, socklen_t *size)
{
	struct vb_connection *connection = flags & MSG_ERRQUEUE ? NULL : enter(fd);

	if (connection == NULL)
		return NEXT(recvfrom)(fd, buffer, length, flags, from, size);
	if (from != NULL && size != NULL)
		*size = 0;                       /* on a connected stream it names no sender */
	return receive(connection, buffer, length, flags);
}

PRELOAD ssize_t __recvfrom_chk(int fd, void *buffer, size_t length, size_t room, int flags, struct sockaddr *from,
			       socklen_t *size)
{
	if (length > room)
		return NEXT(__recvfrom_chk)(fd, buffer, length, room, flags, from, size);
	return recvfrom(fd, buffer, length, flags, from, size);
}

static ssize_t receive_message(struct vb_connection *connection, struct msghdr *message, int flags)
{
	ssize_t result = vb_transfer_receive(connection, message->msg_iov, message->msg_iovlen, flags);

	if (result < 0)
		return result;
	message->msg_namelen = 0;
	message->msg_controllen = 0;
	message->msg_flags = 0;
	return result;
}

PRELOAD ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	struct vb_connection *connection = flags & MSG_ERRQUEUE ? NULL : enter(fd);

	if (connection == NULL)
		return NEXT(recvmsg)(fd, message, flags);
	return leave(connection, receive_message(connection, message, flags));
}

PRELOAD int recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *timeout)
{
	struct vb_connection *connection = flags & MSG_ERRQUEUE ? NULL : enter(fd);
	ssize_t result;

	if (connection == NULL || count == 0) {
		if (connection != NULL)
			pass(connection);
		return NEXT(recvmmsg)(fd, messages, count, flags, timeout);
	}
	/* A stream has no messages: one is filled with what there is. */
	result = receive_message(connection, &messages[0].msg_hdr, flags & ~MSG_WAITFORONE);
	messages[0].msg_len = result > 0 ? (unsigned)result : 0;
	return (int)leave(connection, result < 0 ? result : 1);
}

/* ---- out ---- */

PRELOAD ssize_t write(int fd, const void *buffer, size_t length)
{
	struct vb_connection *connection = enter(fd);

	return connection == NULL ? NEXT(write)(fd, buffer, length) : transmit(connection, buffer, length, 0);
}

PRELOAD ssize_t writev(int fd, const struct iovec *iov, int count)
{
	struct vb_connection *connection = enter(fd);

	if (connection == NULL)
		return NEXT(writev)(fd, iov, count);
	return leave(connection, count < 0 ? -EINVAL : vb_transfer_send(connection, iov, (size_t)count, 0));
}

PRELOAD ssize_t send(int fd, const void *buffer, size_t length, int flags)
{
	struct vb_connection *connection = enter(fd);

	return connection == NULL ? NEXT(send)(fd, buffer, length, flags) : transmit(connection, buffer, length, flags);
}

PRELOAD ssize_t sendto(int fd, const void *buffer, size_t length, int flags, const struct sockaddr *to, socklen_t size)
{
	/* An address on a connected TCP socket is ignored; with MSG_FASTOPEN it connects, and is not yet ours. */
	struct vb_connection *connection = enter(fd);

	return connection == NULL ? NEXT(sendto)(fd, buffer, length, flags, to, size) :
				    transmit(connection, buffer, length, flags);
}

PRELOAD ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	struct vb_connection *connection = enter(fd);

	if (connection == NULL)
		return NEXT(sendmsg)(fd, message, flags);
	return leave(connection, vb_transfer_send(connection, message->msg_iov, message->msg_iovlen, flags));
}

PRELOAD int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
	struct vb_connection *connection = enter(fd);
	unsigned done = 0;
	ssize_t result = 0;

	if (connection == NULL)
		return NEXT(sendmmsg)(fd, messages, count, flags);
	for (; done < count; done++) {
		const struct msghdr *message = &messages[done].msg_hdr;

		result = vb_transfer_send(connection, message->msg_iov, message->msg_iovlen, flags);
		if (result < 0)
			break;
		messages[done].msg_len = (unsigned)result;
	}
	return (int)leave(connection, done > 0 ? (ssize_t)done : result);
}

/* Does what goes out on it go by RDMA? Until then the kernel's own calls serve. */
static bool sends_by_rdma(struct vb_connection *connection)
{
	bool by_rdma;

	vb_mutex_lock(&connection->lock);
	vb_upgrade_advance(connection);
	by_rdma = connection->token_sent > 0;
	vb_mutex_unlock(&connection->lock);
	return by_rdma;
}

static ssize_t send_file(struct vb_connection *connection, int to, int from, off_t *offset, size_t count)
{
	if (sends_by_rdma(connection))
		return leave(connection, vb_transfer_file(connection, from, offset, count));
	pass(connection);
	return NEXT(sendfile)(to, from, offset, count);
}

PRELOAD ssize_t sendfile(int to, int from, off_t *offset, size_t count)
{
	struct vb_connection *connection = enter_uncancelled(to);

	return connection == NULL ? NEXT(sendfile)(to, from, offset, count) :
				    send_file(connection, to, from, offset, count);
}

PRELOAD ssize_t sendfile64(int to, int from, off64_t *offset, size_t count)
{
	return sendfile(to, from, offset, count);
}

/* A pipe cannot be joined to what is no kernel socket. Before that the connection stays TCP's; programs go on by
 * read and write where they are told that it cannot be done (splice(2): EINVAL). */
static bool may_splice(int fd)
{
	struct vb_connection *connection = vb_connection_get(fd);
	bool may;

	if (connection == NULL)
		return true;
	vb_mutex_lock(&connection->lock);
	vb_upgrade_decline(connection);
	may = connection->phase == VB_CONNECTION_PLAIN;
	vb_mutex_unlock(&connection->lock);
	vb_connection_put(connection);
	return may;
}

PRELOAD ssize_t splice(int from, off64_t *from_offset, int to, off64_t *to_offset, size_t length, unsigned flags)
{
	if (may_splice(from) && may_splice(to))
		return NEXT(splice)(from, from_offset, to, to_offset, length, flags);
	errno = EINVAL;
	return -1;
}
