/* SPDX-License-Identifier: MIT
 *
 * See counted.h.
 */
#include "links/udp/counted.h"

#include "io/udp.h"
#include "links/udp/source_ports.h"
#include "wire/burst.h"

enum {
	/* Each wait counts so much, each send without one takes away 1. */
	WAITED = 32,
	CROWDED = 2048,
};

void vb_counted_init(struct vb_counted *counted)
{
	*counted = (struct vb_counted){0};
	vb_lock_init(&counted->lock, VB_RANK_COUNTED);
}

/* What needs an interface, or an address that the socket does not have, needs a route for each packet anyway. To ourselves most goes
 * through memory, and no socket should send anything then, not even in order to learn. */
static bool is_worth_while(const struct vb_path *own)
{
	static const uint8_t none[16];

	return own->interface_index == 0 && !vb_gid_is_multicast(own->destination) && memcmp(own->source, none, sizeof(none)) != 0 &&
	       memcmp(own->source, own->destination, sizeof(own->source)) != 0;
}

void vb_counted_connect(struct vb_counted *counted, int fd, const struct vb_path *own)
{
	uint16_t next;

	if (!is_worth_while(own) || vb_udp_connect(fd, own, &next) != 0)
		return;
	counted->next = next;
	counted->connected = true;
}

bool vb_counted_next(const struct vb_counted *counted, uint16_t *id)
{
	*id = __atomic_load_n(&counted->next, __ATOMIC_RELAXED);
	return __atomic_load_n(&counted->connected, __ATOMIC_RELAXED);
}

static uint32_t send_plain(struct vb_source_port *port, struct vb_burst *burst, uint32_t run, uint32_t count)
{
	for (uint32_t i = run; i < run + count; i++)
		vb_burst_renumber(burst, i, 0);
	return vb_udp_send_runs(port->fd, &port->own, burst, run, count);
}

/* Caller holds the lock. Those that find it disconnected send without. */
static void give_up(struct vb_source_port *port)
{
	vb_udp_disconnect(port->fd);
	__atomic_store_n(&port->counted.connected, false, __ATOMIC_RELEASE);
}

static void take_lock(struct vb_counted *counted) VB_TAKES(counted->lock)
{
	if (vb_lock_try(&counted->lock)) {
		if (counted->crowd > 0)
			counted->crowd--;
		return;
	}
	vb_lock_take(&counted->lock);
	counted->crowd += WAITED;
}

/* Returns how many runs have left. */
static uint32_t send_counted(struct vb_source_port *port, struct vb_burst *burst, uint32_t run, uint32_t count)
{
	struct vb_counted *counted = &port->counted;
	uint32_t sent = 0;

	take_lock(counted);
	if (counted->connected) {
		for (uint32_t i = 0; i < count; i++)
			vb_burst_renumber(burst, run + i, (uint16_t)(counted->next + i));
		sent = vb_udp_send_connected(port->fd, &port->own, burst, run, count);
		__atomic_store_n(&counted->next, (uint16_t)(counted->next + sent), __ATOMIC_RELAXED);
		if (sent < count || counted->crowd > CROWDED)
			give_up(port);
	}
	vb_lock_release(&counted->lock);
	return sent;
}

uint32_t vb_counted_send(struct vb_source_port *port, struct vb_burst *burst, uint32_t run, uint32_t count)
{
	uint32_t sent = 0;

	/* Pairs with the release in give_up: what is sent then has identification 0. */
	if (__atomic_load_n(&port->counted.connected, __ATOMIC_ACQUIRE))
		sent = vb_path_is_ipv4(&port->own) ? send_counted(port, burst, run, count) :
						     vb_udp_send_connected(port->fd, &port->own, burst, run, count);
	return sent < count ? send_plain(port, burst, run + sent, count - sent) : 0;
}
