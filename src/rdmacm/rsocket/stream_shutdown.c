/* SPDX-License-Identifier: MIT
 *
 * The end of a stream: say so to the peer behind the last data, wait until that has arrived, then take the connection
 * down.
 */
#include <errno.h>
#include <stdlib.h>

#include "rdmacm/rsocket/service.h"
#include "rdmacm/rsocket/stream.h"
#include "rdmacm/rsocket/wait.h"

enum { FLUSH_SECONDS = 2 };              /* for what is under way when the program exits */

static bool can_tell(struct vb_rsocket *rs)
{
	return rs->stream->control_slots > 0 || rs->stream->state != VB_RSTREAM_CONNECTED;
}

/* Which message ends what is to be ended. False: nothing has to be said. */
static bool close_directions(struct vb_rstream *stream, int how, enum vb_rstream_control *control)
{
	bool was_writable = stream->may_write;

	if (how != SHUT_WR)
		stream->may_read = false;
	if (how != SHUT_RD)
		stream->may_write = false;
	if (stream->may_write)
		return false;                    /* that we do not listen is no news to the peer */
	if (stream->may_read && !was_writable)
		return false;                    /* said already */
	*control = stream->may_read ? VB_RSTREAM_SHUT_DOWN : VB_RSTREAM_DISCONNECT;
	return true;
}

int vb_rstream_shutdown(struct vb_rsocket *rs, int how)
{
	struct vb_rstream *stream = rs->stream;
	enum vb_rstream_control control;
	int error;

	if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
		return -EINVAL;
	if (stream->state == VB_RSTREAM_DISCONNECTED)
		return 0;
	if (stream->state != VB_RSTREAM_CONNECTED)
		return -ENOTCONN;
	if (!close_directions(stream, how, &control)) {
		vb_rsocket_wake(rs);
		return 0;
	}
	vb_rsocket_wake(rs);
	error = vb_rsocket_wait(rs, VB_TIME_NEVER, can_tell);
	if (error == 0 && stream->state == VB_RSTREAM_CONNECTED)
		error = vb_rstream_tell(rs, control);
	/* Also on a nonblocking rsocket: a program may exit right after this, and what it has sent must not go with
	 * it. */
	if (error == 0)
		error = vb_rsocket_wait(rs, VB_TIME_NEVER, vb_rstream_all_sent);
	if (error == 0 && stream->state == VB_RSTREAM_DISCONNECTED)
		rdma_disconnect(stream->id);
	return error;
}

void vb_rstream_disconnect(struct vb_rsocket *rs)
{
	vb_mutex_lock(&rs->lock);
	if (!rs->closed && rs->stream->state == VB_RSTREAM_CONNECTED)
		vb_rstream_shutdown(rs, SHUT_RDWR);
	vb_mutex_unlock(&rs->lock);
}

static void close_children(struct vb_list *children)
{
	VB_LIST_FOR_EACH(node, children) {
		struct vb_rstream *stream = vb_container_of(node, struct vb_rstream, accept_node);
		struct vb_rsocket *child;

		vb_list_remove(node);
		child = vb_rsocket_withdraw(stream->channel->fd);
		if (child != NULL)
			vb_rstream_close(child);
	}
}

void vb_rstream_close(struct vb_rsocket *rs)
{
	struct vb_rstream *stream = rs->stream;
	struct vb_list children;

	vb_list_init(&children);
	vb_mutex_lock(&rs->lock);
	if (stream->state == VB_RSTREAM_CONNECTED)
		vb_rstream_shutdown(rs, SHUT_RDWR);
	if (stream->state == VB_RSTREAM_CONNECTED || stream->state == VB_RSTREAM_DISCONNECTED)
		rdma_disconnect(stream->id);
	rs->closed = true;
	VB_LIST_FOR_EACH(node, &stream->accepted) {
		vb_list_remove(node);
		vb_list_append(&children, node);
	}
	vb_rsocket_service_remove(rs);
	if (rs->options.keep_alive)
		vb_rsocket_service_keep_alive(rs->fd, 0);
	vb_rstream_endpoint_destroy(rs);
	vb_rsocket_wake(rs);
	vb_mutex_unlock(&rs->lock);
	close_children(&children);
	vb_rsocket_put(rs);
}

void vb_rstream_destroy(struct vb_rsocket *rs)
{
	if (rs->stream == NULL)
		return;
	vb_rstream_endpoint_destroy(rs);
	if (rs->stream->listener != NULL)
		vb_rsocket_put(rs->stream->listener);
	free(rs->stream->peer_iomaps);
	free(rs->stream->route);
	free(rs->stream);
}

/* Another thread may be in the middle of something: it is not waited for. */
static void flush(struct vb_rsocket *rs)
{
	if (rs->stream == NULL || !vb_mutex_try(&rs->lock))
		return;
	if (!rs->closed && rs->stream->state == VB_RSTREAM_CONNECTED) {
		/* Completes behind all writes, of which the last may have asked for no completion. */
		if (rs->stream->quiet_slots > 0)
			vb_rstream_tell(rs, VB_RSTREAM_KEEP_ALIVE);
		vb_rsocket_wait(rs, VB_SECONDS(FLUSH_SECONDS), vb_rstream_all_sent);
	}
	vb_mutex_unlock(&rs->lock);
}

/* What a program wrote to a TCP socket before it exited is the kernel's to deliver; what it wrote to us would go with
 * it. */
__attribute__((destructor)) static void flush_at_exit(void)
{
	vb_rsocket_for_each(flush);
}
