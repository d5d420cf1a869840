/* SPDX-License-Identifier: MIT
 *
 * Between the files of the queue pair: emptying its work queues with flush errors (caller holds qp->lock), or without a trace.
 */
#ifndef VB_QUEUE_QP_FLUSH_H
#define VB_QUEUE_QP_FLUSH_H

#include "base/time.h"

struct vb_qp;

void vb_qp_flush_sends(struct vb_qp *qp, vb_time now);
void vb_qp_flush_receives(struct vb_qp *qp, vb_time now);
void vb_qp_discard_completions(struct vb_qp *qp);

#endif
