/* SPDX-License-Identifier: MIT
 *
 * TCP, the token and the rsocket as one stream in each direction.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "io/cancellation.h"
#include "preload/next.h"
#include "preload/sockets/connection.h"
#include "rdmacm/rsocket/iov.h"
#include "rdmacm/rsocket/stream.h"
#include "rdmacm/rsocket/wait.h"

enum { PIECES = 64 };

/* ---- TCP ---- */

/* What is left of the program's buffers, as recvmsg and sendmsg take it. */
static size_t pieces_of(const struct vb_iov_cursor *cursor, struct iovec pieces[PIECES])
{
	size_t count = cursor->count > PIECES ? PIECES : (size_t)cursor->count;

	for (size_t i = 0; i < count; i++)
		pieces[i] = cursor->iov[i];
	if (count > 0) {
		pieces[0].iov_base = (char *)pieces[0].iov_base + cursor->offset;
		pieces[0].iov_len -= cursor->offset;
	}
	return count;
}

static void move_on(struct vb_iov_cursor *cursor, size_t length)
{
	cursor->left -= length;
	cursor->offset += length;
	while (cursor->count > 0 && cursor->offset >= cursor->iov->iov_len && cursor->left > 0) {
		cursor->offset -= cursor->iov->iov_len;
		cursor->iov++;
		cursor->count--;
	}
}

static ssize_t tcp_receive(struct vb_connection *connection, struct vb_iov_cursor *to, int flags)
{
	VB_UNCANCELLED;
	struct iovec pieces[PIECES];
	struct msghdr message = {.msg_iov = pieces, .msg_iovlen = pieces_of(to, pieces)};
	ssize_t got = NEXT(recvmsg)(connection->fd, &message, flags | MSG_DONTWAIT);

	if (got < 0)
		return -errno;
	if (!(flags & MSG_PEEK))
		move_on(to, (size_t)got);
	return got;
}

static ssize_t tcp_send(struct vb_connection *connection, struct vb_iov_cursor *from, int flags)
{
	VB_UNCANCELLED;
	struct iovec pieces[PIECES];
	struct msghdr message = {.msg_iov = pieces, .msg_iovlen = pieces_of(from, pieces)};
	ssize_t sent = NEXT(sendmsg)(connection->fd, &message, flags | MSG_DONTWAIT);

	if (sent < 0)
		return -errno;
	move_on(from, (size_t)sent);
	return sent;
}

/* ---- the token ---- */

/* A connector's peer sends one only after it has had the connector's; an acceptor's may do so before our rsocket tells that it is there. */
static bool token_may_come(const struct vb_connection *connection)
{
	if (connection->is_connector)
		return connection->phase == VB_CONNECTION_SWITCHING && connection->sends_by_rdma && !connection->receives_by_rdma;
	return connection->phase == VB_CONNECTION_OPENING ||
	       (connection->phase == VB_CONNECTION_SWITCHING && !connection->receives_by_rdma);
}

/* Is it for us to take? Not while TCP may have the connection for good: then the kernel has to have all its bytes. */
static bool *taken(const struct vb_connection *connection, bool *found)
{
	return connection->phase == VB_CONNECTION_SWITCHING ? found : NULL;
}

static void switch_receiving(struct vb_connection *connection)
{
	connection->receives_by_rdma = true;
	vb_upgrade_advance(connection);
}

static ssize_t look_before_token(struct vb_connection *connection)
{
	VB_UNCANCELLED;
	bool found = false;
	ssize_t count = vb_token_reader_look(&connection->token_reader, connection->token, connection->fd, taken(connection, &found));

	if (found)
		switch_receiving(connection);
	return count;
}

static ssize_t receive_before_token(struct vb_connection *connection, struct vb_iov_cursor *to, int flags)
{
	VB_UNCANCELLED;
	bool found = false;
	ssize_t count = vb_token_reader_receive(&connection->token_reader, connection->token, connection->fd, to, flags,
						taken(connection, &found));

	if (found)
		switch_receiving(connection);
	return count;
}

bool vb_stream_tcp_is_readable(struct vb_connection *connection)
{
	return !token_may_come(connection) || look_before_token(connection) != -EAGAIN;
}

size_t vb_stream_tcp_has(const struct vb_connection *connection)
{
	int bytes = 0;

	return NEXT(ioctl)(connection->fd, FIONREAD, &bytes) == 0 && bytes > 0 ? (size_t)bytes : 0;
}

void vb_stream_switch_sending(struct vb_connection *connection)
{
	uint8_t token[VB_TOKEN];
	ssize_t sent;

	if (connection->is_connector)
		vb_token_reader_settle(&connection->token_reader, vb_stream_tcp_has(connection));
	memcpy(token, connection->rs->stream->peer_token, sizeof(token));
	sent = NEXT(send)(connection->fd, token + connection->token_sent, sizeof(token) - connection->token_sent,
			  MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sent > 0)
		connection->token_sent += (unsigned)sent;
	if (connection->token_sent == sizeof(token))
		connection->sends_by_rdma = true;
}

/* ---- both ---- */

static ssize_t rdma_receive(struct vb_connection *connection, struct vb_iov_cursor *to, int flags)
{
	struct vb_rsocket *rs = connection->rs;
	ssize_t got;

	vb_mutex_lock(&rs->lock);
	got = rs->closed ? -EBADF : vb_rstream_receive(rs, to, (flags & (MSG_PEEK | MSG_OOB)) | MSG_DONTWAIT);
	vb_mutex_unlock(&rs->lock);
	if (got > 0 && !(flags & MSG_PEEK))
		connection->received += (uint64_t)got;
	return got;
}

ssize_t vb_stream_receive(struct vb_connection *connection, struct vb_iov_cursor *to, int flags)
{
	ssize_t got;

	vb_upgrade_advance(connection);
	if (connection->phase == VB_CONNECTION_ELSEWHERE)
		return -EIO;
	if (token_may_come(connection)) {
		got = receive_before_token(connection, to, flags);
		if (!connection->receives_by_rdma)
			return got;
	}
	if (connection->receives_by_rdma)
		return rdma_receive(connection, to, flags);
	return tcp_receive(connection, to, flags);
}

ssize_t vb_stream_send(struct vb_connection *connection, struct vb_iov_cursor *from, int flags)
{
	struct vb_rsocket *rs;
	ssize_t sent;

	vb_upgrade_advance(connection);
	if (connection->phase == VB_CONNECTION_ELSEWHERE)
		return -EIO;
	if (!connection->sends_by_rdma)
		return connection->token_sent > 0 ? -EAGAIN : tcp_send(connection, from, flags);
	rs = connection->rs;
	vb_mutex_lock(&rs->lock);
	sent = rs->closed ? -EBADF : vb_rstream_send(rs, from, (flags & MSG_OOB) | MSG_DONTWAIT);
	vb_mutex_unlock(&rs->lock);
	if (sent > 0)
		connection->sent += (uint64_t)sent;
	return sent;
}

int vb_stream_shutdown(struct vb_connection *connection, int how)
{
	VB_UNCANCELLED;
	struct vb_rsocket *rs = connection->rs;
	int error = 0;

	if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
		return -EINVAL;
	if (how != SHUT_RD)
		connection->sending_is_over = true;
	if (connection->sends_by_rdma || connection->receives_by_rdma) {
		vb_mutex_lock(&rs->lock);
		if (connection->sends_by_rdma && connection->receives_by_rdma)
			error = vb_rstream_shutdown(rs, how);
		else if (connection->sends_by_rdma && how != SHUT_RD)
			error = vb_rstream_shutdown(rs, SHUT_WR);
		vb_mutex_unlock(&rs->lock);
		if (error == -ENOTCONN)
			error = 0;
	}
	/* Also where the bytes go by RDMA: the kernel's socket shows the same end. */
	if (NEXT(shutdown)(connection->fd, how) != 0 && error == 0)
		error = -errno;
	vb_connection_ring(connection, NULL);
	return error;
}

int vb_stream_readable_bytes(struct vb_connection *connection)
{
	struct vb_rsocket *rs;
	int bytes = 0;

	if (connection->phase != VB_CONNECTION_FRESH)
		vb_upgrade_advance(connection);
	if (connection->phase == VB_CONNECTION_ELSEWHERE)
		return -EIO;
	if (token_may_come(connection)) {
		ssize_t count = look_before_token(connection);

		if (!connection->receives_by_rdma)
			return count > 0 ? (int)count : 0;
	}
	if (!connection->receives_by_rdma)
		return NEXT(ioctl)(connection->fd, FIONREAD, &bytes) == 0 ? bytes : -errno;
	rs = connection->rs;
	vb_mutex_lock(&rs->lock);
	vb_rsocket_progress(rs);
	bytes = (int)rs->stream->available;
	vb_mutex_unlock(&rs->lock);
	return bytes;
}
