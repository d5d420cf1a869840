/* SPDX-License-Identifier: MIT
 *
 * Memory regions: what their makers (mr.c, dm.c, dmabuf_mr.c, gpu_mr.c) share.
 */
#ifndef VB_VERBS_MR_H
#define VB_VERBS_MR_H

#include "verbs/objects.h"

/* Registered nowhere yet, of no key, and held by nothing. */
struct vb_memory_region *vb_memory_region_allocate(struct ibv_pd *pd, enum vb_region_backing backing, void *address, size_t length);
void vb_memory_region_set_key(struct vb_memory_region *region, uint32_t key);

/* Register `info` (its pd is filled in here) and make the public object. NULL and errno. */
struct vb_memory_region *vb_memory_region_create(struct ibv_pd *pd, struct vb_region_info *info,
						 enum vb_region_backing backing, void *address, size_t length);

/* The same of GPU memory at info->start. EFAULT: it is none, or this process has no CUDA. EOPNOTSUPP, and an explanation: it cannot
 * be had. */
struct vb_memory_region *vb_gpu_region_create(struct ibv_pd *pd, const char *verb, struct vb_region_info *info,
					      enum vb_region_backing backing, void *address);

#endif
