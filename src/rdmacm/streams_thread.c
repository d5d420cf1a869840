/* SPDX-License-Identifier: MIT
 *
 * The thread behind streams.h. Records are freed by it alone, before it waits: whatever the poller names was not freed meanwhile.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/log.h"
#include "io/clock.h"
#include "io/descriptor.h"
#include "io/event.h"
#include "io/thread.h"
#include "rdmacm/device.h"
#include "rdmacm/handover.h"
#include "rdmacm/streams_parts.h"

enum {
	EVENTS = 64,
	DESCRIPTORS = 4096,              /* each connection is one */
};

#define streams vb_rdmacm_streams

static struct vb_rdmacm_stream *stream_at(struct vb_list *node)
{
	return vb_container_of(node, struct vb_rdmacm_stream, node);
}

static void free_stream(struct vb_rdmacm_stream *stream)
{
	free(stream->mpa);
	free(stream);
}

static void free_the_dead(void)
{
	VB_LIST_FOR_EACH(node, &streams.dead) {
		vb_list_remove(node);
		free_stream(stream_at(node));
	}
}

static void take_reports(void)
{
	struct vb_handover_report reports[VB_HANDOVER_REPORTS];
	unsigned count = vb_rdmacm_handover_report(streams.reporter, reports);

	for (unsigned i = 0; i < count; i++)
		vb_rdmacm_stream_report(&reports[i]);
}

static vb_time next_deadline(void)
{
	vb_time deadline = VB_TIME_NEVER;

	VB_LIST_FOR_EACH(node, &streams.timed)
		deadline = vb_time_earlier(deadline, vb_rdmacm_stream_deadline(stream_at(node)));
	return deadline;
}

static void expire(vb_time now)
{
	VB_LIST_FOR_EACH(node, &streams.timed)
		if (vb_rdmacm_stream_deadline(stream_at(node)) <= now)
			vb_rdmacm_stream_expire(stream_at(node), now);
}

static void serve(void *tag, vb_time now)
{
	struct vb_rdmacm_stream *stream = tag;

	if (tag == &streams.wake_fd)
		vb_event_clear(streams.wake_fd);
	else if (tag == &streams.report_fd)
		take_reports();
	else if (!stream->dead)
		vb_rdmacm_stream_serve(stream, now);
}

static void *run(void *unused)
{
	(void)unused;
	vb_thread_prepare("verbena-mpa");
	vb_mutex_lock(&streams.lock);
	for (;;) {
		void *tags[EVENTS];
		vb_time deadline = streams.due, now;
		unsigned count;

		free_the_dead();
		vb_mutex_unlock(&streams.lock);
		count = vb_poller_wait(streams.poller, tags, EVENTS, deadline);
		now = vb_clock_now();
		vb_mutex_lock(&streams.lock);
		streams.is_serving = true;
		for (unsigned i = 0; i < count; i++)
			serve(tags[i], now);
		if (streams.due <= now) {
			expire(now);
			streams.due = next_deadline();
		}
		streams.is_serving = false;
		vb_rdmacm_streams_wake();
	}
	return NULL;
}

/* Its id has none in the child; the record is its parent's, and is used no more. */
static void forget_stream(struct vb_rdmacm_stream *stream)
{
	if (stream->kind != VB_STREAM_ADOPTED)
		vb_descriptor_close(stream->fd);
	if (stream->id != NULL && stream->id->stream == stream)
		stream->id->stream = NULL;
	stream->dead = true;
	vb_list_init(&stream->node);
	vb_list_init(&stream->unfinished);
	vb_list_init(&stream->asking);
}

/* A child has no thread, and none of its parent's connections: they must end with the parent. */
static void forget_after_fork(void) VB_RELEASES(streams.lock)
{
	VB_LIST_FOR_EACH(node, &streams.timed)
		forget_stream(stream_at(node));
	VB_LIST_FOR_EACH(node, &streams.untimed)
		forget_stream(stream_at(node));
	if (streams.started) {
		vb_descriptor_close(streams.poller);
		vb_descriptor_close(streams.wake_fd);
	}
	streams.started = false;
	streams.reporter = NULL;
	streams.poller = streams.wake_fd = streams.report_fd = -1;
	streams.unfinished_count = 0;
	streams.due = VB_TIME_NEVER;
	streams.is_serving = false;
	streams.to_wake = NULL;
	vb_list_init(&streams.timed);
	vb_list_init(&streams.untimed);
	vb_list_init(&streams.dead);
	vb_list_init(&streams.unfinished);
	vb_list_init(&streams.asking);
	VB_LIST_FOR_EACH(node, &streams.ids)
		vb_list_remove(node);
	/* This very thread took it before the fork. */
	vb_mutex_unlock(&streams.lock);
}

static void hold_lock(void) VB_TAKES(streams.lock)
{
	vb_mutex_lock(&streams.lock);
}

static void release_lock(void) VB_RELEASES(streams.lock)
{
	vb_mutex_unlock(&streams.lock);
}

static void read_settings(void)
{
	char why[64];

	if (!vb_mpa_settings_parse(&streams.settings, secure_getenv("VERBENA_IWARP"), why, sizeof(why)))
		vb_log(VB_LOG_WARN, "VERBENA_IWARP: \"%s\" is not understood (docs/iwarp.md)", why);
}

static int open_all(void)
{
	int error;

	read_settings();
	streams.poller = vb_poller_open();
	if (streams.poller < 0)
		return streams.poller;
	streams.wake_fd = vb_event_open();
	error = streams.wake_fd < 0 ? streams.wake_fd : vb_poller_add(streams.poller, streams.wake_fd, &streams.wake_fd);
	if (error == 0)
		error = vb_thread_start_detached(run, NULL);
	if (error == 0)
		return 0;
	vb_descriptor_close(streams.poller);
	if (streams.wake_fd >= 0)
		vb_descriptor_close(streams.wake_fd);
	return error;
}

/* When the library is loaded: handlers run in the reverse order, and this lock is inside those of rsockets. And as a rule there is one
 * thread then, so that room for descriptors costs nothing but 32 KiB. */
__attribute__((constructor)) static void prepare(void)
{
	(void)pthread_atfork(hold_lock, release_lock, forget_after_fork);
	if (vb_rdmacm_device_may_be(VB_CONNECT_MPA))
		vb_descriptor_make_room(DESCRIPTORS);
}

int vb_rdmacm_streams_start(struct ibv_context *context)
{
	int error;

	if (!streams.started) {
		error = open_all();
		if (error != 0)
			return error;
		streams.started = true;
	}
	if (context == NULL || streams.reporter != NULL)
		return 0;
	streams.report_fd = vb_rdmacm_handover_open(context, vb_rdmacm_streams_show);
	error = streams.report_fd < 0 ? streams.report_fd : vb_poller_add(streams.poller, streams.report_fd, &streams.report_fd);
	if (error == 0)
		streams.reporter = context;
	return error;
}
