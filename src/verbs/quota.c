/* SPDX-License-Identifier: MIT
 *
 * See quota.h. Which errno a full device gives is not said by the manual; it is that of a lack of memory, as adapters have it.
 */
#include "verbs/quota.h"

#include <errno.h>

#include "profiles/limits.h"
#include "verbs/explain_objects.h"

static uint32_t limit_of(const struct vb_profile_limits *most, enum vb_counted kind)
{
	const uint32_t limits[VB_COUNTED_KINDS] = {
		[VB_COUNTED_PD] = most->pd, [VB_COUNTED_MR] = most->mr, [VB_COUNTED_MW] = most->mw, [VB_COUNTED_CQ] = most->cq,
		[VB_COUNTED_SRQ] = most->srq, [VB_COUNTED_QP] = most->qp, [VB_COUNTED_AH] = most->ah,
		/* Each has a number as queue pairs have. */
		[VB_COUNTED_WQ] = most->qp, [VB_COUNTED_RWQ_TABLE] = VB_MAX_RWQ_TABLES,
	};

	return limits[kind];
}

int vb_quota_take(struct ibv_context *context, enum vb_counted kind)
{
	static const struct {
		const char *verb, *limit;
	} words[VB_COUNTED_KINDS] = {
		[VB_COUNTED_PD] = {"ibv_alloc_pd", "max_pd"}, [VB_COUNTED_MR] = {"ibv_reg_mr", "max_mr"},
		[VB_COUNTED_MW] = {"ibv_alloc_mw", "max_mw"}, [VB_COUNTED_CQ] = {"ibv_create_cq", "max_cq"},
		[VB_COUNTED_SRQ] = {"ibv_create_srq", "max_srq"}, [VB_COUNTED_QP] = {"ibv_create_qp", "max_qp"},
		[VB_COUNTED_AH] = {"ibv_create_ah", "max_ah"}, [VB_COUNTED_WQ] = {"ibv_create_wq", "max_wq_type_rq"},
		[VB_COUNTED_RWQ_TABLE] = {"ibv_create_rwq_ind_table", "max_rwq_indirection_tables"},
	};
	struct vb_session *session = vb_context_of(context)->session;
	const struct vb_profile *profile = session->host.profile;
	uint32_t most = limit_of(&profile->limits, kind);
	int error = most == 0 ? -EOPNOTSUPP : -ENOMEM;

	if (__atomic_fetch_add(&session->counted[kind], 1, __ATOMIC_RELAXED) < most)
		return 0;
	vb_quota_give(context, kind);
	vb_explain_no_more(profile, words[kind].verb, words[kind].limit, most, -error);
	return error;
}

void vb_quota_give(struct ibv_context *context, enum vb_counted kind)
{
	__atomic_fetch_sub(&vb_context_of(context)->session->counted[kind], 1, __ATOMIC_RELAXED);
}
