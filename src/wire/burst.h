/* SPDX-License-Identifier: MIT
 *
 * Packets on their way out. Engines append packets, of one queue pair or of several; the burst groups neighbours that the
 * kernel can send in one go into runs (same path and destination process, all of one size but a shorter last one: the rule
 * of UDP_SEGMENT) and computes each ICRC, for which the place in the run matters: when the kernel splits a run the
 * segments carry IP identification 0, 1, 2, ..., or such numbers from the run's own one on where the socket counts.
 *
 * Queue pairs of one process share a run because a receiver that does not cut it up hands it whole to one socket, and which
 * one that is depends on the slot that the first packet names (wire/daemon_message.h). Where the peer is no Verbena there is one
 * receiver for all of them, and no harm in telling slots apart.
 *
 * Payload is copied as its ICRC is computed, so a packet is a snapshot, the ICRC and the bytes agree whatever the application
 * does to its buffer meanwhile, and a run is one piece of memory. That the copy rides along with the CRC makes it cheaper than
 * not to copy: 62 packets of 1 KiB, CRC and sendmsg, take 8.2 us so, and 10.1 us as 124 iovecs.
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
	VB_BURST_ARENA = 136 * 1024,
	VB_BURST_ENOUGH = 60 * 1024,    /* a full run: it leaves while the next is made, and stays in the cache */
	VB_BURST_SCRATCH = 4096,
};

struct vb_burst_run {
	struct vb_path path;
	uint32_t slot;                  /* of the destination QPNs */
	uint32_t segment_size;          /* of every packet but perhaps the last */
	uint32_t packets;
	uint32_t bytes;
	const uint8_t *data;            /* of all its packets, one after the other */
	struct vb_icrc_prefix prefix;   /* of packets of segment_size */
	uint16_t first_id;              /* its first packet's IP identification, for which the ICRCs were computed */
	bool counted;                   /* it was foretold; else 0 */
	bool closed;                    /* its last packet was a short one: no more may follow */
	bool datagrams;                 /* all of it is of UD queue pairs */
};

/* For simulators: packets are handed over as they are appended, headers alone. Payload is counted, neither copied nor summed. */
struct vb_burst_sink {
	void (*take)(struct vb_burst_sink *sink, const struct vb_path *path, const uint8_t *headers, size_t header_length,
		     size_t payload);
	uint32_t room;                  /* packets until the burst says that it is full */
};

/* Who can foretell with which identification a run on that path will begin if it is the next to leave. It may turn out otherwise:
 * then the run is renumbered. */
struct vb_burst_numbers {
	bool (*next)(const struct vb_burst_numbers *numbers, const struct vb_path *path, uint16_t *id);
};

struct vb_burst {
	uint32_t runs, packets;
	size_t arena_used;
	const struct vb_burst_numbers *numbers; /* NULL, as reset leaves it: all begin with 0 */
	struct vb_burst_sink *sink;     /* NULL, as reset leaves it: packets are made in the arena */
	struct vb_burst_run run[VB_BURST_RUNS];
	uint8_t scratch[VB_BURST_SCRATCH]; /* for payload that no pointer leads to, on its way into a packet */
	uint8_t arena[VB_BURST_ARENA];
};

/* Of zeroed memory, before the first time. */
void vb_burst_reset(struct vb_burst *burst);
/* The same, for packets that go to the sink. */
void vb_burst_reset_to(struct vb_burst *burst, struct vb_burst_sink *sink);

static inline bool vb_burst_is_empty(const struct vb_burst *burst)
{
	return burst->packets == 0;
}

/* Of all its packets. */
static inline size_t vb_burst_bytes(const struct vb_burst *burst)
{
	size_t bytes = 0;

	for (uint32_t i = 0; i < burst->runs; i++)
		bytes += burst->run[i].bytes;
	return bytes;
}

/* Is there surely room for one more packet with that much payload? */
bool vb_burst_has_room(const struct vb_burst *burst, size_t payload);

/* Append a packet: headers from `packet` (pad is set here), payload from the spans. Caller asked has_room. */
void vb_burst_append(struct vb_burst *burst, const struct vb_path *path, struct vb_roce_packet *packet,
		     const struct iovec *spans, unsigned span_count);

/* How many packets with that much behind the BTH, extension headers and payload, can join the last run; 0: they would begin another. */
uint32_t vb_burst_run_room(const struct vb_burst *burst, size_t payload);

/* Does the last run have room for no more packets like its own, but for a short one behind them? */
static inline bool vb_burst_run_is_full(const struct vb_burst *burst)
{
	const struct vb_burst_run *run = burst->runs ? &burst->run[burst->runs - 1] : NULL;

	return run && (run->closed || run->packets >= VB_BURST_RUN_PACKETS - 1 ||
		       run->bytes + run->segment_size > VB_BURST_RUN_BYTES);
}

/* How many of them a run holds that begins with one. */
static inline uint32_t vb_burst_run_limit(size_t payload)
{
	uint32_t fit = VB_BURST_RUN_BYTES / (uint32_t)(VB_BTH_LENGTH + payload + VB_ICRC_LENGTH);

	return fit < VB_BURST_RUN_PACKETS ? fit : VB_BURST_RUN_PACKETS;
}

/* It holds as much as one run can, and such a packet would begin another: better in the next burst than a fragment in this. */
static inline bool vb_burst_has_enough(const struct vb_burst *burst, size_t payload)
{
	return burst->arena_used >= VB_BURST_ENOUGH && vb_burst_run_room(burst, payload) == 0;
}

/* Append up to `count` packets like `packet` (which has no header but the BTH, or a RETH or an AETH besides), with ascending PSNs and
 * addresses and `each` bytes of payload, a multiple of four, one after another from `payload`. Of `count` packets the last
 * alone asks for an acknowledgement, if `packet` does. Returns how many there was room for. */
uint32_t vb_burst_append_many(struct vb_burst *burst, const struct vb_path *path, struct vb_roce_packet *packet,
			      const uint8_t *payload, size_t each, uint32_t count);

/* For simulators and captures: copy packet number `index` of run `run` to out as one datagram; returns its length, 0
 * when there is no room for it. */
size_t vb_burst_flatten(const struct vb_burst *burst, uint32_t run, uint32_t index, uint8_t *out, size_t room);

/* Packet number `index` of run `run`, where it stands in the arena. */
uint8_t *vb_burst_packet(struct vb_burst *burst, uint32_t run, uint32_t index, size_t *length);

/* The run will leave with other identifications: its ICRCs are computed anew, unless they are for these already. */
void vb_burst_renumber(struct vb_burst *burst, uint32_t run, uint16_t first_id);

/* For networks that lose on purpose: take those packets out of run `run` whose bits are set in `which`. Those behind them move up, and
 * get the ICRC of their new place. If nothing is left of the run it leaves the burst; returns whether it is still there. */
bool vb_burst_remove(struct vb_burst *burst, uint32_t run, uint64_t which);

#endif
