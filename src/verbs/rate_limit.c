/* SPDX-License-Identifier: MIT
 *
 * ibv_modify_qp_rate_limit: how fast a raw packet queue pair sends, and how much at once. What it means is in raw/raw.h.
 */
#include <errno.h>

#include "io/cancellation.h"
#include "profiles/limits.h"
#include "verbs/context.h"
#include "verbs/explain.h"
#include "verbs/operations.h"

int vb_verbs_modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr)
{
	VB_UNCANCELLED;
	struct vb_qp *core;
	bool is_ready;
	vb_time now;

	if (qp == NULL || attr == NULL)
		return vb_fail_number(EINVAL);
	core = vb_queue_pair_of(qp)->qp;
	if (qp->handle != core->qpn)
		return vb_fail_number(ENOENT);
	if (qp->qp_type != IBV_QPT_RAW_PACKET) {
		vb_explain_refused("ibv_modify_qp_rate_limit", "QP", qp->qp_num, EOPNOTSUPP,
				   "only raw packet queue pairs have rate limits.", NULL);
		return vb_fail_number(EOPNOTSUPP);
	}
	now = vb_endpoint_now();
	vb_lock_take(&core->lock);
	is_ready = core->state == IBV_QPS_RTS && attr->comp_mask == 0 && attr->rate_limit <= VB_MAX_RATE_LIMIT;
	if (is_ready) {
		core->attr.rate_limit = attr->rate_limit;
		core->burst_bytes = attr->max_burst_sz;
		core->transport->modified(core, core->state, IBV_QP_RATE_LIMIT, now);
		/* What waited may go now. */
		vb_endpoint_transmit(vb_context_of(qp->context)->session->endpoint, core, now);
	}
	vb_lock_release(&core->lock);
	if (is_ready)
		return 0;
	vb_explain_refused("ibv_modify_qp_rate_limit", "QP", qp->qp_num, EINVAL,
			   "the queue pair is not in RTS, comp_mask is not 0, or the rate is beyond the device's.",
			   "See packet_pacing_caps of ibv_query_device_ex.");
	return vb_fail_number(EINVAL);
}
