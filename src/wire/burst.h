/* SPDX-License-Identifier: MIT
 *
 * Packets on their way out. An engine appends packets; the burst groups neighbours that the kernel can send
 * in one go into runs (same path and destination QP, all of one size but a shorter last one: the rule of
 * UDP_SEGMENT) and computes each ICRC, for which the place in the run matters: when the kernel splits a run the
 * segments carry IP identification 0, 1, 2, ...
 *
 * Payload is not copied unless asked: the iovecs point into registered memory.
 */
#ifndef VB_WIRE_BURST_H
#define VB_WIRE_BURST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "wire/icrc.h"
#include "wire/path.h"
#include "wire/roce_packet.h"

enum {
	VB_BURST_RUNS = 64,
	VB_BURST_RUN_PACKETS = 64,      /* UDP_MAX_SEGMENTS of older kernels */
	VB_BURST_RUN_BYTES = 65000,     /* below 65,507, the longest UDP payload */
	VB_BURST_IOVECS = 1024,
	VB_BURST_RUN_IOVECS = 1000,     /* below UIO_MAXIOV */
	VB_BURST_ARENA = 160 * 1024,    /* headers, trailers and copied payload */
};

struct vb_burst_run {
	struct vb_path path;
	uint32_t destination_qpn;
	uint32_t segment_size;          /* of every packet but perhaps the last */
	uint32_t packets;
	uint32_t first_iovec, iovecs;
	uint32_t bytes;
	struct vb_icrc_prefix prefix;   /* of packets of segment_size */
	bool closed;                    /* its last packet was a short one: no more may follow */
};

struct vb_burst {
	uint32_t runs, iovecs, packets;
	size_t arena_used;
	struct vb_burst_run run[VB_BURST_RUNS];
	struct iovec iovec[VB_BURST_IOVECS];
	uint8_t arena[VB_BURST_ARENA];
};

void vb_burst_reset(struct vb_burst *burst);

static inline bool vb_burst_is_empty(const struct vb_burst *burst)
{
	return burst->packets == 0;
}

/* Is there surely room for one more packet with `spans` payload spans of which `copied` bytes are copied? */
bool vb_burst_has_room(const struct vb_burst *burst, unsigned spans, size_t copied);

/* Room in the arena for payload that must be a snapshot; then pass it as a span to append. Caller asked has_room. */
uint8_t *vb_burst_copy_area(struct vb_burst *burst, size_t length);

/* Append a packet: headers from `packet` (pad is set here), payload from the spans. Caller asked has_room. */
void vb_burst_append(struct vb_burst *burst, const struct vb_path *path, struct vb_roce_packet *packet,
		     const struct iovec *spans, unsigned span_count);

/* For simulators and captures: copy packet number `index` of run `run` to out as one datagram; returns its length, 0
 * when there is no room for it. */
size_t vb_burst_flatten(const struct vb_burst *burst, uint32_t run, uint32_t index, uint8_t *out, size_t room);

#endif
