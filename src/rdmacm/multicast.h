/* SPDX-License-Identifier: MIT
 *
 * Multicast groups an id has joined.
 */
#ifndef VB_RDMACM_MULTICAST_H
#define VB_RDMACM_MULTICAST_H

#include "rdmacm/channel.h"
#include "rdmacm/id.h"

/* MULTICAST_JOIN is being taken: attach the QP, fill in the event (which becomes MULTICAST_ERROR if that fails). */
void vb_rdmacm_multicast_take(struct vb_rdmacm_event *event);
void vb_rdmacm_multicast_acknowledge(struct vb_rdmacm_group *group);

/* The id is going; its events are all acknowledged. */
void vb_rdmacm_multicast_leave_all(struct vb_rdmacm_id *id);

#endif
