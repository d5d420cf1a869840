/* SPDX-License-Identifier: MIT
 *
 * Past verbenad: frames by the process's own socket to and from the fabric (wire/frame_port.h), a run in one sendmsg, a bundle in one
 * recvmsg. The way is open once the fabric has answered SLOT for the generation that verbenad's page names; until then, and for what only
 * verbenad can do, the caller goes by verbenad.
 */
#include <string.h>

#include "base/log.h"
#include "io/datagram_batch.h"
#include "links/fabric/fabric_link.h"
#include "wire/burst.h"
#include "wire/cable.h"
#include "wire/mad.h"

enum {
	LONGEST = 65507,                   /* of UDP */
	PARTS = 2,                         /* of a frame: headers, packet */
	RECORDS_OF_A_BATCH = 8,
};

static void add(uint64_t *counter, uint64_t value)
{
	if (value != 0)
		(void)__atomic_fetch_add(counter, value, __ATOMIC_RELAXED);
}

static uint32_t load(const uint32_t *field)
{
	return __atomic_load_n(field, __ATOMIC_RELAXED);
}

/* ---- sending ---- */

struct headers {
	uint8_t bytes[VB_CABLE_HEADER_LENGTH + VB_IB_MAX_HEADERS];
	size_t length;
};

static void make_headers(struct headers *headers, const struct vb_fabric_link *fabric, const struct vb_ib_route *route, uint32_t packet)
{
	struct vb_cable_header cable = {
		.key = be32_of(load(&fabric->page->key)),
		.slot = be16_of((uint16_t)fabric->schedule->slot),
		.kind = be16_of(VB_CABLE_FRAME),
	};

	memcpy(headers->bytes, &cable, sizeof(cable));
	headers->length = sizeof(cable) + vb_ib_route_encode(route, packet, headers->bytes + sizeof(cable));
}

/* How many packets were sent. */
static uint32_t send_frames(struct vb_fabric_link *fabric, int fd, const struct vb_burst_run *run, const struct vb_ib_route *route,
			    bool by_memory)
{
	struct iovec parts[PARTS * VB_BURST_RUN_PACKETS];
	uint32_t last = run->bytes - (run->packets - 1) * run->segment_size, sent = 0, whole, together;
	struct headers headers, last_headers;

	make_headers(&headers, fabric, route, run->segment_size);
	make_headers(&last_headers, fabric, route, last);
	whole = (uint32_t)headers.length + run->segment_size;
	together = LONGEST / whole;
	for (uint32_t i = 0; i < run->packets; i++) {
		bool is_last = i + 1 == run->packets;

		parts[PARTS * i] = (struct iovec){is_last ? last_headers.bytes : headers.bytes, headers.length};
		parts[PARTS * i + 1] = (struct iovec){(void *)(uintptr_t)(run->data + (size_t)i * run->segment_size),
						      is_last ? last : run->segment_size};
	}
	for (uint32_t at = 0; at < run->packets; at += together) {
		uint32_t count = run->packets - at < together ? run->packets - at : together;

		if (by_memory ? vb_fabric_memory_send(fabric, parts + PARTS * at, PARTS * count, whole) :
				vb_datagram_send_run(fd, parts + PARTS * at, PARTS * count, PARTS, (uint16_t)whole) == 0)
			sent += count;
	}
	return sent;
}

bool vb_fabric_direct_send(struct vb_fabric_link *fabric, const struct vb_burst_run *run, uint32_t *lost)
{
	struct vb_ib_route route = vb_ib_route_of_path(&run->path);
	int fd = vb_fabric_link_udp(fabric);
	struct vb_frame_page *page = fabric->page;
	uint32_t source, generation, sent = 0, last = run->bytes - (run->packets - 1) * run->segment_size;
	uint64_t headers, data;

	if (fd < 0 || route.dlid >= VB_MULTICAST_LID)
		return false;
	generation = load(&page->generation);
	if (generation == 0 || generation != load(&fabric->known_generation))
		return false;
	source = load(&page->source);
	if (vb_frame_source_has(source, route.dlid))
		return false;
	if (vb_frame_source_has(source, route.slid))
		sent = send_frames(fabric, fd, run, &route, vb_fabric_memory_is_there(fabric));
	headers = route.has_grh ? VB_IB_MAX_HEADERS : VB_LRH_LENGTH;
	data = (run->packets - 1) * ((headers + run->segment_size) / 4) + (headers + last) / 4;
	/* Rarely some and not all: then what was lost is taken as long as the others. */
	add(&page->transmit_data, sent == run->packets ? data : sent * ((headers + run->segment_size) / 4));
	add(&page->transmit_packets, sent);
	add(&page->transmit_discards, run->packets - sent);
	*lost += run->packets - sent;
	return true;
}

/* ---- receiving ---- */

static void learn(struct vb_fabric_link *fabric, const uint8_t *bytes)
{
	struct vb_cable_slot slot;

	memcpy(&slot, bytes, sizeof(slot));
	if (be32_get(slot.slot_key) != load(&fabric->page->key))
		return;
	vb_fabric_memory_offer(fabric, &slot);
	if (be32_get(slot.generation) == load(&fabric->known_generation))
		return;
	__atomic_store_n(&fabric->known_generation, be32_get(slot.generation), __ATOMIC_RELAXED);
	vb_log(VB_LOG_INFO, "InfiniBand: packets go to the fabric and come from it without verbenad");
}

struct tally {
	uint64_t data, packets, errors;
};

struct taking {
	struct vb_fabric_link *fabric;
	struct tally tally;
	vb_fabric_direct_take *take;
	vb_fabric_direct_end *end;
	void *context;
};

/* How many datagrams of the bundle, with the first, whose copy this is, agree in the headers before the BTH: cable, LRH, and
 * GRH if there is one. */
static unsigned count_alike(const uint8_t *first, const uint8_t *bytes, size_t length, size_t segment)
{
	size_t headers = VB_CABLE_HEADER_LENGTH + ((first[VB_CABLE_HEADER_LENGTH + 1] & 3) == 3 ? VB_IB_MAX_HEADERS : VB_LRH_LENGTH);
	unsigned count = 1;

	while ((count + 1) * segment <= length && headers <= segment && memcmp(bytes + count * segment, first, headers) == 0)
		count++;
	return count;
}

/* Of a bundle, from here on, of which `first` is the first datagram, or a copy of it. Returns how many bytes are done with. */
static size_t take_datagrams(struct taking *taking, const uint8_t *first, const uint8_t *bytes, size_t length, size_t own)
{
	const struct vb_frame_page *page = taking->fabric->page;
	enum vb_cable_kind kind = vb_cable_check(first, own);
	const uint8_t *frame = first + VB_CABLE_HEADER_LENGTH;
	struct vb_cable_header header;
	unsigned count;
	uint32_t source;
	uint16_t dlid;

	if (kind == VB_CABLE_SLOT)
		learn(taking->fabric, first);
	if (kind != VB_CABLE_FRAME)
		return own;
	memcpy(&header, first, sizeof(header));
	if (be32_get(header.key) != load(&page->key))
		return own;
	count = count_alike(first, bytes, length, own);
	source = load(&page->source);
	dlid = (uint16_t)(frame[2] << 8 | frame[3]);
	taking->tally.data += count * ((own - sizeof(header)) / 4);
	taking->tally.packets += count;
	if (vb_frame_source_has(source, dlid))
		taking->take(taking->context, frame, own - sizeof(header), bytes + own + sizeof(header), own, count);
	else if (source & VB_FRAME_SOURCE_ACTIVE)
		taking->tally.errors += count;
	/* Else the port is not active yet, which is not the packets' fault (fabric/fabric.c). */
	return count * own;
}

static void take_bundle(struct taking *taking, const uint8_t *bytes, size_t length, size_t segment)
{
	for (size_t at = 0; at < length;)
		at += take_datagrams(taking, bytes + at, bytes + at, length - at, length - at < segment ? length - at : segment);
	taking->end(taking->context);
}

static bool receive_by_udp(struct taking *taking, int fd, unsigned batches)
{
	struct vb_fabric_link *fabric = taking->fabric;
	bool any = false;

	if (!fabric->batch)
		fabric->batch = vb_datagram_batch_create();
	for (unsigned i = 0; fabric->batch && i < batches; i++) {
		unsigned count = vb_datagram_batch_receive(fabric->batch, fd);

		for (unsigned j = 0; j < count; j++) {
			struct vb_datagram_bundle *bundle = vb_datagram_batch_at(fabric->batch, j);

			take_bundle(taking, bundle->bytes, bundle->length, bundle->segment);
		}
		any |= count > 0;
		if (vb_datagram_batch_was_all(fabric->batch))
			break;
	}
	return any;
}

/* What decides lies in a copy: the fabric may write to the ring meanwhile. */
static bool receive_by_memory(struct taking *taking, unsigned records)
{
	struct vb_fabric_link *fabric = taking->fabric;
	struct vb_frame_ring_record record;
	bool any = false;

	for (unsigned i = 0; i < records && vb_fabric_memory_look(fabric, &record); i++) {
		for (size_t at = 0; at < record.length;) {
			size_t left = record.length - at, own = left < record.segment ? left : record.segment;

			memcpy(fabric->incoming, record.bytes + at, own);
			at += take_datagrams(taking, fabric->incoming, record.bytes + at, left, own);
		}
		vb_fabric_memory_done(fabric, &record);
		taking->end(taking->context);
		any = true;
	}
	return any;
}

bool vb_fabric_direct_receive(struct vb_fabric_link *fabric, unsigned batches, bool all, vb_fabric_direct_take *take,
			      vb_fabric_direct_end *end, void *context)
{
	int fd = vb_fabric_link_udp(fabric);
	struct taking taking = {.fabric = fabric, .take = take, .end = end, .context = context};
	bool any;

	if (fd < 0)
		return false;
	any = receive_by_memory(&taking, RECORDS_OF_A_BATCH * batches);
	if (all || fabric->memory.state != VB_FABRIC_MEMORY_PLUGGED) {
		vb_fabric_memory_listen(fabric);
		any |= receive_by_udp(&taking, fd, batches);
	}
	add(&fabric->page->receive_data, taking.tally.data);
	add(&fabric->page->receive_packets, taking.tally.packets);
	add(&fabric->page->receive_errors, taking.tally.errors);
	return any;
}
