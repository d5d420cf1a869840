/* SPDX-License-Identifier: MIT
 *
 * The simulator's clock and network; hosts and their objects are in sim_objects.c. One heap holds what will happen:
 * a datagram arrives, a host wakes, a QP's timer fires. Events of the same moment happen in the order they were
 * planned, so a seed always gives the same run.
 */
#include "sim/sim.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sim/sim_events.h"
#include "wire/burst.h"
#include "wire/icrc.h"

enum { MAX_DATAGRAM = 4096 + 256, BUNDLE = 16, STEP_LIMIT = 200 * 1000 * 1000 };

struct sim_datagram {
	struct sim_datagram *next;
	struct sim_host *to;
	struct vb_path from;
	uint16_t ip_id;
	size_t length;
	uint8_t bytes[];
};

enum entry_kind { ENTRY_ARRIVAL, ENTRY_WAKE, ENTRY_TIMER };

struct sim_entry {
	vb_time when;
	uint64_t sequence;
	enum entry_kind kind;
	union {
		struct sim_datagram *datagram;
		struct sim_host *host;
		uint32_t qpn;
	};
};

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

static bool happens(struct sim *sim, uint32_t chance)
{
	return chance != 0 && sim_below(sim, SIM_MILLION) < chance;
}

/* ---- the heap ---- */

static bool is_earlier(const struct sim_entry *a, const struct sim_entry *b)
{
	return a->when != b->when ? a->when < b->when : a->sequence < b->sequence;
}

static void plan(struct sim *sim, struct sim_entry entry)
{
	size_t i = sim->heap_count++;

	if (sim->heap_count > sim->heap_room) {
		sim->heap_room = sim->heap_room ? 2 * sim->heap_room : 1024;
		sim->heap = realloc(sim->heap, sim->heap_room * sizeof(*sim->heap));
		assert(sim->heap);
	}
	entry.sequence = sim->heap_sequence++;
	for (; i > 0 && is_earlier(&entry, &sim->heap[(i - 1) / 2]); i = (i - 1) / 2)
		sim->heap[i] = sim->heap[(i - 1) / 2];
	sim->heap[i] = entry;
}

static struct sim_entry take_earliest(struct sim *sim)
{
	struct sim_entry top = sim->heap[0], last = sim->heap[--sim->heap_count];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < sim->heap_count) {
		if (child + 1 < sim->heap_count && is_earlier(&sim->heap[child + 1], &sim->heap[child]))
			child++;
		if (!is_earlier(&sim->heap[child], &last))
			break;
		sim->heap[i] = sim->heap[child];
		i = child;
	}
	if (sim->heap_count > 0)
		sim->heap[i] = last;
	return top;
}

/* ---- the network ---- */

static struct sim_host *host_at(struct sim *sim, const uint8_t address[16])
{
	for (struct sim_host *host = sim->hosts; host; host = host->next)
		if (memcmp(host->address, address, 16) == 0)
			return host;
	return NULL;
}

static void transmit_copy(struct sim *sim, const struct sim_datagram *datagram, vb_time delay)
{
	size_t size = sizeof(*datagram) + datagram->length;
	struct sim_datagram *copy = malloc(size);

	assert(copy);
	memcpy(copy, datagram, size);
	if (happens(sim, sim->network.corruption)) {
		sim->packets_corrupted++;
		copy->bytes[sim_below(sim, (uint32_t)copy->length)] ^= (uint8_t)(1u << sim_below(sim, 8));
	}
	if (happens(sim, sim->network.reorder) && sim->network.reorder_delay > 0)
		delay += sim_below(sim, (uint32_t)sim->network.reorder_delay);
	plan(sim, (struct sim_entry){.when = sim->now + delay, .kind = ENTRY_ARRIVAL, .datagram = copy});
}

static bool passes_filter(struct sim *sim, const struct sim_datagram *datagram)
{
	struct vb_roce_packet packet;
	enum vb_roce_verdict verdict;

	if (!sim->network.filter)
		return true;
	verdict = vb_roce_packet_decode(&packet, datagram->bytes, datagram->length, &datagram->from, true,
					datagram->ip_id);
	assert(verdict == VB_PACKET_OK);
	return sim->network.filter(sim->network.filter_context, &packet);
}

static void transmit_datagram(struct sim *sim, struct sim_datagram *datagram, vb_time line)
{
	uint64_t number = sim->packets_sent++;

	if (!datagram->to || sim->network.loss_mask >> number % 64 & 1 || happens(sim, sim->network.loss) ||
	    !passes_filter(sim, datagram)) {
		sim->packets_lost++;
		return;
	}
	transmit_copy(sim, datagram, sim->network.latency + line);
	if (happens(sim, sim->network.duplication))
		transmit_copy(sim, datagram, sim->network.latency + line + sim_below(sim, 1000));
}

static void transmit_burst(struct sim *sim, const struct vb_burst *burst)
{
	struct sim_datagram *datagram = malloc(sizeof(*datagram) + MAX_DATAGRAM);
	uint64_t bytes = 0;

	assert(datagram);
	for (uint32_t r = 0; r < burst->runs; r++) {
		const struct vb_burst_run *run = &burst->run[r];

		for (uint32_t i = 0; i < run->packets; i++) {
			datagram->length = vb_burst_flatten(burst, r, i, datagram->bytes, MAX_DATAGRAM);
			datagram->from = run->path;
			if (sim->network.congestion_experienced)
				datagram->from.traffic_class |= 3;
			datagram->ip_id = (uint16_t)i;
			datagram->to = host_at(sim, run->path.destination);
			bytes += datagram->length;
			transmit_datagram(sim, datagram, (vb_time)(bytes * sim->network.picoseconds_per_byte / 1000));
		}
	}
	free(datagram);
}

/* ---- QPs ---- */

static struct vb_qp *qp_at(struct sim *sim, uint32_t qpn)
{
	return qpn < sim->qp_count ? sim->qps[qpn] : NULL;
}

static void arm(struct sim *sim, struct vb_qp *qp)
{
	vb_time when = vb_roce_next_deadline(qp);

	if (when == VB_TIME_NEVER || when >= qp->timer_armed)
		return;
	if (when < sim->now)
		when = sim->now;
	qp->timer_armed = when;
	plan(sim, (struct sim_entry){.when = when, .kind = ENTRY_TIMER, .qpn = qp->qpn});
}

void sim_touch(struct vb_qp *qp)
{
	struct sim_host *host = vb_container_of(qp->host, struct sim_host, queue_host);

	if (vb_list_is_empty(&qp->active))
		vb_list_append(&host->sim->active, &qp->active);
}

static void send_all(struct sim *sim)
{
	while (!vb_list_is_empty(&sim->active)) {
		struct vb_qp *qp = vb_container_of(sim->active.next, struct vb_qp, active);
		bool more;

		vb_list_remove(&qp->active);
		vb_lock_take(&qp->lock);
		vb_burst_reset(sim->burst);
		more = vb_roce_send(qp, sim->now, sim->burst);
		transmit_burst(sim, sim->burst);
		arm(sim, qp);
		vb_lock_release(&qp->lock);
		if (more)
			vb_list_append(&sim->active, &qp->active);
		assert(sim->steps++ < STEP_LIMIT);
	}
}

static void deliver(struct sim *sim, struct sim_host *host, const struct sim_datagram *datagram)
{
	struct vb_roce_packet packet;
	struct vb_qp *qp;

	if (vb_roce_packet_decode(&packet, datagram->bytes, datagram->length, &datagram->from, true, datagram->ip_id) !=
	    VB_PACKET_OK) {
		sim->packets_refused++;
		return;
	}
	VB_COUNT(&host->counters, rcvd_pkts);
	qp = qp_at(sim, packet.destination_qpn);
	if (!qp || qp->host != &host->queue_host)
		return;
	vb_lock_take(&qp->lock);
	vb_roce_receive(qp, sim->now, &packet);
	vb_lock_release(&qp->lock);
	sim_touch(qp);
}

static bool is_like(const struct sim_datagram *a, const struct sim_datagram *b)
{
	return a->length == b->length && memcmp(&a->from, &b->from, sizeof(a->from)) == 0;
}

/* What waits, as a bundle of datagrams of one size and path, to the queue pair of the first of them: it takes those that
 * continue a message (roce/bulk_receive.c). Returns how many are done with. */
static unsigned deliver_series(struct sim *sim, struct sim_host *host)
{
	const struct sim_datagram *first = host->first, *d = first;
	struct vb_roce_bulk series = {.segment = first->length, .index = first->ip_id};
	struct vb_icrc_prefix prefix = {0};
	uint8_t *bytes;
	struct vb_qp *qp;

	if (first->length < VB_BTH_LENGTH)
		return 0;
	qp = qp_at(sim, (uint32_t)first->bytes[5] << 16 | (uint32_t)first->bytes[6] << 8 | first->bytes[7]);
	if (!qp || qp->host != &host->queue_host)
		return 0;
	/* Of exactly this size, so that AddressSanitizer sees who reads beyond. */
	for (d = first; d && is_like(d, first) && series.length < BUNDLE * first->length; d = d->next)
		series.length += d->length;
	bytes = malloc(series.length);
	assert(bytes);
	series.bytes = bytes;
	for (d = first; bytes < series.bytes + series.length; d = d->next, bytes += first->length)
		memcpy(bytes, d->bytes, d->length);
	vb_lock_take(&qp->lock);
	vb_roce_receive_bulk(qp, sim->now, &first->from, &prefix, &series);
	vb_lock_release(&qp->lock);
	if (series.taken > 0) {
		VB_COUNT_MANY(&host->counters, rcvd_pkts, series.taken);
		sim_touch(qp);
	}
	sim->packets_in_series += series.taken;
	sim->packets_refused += series.damaged;
	free((void *)(uintptr_t)series.bytes);
	return series.taken + series.damaged;
}

/* Every other datagram is tried as the beginning of a series, so that either way is taken for packets of every kind. */
static void wake(struct sim *sim, struct sim_host *host)
{
	host->wake_planned = false;
	while (host->first) {
		unsigned done = ++sim->deliveries % 2 ? deliver_series(sim, host) : 0;

		if (done == 0) {
			deliver(sim, host, host->first);
			done = 1;
		}
		for (; done > 0; done--) {
			struct sim_datagram *datagram = host->first;

			host->first = datagram->next;
			free(datagram);
		}
	}
	host->last = &host->first;
	host->buffer_used = 0;
}

/* As the kernel counts: the datagram, rounded up to what the allocator gives, and its descriptor. */
static size_t buffer_size(size_t length)
{
	size_t size = 512;

	while (size < length + 400)
		size *= 2;
	return size + 256;
}

static void arrive(struct sim *sim, struct sim_datagram *datagram)
{
	struct sim_host *host = datagram->to;
	size_t size = buffer_size(datagram->length);

	if (host->buffer_limit != 0 && host->buffer_used + size > host->buffer_limit) {
		host->buffer_drops++;
		free(datagram);
		return;
	}
	host->buffer_used += size;
	datagram->next = NULL;
	*host->last = datagram;
	host->last = &datagram->next;
	if (!host->wake_planned) {
		vb_time when = sim->now + sim->network.service_delay;

		host->wake_planned = true;
		plan(sim, (struct sim_entry){
				  .when = when < host->away_until ? host->away_until : when, .kind = ENTRY_WAKE, .host = host});
	}
}

static void fire(struct sim *sim, uint32_t qpn, vb_time when)
{
	struct vb_qp *qp = qp_at(sim, qpn);

	if (!qp || qp->timer_armed != when)
		return;
	qp->timer_armed = VB_TIME_NEVER;
	vb_lock_take(&qp->lock);
	if (vb_roce_next_deadline(qp) <= sim->now) {
		vb_roce_expire(qp, sim->now);
		sim_touch(qp);
	}
	arm(sim, qp);
	vb_lock_release(&qp->lock);
}

static void happen(struct sim *sim)
{
	struct sim_entry entry = take_earliest(sim);

	assert(entry.when >= sim->now);
	sim->now = entry.when;
	switch (entry.kind) {
	case ENTRY_ARRIVAL:
		arrive(sim, entry.datagram);
		break;
	case ENTRY_WAKE:
		wake(sim, entry.host);
		break;
	case ENTRY_TIMER:
		fire(sim, entry.qpn, entry.when);
		break;
	}
	assert(sim->steps++ < STEP_LIMIT);
}

void sim_run_to(struct sim *sim, vb_time when)
{
	send_all(sim);
	while (sim->heap_count > 0 && sim->heap[0].when <= when) {
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
		if (sim->heap_count == 0 || sim->heap[0].when > end)
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

void sim_events_discard(struct sim *sim)
{
	while (sim->heap_count > 0) {
		struct sim_entry entry = take_earliest(sim);

		if (entry.kind == ENTRY_ARRIVAL)
			free(entry.datagram);
	}
	free(sim->heap);
	for (struct sim_host *host = sim->hosts; host; host = host->next) {
		while (host->first) {
			struct sim_datagram *datagram = host->first;

			host->first = datagram->next;
			free(datagram);
		}
	}
}
