/* SPDX-License-Identifier: MIT
 *
 * ibv_reg_dmabuf_mr(3): memory that another device has exported. What the processor can map is registered through
 * that mapping. What it cannot is a GPU's: its driver copies it, by the address that was exported. The descriptor
 * does not say which that is; programs name it by iova (NCCL, UCX, perftest).
 */
#include <errno.h>
#include <sys/types.h>

#include "io/cancellation.h"
#include "io/descriptor.h"
#include "io/dmabuf.h"
#include "verbs/context.h"
#include "verbs/explain_objects.h"
#include "verbs/export.h"
#include "verbs/mr.h"

static struct vb_memory_region *register_exported(struct ibv_pd *pd, size_t length, uint64_t iova, unsigned access)
{
	struct vb_region_info info = {
		.kind = VB_REGION_MR,
		.start = iova,
		.length = length,
		.iova = iova,
		.access = access,
	};

	return vb_gpu_region_create(pd, "ibv_reg_dmabuf_mr", &info, VB_BACKING_DMABUF, NULL);
}

/* The application may close its own descriptor. 0: it is no dmabuf; else ours + 1, or -errno. */
static int keep_for_sync(int fd)
{
	int kept;

	if (!vb_dmabuf_wants_sync(fd))
		return 0;
	kept = vb_descriptor_duplicate(fd);
	return kept < 0 ? kept : kept + 1;
}

VB_EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
					   int access)
{
	VB_UNCANCELLED;
	const unsigned allowed = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_OPTIONAL_RANGE;
	uint64_t skip = offset & (vb_page_size() - 1);
	const struct vb_profile *profile;
	struct vb_memory_region *region;
	struct vb_region_info info;
	void *mapping = NULL;
	off_t size = -1;
	int error = 0, sync = 0;

	if (pd == NULL)
		return vb_fail_null(-EINVAL);
	profile = vb_profile_of_context(pd->context);
	if (length == 0 || length > profile->limits.mr_size || offset + length < offset || iova + length < iova ||
	    ((unsigned)access & ~allowed) != 0 || vb_region_check_access((unsigned)access) != 0)
		error = -EINVAL;
	if (error == 0) {
		size = vb_descriptor_size(fd);
		if (size < 0)
			error = size == -EBADF ? -EBADF : -EOPNOTSUPP;
		else if (offset + length > (uint64_t)size)
			error = -EINVAL;
	}
	if (error == 0) {
		error = vb_descriptor_map(fd, (off_t)(offset - skip), length + skip, (access & IBV_ACCESS_LOCAL_WRITE) != 0, &mapping);
		/* Its exporter has no such operation: the kernel says EINVAL then, drivers ENODEV and ENOTSUPP. */
		if (error != 0 && error != -ENOMEM && error != -EACCES)
			error = -EOPNOTSUPP;
	}
	if (error == -EOPNOTSUPP) {
		region = register_exported(pd, length, iova, (unsigned)access);
		if (region != NULL)
			return &region->base;
	}
	if (error == 0) {
		sync = keep_for_sync(fd);
		if (sync < 0) {
			error = sync;
			vb_page_unmap(mapping, length + skip);
		}
	}
	if (error != 0) {
		/* A descriptor of -1 asks whether there are dmabufs at all: UCX takes EBADF for yes. */
		if (fd != -1 || error != -EBADF)
			vb_explain_no_dmabuf_mr(profile, offset, length, iova, size, (unsigned)access, allowed, -error);
		return vb_fail_null(error);
	}
	info = (struct vb_region_info){
		.kind = VB_REGION_MR,
		.start = (uintptr_t)mapping + skip,
		.length = length,
		.iova = iova,
		.access = (unsigned)access,
		.sync = sync,
	};
	/* ibv_reg_dmabuf_mr(3) has no address to report. */
	region = vb_memory_region_create(pd, &info, VB_BACKING_DMABUF, NULL, length);
	if (region == NULL) {
		vb_page_unmap(mapping, length + skip);
		if (sync != 0)
			vb_descriptor_close(sync - 1);
		return NULL;
	}
	region->sync = sync;
	region->mapping = mapping;
	region->mapping_length = length + skip;
	return &region->base;
}
