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

static void fill_slot(struct vb_slot *slot, const struct vb_region_info *info)
{
	slot->kind = (uint8_t)info->kind;
	vb_slot_set_pd(slot, info->pd);
	slot->start = info->start;
	slot->length = info->length;
	/* A zero-based region is named by offsets (ibv_reg_mr(3)). */
	slot->iova = info->access & IBV_ACCESS_ZERO_BASED ? 0 : info->iova;
	slot->access = info->access;
	slot->null = info->kind == VB_REGION_NULL_MR;
	/* No plain pointer to what is synchronized, or a GPU's: every access comes by place.c. */
	slot->checked = (info->checked || info->sync != 0 || info->gpu) && !slot->null;
	slot->sync = info->sync;
	slot->gpu = info->gpu;
	slot->qpn = 0;
}

int vb_region_register(struct vb_memory *memory, const struct vb_region_info *info, uint32_t *key)
{
	struct vb_slot *slot = NULL;
	int rc = 0;

	vb_mutex_lock(&memory->mutex);
	if (info->gpu && memory->peers > 0)
		rc = -EBUSY;
	else if (!(slot = vb_table_take(memory, key)))
		rc = -ENOMEM;
	if (slot) {
		fill_slot(slot, info);
		memory->gpu_regions += info->gpu != NULL;
		vb_pd_count(info->pd, 1);
		vb_table_count(memory, info->kind, 1);
		vb_table_publish(memory, slot, VB_SLOT_LIVE, *key);
	}
	vb_mutex_unlock(&memory->mutex);
	return rc;
}

/* A region's slot by its exact key. Caller holds the mutex. */
static struct vb_slot *find_region(struct vb_memory *memory, uint32_t key) VB_NEEDS(memory->mutex)
{
	struct vb_slot *slot = vb_table_find(memory, key);

	if (!slot || __atomic_load_n(&slot->word, __ATOMIC_SEQ_CST) != vb_slot_word(VB_SLOT_LIVE, key))
		return NULL;
	return slot->kind == VB_REGION_MR || slot->kind == VB_REGION_NULL_MR ? slot : NULL;
}

/* Caller holds memory->mutex. The time first: who sees the key gone may ask since when. */
static void withdraw_now(struct vb_memory *memory, struct vb_slot *slot) VB_NEEDS(memory->mutex)
{
	if (memory->host.now)
		__atomic_store_n(&slot->gone_at, memory->host.now(memory->host.context), __ATOMIC_RELAXED);
	vb_table_withdraw(slot, VB_SLOT_FREE);
}

/* Take a region's bytes away; its slot is the caller's then, when those inside have left. `kind` NULL: of any. */
static int withdraw_region(struct vb_memory *memory, uint32_t key, const enum vb_region_kind *kind, struct vb_slot **out)
{
	struct vb_slot *slot;
	int rc = 0;

	vb_mutex_lock(&memory->mutex);
	slot = find_region(memory, key);
	if (slot && slot->windows > 0)
		vb_window_end_those_left(memory);
	if (!slot || (kind && slot->kind != *kind))
		rc = -EINVAL;
	else if (slot->windows > 0)
		rc = -EBUSY;
	else
		withdraw_now(memory, slot);
	vb_mutex_unlock(&memory->mutex);
	*out = slot;
	return rc;
}

int vb_region_deregister(struct vb_memory *memory, uint32_t key)
{
	struct vb_slot *slot;
	int rc = withdraw_region(memory, key, NULL, &slot);

	if (rc != 0)
		return rc;
	vb_table_await(memory, slot);
	vb_mutex_lock(&memory->mutex);
	vb_pd_count(slot->pd, -1u);
	vb_table_count(memory, slot->kind, -1u);
	memory->gpu_regions -= slot->gpu != NULL;
	vb_table_release(memory, slot);
	vb_mutex_unlock(&memory->mutex);
	return 0;
}

int vb_region_reregister(struct vb_memory *memory, uint32_t key, const struct vb_region_info *info)
{
	struct vb_slot *slot;
	int rc = withdraw_region(memory, key, &info->kind, &slot);

	if (rc != 0)
		return rc;
	vb_table_await(memory, slot);
	vb_mutex_lock(&memory->mutex);
	vb_pd_count(info->pd, 1);
	vb_pd_count(slot->pd, -1u);
	fill_slot(slot, info);
	vb_table_publish(memory, slot, VB_SLOT_LIVE, key);
	vb_mutex_unlock(&memory->mutex);
	return 0;
}

int vb_region_query(struct vb_memory *memory, uint32_t key, struct vb_region_info *info)
{
	enum vb_fault fault;
	struct vb_slot *slot = vb_table_enter(memory, key, &fault);

	if (!slot)
		return -EINVAL;
	*info = (struct vb_region_info){
		.kind = slot->kind,
		.pd = slot->pd,
		.start = slot->start,
		.length = slot->length,
		.iova = slot->iova,
		.access = slot->access,
		.checked = slot->checked,
		.sync = slot->sync,
		.gpu = slot->gpu,
	};
	vb_table_leave(slot);
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

void vb_memory_dismiss_peer(struct vb_memory *memory)
{
	vb_mutex_lock(&memory->mutex);
	memory->peers--;
	vb_mutex_unlock(&memory->mutex);
}
