/* SPDX-License-Identifier: MIT
 *
 * ibv_advise_mr: prefetching on-demand memory. Nothing is pinned and there is no device page table, so prefetching is
 * bringing the pages in; NO_FAULT asks to use only what is already there, which is always so.
 */
#include <errno.h>

#include "io/cancellation.h"
#include "verbs/explain.h"
#include "io/memory_check.h"
#include "verbs/operations.h"

/* One element, with the errors of ibv_advise_mr(3). */
static int advise(struct vb_session *session, struct vb_pd *pd, enum ibv_advise_mr_advice advice,
		  const struct ibv_sge *sge)
{
	struct vb_region_info info;
	uint64_t offset;

	if (vb_region_query(session->memory, sge->lkey, &info) != 0)
		return vb_fail_number(EFAULT);
	if (info.kind != VB_REGION_MR || !(info.access & IBV_ACCESS_ON_DEMAND))
		return vb_fail_number(EINVAL);
	if (info.pd != pd)
		return vb_fail_number(EPERM);
	if (advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE && !(info.access & IBV_ACCESS_LOCAL_WRITE))
		return vb_fail_number(EPERM);
	offset = sge->addr - info.iova;
	if (sge->addr < info.iova || offset > info.length || sge->length > info.length - offset)
		return vb_fail_number(EFAULT);
	if (sge->length == 0 || advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return 0;
	return -vb_memory_range_prefetch(info.start + offset, sge->length,
					 advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE);
}

static void explain(const struct ibv_sge *sge, int error)
{
	vb_explain_refused("ibv_advise_mr", "lkey", sge->lkey, error,
			   error == EINVAL  ? "the region was registered without IBV_ACCESS_ON_DEMAND."
			   : error == EPERM ? "the region belongs to another PD, or lacks LOCAL_WRITE for PREFETCH_WRITE."
					    : "no region has this lkey, or the range is not inside it or not mapped.",
			   NULL);
}

int vb_verbs_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *sg_list,
		       uint32_t num_sges)
{
	VB_UNCANCELLED;
	if (flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH)
		return vb_fail_number(EINVAL);
	if (advice != IBV_ADVISE_MR_ADVICE_PREFETCH && advice != IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE &&
	    advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return vb_fail_number(ENOTSUP);
	if (num_sges == 0 || sg_list == NULL)
		return vb_fail_number(EINVAL);
	for (uint32_t i = 0; i < num_sges; i++) {
		int error = advise(vb_context_of(pd->context)->session, vb_pd_of(pd), advice, &sg_list[i]);

		if (error != 0) {
			explain(&sg_list[i], error);
			return vb_fail_number(error);
		}
	}
	return 0;
}
