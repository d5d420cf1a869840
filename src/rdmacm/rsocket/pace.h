/* SPDX-License-Identifier: MIT
 *
 * A thread that moves much goes on looking for a while before it sleeps. A sleeper is woken twice, the engine thread first, and
 * until then its peer runs out of room, or out of data, and sleeps too: on a stream one sleep brings the next one about, and a
 * stream in which both sides sleep at each turn moves a fraction of what it could.
 *
 * So who has moved VB_PACE_MUCH since it last slept looks for VB_PACE_LOOK, longer than a peer takes for half a receive buffer.
 * Where it sees nothing several times in succession, because the peer is slow or a third party sets the pace, the thread sleeps
 * at once for a while and tries again later: to look cannot cost more than a small share of its time (unit/rdmacm/rsocket_pace).
 *
 * Pure. One for each thread.
 */
#ifndef VB_RDMACM_RSOCKET_PACE_H
#define VB_RDMACM_RSOCKET_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"

#define VB_PACE_LOOK VB_MICROSECONDS(300)

enum {
	VB_PACE_MUCH = 65536,            /* bytes */
	VB_PACE_VAIN_MOST = 3,           /* looks in succession */
	VB_PACE_REST = 32,               /* sleeps of a thread that has moved much, before it looks again */
};

struct vb_pace {
	uint64_t moved;                  /* bytes since the last sleep */
	unsigned vain, rest;
};

static inline void vb_pace_moved(struct vb_pace *pace, uint64_t bytes)
{
	pace->moved += bytes;
}

/* The thread has to wait: for how long it is to look, at least. */
vb_time vb_pace_length(const struct vb_pace *pace);
/* It has looked so long as it was told to, or has seen what it waited for. */
void vb_pace_saw(struct vb_pace *pace);
void vb_pace_saw_nothing(struct vb_pace *pace);

#endif
