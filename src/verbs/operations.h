/* SPDX-License-Identifier: MIT
 *
 * The verbs that the public headers reach through tables in the context and in the objects instead of through exported
 * names. operations.c puts them in place.
 */
#ifndef VB_VERBS_OPERATIONS_H
#define VB_VERBS_OPERATIONS_H

#include "verbs/objects.h"

/* query.c */
int vb_verbs_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr, size_t length);
int vb_verbs_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
			     struct ibv_device_attr_ex *attr, size_t attr_size);
int vb_verbs_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values);

/* pd.c */
struct ibv_td *vb_verbs_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *init_attr);
int vb_verbs_dealloc_td(struct ibv_td *td);
struct ibv_pd *vb_verbs_alloc_parent_domain(struct ibv_context *context, struct ibv_parent_domain_init_attr *attr);

/* mr.c, advise.c, dm.c, mw.c */
struct ibv_mr *vb_verbs_alloc_null_mr(struct ibv_pd *pd);
int vb_verbs_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *sg_list,
		       uint32_t num_sges);
struct ibv_dm *vb_verbs_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr);
int vb_verbs_free_dm(struct ibv_dm *dm);
struct ibv_mr *vb_verbs_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t dm_offset, size_t length,
				  unsigned int access);
struct ibv_mw *vb_verbs_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int vb_verbs_dealloc_mw(struct ibv_mw *mw);
int vb_verbs_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *mw_bind);

/* cq.c, cq_ex.c */
int vb_verbs_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
int vb_verbs_req_notify_cq(struct ibv_cq *cq, int solicited_only);
int vb_verbs_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
struct ibv_cq_ex *vb_verbs_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *init_attr);

/* srq.c */
struct ibv_srq *vb_verbs_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr);
int vb_verbs_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);

/* wq.c, rwq_table.c */
struct ibv_wq *vb_verbs_create_wq(struct ibv_context *context, struct ibv_wq_init_attr *attr);
int vb_verbs_modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *attr);
int vb_verbs_destroy_wq(struct ibv_wq *wq);
int vb_verbs_post_wq_recv(struct ibv_wq *wq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
struct ibv_rwq_ind_table *vb_verbs_create_rwq_ind_table(struct ibv_context *context, struct ibv_rwq_ind_table_init_attr *attr);
int vb_verbs_destroy_rwq_ind_table(struct ibv_rwq_ind_table *table);

/* xrcd.c */
struct ibv_xrcd *vb_verbs_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr);
int vb_verbs_close_xrcd(struct ibv_xrcd *xrcd);
int vb_verbs_get_srq_num(struct ibv_srq *srq, uint32_t *number);

/* qp.c, post.c */
struct ibv_qp *vb_verbs_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr);
struct ibv_qp *vb_verbs_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
int vb_verbs_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
struct vb_queue_observer;
void vb_verbs_observe_sends(const struct vb_qp *qp, uint32_t first, vb_time now);
void vb_verbs_observe_receives(const struct vb_queue_observer *observer, const struct vb_qp *qp,
			       const struct ibv_recv_wr *wr, const struct ibv_recv_wr *bad);
int vb_verbs_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);

/* rate_limit.c */
int vb_verbs_modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr);

/* flow.c */
struct ibv_flow *vb_verbs_create_flow(struct ibv_qp *qp, struct ibv_flow_attr *attr);
int vb_verbs_destroy_flow(struct ibv_flow *flow);

/* counters.c */
struct ibv_counters *vb_verbs_create_counters(struct ibv_context *context, struct ibv_counters_init_attr *attr);
int vb_verbs_destroy_counters(struct ibv_counters *counters);
int vb_verbs_attach_counters_point_flow(struct ibv_counters *counters, struct ibv_counter_attach_attr *attr, struct ibv_flow *flow);
int vb_verbs_read_counters(struct ibv_counters *counters, uint64_t *values, uint32_t count, uint32_t flags);

/* qp_ex.c: the ibv_wr_* builders of a QP created with send_ops_flags. */
/* 0 or -EOPNOTSUPP. `opcodes`: of the profile, for that type. */
int vb_qp_ex_check_operations(uint32_t opcodes, uint64_t send_ops_flags);
void vb_qp_ex_fill_operations(struct vb_queue_pair *qp, uint64_t send_ops_flags);

#endif
