/* SPDX-License-Identifier: MIT
 *
 * Why the verbs that make and change objects say no: each looks at its arguments once more, in the order in which the
 * verb did, and tells the first that is wrong. `error` is a positive errno; errno itself stays as it is. Nothing
 * happens unless explanations are asked for.
 */
#ifndef VB_VERBS_EXPLAIN_OBJECTS_H
#define VB_VERBS_EXPLAIN_OBJECTS_H

#include "verbs/objects.h"

/* ibv_get_device_list, ibv_open_device, ibv_import_device. `device` NULL: none in particular. */
void vb_explain_no_device(const char *verb, const char *device, int error);

/* As many objects as the profile grants exist. */
void vb_explain_no_more(const struct vb_profile *profile, const char *verb, const char *limit, uint32_t most, int error);

/* ibv_query_port, ibv_query_gid, ibv_query_pkey: there is one port, and tables have their length. */
void vb_explain_no_entry(const char *verb, uint64_t port_num, int64_t index, uint32_t table_length);

void vb_explain_no_ah(struct ibv_context *context, const struct ibv_ah_attr *attr, int error);
/* ibv_init_ah_from_wc, ibv_create_ah_from_wc. */
void vb_explain_no_answer_address(uint8_t port_num, const struct ibv_wc *wc, const struct ibv_grh *grh);

void vb_explain_no_srq(struct ibv_context *context, const char *verb, const struct ibv_srq_attr *attr, int error);
void vb_explain_no_srq_ex(const struct ibv_srq_init_attr_ex *attr, int error);
void vb_explain_srq_unchanged(struct vb_srq *srq, const struct ibv_srq_attr *attr, int attr_mask, int error);
void vb_explain_srq_not_posted(struct vb_srq *srq, const struct ibv_recv_wr *wr, int error);

void vb_explain_no_cq(struct ibv_context *context, uint64_t cqe, uint64_t comp_vector, int error);
void vb_explain_no_cq_ex(const struct ibv_cq_init_attr_ex *attr, uint64_t supported_fields, int error);
void vb_explain_cq_unchanged(const struct vb_cq *cq, int cqe, int error);

void vb_explain_mr_unchanged(const struct vb_memory_region *region, int flags, const struct ibv_pd *pd, void *address,
			     size_t length, int access, int error);
/* `size` of the buffer behind the descriptor; negative: it has none. */
void vb_explain_no_dmabuf_mr(const struct vb_profile *profile, uint64_t offset, size_t length, uint64_t iova, int64_t size,
			     unsigned access, unsigned allowed, int error);
void vb_explain_no_dm(const struct ibv_alloc_dm_attr *attr, size_t free_bytes, int error);
void vb_explain_no_dm_mr(const struct ibv_dm *dm, size_t dm_length, uint64_t offset, size_t length, unsigned access,
			 unsigned allowed, int error);

/* ibv_attach_mcast, ibv_detach_mcast. */
void vb_explain_no_group(const char *verb, const struct ibv_qp *qp, const union ibv_gid *gid, int error);

/* The slots of verbs that do not exist here: they refuse as an empty slot does, and say so. */
void vb_explain_fill_unsupported(struct verbs_context *table);

#endif
