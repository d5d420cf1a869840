/* SPDX-License-Identifier: MIT
 *
 * Asynchronous events, as programs read them: reading counts an event as reported to its object (event_queue.c); acknowledging
 * counts it as completed; destroying waits until both agree (ibv_get_async_event(3)). And those that a change of the
 * device raises.
 */
#include "verbs/events.h"

#include <errno.h>
#include <string.h>

#include "io/cancellation.h"
#include "verbs/context.h"
#include "verbs/event_queue.h"
#include "verbs/explain.h"
#include "verbs/export.h"
#include "verbs/public_mutex.h"

void vb_events_wait_acknowledged(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *completed,
				 uint32_t reported)
{
	vb_public_lock(mutex);
	while (*completed != reported)
		vb_public_wait(mutex, cond);
	vb_public_unlock(mutex);
}

VB_EXPORT int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	struct vb_event_queue *queue;
	int error;

	if (context == NULL || event == NULL) {
		errno = EINVAL;
		return -1;
	}
	queue = &vb_context_of(context)->async;
	while (!vb_event_queue_take(queue, event)) {
		error = vb_event_fd_wait(&queue->event_fd);
		if (error != 0) {
			errno = -error;
			return -1;
		}
	}
	return 0;
}
VB_EXPORT_COMPAT(ibv_get_async_event);

static void acknowledge(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed)
{
	vb_public_lock(mutex);
	(*completed)++;
	pthread_cond_signal(cond);
	vb_public_unlock(mutex);
}

VB_EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
	VB_UNCANCELLED;
	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR: {
		struct ibv_cq *cq = event->element.cq;

		acknowledge(&cq->mutex, &cq->cond, &cq->async_events_completed);
		break;
	}
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED: {
		struct ibv_qp *qp = event->element.qp;

		acknowledge(&qp->mutex, &qp->cond, &qp->events_completed);
		break;
	}
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED: {
		struct ibv_srq *srq = event->element.srq;

		acknowledge(&srq->mutex, &srq->cond, &srq->events_completed);
		break;
	}
	case IBV_EVENT_WQ_FATAL: {
		struct ibv_wq *wq = event->element.wq;

		acknowledge(&wq->mutex, &wq->cond, &wq->events_completed);
		break;
	}
	default:
		break;           /* port and device events: nothing waits for them */
	}
}
VB_EXPORT_COMPAT(ibv_ack_async_event);

static void raise_port_event(struct vb_context *context, enum ibv_event_type type)
{
	struct ibv_async_event event = {.event_type = type};

	event.element.port_num = 1;
	vb_explain_raised(&context->public.context, type, 0);
	vb_event_queue_add(&context->async, &event, NULL, NULL);
}

static bool gids_differ(const struct vb_device_info *a, const struct vb_device_info *b)
{
	return a->gid_count != b->gid_count ||
	       memcmp(a->gid, b->gid, a->gid_count * sizeof(a->gid[0])) != 0;
}

/* What a subnet manager has changed, as events; and queue pairs go on with the P_Keys that there are now. */
static void take_subnet(struct vb_context *context, const struct vb_daemon_subnet *before, const struct vb_daemon_subnet *now)
{
	if (before->lid != now->lid || before->lmc != now->lmc)
		raise_port_event(context, IBV_EVENT_LID_CHANGE);
	if (before->sm_lid != now->sm_lid || before->sm_sl != now->sm_sl)
		raise_port_event(context, IBV_EVENT_SM_CHANGE);
	if (before->reregister != now->reregister)
		raise_port_event(context, IBV_EVENT_CLIENT_REREGISTER);
	if (memcmp(before->pkeys, now->pkeys, sizeof(now->pkeys)) != 0)
		raise_port_event(context, IBV_EVENT_PKEY_CHANGE);
}

void vb_context_adopt_subnet(struct vb_context *context)
{
	vb_lock_assert_held(&context->lock);
	for (unsigned i = 0; i < VB_MAX_PKEYS; i++)
		__atomic_store_n(&context->session->pkeys[i], context->info.subnet.pkeys[i], __ATOMIC_RELAXED);
	__atomic_store_n(&context->session->lmc, context->info.subnet.lmc, __ATOMIC_RELAXED);
	VB_LIST_FOR_EACH(node, &context->qps)
		vb_qp_pkeys_changed(vb_container_of(node, struct vb_queue_pair, node)->qp);
}

void vb_context_device_changed(struct vb_endpoint_watcher *watcher, const struct vb_device_info *device, bool gone)
{
	struct vb_context *context = vb_container_of(watcher, struct vb_context, watcher);
	bool was_active, is_active, new_gids, was_gone, has_subnet;
	struct vb_daemon_subnet before;

	if (device->index != context->device->info.index)
		return;
	vb_lock_take(&context->lock);
	/* The list that it was opened with may be younger than what the engine thread hears (verbs/open.c). */
	if (!gone && device->told < context->info.told) {
		vb_lock_release(&context->lock);
		return;
	}
	was_active = context->info.state == IBV_PORT_ACTIVE;
	was_gone = context->gone;
	is_active = !gone && device->state == IBV_PORT_ACTIVE;
	has_subnet = !gone && vb_profile_of_context(&context->public.context)->addressing == VB_ADDRESS_LID;
	before = context->info.subnet;
	new_gids = !gone && vb_profile_of_context(&context->public.context)->gid_layout != VB_GIDS_MAC &&
		   gids_differ(&context->info, device);
	if (gone) {
		context->info.state = IBV_PORT_DOWN;
		context->info.gid_count = 0; /* they may be another device's by now */
	} else {
		context->info = *device;
	}
	if (has_subnet)
		vb_context_adopt_subnet(context);
	context->gone = gone;
	vb_lock_release(&context->lock);

	if (has_subnet)
		take_subnet(context, &before, &device->subnet);
	if (new_gids)
		raise_port_event(context, IBV_EVENT_GID_CHANGE);
	if (was_active && !is_active) {
		VB_COUNT(context->session->counters, link_downed);
		raise_port_event(context, IBV_EVENT_PORT_ERR);
	}
	if (!was_active && is_active)
		raise_port_event(context, IBV_EVENT_PORT_ACTIVE);
	if (gone && !was_gone)
		raise_port_event(context, IBV_EVENT_DEVICE_FATAL);
}
