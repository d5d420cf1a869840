/* SPDX-License-Identifier: MIT
 *
 * The queue of a context's asynchronous events. What happened to an object is noted with the object's own lock held, so adding
 * takes the queue's lock only, which comes after those of all objects.
 */
#include "verbs/event_queue.h"

#include <stdlib.h>

#include "base/log.h"

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
static void drop(struct vb_event_queue *queue, struct waiting_event *waiting) VB_NEEDS(queue->lock)
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

bool vb_event_queue_take(struct vb_event_queue *queue, struct ibv_async_event *event)
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
