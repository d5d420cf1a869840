/* SPDX-License-Identifier: MIT
 *
 * A memory region of any backing as libibverbs hands it out: its key, and what it holds while it lives.
 */
#include <stdlib.h>

#include "verbs/context.h"
#include "verbs/mr.h"
#include "verbs/operations.h"
#include "verbs/quota.h"

struct vb_memory_region *vb_memory_region_allocate(struct ibv_pd *pd, enum vb_region_backing backing, void *address, size_t length)
{
	struct vb_memory_region *region = calloc(1, sizeof(*region));

	if (region == NULL)
		return NULL;
	region->base.context = pd->context;
	region->base.pd = pd;
	region->base.addr = address;
	region->base.length = length;
	region->session = vb_context_of(pd->context)->session;
	region->backing = backing;
	vb_list_init(&region->node);
	return region;
}

/* The handle is the key: unique in the session, and of no use without the PD. */
void vb_memory_region_set_key(struct vb_memory_region *region, uint32_t key)
{
	region->handle = region->base.handle = region->base.lkey = region->base.rkey = key;
}

struct vb_memory_region *vb_memory_region_create(struct ibv_pd *pd, struct vb_region_info *info,
						 enum vb_region_backing backing, void *address, size_t length)
{
	struct vb_memory_region *region;
	uint32_t key;
	int error = vb_quota_take(pd->context, VB_COUNTED_MR);

	if (error != 0)
		return vb_fail_null(error);
	region = vb_memory_region_allocate(pd, backing, address, length);
	info->pd = vb_pd_of(pd);
	error = region == NULL ? -ENOMEM : vb_region_register(region->session->memory, info, &key);
	if (error != 0) {
		free(region);
		vb_quota_give(pd->context, VB_COUNTED_MR);
		return vb_fail_null(error);
	}
	vb_memory_region_set_key(region, key);
	vb_context_hold(pd->context);
	vb_domain_hold(vb_domain_of(pd));
	vb_lock_take(&region->session->lock);
	vb_list_append(&region->session->regions, &region->node);
	vb_lock_release(&region->session->lock);
	return region;
}
