/* SPDX-License-Identifier: MIT
 *
 * The tables of operations in a context. The headers' inline verbs answer EOPNOTSUPP by themselves where an extended
 * slot is NULL; slots they call without looking are filled with functions that say so, and so are the slots of 1.0,
 * which only binaries that peek into the table would call.
 */
#include "verbs/operations.h"

#include <errno.h>

#include "verbs/context.h"
#include "verbs/explain_objects.h"

static int query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	return ibv_query_device(context, attr);
}

static int query_port(struct ibv_context *context, uint8_t port_num, struct _compat_ibv_port_attr *attr)
{
	return ibv_query_port(context, port_num, attr);
}

/* The type the header gives to slots that no program may call any more. */
static void *refuse(void)
{
	errno = EOPNOTSUPP;
	return NULL;
}

static const struct ibv_context_ops operations = {
	._compat_query_device = query_device,
	._compat_query_port = query_port,
	._compat_alloc_pd = refuse,
	._compat_dealloc_pd = refuse,
	._compat_reg_mr = refuse,
	._compat_rereg_mr = refuse,
	._compat_dereg_mr = refuse,
	.alloc_mw = vb_verbs_alloc_mw,
	.bind_mw = vb_verbs_bind_mw,
	.dealloc_mw = vb_verbs_dealloc_mw,
	._compat_create_cq = refuse,
	.poll_cq = vb_verbs_poll_cq,
	.req_notify_cq = vb_verbs_req_notify_cq,
	._compat_cq_event = refuse,
	._compat_resize_cq = refuse,
	._compat_destroy_cq = refuse,
	._compat_create_srq = refuse,
	._compat_modify_srq = refuse,
	._compat_query_srq = refuse,
	._compat_destroy_srq = refuse,
	.post_srq_recv = vb_verbs_post_srq_recv,
	._compat_create_qp = refuse,
	._compat_query_qp = refuse,
	._compat_modify_qp = refuse,
	._compat_destroy_qp = refuse,
	.post_send = vb_verbs_post_send,
	.post_recv = vb_verbs_post_recv,
	._compat_create_ah = refuse,
	._compat_destroy_ah = refuse,
	._compat_attach_mcast = refuse,
	._compat_detach_mcast = refuse,
	._compat_async_event = refuse,
};

void vb_context_fill_operations(struct vb_context *context)
{
	struct verbs_context *table = &context->public;

	table->context.ops = operations;
	table->query_port = vb_verbs_query_port;
	table->advise_mr = vb_verbs_advise_mr;
	table->alloc_null_mr = vb_verbs_alloc_null_mr;
	table->reg_dm_mr = vb_verbs_reg_dm_mr;
	table->alloc_dm = vb_verbs_alloc_dm;
	table->free_dm = vb_verbs_free_dm;
	table->alloc_parent_domain = vb_verbs_alloc_parent_domain;
	table->dealloc_td = vb_verbs_dealloc_td;
	table->alloc_td = vb_verbs_alloc_td;
	table->modify_cq = vb_verbs_modify_cq;
	table->query_rt_values = vb_verbs_query_rt_values;
	table->create_cq_ex = vb_verbs_create_cq_ex;
	table->query_device_ex = vb_verbs_query_device_ex;
	table->create_qp_ex = vb_verbs_create_qp_ex;
	table->create_srq_ex = vb_verbs_create_srq_ex;
	table->create_wq = vb_verbs_create_wq;
	table->modify_wq = vb_verbs_modify_wq;
	table->destroy_wq = vb_verbs_destroy_wq;
	table->create_rwq_ind_table = vb_verbs_create_rwq_ind_table;
	table->destroy_rwq_ind_table = vb_verbs_destroy_rwq_ind_table;
	table->open_xrcd = vb_verbs_open_xrcd;
	table->close_xrcd = vb_verbs_close_xrcd;
	table->get_srq_num = vb_verbs_get_srq_num;
	table->open_qp = vb_verbs_open_qp;
	table->modify_qp_rate_limit = vb_verbs_modify_qp_rate_limit;
	table->ibv_create_flow = vb_verbs_create_flow;
	table->ibv_destroy_flow = vb_verbs_destroy_flow;
	table->create_counters = vb_verbs_create_counters;
	table->destroy_counters = vb_verbs_destroy_counters;
	table->attach_counters_point_flow = vb_verbs_attach_counters_point_flow;
	table->read_counters = vb_verbs_read_counters;
	vb_explain_fill_unsupported(table);
}
