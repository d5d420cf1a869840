/* SPDX-License-Identifier: MIT
 *
 * Memory windows, IBA 10.6.7. A window is an entry of its own. Binding copies into it where the bytes are, so that
 * access through a window looks at one entry only; the region counts its windows and cannot change or go while it has
 * any.
 *
 *   type 1:  named by its PD; bind again at will, length 0 unbinds
 *   type 2:  named by the QP it was bound through; must be invalidated before it is bound again
 */
#include <errno.h>
#include <sched.h>

#include "memory/region.h"
#include "memory/table.h"

static bool is_window(const struct vb_mr_entry *entry)
{
	return vb_mr_entry_state(entry) != VB_MR_ENTRY_FREE &&
	       (entry->kind == VB_REGION_MW_TYPE_1 || entry->kind == VB_REGION_MW_TYPE_2);
}

/* A window is found by the index in its key: between post and execution its tag may have changed. Caller holds the
 * mutex. */
static struct vb_mr_entry *find_window(struct vb_memory *memory, uint32_t key) VB_NEEDS(memory->mutex)
{
	struct vb_mr_entry *entry = vb_table_find(memory, key);

	return entry && is_window(entry) ? entry : NULL;
}

static void list_bound(struct vb_memory *memory, struct vb_mr_entry *entry)
{
	entry->previous = VB_NO_MR_ENTRY;
	entry->next = memory->bound;
	if (entry->next != VB_NO_MR_ENTRY)
		vb_table_at(memory, entry->next)->previous = entry->index;
	memory->bound = entry->index;
}

static void unlist_bound(struct vb_memory *memory, struct vb_mr_entry *entry)
{
	if (entry->previous != VB_NO_MR_ENTRY)
		vb_table_at(memory, entry->previous)->next = entry->next;
	else
		memory->bound = entry->next;
	if (entry->next != VB_NO_MR_ENTRY)
		vb_table_at(memory, entry->next)->previous = entry->previous;
	entry->next = entry->previous = VB_NO_MR_ENTRY;
}

/* No access comes in any more. It is leaving if it was bound. Caller holds the mutex. */
static void begin_unbind(struct vb_mr_entry *entry, enum vb_mr_entry_state state)
{
	vb_table_withdraw(entry, state);
	entry->leaving = entry->region != VB_NO_MR_ENTRY;
}

/* True: no access is inside, and the region may go. Caller holds the mutex. */
static bool end_unbind(struct vb_memory *memory, struct vb_mr_entry *entry) VB_NEEDS(memory->mutex)
{
	if (!entry->leaving)
		return true;
	if (!vb_table_is_left(memory, entry))
		return false;
	vb_table_at(memory, entry->region)->windows--;
	entry->region = VB_NO_MR_ENTRY;
	entry->leaving = false;
	unlist_bound(memory, entry);
	return true;
}

void vb_window_end_those_left(struct vb_memory *memory)
{
	for (uint32_t index = memory->bound; index != VB_NO_MR_ENTRY;) {
		struct vb_mr_entry *entry = vb_table_at(memory, index);

		index = entry->next;
		if (entry->leaving)
			(void)end_unbind(memory, entry);
	}
}

/* Let go of the mutex for a while. Caller holds it, and holds it again on return. */
static void let_others(struct vb_memory *memory, unsigned looks) VB_NEEDS(memory->mutex)
{
	vb_mutex_unlock(&memory->mutex);
	vb_table_pause(memory, looks);
	vb_mutex_lock(&memory->mutex);
}

int vb_window_allocate(struct vb_memory *memory, enum vb_region_kind kind, struct vb_pd *pd, uint32_t *key)
{
	struct vb_mr_entry *entry;

	if (kind != VB_REGION_MW_TYPE_1 && kind != VB_REGION_MW_TYPE_2)
		return -EINVAL;
	vb_mutex_lock(&memory->mutex);
	entry = vb_table_take(memory, key);
	if (entry) {
		entry->kind = (uint8_t)kind;
		vb_mr_entry_set_pd(entry, pd);
		vb_pd_count(pd, 1);
		vb_table_count(memory, kind, 1);
		vb_table_publish(memory, entry, VB_MR_ENTRY_UNBOUND, *key);
	}
	vb_mutex_unlock(&memory->mutex);
	return entry ? 0 : -ENOMEM;
}

int vb_window_deallocate(struct vb_memory *memory, uint32_t key)
{
	struct vb_mr_entry *entry;

	vb_mutex_lock(&memory->mutex);
	entry = find_window(memory, key);
	if (entry) {
		begin_unbind(entry, VB_MR_ENTRY_FREE);
		/* From now on no thread finds it but by the list, and can only end what we wait for. */
		for (unsigned looks = 0; !end_unbind(memory, entry); looks++)
			let_others(memory, looks);
		vb_pd_count(entry->pd, -1u);
		vb_table_count(memory, entry->kind, -1u);
		vb_table_release(memory, entry);
	}
	vb_mutex_unlock(&memory->mutex);
	return entry ? 0 : -EINVAL;
}

static enum vb_fault check_window(const struct vb_mr_entry *window, const struct vb_window_bind *bind)
{
	if (!window)
		return VB_FAULT_KEY_UNKNOWN;
	if (window->pd != bind->pd) /* IBA C10-72 */
		return VB_FAULT_PD_MISMATCH;
	/* LOCAL_WRITE is taken, as rxe and mlx5 take it, and means nothing: no local key names a window. */
	if (bind->access & ~(unsigned)(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				       IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED))
		return VB_FAULT_BIND;
	if (bind->new_key != 0 && bind->new_key >> VB_KEY_TAG_BITS != bind->window_key >> VB_KEY_TAG_BITS)
		return VB_FAULT_BIND;
	if (window->kind == VB_REGION_MW_TYPE_1)
		return VB_FAULT_NONE;
	/* IBA o10-37.2.30: bound type 2 windows are not bound again. o10-37.2.40: nor unbound by length 0. */
	if (vb_mr_entry_state(window) == VB_MR_ENTRY_LIVE || bind->length == 0 || bind->new_key == 0)
		return VB_FAULT_BIND;
	return VB_FAULT_NONE;
}

static enum vb_fault check_region(const struct vb_mr_entry *region, const struct vb_window_bind *bind)
{
	if (!region || vb_mr_entry_key(region) != bind->region_lkey || vb_mr_entry_state(region) != VB_MR_ENTRY_LIVE ||
	    region->kind != VB_REGION_MR)
		return VB_FAULT_KEY_UNKNOWN;
	if (region->pd != bind->pd) /* IBA C10-73 */
		return VB_FAULT_PD_MISMATCH;
	if (!(region->access & IBV_ACCESS_MW_BIND))
		return VB_FAULT_RIGHTS;
	/* IBA C10-75 */
	if ((bind->access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
	    !(region->access & IBV_ACCESS_LOCAL_WRITE))
		return VB_FAULT_RIGHTS;
	if (bind->address < region->iova || bind->address - region->iova > region->length ||
	    bind->length > region->length - (bind->address - region->iova))
		return VB_FAULT_RANGE;
	return VB_FAULT_NONE;
}

static void fill_window(struct vb_mr_entry *window, const struct vb_mr_entry *region, const struct vb_window_bind *bind)
{
	window->start = region->start + (bind->address - region->iova);
	window->length = bind->length;
	/* A zero-based window is named by offsets from its start (ibv_bind_mw(3)). */
	window->iova = bind->access & IBV_ACCESS_ZERO_BASED ? 0 : bind->address;
	window->access = bind->access;
	window->checked = region->checked;
	window->sync = region->sync;
	window->gpu = region->gpu;
	window->null = false;
	window->qpn = bind->qpn;
}

/* What is bound to nothing yet, to `region` or (NULL) to nothing. Caller holds the mutex. */
static void bind_to(struct vb_memory *memory, struct vb_mr_entry *window, struct vb_mr_entry *region, struct vb_window_bind *bind)
	VB_NEEDS(memory->mutex)
{
	if (bind->new_key == 0)
		bind->new_key = vb_table_new_key(memory, window);
	if (region) {
		fill_window(window, region, bind);
		window->region = region->index;
		region->windows++;
		list_bound(memory, window);
	}
	vb_table_publish(memory, window, region ? VB_MR_ENTRY_LIVE : VB_MR_ENTRY_UNBOUND, bind->new_key);
}

/* What a bind found wrong, with the region it named; where the window itself forbade it, with what the window is bound to. */
static void tell_why(struct vb_fault_record *why, enum vb_fault fault, const struct vb_window_bind *bind, const struct vb_mr_entry *window,
		     const struct vb_mr_entry *region)
{
	const struct vb_mr_entry *range = region;

	if (fault == VB_FAULT_BIND && vb_mr_entry_state(window) == VB_MR_ENTRY_LIVE)
		range = window;
	*why = (struct vb_fault_record){
		.fault = fault,
		.key = region ? bind->region_lkey : bind->window_key,
		.address = bind->address,
		.length = bind->length,
		.region_start = range ? range->iova : 0,
		.region_length = range ? range->length : 0,
		.rights_asked = bind->access,
		.rights_granted = region ? region->access : 0,
		.qpn = bind->qpn,
	};
}

enum vb_window_result vb_window_bind(struct vb_memory *memory, struct vb_window_bind *bind, struct vb_fault_record *why)
{
	enum vb_window_result result = VB_WINDOW_REFUSED;
	struct vb_mr_entry *window, *region = NULL;
	enum vb_fault fault;

	vb_mutex_lock(&memory->mutex);
	window = find_window(memory, bind->window_key);
	fault = check_window(window, bind);
	if (fault == VB_FAULT_NONE && bind->length > 0) {
		region = vb_table_find(memory, bind->region_lkey);
		fault = check_region(region, bind);
	}
	if (fault == VB_FAULT_NONE) {
		/* Those inside through the old binding leave before the new one stands. */
		if (!window->leaving)
			begin_unbind(window, VB_MR_ENTRY_UNBOUND);
		result = end_unbind(memory, window) ? VB_WINDOW_DONE : VB_WINDOW_LATER;
	}
	if (result == VB_WINDOW_DONE)
		bind_to(memory, window, region, bind);
	else if (result == VB_WINDOW_REFUSED)
		tell_why(why, fault, bind, window, region);
	vb_mutex_unlock(&memory->mutex);
	return result;
}

static enum vb_fault check_invalidate(const struct vb_mr_entry *entry, uint32_t key, const struct vb_pd *pd, uint32_t qpn)
{
	if (!entry || vb_mr_entry_key(entry) != key || vb_mr_entry_state(entry) == VB_MR_ENTRY_FREE)
		return VB_FAULT_KEY_UNKNOWN;
	/* Regions of user space and type 1 windows have no right to be invalidated by work (IBA 10.6.7.2.4). */
	if (entry->kind != VB_REGION_MW_TYPE_2)
		return VB_FAULT_RIGHTS;
	if (vb_mr_entry_state(entry) == VB_MR_ENTRY_UNBOUND && !entry->leaving)
		return VB_FAULT_KEY_INVALIDATED;
	if (entry->pd != pd)
		return VB_FAULT_PD_MISMATCH;
	return entry->qpn == qpn ? VB_FAULT_NONE : VB_FAULT_QP_MISMATCH;
}

/* Threads of this process that are inside by that key, or looked at it and will be refused: short. Caller holds no mutex. */
static void await_users(const struct vb_memory *memory, const struct vb_mr_entry *entry, uint32_t key)
{
	while (vb_table_has_users(memory, entry) && vb_mr_entry_key(entry) == key &&
	       vb_mr_entry_state(entry) == VB_MR_ENTRY_UNBOUND)
		sched_yield();
}

enum vb_window_result vb_memory_invalidate(struct vb_memory *memory, uint32_t key, struct vb_pd *pd, uint32_t qpn, bool remote,
					   struct vb_fault_record *why)
{
	enum vb_window_result result = VB_WINDOW_REFUSED;
	struct vb_mr_entry *entry;
	enum vb_fault fault;
	bool left = false;

	vb_mutex_lock(&memory->mutex);
	entry = vb_table_find(memory, key);
	fault = check_invalidate(entry, key, pd, qpn);
	if (fault != VB_FAULT_NONE) {
		*why = (struct vb_fault_record){.fault = fault, .key = key, .qpn = qpn};
	} else {
		if (!entry->leaving)
			begin_unbind(entry, VB_MR_ENTRY_UNBOUND);
		left = end_unbind(memory, entry);
		result = left || remote ? VB_WINDOW_DONE : VB_WINDOW_LATER;
	}
	vb_mutex_unlock(&memory->mutex);
	if (result == VB_WINDOW_DONE && !left)
		await_users(memory, entry, key);
	return result;
}

static struct vb_mr_entry *find_bound_through(const struct vb_memory *memory, uint32_t qpn)
{
	for (uint32_t index = memory->bound; index != VB_NO_MR_ENTRY;) {
		struct vb_mr_entry *entry = vb_table_at(memory, index);

		if (entry->kind == VB_REGION_MW_TYPE_2 && entry->qpn == qpn)
			return entry;
		index = entry->next;
	}
	return NULL;
}

void vb_memory_unbind_qp(struct vb_memory *memory, uint32_t qpn)
{
	struct vb_mr_entry *entry;

	vb_mutex_lock(&memory->mutex);
	for (unsigned looks = 0; (entry = find_bound_through(memory, qpn)) != NULL; looks++) {
		/* One that is deallocated keeps its state: no access may find it again. */
		if (!entry->leaving)
			begin_unbind(entry, VB_MR_ENTRY_UNBOUND);
		if (!end_unbind(memory, entry))
			let_others(memory, looks);
	}
	vb_mutex_unlock(&memory->mutex);
}
