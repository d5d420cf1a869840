/* SPDX-License-Identifier: MIT
 *
 * Looking keys up in the table of another process: memory/place.c's checks on a copy of the entry.
 */
#include "memory/foreign.h"

#include <string.h>

#include "base/generation.h"
#include "base/sequence_lock.h"
#include "memory/table.h"

#define MAGIC UINT64_C(0x5642544142310003)      /* changes with the layout of header or entry */

enum { ENTRIES_OFFSET = 4096 };

struct header {
	uint64_t magic;                  /* atomic */
	uint32_t entry_bytes, max_entries;
	struct vb_key_secret secret;     /* atomic */
};

_Static_assert(sizeof(struct vb_mr_entry) == 128 && offsetof(struct vb_mr_entry, users) == 64, "what other processes read");

void vb_foreign_publish(const struct vb_memory *memory, void *area)
{
	struct header *header = area;

	header->entry_bytes = sizeof(struct vb_mr_entry);
	header->max_entries = memory->max_entries;
	header->secret = memory->secret;
	/* Release: a process that finds the magic finds the rest. */
	__atomic_store_n(&header->magic, MAGIC, __ATOMIC_RELEASE);
}

void vb_foreign_withdraw(void *area)
{
	struct header *header = area;

	__atomic_store_n(&header->magic, 0, __ATOMIC_SEQ_CST);
}

void *vb_foreign_chunk(void *area, size_t area_bytes, uint32_t index, size_t chunk_bytes)
{
	uint64_t offset = ENTRIES_OFFSET + (uint64_t)index * chunk_bytes;

	if (offset > area_bytes || chunk_bytes > area_bytes - offset)
		return NULL;
	/* A table that was here before may have left its entries. */
	return memset((uint8_t *)area + offset, 0, chunk_bytes);
}

/* The entry that the key's index means, or NULL. Everything the header says is taken for what it is worth: a place in the area. */
static const struct vb_mr_entry *entry_of(const uint8_t *area, size_t area_bytes, uint32_t key, struct vb_foreign_hint *hint)
{
	const struct header *header = (const void *)area;
	struct vb_foreign_known *known;
	struct vb_key_secret secret;
	uint64_t offset;
	uint32_t index;

	if (area_bytes < ENTRIES_OFFSET || __atomic_load_n(&header->magic, __ATOMIC_SEQ_CST) != MAGIC)
		return NULL;
	/* Working the index out takes as long as a WRITE into shared memory. */
	known = hint ? &hint->known[(key >> VB_KEY_TAG_BITS) % VB_FOREIGN_HINTS] : NULL;
	if (known && known->key == key && known->area == area)
		return known->entry;
	for (unsigned i = 0; i < 2; i++)
		secret.half[i] = __atomic_load_n(&header->secret.half[i], __ATOMIC_RELAXED);
	index = vb_key_unscramble(&secret, key >> VB_KEY_TAG_BITS);
	if (__atomic_load_n(&header->entry_bytes, __ATOMIC_RELAXED) != sizeof(struct vb_mr_entry) ||
	    index >= __atomic_load_n(&header->max_entries, __ATOMIC_RELAXED))
		return NULL;
	offset = ENTRIES_OFFSET + (uint64_t)index * sizeof(struct vb_mr_entry);
	if (offset > area_bytes || sizeof(struct vb_mr_entry) > area_bytes - offset)
		return NULL;
	if (known)
		*known = (struct vb_foreign_known){.area = area, .entry = area + offset, .key = key};
	return (const void *)(area + offset);
}

/* What of an entry concerns others. */
struct look {
	uint64_t start, length, iova, generation;
	uint32_t access, qpn, pd;
	uint8_t kind;
	bool null, checked;
};

/* Each is read once: the owner may be a liar who writes all the time. */
#define FIELD(field) VB_SEQUENCE_GET(field)

static bool look_at(const struct vb_mr_entry *entry, uint32_t key, struct look *look, enum vb_fault *fault)
{
	const uint64_t live = vb_mr_entry_word(VB_MR_ENTRY_LIVE, key);
	uint64_t word;

	/* Partner of vb_table_withdraw: the key is shown already, so either we see it gone or the owner sees us. */
	word = vb_sequence_read(&entry->word);
	if (word == live) {
		*look = (struct look){
			.start = FIELD(entry->start),
			.length = FIELD(entry->length),
			.iova = FIELD(entry->iova),
			.generation = FIELD(entry->generation),
			.access = FIELD(entry->access),
			.qpn = FIELD(entry->qpn),
			.pd = FIELD(entry->pd_handle),
			.kind = FIELD(entry->kind),
			.null = FIELD(*(const uint8_t *)&entry->null) & 1,
			.checked = FIELD(*(const uint8_t *)&entry->checked) & 1,
		};
		word = vb_sequence_read_again(&entry->word);
	}
	*fault = word == vb_mr_entry_word(VB_MR_ENTRY_UNBOUND, key) ? VB_FAULT_KEY_INVALIDATED : VB_FAULT_KEY_UNKNOWN;
	return word == live;
}

static enum vb_fault check(const struct look *look, const struct vb_foreign_asker *who, uint64_t address, uint64_t length)
{
	uint64_t offset = address - look->iova;

	if (look->pd != who->pd)
		return VB_FAULT_PD_MISMATCH;
	if (look->kind == VB_REGION_MW_TYPE_2 && look->qpn != who->qpn)
		return VB_FAULT_QP_MISMATCH;
	if (who->rights & ~look->access)
		return VB_FAULT_RIGHTS;
	if (look->null)
		return VB_FAULT_NONE;
	return address >= look->iova && offset <= look->length && length <= look->length - offset ? VB_FAULT_NONE :
												  VB_FAULT_RANGE;
}

bool vb_foreign_find(const void *area, size_t area_bytes, uint32_t key, const struct vb_foreign_asker *who, uint64_t address,
		     uint64_t length, struct vb_foreign_range *out, struct vb_fault_record *why)
{
	const struct vb_mr_entry *entry = entry_of(area, area_bytes, key, who->hint);
	enum vb_fault fault = VB_FAULT_KEY_UNKNOWN;
	struct look look = {0};

	if (entry && look_at(entry, key, &look, &fault))
		fault = check(&look, who, address, length);
	if (fault == VB_FAULT_NONE) {
		*out = (struct vb_foreign_range){
			.theirs = look.start + (address - look.iova),
			.region_start = look.start,
			.region_length = look.length,
			.generation = look.generation,
			.entry = entry,
			.access = look.access,
			.null = look.null,
			.checked = look.checked,
		};
		return true;
	}
	*why = (struct vb_fault_record){
		.fault = fault,
		.key = key,
		.address = address,
		.length = length,
		.region_start = look.iova,
		.region_length = look.length,
		.rights_asked = who->rights,
		.rights_granted = look.access,
		.pd = who->pd,
		.region_pd = look.pd,
		.qpn = who->qpn,
	};
	return false;
}

bool vb_foreign_stands(const void *place, uint32_t key, uint64_t generation)
{
	const struct vb_mr_entry *entry = place;

	/* Partner of vb_table_withdraw, as in look_at. */
	return vb_generation_is_named(&entry->word, vb_mr_entry_word(VB_MR_ENTRY_LIVE, key), &entry->generation, generation);
}

bool vb_foreign_lives(const void *area, size_t area_bytes, uint32_t key, uint64_t generation)
{
	const struct vb_mr_entry *entry = entry_of(area, area_bytes, key, NULL);
	enum vb_fault ignored;
	struct look look;

	return entry && look_at(entry, key, &look, &ignored) && look.generation == generation;
}
