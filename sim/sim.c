/* SPDX-License-Identifier: MIT
 *
 * The simulator's clock: what will happen is in a heap (events.h), and between two events every QP that may have something to
 * send is asked. Hosts and their objects are in sim_objects.c, what carries packets in direct.c or in nic.c and switch.c.
 */
#include "sim/sim.h"

#include <assert.h>
#include <string.h>

#include "sim/network.h"
#include "sim/nic.h"
#include "sim/port.h"
#include "wire/burst.h"
#include "wire/icrc.h"

#define STEP_LIMIT (20ull * 1000 * 1000 * 1000)

uint32_t sim_random(struct sim *sim)
{
	uint64_t z = sim->random_state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return (uint32_t)((z ^ z >> 31) >> 32);
}

uint32_t sim_below(struct sim *sim, uint32_t limit)
{
	return (uint32_t)((uint64_t)sim_random(sim) * limit >> 32);
}

/* ---- QPs ---- */

struct vb_qp *sim_qp_at(struct sim *sim, uint32_t qpn)
{
	return qpn < sim->qp_count ? sim->qps[qpn] : NULL;
}

static void fire(struct sim *sim, void *object, vb_time when)
{
	struct vb_qp *qp = sim_qp_at(sim, (uint32_t)(uintptr_t)object);

	/* The QP may be gone, and its number be another's; or it was armed for an earlier time since. */
	if (!qp || qp->timer_armed != when)
		return;
	qp->timer_armed = VB_TIME_NEVER;
	vb_lock_take(&qp->lock);
	if (vb_roce_next_deadline(qp) <= sim->now) {
		vb_roce_expire(qp, sim->now);
		sim_touch(qp);
	}
	sim_arm(sim, qp);
	vb_lock_release(&qp->lock);
}

void sim_arm(struct sim *sim, struct vb_qp *qp)
{
	vb_time when = vb_roce_next_deadline(qp);

	if (when == VB_TIME_NEVER || when >= qp->timer_armed)
		return;
	if (when < sim->now)
		when = sim->now;
	qp->timer_armed = when;
	sim_events_plan(&sim->events, when, fire, (void *)(uintptr_t)qp->qpn);
}

void sim_touch(struct vb_qp *qp)
{
	struct sim_host *host = vb_container_of(qp->host, struct sim_host, queue_host);

	if (host->port)
		sim_nic_touch(host, qp);
	else if (vb_list_is_empty(&qp->active))
		vb_list_append(&host->sim->active, &qp->active);
}

bool sim_send(struct sim *sim, struct vb_qp *qp)
{
	bool more;

	vb_lock_take(&qp->lock);
	more = vb_roce_send(qp, sim->now, sim->burst);
	sim_arm(sim, qp);
	vb_lock_release(&qp->lock);
	return more;
}

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

struct sim_packet *sim_packet_of(struct sim *sim, const struct vb_path *path, const uint8_t *headers, size_t header_length,
				 size_t payload)
{
	struct sim_packet *packet = sim_packet_new_headers(&sim->pool);

	memcpy(packet->bytes, headers, header_length);
	packet->stored = (uint32_t)header_length;
	packet->length = (uint32_t)(header_length + (payload + 3) / 4 * 4 + VB_ICRC_LENGTH);
	packet->path = *path;
	return packet;
}

bool sim_deliver(struct sim *sim, struct sim_host *host, const struct sim_packet *packet)
{
	static const uint8_t zeros[4096];
	struct vb_roce_packet decoded;
	struct vb_icrc_prefix prefix = {0};
	struct vb_qp *qp;

	if (vb_roce_packet_decode_again(&decoded, packet->bytes, packet->length, &packet->path,
					packet->headers_only ? NULL : &prefix, packet->ip_id) != VB_PACKET_OK)
		return false;
	/* The reorder buffer keeps payload, whatever it is. */
	if (packet->headers_only)
		decoded.payload = zeros;
	VB_COUNT(&host->counters, rcvd_pkts);
	qp = sim_qp_at(sim, decoded.destination_qpn);
	if (!qp || qp->host != &host->queue_host)
		return true;
	vb_lock_take(&qp->lock);
	vb_roce_receive(qp, sim->now, &decoded);
	vb_lock_release(&qp->lock);
	sim_touch(qp);
	if (sim->progressed)
		sim->progressed(sim, qp);
	return true;
}

/* ---- time ---- */

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

void sim_inject(struct vb_qp *qp, struct vb_roce_packet *packet)
{
	struct sim_host *host = vb_container_of(qp->host, struct sim_host, queue_host);

	packet->destination_qpn = qp->qpn;
	memcpy(packet->from.source, qp->path.destination, 16);
	memcpy(packet->from.destination, qp->path.source, 16);
	vb_lock_take(&qp->lock);
	vb_roce_receive(qp, host->sim->now, packet);
	vb_lock_release(&qp->lock);
	sim_touch(qp);
}
