/* SPDX-License-Identifier: MIT
 *
 * A cache by key, four ways. Entries are changed under the lock and read without it:
 *
 *   reading:  (copy word shown) ; tag == what I look for ? take the fields ; tag unchanged ? they belong together
 *   evicting: (lock) tag = 0 ; hang the mapping into `leaving` ; unmap when no copy word of that key is shown
 *
 * The tag is the word of a sequence lock, with a generation in it (base/generation.h). It and the copy word are stored
 * and loaded sequentially consistent: a thread that found the entry before it went is seen by the one that evicts. A
 * tag holds the generation of a registration, of which there is one only, so that an entry that goes and comes again
 * between the two looks leads to the same bytes.
 */
#include "links/memory/share.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/generation.h"
#include "io/clock.h"
#include "io/descriptor.h"
#include "io/mappings.h"
#include "local/segment.h"

enum {
	SETS = 64,
	WAYS = 4,
	FIRST_LOOK = 32,                   /* copies; at the least, since the first look also costs what was not measured yet */
	COPY_COST = 700,                   /* ns: process_vm_writev of a few bytes */
	COPY_UNIT = 4096,                  /* bytes that take about as long again */
	USED = 0x80,                       /* in a tag: no tag is 0. Below it, the table */
};

struct vb_share_mapping {
	struct vb_share_mapping *next;
	uint32_t table, key;               /* by which it is used */
	struct vb_mapped_file file;
};

struct vb_share_entry {
	uint64_t tag;                      /* atomic; 0: empty */
	uint64_t start, length;            /* atomic, relaxed, as the next four */
	uint8_t *bytes;                    /* of `start`; NULL: not shared, as far as known */
	uint32_t key;
	uint32_t uses;                     /* without a mapping */
	uint32_t wanted;                   /* uses until it is worth a look */
	struct vb_share_mapping *mapping;  /* under the lock */
} __attribute__((aligned(64)));

#define NEVER UINT32_MAX

#define GET(field) VB_SEQUENCE_GET(field)
#define SET(field, value) VB_SEQUENCE_SET(field, value)

static uint64_t tag_of(uint32_t table, uint64_t generation)
{
	return vb_generation_word(generation, USED | table % USED);
}

static uint32_t table_of(uint64_t tag)
{
	return tag % USED;
}

static struct vb_share_entry *set_of(struct vb_share_entry *entries, uint32_t table, uint32_t key)
{
	return &entries[((key ^ table << 28) * UINT32_C(2654435761) >> 26) % SETS * WAYS];
}

void vb_local_share_init(struct vb_local_share *share, pid_t pid, uint32_t slot, const uint64_t *copying)
{
	*share = (struct vb_local_share){.self = pid == getpid(), .slot = slot, .copying = copying, .process = -ESRCH};
	if (!share->self)
		share->process = vb_mappings_open(pid);
	vb_lock_init(&share->lock, VB_RANK_SHARE);
}

static void release_mapping(struct vb_local_share *share, struct vb_share_mapping *mapping)
{
	vb_mappings_unmap(&mapping->file);
	free(mapping);
	SET(share->mapped, share->mapped - 1);
}

static bool is_in_use(const struct vb_local_share *share, const struct vb_share_mapping *mapping)
{
	for (unsigned i = 0; i < VB_SEGMENT_COPIES; i++)
		if (vb_segment_copies_by(__atomic_load_n(&share->copying[i], __ATOMIC_SEQ_CST), share->slot, mapping->table, mapping->key))
			return true;
	return false;
}

/* ---- Caller holds share->lock ---- */

static void release_unused(struct vb_local_share *share)
{
	struct vb_share_mapping **link = &share->leaving;

	while (*link != NULL) {
		struct vb_share_mapping *mapping = *link;

		if (is_in_use(share, mapping)) {
			link = &mapping->next;
		} else {
			*link = mapping->next;
			release_mapping(share, mapping);
		}
	}
}

static void evict(struct vb_local_share *share, struct vb_share_entry *entry)
{
	/* Before who copies is looked at; partner of the load in entry_of. */
	vb_sequence_begin(&entry->tag, 0);
	if (entry->mapping != NULL) {
		/* For those who know it from earlier: partner of their load after they showed the key (local/direct.c). */
		__atomic_store_n(&share->given_up, share->given_up + 1, __ATOMIC_SEQ_CST);
		entry->mapping->next = share->leaving;
		share->leaving = entry->mapping;
		entry->mapping = NULL;
	}
}

static void sweep(struct vb_local_share *share)
{
	for (unsigned i = 0; share->lives != NULL && share->entries != NULL && i < SETS * WAYS; i++) {
		struct vb_share_entry *entry = &share->entries[i];
		uint64_t tag = GET(entry->tag);

		if (entry->mapping != NULL && !share->lives(share->context, table_of(tag), entry->key, vb_generation_of(tag)))
			evict(share, entry);
	}
	release_unused(share);
}

/* What a new entry replaces: a free one, else what was used least of what is not mapped, else whose turn it is. */
static struct vb_share_entry *choose(struct vb_local_share *share, struct vb_share_entry *set)
{
	struct vb_share_entry *chosen = NULL;

	for (struct vb_share_entry *entry = set; entry < set + WAYS; entry++) {
		if (GET(entry->tag) == 0)
			return entry;
		if (entry->mapping == NULL && (chosen == NULL || GET(entry->uses) < GET(chosen->uses)))
			chosen = entry;
	}
	if (chosen == NULL)
		chosen = &set[share->hand++ % WAYS];
	/* So that what was busy once does not stay for ever. */
	for (struct vb_share_entry *entry = set; entry < set + WAYS; entry++)
		SET(entry->uses, GET(entry->uses) / 2);
	return chosen;
}

static uint32_t worth_a_look(const struct vb_local_share *share)
{
	vb_time copies = share->cost / COPY_COST;

	return copies < FIRST_LOOK ? FIRST_LOOK : copies > INT32_MAX ? INT32_MAX : (uint32_t)copies;
}

static struct vb_share_entry *enter(struct vb_local_share *share, struct vb_share_entry *set, uint64_t tag, uint32_t key,
				    uint64_t start, uint64_t length)
{
	struct vb_share_entry *entry = choose(share, set);

	evict(share, entry);
	SET(entry->start, start);
	SET(entry->length, length);
	SET(entry->bytes, NULL);
	SET(entry->key, key);
	SET(entry->uses, 0);
	SET(entry->wanted, worth_a_look(share));
	vb_sequence_end(&entry->tag, tag);
	return entry;
}

static int map_region(struct vb_local_share *share, const struct vb_share_entry *entry, struct vb_mapped_file *file)
{
	struct vb_mapped_stretch stretch;
	int error = vb_mappings_find(share->process, entry->start, entry->length, &stretch);

	return error != 0 ? error : vb_mappings_map(share->process, &stretch, entry->start, entry->length, file);
}

static void look(struct vb_local_share *share, struct vb_share_entry *entry, uint32_t table)
{
	vb_time began = vb_clock_now();
	struct vb_share_mapping *mapping = malloc(sizeof(*mapping));
	int error = mapping == NULL ? -ENOMEM : map_region(share, entry, &mapping->file);

	if (error == 0) {
		mapping->table = table;
		mapping->key = entry->key;
		entry->mapping = mapping;
		SET(share->mapped, share->mapped + 1);
		__atomic_store_n(&entry->bytes, mapping->file.bytes, __ATOMIC_RELEASE);
	} else {
		free(mapping);
		/* What is private stays so for as long as it is registered; everything else may change. */
		SET(entry->wanted, error == -ENOENT || error == -EMEDIUMTYPE ? NEVER : 2 * GET(entry->wanted));
	}
	SET(entry->uses, 0);
	sweep(share);
	share->cost = vb_clock_now() - began;
}

/* ---- no lock ---- */

static struct vb_share_entry *entry_of(struct vb_share_entry *set, uint64_t tag, uint32_t key)
{
	for (struct vb_share_entry *entry = set; entry < set + WAYS; entry++)
		/* After the copy word was shown; partner of the store in evict. */
		if (vb_sequence_read(&entry->tag) == tag && GET(entry->key) == key)
			return entry;
	return NULL;
}

/* Not known: count it, and look if it is time. Another thread may be looking: then the answer is no, for now. */
static void inquire(struct vb_local_share *share, uint64_t tag, uint32_t table, uint32_t key, uint64_t start, uint64_t length,
		    uint64_t weight)
{
	struct vb_share_entry *set, *entry;

	if (share->process < 0 || !vb_lock_try(&share->lock))
		return;
	if (share->entries == NULL) {
		struct vb_share_entry *entries = aligned_alloc(64, sizeof(*entries) * SETS * WAYS);

		for (unsigned i = 0; entries != NULL && i < SETS * WAYS; i++)
			entries[i] = (struct vb_share_entry){.tag = 0};
		__atomic_store_n(&share->entries, entries, __ATOMIC_RELEASE);
	}
	if (share->entries != NULL) {
		set = set_of(share->entries, table, key);
		entry = entry_of(set, tag, key);
		if (entry == NULL)
			entry = enter(share, set, tag, key, start, length);
		if (entry->mapping == NULL && GET(entry->wanted) != NEVER) {
			uint64_t uses = GET(entry->uses) + weight;

			SET(entry->uses, uses > INT32_MAX ? INT32_MAX : (uint32_t)uses);
			if (uses >= GET(entry->wanted))
				look(share, entry, table);
		}
	}
	vb_lock_release(&share->lock);
}

void *vb_local_share_find(struct vb_local_share *share, uint32_t table, uint32_t key, uint64_t generation, uint64_t region_start,
			  uint64_t region_length, uint64_t address, uint64_t length)
{
	struct vb_share_entry *entries = __atomic_load_n(&share->entries, __ATOMIC_ACQUIRE), *entry;
	uint64_t tag = tag_of(table, generation), start, room, uses;
	uint64_t weight = 1 + length / COPY_UNIT;
	uint8_t *bytes;

	if (share->self)
		return (void *)(uintptr_t)address;
	entry = entries == NULL ? NULL : entry_of(set_of(entries, table, key), tag, key);
	if (entry != NULL) {
		bytes = __atomic_load_n(&entry->bytes, __ATOMIC_ACQUIRE);
		start = GET(entry->start);
		room = GET(entry->length);
		uses = GET(entry->uses) + weight;
		if (!vb_sequence_stands(&entry->tag, tag))
			return NULL;
		/* What is mapped is what was asked for first. A registration that changes its mind is copied to and from. */
		if (start != region_start || room != region_length)
			return NULL;
		if (bytes != NULL)
			return address - start <= room && length <= room - (address - start) ? bytes + (address - start) : NULL;
		if (GET(entry->wanted) == NEVER)
			return NULL;
		if (uses < GET(entry->wanted)) {
			SET(entry->uses, (uint32_t)uses);
			return NULL;
		}
	}
	inquire(share, tag, table, key, region_start, region_length, weight);
	return NULL;
}

void vb_local_share_sweep(struct vb_local_share *share)
{
	/* Who is looking sweeps afterwards. */
	if (GET(share->mapped) == 0 || !vb_lock_try(&share->lock))
		return;
	sweep(share);
	vb_lock_release(&share->lock);
}

void vb_local_share_fini(struct vb_local_share *share)
{
	for (unsigned i = 0; share->entries != NULL && i < SETS * WAYS; i++)
		evict(share, &share->entries[i]);
	while (share->leaving != NULL) {
		struct vb_share_mapping *mapping = share->leaving;

		share->leaving = mapping->next;
		release_mapping(share, mapping);
	}
	free(share->entries);
	share->entries = NULL;
	if (share->process >= 0)
		vb_descriptor_close(share->process);
	share->process = -ESRCH;
}
