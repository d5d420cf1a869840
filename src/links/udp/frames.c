/* SPDX-License-Identifier: MIT
 *
 * See frames.h. An Ethernet address follows from a GID in one of these ways:
 *
 *   multicast          33:33 and the last four bytes
 *   fe80::, an EUI-64  the address that it was made of
 *   else               the kernel's neighbour table. Where that has none, the kernel is made to ask for it, and the packets are lost
 *
 * The table is asked once a second for each GID that is sent to.
 */
#include "links/udp/frames.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mutex.h"
#include "io/clock.h"
#include "io/daemon_client.h"
#include "io/descriptor.h"
#include "io/ethernet.h"
#include "io/neighbour.h"
#include "io/neighbour_table.h"
#include "wire/burst.h"

#define KNOWN_FOR VB_SECONDS(1)

enum { NEIGHBOURS = 64 };

struct neighbour {
	uint8_t gid[16];
	uint32_t interface_index;        /* 0: not in use */
	uint8_t mac[6];
	vb_time until;
};

struct vb_frames {
	int fd;
	struct vb_ethernet_batch *batch;
	struct vb_mutex lock;
	struct neighbour neighbour[NEIGHBOURS];
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
	if (frames)
		frames->batch = vb_ethernet_batch_create();
	if (!frames || !frames->batch) {
		vb_descriptor_close(fd);
		free(frames);
		return -ENOMEM;
	}
	frames->fd = fd;
	vb_mutex_init(&frames->lock, VB_RANK_FRAMES);
	*out = frames;
	return 0;
}

void vb_frames_close(struct vb_frames *frames)
{
	if (!frames)
		return;
	vb_descriptor_close(frames->fd);
	vb_mutex_fini(&frames->lock);
	vb_ethernet_batch_destroy(frames->batch);
	free(frames);
}

int vb_frames_descriptor(const struct vb_frames *frames)
{
	return frames->fd;
}

/* ---- Ethernet addresses ---- */

static void map_group(const uint8_t gid[16], uint8_t mac[6])
{
	memcpy(mac, (uint8_t[]){0x33, 0x33, gid[12], gid[13], gid[14], gid[15]}, 6);
}

/* RFC 4291, appendix A. */
static bool is_made_of_mac(const uint8_t gid[16])
{
	static const uint8_t prefix[8] = {0xfe, 0x80};

	return memcmp(gid, prefix, sizeof(prefix)) == 0 && gid[11] == 0xff && gid[12] == 0xfe;
}

static struct neighbour *place_of(struct vb_frames *frames, const struct vb_path *path)
{
	uint32_t hash = path->interface_index;

	for (unsigned i = 0; i < 16; i++)
		hash = (hash ^ path->destination[i]) * 0x01000193u;
	return &frames->neighbour[hash % NEIGHBOURS];
}

/* Caller holds frames->lock. */
static bool ask(struct neighbour *place, const struct vb_path *path, vb_time now)
{
	uint8_t mac[6];

	if (vb_neighbour_lookup(path->destination, path->interface_index, mac) != 0) {
		vb_neighbour_solicit(path);
		return false;
	}
	memcpy(place->gid, path->destination, sizeof(place->gid));
	place->interface_index = path->interface_index;
	memcpy(place->mac, mac, sizeof(place->mac));
	place->until = now + KNOWN_FOR;
	return true;
}

static bool find_mac(struct vb_frames *frames, const struct vb_path *path, uint8_t mac[6])
{
	const uint8_t *gid = path->destination;
	struct neighbour *place;
	bool known;

	if (vb_gid_is_multicast(gid)) {
		map_group(gid, mac);
		return true;
	}
	if (is_made_of_mac(gid)) {
		memcpy(mac, (uint8_t[]){gid[8] ^ 2, gid[9], gid[10], gid[13], gid[14], gid[15]}, 6);
		return true;
	}
	vb_mutex_lock(&frames->lock);
	place = place_of(frames, path);
	known = place->interface_index == path->interface_index && memcmp(place->gid, gid, 16) == 0 && vb_clock_now() < place->until;
	known = known || ask(place, path, vb_clock_now());
	memcpy(mac, place->mac, 6);
	vb_mutex_unlock(&frames->lock);
	return known;
}

/* ---- packets ---- */

uint32_t vb_frames_send(struct vb_frames *frames, const struct vb_burst *burst, uint32_t run)
{
	uint8_t mac[6];

	if (!find_mac(frames, &burst->run[run].path, mac))
		return burst->run[run].packets;
	return vb_ethernet_send_run(frames->fd, burst, run, mac);
}

void vb_frames_addresses(struct vb_frames *frames, const struct vb_path *path, bool sent, uint8_t destination[6], uint8_t source[6])
{
	struct vb_path to_peer = *path;
	uint8_t *own = sent ? source : destination, *peer = sent ? destination : source;

	memset(own, 0, 6);
	memset(peer, 0, 6);
	if (!frames)
		return;
	if (!sent)
		memcpy(to_peer.destination, path->source, sizeof(to_peer.destination));
	if (!find_mac(frames, &to_peer, peer))
		memset(peer, 0, 6);
	if (!sent && vb_gid_is_multicast(path->destination))
		map_group(path->destination, own);
	else
		vb_ethernet_own_address(frames->fd, path->interface_index, own);
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

	map_group(gid, mac);
	return vb_ethernet_join(frames->fd, mac, interface_index, join);
}
