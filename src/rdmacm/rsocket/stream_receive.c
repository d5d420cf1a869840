/* SPDX-License-Identifier: MIT
 *
 * Receiving: the bytes are there already, in the receive buffer; copy them out and let the peer have the room again.
 * What came before the end is read to the last byte, whatever the end was.
 */
#include <errno.h>

#include "rdmacm/rsocket/iov.h"
#include "rdmacm/rsocket/pace.h"
#include "rdmacm/rsocket/stream.h"
#include "rdmacm/rsocket/wait.h"

static bool can_receive_or_never_will(struct vb_rsocket *rs)
{
	return rs->stream->available > 0 || !rs->stream->may_read;
}

/* Out of the ring, without giving the room back. */
static uint32_t copy_out(const struct vb_rstream *stream, struct vb_iov_cursor *to)
{
	uint32_t length = to->left < stream->available ? (uint32_t)to->left : stream->available;
	uint32_t before_end = stream->receive_size - stream->receive_at;

	if (before_end > length)
		before_end = length;
	vb_iov_cursor_write(to, stream->receive_bytes + stream->receive_at, before_end);
	vb_iov_cursor_write(to, stream->receive_bytes, length - before_end);
	return length;
}

static void consume(struct vb_rsocket *rs, uint32_t length)
{
	struct vb_rstream *stream = rs->stream;

	stream->receive_at = (stream->receive_at + length) % stream->receive_size;
	stream->available -= length;
	stream->freed += length;
	vb_rstream_grant(rs);
}

/* Nothing is left and nothing will come: 0, the end of the stream, or why it was cut. */
static ssize_t end_of_stream(struct vb_rsocket *rs)
{
	if (rs->stream->state != VB_RSTREAM_BROKEN || rs->stream->failure_told)
		return 0;
	rs->stream->failure_told = true;
	return -rs->error;
}

ssize_t vb_rstream_receive(struct vb_rsocket *rs, struct vb_iov_cursor *to, int flags)
{
	struct vb_rstream *stream = rs->stream;
	vb_time patience = vb_rsocket_patience(rs, flags, rs->options.receive_timeout);
	ssize_t total = 0, result;

	if (flags & MSG_OOB)
		return -EOPNOTSUPP;
	result = vb_rstream_await_connection(rs, patience);
	if (result != 0)
		return result;
	while (to->left > 0) {
		uint32_t length;

		if (stream->available == 0) {
			result = vb_rsocket_wait(rs, patience, can_receive_or_never_will);
			if (result == 0 && stream->available == 0 && total == 0)
				result = end_of_stream(rs);
			if (result != 0 || stream->available == 0)
				break;
		}
		length = copy_out(stream, to);
		total += length;
		vb_pace_moved(vb_rsocket_pace(), length);
		if (flags & MSG_PEEK)
			break;
		consume(rs, length);
		if ((flags & MSG_WAITALL) == 0)
			break;
	}
	return total > 0 ? total : result;
}
