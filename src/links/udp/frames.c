/* SPDX-License-Identifier: MIT
 *
 * See frames.h. Packets to a GID whose Ethernet address is not known yet (io/ethernet_address.h) are lost.
 */
#include "links/udp/frames.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mutex.h"
#include "io/daemon_client.h"
#include "io/descriptor.h"
#include "io/ethernet.h"
#include "io/ethernet_address.h"
#include "wire/burst.h"

struct vb_frames {
	int fd;
	struct vb_mutex lock;
	uint32_t heard;                    /* under lock: as vb_frames_listen was last told */
	struct vb_ethernet_batch *batch;
	struct vb_ethernet_addresses *addresses;
};

static bool take_socket(void *context, const struct vb_daemon_message *message, const int *fds, unsigned count)
{
	int *fd = context;

	if (message->header.type != VB_DAEMON_FRAMES || count != 1)
		return true;
	*fd = vb_ethernet_is_socket(fds[0]) ? vb_descriptor_duplicate(fds[0]) : -1;
	return false;
}

int vb_frames_open(struct vb_frames **out, struct vb_daemon_client *daemon, bool asked_for)
{
	struct vb_daemon_message request;
	struct vb_frames *frames;
	int fd = -1, error;

	vb_daemon_message_begin(&request, VB_DAEMON_OPEN_FRAMES, 0);
	error = asked_for ? vb_daemon_client_request(daemon, &request, NULL, 0, take_socket, &fd) :
			    vb_daemon_client_try(daemon, &request, take_socket, &fd);
	if (error == 0 && fd < 0)
		error = -EPROTO;
	if (error != 0)
		return error;
	frames = calloc(1, sizeof(*frames));
	if (!frames) {
		vb_descriptor_close(fd);
		return -ENOMEM;
	}
	frames->fd = fd;
	vb_mutex_init(&frames->lock, VB_RANK_FRAMES);
	frames->batch = vb_ethernet_batch_create();
	frames->addresses = vb_ethernet_addresses_create();
	if (!frames->batch || !frames->addresses) {
		vb_frames_close(frames);
		return -ENOMEM;
	}
	*out = frames;
	return 0;
}

void vb_frames_close(struct vb_frames *frames)
{
	if (!frames)
		return;
	vb_descriptor_close(frames->fd);
	vb_ethernet_addresses_destroy(frames->addresses);
	vb_ethernet_batch_destroy(frames->batch);
	vb_mutex_fini(&frames->lock);
	free(frames);
}

int vb_frames_descriptor(const struct vb_frames *frames)
{
	return frames->fd;
}

bool vb_frames_widen(uint32_t *from, uint32_t interface_index)
{
	uint32_t before = __atomic_load_n(from, __ATOMIC_RELAXED), after;

	do {
		if (before == interface_index || before == VB_FRAMES_FROM_ALL)
			return false;
		after = before == VB_FRAMES_FROM_NONE ? interface_index : VB_FRAMES_FROM_ALL;
	} while (!__atomic_compare_exchange_n(from, &before, after, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
	return true;
}

/* One that cannot be bound to an interface, which is gone most likely, hears all. */
void vb_frames_listen(struct vb_frames *frames, const uint32_t *from)
{
	uint32_t wanted;

	vb_mutex_lock(&frames->lock);
	wanted = __atomic_load_n(from, __ATOMIC_SEQ_CST);
	if (wanted != frames->heard && (wanted == VB_FRAMES_FROM_ALL || vb_ethernet_listen(frames->fd, wanted) != 0))
		(void)vb_ethernet_listen(frames->fd, 0);
	frames->heard = wanted;
	vb_mutex_unlock(&frames->lock);
}

/* ---- packets ---- */

uint32_t vb_frames_send(struct vb_frames *frames, const struct vb_burst *burst, uint32_t run)
{
	uint8_t mac[6];

	if (!vb_ethernet_address_find(frames->addresses, &burst->run[run].path, mac))
		return burst->run[run].packets;
	return vb_ethernet_send_run(frames->fd, burst, run, mac);
}

void vb_frames_addresses(struct vb_frames *frames, const struct vb_path *path, bool sent, uint8_t destination[6], uint8_t source[6])
{
	memset(destination, 0, 6);
	memset(source, 0, 6);
	if (frames)
		vb_ethernet_address_pair(frames->addresses, frames->fd, path, sent, destination, source);
}

int vb_frames_receive(struct vb_frames *frames)
{
	return vb_ethernet_batch_receive(frames->batch, frames->fd);
}

const struct vb_udp_bundle *vb_frames_at(const struct vb_frames *frames, unsigned index)
{
	return vb_ethernet_batch_at(frames->batch, index);
}

int vb_frames_join(struct vb_frames *frames, const uint8_t gid[16], uint32_t interface_index, bool join)
{
	uint8_t mac[6];

	vb_ethernet_address_of_group(gid, mac);
	return vb_ethernet_join(frames->fd, mac, interface_index, join);
}
