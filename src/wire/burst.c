/* SPDX-License-Identifier: MIT
 *
 * Bursts. A packet becomes: headers in the arena, the caller's spans, pad and ICRC in the arena. Pieces of the arena
 * that follow one another share an iovec (the trailer of one packet and the headers of the next), so a packet costs
 * two iovecs and not three, and a packet so small that copying its payload is cheaper than another iovec costs none
 * of its own.
 *
 * A run is what one sendmsg with UDP_SEGMENT carries. The kernel cuts it every segment_size bytes, therefore all
 * packets are of that size, except that the last may be shorter and then ends the run.
 */
#include "wire/burst.h"

#include <assert.h>
#include <string.h>

#include "wire/icrc.h"

enum {
	SMALL_PAYLOAD = 256,       /* up to here, payload is copied between its headers and trailer */
	TRAILER_ROOM = 3 + VB_ICRC_LENGTH,
	PACKET_ROOM = VB_ROCE_MAX_HEADER + SMALL_PAYLOAD + TRAILER_ROOM,
};

/* Any packet fits an empty burst: the largest MTU, copied. */
_Static_assert(VB_BURST_ARENA >= 4096 + PACKET_ROOM, "arena");
_Static_assert(VB_BURST_RUN_IOVECS <= VB_BURST_IOVECS, "iovecs of a run");

void vb_burst_reset(struct vb_burst *burst)
{
	burst->runs = burst->iovecs = burst->packets = 0;
	burst->arena_used = 0;
}

bool vb_burst_has_room(const struct vb_burst *burst, unsigned spans, size_t copied)
{
	/* The packet may need a run of its own. */
	return burst->runs < VB_BURST_RUNS && (uint64_t)burst->iovecs + spans + 2 <= VB_BURST_IOVECS &&
	       copied <= VB_BURST_ARENA - PACKET_ROOM && burst->arena_used <= VB_BURST_ARENA - PACKET_ROOM - copied;
}

uint8_t *vb_burst_copy_area(struct vb_burst *burst, size_t length)
{
	uint8_t *area = burst->arena + burst->arena_used;

	assert(length <= VB_BURST_ARENA - burst->arena_used);
	burst->arena_used += length;
	return area;
}

static bool run_takes(const struct vb_burst_run *run, const struct vb_path *path, uint32_t qpn, size_t size,
		      unsigned iovecs)
{
	return !run->closed && run->destination_qpn == qpn && size <= run->segment_size &&
	       run->packets < VB_BURST_RUN_PACKETS && run->bytes + size <= VB_BURST_RUN_BYTES &&
	       run->iovecs + iovecs <= VB_BURST_RUN_IOVECS && memcmp(&run->path, path, sizeof(*path)) == 0;
}

/* The run that the packet joins. */
static struct vb_burst_run *choose_run(struct vb_burst *burst, const struct vb_path *path, uint32_t qpn, size_t size,
				       unsigned iovecs)
{
	struct vb_burst_run *run = burst->runs ? &burst->run[burst->runs - 1] : NULL;

	if (run && run_takes(run, path, qpn, size, iovecs))
		return run;
	assert(burst->runs < VB_BURST_RUNS);
	run = &burst->run[burst->runs++];
	run->path = *path;
	run->destination_qpn = qpn;
	run->segment_size = (uint32_t)size;
	run->packets = 0;
	run->first_iovec = burst->iovecs;
	run->iovecs = 0;
	run->bytes = 0;
	run->prefix.udp_payload_length = 0;
	run->closed = false;
	return run;
}

/* Add bytes to the end of the run, as part of its last iovec where they follow it in memory. */
static void add_bytes(struct vb_burst *burst, struct vb_burst_run *run, const void *bytes, size_t length)
{
	struct iovec *last = run->iovecs ? &burst->iovec[burst->iovecs - 1] : NULL;

	if (last && (const uint8_t *)last->iov_base + last->iov_len == bytes) {
		last->iov_len += length;
		return;
	}
	assert(burst->iovecs < VB_BURST_IOVECS);
	burst->iovec[burst->iovecs++] = (struct iovec){(void *)(uintptr_t)bytes, length};
	run->iovecs++;
}

/* Pad and ICRC. */
static size_t write_trailer(uint8_t *at, uint32_t crc, uint8_t pad)
{
	memset(at, 0, pad);
	vb_icrc_store(vb_icrc_payload(crc, at, pad), at + pad);
	return pad + (size_t)VB_ICRC_LENGTH;
}

void vb_burst_append(struct vb_burst *burst, const struct vb_path *path, struct vb_roce_packet *packet,
		     const struct iovec *spans, unsigned span_count)
{
	uint8_t *headers, *end;
	size_t payload = 0, header_length, size;
	struct vb_burst_run *run;
	uint32_t crc;

	for (unsigned i = 0; i < span_count; i++)
		payload += spans[i].iov_len;
	packet->pad = (uint8_t)(-payload & 3);
	headers = burst->arena + burst->arena_used;
	assert(burst->arena_used + PACKET_ROOM <= VB_BURST_ARENA);
	header_length = vb_roce_packet_encode_headers(packet, headers);
	size = header_length + payload + packet->pad + VB_ICRC_LENGTH;
	run = choose_run(burst, path, packet->destination_qpn, size, span_count + 2);

	/* Splitting numbers the segments of a run from 0, a lone packet is sent with 0 (see wire/icrc.h). */
	crc = vb_icrc_begin_again(&run->prefix, path, (uint16_t)run->packets, size);
	end = headers + header_length;
	if (payload <= SMALL_PAYLOAD) {
		for (unsigned i = 0; i < span_count; i++) {
			if (spans[i].iov_len == 0)
				continue;
			memcpy(end, spans[i].iov_base, spans[i].iov_len);
			end += spans[i].iov_len;
		}
		crc = vb_icrc_headers(crc, headers, (size_t)(end - headers));
		end += write_trailer(end, crc, packet->pad);
		add_bytes(burst, run, headers, size);
	} else {
		crc = vb_icrc_headers(crc, headers, header_length);
		add_bytes(burst, run, headers, header_length);
		for (unsigned i = 0; i < span_count; i++) {
			if (spans[i].iov_len == 0)
				continue;
			crc = vb_icrc_payload(crc, spans[i].iov_base, spans[i].iov_len);
			add_bytes(burst, run, spans[i].iov_base, spans[i].iov_len);
		}
		add_bytes(burst, run, end, write_trailer(end, crc, packet->pad));
		end += packet->pad + VB_ICRC_LENGTH;
	}
	burst->arena_used = (size_t)(end - burst->arena);
	burst->packets++;
	run->packets++;
	run->bytes += (uint32_t)size;
	run->closed = size < run->segment_size;
}

size_t vb_burst_flatten(const struct vb_burst *burst, uint32_t run, uint32_t index, uint8_t *out, size_t room)
{
	const struct vb_burst_run *from = &burst->run[run];
	size_t skip = (size_t)index * from->segment_size;
	size_t want = index + 1 < from->packets ? from->segment_size : from->bytes - skip;
	size_t copied = 0;

	assert(index < from->packets);
	if (want > room)
		return 0;
	for (uint32_t i = from->first_iovec; i < from->first_iovec + from->iovecs && copied < want; i++) {
		const struct iovec *piece = &burst->iovec[i];
		size_t length;

		if (skip >= piece->iov_len) {
			skip -= piece->iov_len;
			continue;
		}
		length = piece->iov_len - skip;
		if (length > want - copied)
			length = want - copied;
		memcpy(out + copied, (const uint8_t *)piece->iov_base + skip, length);
		copied += length;
		skip = 0;
	}
	return copied;
}
