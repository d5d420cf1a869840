/* SPDX-License-Identifier: MIT
 *
 * The misuse watch: what a program must not do and usually gets away with, until it does not. Each kind is told once for
 * its object. All of it does nothing unless vb_watches is set.
 */
#ifndef VB_VERBS_WATCH_H
#define VB_VERBS_WATCH_H

#include "verbs/objects.h"

/* Fit struct vb_queue_watch; caller holds qp->lock. */
void vb_watch_posting_sends(struct vb_qp *qp);
void vb_watch_posted_receives(struct vb_qp *qp, uint32_t count);
void vb_watch_completing_send(struct vb_qp *qp, const struct vb_send_wqe *wqe, enum ibv_wc_status status, bool wanted);
void vb_watch_completing_receive(struct vb_qp *qp);

/* The queues of the queue pair are empty again: it was reset, or is about to be destroyed. Caller holds its lock. */
void vb_watch_forget(struct vb_queue_pair *qp);
void vb_watch_free(struct vb_queue_pair *qp);

/* Before a region goes. Caller holds no lock. */
void vb_watch_deregister(const struct ibv_mr *mr);

/* Before waiting for events to be acknowledged: tells when that takes long. `object` is "CQ", "QP" or "SRQ". */
void vb_watch_acknowledged(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *completed, uint32_t reported,
			   const char *object, const char *acknowledge);

/* Put guards before the read functions of an extended CQ. */
void vb_watch_fields(struct vb_completion_queue *cq);

#endif
