/* SPDX-License-Identifier: MIT
 *
 * Sending what no peer acknowledges: UC and UD differ in how one packet is made, not in how a queue is sent.
 */
#ifndef VB_ROCE_UNACKNOWLEDGED_H
#define VB_ROCE_UNACKNOWLEDGED_H

#include "queue/qp.h"
#include "roce/engine.h"

/* `advance` appends what comes next of the work under way. In line, because it is called for every packet. */
static inline bool vb_roce_send_unacknowledged(struct vb_qp *qp, vb_time now, struct vb_burst *out,
					       enum vb_roce_progress (*advance)(struct vb_qp *, vb_time, struct vb_burst *))
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;
	enum vb_roce_progress progress = VB_PROGRESS_SENT;
	uint32_t mtu = vb_roce_engine(qp)->mtu;

	while (progress == VB_PROGRESS_SENT && requester->send_index != qp->send.head) {
		progress = vb_burst_has_enough(out, mtu) ? VB_PROGRESS_BURST_FULL : advance(qp, now, out);
		if (requester->flow && vb_burst_run_is_full(out))
			vb_roce_flow_ask(qp, out);
	}
	vb_roce_flow_ask(qp, out);
	return progress == VB_PROGRESS_BURST_FULL;
}

#endif
