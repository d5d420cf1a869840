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

/* What needs an interface, or an address that the socket does not have, needs a route for each packet anyway. */
static bool is_worth_while(const struct vb_path *own)
{
	static const uint8_t none[16];

	return own->interface_index == 0 && !vb_gid_is_multicast(own->destination) && memcmp(own->source, none, sizeof(none)) != 0;
}

void vb_counted_begin(struct vb_counted *counted, const struct vb_path *own)
{
	counted->state = is_worth_while(own) ? VB_COUNTED_UNUSED : VB_COUNTED_PLAIN;
}

bool vb_counted_next(const struct vb_counted *counted, uint16_t *id)
{
	*id = __atomic_load_n(&counted->next, __ATOMIC_RELAXED);
	return __atomic_load_n(&counted->state, __ATOMIC_RELAXED) == VB_COUNTED_CONNECTED &&
	       !__atomic_load_n(&counted->passed_by, __ATOMIC_RELAXED);
}

void vb_counted_pass_by(struct vb_counted *counted)
{
	__atomic_store_n(&counted->passed_by, true, __ATOMIC_RELAXED);
}

static uint32_t send_plain(struct vb_source_port *port, struct vb_burst *burst, uint32_t run, uint32_t count)
{
	for (uint32_t i = run; i < run + count; i++)
		vb_burst_renumber(burst, i, 0);
	return vb_udp_send_runs(port->fd, &port->own, burst, run, count);
}

/* Caller holds the lock. */
static void become(struct vb_counted *counted, enum vb_counted_state state)
{
	vb_lock_assert_held(&counted->lock);
	__atomic_store_n(&counted->state, state, __ATOMIC_RELEASE);
}

static void give_up(struct vb_source_port *port)
{
	vb_udp_disconnect(port->fd);
	become(&port->counted, VB_COUNTED_PLAIN);
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

/* The first that sends connects it; others wait for that. */
static enum vb_counted_state connect_first(struct vb_source_port *port)
{
	struct vb_counted *counted = &port->counted;
	enum vb_counted_state state;
	uint16_t next;

	vb_lock_take(&counted->lock);
	if (counted->state == VB_COUNTED_UNUSED) {
		bool connected = vb_udp_connect(port->fd, &port->own, &next) == 0;

		__atomic_store_n(&counted->next, next, __ATOMIC_RELAXED);
		become(counted, connected ? VB_COUNTED_CONNECTED : VB_COUNTED_PLAIN);
	}
	state = counted->state;
	vb_lock_release(&counted->lock);
	return state;
}

/* Returns how many runs have left. */
static uint32_t send_counted(struct vb_source_port *port, struct vb_burst *burst, uint32_t run, uint32_t count)
{
	struct vb_counted *counted = &port->counted;
	uint32_t sent = 0;

	take_lock(counted);
	if (counted->state == VB_COUNTED_CONNECTED) {
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
	/* Pairs with the release in become: where it was given up, what is sent has identification 0. */
	enum vb_counted_state state = __atomic_load_n(&port->counted.state, __ATOMIC_ACQUIRE);
	uint32_t sent = 0;

	if (__atomic_load_n(&port->counted.passed_by, __ATOMIC_RELAXED))
		__atomic_store_n(&port->counted.passed_by, false, __ATOMIC_RELAXED);
	if (state == VB_COUNTED_UNUSED)
		state = connect_first(port);
	if (state == VB_COUNTED_CONNECTED)
		sent = vb_path_is_ipv4(&port->own) ? send_counted(port, burst, run, count) :
						     vb_udp_send_connected(port->fd, &port->own, burst, run, count);
	return sent < count ? send_plain(port, burst, run + sent, count - sent) : 0;
}
