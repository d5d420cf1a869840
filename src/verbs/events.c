/* SPDX-License-Identifier: MIT
 *
 * Asynchronous events. What happened to an object is noted with the object's own lock held, so adding only takes the
 * queue's lock, which comes after those of all objects. Reading counts the event as reported to its object; acknowledging counts it
 * as completed; destroying waits until both agree (ibv_get_async_event(3)).
 */
#include "verbs/events.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "verbs/context.h"
#include "verbs/explain.h"
#include "verbs/export.h"
#include "verbs/public_mutex.h"

/* A program that never reads its events must not eat the memory. */
enum { MAX_UNREAD_EVENTS = 65536 };

struct waiting_event {
	struct vb_list node;
	struct ibv_async_event event;
	const void *object;
	uint32_t *reported;
};

int vb_event_queue_init(struct vb_event_queue *queue)
{
	vb_lock_init(&queue->lock, VB_RANK_EVENTS);
	vb_list_init(&queue->events);
	queue->count = 0;
	return vb_event_fd_init(&queue->event_fd);
}

/* Caller holds queue->lock. */
static void drop(struct vb_event_queue *queue, struct waiting_event *waiting)
{
	vb_list_remove(&waiting->node);
	free(waiting);
	if (--queue->count == 0)
		vb_event_fd_clear(&queue->event_fd);
}

void vb_event_queue_fini(struct vb_event_queue *queue)
{
	vb_lock_take(&queue->lock);
	VB_LIST_FOR_EACH(node, &queue->events)
		drop(queue, vb_container_of(node, struct waiting_event, node));
	vb_lock_release(&queue->lock);
	vb_event_fd_fini(&queue->event_fd);
	vb_lock_fini(&queue->lock);
}

void vb_event_queue_add(struct vb_event_queue *queue, const struct ibv_async_event *event, const void *object,
			uint32_t *reported)
{
	struct waiting_event *waiting = malloc(sizeof(*waiting));

	if (waiting == NULL) {
		vb_log_limited(VB_LOG_ERROR, "no memory for the asynchronous event '%s'",
			       ibv_event_type_str(event->event_type));
		return;
	}
	waiting->event = *event;
	waiting->object = object;
	waiting->reported = reported;
	vb_lock_take(&queue->lock);
	if (queue->count < MAX_UNREAD_EVENTS) {
		vb_list_append(&queue->events, &waiting->node);
		queue->count++;
		vb_event_fd_raise(&queue->event_fd);
		waiting = NULL;
	}
	vb_lock_release(&queue->lock);
	if (waiting != NULL) {
		free(waiting);
		vb_log_limited(VB_LOG_WARN, "asynchronous event '%s' dropped: nobody reads them",
			       ibv_event_type_str(event->event_type));
	}
}

uint32_t vb_event_queue_forget(struct vb_event_queue *queue, const void *object, const uint32_t *reported)
{
	uint32_t read;

	vb_lock_take(&queue->lock);
	VB_LIST_FOR_EACH(node, &queue->events) {
		struct waiting_event *waiting = vb_container_of(node, struct waiting_event, node);

		if (waiting->object == object)
			drop(queue, waiting);
	}
	read = *reported;
	vb_lock_release(&queue->lock);
	return read;
}

void vb_events_wait_acknowledged(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *completed,
				 uint32_t reported)
{
	vb_public_lock(mutex);
	while (*completed != reported)
		vb_public_wait(mutex, cond);
	vb_public_unlock(mutex);
}

static bool take_event(struct vb_event_queue *queue, struct ibv_async_event *event)
{
	struct waiting_event *waiting;

	vb_lock_take(&queue->lock);
	if (vb_list_is_empty(&queue->events)) {
		vb_lock_release(&queue->lock);
		return false;
	}
	waiting = vb_container_of(queue->events.next, struct waiting_event, node);
	*event = waiting->event;
	if (waiting->reported != NULL)
		(*waiting->reported)++;
	drop(queue, waiting);
	vb_lock_release(&queue->lock);
	return true;
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
	while (!take_event(queue, event)) {
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

void vb_context_device_changed(struct vb_endpoint_watcher *watcher, const struct vb_device_info *device, bool gone)
{
	struct vb_context *context = vb_container_of(watcher, struct vb_context, watcher);
	bool was_active, is_active, new_gids, was_gone;

	if (device->index != context->device->info.index)
		return;
	vb_lock_take(&context->lock);
	was_active = context->info.state == IBV_PORT_ACTIVE;
	was_gone = context->gone;
	is_active = !gone && device->state == IBV_PORT_ACTIVE;
	new_gids = !gone && vb_profile_of_context(&context->public.context)->gid_layout == VB_GIDS_ADDRESSES &&
		   gids_differ(&context->info, device);
	if (gone) {
		context->info.state = IBV_PORT_DOWN;
		context->info.gid_count = 0; /* they may be another device's by now */
	} else {
		context->info = *device;
	}
	context->gone = gone;
	context->info_version++;
	vb_lock_release(&context->lock);

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
