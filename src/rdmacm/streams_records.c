/* SPDX-License-Identifier: MIT
 *
 * The records of sockets behind streams.h, the lists that they are in, and the order of those that connect. Its users hold the lock.
 */
#include <stdlib.h>
#include <string.h>

#include "io/clock.h"
#include "io/descriptor.h"
#include "io/event.h"
#include "rdmacm/channel.h"
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
	.asking = {&vb_rdmacm_streams.asking, &vb_rdmacm_streams.asking},
	.ids = {&vb_rdmacm_streams.ids, &vb_rdmacm_streams.ids},
};

/* For those before it that are not connected. */
#define PATIENCE VB_MILLISECONDS(100)

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
	vb_list_init(&stream->asking);
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

vb_time vb_rdmacm_stream_deadline(const struct vb_rdmacm_stream *stream)
{
	return stream->mpa != NULL ? vb_time_earlier(stream->mpa->deadline, stream->retry_at) : stream->retry_at;
}

void vb_rdmacm_stream_due(const struct vb_rdmacm_stream *stream)
{
	vb_time deadline = vb_rdmacm_stream_deadline(stream);

	if (deadline >= streams.due)
		return;
	streams.due = deadline;
	vb_event_raise(streams.wake_fd);
}

/* ---- sleepers ---- */

void vb_rdmacm_streams_wake(void)
{
	if (streams.to_wake != NULL)
		vb_rdmacm_channel_wake(streams.to_wake);
	streams.to_wake = NULL;
}

void vb_rdmacm_streams_wake_later(struct vb_rdmacm_channel *channel)
{
	if (streams.to_wake != channel)
		vb_rdmacm_streams_wake();
	streams.to_wake = channel;
	if (!streams.is_serving)
		vb_rdmacm_streams_wake();
}

/* ---- whose turn it is to ask ----
 *
 * Requests to one address and port leave in the order of the calls to rdma_connect. Programs count on it: the n-th
 * connection that one side makes is the n-th that the other is asked for (perftest -q), as with siw, whose rdma_connect
 * returns when its request has been sent. Here it returns at once. So a call waits for those before it while one of these
 * was refused, because the listener is a moment late, or is not connected yet: in the list, not in the program's thread.
 * For the latter no longer than PATIENCE: a SYN that was lost, or a long way, costs the others no more than that.
 */

static bool is_same(const struct vb_tcp_address *a, const struct vb_tcp_address *b)
{
	return a->port == b->port && a->scope == b->scope && memcmp(a->gid, b->gid, sizeof(a->gid)) == 0;
}

static struct vb_rdmacm_stream *first_asking(const struct vb_tcp_address *remote)
{
	VB_LIST_FOR_EACH(node, &streams.asking) {
		struct vb_rdmacm_stream *stream = vb_container_of(node, struct vb_rdmacm_stream, asking);

		if (is_same(&stream->remote, remote))
			return stream;
	}
	return NULL;
}

bool vb_rdmacm_streams_are_asking(const struct vb_tcp_address *remote)
{
	return first_asking(remote) != NULL;
}

void vb_rdmacm_stream_ask(struct vb_rdmacm_stream *stream, bool waits)
{
	vb_list_append(&streams.asking, &stream->asking);
	if (!waits)
		return;
	/* Those before it may have asked since it was looked for them. */
	stream->retry_at = vb_clock_now() + (first_asking(&stream->remote) == stream ? 0 : PATIENCE);
	vb_rdmacm_stream_due(stream);
}

/* One that was refused is tried again so many times and not for ever, but the thread may be late for each. */
bool vb_rdmacm_stream_waits(struct vb_rdmacm_stream *stream, vb_time now)
{
	const struct vb_rdmacm_stream *first = first_asking(&stream->remote);

	if (first == stream || first->retry_at == VB_TIME_NEVER)
		return false;
	stream->retry_at = now + PATIENCE;
	return true;
}

/* By the thread, which goes through them in this order (streams.timed): not here, where one would call the next. */
void vb_rdmacm_stream_asked(struct vb_rdmacm_stream *stream)
{
	struct vb_rdmacm_stream *next;

	if (vb_list_is_empty(&stream->asking))
		return;
	vb_list_remove(&stream->asking);
	next = first_asking(&stream->remote);
	if (next == NULL || next->retry_at == VB_TIME_NEVER)
		return;
	next->retry_at = 0;
	vb_rdmacm_stream_due(next);
}

void vb_rdmacm_stream_refused(struct vb_rdmacm_stream *stream)
{
	bool is_behind = false;

	stream->refusals++;
	VB_LIST_FOR_EACH(node, &streams.asking) {
		struct vb_rdmacm_stream *other = vb_container_of(node, struct vb_rdmacm_stream, asking);

		if (is_behind && other->retry_at != VB_TIME_NEVER && is_same(&other->remote, &stream->remote))
			other->refusals++;
		is_behind = is_behind || other == stream;
	}
}

/* ---- the end of it ---- */

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
	vb_rdmacm_stream_asked(stream);
	stream->dead = true;
	stream->id = NULL;
	vb_list_remove(&stream->node);
	vb_list_append(&streams.dead, &stream->node);
}
