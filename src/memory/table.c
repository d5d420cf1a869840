/* SPDX-License-Identifier: MIT
 *
 * Entries and keys: taking them, giving them back, looking them up.
 */
#include "memory/table.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "base/sequence_lock.h"
#include "base/thread_sanitizer.h"

/* Elsewhere a release costs nothing more; and ThreadSanitizer does not know of barriers on other threads. */
#if defined(__aarch64__) && !VB_THREAD_SANITIZER
enum { RELEASE_WAITS = 1 };
#else
enum { RELEASE_WAITS = 0 };
#endif

enum { BARRIER_TRIES = 1000 };

struct vb_memory *vb_memory_create(const struct vb_memory_host *host, uint32_t max_regions)
{
	struct vb_memory *memory;

	if (max_regions == 0 || max_regions > 1u << VB_KEY_INDEX_BITS)
		return NULL;
	memory = calloc(1, sizeof(*memory));
	if (!memory)
		return NULL;
	memory->host = *host;
	memory->max_entries = max_regions;
	memory->light = RELEASE_WAITS && host->barrier && host->barrier();
	memory->chunk_count = (max_regions + VB_CHUNK_ENTRIES - 1) / VB_CHUNK_ENTRIES;
	memory->chunks = calloc(memory->chunk_count, sizeof(*memory->chunks));
	if (!memory->chunks) {
		free(memory);
		return NULL;
	}
	for (unsigned i = 0; i < 2; i++)
		memory->secret.half[i] = (uint64_t)host->random(host->context) << 32 | host->random(host->context);
	memory->free_first = memory->free_last = memory->bound = VB_NO_MR_ENTRY;
	vb_mutex_init(&memory->mutex, VB_RANK_MEMORY);
	vb_mutex_init(&memory->gpu_atomics, VB_RANK_GPU_ATOMICS);
	return memory;
}

void vb_memory_destroy(struct vb_memory *memory)
{
	if (!memory)
		return;
	for (uint32_t i = 0; i < memory->chunk_count && !memory->host.chunk; i++)
		free(memory->chunks[i]);
	free(memory->chunks);
	vb_mutex_fini(&memory->gpu_atomics);
	vb_mutex_fini(&memory->mutex);
	free(memory);
}

uint32_t vb_memory_count(const struct vb_memory *memory, enum vb_region_kind kind)
{
	return __atomic_load_n(&memory->count[kind], __ATOMIC_RELAXED);
}

/* What is known stays true: the permutation is the table's as long as it exists. */
static uint32_t index_of(struct vb_memory *memory, uint32_t scrambled)
{
	uint64_t *known = &memory->known[scrambled % VB_KNOWN_KEYS], word = __atomic_load_n(known, __ATOMIC_RELAXED);
	uint32_t index;

	if (word >> 32 == scrambled && (uint32_t)word != 0)
		return (uint32_t)word - 1;
	index = vb_key_unscramble(&memory->secret, scrambled);
	__atomic_store_n(known, (uint64_t)scrambled << 32 | (index + 1), __ATOMIC_RELAXED);
	return index;
}

struct vb_mr_entry *vb_table_find(struct vb_memory *memory, uint32_t key)
{
	uint32_t index = index_of(memory, key >> VB_KEY_TAG_BITS);

	return index < memory->max_entries ? vb_table_at(memory, index) : NULL;
}

struct vb_mr_entry *vb_table_enter(struct vb_memory *memory, uint32_t key, enum vb_fault *fault)
{
	struct vb_mr_entry *entry = vb_table_find(memory, key);
	const uint64_t live = vb_mr_entry_word(VB_MR_ENTRY_LIVE, key);
	uint64_t word;

	if (!entry) {
		*fault = VB_FAULT_KEY_UNKNOWN;
		return NULL;
	}
	/* A glance first: were those with stale keys to count themselves in, they could keep the one who waits
	 * waiting. */
	word = __atomic_load_n(&entry->word, __ATOMIC_RELAXED);
	if (word == live) {
		/* Count in, then look: partner of vb_table_withdraw. */
		__atomic_fetch_add(&entry->users, 1, __ATOMIC_SEQ_CST);
		word = __atomic_load_n(&entry->word, __ATOMIC_SEQ_CST);
		if (word == live)
			return entry;
		vb_table_leave(entry);
	}
	*fault = word == vb_mr_entry_word(VB_MR_ENTRY_UNBOUND, key) ? VB_FAULT_KEY_INVALIDATED : VB_FAULT_KEY_UNKNOWN;
	return NULL;
}

static struct vb_mr_entry *make_entry(struct vb_memory *memory)
{
	uint32_t index = memory->entries_made;
	struct vb_mr_entry *entry;

	if (index == memory->max_entries)
		return NULL;
	if (!memory->chunks[index / VB_CHUNK_ENTRIES]) {
		const struct vb_memory_host *host = &memory->host;
		struct vb_mr_entry *chunk = host->chunk ?
						host->chunk(host->context, index / VB_CHUNK_ENTRIES,
							    VB_CHUNK_ENTRIES * sizeof(*chunk)) :
						calloc(VB_CHUNK_ENTRIES, sizeof(*chunk));

		if (!chunk)
			return NULL;
		/* Release: those who find the chunk find it zeroed (vb_table_at). */
		__atomic_store_n(&memory->chunks[index / VB_CHUNK_ENTRIES], chunk, __ATOMIC_RELEASE);
	}
	memory->entries_made++;
	entry = vb_table_at(memory, index);
	entry->index = index;
	entry->light = memory->light;
	entry->tag = (uint8_t)memory->host.random(memory->host.context);
	return entry;
}

static struct vb_mr_entry *reuse_entry(struct vb_memory *memory)
{
	struct vb_mr_entry *entry;

	if (memory->free_first == VB_NO_MR_ENTRY)
		return NULL;
	entry = vb_table_at(memory, memory->free_first);
	memory->free_first = entry->next;
	if (memory->free_first == VB_NO_MR_ENTRY)
		memory->free_last = VB_NO_MR_ENTRY;
	memory->free_count--;
	return entry;
}

struct vb_mr_entry *vb_table_take(struct vb_memory *memory, uint32_t *key)
{
	struct vb_mr_entry *entry = NULL;

	if (memory->free_count > VB_ENTRIES_RESTING)
		entry = reuse_entry(memory);
	if (!entry)
		entry = make_entry(memory);
	if (!entry)
		entry = reuse_entry(memory);
	if (!entry)
		return NULL;
	entry->next = entry->previous = entry->region = VB_NO_MR_ENTRY;
	entry->windows = entry->leaving = 0;
	*key = vb_table_new_key(memory, entry);
	return entry;
}

uint32_t vb_table_new_key(const struct vb_memory *memory, struct vb_mr_entry *entry)
{
	uint32_t upper = vb_key_scramble(&memory->secret, entry->index) << VB_KEY_TAG_BITS;
	uint8_t step = (uint8_t)(1 + memory->host.random(memory->host.context) % 255);

	entry->tag = (uint8_t)(entry->tag + step);
	/* 0 is what programs take for "no key". */
	if ((upper | entry->tag) == 0)
		entry->tag = 1;
	return upper | entry->tag;
}

void vb_table_publish(struct vb_memory *memory, struct vb_mr_entry *entry, enum vb_mr_entry_state state, uint32_t key)
{
	entry->tag = (uint8_t)key;
	entry->generation = ++memory->generations;
	vb_sequence_end(&entry->word, vb_mr_entry_word(state, key));
}

void vb_table_withdraw(struct vb_mr_entry *entry, enum vb_mr_entry_state state)
{
	/* Others read the entry as the contents of a sequence lock (foreign.c). */
	vb_sequence_begin(&entry->word, vb_mr_entry_word(state, vb_mr_entry_key(entry)));
}

/* Partner of the accesses that left without a release. Refused by a filter of system calls that came after us it cannot be had: then
 * so many calls into the system pass that no processor has kept a store to itself for as long. */
static void finish_copies(const struct vb_memory *memory)
{
	for (unsigned tries = 0; tries < BARRIER_TRIES && !memory->host.barrier(); tries++)
		sched_yield();
}

/* Acquire pairs with vb_table_leave. */
bool vb_table_has_users(const struct vb_memory *memory, const struct vb_mr_entry *entry)
{
	if (__atomic_load_n(&entry->users, __ATOMIC_SEQ_CST) != 0)
		return true;
	if (entry->light)
		finish_copies(memory);
	return false;
}

static bool is_copied_by_others(const struct vb_memory *memory, const struct vb_mr_entry *entry)
{
	const struct vb_memory_host *host = &memory->host;

	return host->is_copying && host->is_copying(host->context, vb_mr_entry_key(entry));
}

bool vb_table_is_left(const struct vb_memory *memory, const struct vb_mr_entry *entry)
{
	return !vb_table_has_users(memory, entry) && !is_copied_by_others(memory, entry);
}

void vb_table_pause(const struct vb_memory *memory, unsigned looks)
{
	if (memory->host.pause)
		memory->host.pause(memory->host.context, looks);
	else
		sched_yield();
}

void vb_table_await(const struct vb_memory *memory, const struct vb_mr_entry *entry)
{
	/* Threads of this process copy a packet, or what they hold for a batch (memory/place.h): short. */
	while (vb_table_has_users(memory, entry))
		sched_yield();
	for (unsigned looks = 0; is_copied_by_others(memory, entry); looks++)
		vb_table_pause(memory, looks);
}

void vb_table_release(struct vb_memory *memory, struct vb_mr_entry *entry)
{
	vb_mr_entry_set_pd(entry, NULL);
	entry->next = VB_NO_MR_ENTRY;
	if (memory->free_last == VB_NO_MR_ENTRY)
		memory->free_first = entry->index;
	else
		vb_table_at(memory, memory->free_last)->next = entry->index;
	memory->free_last = entry->index;
	memory->free_count++;
}
