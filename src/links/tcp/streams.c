/* SPDX-License-Identifier: MIT
 *
 * The life of a stream. It is adopted with a queue pair and ends in one of three ways: the peer closes it, the engine
 * has it closed, or its queue pair goes. In the last two the peer is told by FIN, and has two seconds to say the same:
 * a socket that is closed with bytes unread sends RST, which destroys what the peer has not read yet.
 *
 * Linux's siw fails a message that it has sent, and that has arrived, if the end of the stream comes while its sender
 * is still busy with it (siw_qp_sq_proc_tx: tx_suspend). Programs part as soon as they have the last message, so to
 * peers that are not known to bear it the end is told some time behind the last bytes of theirs.
 *
 * librdmacm hears how it goes by reports. They are kept in the stream itself, so that there is always room for them; a
 * stream is freed when its end was reported.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "io/clock.h"
#include "io/descriptor.h"
#include "io/event.h"
#include "io/random.h"
#include "io/tcp.h"
#include "iwarp/iwarp.h"
#include "links/meeting.h"
#include "links/tcp/tap.h"
#include "links/tcp/tcp_link.h"
#include "queue/qp.h"
#include "wire/fpdu.h"

#define LAST_WORDS VB_SECONDS(2)

static void free_stream(struct vb_tcp_stream *stream)
{
	free(stream->kept);
	free(stream->tapped);
	free(stream);
}

/* ---- reports ---- */

/* Caller holds report_lock. */
static void enlist_report(struct vb_tcp_link *tcp, struct vb_tcp_stream *stream)
{
	if (stream->cookie == 0 || !vb_list_is_empty(&stream->report_node))
		return;
	vb_list_append(&tcp->reports, &stream->report_node);
	vb_event_raise(tcp->report_fd);
}

void vb_tcp_stream_tell_heard(struct vb_tcp_link *tcp, struct vb_tcp_stream *stream)
{
	if (stream->told_heard || !vb_iwarp_has_heard(stream->qp))
		return;
	stream->told_heard = true;
	vb_mutex_lock(&tcp->report_lock);
	stream->heard = true;
	enlist_report(tcp, stream);
	vb_mutex_unlock(&tcp->report_lock);
}

/* The stream is in no list but that of reports: free it if no report is wanted. */
static void tell_end(struct vb_tcp_link *tcp, struct vb_tcp_stream *stream, int status)
{
	/* Once it is in the list, the thread that takes the report frees it. */
	bool is_reported = stream->cookie != 0;

	vb_mutex_lock(&tcp->report_lock);
	stream->ended = true;
	stream->status = status;
	enlist_report(tcp, stream);
	vb_mutex_unlock(&tcp->report_lock);
	if (!is_reported)
		free_stream(stream);
}

unsigned vb_tcp_report(struct vb_link *link, struct vb_handover_report *reports, unsigned room)
{
	struct vb_tcp_link *tcp = vb_tcp_link_of(link);
	unsigned count = 0;

	vb_event_clear(tcp->report_fd);
	vb_mutex_lock(&tcp->report_lock);
	while (count + 2 <= room && !vb_list_is_empty(&tcp->reports)) {
		struct vb_tcp_stream *stream = vb_container_of(tcp->reports.next, struct vb_tcp_stream, report_node);

		vb_list_remove(&stream->report_node);
		if (stream->heard)
			reports[count++] = (struct vb_handover_report){.cookie = stream->cookie, .kind = VB_HANDOVER_HEARD};
		stream->heard = false;
		if (!stream->ended)
			continue;
		reports[count++] = (struct vb_handover_report){.cookie = stream->cookie, .kind = VB_HANDOVER_ENDED,
							       .status = stream->status};
		free_stream(stream);
	}
	if (!vb_list_is_empty(&tcp->reports))
		vb_event_raise(tcp->report_fd);
	vb_mutex_unlock(&tcp->report_lock);
	return count;
}

/* ---- a stream ---- */

static void count_one(uint32_t *count, bool *noted, bool now)
{
	if (*noted != now)
		__atomic_add_fetch(count, now ? 1 : UINT32_MAX, __ATOMIC_SEQ_CST);
	*noted = now;
}

/* A stream that is not read is not in the poller at all: it would report its end again and again. */
void vb_tcp_stream_watch(struct vb_tcp_link *tcp, struct vb_tcp_stream *stream, bool write)
{
	bool stalled = stream->qp && vb_iwarp_is_stalled(stream->qp), begins = stalled && !stream->stalled;
	bool wanted = !stalled || write;

	if (stalled == stream->stalled && write == stream->wants_write && wanted == stream->is_polled)
		return;
	if (wanted != stream->is_polled) {
		if (!wanted)
			vb_poller_remove(tcp->poller, stream->fd);
		else if (vb_poller_add(tcp->poller, stream->fd, stream) != 0)
			wanted = false;
		stream->is_polled = wanted;
	}
	if (wanted)
		vb_poller_want(tcp->poller, stream->fd, stream, !stalled, write);
	count_one(&tcp->stalled, &stream->stalled, stalled);
	count_one(&tcp->writers, &stream->wants_write, write);
	/* Who posted a receive to a shared queue between the look that found none and the count saw no stream to tell: look again. */
	if (begins && stream->qp->srq)
		tcp->link.driver->received(&tcp->link, stream->qp);
}

void vb_tcp_stream_arm(struct vb_tcp_link *tcp, struct vb_tcp_stream *stream)
{
	vb_time at = vb_time_earlier(vb_iwarp_next_deadline(stream->qp), stream->until);

	if (stream->tapped && vb_tcp_tapped_due(stream->tapped) > 0)
		at = vb_time_earlier(at, vb_tcp_tapped_due(stream->tapped));
	vb_schedule_arm(tcp->schedule, stream->qp, at);
}

void vb_tcp_stream_shut(struct vb_tcp_stream *stream, vb_time now)
{
	if (stream->shut)
		return;
	if (stream->until == VB_TIME_NEVER)
		stream->until = stream->received + stream->patience;
	if (stream->until > now)
		return;
	stream->shut = true;
	stream->until = now + LAST_WORDS;
	if (stream->tapped)
		vb_tcp_tapped_ends(stream->tapped, VB_TCP_FIN_SENT);
	vb_tcp_shut(stream->fd);
}

/* Who has not said before that nothing more would come says so by closing. */
static void write_end(struct vb_tcp_stream *stream, int status, bool abort)
{
	if (abort)
		vb_tcp_tapped_ends(stream->tapped, VB_TCP_RST_SENT);
	else if (status == 0 && !stream->shut)
		vb_tcp_tapped_ends(stream->tapped, VB_TCP_FIN_SENT);
}

void vb_tcp_stream_close(struct vb_tcp_link *tcp, struct vb_tcp_stream *stream, int status, bool abort)
{
	vb_lock_assert_held(&tcp->schedule->progress);
	if (stream->is_polled)
		vb_poller_remove(tcp->poller, stream->fd);
	count_one(&tcp->stalled, &stream->stalled, false);
	count_one(&tcp->writers, &stream->wants_write, false);
	if (stream->tapped)
		write_end(stream, status, abort);
	if (abort)
		vb_tcp_abort(stream->fd);
	else
		vb_descriptor_close(stream->fd);
	if (stream->qp)
		tcp->stream[vb_schedule_index(stream->qp->qpn)] = NULL;
	vb_list_remove(&stream->node);
	tcp->count--;
	tell_end(tcp, stream, status);
}

static uint32_t longest_ulpdu(int fd, const struct vb_handover_terms *terms)
{
	return terms->large && !terms->segment_only ? VB_MULPDU_LARGE : vb_fpdu_mulpdu(vb_tcp_segment(fd));
}

/* ---- peers on this host ---- */

static bool is_known_as_foreign(const struct vb_tcp_link *tcp, const struct vb_tcp_address *address)
{
	return __atomic_load_n(&tcp->foreign_stands, __ATOMIC_RELAXED) && memcmp(tcp->foreign, address->gid, sizeof(tcp->foreign)) == 0;
}

/* An address that a socket can have here. */
static bool is_of_this_host(struct vb_tcp_link *tcp, const struct vb_tcp_address *address)
{
	struct vb_tcp_address any_port = *address;
	int fd;

	/* First: a change of addresses meanwhile takes it back. */
	__atomic_store_n(&tcp->foreign_stands, true, __ATOMIC_SEQ_CST);
	memset(tcp->foreign, 0, sizeof(tcp->foreign));
	any_port.port = 0;
	fd = vb_tcp_bind(&any_port, false, true);
	if (fd >= 0)
		vb_descriptor_close(fd);
	else
		memcpy(tcp->foreign, address->gid, sizeof(tcp->foreign));
	return fd >= 0;
}

/* No other process can guess it, and none comes again. 0: the peer is not on this host, or no way leads past the stream. */
static uint64_t draw_nonce(struct vb_tcp_link *tcp, int fd)
{
	struct vb_tcp_address ours, theirs;
	uint64_t nonce = 0;

	/* Most connections between hosts are to the one that the last was to; within a host, between the same addresses. */
	if (!tcp->schedule->meetings || vb_tcp_remote(fd, &theirs) != 0 || is_known_as_foreign(tcp, &theirs) ||
	    vb_tcp_local(fd, &ours) != 0)
		return 0;
	if (memcmp(ours.gid, theirs.gid, sizeof(ours.gid)) != 0 && !is_of_this_host(tcp, &theirs))
		return 0;
	while (nonce == 0)
		nonce = vb_random_u64();
	return nonce;
}

void vb_tcp_stream_meet(struct vb_tcp_link *tcp, struct vb_tcp_stream *stream)
{
	struct vb_meetings *meetings = tcp->schedule->meetings;
	struct vb_meeting meeting = {.table = stream->table};
	struct vb_tcp_address theirs;

	if (stream->met || !meetings || !vb_iwarp_is_introduced(stream->qp, &meeting.peer_qpn, &meeting.connection))
		return;
	stream->met = true;
	if (vb_tcp_remote(stream->fd, &theirs) != 0)
		return;
	memcpy(meeting.gid, theirs.gid, sizeof(meeting.gid));
	meetings->meet(meetings, stream->qp, &meeting);
}

/* Caller holds progress and qp->lock. */
static int begin(struct vb_tcp_link *tcp, struct vb_tcp_stream *stream, const struct vb_handover_terms *terms, vb_time now)
{
	const struct vb_iwarp_terms agreed = {
		.initiator = terms->initiator,
		.crc = terms->crc,
		.ready = (enum vb_iwarp_ready)terms->ready,
		.attentive = terms->attentive,
		.mulpdu = longest_ulpdu(stream->fd, terms),
		.ird = terms->ird,
		.ord = terms->ord,
		.nonce = terms->attentive ? draw_nonce(tcp, stream->fd) : 0,
		.hold = terms->hold_ms < 0 ? VB_TIME_NEVER : VB_MILLISECONDS(terms->hold_ms),
	};
	int error = vb_poller_add(tcp->poller, stream->fd, stream);

	if (error != 0)
		return error;
	stream->is_polled = true;
	error = vb_iwarp_begin(stream->qp, now, &agreed);
	if (error != 0)
		vb_poller_remove(tcp->poller, stream->fd);
	return error;
}

static int adopt(struct vb_tcp_link *tcp, struct vb_tcp_stream *stream, uint32_t qpn, const struct vb_handover_terms *terms, vb_time now)
{
	struct vb_qp *qp = vb_schedule_find(tcp->schedule, qpn);
	const struct vb_binding *binding = qp ? qp->scheduler : NULL;
	int error;

	if (!qp || binding->wire != &tcp->link)
		return -EINVAL;
	if (!tcp->staging)
		tcp->staging = malloc(VB_TCP_STAGING);
	if (!tcp->staging)
		return -ENOMEM;
	if (tcp->tap) {
		stream->tapped = vb_tcp_tapped_create(tcp->tap, stream->fd, qpn, terms);
		if (!stream->tapped)
			return -ENOMEM;
	}
	vb_lock_take(&qp->lock);
	stream->qp = qp;
	error = vb_tcp_stream_of(tcp, qp) ? -EISCONN : begin(tcp, stream, terms, now);
	if (error == 0) {
		tcp->stream[vb_schedule_index(qpn)] = stream;
		vb_list_append(&tcp->streams, &stream->node);
		tcp->count++;
		tcp->link.driver->transmit_in_pass(&tcp->link, qp, now);
	}
	vb_lock_release(&qp->lock);
	return error;
}

int vb_tcp_adopt(struct vb_link *link, uint32_t qpn, int table, int fd, const struct vb_handover_terms *terms, uint64_t cookie,
		 vb_time now)
{
	struct vb_tcp_link *tcp = vb_tcp_link_of(link);
	struct vb_tcp_stream *stream = calloc(1, sizeof(*stream));
	int error;

	if (!stream)
		return -ENOMEM;
	vb_list_init(&stream->node);
	vb_list_init(&stream->report_node);
	stream->fd = fd;
	stream->cookie = cookie;
	stream->table = table;
	stream->until = VB_TIME_NEVER;
	stream->patience = VB_MILLISECONDS(terms->last_ms);
	stream->told_heard = terms->initiator || terms->ready == VB_IWARP_READY_NONE;
	vb_lock_take(&tcp->schedule->progress);
	error = adopt(tcp, stream, qpn, terms, now);
	vb_lock_release(&tcp->schedule->progress);
	if (error != 0)
		free_stream(stream);
	return error;
}

/* Its queue pair is gone: what the socket has taken will arrive, and that is all. Caller holds progress. */
static void leave_over(struct vb_tcp_link *tcp, struct vb_tcp_stream *stream, vb_time now)
{
	tcp->stream[vb_schedule_index(stream->qp->qpn)] = NULL;
	stream->qp = NULL;
	if (stream->broken) {
		vb_tcp_stream_close(tcp, stream, stream->error, false);
		return;
	}
	vb_tcp_stream_shut(stream, now);
	vb_tcp_stream_watch(tcp, stream, false);
	__atomic_store_n(&tcp->leftover, vb_time_earlier(tcp->leftover, stream->until), __ATOMIC_RELAXED);
}

void vb_tcp_withdraw(struct vb_link *link, struct vb_qp *qp)
{
	struct vb_tcp_link *tcp = vb_tcp_link_of(link);
	struct vb_tcp_stream *stream;

	vb_lock_take(&qp->lock);
	stream = vb_tcp_stream_of(tcp, qp);
	if (stream)
		leave_over(tcp, stream, vb_clock_now());
	vb_lock_release(&qp->lock);
}

/* The queue pair may be used for another connection from now on. */
void vb_tcp_modified(struct vb_link *link, struct vb_qp *qp, enum ibv_qp_state from, int attr_mask, vb_time now)
{
	struct vb_tcp_link *tcp = vb_tcp_link_of(link);
	struct vb_tcp_stream *stream = vb_tcp_stream_of(tcp, qp);

	(void)from;
	(void)attr_mask;
	if (stream && qp->state == IBV_QPS_RESET)
		leave_over(tcp, stream, now);
}

/* What is unread would turn the end into a RST. */
static void read_off(int fd)
{
	uint8_t bytes[4096];
	const struct iovec span = {bytes, sizeof(bytes)};

	for (unsigned i = 0; i < 256 && vb_tcp_receive(fd, &span, 1) > 0; i++)
		;
}

/* A socket that its process leaves behind answers what still comes with RST, and forgets what the peer has not acknowledged. */
static bool stream_lingers(const struct vb_tcp_stream *stream, vb_time now)
{
	if (stream->broken)
		return false;
	return (!stream->shut && stream->received + stream->patience > now) || !vb_tcp_is_acknowledged(stream->fd);
}

bool vb_tcp_lingers(struct vb_link *link, vb_time now)
{
	VB_LIST_FOR_EACH(node, &vb_tcp_link_of(link)->streams)
		if (stream_lingers(vb_container_of(node, struct vb_tcp_stream, node), now))
			return true;
	return false;
}

void vb_tcp_streams_free(struct vb_tcp_link *tcp)
{
	VB_LIST_FOR_EACH(node, &tcp->streams) {
		struct vb_tcp_stream *stream = vb_container_of(node, struct vb_tcp_stream, node);

		vb_tcp_stream_shut(stream, vb_clock_now());
		read_off(stream->fd);
		vb_descriptor_close(stream->fd);
		if (vb_list_is_empty(&stream->report_node))
			free_stream(stream);
	}
	VB_LIST_FOR_EACH(node, &tcp->reports)
		free_stream(vb_container_of(node, struct vb_tcp_stream, report_node));
}
