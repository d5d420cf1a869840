/* SPDX-License-Identifier: MIT
 *
 * What queues and engines may ask of the program that runs them (libibverbs, the simulator, a fuzzer). Called with queue locks
 * held: an implementation only notes the event and wakes a thread; it never calls back into a queue.
 */
#ifndef VB_QUEUE_HOST_H
#define VB_QUEUE_HOST_H

#include <infiniband/verbs.h>
#include <stdint.h>

#include "base/counters.h"
#include "base/time.h"

struct vb_qp;
struct vb_cq;
struct vb_srq;
struct vb_wq;
struct vb_ah;
struct vb_memory;
struct vb_profile;
struct vb_queue_observer;
struct vb_queue_watch;

struct vb_path;

/* A receive buffer that queue pairs share, and how many send into it in bulk. Those of several lanes (schedule/lane.h) count as if they
 * shared one, and their threads have no lock in common. */
struct vb_receive_share {
	uint32_t bytes;                  /* as the kernel counts them; does not change */
	uint32_t period, senders, senders_before; /* atomic */
	uint64_t wide;                   /* atomic: who reads much at once (roce/wide.c) */
};

struct vb_queue_host {
	/* A completion event is due on the CQ's channel. Caller holds cq->lock. */
	void (*completion_event)(struct vb_cq *cq);
	/* Moderation: look at the CQ again at `when` (call vb_cq_expire). Caller holds cq->lock. */
	void (*completion_deadline)(struct vb_cq *cq, vb_time when);
	/* Asynchronous events of affiliated objects. Caller holds that object's lock. */
	void (*qp_event)(struct vb_qp *qp, enum ibv_event_type event);
	void (*cq_event)(struct vb_cq *cq, enum ibv_event_type event);
	void (*srq_event)(struct vb_srq *srq, enum ibv_event_type event);
	void (*wq_event)(struct vb_wq *wq, enum ibv_event_type event);
	/* Optional. A connection has made the queue pair ready to send (vb_qp_connected). Caller holds its lock. */
	void (*qp_connected)(struct vb_qp *qp);
	/* The address behind an application's handle. */
	const struct vb_ah *(*address_of)(struct ibv_ah *ah);
	uint32_t (*random)(void *context);
	/* UDP port to send from by this path; NULL: all are alike. */
	uint16_t (*source_port)(const struct vb_queue_host *host, const struct vb_path *path, uint32_t destination_qpn);
	void *context;
	const struct vb_profile *profile; /* of the device: its limits, and what may be asked of it */
	struct vb_memory *memory;
	struct vb_counters *counters;
	const struct vb_queue_observer *observer; /* NULL: no record is kept (queue/observer.h) */
	const struct vb_queue_watch *watch; /* NULL: no watch (queue/watch.h) */
	const char *device;              /* its name; NULL: none */
	struct vb_receive_share *share;  /* NULL: not known */
	uint32_t interface_index;        /* of the interface that it is, for raw packets; 0: none */
	const void *policy;              /* the engine's, of whatever it may choose; NULL: the device's or the process's */
	const uint16_t *pkeys;           /* atomic: the port's, as many as the profile's table has; NULL: all are the default one */
	const uint8_t *lmc;              /* atomic: how many low bits of the port's LIDs differ; NULL: there are no LIDs */
};

#endif
