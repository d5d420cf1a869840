/* SPDX-License-Identifier: MIT
 *
 * Memory regions: registering the application's memory in its various forms, changing and forgetting it.
 * Keys and rights are kept in memory/region.c; here the arguments are judged.
 */
#include "verbs/mr.h"

#include <errno.h>
#include <stdlib.h>

#include "io/cancellation.h"
#include "io/cuda.h"
#include "io/descriptor.h"
#include "verbs/context.h"
#include "verbs/explain.h"
#include "verbs/explain_objects.h"
#include "verbs/export.h"
#include "io/memory_ahead.h"
#include "io/memory_check.h"
#include "verbs/operations.h"
#include "verbs/private.h"
#include "verbs/quota.h"
#include "verbs/watch.h"
#include "wire/mapped_call.h"

/* Implicit on-demand paging: the whole address space (ibv_reg_mr(3)). */
static bool is_implicit(const void *address, size_t length, unsigned access)
{
	return (access & IBV_ACCESS_ON_DEMAND) && address == NULL && length == SIZE_MAX;
}

/* Fills what depends on range and rights. 0 or -errno. */
static int describe(struct ibv_context *context, struct vb_region_info *info, void *address, size_t length, uint64_t iova, unsigned access,
		    bool is_mapped)
{
	uint64_t start = (uintptr_t)address, most = vb_profile_of_context(context)->limits.mr_size;
	int error = vb_region_check_access(access);

	if (error != 0)
		return error;
	*info = (struct vb_region_info){
		.kind = VB_REGION_MR,
		.start = start,
		.length = length,
		.iova = iova,
		.access = access,
		.checked = (access & IBV_ACCESS_ON_DEMAND) != 0,
	};
	if (is_implicit(address, length, access)) {
		/* Windows on all of memory would be pointless, and adapters refuse them. */
		if (access & (IBV_ACCESS_ZERO_BASED | IBV_ACCESS_MW_BIND))
			return -EINVAL;
		info->length = UINT64_MAX;
		info->iova = 0;
		return 0;
	}
	if (length == 0 || length > (uint64_t)INT64_MAX || length > most || start + length < start || iova + length < iova)
		return -EINVAL;
	if ((access & IBV_ACCESS_ON_DEMAND) || is_mapped)
		return 0;
	return vb_memory_range_check(start, length, (access & IBV_ACCESS_LOCAL_WRITE) != 0);
}

/* is_mapped: nothing has to be looked for. */
static struct ibv_mr *register_range(struct ibv_pd *pd, void *address, size_t length, uint64_t iova, unsigned access, bool is_mapped)
{
	struct vb_memory_region *region;
	struct vb_region_info info;
	int error;

	if (pd == NULL)
		return vb_fail_null(-EINVAL);
	error = describe(pd->context, &info, address, length, iova, access, is_mapped);
	errno = -error;
	if (error == -EFAULT) {
		/* No processor reaches it; perhaps a GPU does. */
		region = vb_gpu_region_create(pd, "ibv_reg_mr", &info, VB_BACKING_GPU, address);
		if (region == NULL && errno == EOPNOTSUPP)
			return NULL;
	} else {
		region = error != 0 ? NULL : vb_memory_region_create(pd, &info, VB_BACKING_APPLICATION, address, length);
	}
	if (region == NULL) {
		vb_explain_refused_register(pd->context, address, length, access);
		return NULL;
	}
	return &region->base;
}

VB_EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	VB_UNCANCELLED;
	return register_range(pd, addr, length, (uintptr_t)addr, (unsigned)access, false);
}
VB_EXPORT_COMPAT(ibv_reg_mr);

VB_EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	VB_UNCANCELLED;
	return register_range(pd, addr, length, iova, (unsigned)access, false);
}

VB_EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
					  unsigned int access)
{
	VB_UNCANCELLED;
	return register_range(pd, addr, length, iova, access, false);
}

int vb_verbs_register_mapped(struct vb_mapped_call *call)
{
	if (call->version != VB_MAPPED_VERSION)
		return ENOSYS;
	call->mr = register_range(call->pd, call->address, call->length, (uintptr_t)call->address, call->access, true);
	return call->mr != NULL ? 0 : errno;
}

/* ibv_alloc_null_mr(3): reads give zeros, writes vanish, any address. Local use only. */
struct ibv_mr *vb_verbs_alloc_null_mr(struct ibv_pd *pd)
{
	VB_UNCANCELLED;
	struct vb_region_info info = {
		.kind = VB_REGION_NULL_MR,
		.length = UINT64_MAX,
		.access = IBV_ACCESS_LOCAL_WRITE,
	};
	struct vb_memory_region *region = vb_memory_region_create(pd, &info, VB_BACKING_NULL, NULL, SIZE_MAX);

	return region == NULL ? NULL : &region->base;
}

/* Every check is made before anything changes, so that on any error the old region stands: always ERR_INPUT, never
 * one of the codes that say the region is lost. */
static int reregister(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
	struct vb_memory_region *region = vb_memory_region_of(mr);
	struct vb_region_info old, info;
	int error;

	if ((flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) != 0 ||
	    ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) && length == 0) ||
	    ((flags & IBV_REREG_MR_CHANGE_PD) && (pd == NULL || !vb_same_session(mr->context, pd->context))) ||
	    (access != 0 && !(flags & IBV_REREG_MR_CHANGE_ACCESS)))
		return -EINVAL;
	if (region->backing != VB_BACKING_APPLICATION || region->imported)
		return -EOPNOTSUPP;
	if (vb_region_query(region->session->memory, mr->lkey, &old) != 0)
		return -EINVAL;
	if (!(flags & IBV_REREG_MR_CHANGE_ACCESS))
		access = (int)old.access;
	if (!(flags & IBV_REREG_MR_CHANGE_TRANSLATION)) {
		addr = mr->addr;
		length = mr->length;
	}
	if (!(flags & IBV_REREG_MR_CHANGE_PD))
		pd = mr->pd;
	error = describe(mr->context, &info, addr, length,
			 flags & IBV_REREG_MR_CHANGE_TRANSLATION ? (uintptr_t)addr : old.iova, (unsigned)access, false);
	if (error == 0) {
		info.pd = vb_pd_of(pd);
		error = vb_region_reregister(region->session->memory, mr->lkey, &info);
	}
	if (error != 0)
		return error;
	vb_domain_hold(vb_domain_of(pd));
	vb_domain_put(vb_domain_of(mr->pd));
	mr->pd = pd;
	mr->addr = addr;
	mr->length = length;
	return 0;
}

VB_EXPORT int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
	VB_UNCANCELLED;
	int error = mr == NULL ? -EINVAL : reregister(mr, flags, pd, addr, length, access);

	if (error == 0)
		return 0;
	if (mr != NULL)
		vb_explain_mr_unchanged(vb_memory_region_of(mr), flags, pd, addr, length, access, -error);
	errno = -error;
	return IBV_REREG_MR_ERR_INPUT;
}

static void release_backing(struct vb_memory_region *region)
{
	if (region->mapping != NULL)
		vb_page_unmap(region->mapping, region->mapping_length);
	if (region->sync != 0)
		vb_descriptor_close(region->sync - 1);
	if (region->gpu != NULL)
		vb_cuda_close(region->gpu);
	if (region->device_memory != NULL) {
		vb_lock_take(&region->session->lock);
		region->device_memory->users--;
		vb_lock_release(&region->session->lock);
	}
}

static void free_region(struct vb_memory_region *region)
{
	struct ibv_context *context = region->base.context;

	vb_domain_put(vb_domain_of(region->base.pd));
	free(region);
	vb_context_put(context);
}

VB_EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
	VB_UNCANCELLED;
	struct vb_memory_region *region = vb_memory_region_of(mr);
	int error;

	if (mr == NULL)
		return vb_fail_number(EINVAL);
	if (mr->handle != region->handle)
		return vb_fail_number(ENOENT);
	if (vb_watches)
		vb_watch_deregister(mr);
	error = vb_region_deregister(region->session->memory, region->handle);
	if (error != 0) {
		vb_explain_refused("ibv_dereg_mr", "lkey", mr->lkey, -error,
				   error == -EBUSY ? "memory windows are bound to it." : "it is not registered (any more).",
				   error == -EBUSY ? "Invalidate or deallocate the windows first." : NULL);
		return vb_fail_number(-error);
	}
	if (region->backing == VB_BACKING_APPLICATION)
		vb_memory_ahead_forget((uintptr_t)mr->addr, mr->length);
	vb_lock_take(&region->session->lock);
	vb_list_remove(&region->node);
	vb_lock_release(&region->session->lock);
	release_backing(region);
	vb_quota_give(mr->context, VB_COUNTED_MR);
	free_region(region);
	return 0;
}
VB_EXPORT_COMPAT(ibv_dereg_mr);

/* Finding it by handle proves that it belongs to this session. What backs it stays with the original. */
VB_EXPORT struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t mr_handle)
{
	VB_UNCANCELLED;
	struct vb_memory_region *found = NULL, *import;
	struct vb_session *session;

	if (pd == NULL)
		return vb_fail_null(-EINVAL);
	import = vb_memory_region_allocate(pd, VB_BACKING_APPLICATION, NULL, 0);
	if (import == NULL)
		return vb_fail_null(-ENOMEM);
	session = import->session;
	vb_lock_take(&session->lock);
	VB_LIST_FOR_EACH(node, &session->regions) {
		struct vb_memory_region *candidate = vb_container_of(node, struct vb_memory_region, node);

		if (candidate->handle == mr_handle && vb_pd_of(candidate->base.pd) == vb_pd_of(pd))
			found = candidate;
	}
	if (found != NULL)
		import->base.length = found->base.length;
	vb_lock_release(&session->lock);
	if (found == NULL) {
		free(import);
		return vb_fail_null(-ENOENT);
	}
	vb_memory_region_set_key(import, mr_handle);
	import->imported = true;
	vb_context_hold(pd->context);
	vb_domain_hold(vb_domain_of(pd));
	return &import->base;
}

VB_EXPORT void ibv_unimport_mr(struct ibv_mr *mr)
{
	VB_UNCANCELLED;
	if (mr != NULL && vb_memory_region_of(mr)->imported)
		free_region(vb_memory_region_of(mr));
}
