/* SPDX-License-Identifier: MIT
 *
 * Regions of GPU memory. Adapters reach it across the bus; here the program's own CUDA driver copies it to and
 * from the packets.
 */
#include <errno.h>

#include "io/cuda.h"
#include "verbs/context.h"
#include "verbs/explain.h"
#include "verbs/mr.h"

static void explain(const char *verb, uint64_t start, int error)
{
	if (error == EBUSY)
		vb_explain_refused(verb, "address", start, EOPNOTSUPP,
				   "it is GPU memory, and queue pairs of this device go through the host's memory: there peers copy for "
				   "themselves, and cannot reach a GPU.",
				   "Register it before the first connection on this host, or have all connections go by wire "
				   "(verbena run --wire).");
	else
		vb_explain_refused(verb, "address", start, error,
				   "it is GPU memory, and the CUDA driver of this process does not copy it.",
				   "Copy it into memory of the host, and register that.");
}

struct vb_memory_region *vb_gpu_region_create(struct ibv_pd *pd, const char *verb, struct vb_region_info *info,
					      enum vb_region_backing backing, void *address)
{
	struct vb_memory_region *region;
	struct vb_cuda_memory *gpu;
	int error = vb_cuda_open(info->start, info->length, &gpu);

	if (error == -EFAULT || error == -ENOMEM)
		return vb_fail_null(error);
	if (error != 0) {
		explain(verb, info->start, -error);
		return vb_fail_null(error);
	}
	info->gpu = gpu;
	region = vb_memory_region_create(pd, info, backing, address, info->length);
	if (region != NULL) {
		region->gpu = gpu;
		return region;
	}
	error = errno;
	vb_cuda_close(gpu);
	if (error == EBUSY) {
		explain(verb, info->start, error);
		error = EOPNOTSUPP;
	}
	return vb_fail_null(-error);
}
