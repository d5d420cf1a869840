/* SPDX-License-Identifier: MIT
 *
 * Open devices: the context an application holds, the session behind it, and the tables of operations.
 */
#ifndef VB_VERBS_CONTEXT_H
#define VB_VERBS_CONTEXT_H

#include "verbs/objects.h"

/* Devices are counted: they outlive ibv_free_device_list while a context is open. */
void vb_device_hold(struct vb_device *device);
void vb_device_put(struct vb_device *device);
struct vb_device *vb_device_from_info(const struct vb_device_info *info);

/* The adapter whose limits devices are to have; NULL: their own. In set-user-ID programs the environment says nothing. 0 or
 * -EINVAL. */
struct vb_adapter;
int vb_device_adapter(const struct vb_adapter **adapter);

/* Sessions. 0 or -errno. */
int vb_session_open(const struct vb_device *device, struct vb_session **session);
/* Its queues have no host yet: for vb_session_open (hosting.c). */
int vb_session_create(const struct vb_device *device, struct vb_session **session);
struct vb_session *vb_session_find(uint64_t id);
void vb_session_put(struct vb_session *session);
uint32_t vb_session_handle(struct vb_session *session);   /* Caller holds session->lock. */

void vb_context_hold(struct ibv_context *context);
void vb_context_put(struct ibv_context *context);
void vb_context_free(struct vb_context *context); /* for put, and for an opening that failed */

/* What was created through an ibv_pd keeps it, given back or not. */
void vb_domain_hold(struct vb_protection_domain *domain);
void vb_domain_put(struct vb_protection_domain *domain);

/* The device as it is now. */
void vb_context_info(struct ibv_context *context, struct vb_device_info *info);

/* Fill the operations (operations.c). */
void vb_context_fill_operations(struct vb_context *context);

/* Objects are listed while they live, for a process that asks what there is (resources.c), and get a number for it. Called when
 * all else of the object is there. */
void vb_context_list_object(struct ibv_context *context, struct vb_list *list, struct vb_list *node, uint32_t *number);
void vb_context_unlist_object(struct ibv_context *context, struct vb_list *node);
void vb_context_show(struct vb_endpoint_watcher *watcher, struct vb_resource_list *list);

#endif
