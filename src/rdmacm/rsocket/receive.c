/* SPDX-License-Identifier: MIT
 *
 * Receiving on a stream: bytes are already in the buffer; they are copied out, and the room is offered to the peer again.
 */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "rdmacm/rsocket/rsocket.h"

static bool has_data_or_never_will(const struct vb_rsocket *rs)
{
	return vb_rsocket_has_data(rs) || !rs->readable || !vb_rsocket_is_connected(rs);
}

/* Copy at most `length` unread bytes, from `offset` in the buffer, without taking them. */
static void copy_out(const struct vb_rsocket *rs, uint32_t offset, uint8_t *to, uint32_t length)
{
	uint32_t first = rs->receive_size - offset < length ? rs->receive_size - offset : length;

	memcpy(to, rs->receive_buffer + offset, first);
	memcpy(to + first, rs->receive_buffer, length - first);
}

/* Account for `length` bytes: whole messages give credit back. */
static void take(struct vb_rsocket *rs, uint32_t length)
{
	rs->receive_offset = (rs->receive_offset + length) % rs->receive_size;
	rs->unread -= length;
	rs->returned += length;
	while (vb_rsocket_has_data(rs)) {
		uint32_t *message = &rs->messages[rs->message_head];

		if (*message > length) {
			*message -= length;
			return;
		}
		length -= *message;
		rs->taken++;
		rs->message_head = rs->message_head == rs->receive_queue ? 0 : rs->message_head + 1;
		if (length == 0)
			return;
	}
}

static size_t read_into(struct vb_rsocket *rs, const struct iovec *iov, int count, size_t skip, bool peek)
{
	size_t done = 0;
	uint32_t offset = rs->receive_offset, unread = rs->unread;

	for (; count > 0 && unread != 0; iov++, count--) {
		size_t room;
		uint32_t part;

		if (skip >= iov->iov_len) {
			skip -= iov->iov_len;
			continue;
		}
		room = iov->iov_len - skip;
		part = room < unread ? (uint32_t)room : unread;
		copy_out(rs, offset, (uint8_t *)iov->iov_base + skip, part);
		offset = (offset + part) % rs->receive_size;
		unread -= part;
		done += part;
		skip = 0;
	}
	if (!peek && done != 0)
		take(rs, (uint32_t)done);
	return done;
}

ssize_t vb_rsocket_receive(struct vb_rsocket *rs, const struct iovec *iov, int count, int flags)
{
	size_t length = 0, done = 0;
	bool nonblocking = rs->nonblocking || (flags & MSG_DONTWAIT);
	int error = 0;

	for (int i = 0; i < count; i++)
		length += iov[i].iov_len;
	if (rs->state == VB_RSOCKET_CONNECTING) {
		error = vb_rsocket_continue(rs);
		if (error != 0)
			return error == -EINPROGRESS ? -EAGAIN : error;
	}
	if (rs->state < VB_RSOCKET_CONNECTED)
		return -ENOTCONN;
	if (length == 0)
		return 0;
	do {
		if (!vb_rsocket_has_data(rs)) {
			error = vb_rsocket_wait(rs, has_data_or_never_will, nonblocking, -1);
			if (error != 0)
				break;
		}
		if (!vb_rsocket_has_data(rs))
			break; /* the end */
		done += read_into(rs, iov, count, done, flags & MSG_PEEK);
	} while (done < length && (flags & MSG_WAITALL) && !(flags & MSG_PEEK));
	/* Room that was read is offered at once: the peer may be waiting for just that. */
	vb_rsocket_progress(rs);
	if (done == 0 && error == 0 && rs->state == VB_RSOCKET_FAILED && rs->error != 0) {
		error = -rs->error;
		rs->error = 0;
	}
	return done != 0 ? (ssize_t)done : error;
}
