/* SPDX-License-Identifier: MIT
 *
 * With a capture alone, packets are copied to the file and go the usual way, in runs. So do they where faults only lose
 * and damage them: the lost ones are taken out of their runs before these are sent, so that a bad network is as fast as
 * a good one but for what is lost. With other faults, or with both, each packet is sent by itself, with the IP
 * identification 0 that a lone datagram has and an ICRC to match, for each may have a fate of its own. Packets that
 * must wait are kept in a list; a thread sends them in time, or a later packet that overtakes them does.
 */
#include "links/udp/tap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mutex.h"
#include "capture/frame.h"
#include "capture/writer.h"
#include "io/udp.h"
#include "links/disturber.h"
#include "links/udp/frames.h"
#include "links/udp/udp_link.h"
#include "queue/observer.h"
#include "queue/qp.h"
#include "roce/roce.h"
#include "wire/burst.h"

enum { LONGEST_DATAGRAM = 65536 };

struct vb_tap {
	struct vb_udp_link *udp;
	struct vb_queue_observer observer;
	struct vb_capture *capture;        /* NULL: none */
	struct vb_mutex lock;              /* of what follows; innermost but for the capture's own */
	uint8_t *datagram;
	struct vb_disturber *disturber;    /* of faults; NULL: none */
	bool keeps_runs;                   /* of what it disturbs, see above */
	struct vb_burst *single;
};

/* ---- records ---- */

static struct vb_tap *tap_of(const struct vb_queue_observer *self)
{
	return (struct vb_tap *)((uintptr_t)self - offsetof(struct vb_tap, observer));
}

static void note(struct vb_tap *tap, struct vb_capture_record *record)
{
	record->slot = tap->udp->schedule->slot;
	if (!tap->udp->schedule->abandoned)
		vb_capture_note(tap->capture, record);
}

static void posted_send(const struct vb_queue_observer *self, const struct vb_qp *qp, const struct vb_send_wqe *wqe,
			vb_time now)
{
	struct vb_capture_record record = {
		.kind = VB_CAPTURE_POST_SEND,
		.flags = VB_CAPTURE_HAS_WR_ID,
		.time = now,
		.qpn = qp->qpn,
		.peer_qpn = qp->type == IBV_QPT_UD ? wqe->datagram.qpn : qp->attr.dest_qp_num,
		.wr_id = wqe->wr_id,
		.opcode = wqe->opcode,
		.length = wqe->length,
	};

	note(tap_of(self), &record);
}

static void posted_receive(const struct vb_queue_observer *self, const struct vb_qp *qp, const struct ibv_recv_wr *wr,
			   vb_time now)
{
	struct vb_capture_record record = {
		.kind = VB_CAPTURE_POST_RECEIVE,
		.flags = VB_CAPTURE_HAS_WR_ID,
		.time = now,
		.qpn = qp ? qp->qpn : 0,
		.wr_id = wr->wr_id,
	};

	for (int i = 0; i < wr->num_sge; i++)
		record.length += wr->sg_list[i].length;
	note(tap_of(self), &record);
}

static void completed(const struct vb_queue_observer *self, const struct vb_completion *completion)
{
	struct vb_capture_record record = {
		.kind = VB_CAPTURE_COMPLETION,
		.flags = VB_CAPTURE_HAS_WR_ID,
		.qpn = completion->qpn,
		.peer_qpn = completion->source_qpn,
		.wr_id = completion->wr_id,
		.opcode = completion->opcode,
		.status = completion->status,
		.length = completion->byte_length,
	};

	note(tap_of(self), &record);
}

static void happened(const struct vb_queue_observer *self, uint32_t qpn, enum ibv_event_type event)
{
	struct vb_capture_record record = {.kind = VB_CAPTURE_EVENT, .qpn = qpn, .status = event};

	note(tap_of(self), &record);
}

const struct vb_queue_observer *vb_tap_observer(const struct vb_tap *tap)
{
	return tap && tap->capture ? &tap->observer : NULL;
}

/* ---- packets to the capture ---- */

static void capture_packet(struct vb_tap *tap, struct vb_capture_record *record, const struct vb_path *path, uint16_t ip_id,
			   const uint8_t *datagram, size_t length, const char *comment)
{
	struct vb_frames *frames = __atomic_load_n(&tap->udp->frames, __ATOMIC_ACQUIRE);
	uint8_t destination[6], source[6];

	if (path->framing != VB_FRAMING_ETHERNET) {
		vb_capture_packet(tap->capture, record, path, ip_id, datagram, length, comment);
		return;
	}
	vb_frames_addresses(frames, path, record->flags & VB_CAPTURE_SENT, destination, source);
	vb_capture_ethernet(tap->capture, record, path, destination, source, datagram, length, comment);
}

static void capture_sent(struct vb_tap *tap, const struct vb_qp *qp, const struct vb_path *path, uint16_t ip_id,
			 const uint8_t *datagram, size_t length, uint32_t fate)
{
	struct vb_capture_record record = {
		.flags = VB_CAPTURE_SENT | fate,
		.qpn = qp->qpn,
		.peer_qpn = vb_bth_destination_qpn(datagram),
		.slot = tap->udp->schedule->slot,
	};
	const struct vb_send_wqe *wqe = vb_roce_opcode(datagram[0])->is_request ? vb_roce_work_of(qp, vb_bth_psn(datagram)) : NULL;
	char comment[160];
	int used = snprintf(comment, sizeof(comment), "sent by QP 0x%06x", qp->qpn);

	if (wqe) {
		record.flags |= VB_CAPTURE_HAS_WR_ID;
		record.wr_id = wqe->wr_id;
		used += snprintf(comment + used, sizeof(comment) - (size_t)used, ", wr_id %llu",
				 (unsigned long long)wqe->wr_id);
	}
	if (fate)
		snprintf(comment + used, sizeof(comment) - (size_t)used, "%s%s%s%s, by fault injection",
			 fate & VB_CAPTURE_DROPPED ? ", lost" : "", fate & VB_CAPTURE_CORRUPTED ? ", damaged" : "",
			 fate & VB_CAPTURE_DUPLICATED ? ", sent again" : "",
			 fate & VB_CAPTURE_DELAYED ? ", held back" : "");
	capture_packet(tap, &record, path, ip_id, datagram, length, comment);
}

void vb_tap_received(struct vb_tap *tap, const struct vb_path *from, const uint8_t *bytes, size_t length,
		     enum vb_roce_decode_result result)
{
	struct vb_capture_record record = {
		.flags = VB_CAPTURE_RECEIVED | (result == VB_PACKET_OK ? 0 : VB_CAPTURE_REFUSED),
		.slot = tap->udp->schedule->slot,
	};
	char comment[96];

	if (!tap->capture || length < VB_BTH_LENGTH + VB_ICRC_LENGTH)
		return;
	record.peer_qpn = vb_bth_destination_qpn(bytes);
	snprintf(comment, sizeof(comment), "for QP 0x%06x%s%s", record.peer_qpn, result == VB_PACKET_OK ? "" : ": ",
		 result == VB_PACKET_OK ? "" : vb_roce_decode_result_name(result));
	capture_packet(tap, &record, from, vb_frame_guess_id(from, bytes, length), bytes, length, comment);
}

bool vb_tap_parts(const struct vb_tap *tap)
{
	return tap && !tap->keeps_runs;
}

bool vb_tap_captures(const struct vb_tap *tap)
{
	return tap && tap->capture;
}

void vb_tap_flush(struct vb_tap *tap)
{
	if (tap->capture)
		vb_capture_flush(tap->capture);
}

/* ---- faults ---- */

/* Caller holds tap->lock. */
static bool send_datagram(void *context, const struct vb_path *path, uint8_t *bytes, size_t length)
{
	struct vb_tap *tap = context;
	struct vb_burst *burst = tap->single;
	struct vb_source_port *port = vb_source_ports_find(&tap->udp->ports, !vb_path_is_ipv4(path), path->source_port);
	uint32_t lost = 1;

	vb_burst_reset(burst);
	burst->runs = burst->packets = 1;
	burst->run[0] = (struct vb_burst_run){
		.path = *path,
		.segment_size = (uint32_t)length,
		.packets = 1,
		.data = bytes,
		.bytes = (uint32_t)length,
	};
	if (path->framing == VB_FRAMING_ETHERNET)
		return vb_udp_send_all(tap->udp, burst) == 0;
	if (port)
		(void)vb_udp_send_run(port->fd, burst, 0, &lost);
	return lost == 0;
}

static void tell_fate(void *context, const struct vb_qp *qp, const struct vb_path *path, const uint8_t *bytes, size_t length,
		      const struct vb_faults_action *action, bool again)
{
	struct vb_tap *tap = context;
	bool delayed = action->delay > 0 || action->behind > 0;

	if (tap->capture)
		capture_sent(tap, qp, path, 0, bytes, length, vb_capture_fate(action->drop, again, action->corrupt, delayed));
}

/* ---- sending ---- */

bool vb_tap_sending(struct vb_tap *tap, const struct vb_qp *qp, struct vb_burst *burst, uint32_t *lost)
{
	*lost = 0;
	vb_mutex_lock(&tap->lock);
	if (tap->keeps_runs) {
		vb_disturber_thin(tap->disturber, qp, burst);
		vb_mutex_unlock(&tap->lock);
		return false;
	}
	for (uint32_t run = 0; run < burst->runs; run++) {
		for (uint32_t i = 0; i < burst->run[run].packets; i++) {
			size_t length = vb_burst_flatten(burst, run, i, tap->datagram, LONGEST_DATAGRAM);

			if (length < VB_BTH_LENGTH + VB_ICRC_LENGTH)
				continue;
			if (!tap->disturber)
				capture_sent(tap, qp, &burst->run[run].path, (uint16_t)i, tap->datagram, length, 0);
			else if (!vb_disturber_send(tap->disturber, qp, &burst->run[run].path, tap->datagram, length))
				++*lost;
		}
	}
	vb_mutex_unlock(&tap->lock);
	vb_tap_flush(tap);
	return tap->disturber != NULL;
}

/* ---- as a whole ---- */

static int open_faults(struct vb_tap *tap, const char *specification)
{
	const struct vb_disturber_link link = {.context = tap, .send = send_datagram, .tell = tell_fate, .lock = &tap->lock};
	int error;

	tap->single = malloc(sizeof(*tap->single));
	if (!tap->single)
		return -ENOMEM;
	error = vb_disturber_create(&tap->disturber, specification, &link);
	if (error == 0)
		tap->keeps_runs = !tap->capture && vb_disturber_keeps_runs(tap->disturber);
	return error;
}

static int open_capture(struct vb_tap *tap, const char *path)
{
	struct vb_capture_record record = {.kind = VB_CAPTURE_PROCESS};
	int error = vb_capture_open(&tap->capture, path);

	if (error != 0) {
		vb_log(VB_LOG_ERROR, "cannot capture to %s: %s", path,
		       error == -EEXIST ? "there is a file that is no capture of ours" : strerror(-error));
		return error;
	}
	snprintf(record.text, sizeof(record.text), "%s", program_invocation_short_name);
	note(tap, &record);
	return 0;
}

int vb_tap_open(struct vb_tap **out, struct vb_udp_link *udp)
{
	const char *capture = secure_getenv("VERBENA_CAPTURE"), *faults = secure_getenv("VERBENA_FAULTS");
	bool captures = capture && *capture, disturbs = faults && *faults;
	struct vb_tap *tap;
	int error = 0;

	if (!captures && !disturbs)
		return 0;
	tap = calloc(1, sizeof(*tap));
	if (!tap)
		return -ENOMEM;
	tap->udp = udp;
	tap->observer = (struct vb_queue_observer){posted_send, posted_receive, completed, happened};
	vb_mutex_init(&tap->lock, VB_RANK_TAP);
	tap->datagram = malloc(LONGEST_DATAGRAM);
	if (!tap->datagram)
		error = -ENOMEM;
	if (error == 0 && captures)
		error = open_capture(tap, capture);
	if (error == 0 && disturbs)
		error = open_faults(tap, faults);
	if (error != 0) {
		vb_tap_close(tap);
		return error;
	}
	*out = tap;
	return 0;
}

void vb_tap_close(struct vb_tap *tap)
{
	if (!tap)
		return;
	vb_disturber_destroy(tap->disturber);
	vb_capture_close(tap->capture);
	vb_mutex_fini(&tap->lock);
	free(tap->single);
	free(tap->datagram);
	free(tap);
}

void vb_tap_abandon(struct vb_tap *tap)
{
	if (tap && tap->capture)
		vb_capture_abandon(tap->capture);
}
