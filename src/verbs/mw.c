/* SPDX-License-Identifier: MIT
 *
 * Memory windows: type 1, bound by ibv_bind_mw, and type 2, bound by work requests. Both binds are executed in order
 * with the other work of the queue pair.
 */
#include <errno.h>
#include <stdlib.h>

#include "io/cancellation.h"
#include "verbs/context.h"
#include "verbs/explain.h"
#include "verbs/operations.h"
#include "verbs/quota.h"

struct ibv_mw *vb_verbs_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	VB_UNCANCELLED;
	enum vb_region_kind kind = type == IBV_MW_TYPE_1 ? VB_REGION_MW_TYPE_1 : VB_REGION_MW_TYPE_2;
	struct vb_memory_window *mw;
	int error;

	if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) {
		vb_explain_refused("ibv_alloc_mw", "type", type, EINVAL, "there are windows of types 1 and 2.", NULL);
		return vb_fail_null(-EINVAL);
	}
	error = vb_quota_take(pd->context, VB_COUNTED_MW);
	if (error != 0)
		return vb_fail_null(error);
	mw = calloc(1, sizeof(*mw));
	error = mw == NULL ? -ENOMEM :
			     vb_window_allocate(vb_context_of(pd->context)->session->memory, kind, vb_pd_of(pd), &mw->handle);
	if (error != 0) {
		free(mw);
		vb_quota_give(pd->context, VB_COUNTED_MW);
		return vb_fail_null(error);
	}
	mw->base.context = pd->context;
	mw->base.pd = pd;
	mw->base.handle = mw->base.rkey = mw->handle;
	mw->base.type = type;
	vb_context_hold(pd->context);
	vb_domain_hold(vb_domain_of(pd));
	return &mw->base;
}

/* The handle, unlike the rkey, is not changed by the application; it leads to the window whatever tag it has now. */
int vb_verbs_dealloc_mw(struct ibv_mw *mw)
{
	VB_UNCANCELLED;
	struct ibv_context *context;
	int error;

	if (mw == NULL)
		return vb_fail_number(EINVAL);
	if (mw->handle != vb_memory_window_of(mw)->handle)
		return vb_fail_number(ENOENT);
	context = mw->context;
	error = vb_window_deallocate(vb_context_of(context)->session->memory, mw->handle);
	if (error != 0) {
		vb_explain_refused("ibv_dealloc_mw", "rkey", mw->rkey, -error, "there is no such window (any more).",
				   NULL);
		return vb_fail_number(-error);
	}
	vb_domain_put(vb_domain_of(mw->pd));
	free(mw);
	vb_quota_give(context, VB_COUNTED_MW);
	vb_context_put(context);
	return 0;
}

/* ibv_bind_mw(3): the new key is known when the call returns, before the bind is executed. */
int vb_verbs_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *mw_bind)
{
	struct ibv_send_wr wr = {
		.wr_id = mw_bind->wr_id,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = mw_bind->send_flags,
	};
	struct ibv_send_wr *bad_wr;
	int error;

	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info = mw_bind->bind_info;
	error = vb_verbs_post_send(qp, &wr, &bad_wr);
	if (error == 0)
		mw->rkey = wr.bind_mw.rkey;
	return error;
}
