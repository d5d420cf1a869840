/* SPDX-License-Identifier: MIT
 *
 * Switches: see switch.h.
 */
#include "sim/switch.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/network.h"
#include "sim/port.h"
#include "sim/sim.h"

#define ECN_MASK 0x03
#define NO_GROUP UINT16_MAX

struct sim_switch *sim_switch_new(struct sim *sim, const struct sim_switch_settings *settings, const char *name)
{
	struct sim_switch *self = calloc(1, sizeof(*self));

	assert(self);
	self->sim = sim;
	self->settings = settings;
	snprintf(self->name, sizeof(self->name), "%s", name);
	return self;
}

void sim_switch_free(struct sim_switch *self)
{
	for (unsigned i = 0; i < self->port_count; i++)
		sim_port_free(self->ports[i]);
	free(self->ports);
	free(self->route);
	free(self->group);
	free(self);
}

/* What may still come after XOFF was sent: three times what the line holds, and what was begun at either end. */
static uint64_t headroom_of(const struct sim_port *port)
{
	return 3 * (uint64_t)((double)port->rate / 8e9 * (double)port->delay) + 2 * (4096 + 128);
}

/* ---- the watchdog ---- */

static void look_after(struct sim_switch *self, struct sim_port *port, unsigned priority, vb_time now)
{
	bool paused = sim_port_is_paused(port, priority);

	if (port->of[priority].discards) {
		if (paused)
			port->of[priority].moved_at = now;
		else if (now - port->of[priority].moved_at >= self->settings->watchdog_restore)
			port->of[priority].discards = false;
	} else if (paused && port->of[priority].queued > 0 && now - port->of[priority].moved_at >= self->settings->watchdog_detect) {
		port->of[priority].discards = true;
		port->of[priority].moved_at = now;
		self->watchdog_fired++;
		self->watchdog_drops += sim_port_flush(port, priority);
	}
}

static void poll(struct sim *sim, void *object, vb_time when)
{
	struct sim_switch *self = object;

	for (unsigned i = 0; i < self->port_count; i++)
		for (unsigned priority = 0; priority < SIM_PRIORITIES; priority++)
			look_after(self, self->ports[i], priority, when);
	sim_events_plan(&sim->events, when + self->settings->watchdog_poll, poll, self);
}

void sim_switch_start(struct sim_switch *self)
{
	const struct sim_switch_settings *settings = self->settings;
	uint64_t kept = 0;

	for (unsigned i = 0; i < self->port_count && settings->pfc; i++)
		kept += headroom_of(self->ports[i]) + settings->reserve;
	self->shared_size = settings->buffer > kept ? settings->buffer - kept : 0;
	if (settings->watchdog_poll != 0)
		sim_events_plan(&self->sim->events, self->sim->now + settings->watchdog_poll, poll, self);
}

/* ---- the buffer ---- */

static uint64_t threshold(const struct sim_switch *self)
{
	uint64_t available = self->shared_size > self->shared ? self->shared_size - self->shared : 0;

	return available >> self->settings->shift;
}

static uint64_t shared_of(const struct sim_switch *self, const struct sim_port *port, unsigned priority)
{
	return port->of[priority].held > self->settings->reserve ? port->of[priority].held - self->settings->reserve : 0;
}

/* Charge a packet to where it came in. False: there is no room. */
static bool admit(struct sim_switch *self, struct sim_port *from, const struct sim_packet *packet)
{
	unsigned priority = packet->priority;
	uint64_t held = from->of[priority].held + packet->size, reserve = self->settings->reserve, above;

	above = held > reserve ? held - reserve : 0;
	if (above > threshold(self)) {
		if (from->of[priority].headroom + packet->size > headroom_of(from))
			return false;
		from->of[priority].headroom += packet->size;
		return true;
	}
	from->of[priority].held = (uint32_t)held;
	self->shared += above < packet->size ? above : packet->size;
	return true;
}

static void release(struct sim_switch *self, struct sim_port *from, const struct sim_packet *packet)
{
	unsigned priority = packet->priority;
	uint64_t size = packet->size, shared = shared_of(self, from, priority);
	uint64_t headroom = from->of[priority].headroom < size ? from->of[priority].headroom : size;

	from->of[priority].headroom -= (uint32_t)headroom;
	size -= headroom;
	from->of[priority].held -= (uint32_t)size;
	self->shared -= shared < size ? shared : size;
}

/* Without PFC: a queue may hold as much as is free. */
static bool has_room(const struct sim_switch *self, const struct sim_port *to, const struct sim_packet *packet)
{
	uint64_t available = self->shared_size > self->shared ? self->shared_size - self->shared : 0;

	return packet->size <= available && to->of[packet->priority].queued + packet->size <= available;
}

/* ---- PFC ---- */

static void renew(struct sim *sim, void *object, vb_time when)
{
	struct sim_port *port = object;
	bool stopped = false;

	for (unsigned i = 0; i < SIM_PRIORITIES; i++) {
		if (!port->of[i].stopped)
			continue;
		stopped = true;
		sim_port_send_pause(port, i, true);
	}
	if (stopped)
		sim_events_plan(&sim->events, when + sim_port_pause_time(port) / 2, renew, port);
	port->renewing = stopped;
}

static void stop_if_full(struct sim_switch *self, struct sim_port *from, unsigned priority)
{
	uint64_t used = shared_of(self, from, priority);

	if (from->of[priority].stopped || (from->of[priority].headroom == 0 && (used == 0 || used < threshold(self))))
		return;
	from->of[priority].stopped = true;
	sim_port_send_pause(from, priority, true);
	if (!from->renewing) {
		from->renewing = true;
		sim_events_plan(&self->sim->events, self->sim->now + sim_port_pause_time(from) / 2, renew, from);
	}
}

static void go_on_if_empty(struct sim_switch *self, struct sim_port *from, unsigned priority)
{
	uint64_t used = shared_of(self, from, priority);

	if (!from->of[priority].stopped || from->of[priority].headroom != 0 ||
	    (used != 0 && used + self->settings->resume > threshold(self)))
		return;
	from->of[priority].stopped = false;
	sim_port_send_pause(from, priority, false);
}

/* ---- ECN ---- */

static void mark(struct sim_switch *self, struct sim_port *port, struct sim_packet *packet)
{
	const struct sim_switch_settings *settings = self->settings;
	uint64_t queue = port->of[packet->priority].queued;
	double chance;

	if (settings->kmax == 0 || queue <= settings->kmin || packet->priority != SIM_DATA || !(packet->path.traffic_class & ECN_MASK))
		return;
	chance = settings->pmax * (double)(queue - settings->kmin) / (double)(settings->kmax - settings->kmin);
	if (queue < settings->kmax && (double)sim_random(self->sim) >= chance * 4294967296.0)
		return;
	packet->path.traffic_class |= ECN_MASK;
	port->marks++;
}

/* ---- packets ---- */

static uint32_t hash(const struct sim_switch *self, const uint32_t flow[3])
{
	uint32_t value = 0x9e3779b9u * (self->number + 1);

	for (unsigned i = 0; i < 3; i++) {
		value = (value ^ flow[i]) * 0x85ebca6bu;
		value ^= value >> 15;
	}
	return (value * 0xc2b2ae35u) ^ value >> 16;
}

static void expect(const struct sim_port *port, const struct sim_packet *packet)
{
	if (packet->to_index != SIM_NOWHERE)
		__builtin_prefetch(&port->at->route[packet->to_index]);
}

struct sim_port *sim_switch_route(struct sim_switch *self, const struct sim_packet *packet)
{
	const uint16_t *group;

	if (packet->to_index == SIM_NOWHERE || self->route[packet->to_index] == NO_GROUP)
		return NULL;
	group = self->group[self->route[packet->to_index]];
	return self->ports[group[1 + (group[0] == 1 ? 0 : hash(self, packet->flow) % group[0])]];
}

static void drop(struct sim_switch *self, struct sim_port *to, struct sim_packet *packet)
{
	self->drops++;
	self->sim->packets_lost++;
	if (to)
		to->drops++;
	sim_packet_free(&self->sim->pool, packet);
}

static bool is_unlucky(struct sim_switch *self, const struct sim_packet *packet)
{
	return self->settings->loses_every != 0 && packet->length > 256 && ++self->data_seen % self->settings->loses_every == 0;
}

static void receive(struct sim_port *from, struct sim_packet *packet)
{
	struct sim_switch *self = from->at;
	struct sim_port *to = sim_switch_route(self, packet);
	bool pfc = self->settings->pfc;

	if (!to || packet->hops == 0 || is_unlucky(self, packet)) {
		drop(self, to, packet);
		return;
	}
	if (to->of[packet->priority].discards) {
		self->watchdog_drops++;
		drop(self, to, packet);
		return;
	}
	packet->hops--;
	packet->ingress = from;
	if (pfc ? !admit(self, from, packet) : !has_room(self, to, packet)) {
		drop(self, to, packet);
		return;
	}
	if (!pfc)
		self->shared += packet->size;
	sim_port_add(to, packet);
	if (pfc)
		stop_if_full(self, from, packet->priority);
	sim_port_kick(to);
}

static void sent(struct sim_port *port, struct sim_packet *packet)
{
	struct sim_switch *self = port->at;
	struct sim_port *from = packet->ingress;

	mark(self, port, packet);
	if (!self->settings->pfc) {
		self->shared -= packet->size;
		return;
	}
	release(self, from, packet);
	go_on_if_empty(self, from, packet->priority);
}

static const struct sim_port_owner owner = {.receive = receive, .expect = expect, .sent = sent};

void sim_switch_attach(struct sim_switch *self, struct sim_port *port)
{
	if (self->port_count == self->port_room) {
		self->port_room = self->port_room ? 2 * self->port_room : 8;
		self->ports = realloc(self->ports, self->port_room * sizeof(struct sim_port *));
		assert(self->ports);
	}
	port->at = self;
	port->owner = &owner;
	port->number = self->port_count;
	self->ports[self->port_count++] = port;
}
