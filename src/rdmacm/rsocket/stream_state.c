/* SPDX-License-Identifier: MIT
 *
 * What a stream may do in its state, and how it leaves CONNECTED.
 */
#include <errno.h>

#include "io/cancellation.h"
#include "rdmacm/rsocket/stream.h"
#include "rdmacm/rsocket/wait.h"

void vb_rstream_disconnected(struct vb_rsocket *rs)
{
	struct vb_rstream *stream = rs->stream;

	if (stream->state == VB_RSTREAM_CONNECTED || stream->state == VB_RSTREAM_ACCEPTING)
		stream->state = VB_RSTREAM_DISCONNECTED;
	stream->may_read = stream->may_write = false;
}

void vb_rstream_break(struct vb_rsocket *rs, int error)
{
	struct vb_rstream *stream = rs->stream;

	if (stream->state == VB_RSTREAM_CONNECTED) {
		stream->state = VB_RSTREAM_BROKEN;
		rs->error = error;
	}
	stream->may_read = stream->may_write = false;
}

bool vb_rstream_can_send(struct vb_rsocket *rs)
{
	const struct vb_rstream *stream = rs->stream;

	return vb_rstream_has_room(stream) && (uint16_t)(stream->send_limit - stream->sent) > stream->spare &&
	       (stream->target.length > 0 || stream->targets_ready > 0);
}

bool vb_rstream_all_sent(struct vb_rsocket *rs)
{
	const struct vb_rstream *stream = rs->stream;

	return stream->state != VB_RSTREAM_CONNECTED ||
	       (stream->send_slots == stream->send_slots_all && stream->control_slots == VB_RSTREAM_CONTROLS);
}

int vb_rstream_why_not_send(struct vb_rsocket *rs)
{
	struct vb_rstream *stream = rs->stream;

	if (stream->state == VB_RSTREAM_CONNECTED)
		return -EPIPE;                   /* we have shut down our side */
	if (stream->state == VB_RSTREAM_BROKEN && !stream->failure_told) {
		stream->failure_told = true;
		return -rs->error;
	}
	return -ECONNRESET;
}

bool vb_rstream_has_finished_opening(struct vb_rsocket *rs)
{
	return !vb_rstream_is_opening(rs->stream);
}

static bool was_connected(const struct vb_rstream *stream)
{
	return stream->state >= VB_RSTREAM_CONNECTED && stream->state != VB_RSTREAM_REFUSED;
}

int vb_rstream_await_connection(struct vb_rsocket *rs, vb_time patience)
{
	int error;

	if (!vb_rstream_is_opening(rs->stream))
		return was_connected(rs->stream) ? 0 : -ENOTCONN;

	VB_UNCANCELLED;

	error = vb_rsocket_wait(rs, patience, vb_rstream_has_finished_opening);
	if (error != 0)
		return error;
	if (rs->stream->state != VB_RSTREAM_REFUSED)
		return 0;
	error = rs->error != 0 ? -rs->error : -ENOTCONN;
	rs->error = 0;
	return error;
}
