/* SPDX-License-Identifier: MIT
 *
 * Receiving: the streams' share of a pass, and their timers. Bytes are read to where they belong if the engine knows
 * that already (vb_iwarp_want), else into one staging area for all. Of many streams the poller knows which have
 * something; a few are looked at one by one, which is quicker than asking it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "io/clock.h"
#include "io/event.h"
#include "io/tcp.h"
#include "iwarp/iwarp.h"
#include "links/tcp/tap.h"
#include "links/tcp/tcp_link.h"
#include "queue/qp.h"

enum {
	DIRECT_SPANS = 4,
	EVENTS = 64,
};

/* The reply to the peer must be on its way, and beyond ours to influence, before something else is sent behind it. */
#define UNACKNOWLEDGED VB_MILLISECONDS(1)

/* What the engine leaves for later. There is at most one staging area of it: nothing is read meanwhile. */
static void keep(struct vb_tcp_stream *stream, const uint8_t *bytes, size_t length)
{
	uint8_t *kept = malloc(length);

	if (!kept) {
		stream->broken = true;
		stream->error = -ENOMEM;
		return;
	}
	memcpy(kept, bytes, length);
	free(stream->kept);
	stream->kept = kept;
	stream->kept_length = length;
}

/* What was kept, if only nothing. */
static void take_kept(struct vb_tcp_stream *stream, vb_time now)
{
	uint8_t *kept = stream->kept;
	size_t length = stream->kept_length, taken;

	stream->kept = NULL;
	stream->kept_length = 0;
	taken = vb_iwarp_take(stream->qp, now, kept, length);
	if (taken < length)
		keep(stream, kept + taken, length - taken);
	free(kept);
}

static void take(struct vb_tcp_stream *stream, const uint8_t *bytes, size_t length, vb_time now)
{
	size_t taken = vb_iwarp_take(stream->qp, now, bytes, length);

	if (taken < length)
		keep(stream, bytes + taken, length - taken);
}

static ssize_t receive(struct vb_tcp_stream *stream, const struct iovec *spans, unsigned count)
{
	return stream->tapped ? vb_tcp_tapped_receive(stream->tapped, spans, count) : vb_tcp_receive(stream->fd, spans, count);
}

/* Bytes, 0 at the end of the stream, or -errno. *asked: for how many. */
static ssize_t read_once(struct vb_tcp_link *tcp, struct vb_tcp_stream *stream, vb_time now, size_t *asked)
{
	struct iovec spans[DIRECT_SPANS];
	unsigned count = stream->qp ? vb_iwarp_want(stream->qp, spans, DIRECT_SPANS) : 0;
	ssize_t got;

	*asked = 0;
	if (count > 0) {
		for (unsigned i = 0; i < count; i++)
			*asked += spans[i].iov_len;
		got = receive(stream, spans, count);
		vb_iwarp_got(stream->qp, now, got > 0 ? (size_t)got : 0);
		return got;
	}
	*asked = stream->qp ? vb_iwarp_take_at_once(stream->qp, VB_TCP_STAGING) : VB_TCP_STAGING;
	spans[0] = (struct iovec){tcp->staging, *asked};
	got = receive(stream, spans, 1);
	if (got > 0 && stream->qp)
		take(stream, tcp->staging, (size_t)got, now);
	return got;
}

static void end(struct vb_tcp_link *tcp, struct vb_tcp_stream *stream, vb_time now, int error)
{
	if (stream->tapped)
		vb_tcp_tapped_ends(stream->tapped, error == 0 ? VB_TCP_FIN_RECEIVED : VB_TCP_RST_RECEIVED);
	if (error == 0)
		error = stream->error == -EPIPE ? 0 : stream->error;
	if (stream->qp) {
		vb_iwarp_ended(stream->qp, now, error == 0 ? VB_IWARP_END_FIN : error == -ETIMEDOUT ? VB_IWARP_END_TIMEOUT :
					       VB_IWARP_END_RESET);
	}
	vb_tcp_stream_close(tcp, stream, error, false);
}

/* Caller holds progress, and qp->lock where there is one. True: something came. Closes the stream if it has ended. */
static bool read_stream(struct vb_tcp_link *tcp, struct vb_tcp_stream *stream, vb_time now)
{
	struct vb_binding *binding = stream->qp ? stream->qp->scheduler : NULL;
	size_t budget = VB_TCP_STAGING;
	bool done = false;

	while (budget > 0 && !(stream->qp && vb_iwarp_is_stalled(stream->qp))) {
		size_t asked;
		ssize_t got = read_once(tcp, stream, now, &asked);

		if (got == -EAGAIN)
			break;
		done = true;
		if (got <= 0) {
			end(tcp, stream, now, (int)got);
			return true;
		}
		/* By the clock: the pass may have begun long before. */
		if (stream->patience != 0)
			stream->received = vb_clock_now();
		budget -= (size_t)got < budget ? (size_t)got : budget;
		if (binding)
			VB_COUNT_MANY(binding->counters, rcvd_bytes, got);
		/* It is empty now, most likely. If not, the next pass looks. */
		if ((size_t)got < asked)
			break;
	}
	if (done && stream->qp) {
		vb_tcp_stream_tell_heard(tcp, stream);
		vb_tcp_stream_meet(tcp, stream);
		/* Does it wait for a receive now? Sending looks as well, but may be put off, or be over. */
		vb_tcp_stream_watch(tcp, stream, stream->wants_write);
		vb_tcp_transmit_in_pass(&tcp->link, stream->qp, now);
	}
	return done;
}

static bool serve(struct vb_tcp_link *tcp, struct vb_tcp_stream *stream, vb_time now, bool writable)
{
	struct vb_qp *qp = stream->qp;
	bool done;

	if (!qp)
		return read_stream(tcp, stream, now);
	vb_lock_take(&qp->lock);
	if (writable && stream->wants_write)
		vb_tcp_transmit_in_pass(&tcp->link, qp, now);
	/* It may be closed by that. */
	done = vb_tcp_stream_of(tcp, qp) == stream && read_stream(tcp, stream, now);
	vb_lock_release(&qp->lock);
	return done || writable;
}

/* Those that have something to read, or room to write. */
static bool serve_ready(struct vb_tcp_link *tcp, vb_time now)
{
	void *tags[EVENTS];
	unsigned count = vb_poller_wait(tcp->poller, tags, EVENTS, 0);
	bool done = false;

	for (unsigned i = 0; i < count; i++) {
		struct vb_tcp_stream *stream = tags[i];

		done |= serve(tcp, stream, now, stream->wants_write);
	}
	return done;
}

static bool serve_each(struct vb_tcp_link *tcp, vb_time now)
{
	bool done = false;

	VB_LIST_FOR_EACH(node, &tcp->streams)
		done |= serve(tcp, vb_container_of(node, struct vb_tcp_stream, node), now, false);
	return done;
}

/* Receives were posted to a shared queue: a stream that waits for one looks again. */
static bool resume_stalled(struct vb_tcp_link *tcp)
{
	if (!__atomic_load_n(&tcp->replenished, __ATOMIC_RELAXED) ||
	    !__atomic_exchange_n(&tcp->replenished, false, __ATOMIC_SEQ_CST))
		return false;
	VB_LIST_FOR_EACH(node, &tcp->streams) {
		struct vb_tcp_stream *stream = vb_container_of(node, struct vb_tcp_stream, node);

		if (!stream->qp || !stream->stalled)
			continue;
		vb_lock_take(&stream->qp->lock);
		vb_tcp_received(&tcp->link, stream->qp);
		vb_lock_release(&stream->qp->lock);
	}
	return true;
}

/* Who waits for the time to be told the end is told it; who has had two seconds to end his side is left alone. */
static void drop_leftovers(struct vb_tcp_link *tcp, vb_time now)
{
	vb_time next = VB_TIME_NEVER;

	if (tcp->leftover > now)
		return;
	VB_LIST_FOR_EACH(node, &tcp->streams) {
		struct vb_tcp_stream *stream = vb_container_of(node, struct vb_tcp_stream, node);

		if (stream->qp)
			continue;
		if (stream->until <= now && stream->shut) {
			vb_tcp_stream_close(tcp, stream, 0, true);
			continue;
		}
		vb_tcp_stream_shut(stream, now);
		next = vb_time_earlier(next, stream->until);
	}
	__atomic_store_n(&tcp->leftover, next, __ATOMIC_RELAXED);
}

bool vb_tcp_drain(struct vb_link *link, vb_time now, bool all)
{
	struct vb_tcp_link *tcp = vb_tcp_link_of(link);
	bool done = resume_stalled(tcp);

	(void)all;
	if (tcp->count == 0)
		return false;
	if (tcp->count <= VB_TCP_FEW && __atomic_load_n(&tcp->writers, __ATOMIC_RELAXED) == 0)
		done |= serve_each(tcp, now);
	else
		done |= serve_ready(tcp, now);
	drop_leftovers(tcp, now);
	return done;
}

bool vb_tcp_expire(struct vb_link *link, struct vb_qp *qp, vb_time now)
{
	struct vb_tcp_link *tcp = vb_tcp_link_of(link);
	struct vb_tcp_stream *stream = vb_tcp_stream_of(tcp, qp);

	if (!stream)
		return false;
	if (stream->until <= now && stream->shut) {
		end(tcp, stream, now, 0);
		return true;
	}
	/* It may be shut now, if nothing came up that is to be sent first. */
	if (stream->until <= now) {
		stream->patience = 0;
		stream->until = VB_TIME_NEVER;
		vb_tcp_transmit_in_pass(link, qp, now);
		return true;
	}
	if (vb_iwarp_next_deadline(qp) > now) {
		if (stream->tapped && vb_tcp_tapped_due(stream->tapped) > 0 && vb_tcp_tapped_due(stream->tapped) <= now) {
			vb_tcp_transmit_in_pass(link, qp, now);
			return true;
		}
		vb_tcp_stream_arm(tcp, stream);
		return false;
	}
	if (vb_iwarp_holds_back(qp) && !vb_tcp_is_acknowledged(stream->fd)) {
		vb_schedule_arm(tcp->schedule, qp, now + UNACKNOWLEDGED);
		return false;
	}
	vb_iwarp_expire(qp, now);
	vb_tcp_transmit_in_pass(link, qp, now);
	return true;
}

void vb_tcp_received(struct vb_link *link, struct vb_qp *qp)
{
	struct vb_tcp_link *tcp = vb_tcp_link_of(link);
	struct vb_tcp_stream *stream = vb_tcp_stream_of(tcp, qp);

	if (!stream || !stream->stalled)
		return;
	take_kept(stream, vb_clock_now());
	vb_tcp_stream_watch(tcp, stream, stream->wants_write);
	/* It may have something to say, and its socket something to read, of which no descriptor has told. */
	vb_schedule_mark_active(tcp->schedule, qp);
}

void vb_tcp_replenished(struct vb_link *link)
{
	struct vb_tcp_link *tcp = vb_tcp_link_of(link);

	if (__atomic_load_n(&tcp->stalled, __ATOMIC_SEQ_CST) == 0)
		return;
	__atomic_store_n(&tcp->replenished, true, __ATOMIC_SEQ_CST);
	vb_schedule_kick(tcp->schedule);
}

bool vb_tcp_has_work(struct vb_link *link)
{
	struct vb_tcp_link *tcp = vb_tcp_link_of(link);
	vb_time leftover = __atomic_load_n(&tcp->leftover, __ATOMIC_RELAXED);

	return __atomic_load_n(&tcp->replenished, __ATOMIC_RELAXED) || (leftover != VB_TIME_NEVER && leftover <= vb_clock_now());
}

/* A pass under way may have looked for those that wait before it was said that there are receives: then it takes another. */
vb_time vb_tcp_rest(struct vb_link *link, vb_time until)
{
	struct vb_tcp_link *tcp = vb_tcp_link_of(link);

	if (__atomic_load_n(&tcp->replenished, __ATOMIC_SEQ_CST))
		return 0;
	return vb_time_earlier(until, __atomic_load_n(&tcp->leftover, __ATOMIC_RELAXED));
}
