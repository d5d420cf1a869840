/* SPDX-License-Identifier: MIT
 *
 * Topologies and routes: see fabric.h.
 */
#include "sim/fabric.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/nic.h"
#include "sim/port.h"
#include "sim/sim.h"

enum { FAR = 255, MOST_EQUAL = 63 };
#define NO_GROUP UINT16_MAX

struct sim_fabric *sim_fabric_new(struct sim *sim, const struct sim_switch_settings *settings)
{
	struct sim_fabric *fabric = calloc(1, sizeof(*fabric));

	assert(fabric);
	fabric->sim = sim;
	fabric->settings = *settings;
	return fabric;
}

void sim_fabric_free(struct sim_fabric *fabric)
{
	for (unsigned i = 0; i < fabric->switch_count; i++)
		sim_switch_free(fabric->switches[i]);
	for (unsigned i = 0; i < fabric->sim->host_count; i++) {
		struct sim_host *host = fabric->sim->hosts[i];

		/* QPs that stand in its list must leave it before. */
		while (host->port && !vb_list_is_empty(&host->port->ready))
			vb_list_remove(host->port->ready.next);
		if (host->port)
			sim_port_free(host->port);
		host->port = NULL;
	}
	free(fabric->switches);
	free(fabric);
}

struct sim_switch *sim_fabric_switch(struct sim_fabric *fabric, const char *name, unsigned tier)
{
	struct sim_switch *made = sim_switch_new(fabric->sim, &fabric->settings, name);

	if (fabric->switch_count == fabric->switch_room) {
		fabric->switch_room = fabric->switch_room ? 2 * fabric->switch_room : 8;
		fabric->switches = realloc(fabric->switches, fabric->switch_room * sizeof(struct sim_switch *));
		assert(fabric->switches);
	}
	made->number = fabric->switch_count;
	made->tier = tier;
	fabric->switches[fabric->switch_count++] = made;
	return made;
}

struct sim_switch *sim_fabric_find(const struct sim_fabric *fabric, const char *name)
{
	for (unsigned i = 0; i < fabric->switch_count; i++)
		if (strcmp(fabric->switches[i]->name, name) == 0)
			return fabric->switches[i];
	return NULL;
}

void sim_fabric_link_host(struct sim_fabric *fabric, struct sim_host *host, struct sim_switch *at, struct sim_line line)
{
	struct sim_port *a = sim_port_new(fabric->sim, line.rate, line.delay), *b = sim_port_new(fabric->sim, line.rate, line.delay);

	sim_nic_attach(host, a);
	sim_switch_attach(at, b);
	sim_port_connect(a, b);
}

void sim_fabric_link(struct sim_fabric *fabric, struct sim_switch *a, struct sim_switch *b, struct sim_line line)
{
	struct sim_port *there = sim_port_new(fabric->sim, line.rate, line.delay), *back = sim_port_new(fabric->sim, line.rate, line.delay);

	sim_switch_attach(a, there);
	sim_switch_attach(b, back);
	sim_port_connect(there, back);
}

struct sim_port *sim_fabric_port_to_host(const struct sim_switch *at, const struct sim_host *host)
{
	for (unsigned i = 0; i < at->port_count; i++)
		if (at->ports[i]->peer->host == host)
			return at->ports[i];
	return NULL;
}

struct sim_port *sim_fabric_port_to(const struct sim_switch *at, const struct sim_switch *neighbour)
{
	for (unsigned i = 0; i < at->port_count; i++)
		if (at->ports[i]->peer->at == neighbour)
			return at->ports[i];
	return NULL;
}

/* ---- routes ---- */

/* How far each switch is from the one that the host is at. */
static void measure(const struct sim_fabric *fabric, const struct sim_switch *from, uint8_t *distance, unsigned *queue)
{
	unsigned head = 0, tail = 0;

	memset(distance, FAR, fabric->switch_count);
	distance[from->number] = 0;
	queue[tail++] = from->number;
	while (head < tail) {
		const struct sim_switch *at = fabric->switches[queue[head++]];

		for (unsigned i = 0; i < at->port_count; i++) {
			const struct sim_switch *next = at->ports[i]->peer->at;

			if (!next || distance[next->number] != FAR)
				continue;
			distance[next->number] = (uint8_t)(distance[at->number] + 1);
			queue[tail++] = next->number;
		}
	}
}

static uint16_t find_group(struct sim_switch *self, const uint16_t group[64])
{
	for (unsigned i = 0; i < self->group_count; i++)
		if (memcmp(self->group[i], group, (1u + group[0]) * sizeof(group[0])) == 0)
			return (uint16_t)i;
	if (self->group_count == self->group_room) {
		self->group_room = self->group_room ? 2 * self->group_room : 8;
		self->group = realloc(self->group, self->group_room * sizeof(*self->group));
		assert(self->group);
	}
	memcpy(self->group[self->group_count], group, sizeof(*self->group));
	return (uint16_t)self->group_count++;
}

static void route(struct sim_switch *self, const struct sim_host *host, const uint8_t *distance)
{
	uint16_t group[64] = {0};

	self->route[host->index] = NO_GROUP;
	for (unsigned i = 0; i < self->port_count && group[0] < MOST_EQUAL; i++) {
		const struct sim_port *peer = self->ports[i]->peer;

		if (peer->host == host ||
		    (distance[self->number] != 0 && peer->at && distance[peer->at->number] + 1 == distance[self->number]))
			group[++group[0]] = (uint16_t)i;
	}
	if (group[0] > 0)
		self->route[host->index] = find_group(self, group);
}

void sim_fabric_start(struct sim_fabric *fabric)
{
	struct sim *sim = fabric->sim;
	uint8_t *distance = malloc(fabric->switch_count + 1);
	unsigned *queue = calloc(fabric->switch_count + 1, sizeof(*queue));
	const struct sim_switch *measured = NULL;

	assert(distance && queue);
	for (unsigned i = 0; i < fabric->switch_count; i++) {
		fabric->switches[i]->route = calloc(sim->host_count + 1, sizeof(uint16_t));
		assert(fabric->switches[i]->route);
	}
	for (unsigned h = 0; h < sim->host_count; h++) {
		const struct sim_host *host = sim->hosts[h];

		/* Hosts of one switch follow each other. */
		if (host->port && host->port->peer->at != measured) {
			measured = host->port->peer->at;
			measure(fabric, measured, distance, queue);
		}
		for (unsigned i = 0; i < fabric->switch_count; i++)
			route(fabric->switches[i], host, distance);
	}
	for (unsigned i = 0; i < fabric->switch_count; i++)
		sim_switch_start(fabric->switches[i]);
	free(distance);
	free(queue);
}

bool sim_fabric_set_route(struct sim_fabric *fabric, struct sim_switch *at, const struct sim_host *to,
			  const struct sim_switch *by)
{
	const struct sim_port *port = sim_fabric_port_to(at, by);
	uint16_t group[64] = {1};

	(void)fabric;
	if (!port)
		return false;
	group[1] = (uint16_t)port->number;
	at->route[to->index] = find_group(at, group);
	return true;
}

/* ---- whole networks ---- */

static struct sim_switch *named(struct sim_fabric *fabric, const char *kind, unsigned number, unsigned tier)
{
	char name[16];

	snprintf(name, sizeof(name), "%s%u", kind, number);
	return sim_fabric_switch(fabric, name, tier);
}

void sim_fabric_fat_tree(struct sim_fabric *fabric, unsigned k, unsigned hosts, struct sim_line line)
{
	unsigned half = k / 2, edges = k * half, most = edges * half, wanted = hosts ? hosts : most, made = 0;
	unsigned first = fabric->switch_count;

	assert(k % 2 == 0 && wanted <= most);
	for (unsigned i = 0; i < edges; i++)
		named(fabric, "edge", i, 0);
	for (unsigned i = 0; i < edges; i++)
		named(fabric, "agg", i, 1);
	for (unsigned i = 0; i < half * half; i++)
		named(fabric, "core", i, 2);
	for (unsigned i = 0; i < edges; i++) {
		/* As evenly as it goes. */
		unsigned here = (wanted - made + edges - i - 1) / (edges - i);

		for (unsigned h = 0; h < here; h++, made++)
			sim_fabric_link_host(fabric, sim_host_add(fabric->sim, false), fabric->switches[first + i], line);
		for (unsigned a = 0; a < half; a++)
			sim_fabric_link(fabric, fabric->switches[first + i], fabric->switches[first + edges + i / half * half + a], line);
	}
	for (unsigned i = 0; i < edges; i++)
		for (unsigned c = 0; c < half; c++)
			sim_fabric_link(fabric, fabric->switches[first + edges + i],
					fabric->switches[first + 2 * edges + i % half * half + c], line);
}

void sim_fabric_leaf_spine(struct sim_fabric *fabric, unsigned leaves, unsigned spines, unsigned hosts_each, struct sim_line host_line,
			   struct sim_line line)
{
	unsigned first = fabric->switch_count;

	for (unsigned i = 0; i < leaves; i++)
		named(fabric, "leaf", i, 0);
	for (unsigned i = 0; i < spines; i++)
		named(fabric, "spine", i, 1);
	for (unsigned i = 0; i < leaves; i++) {
		for (unsigned h = 0; h < hosts_each; h++)
			sim_fabric_link_host(fabric, sim_host_add(fabric->sim, false), fabric->switches[first + i], host_line);
		for (unsigned s = 0; s < spines; s++)
			sim_fabric_link(fabric, fabric->switches[first + i], fabric->switches[first + leaves + s], line);
	}
}
