/* SPDX-License-Identifier: MIT
 *
 * Engines alone: two to five hosts, connections between any of them, work of every kind (model.h), and everything that can go wrong at any
 * step: loss, duplication, reordering and damage, blackouts, hosts that stand still, an end of a connection that vanishes
 * without a word and comes back as another queue pair. Work that is posted completes, whatever happens.
 */
#include <string.h>

#include "queue/qp.h"
#include "sim/model.h"
#include "sim/sim.h"
#include "sim/world.h"

enum { MOST_HOSTS = 5, MOST_FLOWS = 6, STEPS = 1500 };

struct link {
	struct sim_host *from, *to;
	struct flow flow;
};

struct world {
	struct sim *sim;
	struct sim_host *host[MOST_HOSTS];
	unsigned hosts, links;
	struct link link[MOST_FLOWS];
	vb_time dark_until;
};

/* ---- making ---- */

static void connect_link(struct sim *sim, struct link *link)
{
	static const enum ibv_mtu mtus[] = {IBV_MTU_256, IBV_MTU_512, IBV_MTU_1024, IBV_MTU_4096};
	struct flow *flow = &link->flow;
	struct sim_connection connection = sim_usual;

	connection.mtu = mtus[sim_below(sim, 4)];
	connection.psn_a = sim_below(sim, 3) == 0 ? 0xfffff0 : sim_random(sim) & 0xffffff;
	connection.psn_b = sim_random(sim) & 0xffffff;
	connection.rd_atomic_a = connection.rd_atomic_b = (uint8_t)(1 + sim_below(sim, 8));
	connection.timeout = (uint8_t)(12 + sim_below(sim, 4));
	connection.retry_cnt = (uint8_t)(3 + sim_below(sim, 5));
	flow->a = sim_qp(link->from, IBV_QPT_RC, flow->a_cq, flow->a_cq, NULL);
	flow->b = sim_qp(link->to, IBV_QPT_RC, flow->b_cq, flow->b_cq, NULL);
	sim_connect(flow->a, flow->b, &connection);
}

static void open_link(struct world *world, struct link *link)
{
	unsigned from = sim_below(world->sim, world->hosts), to = sim_below(world->sim, world->hosts - 1);

	link->from = world->host[from];
	link->to = world->host[to >= from ? to + 1 : to];
	flow_open(&link->flow, link->from, link->to, FLOW_OPERATIONS);
	link->flow.a_cq = sim_cq(link->from, FLOW_COMPLETIONS);
	link->flow.b_cq = sim_cq(link->to, FLOW_COMPLETIONS);
	connect_link(world->sim, link);
}

/* ---- what goes wrong ---- */

/* A program that saw an error, or comes back: both ends anew. */
static void come_back(struct sim *sim, struct link *link)
{
	struct flow *flow = &link->flow;

	flow_poll(flow);
	if (flow_is_ready(flow))
		return;
	if (flow->a && flow->a->state == IBV_QPS_RTS && flow->completed < flow->posted)
		return; /* its peer is gone, which it has yet to find out */
	flow_vanish(flow, true);
	flow_vanish(flow, false);
	connect_link(sim, link);
}

static bool is_light(void *context, const struct vb_roce_packet *packet)
{
	const struct world *world = context;

	(void)packet;
	return world->sim->now >= world->dark_until;
}

static void change_weather(struct world *world)
{
	static const uint32_t bad[] = {0, 0, 0, 1000, 10000, 50000, 150000};
	struct sim_network *network = &world->sim->network;

	network->loss = bad[sim_below(world->sim, 7)];
	network->duplication = bad[sim_below(world->sim, 7)];
	network->reorder = bad[sim_below(world->sim, 7)];
	network->corruption = bad[sim_below(world->sim, 7)];
}

static void disturb(struct world *world)
{
	struct sim *sim = world->sim;
	struct link *link = &world->link[sim_below(sim, world->links)];

	switch (sim_below(sim, 200)) {
	case 0:
		flow_vanish(&link->flow, sim_below(sim, 2) == 0);
		break;
	case 1:
		world->dark_until = sim->now + VB_MICROSECONDS(1 + sim_below(sim, 300000));
		break;
	case 2:
		link->to->away_until = sim->now + VB_MICROSECONDS(1 + sim_below(sim, 200000));
		break;
	case 3:
		change_weather(world);
		break;
	case 4:
		sim_run_to(sim, sim->now + VB_MILLISECONDS(sim_below(sim, 400)));
		break;
	case 5:
	case 6:
	case 7:
		come_back(sim, link);
		break;
	default:
		break;
	}
}

/* ---- a world ---- */

static bool is_done(struct world *world)
{
	bool done = true;

	for (unsigned i = 0; i < world->links; i++) {
		struct flow *flow = &world->link[i].flow;

		flow_poll(flow);
		done &= flow->completed == flow->posted;
	}
	return done;
}

uint64_t world_engines_play(void)
{
	static struct world world;
	struct sim *sim = sim_create(world_seed);
	uint64_t packets;
	vb_time limit;

	memset(&world, 0, sizeof(world));
	world.sim = sim;
	world.hosts = 2 + sim_below(sim, MOST_HOSTS - 1);
	for (unsigned i = 0; i < world.hosts; i++)
		world.host[i] = sim_host_add(sim, world_seed % 2);
	sim->network.filter = is_light;
	sim->network.filter_context = &world;
	change_weather(&world);
	world.links = 1 + sim_below(sim, MOST_FLOWS);
	for (unsigned i = 0; i < world.links; i++)
		open_link(&world, &world.link[i]);
	for (unsigned step = 0; step < STEPS * world_length; step++) {
		struct flow *flow = &world.link[sim_below(sim, world.links)].flow;

		if (world_length > 1)
			flow_begin_again(flow);
		flow_post(flow);
		disturb(&world);
		if (sim_below(sim, 3) == 0)
			sim_run_to(sim, sim->now + VB_MICROSECONDS(sim_below(sim, 200)));
		for (unsigned i = 0; i < world.links; i++)
			flow_poll(&world.link[i].flow);
	}
	/* The sky clears: what is posted ends, this way or that. */
	world.dark_until = 0;
	sim->network.loss = sim->network.duplication = sim->network.reorder = sim->network.corruption = 0;
	limit = sim->now + VB_SECONDS(60);
	while (!is_done(&world)) {
		CHECK(sim->now < limit);
		sim_run_to(sim, sim->now + VB_MILLISECONDS(5));
	}
	for (unsigned i = 0; i < world.links; i++)
		flow_close(&world.link[i].flow);
	packets = sim->packets_sent;
	sim_destroy(sim);
	return packets;
}
