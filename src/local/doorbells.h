/* SPDX-License-Identifier: MIT
 *
 * Doorbells: how a process with many queue pairs gets to know which of them to look at. A peer that leaves something for one of
 * them writes its number down in the peer's own segment, one after the other in a ring; the process follows what others write.
 * It so looks at queue pairs for which something was left and at no others, and finds their numbers side by side.
 *
 * Each segment has as many doorbell rings (struct vb_segment_doorbells) as make it likely that two of its peers, and
 * two of its own threads, do not meet in one: for a peer those of its slot, for a thread that of its completion queue.
 *
 * Nothing depends on a doorbell but how soon: a thread that is stopped between taking a place and filling it keeps
 * those behind it from being heard, and a segment may show anything. The listener looks at every queue pair now and
 * then.
 */
#ifndef VB_LOCAL_DOORBELLS_H
#define VB_LOCAL_DOORBELLS_H

#include <stdbool.h>
#include <stdint.h>

#include "local/segment.h"

/* How far we have heard what a peer rings for us. */
struct vb_doorbells_heard {
	uint64_t next[VB_SEGMENT_LANES];   /* number of the next doorbell */
};

/* Ring for that queue pair of a peer, after something was left for it. */
void vb_doorbells_ring(struct vb_segment *own, uint32_t qpn, unsigned lane);

/* From now on. */
void vb_doorbells_attend(const struct vb_segment *theirs, uint32_t own_slot, struct vb_doorbells_heard *heard);
/* The queue pairs for which the peer has rung since: their QPNs (of whatever process: several peers share a ring), at most
 * `room`. `missed`: more than could be kept. */
unsigned vb_doorbells_hear(const struct vb_segment *theirs, uint32_t own_slot, struct vb_doorbells_heard *heard, uint32_t *qpn,
			   unsigned room, bool *missed);

#endif
