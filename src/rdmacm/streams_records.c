/* SPDX-License-Identifier: MIT
 *
 * The records of sockets behind streams.h, and the lists that they are in. Its users hold the lock.
 */
#include <stdlib.h>

#include "io/descriptor.h"
#include "io/event.h"
#include "rdmacm/streams_parts.h"

struct vb_rdmacm_streams vb_rdmacm_streams = {
	.lock = VB_MUTEX_INITIALIZER(VB_RANK_CM_STREAMS),
	.poller = -1,
	.wake_fd = -1,
	.report_fd = -1,
	.due = VB_TIME_NEVER,
	.timed = {&vb_rdmacm_streams.timed, &vb_rdmacm_streams.timed},
	.untimed = {&vb_rdmacm_streams.untimed, &vb_rdmacm_streams.untimed},
	.dead = {&vb_rdmacm_streams.dead, &vb_rdmacm_streams.dead},
	.unfinished = {&vb_rdmacm_streams.unfinished, &vb_rdmacm_streams.unfinished},
	.ids = {&vb_rdmacm_streams.ids, &vb_rdmacm_streams.ids},
};

#define streams vb_rdmacm_streams

struct vb_rdmacm_stream *vb_rdmacm_stream_create(enum vb_rdmacm_stream_kind kind, int fd, struct vb_rdmacm_id *id)
{
	struct vb_rdmacm_stream *stream = calloc(1, sizeof(*stream));

	if (stream == NULL)
		return NULL;
	if (kind != VB_STREAM_LISTENER) {
		stream->mpa = calloc(1, sizeof(*stream->mpa));
		if (stream->mpa == NULL) {
			free(stream);
			return NULL;
		}
	}
	stream->kind = kind;
	stream->fd = fd;
	stream->id = id;
	stream->retry_at = VB_TIME_NEVER;
	vb_list_init(&stream->unfinished);
	vb_list_append(kind == VB_STREAM_LISTENER ? &streams.untimed : &streams.timed, &stream->node);
	return stream;
}

int vb_rdmacm_stream_poll(struct vb_rdmacm_stream *stream, bool read, bool write)
{
	bool was_polled = stream->polls_read || stream->polls_write;
	int error = 0;

	if (read == stream->polls_read && write == stream->polls_write)
		return 0;
	if (!read && !write)
		vb_poller_remove(streams.poller, stream->fd);
	else if (was_polled)
		vb_poller_want(streams.poller, stream->fd, stream, read, write);
	else
		error = vb_poller_add_wanting(streams.poller, stream->fd, stream, read, write);
	if (error != 0)
		return error;
	stream->polls_read = read;
	stream->polls_write = write;
	return 0;
}

void vb_rdmacm_stream_reap(struct vb_rdmacm_stream *stream)
{
	if (stream->dead)
		return;
	if (stream->kind != VB_STREAM_ADOPTED) {
		(void)vb_rdmacm_stream_poll(stream, false, false);
		vb_descriptor_close(stream->fd);
	}
	if (!vb_list_is_empty(&stream->unfinished)) {
		vb_list_remove(&stream->unfinished);
		streams.unfinished_count--;
	}
	stream->dead = true;
	stream->id = NULL;
	vb_list_remove(&stream->node);
	vb_list_append(&streams.dead, &stream->node);
}

vb_time vb_rdmacm_stream_deadline(const struct vb_rdmacm_stream *stream)
{
	return stream->mpa != NULL ? vb_time_earlier(stream->mpa->deadline, stream->retry_at) : VB_TIME_NEVER;
}

void vb_rdmacm_stream_due(const struct vb_rdmacm_stream *stream)
{
	vb_time deadline = vb_rdmacm_stream_deadline(stream);

	if (deadline >= streams.due)
		return;
	streams.due = deadline;
	vb_event_raise(streams.wake_fd);
}
