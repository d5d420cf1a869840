/* SPDX-License-Identifier: MIT
 *
 * All access to user memory. Each call enters the entry of the key (memory/table.h), checks everything, moves the
 * bytes and leaves; in between the region cannot go away.
 */
#include "memory/place.h"

#include <string.h>

#include "base/inline.h"
#include "memory/table.h"

/* What a check found: the entry, entered, and where the bytes are (no meaning in null regions). */
struct opening {
	struct vb_mr_entry *entry;
	uint64_t at;
};

/* As the application's types may be anything, these may alias everything. */
typedef uint64_t __attribute__((may_alias)) any64;
typedef uint32_t __attribute__((may_alias)) any32;
typedef uint16_t __attribute__((may_alias)) any16;

static bool is_window(const struct vb_mr_entry *entry)
{
	return entry->kind == VB_REGION_MW_TYPE_1 || entry->kind == VB_REGION_MW_TYPE_2;
}

static enum vb_fault check_entry(const struct vb_mr_entry *entry, const struct vb_accessor *who)
{
	if (is_window(entry) && !who->remote)
		return VB_FAULT_KEY_NOT_LOCAL;
	if (entry->pd != who->pd)
		return VB_FAULT_PD_MISMATCH;
	if (entry->kind == VB_REGION_MW_TYPE_2 && entry->qpn != who->qpn)
		return VB_FAULT_QP_MISMATCH;
	/* The null region takes local stores whatever it was given: they vanish (ibv_alloc_null_mr(3)). */
	if (entry->null && !who->remote)
		return VB_FAULT_NONE;
	return who->rights & ~entry->access ? VB_FAULT_RIGHTS : VB_FAULT_NONE;
}

/* Written so that nothing can wrap: no sum of what the peer says is ever made. */
static bool is_inside(const struct vb_mr_entry *entry, uint64_t address, uint64_t length)
{
	uint64_t offset = address - entry->iova;

	if (entry->null)
		return true;
	return address >= entry->iova && offset <= entry->length && length <= entry->length - offset;
}

VB_RARE static void record(struct vb_fault_record *why, enum vb_fault fault, const struct vb_accessor *who,
		   const struct vb_mr_entry *entry, uint64_t address, uint64_t length)
{
	*why = (struct vb_fault_record){
		.fault = fault,
		.key = who->key,
		.address = address,
		.length = length,
		.region_start = entry ? entry->iova : 0,
		.region_length = entry ? entry->length : 0,
		.rights_asked = who->rights,
		.rights_granted = entry ? entry->access : 0,
		.pd = who->pd ? who->pd->handle : 0,
		.region_pd = entry && entry->pd ? entry->pd->handle : 0,
		.qpn = who->qpn,
	};
}

/* More of a key that names nothing, for those who ask why: two mistakes that programs make have traces in the table. */
VB_RARE static void record_unknown_key(struct vb_memory *memory, struct vb_fault_record *why)
{
	const struct vb_mr_entry *entry = vb_table_find(memory, why->key);
	uint32_t swapped = __builtin_bswap32(why->key);
	enum vb_fault ignored;
	int64_t gone_at;

	/* An entry rests before it is used again, and keeps the word of its last key. */
	if (entry && __atomic_load_n(&entry->word, __ATOMIC_RELAXED) == vb_mr_entry_word(VB_MR_ENTRY_FREE, why->key) && memory->host.now) {
		gone_at = __atomic_load_n(&entry->gone_at, __ATOMIC_RELAXED);
		if (gone_at != 0)
			why->gone_for = memory->host.now(memory->host.context) - gone_at;
	}
	entry = swapped != why->key ? vb_table_enter(memory, swapped, &ignored) : NULL;
	if (entry) {
		why->swapped_key = swapped;
		vb_table_leave((struct vb_mr_entry *)entry);
	}
}

static bool open_access(struct vb_memory *memory, const struct vb_accessor *who, uint64_t address, uint64_t length,
		      struct opening *opening, struct vb_fault_record *why)
{
	enum vb_fault fault;
	struct vb_mr_entry *entry = vb_table_enter(memory, who->key, &fault);

	if (!entry) {
		record(why, fault, who, NULL, address, length);
		if (fault == VB_FAULT_KEY_UNKNOWN)
			record_unknown_key(memory, why);
		return false;
	}
	fault = check_entry(entry, who);
	if (fault == VB_FAULT_NONE && !is_inside(entry, address, length))
		fault = VB_FAULT_RANGE;
	if (fault != VB_FAULT_NONE) {
		record(why, fault, who, entry, address, length);
		vb_table_leave(entry);
		return false;
	}
	opening->entry = entry;
	opening->at = entry->start + (address - entry->iova);
	return true;
}

/* Leave with UNMAPPED, unless `copied` is 0. */
static bool close_access(const struct opening *opening, int copied, const struct vb_accessor *who, uint64_t address,
		       uint64_t length, struct vb_fault_record *why)
{
	if (copied != 0)
		record(why, VB_FAULT_UNMAPPED, who, opening->entry, address, length);
	vb_table_leave(opening->entry);
	return copied == 0;
}

static void *pointer(uint64_t address)
{
	return (void *)(uintptr_t)address;
}

/* The longest run of up to eight bytes before `end` that one aligned store can write. */
static size_t tail_length(uint64_t end, size_t length)
{
	size_t unit = 8;

	while (unit > 1 && (end % unit != 0 || unit > length))
		unit /= 2;
	return unit;
}

/* Not where it is called: gcc takes that for a place that is seldom come to, and would copy by `rep movsb`, which takes some 50 ns however
 * few the bytes. */
VB_APART static void copy_many(void *to, const uint8_t *from, size_t length)
{
	memcpy(to, from, length);
}

/* Applications poll on the last bytes of what they wait for: everything else is stored first, then the tail in one
 * store. The release store pairs with the application's load of those bytes. */
static void store(uint64_t at, const uint8_t *from, size_t length)
{
	size_t tail = tail_length(at + length, length), body = length - tail;
	void *to = pointer(at + body);
	uint64_t v64;
	uint32_t v32;
	uint16_t v16;

	if (body > 0)
		copy_many(pointer(at), from, body);
	switch (tail) {
	case 8:
		memcpy(&v64, from + body, 8);
		__atomic_store_n((any64 *)to, v64, __ATOMIC_RELEASE);
		break;
	case 4:
		memcpy(&v32, from + body, 4);
		__atomic_store_n((any32 *)to, v32, __ATOMIC_RELEASE);
		break;
	case 2:
		memcpy(&v16, from + body, 2);
		__atomic_store_n((any16 *)to, v16, __ATOMIC_RELEASE);
		break;
	default:
		__atomic_store_n((uint8_t *)to, from[body], __ATOMIC_RELEASE);
	}
}

/* Around an access to a dmabuf. Its bytes are neither read nor written when the exporter refuses. */
static int begin_access(struct vb_memory *memory, const struct vb_mr_entry *entry, bool write)
{
	return entry->sync == 0 ? 0 : memory->host.sync(memory->host.context, entry->sync - 1, true, write);
}

static int end_access(struct vb_memory *memory, const struct vb_mr_entry *entry, bool write)
{
	return entry->sync == 0 ? 0 : memory->host.sync(memory->host.context, entry->sync - 1, false, write);
}

/* The same in two checked copies; each is a system call, which orders the stores. A mapping of a dmabuf stays, and
 * system calls that copy may not be able to look at it. */
VB_RARE static int store_checked(struct vb_memory *memory, const struct opening *opening, const uint8_t *from, size_t length)
{
	uint64_t at = opening->at;
	size_t tail = tail_length(at + length, length), body = length - tail;
	int rc, ended;

	if (opening->entry->gpu)
		return memory->host.gpu_write(memory->host.context, opening->entry->gpu, at, from, length);
	rc = begin_access(memory, opening->entry, true);
	if (rc != 0)
		return rc;
	if (opening->entry->sync != 0) {
		store(at, from, length);
	} else {
		if (body > 0)
			rc = memory->host.checked_write(memory->host.context, at, from, body);
		if (rc == 0)
			rc = memory->host.checked_write(memory->host.context, at + body, from + body, tail);
	}
	ended = end_access(memory, opening->entry, true);
	return rc != 0 ? rc : ended;
}

VB_RARE static int load_checked(struct vb_memory *memory, const struct opening *opening, void *to, size_t length)
{
	int rc, ended;

	if (opening->entry->gpu)
		return memory->host.gpu_read(memory->host.context, opening->entry->gpu, to, opening->at, length);
	rc = begin_access(memory, opening->entry, false);
	if (rc != 0)
		return rc;
	if (opening->entry->sync != 0)
		memcpy(to, pointer(opening->at), length);
	else
		rc = memory->host.checked_read(memory->host.context, to, opening->at, length);
	ended = end_access(memory, opening->entry, false);
	return rc != 0 ? rc : ended;
}

bool vb_memory_check(struct vb_memory *memory, const struct vb_accessor *who, uint64_t address, uint64_t length,
		     struct vb_fault_record *why)
{
	struct opening opening;

	if (length == 0) /* IBA C9-88 */
		return true;
	if (!open_access(memory, who, address, length, &opening, why))
		return false;
	vb_table_leave(opening.entry);
	return true;
}

bool vb_memory_place(struct vb_memory *memory, const struct vb_accessor *who, uint64_t address, const void *from,
		     size_t length, struct vb_fault_record *why)
{
	struct opening opening;
	int rc = 0;

	if (length == 0)
		return true;
	if (!open_access(memory, who, address, length, &opening, why))
		return false;
	if (opening.entry->checked)
		rc = store_checked(memory, &opening, from, length);
	else if (!opening.entry->null)
		store(opening.at, from, length);
	return close_access(&opening, rc, who, address, length, why);
}

bool vb_memory_fetch(struct vb_memory *memory, const struct vb_accessor *who, uint64_t address, void *to,
		     size_t length, struct vb_fault_record *why)
{
	struct opening opening;
	int rc = 0;

	if (length == 0)
		return true;
	if (!open_access(memory, who, address, length, &opening, why))
		return false;
	if (opening.entry->null)
		memset(to, 0, length);
	else if (opening.entry->checked)
		rc = load_checked(memory, &opening, to, length);
	else
		memcpy(to, pointer(opening.at), length);
	return close_access(&opening, rc, who, address, length, why);
}

bool vb_memory_span(struct vb_memory *memory, const struct vb_accessor *who, uint64_t address, size_t length,
		    struct vb_hold *hold, struct vb_fault_record *why)
{
	struct opening opening;

	hold->entry = NULL;
	if (length == 0)
		return true;
	if (!open_access(memory, who, address, length, &opening, why))
		return false;
	if (opening.entry->null || opening.entry->checked)
		vb_table_leave(opening.entry);
	else
		*hold = (struct vb_hold){opening.entry, who->key, who->rights, address, length, pointer(opening.at)};
	return true;
}

bool vb_memory_locate(struct vb_memory *memory, const struct vb_accessor *who, uint64_t address, size_t length, uint64_t *at,
		      struct vb_fault_record *why)
{
	struct opening opening;

	if (!open_access(memory, who, address, length, &opening, why))
		return false;
	*at = opening.entry->null ? 0 : opening.at;
	vb_table_leave(opening.entry);
	return true;
}

bool vb_memory_hold(struct vb_memory *memory, const struct vb_accessor *who, uint64_t address, uint64_t length,
		    struct vb_hold *hold)
{
	struct vb_fault_record ignored;
	struct opening opening;

	vb_memory_let_go(hold);
	if (!open_access(memory, who, address, length, &opening, &ignored))
		return false;
	/* Windows are bound and invalidated by work requests and packets, in the middle of a batch: that would wait for ourselves. */
	if (opening.entry->null || opening.entry->checked || is_window(opening.entry)) {
		vb_table_leave(opening.entry);
		return false;
	}
	*hold = (struct vb_hold){opening.entry, who->key, who->rights, address, length, pointer(opening.at)};
	return true;
}

bool vb_memory_hold_around(struct vb_memory *memory, const struct vb_accessor *who, uint64_t address, uint64_t length,
			   struct vb_hold *hold)
{
	if (!vb_memory_hold(memory, who, address, length, hold))
		return false;
	hold->bytes = pointer(hold->entry->start);
	hold->address = hold->entry->iova;
	hold->length = hold->entry->length;
	return true;
}

void vb_memory_let_go(struct vb_hold *hold)
{
	if (hold->entry)
		vb_table_leave(hold->entry);
	hold->entry = NULL;
}

void vb_hold_place(uint8_t *to, const void *from, size_t length)
{
	if (length > 0)
		store((uint64_t)(uintptr_t)to, from, length);
}

static uint64_t operate(any64 *at, enum vb_atomic operation, uint64_t swap_or_add, uint64_t compare)
{
	if (operation == VB_ATOMIC_FETCH_ADD)
		return __atomic_fetch_add(at, swap_or_add, __ATOMIC_SEQ_CST);
	if (operation == VB_ATOMIC_WRITE)
		return __atomic_exchange_n(at, swap_or_add, __ATOMIC_SEQ_CST);
	/* On failure `compare` becomes what was there; on success it was there. Either way it is the original. */
	__atomic_compare_exchange_n(at, &compare, swap_or_add, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	return compare;
}

/* No processor reaches it: read, operated on here, written. Atomic among such requests, as with adapters that can do no better
 * (IBV_ATOMIC_HCA), not towards the GPU. */
VB_RARE static int operate_on_gpu(struct vb_memory *memory, const struct opening *opening, enum vb_atomic operation, uint64_t swap_or_add,
				  uint64_t compare, uint64_t *original)
{
	uint64_t value;
	int rc;

	vb_mutex_lock(&memory->gpu_atomics);
	rc = memory->host.gpu_read(memory->host.context, opening->entry->gpu, &value, opening->at, sizeof(value));
	if (rc == 0) {
		*original = operate(&value, operation, swap_or_add, compare);
		rc = memory->host.gpu_write(memory->host.context, opening->entry->gpu, opening->at, &value, sizeof(value));
	}
	vb_mutex_unlock(&memory->gpu_atomics);
	return rc;
}

bool vb_memory_atomic(struct vb_memory *memory, const struct vb_accessor *who, enum vb_atomic operation,
		      uint64_t address, uint64_t swap_or_add, uint64_t compare, uint64_t *original,
		      struct vb_fault_record *why)
{
	struct opening opening;
	uint64_t probe;
	int rc = 0;

	if (!open_access(memory, who, address, 8, &opening, why))
		return false;
	/* IBA 9.4.5: naturally aligned, as the peer names it and (an iova may be odd) as it lies here. */
	if (address % 8 != 0 || (!opening.entry->null && opening.at % 8 != 0)) {
		record(why, VB_FAULT_UNALIGNED_ATOMIC, who, opening.entry, address, 8);
		vb_table_leave(opening.entry);
		return false;
	}
	if (opening.entry->gpu) {
		rc = operate_on_gpu(memory, &opening, operation, swap_or_add, compare, original);
		return close_access(&opening, rc, who, address, 8, why);
	}
	/* On-demand memory is faulted in by the probe; there is no atomic that survives its going away after that. */
	if (opening.entry->sync != 0)
		rc = begin_access(memory, opening.entry, true);
	else if (opening.entry->checked)
		rc = memory->host.checked_read(memory->host.context, &probe, opening.at, sizeof(probe));
	if (opening.entry->null)
		*original = 0;
	else if (rc == 0) {
		*original = operate(pointer(opening.at), operation, swap_or_add, compare);
		rc = end_access(memory, opening.entry, true);
	}
	return close_access(&opening, rc, who, address, 8, why);
}
