/* SPDX-License-Identifier: MIT
 *
 * Adapters: see nic.h.
 */
#include "sim/nic.h"

#include <string.h>

#include "sim/network.h"
#include "sim/port.h"
#include "sim/sim.h"
#include "wire/burst.h"
#include "wire/roce_opcode.h"

enum { HOPS = 64, TRIES = 64 };

struct nic_sink {
	struct vb_burst_sink sink;
	struct sim_port *port;
	unsigned taken;
};

static void address(struct sim *sim, struct sim_packet *packet)
{
	const struct sim_host *to = sim_host_at(sim, packet->path.destination);

	packet->to_index = to != NULL ? to->index : SIM_NOWHERE;
	memcpy(&packet->flow[0], packet->path.source + 12, 4);
	memcpy(&packet->flow[1], packet->path.destination + 12, 4);
	packet->flow[2] = packet->path.source_port;
}

static void take(struct vb_burst_sink *sink, const struct vb_path *path, const uint8_t *headers, size_t header_length,
		 size_t payload)
{
	struct nic_sink *own = vb_container_of(sink, struct nic_sink, sink);
	struct sim *sim = own->port->sim;
	struct sim_packet *packet = sim_packet_of(sim, path, headers, header_length, payload);

	address(sim, packet);
	packet->size = packet->length + SIM_AROUND;
	packet->hops = HOPS;
	packet->priority = vb_roce_opcode(headers[0])->service == VB_SERVICE_CNP ? SIM_CNP : SIM_DATA;
	sim->packets_sent++;
	own->taken++;
	sim_port_add(own->port, packet);
}

/* One packet of the QPs into the queue, if it is empty. */
static void refill(struct sim_port *port)
{
	struct nic_sink own = {.sink = {.take = take}, .port = port};
	struct sim *sim = port->sim;

	for (unsigned tries = 0; tries < TRIES && own.taken == 0 && port->waiting == 0; tries++) {
		struct vb_qp *qp;

		if (vb_list_is_empty(&port->ready))
			return;
		qp = vb_container_of(port->ready.next, struct vb_qp, active);
		vb_list_remove(&qp->active);
		own.sink.room = 1;
		vb_burst_reset_to(sim->burst, &own.sink);
		if (sim_send(sim, qp))
			vb_list_append(&port->ready, &qp->active);
	}
}

static void receive(struct sim_port *port, struct sim_packet *packet)
{
	struct sim *sim = port->sim;

	if (!sim_deliver(sim, port->host, packet))
		sim->packets_refused++;
	sim_packet_free(&sim->pool, packet);
}

static void expect(const struct sim_port *port, const struct sim_packet *packet)
{
	(void)port;
	__builtin_prefetch((const char *)packet + SIM_CACHE_LINE);
}

static const struct sim_port_owner owner = {.receive = receive, .expect = expect, .refill = refill};

void sim_nic_attach(struct sim_host *host, struct sim_port *port)
{
	host->port = port;
	port->host = host;
	port->owner = &owner;
}

static void storm(struct sim *sim, void *object, vb_time when)
{
	struct sim_host *host = object;

	sim_port_send_pause(host->port, SIM_DATA, true);
	sim_events_plan(&sim->events, when + sim_port_pause_time(host->port) / 2, storm, host);
}

void sim_nic_begin_storm(struct sim_host *host)
{
	storm(host->sim, host, host->sim->now);
}
