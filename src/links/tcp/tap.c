/* SPDX-License-Identifier: MIT
 *
 * A capture holds TCP segments as they might have travelled: from sequence number 1 on, one FPDU each where we send, what a call of
 * the system brought where we receive. The SYNs and the MPA frames are librdmacm's to write down, which exchanged them.
 *
 * Faults are decided for each FPDU that is sent, once, before its first byte: damaged, held back, cut off in the middle. It is then
 * handed to the socket by itself. What the socket takes of it, or is made to take (short), may be less: the decision is kept for the
 * rest. What a stream holds back holds back all that follows.
 */
#include "links/tcp/tap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mutex.h"
#include "capture/frame.h"
#include "capture/writer.h"
#include "io/clock.h"
#include "io/tcp.h"
#include "iwarp/iwarp.h"
#include "links/faults.h"
#include "schedule/schedule.h"
#include "wire/fpdu.h"
#include "wire/rdmap_opcode.h"
#include "wire/stream_handover.h"

enum { SCRATCH = 1 << 20, MOST_SPANS = 8, OPCODE_AT = VB_FPDU_LENGTH_FIELD + 1 };

_Static_assert((size_t)SCRATCH >= (size_t)VB_IWARP_BYTES, "what is offered at once fits");
_Static_assert((size_t)SCRATCH >= (size_t)VB_FPDU_LONGEST, "an FPDU fits");

struct vb_tcp_tap {
	const struct vb_schedule *schedule;
	struct vb_capture *capture;        /* NULL: none */
	struct vb_faults *faults;          /* NULL: none */
	struct vb_mutex lock;              /* of the faults and the bytes */
	uint8_t *bytes;
};

struct vb_tcp_tapped {
	struct vb_tcp_tap *tap;
	int fd;
	uint32_t qpn;
	struct vb_frame_tcp sending, receiving; /* the next segments; of each other they acknowledge all */
	/* The FPDU under way. */
	bool judged, was_cut;
	struct vb_faults_action action;
	uint32_t sent;                     /* bytes of it that the socket has */
	vb_time due;
};

/* ---- as a whole ---- */

static int open_faults(struct vb_tcp_tap *tap, const char *specification)
{
	char why[256];
	int error = vb_faults_create(&tap->faults, specification, why, sizeof(why));

	if (error != 0)
		vb_log(VB_LOG_ERROR, "VERBENA_FAULTS: %s", why);
	return error;
}

static int open_capture(struct vb_tcp_tap *tap, const char *path)
{
	int error = vb_capture_open(&tap->capture, path);

	if (error != 0)
		vb_log(VB_LOG_ERROR, "cannot capture to %s: %s", path,
		       error == -EEXIST ? "there is a file that is no capture of ours" : strerror(-error));
	return error;
}

int vb_tcp_tap_open(struct vb_tcp_tap **out, const struct vb_schedule *schedule)
{
	const char *capture = secure_getenv("VERBENA_CAPTURE"), *faults = secure_getenv("VERBENA_FAULTS");
	bool captures = capture && *capture, disturbs = faults && *faults;
	struct vb_tcp_tap *tap;
	int error;

	if (!captures && !disturbs)
		return 0;
	tap = calloc(1, sizeof(*tap));
	if (!tap)
		return -ENOMEM;
	tap->schedule = schedule;
	vb_mutex_init(&tap->lock, VB_RANK_TAP);
	tap->bytes = malloc(SCRATCH);
	error = tap->bytes ? 0 : -ENOMEM;
	if (error == 0 && captures)
		error = open_capture(tap, capture);
	if (error == 0 && disturbs)
		error = open_faults(tap, faults);
	if (error != 0) {
		vb_tcp_tap_close(tap);
		return error;
	}
	*out = tap;
	return 0;
}

void vb_tcp_tap_close(struct vb_tcp_tap *tap)
{
	if (!tap)
		return;
	vb_faults_destroy(tap->faults);
	vb_capture_close(tap->capture);
	vb_mutex_fini(&tap->lock);
	free(tap->bytes);
	free(tap);
}

void vb_tcp_tap_abandon(struct vb_tcp_tap *tap)
{
	if (tap && tap->capture)
		vb_capture_abandon(tap->capture);
}

struct vb_tcp_tapped *vb_tcp_tapped_create(struct vb_tcp_tap *tap, int fd, uint32_t qpn, const struct vb_handover_terms *terms)
{
	struct vb_tcp_tapped *tapped = calloc(1, sizeof(*tapped));
	struct vb_tcp_address local = {0}, remote = {0};

	if (!tapped)
		return NULL;
	(void)vb_tcp_local(fd, &local);
	(void)vb_tcp_remote(fd, &remote);
	tapped->tap = tap;
	tapped->fd = fd;
	tapped->qpn = qpn;
	memcpy(tapped->sending.path.source, local.gid, sizeof(local.gid));
	memcpy(tapped->sending.path.destination, remote.gid, sizeof(remote.gid));
	tapped->sending.path.source_port = local.port;
	tapped->sending.destination_port = remote.port;
	tapped->sending.sequence = 1 + terms->sent;
	memcpy(tapped->receiving.path.source, remote.gid, sizeof(remote.gid));
	memcpy(tapped->receiving.path.destination, local.gid, sizeof(local.gid));
	tapped->receiving.path.source_port = remote.port;
	tapped->receiving.destination_port = local.port;
	tapped->receiving.sequence = 1 + terms->received;
	return tapped;
}

vb_time vb_tcp_tapped_due(const struct vb_tcp_tapped *tapped)
{
	return tapped->due;
}

/* ---- to the capture ---- */

static void write_segment(struct vb_tcp_tapped *tapped, bool sent, uint8_t flags, const uint8_t *bytes, size_t length,
			  vb_time now, uint32_t fate)
{
	struct vb_frame_tcp *segment = sent ? &tapped->sending : &tapped->receiving;
	struct vb_capture_record record = {
		.flags = (sent ? VB_CAPTURE_SENT : VB_CAPTURE_RECEIVED) | fate,
		.time = now,
		.received = now,
		.qpn = sent ? tapped->qpn : 0,
		.peer_qpn = sent ? 0 : tapped->qpn,
		.slot = tapped->tap->schedule->slot,
	};
	char comment[96];

	snprintf(comment, sizeof(comment), "%s QP 0x%06x%s%s", sent ? "sent by" : "for", tapped->qpn,
		 fate & VB_CAPTURE_CORRUPTED ? ", damaged by fault injection" : "",
		 fate & VB_CAPTURE_DELAYED ? ", held back by fault injection" : "");
	segment->flags = flags | VB_FRAME_TCP_ACK;
	segment->acknowledged = sent ? tapped->receiving.sequence : tapped->sending.sequence;
	vb_capture_segment(tapped->tap->capture, &record, segment, bytes, length, comment);
	segment->sequence += (uint32_t)length + !!(flags & VB_FRAME_TCP_FIN);
}

static void write_bytes(struct vb_tcp_tapped *tapped, bool sent, const uint8_t *bytes, size_t length, vb_time now, uint32_t fate)
{
	while (length > 0) {
		size_t some = length < VB_FRAME_TCP_MOST ? length : VB_FRAME_TCP_MOST;

		write_segment(tapped, sent, VB_FRAME_TCP_PSH, bytes, some, now, fate);
		bytes += some;
		length -= some;
	}
}

static bool is_captured(const struct vb_tcp_tapped *tapped)
{
	return tapped->tap->capture && !tapped->tap->schedule->abandoned;
}

void vb_tcp_tapped_ends(struct vb_tcp_tapped *tapped, enum vb_tcp_tapped_end how)
{
	bool reset = how == VB_TCP_RST_SENT || how == VB_TCP_RST_RECEIVED;

	if (!is_captured(tapped) || tapped->was_cut)
		return;
	write_segment(tapped, how == VB_TCP_FIN_SENT || how == VB_TCP_RST_SENT, reset ? VB_FRAME_TCP_RST : VB_FRAME_TCP_FIN, NULL, 0,
		      vb_clock_now(), 0);
	vb_capture_flush(tapped->tap->capture);
}

/* ---- sending ---- */

/* Bytes of what is offered, from there on, into the tap's. Caller holds tap->lock. */
static void flatten(const struct vb_tcp_tap *tap, const struct iovec *spans, unsigned count, size_t from, size_t length)
{
	uint8_t *to = tap->bytes;

	for (unsigned i = 0; i < count && length > 0; i++) {
		size_t some = spans[i].iov_len - from;

		if (from >= spans[i].iov_len) {
			from -= spans[i].iov_len;
			continue;
		}
		some = some < length ? some : length;
		memcpy(to, (const uint8_t *)spans[i].iov_base + from, some);
		to += some;
		length -= some;
		from = 0;
	}
}

/* Without faults: as the socket will, with a copy for the file. */
static ssize_t send_captured(struct vb_tcp_tapped *tapped, const struct vb_iwarp_out *out, bool *full)
{
	struct vb_tcp_tap *tap = tapped->tap;
	vb_time now = vb_clock_now();
	ssize_t taken = vb_tcp_send(tapped->fd, out->spans, out->count, false);
	size_t at = 0;

	*full = taken == -EAGAIN || (taken >= 0 && (size_t)taken < out->bytes);
	if (taken <= 0 || !is_captured(tapped))
		return taken;
	vb_mutex_lock(&tap->lock);
	for (unsigned i = 0; i < out->marks && at < (size_t)taken; i++) {
		size_t end = out->mark[i].end < (size_t)taken ? out->mark[i].end : (size_t)taken;

		flatten(tap, out->spans, out->count, at, end - at);
		write_bytes(tapped, true, tap->bytes, end - at, now, 0);
		at = end;
	}
	vb_mutex_unlock(&tap->lock);
	vb_capture_flush(tap->capture);
	return taken;
}

/* Its bytes are in tap->bytes. Caller holds tap->lock. */
static void decide(struct vb_tcp_tapped *tapped, vb_time now)
{
	unsigned opcode = tapped->tap->bytes[OPCODE_AT] & 15;
	const struct vb_faults_packet packet = {
		.qpn = tapped->qpn,
		.is_request = opcode != VB_RDMAP_READ_RESPONSE && opcode != VB_RDMAP_ATOMIC_RESPONSE,
		.is_fpdu = true,
	};

	vb_faults_decide(tapped->tap->faults, &packet, &tapped->action);
	tapped->judged = true;
	tapped->sent = 0;
	tapped->due = tapped->action.delay > 0 ? now + tapped->action.delay : 0;
}

/* One bit behind the length, which tells where the CRC is: a receiver with a wrong one may wait for ever. */
static void damage(const struct vb_tcp_tapped *tapped, uint8_t *bytes, size_t length)
{
	size_t whole = tapped->sent + length, at = VB_FPDU_LENGTH_FIELD + tapped->action.noise / 8 % (whole - VB_FPDU_LENGTH_FIELD);

	if (at >= tapped->sent)
		bytes[at - tapped->sent] ^= (uint8_t)(1u << tapped->action.noise % 8);
}

/* One FPDU, or the rest of it, which is in tap->bytes. Returns as vb_tcp_send. Caller holds tap->lock. */
static ssize_t send_disturbed(struct vb_tcp_tapped *tapped, size_t length)
{
	struct vb_tcp_tap *tap = tapped->tap;
	struct iovec span = {tap->bytes, length};
	uint32_t fate = (tapped->action.corrupt ? VB_CAPTURE_CORRUPTED : 0) | (tapped->action.delay > 0 ? VB_CAPTURE_DELAYED : 0);
	vb_time now = vb_clock_now();
	ssize_t taken;

	if (tapped->action.corrupt)
		damage(tapped, tap->bytes, length);
	if (tapped->action.cut)
		span.iov_len = tapped->action.noise % length;
	else
		span.iov_len = vb_faults_shorten(tap->faults, length);
	taken = span.iov_len > 0 ? vb_tcp_send(tapped->fd, &span, 1, false) : 0;
	if (taken > 0) {
		tapped->sent += (uint32_t)taken;
		if (is_captured(tapped))
			write_bytes(tapped, true, tap->bytes, (size_t)taken, now, fate);
	}
	if (tapped->action.cut && taken >= 0) {
		vb_tcp_break(tapped->fd);
		tapped->was_cut = true;
		if (is_captured(tapped))
			write_segment(tapped, true, VB_FRAME_TCP_RST, NULL, 0, vb_clock_now(), 0);
	}
	return taken;
}

ssize_t vb_tcp_tapped_send(struct vb_tcp_tapped *tapped, const struct vb_iwarp_out *out, vb_time now, bool *full)
{
	struct vb_tcp_tap *tap = tapped->tap;
	size_t at = 0;
	ssize_t taken = 0;

	*full = false;
	if (!tap->faults)
		return send_captured(tapped, out, full);
	if (tapped->was_cut)
		return -ECONNRESET;
	vb_mutex_lock(&tap->lock);
	for (unsigned i = 0; i < out->marks && !*full; i++) {
		size_t length = out->mark[i].end - at;

		flatten(tap, out->spans, out->count, at, length);
		if (!tapped->judged)
			decide(tapped, now);
		if (tapped->due > now)
			break;
		tapped->due = 0;
		taken = send_disturbed(tapped, length);
		*full = taken < (ssize_t)length;
		at += taken > 0 ? (size_t)taken : 0;
		tapped->judged = *full;
	}
	vb_mutex_unlock(&tap->lock);
	if (is_captured(tapped))
		vb_capture_flush(tap->capture);
	return at > 0 || taken >= 0 ? (ssize_t)at : taken;
}

/* ---- receiving ---- */

static unsigned cut_spans(struct iovec *cut, const struct iovec *spans, unsigned count, size_t length)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < count && i < MOST_SPANS && length > 0; i++) {
		cut[kept] = spans[i];
		if (cut[kept].iov_len > length)
			cut[kept].iov_len = length;
		length -= cut[kept++].iov_len;
	}
	return kept;
}

ssize_t vb_tcp_tapped_receive(struct vb_tcp_tapped *tapped, const struct iovec *spans, unsigned count)
{
	struct vb_tcp_tap *tap = tapped->tap;
	struct iovec cut[MOST_SPANS];
	size_t length = 0;
	ssize_t got;

	for (unsigned i = 0; i < count; i++)
		length += spans[i].iov_len;
	vb_mutex_lock(&tap->lock);
	if (tap->faults) {
		count = cut_spans(cut, spans, count, vb_faults_shorten(tap->faults, length));
		spans = cut;
	}
	got = vb_tcp_receive(tapped->fd, spans, count);
	if (got > 0 && is_captured(tapped)) {
		flatten(tap, spans, count, 0, (size_t)got);
		write_bytes(tapped, false, tap->bytes, (size_t)got, vb_clock_now(), 0);
		vb_capture_flush(tap->capture);
	}
	vb_mutex_unlock(&tap->lock);
	return got;
}
