/* SPDX-License-Identifier: MIT
 *
 * Shared receive queues: basic ones, and those of XRC. Tag matching is refused.
 */
#include <errno.h>
#include <stdlib.h>

#include "io/cancellation.h"
#include "verbs/context.h"
#include "verbs/event_queue.h"
#include "verbs/events.h"
#include "verbs/explain.h"
#include "verbs/explain_objects.h"
#include "verbs/export.h"
#include "verbs/operations.h"
#include "verbs/quota.h"
#include "verbs/watch.h"

/* Into its XRC domain, as the last step: from now on packets find it. */
static int join_domain(struct vb_shared_receive_queue *srq, struct vb_xrcd *xrcd, struct ibv_cq *cq)
{
	struct vb_session *session = vb_context_of(xrcd->base.context)->session;
	uint32_t number;
	int error = vb_endpoint_reserve_qpn(session->endpoint, 0, &number);

	if (error != 0)
		return error;
	srq->xrcd = xrcd;
	vb_count_up(&xrcd->users);
	vb_xrc_add_srq(&xrcd->shared->domain, &srq->srq, &vb_completion_queue_of(cq)->cq, number);
	vb_endpoint_show_srq(session->endpoint, session->table, number, xrcd->shared->domain.handle, srq->srq.pd->handle);
	return 0;
}

static void leave_domain(struct vb_shared_receive_queue *srq)
{
	struct vb_session *session = vb_context_of(srq->xrcd->base.context)->session;

	vb_endpoint_hide_srq(session->endpoint, session->table, srq->srq.number);
	vb_xrc_remove_srq(&srq->srq);
	vb_endpoint_release_qpn(session->endpoint, srq->srq.number);
	vb_count_down(&srq->xrcd->users);
}

/* xrcd, cq: of XRC, else NULL. */
static struct ibv_srq *create(struct ibv_pd *pd, void *srq_context, struct ibv_srq_attr *attr, struct vb_xrcd *xrcd, struct ibv_cq *cq)
{
	struct vb_shared_receive_queue *srq;
	int error;

	error = vb_quota_take(pd->context, VB_COUNTED_SRQ);
	if (error != 0)
		return vb_fail_null(error);
	srq = calloc(1, sizeof(*srq));
	error = srq == NULL ? -ENOMEM :
			      vb_srq_init_in(&srq->srq, &vb_context_of(pd->context)->session->host, srq, vb_pd_of(pd), attr,
					     vb_allocator_of(pd));
	if (error == 0 && xrcd != NULL) {
		error = join_domain(srq, xrcd, cq);
		if (error != 0)
			vb_srq_fini(&srq->srq);
	}
	if (error != 0) {
		free(srq);
		vb_quota_give(pd->context, VB_COUNTED_SRQ);
		vb_explain_no_srq(pd->context, "ibv_create_srq", attr, -error);
		return vb_fail_null(error);
	}
	srq->base.context = pd->context;
	srq->base.srq_context = srq_context;
	srq->base.pd = pd;
	pthread_mutex_init(&srq->base.mutex, NULL);
	pthread_cond_init(&srq->base.cond, NULL);
	vb_domain_hold(vb_domain_of(pd));
	vb_context_hold(pd->context);
	vb_context_list_object(pd->context, &vb_context_of(pd->context)->srqs, &srq->node, &srq->handle);
	srq->base.handle = srq->handle;
	return &srq->base;
}

VB_EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init_attr)
{
	VB_UNCANCELLED;
	if (pd == NULL || init_attr == NULL)
		return vb_fail_null(-EINVAL);
	return create(pd, init_attr->srq_context, &init_attr->attr, NULL, NULL);
}
VB_EXPORT_COMPAT(ibv_create_srq);

static bool has_xrc_owners(struct ibv_context *context, const struct ibv_srq_init_attr_ex *attr)
{
	const uint32_t needed = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;

	return (attr->comp_mask & needed) == needed && attr->xrcd != NULL && attr->cq != NULL &&
	       vb_same_session(context, attr->xrcd->context) && vb_same_session(context, attr->cq->context);
}

struct ibv_srq *vb_verbs_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
	VB_UNCANCELLED;
	enum ibv_srq_type type = attr != NULL && (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) ? attr->srq_type : IBV_SRQT_BASIC;
	bool has_xrc = vb_profile_type(vb_profile_of_context(context), IBV_QPT_XRC_RECV) != NULL;
	int error = 0;

	if (attr == NULL || (attr->comp_mask & ~(uint32_t)(IBV_SRQ_INIT_ATTR_RESERVED - 1)) != 0)
		error = -EINVAL;
	else if (type != IBV_SRQT_BASIC && (type != IBV_SRQT_XRC || !has_xrc))
		error = -EOPNOTSUPP;
	else if (type == IBV_SRQT_XRC && !has_xrc_owners(context, attr))
		error = -EINVAL;
	else if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || attr->pd == NULL ||
		 !vb_same_session(context, attr->pd->context))
		error = -EINVAL;
	if (error != 0) {
		vb_explain_no_srq_ex(attr, -error);
		return vb_fail_null(error);
	}
	return create(attr->pd, attr->srq_context, &attr->attr, type == IBV_SRQT_XRC ? vb_xrcd_of(attr->xrcd) : NULL, attr->cq);
}

VB_EXPORT int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int attr_mask)
{
	VB_UNCANCELLED;
	int error;

	if (srq == NULL || attr == NULL)
		return vb_fail_number(EINVAL);
	if (srq->handle != vb_shared_receive_queue_of(srq)->handle)
		return vb_fail_number(ENOENT);
	error = -vb_srq_modify(&vb_shared_receive_queue_of(srq)->srq, attr, attr_mask);
	if (error != 0)
		vb_explain_srq_unchanged(&vb_shared_receive_queue_of(srq)->srq, attr, attr_mask, error);
	return vb_fail_number(error);
}
VB_EXPORT_COMPAT(ibv_modify_srq);

VB_EXPORT int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	VB_UNCANCELLED;
	if (srq == NULL || attr == NULL)
		return vb_fail_number(EINVAL);
	if (srq->handle != vb_shared_receive_queue_of(srq)->handle)
		return vb_fail_number(ENOENT);
	vb_srq_query(&vb_shared_receive_queue_of(srq)->srq, attr);
	return 0;
}
VB_EXPORT_COMPAT(ibv_query_srq);

VB_EXPORT int ibv_destroy_srq(struct ibv_srq *srq)
{
	VB_UNCANCELLED;
	struct vb_shared_receive_queue *own = vb_shared_receive_queue_of(srq);
	struct ibv_context *context;
	uint32_t reported;

	if (srq == NULL)
		return vb_fail_number(EINVAL);
	if (srq->handle != own->handle)
		return vb_fail_number(ENOENT);
	if (vb_count_read(&own->srq.users) > 0) {
		vb_explain_refused("ibv_destroy_srq", NULL, 0, EBUSY, "queue pairs still use it.",
				   "Destroy the queue pairs first.");
		return vb_fail_number(EBUSY);
	}
	context = srq->context;
	if (own->xrcd != NULL)
		leave_domain(own);
	vb_context_unlist_object(context, &own->node);
	reported = vb_event_queue_forget(&vb_context_of(context)->async, own, &own->events_reported);
	if (vb_watches)
		vb_watch_acknowledged(&srq->mutex, &srq->cond, &srq->events_completed, reported, "SRQ",
				      "ibv_ack_async_event");
	vb_events_wait_acknowledged(&srq->mutex, &srq->cond, &srq->events_completed, reported);
	vb_srq_fini(&own->srq);
	pthread_cond_destroy(&srq->cond);
	pthread_mutex_destroy(&srq->mutex);
	vb_domain_put(vb_domain_of(srq->pd));
	free(own);
	vb_quota_give(context, VB_COUNTED_SRQ);
	vb_context_put(context);
	return 0;
}
VB_EXPORT_COMPAT(ibv_destroy_srq);

int vb_verbs_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct ibv_recv_wr *ignored, **bad = bad_wr != NULL ? bad_wr : &ignored;
	struct vb_srq *core = &vb_shared_receive_queue_of(srq)->srq;
	int error = vb_srq_post(core, wr, bad);

	if (error != 0)
		vb_explain_srq_not_posted(core, *bad, error);
	if (core->host->observer)
		vb_verbs_observe_receives(core->host->observer, NULL, wr, error != 0 ? *bad : NULL);
	vb_endpoint_replenished(vb_context_of(srq->context)->session->endpoint);
	return vb_fail_number(error);
}
