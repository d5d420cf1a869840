/* SPDX-License-Identifier: MIT */
#include "links/fabric/tap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "capture/writer.h"
#include "queue/qp.h"
#include "roce/roce.h"
#include "wire/burst.h"
#include "wire/ib_packet.h"

struct vb_fabric_tap {
	struct vb_capture *capture;
	uint32_t slot;
};

int vb_fabric_tap_open(struct vb_fabric_tap **out, uint32_t slot)
{
	const char *path = secure_getenv("VERBENA_CAPTURE");
	struct vb_fabric_tap *tap;
	int error;

	if (!path || !*path)
		return 0;
	tap = calloc(1, sizeof(*tap));
	if (!tap)
		return -ENOMEM;
	tap->slot = slot;
	error = vb_capture_open(&tap->capture, path);
	if (error != 0) {
		vb_log(VB_LOG_ERROR, "cannot capture to %s: %s", path,
		       error == -EEXIST ? "there is a file that is no capture of ours" : strerror(-error));
		free(tap);
		return error;
	}
	*out = tap;
	return 0;
}

void vb_fabric_tap_close(struct vb_fabric_tap *tap)
{
	if (!tap)
		return;
	vb_capture_close(tap->capture);
	free(tap);
}

void vb_fabric_tap_abandon(struct vb_fabric_tap *tap)
{
	if (tap)
		vb_capture_abandon(tap->capture);
}

static void capture_sent(struct vb_fabric_tap *tap, const struct vb_qp *qp, const struct vb_ib_route *route, const uint8_t *packet,
			 size_t length)
{
	struct vb_capture_record record = {
		.flags = VB_CAPTURE_SENT,
		.qpn = qp->qpn,
		.peer_qpn = vb_bth_destination_qpn(packet),
		.slot = tap->slot,
	};
	const struct vb_send_wqe *wqe = vb_roce_opcode(packet[0])->is_request ? vb_roce_work_of(qp, vb_bth_psn(packet)) : NULL;
	uint8_t frame[VB_IB_MAX_FRAME];
	size_t headers = vb_ib_route_encode(route, length, frame);
	char comment[64];
	int used = snprintf(comment, sizeof(comment), "sent by QP 0x%06x", qp->qpn);

	if (length > sizeof(frame) - headers)
		return;
	memcpy(frame + headers, packet, length);
	if (wqe) {
		record.flags |= VB_CAPTURE_HAS_WR_ID;
		record.wr_id = wqe->wr_id;
		snprintf(comment + used, sizeof(comment) - (size_t)used, ", wr_id %llu", (unsigned long long)wqe->wr_id);
	}
	vb_capture_infiniband(tap->capture, &record, frame, headers + length, comment);
}

void vb_fabric_tap_sending(struct vb_fabric_tap *tap, const struct vb_qp *qp, const struct vb_burst_run *run)
{
	struct vb_ib_route route = vb_ib_route_of_path(&run->path);

	for (uint32_t at = 0; at < run->bytes; at += run->segment_size)
		capture_sent(tap, qp, &route, run->data + at, run->bytes - at < run->segment_size ? run->bytes - at : run->segment_size);
}

void vb_fabric_tap_received(struct vb_fabric_tap *tap, const uint8_t *bytes, size_t length, bool is_sound)
{
	struct vb_capture_record record = {.flags = VB_CAPTURE_RECEIVED | (is_sound ? 0 : VB_CAPTURE_REFUSED), .slot = tap->slot};
	struct vb_ib_frame frame;
	char comment[64];

	if (!vb_ib_frame_decode(&frame, bytes, length))
		return;
	record.peer_qpn = vb_bth_destination_qpn(frame.bth);
	snprintf(comment, sizeof(comment), "for QP 0x%06x%s", record.peer_qpn, is_sound ? "" : ": damaged");
	vb_capture_infiniband(tap->capture, &record, bytes, length, comment);
}

void vb_fabric_tap_flush(struct vb_fabric_tap *tap)
{
	vb_capture_flush(tap->capture);
}
