/* SPDX-License-Identifier: MIT
 *
 * Completion channels.
 */
#ifndef VB_VERBS_CHANNEL_H
#define VB_VERBS_CHANNEL_H

#include "verbs/objects.h"

/* A completion event is due on the CQ's channel (if it has one). Caller holds the CQ's lock. */
void vb_channel_announce(struct vb_completion_queue *cq);

/* A CQ joins or leaves a channel. Leaving drops its unread events and returns how many were read in all. */
void vb_channel_join(struct ibv_comp_channel *channel);
uint32_t vb_channel_leave(struct vb_completion_queue *cq);

#endif
