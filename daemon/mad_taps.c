/* SPDX-License-Identifier: MIT */
#include "daemon/mad_taps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "io/descriptor.h"
#include "io/unix_socket.h"
#include "wire/mad_tap.h"
#include "wire/roce_packet.h"

enum { MOST_TAPS = 16 };

struct tap {
	struct vb_list node;
	int fd;
};

void vb_mad_taps_init(struct vb_mad_taps *taps)
{
	vb_list_init(&taps->taps);
}

static void drop(struct tap *tap)
{
	vb_list_remove(&tap->node);
	vb_descriptor_close(tap->fd);
	free(tap);
}

void vb_mad_taps_fini(struct vb_mad_taps *taps)
{
	VB_LIST_FOR_EACH(node, &taps->taps)
		drop(vb_container_of(node, struct tap, node));
}

int vb_mad_taps_open(struct vb_mad_taps *taps)
{
	unsigned count = 0;
	struct tap *tap;
	int ends[2], error;

	VB_LIST_FOR_EACH(node, &taps->taps)
		count += node != NULL;
	if (count >= MOST_TAPS)
		return -EUSERS;
	tap = malloc(sizeof(*tap));
	error = tap ? vb_unix_pair(ends) : -ENOMEM;
	if (error != 0) {
		free(tap);
		return error;
	}
	vb_unix_widen(ends[0]);
	tap->fd = ends[0];
	vb_list_append(&taps->taps, &tap->node);
	return ends[1];
}

void vb_mad_taps_tell(struct vb_mad_taps *taps, vb_time now, bool sent, const uint8_t *bytes, size_t length)
{
	struct {
		struct vb_mad_tapped head;
		uint8_t frame[VB_IB_MAD_FRAME];
	} message;
	struct vb_ib_frame frame;

	if (vb_list_is_empty(&taps->taps) || length > sizeof(message.frame) || !vb_ib_frame_decode(&frame, bytes, length) ||
	    vb_bth_destination_qpn(frame.bth) > 1)
		return;
	message.head = (struct vb_mad_tapped){.time = now, .length = (uint32_t)length, .sent = sent};
	memcpy(message.frame, bytes, length);
	VB_LIST_FOR_EACH(node, &taps->taps) {
		struct tap *tap = vb_container_of(node, struct tap, node);
		int error = vb_unix_send(tap->fd, &message, sizeof(message.head) + length, NULL, 0, false);

		if (error == -EPIPE || error == -ECONNRESET)
			drop(tap);
	}
}
