/* SPDX-License-Identifier: MIT
 *
 * Sending: the engine lays out headers and spans into registered memory, one system call hands them to the socket, and the engine hears
 * how much of it was taken. Where the socket takes less than all, it is full: the poller says when it is not.
 *
 * A socket that fails is not the end yet: a TERMINATE may lie in front of it. Sending stops, and receive.c reads to the end.
 */
#include <errno.h>
#include <stdlib.h>

#include "io/tcp.h"
#include "iwarp/iwarp.h"
#include "links/tcp/tap.h"
#include "links/tcp/tcp_link.h"
#include "queue/qp.h"
#include "schedule/posting.h"

enum {
	CALLS_AT_ONCE = 8,               /* of up to a MiB: a post keeps its thread no longer */
	CALLS_IN_PASS = 1,
};

/* A request of a READ waits for others to leave with, while the peer has enough to answer, no longer than this. A
 * system call for each costs a fifth of the speed of READs of 64 KiB. */
#define READ_PATIENCE VB_MICROSECONDS(50)

/* They are large, and hot in the cache: a few are kept at hand. */
static struct vb_iwarp_out *take_out(struct vb_tcp_link *tcp)
{
	for (unsigned i = 0; i < VB_TCP_SPARE_OUTS; i++) {
		struct vb_iwarp_out *out = __atomic_exchange_n(&tcp->spare_out[i], NULL, __ATOMIC_ACQ_REL);

		if (out)
			return out;
	}
	return calloc(1, sizeof(struct vb_iwarp_out));
}

static void give_out_back(struct vb_tcp_link *tcp, struct vb_iwarp_out *out)
{
	for (unsigned i = 0; i < VB_TCP_SPARE_OUTS; i++) {
		struct vb_iwarp_out *none = NULL;

		if (__atomic_compare_exchange_n(&tcp->spare_out[i], &none, out, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return;
	}
	free(out);
}

void vb_tcp_free_outs(struct vb_tcp_link *tcp)
{
	for (unsigned i = 0; i < VB_TCP_SPARE_OUTS; i++)
		free(tcp->spare_out[i]);
}

/* One call. True: there is more, and room for it. */
static bool send_some(struct vb_tcp_stream *stream, struct vb_iwarp_out *out, vb_time now, bool *full)
{
	bool more = vb_iwarp_send(stream->qp, now, out);
	struct vb_binding *binding = stream->qp->scheduler;
	ssize_t taken;

	/* With nothing to send there may be more to do: past the stream. */
	if (out->count == 0)
		return more;
	if (stream->tapped) {
		taken = vb_tcp_tapped_send(stream->tapped, out, now, full);
	} else {
		taken = vb_tcp_send(stream->fd, out->spans, out->count, more);
		*full = taken == -EAGAIN || (taken >= 0 && (size_t)taken < out->bytes);
	}
	/* The kernel is short of memory, which passes: as if the socket were full. The stream is whole, and nothing would tell the peer,
	 * or our own application, that it had ended. */
	if (taken == -ENOBUFS || taken == -ENOMEM)
		taken = -EAGAIN;
	*full |= taken == -EAGAIN;
	if (taken < 0 && taken != -EAGAIN) {
		stream->broken = true;
		stream->error = (int)taken;
		VB_COUNT(binding->counters, send_err);
	} else if (taken > 0) {
		VB_COUNT_MANY(binding->counters, sent_bytes, taken); /* the engine counts packets: its FPDUs */
	}
	vb_iwarp_sent(stream->qp, now, out, taken > 0 ? (size_t)taken : 0);
	/* What completed may have been waited for: of a fence, say. */
	return !stream->broken && !*full && (more || taken > 0);
}

/* By faults on purpose. */
static bool is_held_back(const struct vb_tcp_stream *stream, vb_time now)
{
	return stream->tapped && vb_tcp_tapped_due(stream->tapped) > now;
}

/* True: there is more than `calls` could send. */
static bool send_calls(struct vb_tcp_link *tcp, struct vb_tcp_stream *stream, vb_time now, unsigned calls)
{
	struct vb_iwarp_out *out;
	bool more = true, full = false;

	if (stream->broken || stream->shut)
		return false;
	if (!vb_iwarp_has_output(stream->qp)) {
		vb_tcp_stream_watch(tcp, stream, false);
		return false;
	}
	out = take_out(tcp);
	/* No memory now: try again from the engine thread. */
	if (!out)
		return true;
	for (unsigned i = 0; more && i < calls && !is_held_back(stream, now); i++)
		more = send_some(stream, out, now, &full);
	give_out_back(tcp, out);
	vb_tcp_stream_watch(tcp, stream, full);
	/* A call that took all has asked for another, in case: the engine thread is not woken up for nothing. */
	return more && vb_iwarp_has_output(stream->qp) && !is_held_back(stream, now);
}

/* Until the next pass, or one of the next. */
static bool put_off(struct vb_tcp_link *tcp, struct vb_tcp_stream *stream, vb_time now)
{
	if (vb_iwarp_reads_may_wait(stream->qp)) {
		if (stream->put_off == 0)
			stream->put_off = now;
		if (now - stream->put_off < READ_PATIENCE && vb_schedule_defer(tcp->schedule, stream->qp, now)) {
			vb_tcp_stream_arm(tcp, stream);
			return true;
		}
	}
	stream->put_off = 0;
	return false;
}

void vb_tcp_transmit(struct vb_link *link, struct vb_qp *qp, vb_time now)
{
	struct vb_tcp_link *tcp = vb_tcp_link_of(link);
	struct vb_tcp_stream *stream = vb_tcp_stream_of(tcp, qp);
	enum vb_iwarp_wish wish;
	bool more;

	vb_lock_assert_held(&qp->lock);
	if (!stream || put_off(tcp, stream, now))
		return;
	more = !stream->wants_write && send_calls(tcp, stream, now, CALLS_AT_ONCE);
	wish = vb_iwarp_wish(qp);
	if (wish == VB_IWARP_SHUT)
		vb_tcp_stream_shut(stream, now);
	/* To close it takes a pass. */
	if (more || wish == VB_IWARP_ABORT)
		vb_schedule_mark_active(tcp->schedule, qp);
	vb_tcp_stream_arm(tcp, stream);
}

void vb_tcp_transmit_in_pass(struct vb_link *link, struct vb_qp *qp, vb_time now)
{
	struct vb_tcp_link *tcp = vb_tcp_link_of(link);
	struct vb_tcp_stream *stream = vb_tcp_stream_of(tcp, qp);
	enum vb_iwarp_wish wish;

	vb_lock_assert_held(&tcp->schedule->progress);
	if (!stream || put_off(tcp, stream, now))
		return;
	tcp->schedule->lane[0].sent++;
	if (send_calls(tcp, stream, now, CALLS_IN_PASS))
		vb_schedule_mark_active(tcp->schedule, qp);
	wish = vb_iwarp_wish(qp);
	if (wish == VB_IWARP_ABORT) {
		vb_tcp_stream_close(tcp, stream, -ECONNABORTED, true);
		return;
	}
	if (wish == VB_IWARP_SHUT)
		vb_tcp_stream_shut(stream, now);
	vb_tcp_stream_arm(tcp, stream);
}

static enum vb_posting decide(const struct vb_qp *qp, unsigned posts)
{
	uint32_t length;

	if (qp->send.head == qp->send.tail)
		return VB_POSTING_NOW;
	length = vb_send_queue_at(&qp->send, qp->send.head - 1)->length;
	return vb_iwarp_goes_past(qp) ? vb_posting_decide_copied(posts, length) : vb_posting_decide(posts, length, false);
}

/* What is to leave together does by way of its stream: all that this queue pair has. */
void vb_tcp_posted(struct vb_link *link, struct vb_qp *qp, vb_time now)
{
	struct vb_tcp_link *tcp = vb_tcp_link_of(link);
	unsigned posts = vb_schedule_note_post(tcp->schedule, now);

	if (decide(qp, posts) == VB_POSTING_WAIT && vb_schedule_defer(tcp->schedule, qp, now))
		return;
	vb_tcp_transmit(link, qp, now);
}
