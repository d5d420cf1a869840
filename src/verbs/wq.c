/* SPDX-License-Identifier: MIT
 *
 * Work queues of receives (queue/wq.h), for the indirection tables of receive side scaling (verbs/rwq_table.c). What adapters can do to the
 * frames on the way into one (enum ibv_wq_flags) is not advertised and refused.
 */
#include <errno.h>
#include <stdlib.h>

#include "io/cancellation.h"
#include "queue/observer.h"
#include "verbs/context.h"
#include "verbs/event_queue.h"
#include "verbs/events.h"
#include "verbs/explain.h"
#include "verbs/operations.h"
#include "verbs/quota.h"
#include "verbs/watch.h"

static struct ibv_wq *refuse(int error, const char *cause, const char *fix)
{
	vb_explain_refused("ibv_create_wq", NULL, 0, -error, cause, fix);
	return vb_fail_null(error);
}

static int check(struct ibv_context *context, const struct ibv_wq_init_attr *attr)
{
	if (vb_profile_type(vb_profile_of_context(context), IBV_QPT_RAW_PACKET) == NULL)
		return -EOPNOTSUPP;
	if (attr->wq_type != IBV_WQT_RQ || (attr->comp_mask & ~(uint32_t)IBV_WQ_INIT_ATTR_FLAGS) != 0)
		return -EINVAL;
	if ((attr->comp_mask & IBV_WQ_INIT_ATTR_FLAGS) && attr->create_flags != 0)
		return -EOPNOTSUPP;
	return attr->pd != NULL && attr->cq != NULL && vb_same_session(context, attr->pd->context) &&
			       vb_same_session(context, attr->cq->context) ? 0 : -EINVAL;
}

static int create_core(struct vb_work_queue *wq, struct vb_session *session, const struct ibv_wq_init_attr *attr)
{
	struct vb_wq_config config = {
		.pd = vb_pd_of(attr->pd),
		.cq = &vb_completion_queue_of(attr->cq)->cq,
		.max_wr = attr->max_wr,
		.max_sge = attr->max_sge,
		.allocator = vb_allocator_of(attr->pd),
	};
	int error = vb_endpoint_reserve_qpn(session->endpoint, 0, &config.number);

	if (error != 0)
		return error;
	error = vb_wq_init(&wq->wq, &session->host, wq, &config);
	if (error != 0)
		vb_endpoint_release_qpn(session->endpoint, config.number);
	return error;
}

/* The header's inline makes its mutex, and sets its context. */
static void fill_public(struct vb_work_queue *wq, struct ibv_context *context, const struct ibv_wq_init_attr *attr)
{
	wq->base.context = context;
	wq->base.pd = attr->pd;
	wq->base.cq = attr->cq;
	wq->base.wq_num = wq->wq.receives.number;
	wq->base.state = IBV_WQS_RESET;
	wq->base.wq_type = IBV_WQT_RQ;
	wq->base.post_recv = vb_verbs_post_wq_recv;
	vb_context_list_object(context, &vb_context_of(context)->wqs, &wq->node, &wq->handle);
	wq->base.handle = wq->handle;
	vb_domain_hold(vb_domain_of(attr->pd));
	vb_context_hold(context);
}

struct ibv_wq *vb_verbs_create_wq(struct ibv_context *context, struct ibv_wq_init_attr *attr)
{
	VB_UNCANCELLED;
	struct vb_work_queue *wq;
	int error;

	if (attr == NULL)
		return vb_fail_null(-EINVAL);
	error = check(context, attr);
	if (error != 0)
		return refuse(error, "the device has no raw packets, attributes ask for something that is not supported, or PD and CQ are "
				     "not of this open device.", "A work queue is of type IBV_WQT_RQ, has a PD and a CQ, and no flags.");
	error = vb_quota_take(context, VB_COUNTED_WQ);
	if (error != 0)
		return vb_fail_null(error);
	wq = calloc(1, sizeof(*wq));
	error = wq == NULL ? -ENOMEM : create_core(wq, vb_context_of(context)->session, attr);
	if (error != 0) {
		free(wq);
		vb_quota_give(context, VB_COUNTED_WQ);
		return refuse(error, error == -EINVAL ? "max_wr is 0, or more is asked for than the device grants."
						      : "there is no memory for it.",
			      "See max_qp_wr and max_sge of ibv_query_device.");
	}
	fill_public(wq, context, attr);
	return &wq->base;
}

/* Which number it is depends on what is wrong first, in the order of the kernel's uverbs and mlx5. */
static int modify(struct vb_work_queue *wq, const struct ibv_wq_attr *attr)
{
	const uint32_t known = IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE | IBV_WQ_ATTR_FLAGS;

	if (attr->attr_mask == 0 || (attr->attr_mask & ~known) != 0)
		return -EINVAL;
	if ((attr->attr_mask & IBV_WQ_ATTR_CURR_STATE) && attr->curr_wq_state != vb_wq_state(&wq->wq))
		return -EINVAL;
	if ((attr->attr_mask & IBV_WQ_ATTR_FLAGS) && attr->flags_mask != 0)
		return -EOPNOTSUPP;
	return attr->attr_mask & IBV_WQ_ATTR_STATE ? vb_wq_modify(&wq->wq, attr->wq_state, vb_endpoint_now()) : 0;
}

int vb_verbs_modify_wq(struct ibv_wq *public, struct ibv_wq_attr *attr)
{
	VB_UNCANCELLED;
	struct vb_work_queue *wq = vb_work_queue_of(public);
	int error;

	if (attr == NULL)
		return vb_fail_number(EINVAL);
	if (public->handle != wq->handle)
		return vb_fail_number(ENOENT);
	error = modify(wq, attr);
	if (error != 0) {
		vb_explain_refused("ibv_modify_wq", "WQ", public->wq_num, -error,
				   error == -EINVAL ? "it is in another state, or nothing leads from that to the one asked for."
						    : "flags that adapters change are not supported.",
				   "RESET leads to RDY, RDY to ERR, and all to RESET.");
		return vb_fail_number(-error);
	}
	if (!(attr->attr_mask & IBV_WQ_ATTR_STATE))
		return 0;
	if (attr->wq_state == IBV_WQS_RESET) {
		/* A frame may be on its way into a receive that was taken before. Its buffer is the program's again when this returns. */
		vb_endpoint_wait_for_pass(vb_context_of(public->context)->session->endpoint);
		vb_wq_discard(&wq->wq);
	}
	public->state = attr->wq_state;
	return 0;
}

int vb_verbs_destroy_wq(struct ibv_wq *public)
{
	VB_UNCANCELLED;
	struct vb_work_queue *wq = vb_work_queue_of(public);
	struct ibv_context *context = public->context;
	uint32_t reported;

	if (public->handle != wq->handle)
		return vb_fail_number(ENOENT);
	if (vb_count_read(&wq->wq.receives.users) > 0) {
		vb_explain_refused("ibv_destroy_wq", "WQ", public->wq_num, EBUSY, "indirection tables name it.",
				   "Call ibv_destroy_rwq_ind_table first.");
		return vb_fail_number(EBUSY);
	}
	reported = vb_event_queue_forget(&vb_context_of(context)->async, wq, &wq->events_reported);
	if (vb_watches)
		vb_watch_acknowledged(&public->mutex, &public->cond, &public->events_completed, reported, "WQ", "ibv_ack_async_event");
	vb_events_wait_acknowledged(&public->mutex, &public->cond, &public->events_completed, reported);
	vb_context_unlist_object(context, &wq->node);
	vb_wq_fini(&wq->wq);
	vb_endpoint_release_qpn(vb_context_of(context)->session->endpoint, public->wq_num);
	pthread_cond_destroy(&public->cond);
	pthread_mutex_destroy(&public->mutex);
	vb_domain_put(vb_domain_of(public->pd));
	free(wq);
	vb_quota_give(context, VB_COUNTED_WQ);
	vb_context_put(context);
	return 0;
}

int vb_verbs_post_wq_recv(struct ibv_wq *public, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct ibv_recv_wr *ignored, **bad = bad_wr != NULL ? bad_wr : &ignored;
	struct vb_wq *wq = &vb_work_queue_of(public)->wq;
	int error = vb_wq_post(wq, wr, bad, vb_endpoint_now());

	if (error != 0)
		vb_explain_refused("ibv_post_wq_recv", "WQ", public->wq_num, error,
				   error == ENOMEM ? "the work queue is full: all its receives are posted."
						   : "the work queue is in RESET, or num_sge is more than its max_sge.",
				   error == ENOMEM ? "Post again only what has completed, or ask for more max_wr."
						   : "Move the work queue to RDY first (ibv_modify_wq).");
	if (wq->receives.host->observer)
		vb_verbs_observe_receives(wq->receives.host->observer, NULL, wr, error != 0 ? *bad : NULL);
	vb_endpoint_replenished(vb_context_of(public->context)->session->endpoint);
	return vb_fail_number(error);
}
