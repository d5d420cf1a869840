/* SPDX-License-Identifier: MIT
 *
 * Bursts. A packet becomes headers, payload, pad and ICRC in the arena, behind the packet before it.
 *
 * A run is what one sendmsg with UDP_SEGMENT carries. The kernel cuts it every segment_size bytes, therefore all
 * packets are of that size, except that the last may be shorter and then ends the run.
 */
#include "wire/burst.h"

#include <assert.h>
#include <string.h>

#include "wire/daemon_message.h"
#include "wire/icrc.h"

_Static_assert((int)VB_BURST_RUN_PACKETS <= (int)VB_ICRC_TRAIN, "receivers expect identifications of that length at most");

enum {
	TRAILER_ROOM = 3 + VB_ICRC_LENGTH,
	SHORT = 128,                       /* bytes of payload */
	/* A run begins so that the payload behind a plain BTH is aligned, and with it, at MTUs of 1 KiB and more, that of all
	 * that follow. */
	ALIGNMENT = 64,
	PACKET_ROOM = ALIGNMENT + VB_ROCE_MAX_HEADER + TRAILER_ROOM,
};

/* Any packet fits an empty burst. */
_Static_assert(VB_BURST_ARENA >= 4096 + PACKET_ROOM, "arena");

void vb_burst_reset(struct vb_burst *burst)
{
	burst->runs = burst->packets = 0;
	burst->arena_used = 0;
	burst->sink = NULL;
	burst->numbers = NULL;
}

void vb_burst_reset_to(struct vb_burst *burst, struct vb_burst_sink *sink)
{
	vb_burst_reset(burst);
	burst->sink = sink;
}

bool vb_burst_has_room(const struct vb_burst *burst, size_t payload)
{
	/* The packet may need a run of its own. */
	return burst->runs < VB_BURST_RUNS && payload <= VB_BURST_ARENA - PACKET_ROOM &&
	       burst->arena_used <= VB_BURST_ARENA - PACKET_ROOM - payload;
}

static bool run_takes(const struct vb_burst_run *run, const struct vb_path *path, const struct vb_roce_packet *packet, size_t size)
{
	return !run->closed && run->slot == packet->destination_qpn >> VB_DAEMON_INDEX_BITS &&
	       run->datagrams == packet->of_datagrams && size <= run->segment_size &&
	       run->packets < VB_BURST_RUN_PACKETS && run->bytes + size <= VB_BURST_RUN_BYTES &&
	       vb_path_equal(&run->path, path);
}

/* Of the run that begins now. Runs in a row on one path leave one after the other. */
static void foretell_id(const struct vb_burst *burst, struct vb_burst_run *run)
{
	const struct vb_burst_run *before = burst->runs > 1 ? run - 1 : NULL;

	run->counted = false;
	run->first_id = 0;
	if (!burst->numbers)
		return;
	if (before && before->counted && vb_path_equal(&before->path, &run->path)) {
		run->counted = true;
		run->first_id = (uint16_t)(before->first_id + 1);
		return;
	}
	run->counted = burst->numbers->next(burst->numbers, &run->path, &run->first_id);
	if (!run->counted)
		run->first_id = 0;
}

/* The run that a packet of that size joins; if that is a new one, it begins at a good place of the arena. */
static struct vb_burst_run *choose_run(struct vb_burst *burst, const struct vb_path *path, const struct vb_roce_packet *packet,
				       size_t size)
{
	struct vb_burst_run *run = burst->runs ? &burst->run[burst->runs - 1] : NULL;

	if (run && run_takes(run, path, packet, size))
		return run;
	assert(burst->runs < VB_BURST_RUNS);
	burst->arena_used += -((uintptr_t)burst->arena + burst->arena_used + VB_BTH_LENGTH) & (ALIGNMENT - 1);
	run = &burst->run[burst->runs++];
	/* Most often the run that was here in the burst before went the same way: then its prefix is ours. */
	if (!vb_path_equal(&run->path, path)) {
		run->path = *path;
		run->prefix = (struct vb_icrc_prefix){0};
	}
	run->slot = packet->destination_qpn >> VB_DAEMON_INDEX_BITS;
	run->datagrams = packet->of_datagrams;
	run->segment_size = (uint32_t)size;
	run->packets = 0;
	run->bytes = 0;
	run->data = burst->arena + burst->arena_used;
	run->closed = false;
	foretell_id(burst, run);
	return run;
}

static void note_packet(struct vb_burst *burst, struct vb_burst_run *run, size_t size)
{
	assert(burst->arena_used + size <= VB_BURST_ARENA);
	burst->arena_used += size;
	burst->packets++;
	run->packets++;
	run->bytes += (uint32_t)size;
	run->closed = size < run->segment_size;
}

/* A sink that has enough looks like an arena that is full: who asks for room need not know of sinks. */
static void hand_over(struct vb_burst *burst, const struct vb_path *path, const uint8_t *headers, size_t header_length,
		      size_t payload)
{
	struct vb_burst_sink *sink = burst->sink;

	burst->packets++;
	sink->take(sink, path, headers, header_length, payload);
	if (sink->room > 0 && --sink->room == 0)
		burst->arena_used = VB_BURST_ARENA;
}

static void hand_over_one(struct vb_burst *burst, const struct vb_path *path, const struct vb_roce_packet *packet, size_t payload)
{
	uint8_t headers[VB_ROCE_MAX_HEADER];
	size_t header_length = vb_roce_packet_encode_headers(packet, headers);

	hand_over(burst, path, headers, header_length, payload);
}

/* Payload, of which there is some, pad and ICRC behind the headers: copied as they are summed, */
static void fill(uint8_t *at, size_t header_length, const struct iovec *spans, unsigned span_count, uint8_t pad, uint32_t crc)
{
	crc = vb_icrc_headers_copy(crc, at, header_length, at + header_length, spans[0].iov_base, spans[0].iov_len);
	at += header_length + spans[0].iov_len;
	for (unsigned i = 1; i < span_count; i++) {
		crc = vb_icrc_payload_copy(crc, at, spans[i].iov_base, spans[i].iov_len);
		at += spans[i].iov_len;
	}
	if (pad > 0) {
		memset(at, 0, pad);
		crc = vb_icrc_payload(crc, at, pad);
	}
	vb_icrc_store(crc, at + pad);
}

/* or, of a short packet, summed when all of it is there: what each beginning and end of a sum costs is more than the second look. */
static void fill_short(uint8_t *at, size_t header_length, const struct iovec *spans, unsigned span_count, uint8_t pad, uint32_t crc)
{
	uint8_t *end = at + header_length;

	for (unsigned i = 0; i < span_count; i++) {
		/* What has no bytes may have no place. */
		if (spans[i].iov_len > 0)
			memcpy(end, spans[i].iov_base, spans[i].iov_len);
		end += spans[i].iov_len;
	}
	memset(end, 0, pad);
	end += pad;
	vb_icrc_store(vb_icrc_headers(crc, at, (size_t)(end - at)), end);
}

void vb_burst_append(struct vb_burst *burst, const struct vb_path *path, struct vb_roce_packet *packet,
		     const struct iovec *spans, unsigned span_count)
{
	size_t payload = 0, header_length = vb_roce_packet_header_length(packet), size;
	struct vb_burst_run *run;
	uint32_t crc;
	uint8_t *at;

	for (unsigned i = 0; i < span_count; i++)
		payload += spans[i].iov_len;
	packet->pad = (uint8_t)(-payload & 3);
	if (burst->sink) {
		hand_over_one(burst, path, packet, payload);
		return;
	}
	size = header_length + payload + packet->pad + VB_ICRC_LENGTH;
	run = choose_run(burst, path, packet, size);

	at = burst->arena + burst->arena_used;
	vb_roce_packet_encode_headers(packet, at);
	/* Splitting numbers the segments of a run from its first one's on, a lone packet is sent with that (see wire/icrc.h). */
	crc = vb_icrc_begin_again(&run->prefix, path, (uint16_t)(run->first_id + run->packets), size);
	if (payload <= SHORT)
		fill_short(at, header_length, spans, span_count, packet->pad, crc);
	else
		fill(at, header_length, spans, span_count, packet->pad, crc);
	note_packet(burst, run, size);
}

uint32_t vb_burst_run_room(const struct vb_burst *burst, size_t payload)
{
	const struct vb_burst_run *run = burst->runs ? &burst->run[burst->runs - 1] : NULL;
	size_t size = VB_BTH_LENGTH + payload + VB_ICRC_LENGTH;
	uint32_t packets, fit;

	if (!run || run->closed || size > run->segment_size || run->bytes > VB_BURST_RUN_BYTES)
		return 0;
	/* The shorter one that ends the run. */
	packets = size < run->segment_size ? 1 : VB_BURST_RUN_PACKETS - run->packets;
	fit = (VB_BURST_RUN_BYTES - run->bytes) / (uint32_t)size;
	return packets < fit ? packets : fit;
}

/* The headers of the packet that comes so many behind `packet`, `offset` bytes beyond its place. That one's were encoded to `first`. */
static void write_headers(uint8_t *out, const struct vb_roce_packet *packet, const uint8_t *first, uint32_t behind, uint64_t offset,
			  bool last)
{
	struct psn psn = psn_add(packet->psn, behind);

	if (packet->op->headers == VB_HEADER_AETH)
		vb_roce_packet_renumber_answer(out, first, psn, packet->ack_request && last);
	else
		vb_roce_packet_renumber(out, first, psn, packet->ack_request && last);
	if (packet->op->headers == VB_HEADER_RETH)
		vb_roce_packet_readdress(out, packet, offset);
}

static uint32_t hand_over_many(struct vb_burst *burst, const struct vb_path *path, const struct vb_roce_packet *packet,
			       const uint8_t *first, size_t header_length, size_t each, uint32_t count)
{
	uint8_t headers[VB_BTH_LENGTH + VB_RETH_LENGTH];
	uint32_t given = 0;

	for (; given < count && vb_burst_has_room(burst, each); given++) {
		write_headers(headers, packet, first, given, given * each, given + 1 == count);
		hand_over(burst, path, headers, header_length, each);
	}
	return given;
}

uint32_t vb_burst_append_many(struct vb_burst *burst, const struct vb_path *path, struct vb_roce_packet *packet,
			      const uint8_t *payload, size_t each, uint32_t count)
{
	uint8_t headers[VB_ROCE_MAX_HEADER];
	size_t header_length, size;
	uint32_t appended = 0;

	assert(each % 4 == 0);
	assert(packet->op->headers == 0 || packet->op->headers == VB_HEADER_RETH || packet->op->headers == VB_HEADER_AETH);
	packet->pad = 0;
	header_length = vb_roce_packet_encode_headers(packet, headers);
	size = header_length + each + VB_ICRC_LENGTH;
	if (burst->sink)
		return hand_over_many(burst, path, packet, headers, header_length, each, count);
	while (appended < count && vb_burst_has_room(burst, each)) {
		struct vb_burst_run *run = choose_run(burst, path, packet, size);
		uint32_t here = VB_BURST_RUN_PACKETS - run->packets, fit = (VB_BURST_RUN_BYTES - run->bytes) / (uint32_t)size;

		if (here > fit)
			here = fit > 0 ? fit : 1;
		for (; here > 0 && appended < count && vb_burst_has_room(burst, each) && !run->closed; here--, appended++) {
			uint8_t *at = burst->arena + burst->arena_used;

			write_headers(at, packet, headers, appended, appended * each, appended + 1 == count);
			vb_icrc_copy_and_store(&run->prefix, path, (uint16_t)(run->first_id + run->packets), at, header_length,
					       payload, each);
			payload += each;
			note_packet(burst, run, size);
		}
	}
	return appended;
}

size_t vb_burst_flatten(const struct vb_burst *burst, uint32_t run, uint32_t index, uint8_t *out, size_t room)
{
	const struct vb_burst_run *from = &burst->run[run];
	size_t skip = (size_t)index * from->segment_size;
	size_t length = index + 1 < from->packets ? from->segment_size : from->bytes - skip;

	assert(index < from->packets);
	if (length > room)
		return 0;
	memcpy(out, from->data + skip, length);
	return length;
}

uint8_t *vb_burst_packet(struct vb_burst *burst, uint32_t run, uint32_t index, size_t *length)
{
	const struct vb_burst_run *from = &burst->run[run];
	size_t skip = (size_t)index * from->segment_size;

	assert(index < from->packets);
	*length = index + 1 < from->packets ? from->segment_size : from->bytes - skip;
	/* Most often in the arena. */
	return (uint8_t *)(uintptr_t)from->data + skip;
}

/* Its place in the run is another now. */
static void renew_icrc(struct vb_burst_run *run, uint8_t *bytes, size_t length, uint32_t index)
{
	uint32_t crc = vb_icrc_begin_again(&run->prefix, &run->path, (uint16_t)(run->first_id + index), length);

	vb_icrc_store(vb_icrc_headers(crc, bytes, length - VB_ICRC_LENGTH), bytes + length - VB_ICRC_LENGTH);
}

void vb_burst_renumber(struct vb_burst *burst, uint32_t run, uint16_t first_id)
{
	struct vb_burst_run *from = &burst->run[run];

	if (from->first_id == first_id)
		return;
	from->first_id = first_id;
	for (uint32_t i = 0; i < from->packets; i++) {
		size_t length;
		uint8_t *packet = vb_burst_packet(burst, run, i, &length);

		renew_icrc(from, packet, length, i);
	}
}

bool vb_burst_remove(struct vb_burst *burst, uint32_t run, uint64_t which)
{
	struct vb_burst_run *from = &burst->run[run];
	uint32_t kept = 0;
	size_t bytes = 0;

	for (uint32_t i = 0; i < from->packets; i++) {
		uint8_t *to = burst->arena + (from->data - burst->arena) + bytes;
		size_t length;
		const uint8_t *packet = vb_burst_packet(burst, run, i, &length);

		if (which >> i & 1)
			continue;
		if (kept != i) {
			memmove(to, packet, length);
			renew_icrc(from, to, length, kept);
		}
		kept++;
		bytes += length;
	}
	burst->packets -= from->packets - kept;
	from->packets = kept;
	from->bytes = (uint32_t)bytes;
	/* Of several packets only the last may be shorter, and a lone one says itself how long it is. */
	if (kept == 1)
		from->segment_size = from->bytes;
	if (kept > 0)
		return true;
	burst->runs--;
	memmove(from, from + 1, (burst->runs - run) * sizeof(*from));
	return false;
}
