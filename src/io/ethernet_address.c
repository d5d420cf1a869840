/* SPDX-License-Identifier: MIT */
#include "io/ethernet_address.h"

#include <stdlib.h>
#include <string.h>

#include "base/mutex.h"
#include "io/clock.h"
#include "io/ethernet.h"
#include "io/neighbour.h"
#include "io/neighbour_table.h"
#include "wire/path.h"

#define KNOWN_FOR VB_SECONDS(1)

enum { NEIGHBOURS = 64 };

struct neighbour {
	uint8_t gid[16];
	uint32_t interface_index;        /* 0: not in use */
	uint8_t mac[6];
	vb_time until;
};

struct vb_ethernet_addresses {
	struct vb_mutex lock;
	struct neighbour neighbour[NEIGHBOURS];
};

struct vb_ethernet_addresses *vb_ethernet_addresses_create(void)
{
	struct vb_ethernet_addresses *addresses = calloc(1, sizeof(*addresses));

	if (addresses)
		vb_mutex_init(&addresses->lock, VB_RANK_FRAMES);
	return addresses;
}

void vb_ethernet_addresses_destroy(struct vb_ethernet_addresses *addresses)
{
	if (!addresses)
		return;
	vb_mutex_fini(&addresses->lock);
	free(addresses);
}

void vb_ethernet_address_of_group(const uint8_t gid[16], uint8_t mac[6])
{
	memcpy(mac, (uint8_t[]){0x33, 0x33, gid[12], gid[13], gid[14], gid[15]}, 6);
}

/* RFC 4291, appendix A. */
static bool is_made_of_mac(const uint8_t gid[16])
{
	static const uint8_t prefix[8] = {0xfe, 0x80};

	return memcmp(gid, prefix, sizeof(prefix)) == 0 && gid[11] == 0xff && gid[12] == 0xfe;
}

static struct neighbour *place_of(struct vb_ethernet_addresses *addresses, const struct vb_path *path)
{
	uint32_t hash = path->interface_index;

	for (unsigned i = 0; i < 16; i++)
		hash = (hash ^ path->destination[i]) * 0x01000193u;
	return &addresses->neighbour[hash % NEIGHBOURS];
}

/* Caller holds addresses->lock. */
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

bool vb_ethernet_address_find(struct vb_ethernet_addresses *addresses, const struct vb_path *path, uint8_t mac[6])
{
	const uint8_t *gid = path->destination;
	struct neighbour *place;
	bool known;

	if (vb_gid_is_multicast(gid)) {
		vb_ethernet_address_of_group(gid, mac);
		return true;
	}
	if (is_made_of_mac(gid)) {
		memcpy(mac, (uint8_t[]){gid[8] ^ 2, gid[9], gid[10], gid[13], gid[14], gid[15]}, 6);
		return true;
	}
	vb_mutex_lock(&addresses->lock);
	place = place_of(addresses, path);
	known = place->interface_index == path->interface_index && memcmp(place->gid, gid, 16) == 0 && vb_clock_now() < place->until;
	known = known || ask(place, path, vb_clock_now());
	memcpy(mac, place->mac, 6);
	vb_mutex_unlock(&addresses->lock);
	return known;
}

void vb_ethernet_address_pair(struct vb_ethernet_addresses *addresses, int fd, const struct vb_path *path, bool sent,
			      uint8_t destination[6], uint8_t source[6])
{
	struct vb_path to_peer = *path;
	uint8_t *own = sent ? source : destination, *peer = sent ? destination : source;

	memset(peer, 0, 6);
	if (!sent)
		memcpy(to_peer.destination, path->source, sizeof(to_peer.destination));
	if (!vb_ethernet_address_find(addresses, &to_peer, peer))
		memset(peer, 0, 6);
	if (!sent && vb_gid_is_multicast(path->destination))
		vb_ethernet_address_of_group(path->destination, own);
	else
		vb_ethernet_own_address(fd, path->interface_index, own);
}
