/* SPDX-License-Identifier: MIT
 *
 * What a thread looks at by itself when it polls an empty CQ: queue pairs that complete there and that a link can serve one by
 * one, without a pass over all. Threads with CQs and queue pairs of their own so have nothing to do with each other. Made with
 * the CQ (vb_cq.poller); a link puts its queue pairs into the lists.
 */
#ifndef VB_SCHEDULE_POLLER_H
#define VB_SCHEDULE_POLLER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/lock.h"
#include "schedule/lane.h"

struct vb_poller {
	struct vb_lock lock;
	struct vb_list senders, receivers; /* of queue pairs; those that do both are in the first */
	uint32_t pairs;                    /* atomic: how many in both */
	uint32_t uses;                     /* atomic: how many of the CQ's users they are */
	const uint32_t *users;             /* atomic: the CQ's, queue pairs that a link does not serve one by one among them */
	uint32_t polls;                    /* atomic, more or less */
	uint32_t vain_polls;               /* atomic: in succession, more or less */
	uint8_t lane;                      /* atomic: of all queue pairs that complete here; VB_NO_LANE: there was none yet */
	uint32_t lane_polls;               /* atomic, more or less */
};

/* `users`: of the CQ. */
void vb_poller_init(struct vb_poller *poller, const uint32_t *users);

/* A queue pair of that lane completes there from now on. With another's there, it is all lanes that have to be looked at: the first, whose
 * pass does that, stands for them. */
void vb_poller_join_lane(struct vb_poller *poller, uint8_t lane);

/* A hint. */
static inline bool vb_poller_has_pairs(const struct vb_poller *poller)
{
	return __atomic_load_n(&poller->pairs, __ATOMIC_RELAXED) != 0;
}

#endif
