/* SPDX-License-Identifier: MIT
 *
 * Between the queue pairs and what carries their packets: who is where, what the engine sends and receives, its deadlines, and
 * chance.
 */
#include <string.h>

#include "sim/network.h"
#include "sim/port.h"
#include "sim/sim.h"
#include "wire/icrc.h"

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

struct sim_host *sim_host_at(struct sim *sim, const uint8_t address[16])
{
	uint32_t index = ((uint32_t)address[13] << 16 | (uint32_t)address[14] << 8 | address[15]) - 1;

	if (index >= sim->host_count || memcmp(sim->hosts[index]->address, address, 16) != 0)
		return NULL;
	return sim->hosts[index];
}

struct vb_qp *sim_qp_at(struct sim *sim, uint32_t qpn)
{
	return qpn < sim->qp_count ? sim->qps[qpn] : NULL;
}

struct vb_qp *sim_qp_of_packet(struct sim *sim, uint32_t destination_qpn)
{
	return sim_qp_at(sim, sim->own_bits ? destination_qpn & sim->own_bits : destination_qpn);
}

static void fire(struct sim *sim, void *object, vb_time when)
{
	struct vb_qp *qp = sim_qp_at(sim, (uint32_t)(uintptr_t)object);
	vb_time away_until;

	/* The QP may be gone, and its number be another's; or it was armed for an earlier time since. */
	if (!qp || qp->timer_armed != when)
		return;
	away_until = vb_container_of(qp->host, struct sim_host, queue_host)->away_until;
	if (sim->now < away_until) {
		qp->timer_armed = away_until;
		sim_events_plan(&sim->events, away_until, fire, object);
		return;
	}
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

/* Its port asks it when the line can take a packet (nic.c). */
static void touch_port(struct sim_host *host, struct vb_qp *qp)
{
	if (vb_list_is_empty(&qp->active))
		vb_list_append(&host->port->ready, &qp->active);
	if (!host->kick_owed) {
		host->kick_owed = true;
		host->next_to_kick = host->sim->to_kick;
		host->sim->to_kick = host;
	}
}

void sim_touch(struct vb_qp *qp)
{
	struct sim_host *host = vb_container_of(qp->host, struct sim_host, queue_host);

	if (host->port)
		touch_port(host, qp);
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

void sim_received(struct sim_host *host, struct vb_qp *qp)
{
	bool awaits = false;

	vb_lock_take(&qp->lock);
	if (host->awaits_answers)
		awaits = vb_roce_can_wait(qp) == VB_CAN_WAIT_FOR_A_PASS && vb_roce_await_answer(qp, host->sim->now);
	if (awaits)
		sim_arm(host->sim, qp);
	vb_lock_release(&qp->lock);
	/* There is nothing else to send, whatever came before in that bundle. */
	if (awaits)
		vb_list_remove(&qp->active);
	else
		sim_touch(qp);
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
	if (decoded.destination_qpn == 1 && host->take_datagram) {
		host->take_datagram(host->datagram_context, &decoded);
		return true;
	}
	qp = sim_qp_of_packet(sim, decoded.destination_qpn);
	if (!qp || qp->host != &host->queue_host)
		return true;
	vb_lock_take(&qp->lock);
	vb_roce_receive(qp, sim->now, &decoded);
	vb_lock_release(&qp->lock);
	sim_received(host, qp);
	if (sim->progressed)
		sim->progressed(sim, qp);
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
