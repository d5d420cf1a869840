/* SPDX-License-Identifier: MIT
 *
 * Indirection tables: which work queue takes the frames of which hash (queue/rss.h). They stay as they were made, and keep their work
 * queues.
 */
#include <errno.h>
#include <stdlib.h>

#include "io/cancellation.h"
#include "profiles/limits.h"
#include "verbs/context.h"
#include "verbs/explain.h"
#include "verbs/operations.h"
#include "verbs/quota.h"

static struct ibv_rwq_ind_table *refuse(int error, const char *cause, const char *fix)
{
	vb_explain_refused("ibv_create_rwq_ind_table", NULL, 0, -error, cause, fix);
	return vb_fail_null(error);
}

/* The work queues of the entries; NULL: one is none of this open device, or there is no memory (*error). */
static struct vb_wq **collect(struct ibv_context *context, const struct ibv_rwq_ind_table_init_attr *attr, int *error)
{
	uint32_t size = 1u << attr->log_ind_tbl_size;
	struct vb_wq **entries = calloc(size, sizeof(struct vb_wq *));

	*error = entries == NULL ? -ENOMEM : 0;
	for (uint32_t i = 0; *error == 0 && i < size; i++) {
		struct ibv_wq *wq = attr->ind_tbl[i];

		if (wq == NULL || !vb_same_session(context, wq->context))
			*error = -EINVAL;
		else if (wq->handle != vb_work_queue_of(wq)->handle)
			*error = -ENOENT;
		else
			entries[i] = &vb_work_queue_of(wq)->wq;
	}
	if (*error == 0)
		return entries;
	free(entries);
	return NULL;
}

static struct vb_rss_table *create_core(struct ibv_context *context, const struct ibv_rwq_ind_table_init_attr *attr, int *error)
{
	struct vb_wq **entries = collect(context, attr, error);
	struct vb_rss_table *table = entries != NULL ? vb_rss_table_create(entries, 1u << attr->log_ind_tbl_size) : NULL;

	if (entries != NULL && table == NULL)
		*error = -ENOMEM;
	free(entries);
	return table;
}

struct ibv_rwq_ind_table *vb_verbs_create_rwq_ind_table(struct ibv_context *context, struct ibv_rwq_ind_table_init_attr *attr)
{
	VB_UNCANCELLED;
	struct vb_indirection_table *table;
	int error;

	if (vb_profile_type(vb_profile_of_context(context), IBV_QPT_RAW_PACKET) == NULL)
		return refuse(-EOPNOTSUPP, "they are for raw packets, which the device has not.", NULL);
	if (attr == NULL || attr->comp_mask != 0 || attr->ind_tbl == NULL || attr->log_ind_tbl_size > VB_MAX_LOG_RWQ_TABLE)
		return refuse(-EINVAL, "comp_mask is not 0, there are no entries, or more than the device grants.",
			      "See rss_caps of ibv_query_device_ex; log_ind_tbl_size is the power of two.");
	error = vb_quota_take(context, VB_COUNTED_RWQ_TABLE);
	if (error != 0)
		return vb_fail_null(error);
	table = calloc(1, sizeof(*table));
	if (table == NULL)
		error = -ENOMEM;
	else
		table->table = create_core(context, attr, &error);
	if (error != 0) {
		free(table);
		vb_quota_give(context, VB_COUNTED_RWQ_TABLE);
		return refuse(error, error == -ENOMEM ? "there is no memory for it." : "an entry is no work queue of this open device.",
			      NULL);
	}
	vb_context_list_object(context, &vb_context_of(context)->rwq_tables, &table->node, &table->handle);
	table->base.context = context;
	table->base.ind_tbl_handle = table->base.ind_tbl_num = (int)table->handle;
	vb_context_hold(context);
	return &table->base;
}

int vb_verbs_destroy_rwq_ind_table(struct ibv_rwq_ind_table *public)
{
	VB_UNCANCELLED;
	struct vb_indirection_table *table = vb_indirection_table_of(public);
	struct ibv_context *context = public->context;

	if (public->ind_tbl_handle != (int)table->handle)
		return vb_fail_number(ENOENT);
	if (vb_count_read(&table->table->users) > 0) {
		vb_explain_refused("ibv_destroy_rwq_ind_table", NULL, 0, EBUSY, "queue pairs use it.", "Destroy the queue pairs first.");
		return vb_fail_number(EBUSY);
	}
	vb_context_unlist_object(context, &table->node);
	vb_rss_table_destroy(table->table);
	free(table);
	vb_quota_give(context, VB_COUNTED_RWQ_TABLE);
	vb_context_put(context);
	return 0;
}
