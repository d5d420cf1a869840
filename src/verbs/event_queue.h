/* SPDX-License-Identifier: MIT
 *
 * Asynchronous events that wait to be read, announced on async_fd.
 */
#ifndef VB_VERBS_EVENT_QUEUE_H
#define VB_VERBS_EVENT_QUEUE_H

#include "verbs/objects.h"

int vb_event_queue_init(struct vb_event_queue *queue); /* 0 or -errno */
void vb_event_queue_fini(struct vb_event_queue *queue);

/* `object` and `reported`: the affiliated object and its count of events read, NULL for port events. */
void vb_event_queue_add(struct vb_event_queue *queue, const struct ibv_async_event *event, const void *object,
			uint32_t *reported);

/* The oldest is read, and counted in its `reported`. False: there is none. */
bool vb_event_queue_take(struct vb_event_queue *queue, struct ibv_async_event *event);

/* Before an object dies: its unread events vanish; returns how many were read and must yet be acknowledged in all. */
uint32_t vb_event_queue_forget(struct vb_event_queue *queue, const void *object, const uint32_t *reported);

#endif
