/* SPDX-License-Identifier: MIT
 *
 * Completion queues: what the plain and the extended form share.
 */
#ifndef VB_VERBS_CQ_H
#define VB_VERBS_CQ_H

#include "verbs/objects.h"

/* NULL and errno. */
struct vb_completion_queue *vb_completion_queue_create(struct ibv_context *context, uint32_t cqe, void *cq_context,
						       struct ibv_comp_channel *channel, uint32_t comp_vector,
						       struct ibv_pd *parent);

#endif
