/* SPDX-License-Identifier: MIT
 *
 * Registering, changing and forgetting regions. Access to their bytes is in memory/place.c, windows are in
 * memory/window.c.
 */
#include "memory/region.h"

#include <errno.h>

#include "memory/table.h"

int vb_region_check_access(unsigned access)
{
	const unsigned known = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			       IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |
			       IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB | IBV_ACCESS_OPTIONAL_RANGE;

	if (access & ~known)
		return -EINVAL;
	/* IBA 10.6.3.1, ibv_reg_mr(3): a region that others may write to must be writable here. */
	if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) && !(access & IBV_ACCESS_LOCAL_WRITE))
		return -EINVAL;
	return 0;
}

static void fill_entry(struct vb_mr_entry *entry, const struct vb_region_info *info)
{
	entry->kind = (uint8_t)info->kind;
	vb_mr_entry_set_pd(entry, info->pd);
	entry->start = info->start;
	entry->length = info->length;
	/* A zero-based region is named by offsets (ibv_reg_mr(3)). */
	entry->iova = info->access & IBV_ACCESS_ZERO_BASED ? 0 : info->iova;
	entry->access = info->access;
	entry->null = info->kind == VB_REGION_NULL_MR;
	/* No plain pointer to what is synchronized, or a GPU's: every access comes by place.c. */
	entry->checked = (info->checked || info->sync != 0 || info->gpu) && !entry->null;
	entry->sync = info->sync;
	entry->gpu = info->gpu;
	entry->qpn = 0;
}

static void count_gpu(struct vb_memory *memory, const void *gpu, uint32_t change)
{
	if (gpu)
		__atomic_fetch_add(&memory->gpu_regions, change, __ATOMIC_RELAXED);
}

int vb_region_register(struct vb_memory *memory, const struct vb_region_info *info, uint32_t *key)
{
	struct vb_mr_entry *entry = NULL;
	int rc = 0;

	vb_mutex_lock(&memory->mutex);
	if (info->gpu && memory->peers > 0)
		rc = -EBUSY;
	else if (!(entry = vb_table_take(memory, key)))
		rc = -ENOMEM;
	if (entry) {
		fill_entry(entry, info);
		count_gpu(memory, info->gpu, 1);
		vb_pd_count(info->pd, 1);
		vb_table_count(memory, info->kind, 1);
		vb_table_publish(memory, entry, VB_MR_ENTRY_LIVE, *key);
	}
	vb_mutex_unlock(&memory->mutex);
	return rc;
}

/* A region's entry by its exact key. Caller holds the mutex. */
static struct vb_mr_entry *find_region(struct vb_memory *memory, uint32_t key) VB_NEEDS(memory->mutex)
{
	struct vb_mr_entry *entry = vb_table_find(memory, key);

	if (!entry || __atomic_load_n(&entry->word, __ATOMIC_SEQ_CST) != vb_mr_entry_word(VB_MR_ENTRY_LIVE, key))
		return NULL;
	return entry->kind == VB_REGION_MR || entry->kind == VB_REGION_NULL_MR ? entry : NULL;
}

/* Caller holds memory->mutex. The time first: who sees the key gone may ask since when. */
static void withdraw_now(struct vb_memory *memory, struct vb_mr_entry *entry) VB_NEEDS(memory->mutex)
{
	if (memory->host.now)
		__atomic_store_n(&entry->gone_at, memory->host.now(memory->host.context), __ATOMIC_RELAXED);
	vb_table_withdraw(entry, VB_MR_ENTRY_FREE);
}

/* Take a region's bytes away; its entry is the caller's then, when those inside have left. `kind` NULL: of any. */
static int withdraw_region(struct vb_memory *memory, uint32_t key, const enum vb_region_kind *kind, struct vb_mr_entry **out)
{
	struct vb_mr_entry *entry;
	int rc = 0;

	vb_mutex_lock(&memory->mutex);
	entry = find_region(memory, key);
	if (entry && entry->windows > 0)
		vb_window_end_those_left(memory);
	if (!entry || (kind && entry->kind != *kind))
		rc = -EINVAL;
	else if (entry->windows > 0)
		rc = -EBUSY;
	else
		withdraw_now(memory, entry);
	vb_mutex_unlock(&memory->mutex);
	*out = entry;
	return rc;
}

int vb_region_deregister(struct vb_memory *memory, uint32_t key)
{
	struct vb_mr_entry *entry;
	int rc = withdraw_region(memory, key, NULL, &entry);

	if (rc != 0)
		return rc;
	vb_table_await(memory, entry);
	vb_mutex_lock(&memory->mutex);
	vb_pd_count(entry->pd, -1u);
	vb_table_count(memory, entry->kind, -1u);
	count_gpu(memory, entry->gpu, -1u);
	vb_table_release(memory, entry);
	vb_mutex_unlock(&memory->mutex);
	return 0;
}

int vb_region_reregister(struct vb_memory *memory, uint32_t key, const struct vb_region_info *info)
{
	struct vb_mr_entry *entry;
	int rc = withdraw_region(memory, key, &info->kind, &entry);

	if (rc != 0)
		return rc;
	vb_table_await(memory, entry);
	vb_mutex_lock(&memory->mutex);
	vb_pd_count(info->pd, 1);
	vb_pd_count(entry->pd, -1u);
	fill_entry(entry, info);
	vb_table_publish(memory, entry, VB_MR_ENTRY_LIVE, key);
	vb_mutex_unlock(&memory->mutex);
	return 0;
}

int vb_region_query(struct vb_memory *memory, uint32_t key, struct vb_region_info *info)
{
	enum vb_fault fault;
	struct vb_mr_entry *entry = vb_table_enter(memory, key, &fault);

	if (!entry)
		return -EINVAL;
	*info = (struct vb_region_info){
		.kind = entry->kind,
		.pd = entry->pd,
		.start = entry->start,
		.length = entry->length,
		.iova = entry->iova,
		.access = entry->access,
		.checked = entry->checked,
		.sync = entry->sync,
		.gpu = entry->gpu,
	};
	vb_table_leave(entry);
	return 0;
}

bool vb_memory_admit_peer(struct vb_memory *memory)
{
	bool admitted;

	vb_mutex_lock(&memory->mutex);
	admitted = memory->gpu_regions == 0;
	memory->peers += admitted;
	vb_mutex_unlock(&memory->mutex);
	return admitted;
}

bool vb_memory_has_gpu(const struct vb_memory *memory)
{
	return __atomic_load_n(&memory->gpu_regions, __ATOMIC_RELAXED) > 0;
}

void vb_memory_dismiss_peer(struct vb_memory *memory)
{
	vb_mutex_lock(&memory->mutex);
	memory->peers--;
	vb_mutex_unlock(&memory->mutex);
}
