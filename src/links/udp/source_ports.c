/* SPDX-License-Identifier: MIT
 *
 * See source_ports.h.
 */
#include "links/udp/source_ports.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/log.h"
#include "io/descriptor.h"
#include "io/random.h"
#include "io/udp.h"
#include "wire/daemon_message.h"

enum { TRIES = 64 };

static bool next_id(const struct vb_burst_numbers *numbers, const struct vb_path *path, uint16_t *id)
{
	struct vb_source_ports *ports = (struct vb_source_ports *)((uintptr_t)numbers - offsetof(struct vb_source_ports, numbers));
	const struct vb_source_port *port = vb_path_is_ipv4(path) ? vb_source_ports_find(ports, false, path->source_port) : NULL;

	return port && vb_counted_next(&port->counted, id);
}

void vb_source_ports_init(struct vb_source_ports *ports)
{
	memset(ports, 0, sizeof(*ports));
	ports->numbers.next = next_id;
	vb_mutex_init(&ports->lock, VB_RANK_SOURCE_PORTS);
	for (unsigned f = 0; f < 2; f++)
		for (unsigned i = 0; i < VB_SOURCE_PORTS; i++) {
			ports->port[f][i].fd = -1;
			vb_counted_init(&ports->port[f][i].counted);
		}
}

void vb_source_ports_fini(struct vb_source_ports *ports)
{
	for (unsigned f = 0; f < 2; f++)
		for (unsigned i = 0; i < VB_SOURCE_PORTS; i++)
			if (ports->port[f][i].fd >= 0)
				vb_descriptor_close(ports->port[f][i].fd);
	vb_mutex_fini(&ports->lock);
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 32;
}

/* By our address, too: the socket is bound to it, and another process may have its port with another address. */
static uint64_t name_peer(const struct vb_path *path, uint32_t slot)
{
	uint64_t half[4], hash;

	memcpy(half, path->source, sizeof(path->source));
	memcpy(half + 2, path->destination, sizeof(path->destination));
	hash = mix(mix(mix(mix(mix(1, half[0]), half[1]), half[2]), half[3]), slot);
	return hash ? hash : 1;
}

/* Ports are tried at random: other processes draw from the same range. */
static bool make_socket(const struct vb_source_ports *ports, struct vb_source_port *made, const struct vb_path *path, unsigned index,
			uint64_t peer)
{
	int fd = -EADDRINUSE;

	for (unsigned i = 0; i < TRIES && fd == -EADDRINUSE; i++) {
		uint32_t random = vb_random_u32() & 0x3fff & ~(VB_SOURCE_PORTS - 1u);

		made->port = (uint16_t)(VB_SOURCE_PORT_LOWEST | random | index);
		made->own = *path;
		made->own.source_port = made->port;
		fd = vb_udp_open_sender_of(&made->own);
	}
	if (fd < 0) {
		vb_log_limited(VB_LOG_WARN, "cannot open a socket to send from: %s", strerror(-fd));
		return false;
	}
	if (!ports->plain)
		vb_counted_begin(&made->counted, &made->own);
	made->peer = peer;
	__atomic_store_n(&made->fd, fd, __ATOMIC_RELEASE);
	return true;
}

/* The port of the socket that was made for this peer; 0: none was. It stays as long as the pool. */
static uint16_t made_for(const struct vb_source_port *pool, uint64_t peer)
{
	for (unsigned i = 0; i < VB_SOURCE_PORTS; i++)
		/* Pairs with the release in make_socket. */
		if (__atomic_load_n(&pool[i].fd, __ATOMIC_ACQUIRE) >= 0 && pool[i].peer == peer)
			return pool[i].port;
	return 0;
}

/* The same, or that of one that is made now; 0: there is none. Caller holds the lock. */
static uint16_t make_for(const struct vb_source_ports *ports, struct vb_source_port *pool, const struct vb_path *path, uint64_t peer)
{
	uint16_t port = made_for(pool, peer);
	unsigned unused = 0;

	if (port != 0)
		return port;
	while (unused < VB_SOURCE_PORTS && pool[unused].fd >= 0)
		unused++;
	return unused < VB_SOURCE_PORTS && make_socket(ports, &pool[unused], path, unused, peer) ? pool[unused].port : 0;
}

static uint16_t choose(const struct vb_source_ports *ports, struct vb_source_port *pool, const struct vb_path *path, uint64_t peer)
{
	unsigned shared = (unsigned)(mix(peer, path->flow_label) % (VB_SOURCE_PORTS - VB_SOURCE_PORTS_NOT_SHARED));
	uint16_t port = make_for(ports, pool, path, peer);

	if (port != 0)
		return port;
	/* Backwards: those that are not shared come last, and are shared if no other could be made. */
	for (unsigned i = 0; i < VB_SOURCE_PORTS; i++) {
		struct vb_source_port *other = &pool[(VB_SOURCE_PORTS - 1 - shared + VB_SOURCE_PORTS - i) % VB_SOURCE_PORTS];

		if (other->fd >= 0)
			return other->port;
	}
	return 0;
}

uint16_t vb_source_ports_choose(struct vb_source_ports *ports, const struct vb_path *path, uint32_t slot)
{
	struct vb_source_port *pool = ports->port[!vb_path_is_ipv4(path)];
	uint64_t peer = name_peer(path, slot);
	uint16_t port = made_for(pool, peer);

	/* It is asked for with each datagram, and found without the lock then. */
	if (port != 0)
		return port;
	vb_mutex_lock(&ports->lock);
	port = choose(ports, pool, path, peer);
	vb_mutex_unlock(&ports->lock);
	return port;
}

struct vb_source_port *vb_source_ports_find(struct vb_source_ports *ports, bool ipv6, uint16_t port)
{
	struct vb_source_port *found = &ports->port[ipv6][port & (VB_SOURCE_PORTS - 1)];

	/* Pairs with the release in make_socket: a thread that sees the socket sees its port. */
	return __atomic_load_n(&found->fd, __ATOMIC_ACQUIRE) >= 0 && found->port == port ? found : NULL;
}

uint16_t vb_source_ports_choose_lane(struct vb_source_ports *ports, const struct vb_path *path, uint32_t slot, uint32_t lanes)
{
	struct vb_source_port *pool = ports->port[!vb_path_is_ipv4(path)];
	uint64_t peer = name_peer(path, slot | lanes << VB_DAEMON_SLOT_BITS);
	uint16_t port = made_for(pool, peer);

	if (port != 0)
		return port;
	vb_mutex_lock(&ports->lock);
	/* They are made in order. */
	if (pool[VB_SOURCE_PORTS_OF_LANES - 1].fd < 0)
		port = make_for(ports, pool, path, peer);
	vb_mutex_unlock(&ports->lock);
	return port != 0 ? port : vb_source_ports_choose(ports, path, slot);
}
