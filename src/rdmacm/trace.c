/* SPDX-License-Identifier: MIT
 *
 * The file is opened once and stays open until the process ends.
 */
#include "rdmacm/trace.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "capture/frame.h"
#include "capture/writer.h"
#include "connect/mpa.h"
#include "io/clock.h"
#include "io/tcp.h"
#include "io/unix_socket.h"
#include "links/faults.h"
#include "wire/cm_command.h"
#include "wire/cm_mad.h"

static struct vb_capture *capture;         /* NULL: none */
static pthread_once_t opened = PTHREAD_ONCE_INIT;

static void open_capture(void)
{
	const char *path = secure_getenv("VERBENA_CAPTURE");
	struct vb_capture_record record = {.kind = VB_CAPTURE_PROCESS};
	int error;

	if (path == NULL || *path == '\0')
		return;
	error = vb_capture_open(&capture, path);
	if (error != 0) {
		vb_log(VB_LOG_ERROR, "connections are not captured to %s: %s", path, strerror(-error));
		return;
	}
	snprintf(record.text, sizeof(record.text), "%s", program_invocation_short_name);
	vb_capture_note(capture, &record);
}

/* That a specification is wrong, the endpoint says when the device is opened. */
static void ask_to_lose(int fd)
{
	const char *specification = secure_getenv("VERBENA_FAULTS");
	struct vb_cm_command command = {.type = VB_CM_COMMAND, .verb = VB_CM_LOSE};
	struct vb_faults_messages messages;
	struct vb_faults *faults;
	char why[256];

	if (specification == NULL || *specification == '\0' ||
	    vb_faults_create(&faults, specification, why, sizeof(why)) != 0)
		return;
	if (vb_faults_connection_messages(faults, &messages)) {
		memcpy(command.conn.private_data, messages.lost, sizeof(messages.lost));
		(void)vb_unix_send(fd, &command, sizeof(command), NULL, 0, true);
	}
	vb_faults_destroy(faults);
}

void vb_rdmacm_trace_ask(int fd)
{
	struct vb_cm_command command = {.type = VB_CM_COMMAND, .verb = VB_CM_TELL_PACKETS};

	ask_to_lose(fd);
	pthread_once(&opened, open_capture);
	if (capture != NULL)
		(void)vb_unix_send(fd, &command, sizeof(command), NULL, 0, true);
}

bool vb_rdmacm_trace_packet(const void *bytes, size_t length)
{
	const struct vb_cm_trace *trace = bytes;
	struct vb_capture_record record = {.qpn = VB_CM_QPN, .peer_qpn = VB_CM_QPN};
	static const char comment[] = "connection management";

	if (length != sizeof(*trace) || trace->length > sizeof(trace->datagram))
		return false;
	if (capture == NULL)
		return true;
	record.flags = trace->sent ? VB_CAPTURE_SENT | (trace->sent == 2 ? VB_CAPTURE_DROPPED : 0) : VB_CAPTURE_RECEIVED;
	record.time = record.received = trace->time;
	if (trace->path.framing == VB_FRAMING_ETHERNET)
		vb_capture_ethernet(capture, &record, &trace->path, trace->destination_mac, trace->source_mac, trace->datagram,
				    trace->length, comment);
	else
		vb_capture_packet(capture, &record, &trace->path,
				  trace->sent ? 0 : vb_frame_guess_id(&trace->path, trace->datagram, trace->length),
				  trace->datagram, trace->length, comment);
	vb_capture_flush(capture);
	return true;
}

void vb_rdmacm_trace_event(uint32_t event)
{
	struct vb_capture_record record = {.kind = VB_CAPTURE_CM_EVENT, .status = event};

	pthread_once(&opened, open_capture);
	if (capture != NULL)
		vb_capture_note(capture, &record);
}

/* ---- iWARP ---- */

/* A stream's bytes are numbered from 1 on (capture/streams.h). */
static bool begin_segment(int fd, bool sent, struct vb_frame_tcp *segment)
{
	struct vb_tcp_address local, remote;

	pthread_once(&opened, open_capture);
	if (capture == NULL || vb_tcp_local(fd, &local) != 0 || vb_tcp_remote(fd, &remote) != 0)
		return false;
	memset(segment, 0, sizeof(*segment));
	memcpy(segment->path.source, sent ? local.gid : remote.gid, sizeof(local.gid));
	memcpy(segment->path.destination, sent ? remote.gid : local.gid, sizeof(local.gid));
	segment->path.source_port = sent ? local.port : remote.port;
	segment->destination_port = sent ? remote.port : local.port;
	return true;
}

static void write_segment(int fd, bool sent, uint32_t sequence, uint32_t acknowledged, uint8_t flags, const uint8_t *bytes, size_t length,
			  vb_time when)
{
	struct vb_capture_record record = {.flags = sent ? VB_CAPTURE_SENT : VB_CAPTURE_RECEIVED, .time = when, .received = when};
	struct vb_frame_tcp segment;

	if (!begin_segment(fd, sent, &segment))
		return;
	segment.sequence = sequence;
	segment.acknowledged = acknowledged;
	segment.flags = flags;
	vb_capture_segment(capture, &record, &segment, bytes, length, length > 0 ? "MPA frame" : "TCP connection");
	vb_capture_flush(capture);
}

/* The kernel has exchanged these before; dissectors look for them. */
static void write_beginning(int fd, bool initiator, vb_time when)
{
	write_segment(fd, initiator, 0, 0, VB_FRAME_TCP_SYN, NULL, 0, when);
	write_segment(fd, !initiator, 0, 1, VB_FRAME_TCP_SYN | VB_FRAME_TCP_ACK, NULL, 0, when);
}

void vb_rdmacm_trace_sent(int fd, const struct vb_mpa *mpa, size_t length, vb_time when)
{
	if (mpa->initiator && mpa->sent == 0)
		write_beginning(fd, true, when);
	write_segment(fd, true, 1 + (uint32_t)mpa->sent, 1 + (uint32_t)mpa->received, VB_FRAME_TCP_PSH | VB_FRAME_TCP_ACK,
		      mpa->out + mpa->sent, length, when);
}

void vb_rdmacm_trace_received(int fd, const struct vb_mpa *mpa)
{
	vb_time now = vb_clock_now();

	if (!mpa->initiator)
		write_beginning(fd, false, now);
	write_segment(fd, false, 1, 1 + (uint32_t)mpa->sent, VB_FRAME_TCP_PSH | VB_FRAME_TCP_ACK, mpa->in, mpa->received, now);
}
