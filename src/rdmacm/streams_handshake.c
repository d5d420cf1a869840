/* SPDX-License-Identifier: MIT
 *
 * What is done with a socket until libibverbs has it, and what the program hears. connect/mpa.c decides; here bytes are moved.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "io/clock.h"
#include "io/descriptor.h"
#include "io/route.h"
#include "rdmacm/address.h"
#include "rdmacm/channel.h"
#include "rdmacm/device.h"
#include "rdmacm/handover.h"
#include "rdmacm/streams_parts.h"
#include "rdmacm/trace.h"

#define streams vb_rdmacm_streams

enum {
	ACCEPTS_AT_ONCE = 64,
	MOST_UNFINISHED = 1024,
	MOST_REFUSALS = 4, FIRST_REFUSAL_MS = 5, /* 5 + 10 + 20 + 40 ms: as link.c does with a REQ */
};

#define PEER_KNOWN_FOR VB_MILLISECONDS(100)
#define ACCEPT_AGAIN VB_MILLISECONDS(20)

/* ---- what the program hears ---- */

static void address_from(struct vb_cm_address *to, const struct vb_tcp_address *from)
{
	*to = (struct vb_cm_address){.family = from->ipv6 ? AF_INET6 : AF_INET, .port = from->port, .scope = from->scope};
	memcpy(to->gid, from->gid, sizeof(to->gid));
}

static uint8_t depth_of(uint16_t depth)
{
	return (uint8_t)(depth > VB_MPA_MAX_DEPTH ? VB_MPA_MAX_DEPTH : depth);
}

/* Of a request: what the peer offers, turned round; of a reply: what was agreed on. */
static void fill_connection(struct vb_cm_conn *conn, const struct vb_mpa *mpa)
{
	const struct vb_mpa_frame *peer = &mpa->peer;
	size_t length = peer->private_length < UINT8_MAX ? peer->private_length : UINT8_MAX;

	conn->qp_type = IBV_QPT_RC;
	if (mpa->state == VB_MPA_AGREED) {
		conn->initiator_depth = depth_of(mpa->terms.ord);
		conn->responder_resources = depth_of(mpa->terms.ird);
	} else {
		conn->initiator_depth = depth_of(peer->enhanced ? peer->ird : VB_MPA_MAX_DEPTH);
		conn->responder_resources = depth_of(peer->enhanced ? peer->ord : VB_MPA_MAX_DEPTH);
	}
	if (mpa->state == VB_MPA_AGREED && !mpa->initiator)
		return; /* it was shown with the request */
	conn->private_data_length = (uint16_t)length;
	memcpy(conn->private_data, peer->private_data, length);
}

static struct vb_rdmacm_event *create_event(struct vb_rdmacm_id *owner, enum vb_cm_event_kind kind, int status)
{
	struct vb_rdmacm_event *event = calloc(1, sizeof(*event));

	if (event == NULL)
		return NULL;
	event->owner = owner;
	event->from_daemon = true;
	event->told = (struct vb_cm_event){.type = VB_CM_EVENT, .kind = kind, .status = status};
	return event;
}

/* Who sleeps is woken up not before the id's lock is free, which that thread takes first, and by the thread of streams once for many: woken
 * for each event it took the processor away, found the lock taken and gave the processor back, three switches for each connection. The
 * channel stays: to destroy or to migrate the id takes the lock of streams. */
static void put_event(struct vb_rdmacm_event *event)
{
	struct vb_rdmacm_id *owner = event->owner;
	struct vb_rdmacm_channel *channel;
	bool sleeps;

	vb_mutex_lock(&owner->lock);
	channel = vb_rdmacm_channel_of(owner->id.channel);
	sleeps = vb_rdmacm_channel_append(channel, event);
	vb_mutex_unlock(&owner->lock);
	if (sleeps)
		vb_rdmacm_streams_wake_later(channel);
}

void vb_rdmacm_stream_tell(struct vb_rdmacm_stream *stream, enum vb_cm_event_kind kind, int status)
{
	struct vb_rdmacm_event *event = stream->id != NULL ? create_event(stream->id, kind, status) : NULL;

	if (event == NULL)
		return;
	if (stream->mpa != NULL)
		fill_connection(&event->told.conn, stream->mpa);
	put_event(event);
}

/* The attempt is over: the id may be told so, and is rid of the stream. */
static void give_up(struct vb_rdmacm_stream *stream, enum vb_cm_event_kind kind, int status)
{
	struct vb_rdmacm_id *id = stream->id;

	vb_rdmacm_stream_tell(stream, kind, status);
	vb_rdmacm_stream_reap(stream);
	/* Last: who finds it gone need not wait for us. */
	__atomic_store_n(&id->stream, NULL, __ATOMIC_RELEASE);
}

/* ---- both sides ---- */

/* Many connections are made to one host at once, and a look into the routing table is three system calls. */
static bool is_of_this_host(const uint8_t address[16])
{
	vb_time now = vb_clock_now();
	struct vb_route route;

	if (now < streams.peer.until && memcmp(address, streams.peer.address, sizeof(streams.peer.address)) == 0)
		return streams.peer.is_of_this_host;
	memcpy(streams.peer.address, address, sizeof(streams.peer.address));
	streams.peer.is_of_this_host = vb_route_lookup(address, NULL, 0, &route) == 0 && route.local;
	streams.peer.until = now + PEER_KNOWN_FOR;
	return streams.peer.is_of_this_host;
}

/* That of an address the listener's is; one of all addresses has none. */
static int find_interface(const struct vb_rdmacm_id *listener, const struct vb_tcp_address *local, uint32_t *interface_index)
{
	*interface_index = __atomic_load_n(&listener->interface_index, __ATOMIC_ACQUIRE);
	return *interface_index != 0 ? 0 : vb_route_interface_of(local->gid, local->scope, interface_index);
}

struct vb_mpa_wishes vb_rdmacm_stream_wishes(const struct vb_rdmacm_id *id, const uint8_t remote[16])
{
	const struct vb_mpa_settings *settings = &streams.settings;

	return (struct vb_mpa_wishes){
		.ird = id->responder_resources,
		.ord = id->initiator_depth,
		/* Within one host nothing is there to damage a byte but what would damage the CRC, too. */
		.crc = settings->crc == VB_MPA_ON || (settings->crc == VB_MPA_AUTO && !is_of_this_host(remote)),
		.large = settings->large != VB_MPA_OFF,
		.peer_to_peer = settings->peer_to_peer,
	};
}

void vb_rdmacm_stream_send(struct vb_rdmacm_stream *stream)
{
	struct iovec span;
	ssize_t sent = 1;

	/* All that goes: after a reply the queue pair has the stream, and its bytes would come in the midst of it. */
	while (sent > 0 && (span.iov_base = (void *)vb_mpa_output(stream->mpa, &span.iov_len)) != NULL) {
		vb_time when = vb_clock_now();

		sent = vb_tcp_send(stream->fd, &span, 1, false);
		if (sent > 0) {
			vb_rdmacm_trace_sent(stream->fd, stream->mpa, (size_t)sent, when);
			vb_mpa_sent(stream->mpa, (size_t)sent);
		} else if (sent != -EAGAIN)
			vb_mpa_closed(stream->mpa, (int)sent);
	}
}

static bool has_to_send(const struct vb_rdmacm_stream *stream)
{
	size_t length;

	return vb_mpa_output(stream->mpa, &length) != NULL;
}

int vb_rdmacm_stream_hand_over(struct vb_rdmacm_stream *stream)
{
	const struct vb_mpa_terms *terms = &stream->mpa->terms;
	const struct vb_handover_terms agreed = {
		.initiator = terms->initiator,
		.crc = terms->crc,
		.large = terms->large || streams.settings.large == VB_MPA_ON,
		.ready = terms->peer_to_peer ? terms->rtr : VB_MPA_RTR_NONE,
		.ird = terms->ird,
		.ord = terms->ord,
		.hold_ms = streams.settings.first_ms,
		.segment_only = streams.settings.large == VB_MPA_OFF,
		.sent = (uint32_t)stream->mpa->sent,
		.received = (uint32_t)stream->mpa->received,
		/* Both of these are siw's; who bears the end of a stream at any time is one of ours. */
		.attentive = terms->half_close,
		.last_ms = terms->half_close ? 0 : (uint16_t)streams.settings.last_ms,
	};
	int error;

	(void)vb_rdmacm_stream_poll(stream, false, false);
	error = vb_rdmacm_handover_adopt(stream->context, stream->qpn, stream->fd, &agreed, (uintptr_t)stream);
	if (error != 0)
		return error;
	stream->kind = VB_STREAM_ADOPTED;
	vb_list_remove(&stream->node);
	vb_list_append(&streams.untimed, &stream->node);
	return 0;
}

static void forget_handshake(struct vb_rdmacm_stream *stream)
{
	free(stream->mpa);
	stream->mpa = NULL;
}

/* What is there of the frame, and no more. */
static void read_frame(struct vb_rdmacm_stream *stream)
{
	uint8_t bytes[VB_MPA_MAX_FRAME];
	size_t wanted;

	while ((wanted = vb_mpa_wants(stream->mpa)) > 0) {
		const struct iovec span = {bytes, wanted};
		ssize_t got = vb_tcp_receive(stream->fd, &span, 1);

		if (got == -EAGAIN)
			return;
		if (got <= 0) {
			vb_mpa_closed(stream->mpa, (int)got);
			return;
		}
		vb_mpa_take(stream->mpa, bytes, (size_t)got);
		if (vb_mpa_wants(stream->mpa) == 0)
			vb_rdmacm_trace_received(stream->fd, stream->mpa);
	}
}

/* ---- incoming ---- */

/* siw takes an end that comes together with the reply for the end alone: its program would not hear why. */
void vb_rdmacm_stream_leave(struct vb_rdmacm_stream *stream)
{
	stream->kind = VB_STREAM_REFUSED;
	stream->id = NULL;
	stream->mpa->deadline = VB_TIME_NEVER;
	stream->retry_at = vb_clock_now() + VB_MILLISECONDS(streams.settings.last_ms);
	/* Of these, too, there may be no more than so many. */
	vb_list_append(&streams.unfinished, &stream->unfinished);
	streams.unfinished_count++;
	if (vb_rdmacm_stream_poll(stream, true, false) != 0)
		vb_rdmacm_stream_reap(stream);
	else
		vb_rdmacm_stream_due(stream);
}

static void serve_refused(struct vb_rdmacm_stream *stream)
{
	uint8_t bytes[VB_MPA_MAX_FRAME];
	const struct iovec span = {bytes, sizeof(bytes)};
	ssize_t got = vb_tcp_receive(stream->fd, &span, 1);

	if (got <= 0 && got != -EAGAIN)
		vb_rdmacm_stream_reap(stream);
}

static void refuse(struct vb_rdmacm_stream *stream)
{
	vb_mpa_reject(stream->mpa, NULL, 0);
	vb_rdmacm_stream_send(stream);
	vb_rdmacm_stream_leave(stream);
}

static struct vb_rdmacm_event *create_request(struct vb_rdmacm_stream *stream, struct vb_rdmacm_id *listener)
{
	struct vb_rdmacm_event *event = create_event(listener, VB_CM_EVENT_CONNECT_REQUEST, 0);
	struct vb_tcp_address local, remote;
	struct vb_cm_event *told;

	if (event == NULL)
		return NULL;
	told = &event->told;
	fill_connection(&told->conn, stream->mpa);
	if (vb_tcp_local(stream->fd, &local) == 0 && vb_tcp_remote(stream->fd, &remote) == 0 &&
	    find_interface(listener, &local, &told->interface_index) == 0) {
		address_from(&told->source, &local);
		address_from(&told->destination, &remote);
		event->child = vb_rdmacm_id_create_child(listener, told);
	}
	if (event->child == NULL) {
		free(event);
		return NULL;
	}
	/* There is no path record: nothing had to be resolved. */
	event->child->id.route.path_rec = NULL;
	event->child->id.route.num_paths = 0;
	return event;
}

/* As with the CM: the backlog is of requests the program has not taken. */
static void ask_program(struct vb_rdmacm_stream *stream)
{
	struct vb_rdmacm_id *listener = stream->id;
	struct vb_rdmacm_event *event = NULL;

	vb_list_remove(&stream->unfinished);
	streams.unfinished_count--;
	(void)vb_rdmacm_stream_poll(stream, false, false);
	if (__atomic_load_n(&listener->requests, __ATOMIC_RELAXED) < listener->backlog)
		event = create_request(stream, listener);
	if (event == NULL) {
		refuse(stream);
		return;
	}
	stream->id = event->child;
	event->child->stream = stream;
	streams.requests += streams.requests == UINT32_MAX ? 2 : 1;
	event->child->stream_request = streams.requests;
	vb_list_append(&streams.ids, &event->child->stream_node);
	__atomic_add_fetch(&listener->requests, 1, __ATOMIC_RELAXED);
	put_event(event);
}

static void serve_incoming(struct vb_rdmacm_stream *stream)
{
	if (stream->mpa->state != VB_MPA_LISTENING)
		return;
	read_frame(stream);
	switch (stream->mpa->state) {
	case VB_MPA_LISTENING:
		return;
	case VB_MPA_ASKED:
		ask_program(stream);
		return;
	case VB_MPA_REJECTED: /* it asked for what we do not do */
		vb_rdmacm_stream_send(stream);
		vb_list_remove(&stream->unfinished);
		streams.unfinished_count--;
		vb_rdmacm_stream_leave(stream);
		return;
	default:
		break;
	}
	vb_rdmacm_stream_reap(stream);
}

/* NULL: it is closed. */
static struct vb_rdmacm_stream *accept_one(struct vb_rdmacm_stream *listener, int fd, vb_time now)
{
	struct vb_rdmacm_stream *stream;

	/* The oldest has had most time to show that it means it. */
	if (streams.unfinished_count >= MOST_UNFINISHED)
		vb_rdmacm_stream_reap(vb_container_of(streams.unfinished.next, struct vb_rdmacm_stream, unfinished));
	stream = vb_rdmacm_stream_create(VB_STREAM_INCOMING, fd, listener->id);
	if (stream == NULL) {
		vb_descriptor_close(fd);
		return NULL;
	}
	vb_tcp_set_traffic_class(fd, listener->id->has_traffic_class ? listener->id->traffic_class : 0);
	vb_mpa_listen(stream->mpa, now);
	vb_rdmacm_stream_due(stream);
	vb_list_append(&streams.unfinished, &stream->unfinished);
	streams.unfinished_count++;
	return stream;
}

/* Is its request not whole yet? */
static bool is_unfinished(const struct vb_rdmacm_stream *stream)
{
	return !stream->dead && stream->kind == VB_STREAM_INCOMING && stream->mpa->state == VB_MPA_LISTENING;
}

/* The poller would report it again and again. */
static void wait_to_accept(struct vb_rdmacm_stream *listener, vb_time now, int error)
{
	vb_log_limited(VB_LOG_WARN, "a connection request cannot be taken: %s", strerror(-error));
	if (vb_rdmacm_stream_poll(listener, false, false) != 0)
		return;
	listener->retry_at = now + ACCEPT_AGAIN;
	vb_list_remove(&listener->node);
	vb_list_append(&streams.timed, &listener->node);
	vb_rdmacm_stream_due(listener);
}

static void accept_again(struct vb_rdmacm_stream *listener, vb_time now)
{
	listener->retry_at = VB_TIME_NEVER;
	if (vb_rdmacm_stream_poll(listener, true, false) != 0) {
		wait_to_accept(listener, now, -ENOMEM);
		return;
	}
	vb_list_remove(&listener->node);
	vb_list_append(&streams.untimed, &listener->node);
}

/* Requests are shown in the order in which they came. Those of new connections are there already, as a rule, and are
 * read without asking the poller; but not behind one whose request is missing, which may come before they are looked at:
 * then the poller has the order. All that are there are accepted first: who asked before another connected has asked by
 * the time that the other is accepted. */
static void accept_some(struct vb_rdmacm_stream *listener, vb_time now)
{
	struct vb_rdmacm_stream *came[ACCEPTS_AT_ONCE];
	bool in_order = vb_list_is_empty(&streams.unfinished);
	unsigned count = 0;

	for (unsigned i = 0; i < ACCEPTS_AT_ONCE; i++) {
		int fd = vb_tcp_accept(listener->fd);

		if (fd < 0) {
			if (vb_descriptor_error_passes(fd) && fd != -EAGAIN)
				wait_to_accept(listener, now, fd);
			break;
		}
		came[count] = accept_one(listener, fd, now);
		count += came[count] != NULL;
	}
	for (unsigned i = 0; i < count; i++) {
		if (in_order)
			serve_incoming(came[i]);
		in_order = in_order && !is_unfinished(came[i]);
		if (is_unfinished(came[i]) && vb_rdmacm_stream_poll(came[i], true, false) != 0)
			vb_rdmacm_stream_reap(came[i]);
	}
}

/* ---- outgoing ---- */

static void connect_failed(struct vb_rdmacm_stream *stream, int error)
{
	unsigned before = stream->refusals;

	if (error == -ECONNREFUSED)
		vb_rdmacm_stream_refused(stream);
	if (error == -ECONNREFUSED && before < MOST_REFUSALS) {
		(void)vb_rdmacm_stream_poll(stream, false, false);
		stream->retry_at = vb_clock_now() + (VB_MILLISECONDS(FIRST_REFUSAL_MS) << before);
		vb_rdmacm_stream_due(stream);
		return;
	}
	give_up(stream, error == -ECONNREFUSED ? VB_CM_EVENT_REJECTED : VB_CM_EVENT_UNREACHABLE, error);
}

/* The port that the peer sees. */
static void learn_source(struct vb_rdmacm_stream *stream)
{
	struct vb_tcp_address local;

	if (vb_tcp_local(stream->fd, &local) != 0)
		return;
	stream->id->source.port = local.port;
	vb_rdmacm_address_to(&stream->id->id.route.addr.src_storage, &stream->id->source);
}

static void finish_outgoing(struct vb_rdmacm_stream *stream)
{
	struct vb_mpa *mpa = stream->mpa;
	int error;

	switch (mpa->state) {
	case VB_MPA_AGREED:
		error = vb_rdmacm_stream_hand_over(stream);
		if (error != 0) {
			give_up(stream, VB_CM_EVENT_CONNECT_ERROR, error);
			return;
		}
		vb_rdmacm_stream_tell(stream, VB_CM_EVENT_ESTABLISHED, 0);
		forget_handshake(stream);
		return;
	case VB_MPA_REJECTED:
		give_up(stream, VB_CM_EVENT_REJECTED, -ECONNREFUSED);
		return;
	case VB_MPA_FAILED:
		give_up(stream, mpa->error == -ETIMEDOUT ? VB_CM_EVENT_UNREACHABLE : VB_CM_EVENT_REJECTED,
			mpa->error == -EPIPE ? -ECONNRESET : mpa->error);
		return;
	default:
		error = vb_rdmacm_stream_poll(stream, true, has_to_send(stream));
		if (error != 0)
			give_up(stream, VB_CM_EVENT_CONNECT_ERROR, error);
	}
}

/* Whether it is connected, and what became of the attempt if not, sending tells as well as asking would. 0 or -errno: -EAGAIN not yet. */
static int speak(struct vb_rdmacm_stream *stream)
{
	struct iovec span;
	vb_time when = vb_clock_now();
	ssize_t sent;

	span.iov_base = (void *)vb_mpa_output(stream->mpa, &span.iov_len);
	sent = vb_tcp_send(stream->fd, &span, 1, false);
	/* These are what becomes of a connection, not of an attempt. */
	if (sent < 0 && sent != -ECONNRESET && sent != -EPIPE)
		return (int)sent;
	stream->connected = true;
	vb_rdmacm_stream_asked(stream);
	learn_source(stream);
	if (sent < 0) {
		vb_mpa_closed(stream->mpa, (int)sent);
		return 0;
	}
	vb_rdmacm_trace_sent(stream->fd, stream->mpa, (size_t)sent, when);
	vb_mpa_sent(stream->mpa, (size_t)sent);
	return 0;
}

static void serve_outgoing(struct vb_rdmacm_stream *stream)
{
	int error = 0;

	if (stream->connected) {
		vb_rdmacm_stream_send(stream);
		read_frame(stream);
	} else {
		/* Nothing of a reply can be there. */
		error = speak(stream);
	}
	if (error == -EAGAIN)
		error = vb_rdmacm_stream_poll(stream, false, true);
	else if (error == 0)
		finish_outgoing(stream);
	if (error != 0)
		connect_failed(stream, error);
}

/* For the first time, where it had to wait for others. */
static void try_again(struct vb_rdmacm_stream *stream)
{
	int error = vb_tcp_connect(stream->fd, &stream->remote);

	stream->retry_at = VB_TIME_NEVER;
	if (error == 0)
		serve_outgoing(stream);
	else
		connect_failed(stream, error);
}

void vb_rdmacm_stream_attempt(struct vb_rdmacm_stream *stream, bool refused)
{
	/* Of this host, and known at once: told as it is of others. */
	if (refused)
		connect_failed(stream, -ECONNREFUSED);
	else
		serve_outgoing(stream);
}

/* ---- time and events ---- */

void vb_rdmacm_stream_serve(struct vb_rdmacm_stream *stream, vb_time now)
{
	switch (stream->kind) {
	case VB_STREAM_LISTENER:
		accept_some(stream, now);
		return;
	case VB_STREAM_INCOMING:
		serve_incoming(stream);
		return;
	case VB_STREAM_REFUSED:
		serve_refused(stream);
		return;
	case VB_STREAM_OUTGOING:
		serve_outgoing(stream);
		return;
	case VB_STREAM_ADOPTED:
		return;
	}
}

void vb_rdmacm_stream_expire(struct vb_rdmacm_stream *stream, vb_time now)
{
	if (stream->kind == VB_STREAM_LISTENER) {
		accept_again(stream, now);
		return;
	}
	if (stream->kind != VB_STREAM_REFUSED)
		vb_mpa_expire(stream->mpa, now);
	if (stream->kind == VB_STREAM_INCOMING || stream->kind == VB_STREAM_REFUSED)
		vb_rdmacm_stream_reap(stream);
	else if (stream->mpa->state == VB_MPA_FAILED)
		finish_outgoing(stream);
	else if (stream->retry_at <= now && !vb_rdmacm_stream_waits(stream, now))
		try_again(stream);
}

void vb_rdmacm_stream_report(const struct vb_handover_report *report)
{
	struct vb_rdmacm_stream *stream = (struct vb_rdmacm_stream *)(uintptr_t)report->cookie;
	struct vb_rdmacm_id *id = stream->id;

	if (report->kind == VB_HANDOVER_HEARD) {
		vb_rdmacm_stream_tell(stream, VB_CM_EVENT_ESTABLISHED, 0);
		forget_handshake(stream);
		return;
	}
	forget_handshake(stream);
	if (id != NULL)
		give_up(stream, VB_CM_EVENT_DISCONNECTED, 0);
	else
		vb_rdmacm_stream_reap(stream);
}
