/* SPDX-License-Identifier: MIT
 *
 * Sending: bytes are copied into the send buffer and written from there to where the peer has room. A call returns
 * when the last of its bytes is posted, not when it has arrived.
 */
#include <errno.h>
#include <string.h>

#include "rdmacm/rsocket/iov.h"
#include "rdmacm/rsocket/pace.h"
#include "rdmacm/rsocket/stream.h"
#include "rdmacm/rsocket/stream_cut.h"
#include "rdmacm/rsocket/wait.h"

static uint32_t smaller(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static bool can_send_or_never_will(struct vb_rsocket *rs)
{
	return vb_rstream_can_send(rs) || !rs->stream->may_write;
}

/* Move on to the next room the peer has told us of. Caller has seen that there is some. */
static int take_target(struct vb_rsocket *rs)
{
	struct vb_rstream *stream = rs->stream;

	if (stream->target.length > 0)
		return 0;
	stream->target = stream->lists->targets[stream->target_at];
	stream->lists->targets[stream->target_at].length = 0;
	if (stream->foreign)
		stream->target = vb_rstream_span_swap(stream->target);
	stream->target_at = (stream->target_at + 1) % VB_RSTREAM_TARGETS;
	stream->targets_ready--;
	if (stream->target.length > 0)
		return 0;
	vb_rstream_break(rs, EPROTO);
	return -EPROTO;
}

static int write_pieces(struct vb_rsocket *rs, uint64_t work_id, struct ibv_sge *pieces, int count, unsigned flags,
			const struct vb_rstream_span *to, bool is_data, uint32_t length)
{
	if (!is_data)
		return vb_rstream_write(rs, work_id, pieces, count, flags, to);
	return vb_rstream_write_and_tell(rs, work_id, pieces, count, flags, to, vb_rstream_message_encode(VB_RSTREAM_DATA, length));
}

/* The program is not told when its bytes have arrived, and a completion of each write would wake a thread for nothing that sleeps until
 * an answer comes; and on a wire each has the peer answer, which costs both sides a system call. So few writes ask for one: what the
 * others hold leaves a stream what it must have free to go on. */
static uint64_t work_id_of_write(struct vb_rstream *stream, unsigned slots, uint32_t bytes)
{
	stream->send_slots -= slots;
	stream->quiet_slots += slots;
	stream->quiet_bytes += bytes;
	if (stream->quiet_slots < VB_RSTREAM_QUIET_SLOTS && stream->quiet_slots < stream->send_slots_all / VB_RSTREAM_QUIET_PART &&
	    stream->quiet_bytes < stream->send_size / VB_RSTREAM_QUIET_PART)
		return vb_rstream_work_id(VB_RSTREAM_PLACE, 0, 0);
	return vb_rstream_work_with_quiet(stream, VB_RSTREAM_WRITE);
}

static int write_inline(struct vb_rsocket *rs, struct vb_iov_cursor *from, uint32_t length,
			const struct vb_rstream_span *to, bool is_data)
{
	uint8_t bytes[VB_RSTREAM_INLINE_MOST];
	struct ibv_sge piece = {.addr = (uintptr_t)bytes, .length = length};

	vb_iov_cursor_read(from, bytes, length);
	return write_pieces(rs, work_id_of_write(rs->stream, 1, 0), &piece, 1, IBV_SEND_INLINE, to, is_data, length);
}

static int write_from_buffer(struct vb_rsocket *rs, struct vb_iov_cursor *from, uint32_t length,
			     const struct vb_rstream_span *to, bool is_data)
{
	struct vb_rstream *stream = rs->stream;
	uint32_t before_end = smaller(length, stream->send_size - stream->send_at);
	uint64_t start = (uintptr_t)stream->send_bytes;
	int count = length > before_end ? 2 : 1;
	struct vb_rstream_cut cut;
	struct ibv_sge pieces[VB_RSTREAM_PIECES] = {
		{.addr = start + stream->send_at, .length = before_end, .lkey = stream->send_mr->lkey},
		{.addr = start, .length = length - before_end, .lkey = stream->send_mr->lkey},
	};

	if (is_data && vb_rstream_place(stream, from, length, to))
		return write_pieces(rs, work_id_of_write(stream, 1, 0), NULL, 0, 0, to, true, length);
	vb_iov_cursor_read(from, stream->send_bytes + stream->send_at, before_end);
	vb_iov_cursor_read(from, stream->send_bytes, length - before_end);
	stream->send_at = (stream->send_at + length) % stream->send_size;
	stream->send_free -= length;
	if (is_data && stream->send_slots > 1 && vb_rstream_cut(&cut, pieces, count, stream->packet))
		return vb_rstream_write_cut(rs, work_id_of_write(stream, 2, length), &cut, to,
					    vb_rstream_message_encode(VB_RSTREAM_DATA, length));
	return write_pieces(rs, work_id_of_write(stream, 1, length), pieces, count, 0, to, is_data, length);
}

ssize_t vb_rstream_write_piece(struct vb_rsocket *rs, struct vb_iov_cursor *from, uint32_t most,
			       const struct vb_rstream_span *to, bool is_data)
{
	struct vb_rstream *stream = rs->stream;
	uint32_t length = from->left < most ? (uint32_t)from->left : most;
	int error;

	length = smaller(length, VB_RSTREAM_TRANSFER_MOST);
	if (length <= stream->inline_most) {
		error = write_inline(rs, from, length, to, is_data);
	} else {
		length = smaller(length, stream->send_free);
		error = write_from_buffer(rs, from, length, to, is_data);
	}
	return error != 0 ? error : (ssize_t)length;
}

/* Caller has seen that something can be sent. Bytes sent, or -errno. */
static ssize_t send_piece(struct vb_rsocket *rs, struct vb_iov_cursor *from)
{
	struct vb_rstream *stream = rs->stream;
	struct vb_rstream_span to;
	ssize_t length;
	int error = take_target(rs);

	if (error != 0)
		return error;
	to = stream->target;
	length = vb_rstream_write_piece(rs, from, to.length, &to, true);
	if (length < 0)
		return length;
	stream->sent++;
	stream->target.address += (uint64_t)length;
	stream->target.length -= (uint32_t)length;
	return length;
}

ssize_t vb_rstream_send(struct vb_rsocket *rs, struct vb_iov_cursor *from, int flags)
{
	struct vb_rstream *stream = rs->stream;
	vb_time patience = vb_rsocket_patience(rs, flags, rs->options.send_timeout);
	ssize_t total = 0, result = 0;

	if (flags & MSG_OOB)
		return -EOPNOTSUPP;
	result = vb_rstream_await_connection(rs, patience);
	if (result == 0 && stream->unsent_mappings > 0)
		result = vb_rstream_iomap_announce(rs, patience);
	if (result != 0)
		return result;
	while (from->left > 0) {
		if (stream->may_write && !vb_rstream_can_send(rs)) {
			result = vb_rsocket_wait(rs, patience, can_send_or_never_will);
			if (result != 0)
				break;
		}
		result = stream->may_write ? send_piece(rs, from) : vb_rstream_why_not_send(rs);
		if (result < 0)
			break;
		total += result;
		vb_pace_moved(vb_rsocket_pace(), (uint64_t)result);
	}
	return total > 0 ? total : result;
}
