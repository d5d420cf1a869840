/* SPDX-License-Identifier: MIT
 *
 * An observer keeps a record of work: a capture. Called as things happen, with queue locks held: notes and returns.
 */
#ifndef VB_QUEUE_OBSERVER_H
#define VB_QUEUE_OBSERVER_H

#include <infiniband/verbs.h>
#include <stdint.h>

#include "base/time.h"

struct vb_completion;
struct vb_qp;
struct vb_send_wqe;

struct vb_queue_observer {
	void (*posted_send)(const struct vb_queue_observer *self, const struct vb_qp *qp, const struct vb_send_wqe *wqe,
			    vb_time now);
	/* qp NULL: to a shared queue. */
	void (*posted_receive)(const struct vb_queue_observer *self, const struct vb_qp *qp,
			       const struct ibv_recv_wr *wr, vb_time now);
	void (*completed)(const struct vb_queue_observer *self, const struct vb_completion *completion);
	void (*event)(const struct vb_queue_observer *self, uint32_t qpn, enum ibv_event_type event);
};

#endif
