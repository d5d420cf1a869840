/* SPDX-License-Identifier: MIT
 *
 * Keys: unlike their neighbours, never 0, never the last one of their entry; entries run out and come back.
 */
#include <stdlib.h>

#include "fixture.h"
#include "memory/table.h"

static int compare_differences(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* With one table's keys in hand neither the next index nor another table's keys can be told from a simple pattern. */
static void keys_show_no_pattern(void **state)
{
	enum { KEYS = 4096 };
	static uint32_t keys[KEYS], differences[KEYS - 1];
	struct fixture f, g;
	struct vb_memory *memory = fixture_memory(&f, 99, 1 << 16), *other = fixture_memory(&g, 100, 1 << 16);
	struct vb_pd pd = {0};
	unsigned same_step = 0, same_as_other = 0, small_steps = 0;
	char byte;

	(void)state;
	for (unsigned i = 0; i < KEYS; i++) {
		keys[i] = fixture_register(memory, &pd, &byte, 1, 0);
		assert_int_not_equal(keys[i], 0);
		same_as_other += keys[i] >> 8 == fixture_register(other, &pd, &byte, 1, 0) >> 8;
	}
	for (unsigned i = 0; i + 1 < KEYS; i++) {
		differences[i] = (keys[i + 1] >> 8) - (keys[i] >> 8);
		small_steps += differences[i] + 64 < 128;
	}
	qsort(differences, KEYS - 1, sizeof(differences[0]), compare_differences);
	for (unsigned i = 0; i + 2 < KEYS; i++)
		same_step += differences[i] == differences[i + 1];
	/* 4,095 differences among 2^25: a birthday collision or few; a counter would give 4,094. */
	assert_true(same_step < 40);
	assert_true(small_steps < 4);
	assert_true(same_as_other < 4);
	vb_memory_destroy(memory);
	vb_memory_destroy(other);
}

static int compare_keys(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a >> 8, y = *(const uint32_t *)b >> 8;

	return x < y ? -1 : x > y;
}

/* A peer was given some keys of a table, in the order in which they were made, and works others out from them: sums and differences of
 * three, as of a counter or of a linear map, with the upper bits alone or all. It finds others' as often as it would by chance. */
static void held_keys_lead_to_no_other(void **state)
{
	enum { HELD = 64, OTHERS = 8192, GUESSES = 2 * HELD * (HELD - 1) * (HELD - 2) / 6 };
	static uint32_t held[HELD], others[OTHERS];
	struct fixture f;
	struct vb_memory *memory = fixture_memory(&f, 4711, 1 << 16);
	struct vb_pd pd = {0};
	unsigned hits = 0, ones[32] = {0}, next = 0;
	char byte;

	(void)state;
	for (unsigned i = 0; i < HELD; i++) {
		held[i] = fixture_register(memory, &pd, &byte, 1, 0);
		for (unsigned more = 0; more < OTHERS / HELD; more++)
			others[next++] = fixture_register(memory, &pd, &byte, 1, 0);
	}
	for (unsigned i = 0; i < OTHERS; i++)
		for (unsigned bit = 0; bit < 32; bit++)
			ones[bit] += others[i] >> bit & 1;
	qsort(others, OTHERS, sizeof(others[0]), compare_keys);
	for (unsigned i = 0; i < HELD; i++)
		for (unsigned j = 0; j < i; j++)
			for (unsigned k = 0; k < j; k++) {
				const uint32_t guess[] = {held[i] + held[j] - held[k], held[i] ^ held[j] ^ held[k]};

				for (unsigned g = 0; g < 2; g++)
					hits += bsearch(&guess[g], others, OTHERS, sizeof(others[0]), compare_keys) != NULL;
			}
	/* Of 83,328 guesses by chance one in 2,048 has the upper 24 bits of a region that there is: 40.7, give or take 6.4. For all of its
	 * bits it is one in 256 of these. */
	print_message("%u of %u guesses\n", hits, GUESSES);
	assert_in_range(hits, 9, 73);
	/* Half of them, give or take 45. */
	for (unsigned bit = 0; bit < 32; bit++)
		assert_in_range(ones[bit], OTHERS / 2 - 5 * 45, OTHERS / 2 + 5 * 45);
	vb_memory_destroy(memory);
}

static void entries_run_out_and_come_back(void **state)
{
	enum { ENTRIES = 700 };
	static uint32_t keys[ENTRIES];
	struct fixture f;
	struct vb_memory *memory = fixture_memory(&f, 5, ENTRIES);
	struct vb_pd pd = {0};
	struct vb_region_info info = {.kind = VB_REGION_MR, .pd = &pd};
	uint32_t key;

	(void)state;
	for (unsigned i = 0; i < ENTRIES; i++)
		assert_int_equal(vb_region_register(memory, &info, &keys[i]), 0);
	assert_int_equal(vb_region_register(memory, &info, &key), -ENOMEM);
	assert_int_equal(vb_window_allocate(memory, VB_REGION_MW_TYPE_2, &pd, &key), -ENOMEM);
	assert_int_equal(pd.users, ENTRIES);
	for (unsigned round = 0; round < 1000; round++) {
		unsigned i = round * 37 % ENTRIES;
		uint32_t old = keys[i];

		assert_int_equal(vb_region_deregister(memory, old), 0);
		assert_int_equal(vb_region_deregister(memory, old), -EINVAL);
		assert_int_equal(vb_region_register(memory, &info, &keys[i]), 0);
		/* The only free entry is the one just freed: same index, but never the same key. */
		assert_int_equal(keys[i] >> 8, old >> 8);
		assert_int_not_equal(keys[i], old);
	}
	assert_int_equal(vb_memory_count(memory, VB_REGION_MR), ENTRIES);
	vb_memory_destroy(memory);
}

/* A program that registers and forgets in a loop does not walk through all of the table's memory. */
static void churn_reuses_entries(void **state)
{
	struct fixture f;
	struct vb_memory *memory = fixture_memory(&f, 6, 1 << 20);
	struct vb_pd pd = {0};
	char byte;

	(void)state;
	for (unsigned i = 0; i < 10000; i++)
		assert_int_equal(vb_region_deregister(memory, fixture_register(memory, &pd, &byte, 1, 0)), 0);
	assert_true(memory->entries_made <= VB_ENTRIES_RESTING + 2);
	vb_memory_destroy(memory);
}

static void a_table_has_a_size(void **state)
{
	struct fixture f = {.seed = 1};
	struct vb_memory_host host = {fixture_random, fixture_read, fixture_write, &f};

	(void)state;
	assert_null(vb_memory_create(&host, 0));
	assert_null(vb_memory_create(&host, (1u << 24) + 1));
	vb_memory_destroy(NULL);
}

/* Keys of indices that were never made, or beyond the table, are unknown and nothing worse. */
static void wild_keys_are_unknown(void **state)
{
	struct fixture f;
	struct vb_memory *memory = fixture_memory(&f, 77, 10);
	struct vb_pd pd = {0};
	char byte = 0;
	uint32_t key = fixture_register(memory, &pd, &byte, 1, 0);

	(void)state;
	for (unsigned i = 0; i < 100000; i++) {
		uint32_t wild = fixture_random(&f);
		struct vb_accessor who = fixture_local(&pd, wild, 0);
		struct vb_fault_record why = {0};

		if (wild == key)
			continue;
		assert_false(vb_memory_fetch(memory, &who, (uintptr_t)&byte, &byte, 1, &why));
		assert_int_equal(why.fault, VB_FAULT_KEY_UNKNOWN);
		assert_int_equal(why.key, wild);
	}
	vb_memory_destroy(memory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_show_no_pattern),
		cmocka_unit_test(held_keys_lead_to_no_other),
		cmocka_unit_test(entries_run_out_and_come_back),
		cmocka_unit_test(churn_reuses_entries),
		cmocka_unit_test(a_table_has_a_size),
		cmocka_unit_test(wild_keys_are_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
