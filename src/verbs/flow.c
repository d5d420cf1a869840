/* SPDX-License-Identifier: MIT
 *
 * Flow rules: which frames a raw packet queue pair receives. What a rule means is in queue/flow.h; here it becomes an object, which its
 * queue pair may not go before.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "io/cancellation.h"
#include "queue/flow.h"
#include "verbs/context.h"
#include "verbs/counters.h"
#include "verbs/explain.h"
#include "verbs/operations.h"

struct vb_flow {
	struct ibv_flow base;
	uint32_t handle;
	struct vb_queue_pair *qp;
	struct vb_flow_rule rule;
};

static struct ibv_flow *refuse(const struct ibv_qp *qp, int error, const char *cause, const char *fix)
{
	vb_explain_refused("ibv_create_flow", "QP", qp->qp_num, -error, cause, fix);
	return vb_fail_null(error);
}

static struct ibv_flow *refuse_rule(const struct ibv_qp *qp, int error, const char *what)
{
	char cause[96];

	if (error == -EINVAL)
		return refuse(qp, error, "the rule contradicts itself: a spec of a wrong size, two of one layer, or an unknown flag.",
			      "See ibv_create_flow(3): size is that of the spec, port is 1, defaults and sniffers have no specs.");
	snprintf(cause, sizeof(cause), "rules with %s are not known here.", what);
	return refuse(qp, error, cause, "Known are ETH, IPV4, IPV4_EXT, IPV6, TCP and UDP, and the actions TAG, DROP and COUNT.");
}

static void hold_counters(struct vb_flow_rule *rule)
{
	if (rule->counters == NULL)
		return;
	rule->counts = &vb_flow_counters_of(rule->counters)->counts;
	vb_count_up(&vb_flow_counters_of(rule->counters)->rules);
}

static void let_go_of_counters(struct vb_flow_rule *rule)
{
	if (rule->counters != NULL)
		vb_count_down(&vb_flow_counters_of(rule->counters)->rules);
}

struct ibv_flow *vb_verbs_create_flow(struct ibv_qp *qp, struct ibv_flow_attr *attr)
{
	VB_UNCANCELLED;
	struct vb_context *context;
	struct vb_flow *flow;
	const char *what = NULL;
	int error;

	if (qp == NULL || attr == NULL)
		return vb_fail_null(-EINVAL);
	if (qp->handle != vb_queue_pair_of(qp)->qp->qpn)
		return vb_fail_null(-ENOENT);
	if (qp->qp_type != IBV_QPT_RAW_PACKET)
		return refuse(qp, -EINVAL, "only raw packet queue pairs receive by flow rules here.", NULL);
	if (attr->port != 1)
		return refuse(qp, -EINVAL, "the rule names a port that there is not.", "Ports are counted from 1: set attr->port.");
	flow = calloc(1, sizeof(*flow));
	if (flow == NULL)
		return vb_fail_null(-ENOMEM);
	context = vb_context_of(qp->context);
	flow->qp = vb_queue_pair_of(qp);
	error = vb_flow_rule_parse(&flow->rule, attr, &what);
	if (error != 0) {
		free(flow);
		return refuse_rule(qp, error, what);
	}
	if (flow->rule.counters != NULL && !vb_same_session(flow->rule.counters->context, qp->context)) {
		free(flow);
		return refuse(qp, -EINVAL, "the counters belong to another open device.", NULL);
	}
	hold_counters(&flow->rule);
	error = vb_endpoint_steer(context->session->endpoint, flow->qp->qp, &flow->rule);
	if (error != 0) {
		let_go_of_counters(&flow->rule);
		free(flow);
		return vb_fail_null(error);
	}
	vb_lock_take(&context->session->lock);
	flow->base.handle = flow->handle = vb_session_handle(context->session);
	vb_lock_release(&context->session->lock);
	flow->base.context = qp->context;
	vb_count_up(&flow->qp->flows);
	vb_context_hold(qp->context);
	return &flow->base;
}

int vb_verbs_destroy_flow(struct ibv_flow *public)
{
	VB_UNCANCELLED;
	struct vb_flow *flow = (struct vb_flow *)public;
	struct ibv_context *context;

	_Static_assert(offsetof(struct vb_flow, base) == 0, "the public object comes first");
	if (public == NULL)
		return vb_fail_number(EINVAL);
	if (public->handle != flow->handle)
		return vb_fail_number(ENOENT);
	context = public->context;
	vb_endpoint_unsteer(vb_context_of(context)->session->endpoint, &flow->rule);
	vb_count_down(&flow->qp->flows);
	let_go_of_counters(&flow->rule);
	free(flow);
	vb_context_put(context);
	return 0;
}
