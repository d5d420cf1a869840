/* SPDX-License-Identifier: MIT
 *
 * Memory regions: what their makers (mr.c, dm.c) share.
 */
#ifndef VB_VERBS_MR_H
#define VB_VERBS_MR_H

#include "verbs/objects.h"

/* Register `info` (its pd is filled in here) and make the public object. NULL and errno. */
struct vb_memory_region *vb_memory_region_create(struct ibv_pd *pd, struct vb_region_info *info,
						 enum vb_region_backing backing, void *address, size_t length);

#endif
