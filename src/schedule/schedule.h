/* SPDX-License-Identifier: MIT
 *
 * Which queue pairs of this process have something to do, and who is told: the state that links and the engine thread
 * share. It knows no link and no engine.
 *
 *   binding    a published queue pair: its counters, and the link that carries it
 *   lane       what threads have to themselves (schedule/lane.h); of each, queue pairs with more to send than one call may, or whose
 *              sending was put off until the next pass
 *   timers     who wants to be called when
 *   spinner    which threads poll, and whether work may be left to them (schedule/spinner.h, schedule/naps.h)
 *   progress   the lock of a pass over all links; one thread at a time
 *
 * Locks: base/lock_order.h. An active_lock and the timers' are never held at once.
 */
#ifndef VB_SCHEDULE_SCHEDULE_H
#define VB_SCHEDULE_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/counters.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/mutex.h"
#include "base/time.h"
#include "queue/qp.h"
#include "schedule/lane.h"
#include "schedule/spinner.h"
#include "schedule/timers.h"
#include "wire/daemon_message.h"

struct vb_link;
struct vb_meetings;
struct vb_shortcut;

/* A published queue pair; qp->scheduler points to it. */
struct vb_binding {
	struct vb_qp *qp;                  /* NULL: none. Written with release, so that the rest is there */
	struct vb_counters *counters;
	struct vb_link *wire;              /* the link of its device, which carries it unless another one does */
	struct vb_link *carrier;           /* atomic: changes under qp->lock */
	uint8_t home;                      /* its lane while its wire carries it */
	uint8_t lane;                      /* atomic: its lane; changes with the carrier */
};

struct vb_schedule {
	uint32_t slot;                     /* the upper bits of this process's queue pair numbers */
	bool abandoned;                    /* we are a forked child: all of it is the parent's */
	bool is_observed;                  /* packets must be there to be seen, and lost, on purpose */
	int event_fd;                      /* raised for the engine thread */
	struct vb_daemon_page *page;       /* counters that verbenad sees */
	const struct vb_counters *shaped[VB_DAEMON_PAGE_DEVICES]; /* atomic: devices with a worse network on purpose, by their counters */
	struct vb_link *links;             /* all of them, in the order in which a pass serves them */
	/* Some of them, in that order; a thread that waits for an answer would else look at all of them for each vain poll, four times. */
	struct vb_link *flushed, *finished, *spun; /* whose drivers have that */
	struct vb_link *used;              /* under progress: that carried queue pairs at change `changes_seen` */
	uint32_t changes, changes_seen;    /* of who carries a queue pair. Atomic; under progress */
	uint32_t peerless;                 /* atomic: queue pairs without a peer of their own (UD, raw packets) */
	struct vb_shortcut *shortcut;      /* for datagrams, from the beginning to the end; NULL: none (links/shortcut.h) */
	struct vb_meetings *meetings;      /* for streams, in the same way (links/meeting.h) */

	/* Looked at by every thread that polls: in a line of its own, as is what only its holder uses. */
	struct vb_lock progress __attribute__((aligned(VB_LINE)));
	unsigned passes __attribute__((aligned(VB_LINE)));
	bool is_brief;                     /* under progress: this pass did not look at the sockets of RoCE, though it might have */

	uint32_t lanes;                    /* atomic: lanes beyond have no socket. It does not become less */
	struct vb_link *laned;             /* the link whose queue pairs may have lanes; NULL: none */
	struct vb_lane lane[VB_DAEMON_LANES];
	bool told;                         /* atomic: the engine thread was woken for what was put off, and has not looked since */
	struct vb_timers timers;
	struct vb_spinner spinner;

	struct vb_binding binding[VB_DAEMON_INDICES];
};

#define VB_SCHEDULE_COUNTERS(schedule) (&(schedule)->page->counters)

void vb_schedule_init(struct vb_schedule *schedule);
void vb_schedule_fini(struct vb_schedule *schedule);

/* The calling thread polls an empty CQ: let others have its processor for a moment. Returns when that was over. */
vb_time vb_schedule_yield(void);
/* Wake the engine thread. */
void vb_schedule_kick(struct vb_schedule *schedule);

/* To be served in the next pass over its lane: enlist returns how many there are with it, 0: it was there already; mark_active also
 * has the engine thread make that pass. */
uint32_t vb_schedule_enlist(struct vb_schedule *schedule, struct vb_qp *qp);
void vb_schedule_mark_active(struct vb_schedule *schedule, struct vb_qp *qp);
/* This thread has posted sends. Returns how many requests, with these as one, since it last polled an empty CQ
 * (schedule/posting.h). */
unsigned vb_schedule_note_post(struct vb_schedule *schedule, vb_time now);
/* Where a thread of the application was last seen to run; -1: nowhere. */
int vb_schedule_application_cpu(const struct vb_schedule *schedule);
/* Leave it to the next pass, which a thread that polls will make in a moment. False: no thread would see to it soon. */
bool vb_schedule_defer(struct vb_schedule *schedule, struct vb_qp *qp, vb_time now);
/* The engine thread is about to sleep: may it not, because of what is put off or unfinished? It is told of what comes later. */
bool vb_schedule_has_active(struct vb_schedule *schedule);
/* The same, without a promise to be told. */
bool vb_schedule_waits(const struct vb_schedule *schedule);
bool vb_schedule_is_enlisted(const struct vb_qp *qp);
void vb_schedule_forget(struct vb_schedule *schedule, struct vb_qp *qp);
/* The next of a lane, taken out; NULL: none. */
struct vb_qp *vb_schedule_next_active(struct vb_lane *lane);

/* Be called at that time at the latest; NEVER: as before. Caller holds qp->lock. */
void vb_schedule_arm(struct vb_schedule *schedule, struct vb_qp *qp, vb_time deadline);

/* A new verbenad asks where a lane's socket stands in its group. The engine thread answers. Caller holds the lane's lock. */
void vb_schedule_note_probe(struct vb_schedule *schedule, struct vb_lane *lane, uint64_t nonce);

static inline uint32_t vb_schedule_index(uint32_t qpn)
{
	return qpn & (VB_DAEMON_INDICES - 1);
}

/* The published queue pair of that number, or NULL. */
static inline struct vb_qp *vb_schedule_find(const struct vb_schedule *schedule, uint32_t qpn)
{
	if (qpn >> VB_DAEMON_INDEX_BITS != schedule->slot)
		return NULL;
	/* Pairs with the release of publishing: all of the queue pair is there. */
	return __atomic_load_n(&schedule->binding[vb_schedule_index(qpn)].qp, __ATOMIC_ACQUIRE);
}

/* A hint: how many queue pairs of all lanes wait to be served. */
static inline uint32_t vb_schedule_active(const struct vb_schedule *schedule)
{
	uint32_t count = __atomic_load_n(&schedule->lane[0].active_count, __ATOMIC_RELAXED);

	for (uint32_t i = 1, lanes = __atomic_load_n(&schedule->lanes, __ATOMIC_RELAXED); i < lanes; i++)
		count += __atomic_load_n(&schedule->lane[i].active_count, __ATOMIC_RELAXED);
	return count;
}

/* Must packets of that device be there, though memory would do? */
static inline bool vb_schedule_is_shaped(const struct vb_schedule *schedule, const struct vb_counters *device)
{
	for (unsigned i = 0; i < VB_DAEMON_PAGE_DEVICES; i++)
		if (device && __atomic_load_n(&schedule->shaped[i], __ATOMIC_RELAXED) == device)
			return true;
	return false;
}

/* Where a queue pair is published. */
static inline struct vb_schedule *vb_schedule_of(const struct vb_qp *qp)
{
	struct vb_binding *binding = qp->scheduler;

	return vb_container_of(binding - vb_schedule_index(qp->qpn), struct vb_schedule, binding[0]);
}

#endif
