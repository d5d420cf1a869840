/* SPDX-License-Identifier: MIT
 *
 * Completion queues. Polling an empty one is what moves the adapter: the polling thread runs a pass of progress itself.
 */
#include "verbs/cq.h"

#include <errno.h>
#include <stdlib.h>

#include "io/cancellation.h"
#include "verbs/channel.h"
#include "verbs/context.h"
#include "verbs/event_queue.h"
#include "verbs/events.h"
#include "verbs/explain.h"
#include "verbs/explain_objects.h"
#include "verbs/export.h"
#include "verbs/operations.h"
#include "verbs/quota.h"
#include "verbs/watch.h"

static struct vb_endpoint *endpoint_of(const struct vb_completion_queue *cq)
{
	return vb_context_of(cq->base.context)->session->endpoint;
}

struct vb_completion_queue *vb_completion_queue_create(struct ibv_context *context, uint32_t cqe, void *cq_context,
						       struct ibv_comp_channel *channel, uint32_t comp_vector,
						       struct ibv_pd *parent)
{
	struct vb_completion_queue *cq;
	int error;

	if (context == NULL)
		return vb_fail_null(-EINVAL);
	if (cqe == 0 || cqe > vb_profile_of_context(context)->limits.cqe ||
	    comp_vector >= vb_profile_of_context(context)->limits.completion_vectors ||
	    (channel != NULL && !vb_same_session(context, channel->context))) {
		vb_explain_no_cq(context, cqe, comp_vector, EINVAL);
		return vb_fail_null(-EINVAL);
	}
	error = vb_quota_take(context, VB_COUNTED_CQ);
	if (error != 0)
		return vb_fail_null(error);
	cq = calloc(1, sizeof(*cq));
	error = cq == NULL ? -ENOMEM : vb_cq_init_in(&cq->cq, &vb_context_of(context)->session->host, cq, cqe, vb_allocator_of(parent));
	if (error != 0) {
		free(cq);
		vb_quota_give(context, VB_COUNTED_CQ);
		vb_explain_no_cq(context, cqe, comp_vector, -error);
		return vb_fail_null(error);
	}
	vb_poller_init(&cq->poller, &cq->cq.users);
	cq->cq.poller = &cq->poller;
	cq->base.context = context;
	cq->base.channel = channel;
	cq->base.cq_context = cq_context;
	cq->base.cqe = (int)cq->cq.capacity;
	pthread_mutex_init(&cq->base.mutex, NULL);
	pthread_cond_init(&cq->base.cond, NULL);
	vb_mutex_init(&cq->polling, VB_RANK_POLLING);
	vb_list_init(&cq->on_channel);
	if (channel != NULL)
		vb_channel_join(channel);
	vb_context_hold(context);
	vb_context_list_object(context, &vb_context_of(context)->cqs, &cq->node, &cq->handle);
	cq->base.handle = cq->handle;
	return cq;
}

VB_EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
				       struct ibv_comp_channel *channel, int comp_vector)
{
	VB_UNCANCELLED;
	struct vb_completion_queue *cq;

	if (context != NULL && (cqe < 1 || comp_vector < 0)) {
		vb_explain_no_cq(context, cqe < 1 ? 0 : (uint64_t)cqe, (unsigned)comp_vector, EINVAL);
		return vb_fail_null(-EINVAL);
	}
	cq = vb_completion_queue_create(context, (uint32_t)cqe, cq_context, channel, (uint32_t)comp_vector, NULL);
	return cq == NULL ? NULL : &cq->base;
}
VB_EXPORT_COMPAT(ibv_create_cq);

VB_EXPORT int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	VB_UNCANCELLED;
	struct vb_completion_queue *own = vb_completion_queue_of(cq);
	int error;

	if (cq == NULL)
		return vb_fail_number(EINVAL);
	if (cq->handle != own->handle)
		return vb_fail_number(ENOENT);
	error = cqe < 1 ? -EINVAL : vb_cq_resize(&own->cq, (uint32_t)cqe);
	if (error == 0)
		cq->cqe = (int)own->cq.capacity;
	else
		vb_explain_cq_unchanged(&own->cq, cqe, -error);
	return vb_fail_number(-error);
}
VB_EXPORT_COMPAT(ibv_resize_cq);

/* ibv_destroy_cq(3): EBUSY while a queue pair uses it; otherwise waits for all events that were read to be
 * acknowledged. */
VB_EXPORT int ibv_destroy_cq(struct ibv_cq *cq)
{
	VB_UNCANCELLED;
	struct vb_completion_queue *own = vb_completion_queue_of(cq);
	struct ibv_context *context;
	uint32_t reported;

	if (cq == NULL)
		return vb_fail_number(EINVAL);
	if (cq->handle != own->handle)
		return vb_fail_number(ENOENT);
	if (vb_count_read(&own->cq.users) > 0) {
		vb_explain_refused("ibv_destroy_cq", NULL, 0, EBUSY, "queue pairs still use it.",
				   "Destroy the queue pairs first.");
		return vb_fail_number(EBUSY);
	}
	context = cq->context;
	vb_context_unlist_object(context, &own->node);
	vb_endpoint_cq_forget(endpoint_of(own), &own->cq);
	reported = vb_channel_leave(own);
	if (vb_watches)
		vb_watch_acknowledged(&cq->mutex, &cq->cond, &cq->comp_events_completed, reported, "CQ",
				      "ibv_ack_cq_events");
	vb_events_wait_acknowledged(&cq->mutex, &cq->cond, &cq->comp_events_completed, reported);
	reported = vb_event_queue_forget(&vb_context_of(context)->async, own, &own->async_events_reported);
	if (vb_watches)
		vb_watch_acknowledged(&cq->mutex, &cq->cond, &cq->async_events_completed, reported, "CQ",
				      "ibv_ack_async_event");
	vb_events_wait_acknowledged(&cq->mutex, &cq->cond, &cq->async_events_completed, reported);
	vb_cq_fini(&own->cq);
	vb_mutex_fini(&own->polling);
	pthread_cond_destroy(&cq->cond);
	pthread_mutex_destroy(&cq->mutex);
	if (own->domain != NULL)
		vb_domain_put(own->domain);
	free(own);
	vb_quota_give(context, VB_COUNTED_CQ);
	vb_context_put(context);
	return 0;
}
VB_EXPORT_COMPAT(ibv_destroy_cq);

int vb_verbs_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc)
{
	struct vb_completion_queue *own = vb_completion_queue_of(cq);
	bool empty = vb_cq_looks_empty(&own->cq);
	int got;

	if (num_entries <= 0)
		return num_entries == 0 ? 0 : -1;
	if (empty && !vb_explains) {
		got = vb_endpoint_take(endpoint_of(own), &own->poller, &own->cq, num_entries, wc);
		if (got >= 0)
			return got;
	}
	if (empty) {
		(void)vb_endpoint_poll(endpoint_of(own), &own->poller);
		if (vb_cq_looks_empty(&own->cq))
			return 0;
	}
	got = vb_cq_poll(&own->cq, num_entries, wc);
	if (got > 0)
		vb_endpoint_polled(endpoint_of(own), empty);
	if (vb_explains)
		vb_explain_polled(endpoint_of(own), wc, got);
	return got;
}

int vb_verbs_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	struct vb_completion_queue *own = vb_completion_queue_of(cq);

	vb_cq_arm(&own->cq, solicited_only != 0);
	vb_endpoint_watch(endpoint_of(own));
	return 0;
}

int vb_verbs_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
{
	VB_UNCANCELLED;
	if (attr == NULL || (attr->attr_mask & ~(uint32_t)IBV_CQ_ATTR_MODERATE) != 0)
		return vb_fail_number(EINVAL);
	if (attr->attr_mask & IBV_CQ_ATTR_MODERATE)
		vb_cq_moderate(&vb_completion_queue_of(cq)->cq, attr->moderate.cq_count, attr->moderate.cq_period);
	return 0;
}
