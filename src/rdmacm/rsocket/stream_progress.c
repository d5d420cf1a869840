/* SPDX-License-Identifier: MIT
 *
 * Completions of a stream: what the peer said, which of our writes have arrived, and when to grant it more room. The
 * peer is not trusted: a length it has not been granted, or an entry it cannot have filled in, breaks the connection.
 */
#include <errno.h>
#include <poll.h>

#include "rdmacm/rsocket/stream.h"

enum { COMPLETIONS_AT_ONCE = 16 };

int vb_rstream_tell(struct vb_rsocket *rs, enum vb_rstream_control control)
{
	static const struct vb_rstream_span nowhere;
	enum vb_rstream_work work = control == VB_RSTREAM_DISCONNECT ? VB_RSTREAM_TELL_DISCONNECT : VB_RSTREAM_TELL;

	if (rs->stream->control_slots == 0)
		return -EAGAIN;
	rs->stream->control_slots--;
	/* A keep-alive needs no answer but the acknowledgement, and so no receive of the peer's. */
	if (control == VB_RSTREAM_KEEP_ALIVE)
		return vb_rstream_write(rs, vb_rstream_work_with_quiet(rs->stream, work), NULL, 0, 0, &nowhere);
	return vb_rstream_write_and_tell(rs, vb_rstream_work_with_quiet(rs->stream, work), NULL, 0, 0, &nowhere,
					 vb_rstream_message_encode(VB_RSTREAM_CONTROL, control));
}

void vb_rstream_keep_alive(struct vb_rsocket *rs)
{
	if (rs->stream->state == VB_RSTREAM_CONNECTED)
		vb_rstream_tell(rs, VB_RSTREAM_KEEP_ALIVE);
}

void vb_rstream_grant(struct vb_rsocket *rs)
{
	struct vb_rstream *stream = rs->stream;
	uint32_t half = stream->receive_size / 2;
	bool has_half = stream->freed >= half;
	struct vb_rstream_span room, to = {0};
	struct ibv_sge piece;

	if (stream->state != VB_RSTREAM_CONNECTED || stream->control_slots == 0)
		return;
	if (!has_half && (int16_t)(stream->received - stream->receive_mark) < 0)
		return;
	if (has_half) {
		room = (struct vb_rstream_span){
			.address = (uintptr_t)stream->receive_bytes + stream->grant_at,
			.key = stream->receive_mr->rkey,
			.length = half,
		};
		if (stream->foreign)
			room = vb_rstream_span_swap(room);
		to.address = stream->remote_targets.address + stream->remote_target_at * sizeof(room);
		to.key = stream->remote_targets.key;
		piece = (struct ibv_sge){.addr = (uintptr_t)&room, .length = sizeof(room)};
		stream->remote_target_at = (stream->remote_target_at + 1) % stream->remote_targets.length;
		stream->grant_at = stream->grant_at == 0 ? half : 0;
		stream->freed -= half;
		stream->granted += half;
	}
	stream->receive_mark = (uint16_t)(stream->received + rs->sizes.receive_queue / 2);
	stream->control_slots--;
	vb_rstream_write_and_tell(rs, vb_rstream_work_with_quiet(stream, VB_RSTREAM_TELL), &piece, has_half ? 1 : 0,
				  has_half ? IBV_SEND_INLINE : 0, &to,
				  vb_rstream_message_encode(VB_RSTREAM_GRANT,
							    (uint16_t)(stream->received + rs->sizes.receive_queue)));
}

static void take_grant(struct vb_rsocket *rs, uint32_t value, bool has_room)
{
	struct vb_rstream *stream = rs->stream;

	stream->send_limit = (uint16_t)value;
	if (!has_room)
		return;
	if (stream->targets_ready == VB_RSTREAM_TARGETS)
		vb_rstream_break(rs, EPROTO);
	else
		stream->targets_ready++;
}

static void take_control(struct vb_rsocket *rs, uint32_t control)
{
	struct vb_rstream *stream = rs->stream;

	if (control == VB_RSTREAM_DISCONNECT)
		vb_rstream_disconnected(rs);
	else if (control == VB_RSTREAM_SHUT_DOWN && stream->may_write)
		stream->may_read = false;
	else if (control == VB_RSTREAM_SHUT_DOWN)
		vb_rstream_disconnected(rs);     /* neither side has anything left to say */
}

static void take_message(struct vb_rsocket *rs, const struct ibv_wc *completion)
{
	struct vb_rstream *stream = rs->stream;
	uint32_t message, value;

	if (!vb_rstream_message_read(stream, completion, &message)) {
		vb_rstream_break(rs, EPROTO);
		return;
	}
	value = vb_rstream_message_value(message);
	switch (vb_rstream_message_kind(message)) {
	case VB_RSTREAM_DATA:
		if (value > stream->granted) {
			vb_rstream_break(rs, EPROTO);
			break;
		}
		stream->granted -= value;
		stream->available += value;
		stream->received++;
		break;
	case VB_RSTREAM_GRANT:
		take_grant(rs, value, vb_rstream_message_has_room(stream, completion));
		break;
	case VB_RSTREAM_IOMAP:
		vb_rstream_iomap_learn(rs, value);
		break;
	case VB_RSTREAM_CONTROL:
		take_control(rs, value);
		break;
	default:
		vb_rstream_break(rs, EPROTO);
		break;
	}
}

/* One of our own has left the send queue. */
static void release_work(struct vb_rsocket *rs, const struct ibv_wc *completion)
{
	struct vb_rstream *stream = rs->stream;

	stream->send_slots += vb_rstream_work_slots(completion->wr_id);
	stream->send_free += (uint32_t)completion->wr_id;
	switch (vb_rstream_work_of(completion->wr_id)) {
	case VB_RSTREAM_TELL_DISCONNECT:
		vb_rstream_disconnected(rs);
		/* fall through */
	case VB_RSTREAM_TELL:
		stream->control_slots++;
		break;
	case VB_RSTREAM_RECEIVE:
	case VB_RSTREAM_WRITE:
	case VB_RSTREAM_PLACE:
		break;
	}
}

static void take_failure(struct vb_rsocket *rs, const struct ibv_wc *completion)
{
	switch (completion->status) {
	case IBV_WC_WR_FLUSH_ERR:
		/* The queue pair was stopped: the code that did so knows why, and if it was the peer's leaving, that is all
		 * there is. */
		vb_rstream_disconnected(rs);
		break;
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_RNR_RETRY_EXC_ERR:
		vb_rstream_break(rs, ETIMEDOUT);
		break;
	default:
		vb_rstream_break(rs, EIO);
		break;
	}
}

/* Caller has found the queue to hold `count` completions. Returns how many receives they used up. */
static unsigned take_completions(struct vb_rsocket *rs, const struct ibv_wc *completions, int count)
{
	unsigned received = 0;

	for (int i = 0; i < count; i++) {
		bool is_receive = vb_rstream_work_of(completions[i].wr_id) == VB_RSTREAM_RECEIVE;

		if (completions[i].status != IBV_WC_SUCCESS)
			take_failure(rs, &completions[i]);
		else if (is_receive)
			take_message(rs, &completions[i]);
		if (is_receive)
			received++;
		else
			release_work(rs, &completions[i]);
	}
	return received;
}

bool vb_rstream_progress(struct vb_rsocket *rs)
{
	struct vb_rstream *stream = rs->stream;
	struct ibv_wc completions[COMPLETIONS_AT_ONCE];
	bool changed = false;
	int count, error;

	if (stream->cq == NULL || stream->state < VB_RSTREAM_CONNECTED)
		return false;
	do {
		count = ibv_poll_cq(stream->cq, COMPLETIONS_AT_ONCE, completions);
		if (count <= 0)
			break;
		changed = true;
		stream->receives_owed += take_completions(rs, completions, count);
		if (stream->state != VB_RSTREAM_CONNECTED || stream->receives_owed < VB_RSTREAM_RECEIVES_OWED)
			continue;
		error = vb_rstream_post_receives(stream, stream->receives_owed);
		stream->receives_owed = 0;
		if (error != 0)
			vb_rstream_break(rs, -error);
	} while (count == COMPLETIONS_AT_ONCE);
	if (count < 0) {
		vb_rstream_break(rs, EIO);
		changed = true;
	}
	vb_rstream_grant(rs);
	if (changed)
		stream->changes++;
	return changed;
}

void vb_rstream_arm(struct vb_rsocket *rs)
{
	struct vb_rstream *stream = rs->stream;

	if (stream->cq == NULL || stream->armed)
		return;
	if (ibv_req_notify_cq(stream->cq, 0) == 0)
		stream->armed = true;
	else
		vb_rstream_break(rs, EIO);
}

void vb_rstream_collect(struct vb_rsocket *rs)
{
	struct ibv_cq *cq;
	void *context;

	if (rs->stream->completions == NULL || ibv_get_cq_event(rs->stream->completions, &cq, &context) != 0)
		return;
	ibv_ack_cq_events(cq, 1);
	rs->stream->armed = false;
}

int vb_rstream_wait_fd(struct vb_rsocket *rs)
{
	if (rs->stream->completions == NULL || rs->stream->state < VB_RSTREAM_CONNECTED)
		return -1;
	return rs->stream->completions->fd;
}

/* As a TCP socket in the same position would answer (tcp_poll's rules, seen from outside). */
short vb_rstream_revents(struct vb_rsocket *rs)
{
	const struct vb_rstream *stream = rs->stream;
	const short in = POLLIN | POLLRDNORM, out = POLLOUT | POLLWRNORM;
	short events = 0;

	switch (stream->state) {
	case VB_RSTREAM_IDLE:
	case VB_RSTREAM_BOUND:
		return out | POLLHUP;
	case VB_RSTREAM_LISTENING:
		return vb_list_is_empty(&stream->accepted) ? 0 : in;
	case VB_RSTREAM_RESOLVING_ADDRESS:
	case VB_RSTREAM_RESOLVING_ROUTE:
	case VB_RSTREAM_CONNECTING:
	case VB_RSTREAM_ACCEPTING:
		return 0;
	case VB_RSTREAM_CONNECTED:
		if (stream->available > 0 || !stream->may_read)
			events |= in;
		if (!stream->may_read)
			events |= POLLRDHUP;
		if (vb_rstream_can_send(rs) || !stream->may_write)
			events |= out;
		return events;
	case VB_RSTREAM_DISCONNECTED:
		/* Not before the last byte is read: programs stop reading at POLLHUP, and our peer hangs up right
		 * behind its data. */
		return in | out | POLLRDHUP | (stream->available == 0 ? POLLHUP : 0);
	case VB_RSTREAM_REFUSED:
	case VB_RSTREAM_BROKEN:
		return in | out | POLLRDHUP | POLLHUP | POLLERR;
	}
	return 0;
}
