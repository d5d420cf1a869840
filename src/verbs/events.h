/* SPDX-License-Identifier: MIT
 *
 * Asynchronous events of a context: queued here, announced on async_fd, read by ibv_get_async_event.
 */
#ifndef VB_VERBS_EVENTS_H
#define VB_VERBS_EVENTS_H

#include "verbs/objects.h"

int vb_event_queue_init(struct vb_event_queue *queue); /* 0 or -errno */
void vb_event_queue_fini(struct vb_event_queue *queue);

/* `object` and `reported`: the affiliated object and its count of events read, NULL for port events. */
void vb_event_queue_add(struct vb_event_queue *queue, const struct ibv_async_event *event, const void *object,
			uint32_t *reported);

/* Before an object dies: its unread events vanish; returns how many were read and must yet be acknowledged in all. */
uint32_t vb_event_queue_forget(struct vb_event_queue *queue, const void *object, const uint32_t *reported);

/* Wait until `*completed` (counted under mutex) reaches `reported`: ibv_ack_async_event(3) says destruction blocks. */
void vb_events_wait_acknowledged(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *completed,
				 uint32_t reported);

/* The interface changed: PORT_ACTIVE, PORT_ERR, GID_CHANGE, DEVICE_FATAL as fits. */
void vb_context_device_changed(struct vb_endpoint_watcher *watcher, const struct vb_device_info *device, bool gone);

#endif
