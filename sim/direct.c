/* SPDX-License-Identifier: MIT
 *
 * A network without switches: what a host sends travels (or not) as the settings and the seed decide, straight to the buffer of the
 * host that it is for.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sim/network.h"
#include "sim/sim.h"
#include "wire/burst.h"
#include "wire/icrc.h"

enum { MAX_DATAGRAM = 4096 + 256, BUNDLE = 16 };

static bool happens(struct sim *sim, uint32_t chance)
{
	return chance != 0 && sim_below(sim, SIM_MILLION) < chance;
}

/* ---- receiving ---- */

static bool is_like(const struct sim_packet *a, const struct sim_packet *b)
{
	return a->length == b->length && memcmp(&a->path, &b->path, sizeof(a->path)) == 0;
}

/* What waits, as a bundle of packets of one size and path, to the queue pair of the first of them: it takes those that
 * continue a message (roce/bulk_receive.c). Returns how many are done with. */
static unsigned deliver_bulk(struct sim *sim, struct sim_host *host)
{
	const struct sim_packet *first = host->buffer.first, *d = first;
	struct vb_roce_bulk bulk = {.segment = first->length, .stride = first->length, .index = first->ip_id};
	struct vb_icrc_prefix prefix = {0};
	uint8_t *bytes;
	struct vb_qp *qp;

	if (first->length < VB_BTH_LENGTH || first->headers_only)
		return 0;
	qp = sim_qp_of_packet(sim, (uint32_t)first->bytes[5] << 16 | (uint32_t)first->bytes[6] << 8 | first->bytes[7]);
	if (!qp || qp->host != &host->queue_host)
		return 0;
	/* Of exactly this size, so that AddressSanitizer sees who reads beyond. */
	for (d = first; d && is_like(d, first) && bulk.length < BUNDLE * first->length; d = d->next)
		bulk.length += d->length;
	bytes = malloc(bulk.length);
	assert(bytes);
	bulk.bytes = bytes;
	for (d = first; bytes < bulk.bytes + bulk.length; d = d->next, bytes += first->length)
		memcpy(bytes, d->bytes, d->length);
	vb_lock_take(&qp->lock);
	vb_roce_receive_bulk(qp, sim->now, &first->path, &prefix, &bulk);
	vb_lock_release(&qp->lock);
	if (bulk.taken > 0) {
		VB_COUNT_MANY(&host->counters, rcvd_pkts, bulk.taken);
		sim_received(host, qp);
	}
	sim->packets_in_bulk += bulk.taken;
	sim->packets_refused += bulk.damaged;
	free((void *)(uintptr_t)bulk.bytes);
	return bulk.taken + bulk.damaged;
}

/* Every other packet is tried as the beginning of a bulk receive, so that either way is taken for packets of every kind. */
void sim_host_serve(struct sim_host *host)
{
	struct sim *sim = host->sim;

	while (host->buffer.first) {
		unsigned done = ++sim->deliveries % 2 ? deliver_bulk(sim, host) : 0;

		if (done == 0) {
			if (!sim_deliver(sim, host, host->buffer.first))
				sim->packets_refused++;
			done = 1;
		}
		for (; done > 0; done--)
			sim_packet_free(&sim->pool, sim_queue_take(&host->buffer));
	}
	host->buffer_used = 0;
}

void sim_host_take(struct sim_host *host, const struct vb_path *from, const void *bytes, size_t length)
{
	struct sim_packet *packet = sim_packet_new(length);

	memcpy(packet->bytes, bytes, length);
	packet->length = packet->stored = (uint32_t)length;
	packet->path = *from;
	packet->to = host;
	sim_queue_add(&host->buffer, packet);
}

static void wake(struct sim *sim, void *object, vb_time when)
{
	struct sim_host *host = object;
	struct sim_queue come = host->buffer;

	(void)when;
	host->wake_planned = false;
	if (!host->carry) {
		sim_host_serve(host);
		return;
	}
	sim_queue_init(&host->buffer);
	host->buffer_used = 0;
	while (come.first) {
		struct sim_packet *packet = come.first;

		come.first = packet->next;
		host->carry(host->carry_context, packet);
		sim_packet_free(&sim->pool, packet);
	}
	host->carry(host->carry_context, NULL);
}

/* As the kernel counts: the datagram, rounded up to what the allocator gives, and its descriptor. */
static size_t buffer_size(size_t length)
{
	size_t size = 512;

	while (size < length + 400)
		size *= 2;
	return size + 256;
}

void sim_direct_arrive(struct sim *sim, void *object, vb_time now)
{
	struct sim_packet *packet = object;
	struct sim_host *host = packet->to;
	size_t size = buffer_size(packet->length);

	if (host->buffer_limit != 0 && host->buffer_used + size > host->buffer_limit) {
		host->buffer_drops++;
		sim_packet_free(&sim->pool, packet);
		return;
	}
	host->buffer_used += size;
	sim_queue_add(&host->buffer, packet);
	if (!host->wake_planned) {
		vb_time when = now + sim->network.service_delay;

		host->wake_planned = true;
		sim_events_plan(&sim->events, when < host->away_until ? host->away_until : when, wake, host);
	}
}

/* ---- sending ---- */

static struct sim_packet *copy_of(struct sim *sim, const struct sim_packet *packet)
{
	struct sim_packet *copy = packet->headers_only ? sim_packet_new_headers(&sim->pool) : sim_packet_new(packet->length);

	memcpy(copy, packet, sizeof(*packet) + packet->stored);
	return copy;
}

static void transmit_copy(struct sim *sim, const struct sim_packet *packet, vb_time delay)
{
	struct sim_packet *copy = copy_of(sim, packet);

	if (happens(sim, sim->network.corruption)) {
		sim->packets_corrupted++;
		copy->bytes[sim_below(sim, copy->stored)] ^= (uint8_t)(1u << sim_below(sim, 8));
	}
	if (happens(sim, sim->network.reorder) && sim->network.reorder_delay > 0)
		delay += sim_below(sim, (uint32_t)sim->network.reorder_delay);
	sim_events_plan(&sim->events, sim->now + delay, sim_direct_arrive, copy);
}

static bool passes_filter(struct sim *sim, const struct sim_packet *packet)
{
	struct vb_roce_packet decoded;
	enum vb_roce_decode_result result;

	if (!sim->network.filter)
		return true;
	result = vb_roce_packet_decode(&decoded, packet->bytes, packet->length, &packet->path, !packet->headers_only,
				       packet->ip_id);
	assert(result == VB_PACKET_OK);
	return sim->network.filter(sim->network.filter_context, &decoded);
}

/* `bytes`: sent in the same go up to its end. */
static void transmit(struct sim *sim, struct sim_packet *packet, uint64_t bytes)
{
	vb_time line = (vb_time)(bytes * sim->network.picoseconds_per_byte / 1000);
	uint64_t number = sim->packets_sent++;

	if (sim->network.congestion_experienced)
		packet->path.traffic_class |= 3;
	packet->to = sim_host_at(sim, packet->path.destination);
	if (!packet->to || sim->network.loss_mask >> number % 64 & 1 || happens(sim, sim->network.loss) ||
	    !passes_filter(sim, packet)) {
		sim->packets_lost++;
		return;
	}
	transmit_copy(sim, packet, sim->network.latency + line);
	if (happens(sim, sim->network.duplication))
		transmit_copy(sim, packet, sim->network.latency + line + sim_below(sim, 1000));
}

/* As io/udp_send.c does where runs cannot be segmented. */
static void make_lone(struct sim_packet *packet)
{
	size_t covered = packet->length - VB_ICRC_LENGTH;
	uint32_t crc = vb_icrc_begin(&packet->path, 0, packet->length);

	vb_icrc_store(vb_icrc_headers(crc, packet->bytes, covered), packet->bytes + covered);
	packet->ip_id = 0;
}

static void transmit_burst(struct sim *sim, const struct vb_burst *burst)
{
	struct sim_packet *packet = sim_packet_new(MAX_DATAGRAM);
	uint64_t bytes = 0;

	for (uint32_t r = 0; r < burst->runs; r++) {
		const struct vb_burst_run *run = &burst->run[r];

		for (uint32_t i = 0; i < run->packets; i++) {
			packet->length = packet->stored = (uint32_t)vb_burst_flatten(burst, r, i, packet->bytes, MAX_DATAGRAM);
			packet->path = run->path;
			packet->ip_id = (uint16_t)i;
			if (sim->lone_datagrams)
				make_lone(packet);
			bytes += packet->length;
			transmit(sim, packet, bytes);
		}
	}
	sim_packet_free(&sim->pool, packet);
}

struct direct_sink {
	struct vb_burst_sink sink;
	struct sim *sim;
	uint64_t bytes;
};

static void take(struct vb_burst_sink *sink, const struct vb_path *path, const uint8_t *headers, size_t header_length,
		 size_t payload)
{
	struct direct_sink *own = vb_container_of(sink, struct direct_sink, sink);
	struct sim_packet *packet = sim_packet_of(own->sim, path, headers, header_length, payload);

	own->bytes += packet->length;
	transmit(own->sim, packet, own->bytes);
	sim_packet_free(&own->sim->pool, packet);
}

bool sim_direct_send(struct sim *sim, struct vb_qp *qp)
{
	struct direct_sink own = {.sink = {.take = take, .room = VB_BURST_RUN_PACKETS}, .sim = sim};
	bool more;

	if (sim->headers_only) {
		vb_burst_reset_to(sim->burst, &own.sink);
		return sim_send(sim, qp);
	}
	vb_burst_reset(sim->burst);
	more = sim_send(sim, qp);
	transmit_burst(sim, sim->burst);
	return more;
}

void sim_send_datagram(struct sim_host *host, const struct vb_path *path, struct vb_roce_packet *packet, const void *payload,
		       size_t length)
{
	struct sim *sim = host->sim;
	struct iovec span = {.iov_base = (void *)(uintptr_t)payload, .iov_len = length};

	vb_burst_reset(sim->burst);
	vb_burst_append(sim->burst, path, packet, &span, 1);
	transmit_burst(sim, sim->burst);
}

void sim_send_bytes(struct sim *sim, const struct vb_path *path, const void *bytes, size_t length)
{
	struct sim_packet *packet = sim_packet_new(length);

	memcpy(packet->bytes, bytes, length);
	packet->length = packet->stored = (uint32_t)length;
	packet->path = *path;
	transmit(sim, packet, length);
	sim_packet_free(&sim->pool, packet);
}
