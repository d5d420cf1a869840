/* SPDX-License-Identifier: MIT
 *
 * The simulator's clock: what will happen is in a heap (events.h), and between two events every QP that may have something to
 * send is asked. Hosts and their objects are in sim_objects.c, what carries packets in direct.c or in nic.c and switch.c; both go through
 * engine.c to the queue pairs.
 */
#include "sim/sim.h"

#include <assert.h>

#include "sim/network.h"
#include "sim/port.h"

#define STEP_LIMIT (20ull * 1000 * 1000 * 1000)

static void send_all(struct sim *sim)
{
	while (!vb_list_is_empty(&sim->active)) {
		struct vb_qp *qp = vb_container_of(sim->active.next, struct vb_qp, active);

		vb_list_remove(&qp->active);
		if (sim_direct_send(sim, qp))
			vb_list_append(&sim->active, &qp->active);
		assert(sim->steps++ < STEP_LIMIT);
	}
	while (sim->to_kick) {
		struct sim_host *host = sim->to_kick;

		sim->to_kick = host->next_to_kick;
		host->kick_owed = false;
		sim_port_kick(host->port);
	}
}

/* What is most likely next, while this one is worked on: in a large network it is in no cache. Each step reads what the one
 * before it, an event ago, has fetched. */
static void fetch_ahead(const struct sim *sim)
{
	const struct sim_event *ahead[3];
	unsigned count = sim_events_ahead(&sim->events, ahead, 3);

	if (count > 2)
		__builtin_prefetch(ahead[2]->object);
	if (count > 1 && ahead[1]->happen == sim_port_arrive)
		sim_port_fetch(ahead[1]->object);
	if (count > 0 && ahead[0]->happen == sim_port_arrive)
		sim_port_fetch_route(ahead[0]->object);
}

static void happen(struct sim *sim)
{
	struct sim_event event = sim_events_take(&sim->events);

	assert(event.when >= sim->now);
	fetch_ahead(sim);
	sim->now = event.when;
	event.happen(sim, event.object, event.when);
	assert(sim->steps++ < STEP_LIMIT);
}

void sim_run_to(struct sim *sim, vb_time when)
{
	send_all(sim);
	while (sim_events_next(&sim->events) <= when && sim_events_count(&sim->events) > 0) {
		happen(sim);
		send_all(sim);
	}
	if (when != VB_TIME_NEVER && sim->now < when)
		sim->now = when;
}

void sim_run(struct sim *sim)
{
	sim_run_to(sim, VB_TIME_NEVER);
}

bool sim_wait(struct sim *sim, struct vb_cq *cq, struct ibv_wc *wc, vb_time limit)
{
	vb_time end = sim->now + limit;

	while (!sim_poll(cq, wc)) {
		send_all(sim);
		if (sim_poll(cq, wc))
			return true;
		if (sim_events_count(&sim->events) == 0 || sim_events_next(&sim->events) > end)
			return false;
		happen(sim);
	}
	return true;
}
