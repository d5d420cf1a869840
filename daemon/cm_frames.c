/* SPDX-License-Identifier: MIT */
#include "daemon/cm_frames.h"

#include <errno.h>
#include <stdlib.h>

#include "io/descriptor.h"
#include "io/ethernet.h"
#include "io/ethernet_address.h"
#include "io/event.h"
#include "wire/burst.h"

enum { OWN_SLOT = 0 };

struct vb_cm_frames {
	int fd, poller;                    /* fd -1: not open */
	struct vb_ethernet_batch *batch;   /* made with it, as is the next */
	struct vb_ethernet_addresses *addresses;
};

struct vb_cm_frames *vb_cm_frames_create(int poller)
{
	struct vb_cm_frames *frames = calloc(1, sizeof(*frames));

	if (frames)
		*frames = (struct vb_cm_frames){.fd = -1, .poller = poller};
	return frames;
}

void vb_cm_frames_destroy(struct vb_cm_frames *frames)
{
	if (!frames)
		return;
	if (frames->fd >= 0)
		vb_descriptor_close(frames->fd);
	vb_ethernet_batch_destroy(frames->batch);
	vb_ethernet_addresses_destroy(frames->addresses);
	free(frames);
}

int vb_cm_frames_open(struct vb_cm_frames *frames)
{
	int error;

	if (frames->fd >= 0)
		return 0;
	if (!frames->batch)
		frames->batch = vb_ethernet_batch_create();
	if (!frames->addresses)
		frames->addresses = vb_ethernet_addresses_create();
	frames->fd = frames->batch && frames->addresses ? vb_ethernet_open(OWN_SLOT) : -ENOMEM;
	if (frames->fd < 0) {
		error = frames->fd;
		frames->fd = -1;
		return error;
	}
	error = vb_ethernet_listen(frames->fd, 0);
	if (error == 0)
		error = vb_poller_add(frames->poller, frames->fd, frames);
	if (error != 0) {
		vb_descriptor_close(frames->fd);
		frames->fd = -1;
	}
	return error;
}

bool vb_cm_frames_are_open(const struct vb_cm_frames *frames)
{
	return frames->fd >= 0;
}

bool vb_cm_frames_send(struct vb_cm_frames *frames, const struct vb_burst *burst)
{
	uint8_t mac[6];

	if (!vb_ethernet_address_find(frames->addresses, &burst->run[0].path, mac))
		return false;
	/* What the interface does not take is lost: it is repeated. */
	(void)vb_ethernet_send_run(frames->fd, burst, 0, mac);
	return true;
}

unsigned vb_cm_frames_receive(struct vb_cm_frames *frames)
{
	int count = frames->fd < 0 ? 0 : vb_ethernet_batch_receive(frames->batch, frames->fd);

	return count < 0 ? 0 : (unsigned)count;
}

const struct vb_udp_bundle *vb_cm_frames_at(const struct vb_cm_frames *frames, unsigned index)
{
	return vb_ethernet_batch_at(frames->batch, index);
}

void vb_cm_frames_addresses(struct vb_cm_frames *frames, const struct vb_path *path, bool sent, uint8_t destination[6], uint8_t source[6])
{
	vb_ethernet_address_pair(frames->addresses, frames->fd, path, sent, destination, source);
}
