/* SPDX-License-Identifier: MIT */
#include "links/fabric/tap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mutex.h"
#include "capture/writer.h"
#include "links/disturber.h"
#include "links/fabric/fabric_link.h"
#include "queue/qp.h"
#include "roce/roce.h"
#include "wire/burst.h"
#include "wire/ib_packet.h"
#include "wire/roce_packet.h"

struct vb_fabric_tap {
	struct vb_fabric_link *fabric;
	struct vb_capture *capture;        /* NULL: none */
	uint32_t slot;
	struct vb_mutex lock;              /* of what follows */
	struct vb_disturber *disturber;    /* of faults; NULL: none */
	bool keeps_runs;
	uint8_t packet[VB_IB_MAX_FRAME];
};

static int open_capture(struct vb_fabric_tap *tap, const char *path)
{
	int error = vb_capture_open(&tap->capture, path);

	if (error != 0)
		vb_log(VB_LOG_ERROR, "cannot capture to %s: %s", path,
		       error == -EEXIST ? "there is a file that is no capture of ours" : strerror(-error));
	return error;
}

static bool send_packet(void *context, const struct vb_path *path, uint8_t *bytes, size_t length);
static void tell_fate(void *context, const struct vb_qp *qp, const struct vb_path *path, const uint8_t *bytes, size_t length,
		      const struct vb_faults_action *action, bool again);

static int open_faults(struct vb_fabric_tap *tap, const char *specification)
{
	const struct vb_disturber_link link = {.context = tap, .send = send_packet, .tell = tell_fate, .lock = &tap->lock};
	int error = vb_disturber_create(&tap->disturber, specification, &link);

	if (error == 0)
		tap->keeps_runs = !tap->capture && vb_disturber_keeps_runs(tap->disturber);
	return error;
}

int vb_fabric_tap_open(struct vb_fabric_tap **out, struct vb_fabric_link *fabric, uint32_t slot)
{
	const char *capture = secure_getenv("VERBENA_CAPTURE"), *faults = secure_getenv("VERBENA_FAULTS");
	bool captures = capture && *capture, disturbs = faults && *faults;
	struct vb_fabric_tap *tap;
	int error = 0;

	if (!captures && !disturbs)
		return 0;
	tap = calloc(1, sizeof(*tap));
	if (!tap)
		return -ENOMEM;
	tap->fabric = fabric;
	tap->slot = slot;
	vb_mutex_init(&tap->lock, VB_RANK_TAP);
	if (captures)
		error = open_capture(tap, capture);
	if (error == 0 && disturbs)
		error = open_faults(tap, faults);
	if (error != 0) {
		vb_fabric_tap_close(tap);
		return error;
	}
	*out = tap;
	return 0;
}

void vb_fabric_tap_close(struct vb_fabric_tap *tap)
{
	if (!tap)
		return;
	vb_disturber_destroy(tap->disturber);
	vb_capture_close(tap->capture);
	vb_mutex_fini(&tap->lock);
	free(tap);
}

void vb_fabric_tap_abandon(struct vb_fabric_tap *tap)
{
	if (tap && tap->capture)
		vb_capture_abandon(tap->capture);
}

static void capture_sent(struct vb_fabric_tap *tap, const struct vb_qp *qp, const struct vb_ib_route *route, const uint8_t *packet,
			 size_t length, uint32_t fate)
{
	struct vb_capture_record record = {
		.flags = VB_CAPTURE_SENT | fate,
		.qpn = qp->qpn,
		.peer_qpn = vb_bth_destination_qpn(packet),
		.slot = tap->slot,
	};
	const struct vb_send_wqe *wqe = vb_roce_opcode(packet[0])->is_request ? vb_roce_work_of(qp, vb_bth_psn(packet)) : NULL;
	uint8_t frame[VB_IB_MAX_FRAME];
	size_t headers = vb_ib_route_encode(route, length, frame);
	char comment[160];
	int used = snprintf(comment, sizeof(comment), "sent by QP 0x%06x", qp->qpn);

	if (length > sizeof(frame) - headers)
		return;
	memcpy(frame + headers, packet, length);
	if (wqe) {
		record.flags |= VB_CAPTURE_HAS_WR_ID;
		record.wr_id = wqe->wr_id;
		used += snprintf(comment + used, sizeof(comment) - (size_t)used, ", wr_id %llu", (unsigned long long)wqe->wr_id);
	}
	if (fate)
		snprintf(comment + used, sizeof(comment) - (size_t)used, "%s%s%s%s, by fault injection",
			 fate & VB_CAPTURE_DROPPED ? ", lost" : "", fate & VB_CAPTURE_CORRUPTED ? ", damaged" : "",
			 fate & VB_CAPTURE_DUPLICATED ? ", sent again" : "", fate & VB_CAPTURE_DELAYED ? ", held back" : "");
	vb_capture_infiniband(tap->capture, &record, frame, headers + length, comment);
}

/* ---- faults ---- */

/* Caller holds tap->lock. */
static bool send_packet(void *context, const struct vb_path *path, uint8_t *bytes, size_t length)
{
	struct vb_fabric_tap *tap = context;
	struct vb_burst_run run = {
		.path = *path, .segment_size = (uint32_t)length, .packets = 1, .data = bytes, .bytes = (uint32_t)length};

	return vb_fabric_link_send_run(tap->fabric, &run) == 0;
}

static void tell_fate(void *context, const struct vb_qp *qp, const struct vb_path *path, const uint8_t *bytes, size_t length,
		      const struct vb_faults_action *action, bool again)
{
	struct vb_ib_route route = vb_ib_route_of_path(path);
	struct vb_fabric_tap *tap = context;
	bool delayed = action->delay > 0 || action->behind > 0;

	if (tap->capture)
		capture_sent(tap, qp, &route, bytes, length, vb_capture_fate(action->drop, again, action->corrupt, delayed));
}

/* ---- a burst ---- */

static void capture_run(struct vb_fabric_tap *tap, const struct vb_qp *qp, const struct vb_burst_run *run)
{
	struct vb_ib_route route = vb_ib_route_of_path(&run->path);

	for (uint32_t at = 0; at < run->bytes; at += run->segment_size)
		capture_sent(tap, qp, &route, run->data + at, run->bytes - at < run->segment_size ? run->bytes - at : run->segment_size, 0);
}

/* Caller holds tap->lock. How many were not taken. */
static uint32_t disturb_run(struct vb_fabric_tap *tap, const struct vb_qp *qp, const struct vb_burst *burst, uint32_t run)
{
	uint32_t lost = 0;

	for (uint32_t i = 0; i < burst->run[run].packets; i++) {
		size_t length = vb_burst_flatten(burst, run, i, tap->packet, sizeof(tap->packet));

		if (length < VB_BTH_LENGTH + VB_ICRC_LENGTH ||
		    !vb_disturber_send(tap->disturber, qp, &burst->run[run].path, tap->packet, length))
			lost++;
	}
	return lost;
}

bool vb_fabric_tap_sending(struct vb_fabric_tap *tap, const struct vb_qp *qp, struct vb_burst *burst, uint32_t *lost)
{
	*lost = 0;
	if (tap->disturber) {
		vb_mutex_lock(&tap->lock);
		if (tap->keeps_runs)
			vb_disturber_thin(tap->disturber, qp, burst);
		for (uint32_t i = 0; !tap->keeps_runs && i < burst->runs; i++)
			*lost += disturb_run(tap, qp, burst, i);
		vb_mutex_unlock(&tap->lock);
	} else {
		for (uint32_t i = 0; i < burst->runs; i++)
			capture_run(tap, qp, &burst->run[i]);
	}
	vb_fabric_tap_flush(tap);
	return tap->disturber && !tap->keeps_runs;
}

void vb_fabric_tap_received(struct vb_fabric_tap *tap, const uint8_t *bytes, size_t length, bool is_sound)
{
	struct vb_capture_record record = {.flags = VB_CAPTURE_RECEIVED | (is_sound ? 0 : VB_CAPTURE_REFUSED), .slot = tap->slot};
	struct vb_ib_frame frame;
	char comment[64];

	if (!tap->capture || !vb_ib_frame_decode(&frame, bytes, length))
		return;
	record.peer_qpn = vb_bth_destination_qpn(frame.bth);
	snprintf(comment, sizeof(comment), "for QP 0x%06x%s", record.peer_qpn, is_sound ? "" : ": damaged");
	vb_capture_infiniband(tap->capture, &record, bytes, length, comment);
}

void vb_fabric_tap_flush(struct vb_fabric_tap *tap)
{
	if (tap->capture)
		vb_capture_flush(tap->capture);
}
