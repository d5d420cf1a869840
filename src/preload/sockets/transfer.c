/* SPDX-License-Identifier: MIT */
#include "preload/sockets/transfer.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/cancellation.h"
#include "preload/sockets/connection.h"
#include "preload/sockets/readiness.h"
#include "rdmacm/rsocket/iov.h"
#include "rdmacm/rsocket/wait.h"

enum { FILE_PIECE = 262144 };

/* When a call that has to wait gives up. */
static vb_time deadline_of(const struct vb_connection *connection, int flags, vb_time timeout)
{
	if (connection->nonblocking || (flags & MSG_DONTWAIT))
		return 0;
	return timeout == 0 ? VB_TIME_NEVER : vb_rsocket_now() + timeout;
}

ssize_t vb_transfer_receive(struct vb_connection *connection, const struct iovec *iov, size_t count, int flags)
{
	vb_time deadline = deadline_of(connection, flags, connection->receive_timeout);
	struct vb_iov_cursor to;
	ssize_t total = 0, result = vb_iov_cursor_init(&to, iov, count);

	if (result != 0)
		return result;
	for (;;) {
		vb_mutex_lock(&connection->lock);
		result = vb_stream_receive(connection, &to, flags);
		vb_mutex_unlock(&connection->lock);
		if (result > 0)
			total += result;
		if (result == 0 || (result > 0 && (!(flags & MSG_WAITALL) || (flags & MSG_PEEK) || to.left == 0)) ||
		    (result < 0 && result != -EAGAIN))
			break;
		if (result > 0)
			continue;
		if (deadline == 0)
			break;
		result = vb_readiness_wait(connection, POLLIN, deadline);
		if (result != 0)
			break;
	}
	return total > 0 ? total : result;
}

ssize_t vb_transfer_send(struct vb_connection *connection, const struct iovec *iov, size_t count, int flags)
{
	vb_time deadline = deadline_of(connection, flags, connection->send_timeout);
	struct vb_iov_cursor from;
	ssize_t total = 0, result = vb_iov_cursor_init(&from, iov, count);

	if (result != 0)
		return result;
	do {
		vb_mutex_lock(&connection->lock);
		result = vb_stream_send(connection, &from, flags);
		vb_mutex_unlock(&connection->lock);
		if (result > 0)
			total += result;
		if (result == -EAGAIN || (result > 0 && from.left > 0)) {
			if (deadline == 0)
				break;
			if (result < 0)
				result = vb_readiness_wait(connection, POLLOUT, deadline);
		}
	} while (result >= 0 && from.left > 0);
	if (total > 0)
		return total;
	/* TCP's own call has raised it already; the rsocket does not. */
	if (result == -EPIPE && connection->sends_by_rdma && !(flags & MSG_NOSIGNAL))
		raise(SIGPIPE);
	return result;
}

ssize_t vb_transfer_file(struct vb_connection *connection, int file, off_t *offset, size_t count)
{
	VB_UNCANCELLED;
	off_t at = offset != NULL ? *offset : lseek(file, 0, SEEK_CUR);
	ssize_t total = 0, result = 0;
	char *bytes;

	if (at < 0)
		return -EINVAL;
	bytes = malloc(FILE_PIECE);
	if (bytes == NULL)
		return -ENOMEM;
	while ((size_t)total < count) {
		size_t want = count - (size_t)total < FILE_PIECE ? count - (size_t)total : FILE_PIECE;
		ssize_t got = pread(file, bytes, want, at);

		if (got <= 0) {
			result = got < 0 ? -errno : 0;
			break;
		}
		result = vb_transfer_send(connection, &(struct iovec){.iov_base = bytes, .iov_len = (size_t)got}, 1, 0);
		if (result < 0)
			break;
		total += result;
		at += result;
		if (result < got)
			break;
	}
	free(bytes);
	if (offset != NULL)
		*offset = at;
	else if (total > 0)
		lseek(file, at, SEEK_SET);
	return total > 0 ? total : result;
}
