/* SPDX-License-Identifier: MIT
 *
 * Asynchronous events of a context (event_queue.h holds them): acknowledged, and raised by changes of its device.
 */
#ifndef VB_VERBS_EVENTS_H
#define VB_VERBS_EVENTS_H

#include "verbs/objects.h"

/* Wait until `*completed` (counted under mutex) reaches `reported`: ibv_ack_async_event(3) says destruction blocks. */
void vb_events_wait_acknowledged(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *completed,
				 uint32_t reported);

/* The queue pairs go on with the P_Keys that context->info has. Caller holds context->lock. */
void vb_context_adopt_subnet(struct vb_context *context);
/* The interface changed: PORT_ACTIVE, PORT_ERR, GID_CHANGE, DEVICE_FATAL as fits; of a subnet also LID_CHANGE and the like. */
void vb_context_device_changed(struct vb_endpoint_watcher *watcher, const struct vb_device_info *device, bool gone);

#endif
