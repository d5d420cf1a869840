/* SPDX-License-Identifier: MIT
 *
 * Whose turn it is to ask a listener for a connection (not by stream: streams_records.c).
 *
 * Requests to one destination leave in the order of the calls to rdma_connect, and a listener is asked in that order. Programs count on
 * it: the n-th connection that one side makes is the n-th that the other is asked for (perftest -q). With the kernel it follows from
 * rdma_connect sending the REQ and from no REQ that was refused being repeated. Here a REQ that is refused because no program listens is
 * sent again a moment later (link.c), and meanwhile a later one may find the listener there. So a call waits, in a list and not in the
 * program's thread, while an earlier one of this process to the same destination
 *
 *   - was refused and will be sent again, or
 *   - has not been answered, for VB_RDMACM_TURN_PATIENCE at most, and nothing has shown that there is a listener: a REJ is the daemon's
 *     and comes at once, a REP is the program's, which may wait with it for all that it will be asked for.
 *
 * Once one was answered the others go together, as does what is called while they are under way.
 *
 * All of it under the link's lock.
 */
#ifndef VB_RDMACM_TURNS_H
#define VB_RDMACM_TURNS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/time.h"
#include "wire/cm_command.h"

#define VB_RDMACM_TURN_PATIENCE VB_MILLISECONDS(100)

enum vb_rdmacm_turn_state {
	VB_RDMACM_TURN_NONE,             /* does not ask, or was answered */
	VB_RDMACM_TURN_WAITS,            /* its REQ was never sent */
	VB_RDMACM_TURN_ASKED,            /* not answered yet */
	VB_RDMACM_TURN_REFUSED,          /* sends its REQ again when `at` has come */
};

struct vb_rdmacm_destination;

struct vb_rdmacm_turn {
	struct vb_list node;
	struct vb_rdmacm_destination *destination;
	enum vb_rdmacm_turn_state state;
	uint64_t number;                 /* of the call */
	vb_time at;                      /* ASKED: since; REFUSED: until */
	unsigned refusals;               /* of those before it as well, while it waited for them */
};

/* Of one process. */
struct vb_rdmacm_turns {
	struct vb_list destinations;
	uint64_t calls;
};

void vb_rdmacm_turn_init(struct vb_rdmacm_turn *turn);

/* rdma_connect was called. 1: it may ask now (state ASKED); 0: it waits; -ENOMEM. */
int vb_rdmacm_turn_take(struct vb_rdmacm_turns *turns, struct vb_rdmacm_turn *turn, uint32_t port_space, const struct vb_cm_address *to,
			vb_time now);

/* A new daemon is to be asked, at once where it is the first: also one that was answered, of which the program has not heard. */
void vb_rdmacm_turn_repeat(struct vb_rdmacm_turns *turns, struct vb_rdmacm_turn *turn, uint32_t port_space, const struct vb_cm_address *to);

/* Its REQ was sent, or nothing could be. */
void vb_rdmacm_turn_asked(struct vb_rdmacm_turn *turn, vb_time now);

/* No program listens, and it asks again at that time. The weight is added to its refusals. */
void vb_rdmacm_turn_refused(struct vb_rdmacm_turn *turn, unsigned weight, vb_time again);

/* It asks no more. `listens`: the others need not wait for each other. */
void vb_rdmacm_turn_leave(struct vb_rdmacm_turn *turn, bool listens);

/* Which is to ask now (NULL: none), and when is one (VB_TIME_NEVER: none waits)? */
struct vb_rdmacm_turn *vb_rdmacm_turns_next(const struct vb_rdmacm_turns *turns, vb_time now);
vb_time vb_rdmacm_turns_deadline(const struct vb_rdmacm_turns *turns);

/* After fork: the ids are the parent's. */
void vb_rdmacm_turns_forget(struct vb_rdmacm_turns *turns);

#endif
