/* SPDX-License-Identifier: MIT
 *
 * Who wants to be called when: a binary heap of queue pairs, and a short list of completion queues with moderation.
 *
 * Lazy: a QP's entry is moved only when its deadline comes nearer, or when it fires; a deadline that moves away (an
 * acknowledgement came) leaves the entry where it is, and the thread that finds it due asks the engine again. So a busy QP
 * touches the heap once per timeout and not once per packet.
 *
 * All functions lock for themselves; nothing is taken under the lock.
 */
#ifndef VB_SCHEDULE_TIMERS_H
#define VB_SCHEDULE_TIMERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/mutex.h"
#include "base/time.h"

struct vb_cq;
struct vb_qp;

struct vb_timer_entry {
	vb_time when;
	struct vb_qp *qp;
};

struct vb_cq_timer {
	vb_time when;
	struct vb_cq *cq;
};

struct vb_timers {
	struct vb_mutex lock;
	struct vb_timer_entry *heap;       /* heap[0] is unused, so that index 0 means "not in the heap" */
	uint32_t count, room;
	struct vb_cq_timer *cq;
	uint32_t cq_count, cq_room;
	vb_time next;                      /* earliest of all; read without the lock as a hint */
	vb_time sleeper;                   /* when the engine thread wakes by itself; 0: it is awake */
};

void vb_timers_init(struct vb_timers *timers);
void vb_timers_fini(struct vb_timers *timers);

/* Room for that many queue pairs: then arming cannot fail. 0 or -ENOMEM. */
int vb_timers_reserve(struct vb_timers *timers, uint32_t queue_pairs);

/* Be called at `when` at the latest. True: the engine thread sleeps longer than that and must be woken. */
bool vb_timers_arm(struct vb_timers *timers, struct vb_qp *qp, vb_time when);
void vb_timers_disarm(struct vb_timers *timers, struct vb_qp *qp);
/* A QP whose time has come, taken out; NULL: none. */
struct vb_qp *vb_timers_pop(struct vb_timers *timers, vb_time now);

/* The same for completion queues; VB_TIME_NEVER takes it out. */
bool vb_timers_arm_cq(struct vb_timers *timers, struct vb_cq *cq, vb_time when);
struct vb_cq *vb_timers_pop_cq(struct vb_timers *timers, vb_time now);

static inline vb_time vb_timers_next(const struct vb_timers *timers)
{
	return __atomic_load_n(&timers->next, __ATOMIC_RELAXED);
}

/* The engine thread goes to sleep until the time returned, or says that it is awake. */
vb_time vb_timers_sleep(struct vb_timers *timers);
void vb_timers_awake(struct vb_timers *timers);

#endif
