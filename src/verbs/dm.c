/* SPDX-License-Identifier: MIT
 *
 * Device memory. There is no device: the memory is a shared memory file, outside the heap, reached by the application
 * only through the copy calls and through keys, as on an adapter.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "io/cancellation.h"
#include "io/descriptor.h"
#include "verbs/context.h"
#include "verbs/device_memory.h"
#include "verbs/explain.h"
#include "verbs/explain_objects.h"
#include "verbs/export.h"
#include "verbs/mr.h"
#include "verbs/operations.h"

/* Where the bytes are: an import looks through to the original. */
static struct vb_device_memory *original_of(struct vb_device_memory *dm)
{
	return dm->imported_from != NULL ? dm->imported_from : dm;
}

static bool is_inside(const struct vb_device_memory *dm, uint64_t offset, size_t length)
{
	return offset <= dm->length && length <= dm->length - offset;
}

/* Words, as the adapters that have such memory want it (mlx5), and the tests of rdma-core. */
static int check_copy(const struct vb_device_memory *dm, uint64_t offset, size_t length)
{
	if (!is_inside(dm, offset, length))
		return vb_fail_number(EFAULT);
	return (offset | length) % sizeof(uint32_t) != 0 ? vb_fail_number(EINVAL) : 0;
}

static int copy_to(struct ibv_dm *dm, uint64_t offset, const void *from, size_t length)
{
	struct vb_device_memory *own = original_of(vb_device_memory_of(dm));
	int error = check_copy(own, offset, length);

	if (error == 0)
		memcpy(own->bytes + offset, from, length);
	return error;
}

static int copy_from(void *to, struct ibv_dm *dm, uint64_t offset, size_t length)
{
	struct vb_device_memory *own = original_of(vb_device_memory_of(dm));
	int error = check_copy(own, offset, length);

	if (error == 0)
		memcpy(to, own->bytes + offset, length);
	return error;
}

/* The descriptor stays open: a process of this host that writes here maps the file by it (links/memory/share.h). It
 * cannot be cut short, so a program that does gets no signal for it. */
static int map_memory(struct vb_device_memory *dm, size_t length)
{
	size_t page = vb_page_size();
	void *memory = NULL;
	int error;

	dm->length = length;
	dm->mapped_length = (length + page - 1) & ~(page - 1);
	dm->fd = vb_page_create("verbena-device-memory", dm->mapped_length);
	if (dm->fd < 0)
		return dm->fd;
	dm->fd = vb_descriptor_lift(dm->fd);
	error = vb_descriptor_map(dm->fd, 0, dm->mapped_length, true, &memory);
	if (error != 0)
		vb_descriptor_close(dm->fd);
	dm->bytes = memory;
	return error;
}

static struct vb_device_memory *allocate(struct ibv_context *context)
{
	struct vb_device_memory *dm = calloc(1, sizeof(*dm));

	if (dm == NULL)
		return NULL;
	dm->base.context = context;
	dm->base.memcpy_to_dm = copy_to;
	dm->base.memcpy_from_dm = copy_from;
	dm->base.comp_mask = IBV_DM_MASK_HANDLE;
	dm->fd = -1;
	vb_list_init(&dm->node);
	return dm;
}

/* All of a session's device memory together stays within max_dm_size. */
static bool reserve(struct vb_session *session, size_t length)
{
	bool fits;

	vb_lock_take(&session->lock);
	fits = length <= VB_DEVICE_MEMORY_SIZE - session->device_memory_used;
	if (fits)
		session->device_memory_used += length;
	vb_lock_release(&session->lock);
	return fits;
}

/* What a refusal tells. */
static size_t free_bytes(struct vb_session *session)
{
	size_t used;

	vb_lock_take(&session->lock);
	used = session->device_memory_used;
	vb_lock_release(&session->lock);
	return VB_DEVICE_MEMORY_SIZE - used;
}

struct ibv_dm *vb_verbs_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr)
{
	VB_UNCANCELLED;
	struct vb_session *session = vb_context_of(context)->session;
	struct vb_device_memory *dm;
	int error = 0;

	if (attr == NULL || attr->comp_mask != 0 || attr->length == 0)
		error = -EINVAL;
	else if ((attr->log_align_req < 64 ? 1ull << attr->log_align_req : UINT64_MAX) > vb_page_size())
		error = -EINVAL;
	else if (!reserve(session, attr->length))
		error = -ENOMEM;
	if (error != 0) {
		vb_explain_no_dm(attr, free_bytes(session), -error);
		return vb_fail_null(error);
	}
	dm = allocate(context);
	error = dm == NULL ? -ENOMEM : map_memory(dm, attr->length);
	vb_lock_take(&session->lock);
	if (error != 0) {
		session->device_memory_used -= attr->length;
	} else {
		dm->handle = dm->base.handle = vb_session_handle(session);
		vb_list_append(&session->device_memories, &dm->node);
	}
	vb_lock_release(&session->lock);
	if (error != 0) {
		free(dm);
		return vb_fail_null(error);
	}
	vb_context_hold(context);
	return &dm->base;
}

static void free_import(struct vb_device_memory *dm)
{
	struct ibv_context *context = dm->base.context;
	struct vb_session *session = vb_context_of(context)->session;

	vb_lock_take(&session->lock);
	dm->imported_from->users--;
	vb_lock_release(&session->lock);
	free(dm);
	vb_context_put(context);
}

int vb_verbs_free_dm(struct ibv_dm *dm)
{
	VB_UNCANCELLED;
	struct vb_device_memory *own = vb_device_memory_of(dm);
	struct ibv_context *context;
	struct vb_session *session;
	bool busy;

	if (dm == NULL || own->imported_from != NULL)
		return vb_fail_number(EINVAL);
	if (dm->handle != own->handle)
		return vb_fail_number(ENOENT);
	context = dm->context;
	session = vb_context_of(context)->session;
	vb_lock_take(&session->lock);
	busy = own->users > 0;
	if (!busy) {
		vb_list_remove(&own->node);
		session->device_memory_used -= own->length;
	}
	vb_lock_release(&session->lock);
	if (busy) {
		vb_explain_refused("ibv_free_dm", NULL, 0, EBUSY, "regions or imports of it still exist.",
				   "Deregister the regions first.");
		return vb_fail_number(EBUSY);
	}
	vb_page_unmap(own->bytes, own->mapped_length);
	vb_descriptor_close(own->fd);
	free(own);
	vb_context_put(context);
	return 0;
}

/* ibv_alloc_dm(3): such a region is zero based, and the flag that says so is mandatory. */
struct ibv_mr *vb_verbs_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t dm_offset, size_t length,
				  unsigned int access)
{
	VB_UNCANCELLED;
	const unsigned allowed = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_OPTIONAL_RANGE;
	struct vb_device_memory *own;
	struct vb_memory_region *region;
	struct vb_region_info info;

	if (dm == NULL || !vb_same_session(pd->context, dm->context) || (access & ~allowed) != 0 ||
	    !(access & IBV_ACCESS_ZERO_BASED) || vb_region_check_access(access) != 0 ||
	    !is_inside(original_of(vb_device_memory_of(dm)), dm_offset, length)) {
		vb_explain_no_dm_mr(dm, dm == NULL ? 0 : original_of(vb_device_memory_of(dm))->length, dm_offset,
				    length, access, allowed, EINVAL);
		return vb_fail_null(-EINVAL);
	}
	own = original_of(vb_device_memory_of(dm));
	info = (struct vb_region_info){
		.kind = VB_REGION_MR,
		.start = (uintptr_t)own->bytes + dm_offset,
		.length = length,
		.access = access,
	};
	region = vb_memory_region_create(pd, &info, VB_BACKING_DEVICE_MEMORY, NULL, length);
	if (region == NULL)
		return NULL;
	region->device_memory = own;
	vb_lock_take(&region->session->lock);
	own->users++;
	vb_lock_release(&region->session->lock);
	return &region->base;
}

VB_EXPORT struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t dm_handle)
{
	VB_UNCANCELLED;
	struct vb_device_memory *import;
	struct vb_session *session;

	if (context == NULL)
		return vb_fail_null(-EINVAL);
	session = vb_context_of(context)->session;
	import = allocate(context);
	if (import == NULL)
		return vb_fail_null(-ENOMEM);
	vb_lock_take(&session->lock);
	VB_LIST_FOR_EACH(node, &session->device_memories) {
		struct vb_device_memory *dm = vb_container_of(node, struct vb_device_memory, node);

		if (dm->handle == dm_handle) {
			import->imported_from = dm;
			import->handle = import->base.handle = dm_handle;
			dm->users++;
		}
	}
	vb_lock_release(&session->lock);
	if (import->imported_from == NULL) {
		free(import);
		return vb_fail_null(-ENOENT);
	}
	vb_context_hold(context);
	return &import->base;
}

VB_EXPORT void ibv_unimport_dm(struct ibv_dm *dm)
{
	VB_UNCANCELLED;
	if (dm != NULL && vb_device_memory_of(dm)->imported_from != NULL)
		free_import(vb_device_memory_of(dm));
}
