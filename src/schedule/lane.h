/* SPDX-License-Identifier: MIT
 *
 * Threads that have CQs and queue pairs of their own receive and send without meeting: each has a lane, that is a socket of its own to
 * which packets for its queue pairs come, the lock of a pass over it, and the list of those that have more to send. Lane 0 is
 * everybody's: what has no other belongs there, and its lock is schedule.progress, that of a pass over all links.
 *
 * Which socket a packet came by is a matter of speed alone. A pass delivers whatever it finds, to queue pairs of other lanes under their
 * own locks; only what leaves together with others' (links/udp/transmit.c) is left to the lane that a queue pair belongs to.
 *
 * Who waits for a lane's lock holds no other lane's: a thread that has schedule.progress may take one after the other.
 */
#ifndef VB_SCHEDULE_LANE_H
#define VB_SCHEDULE_LANE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/lock.h"
#include "base/time.h"
#include "schedule/spinner.h"

enum { VB_KEPT_PROBES = 64, VB_NO_LANE = 0xff };

/* A lane that a thread has passed over since then is that thread's. */
#define VB_LANE_IS_POLLED VB_MICROSECONDS(20)

struct vb_lane {
	struct vb_lock own __attribute__((aligned(VB_LINE)));
	struct vb_lock *lock;              /* that one, or schedule.progress */
	vb_time polled;                    /* atomic: when a thread that polls last passed over it, more or less; 0: never */
	uint32_t members;                  /* atomic: queue pairs that belong there; not of lane 0 */

	/* Under the lock. */
	uint64_t sent __attribute__((aligned(VB_LINE))); /* how often links have handed something to the system */
	bool by_engine;                    /* the pass is the engine thread's */
	bool unfinished;                   /* a queue pair has more to send, and this pass goes on for it */
	unsigned probes;
	uint64_t probe[VB_KEPT_PROBES];    /* nonces seen, to be told to verbenad */

	struct vb_lock active_lock __attribute__((aligned(VB_LINE)));
	struct vb_list active;             /* of queue pairs */
	uint32_t active_count;             /* atomic hint */
};

#endif
