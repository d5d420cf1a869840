/* SPDX-License-Identifier: MIT
 *
 * The table as other processes see it: the same answers as the owner's own access, waiting for those who copy, and nothing
 * but answers from an area of nonsense.
 */
#include <stdlib.h>

#include "fixture.h"

#include "memory/foreign.h"

enum { REGIONS = 2000, ENTRY = 128, AREA = 4096 + 4 * 512 * ENTRY, QPN = 0x4007 };

#define REMOTE (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

static struct fixture fixture;
static uint8_t *area;
static unsigned asked;           /* whether somebody copies */
static uint32_t asked_key;
static uint32_t copied_key;      /* a peer is in the middle of a copy by this one */

static void *give_chunk(void *context, uint32_t index, size_t bytes)
{
	(void)context;
	return vb_foreign_chunk(area, AREA, index, bytes);
}

static bool note_question(void *context, uint32_t key)
{
	(void)context;
	asked++;
	asked_key = key;
	return key == copied_key;
}

static struct vb_memory *open_table(uint64_t seed)
{
	struct vb_memory_host host = {fixture_random, fixture_read, fixture_write, &fixture, give_chunk, note_question, NULL};
	struct vb_memory *memory;

	memset(&fixture, 0, sizeof(fixture));
	fixture.seed = seed;
	asked = copied_key = 0;
	memory = vb_memory_create(&host, REGIONS);
	assert_non_null(memory);
	vb_foreign_publish(memory, area);
	return memory;
}

static int make_area(void **state)
{
	(void)state;
	area = aligned_alloc(4096, (AREA + 4095) & ~4095u);
	memset(area, 0xa5, AREA);
	return area ? 0 : -1;
}

static int drop_area(void **state)
{
	(void)state;
	free(area);
	return 0;
}

static bool ask(struct vb_pd *pd, uint32_t key, uint32_t rights, uint64_t address, uint64_t length,
		struct vb_foreign_range *range, struct vb_fault_record *why)
{
	/* Never forgotten, not even from one table to the next. */
	static struct vb_foreign_hint hint;
	struct vb_foreign_asker who = {.pd = pd->handle, .qpn = QPN, .rights = rights, .hint = &hint};
	struct vb_fault_record again;
	bool good = vb_foreign_find(area, AREA, key, &who, address, length, range, why);

	who.hint = NULL;
	assert_int_equal(vb_foreign_find(area, AREA, key, &who, address, length, range, &again), good);
	if (!good)
		assert_memory_equal(why, &again, sizeof(again));
	return good;
}

/* The owner's own access and the foreign look give the same result and the same evidence. */
static void compare(struct vb_memory *memory, struct vb_pd *pd, uint32_t key, uint32_t rights, uint64_t address,
		    uint64_t length)
{
	struct vb_accessor who = fixture_remote(pd, QPN, key, rights);
	struct vb_fault_record own = {0}, foreign = {0};
	struct vb_foreign_range range;
	bool good = vb_memory_check(memory, &who, address, length, &own);

	assert_int_equal(ask(pd, key, rights, address, length, &range, &foreign), good);
	if (!good)
		assert_memory_equal(&own, &foreign, sizeof(own));
}

static void same_answers_as_the_owners_access(void **state)
{
	static uint8_t bytes[256];
	struct vb_pd pd = {.handle = 3}, other = {.handle = 4};
	struct vb_memory *memory = open_table(11);
	struct vb_window_bind bind = {.address = (uintptr_t)bytes + 16, .length = 32, .access = IBV_ACCESS_REMOTE_WRITE,
				      .qpn = QPN, .pd = &pd};
	struct vb_region_info null = {.kind = VB_REGION_NULL_MR, .pd = &pd, .length = UINT64_MAX, .access = REMOTE};
	struct vb_region_info moved = {.kind = VB_REGION_MR, .pd = &pd, .start = (uintptr_t)bytes, .length = 64,
				       .iova = 0xfffffffffffff000, .access = IBV_ACCESS_REMOTE_READ};
	uint32_t keys[7], rights[] = {0, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_ATOMIC};
	const uint64_t at = (uintptr_t)bytes;
	const uint64_t addresses[] = {at, at + 16, at + 255, at + 256, at - 1, 0, UINT64_MAX, 0xfffffffffffff000};
	const uint64_t lengths[] = {1, 8, 32, 256, 257, 1u << 31, UINT64_MAX};
	struct vb_foreign_range range;
	struct vb_fault_record why;

	(void)state;
	keys[0] = fixture_register(memory, &pd, bytes, sizeof(bytes), IBV_ACCESS_LOCAL_WRITE | REMOTE | IBV_ACCESS_MW_BIND);
	keys[1] = fixture_register(memory, &other, bytes, sizeof(bytes), IBV_ACCESS_REMOTE_READ);
	assert_int_equal(vb_region_register(memory, &null, &keys[2]), 0);
	assert_int_equal(vb_region_register(memory, &moved, &keys[3]), 0);
	assert_int_equal(vb_window_allocate(memory, VB_REGION_MW_TYPE_2, &pd, &keys[4]), 0);
	bind.window_key = keys[4];
	bind.new_key = keys[4];
	bind.region_lkey = keys[0];
	assert_true(vb_window_bind(memory, &bind, &why));
	assert_int_equal(vb_window_allocate(memory, VB_REGION_MW_TYPE_1, &pd, &keys[5]), 0);
	keys[6] = 0x12345678;
	for (unsigned k = 0; k < 7; k++)
		for (unsigned r = 0; r < 4; r++)
			for (unsigned a = 0; a < 8; a++)
				for (unsigned l = 0; l < 7; l++) {
					compare(memory, &pd, keys[k], rights[r], addresses[a], lengths[l]);
					compare(memory, &other, keys[k], rights[r], addresses[a], lengths[l]);
				}
	assert_true(ask(&pd, keys[4], IBV_ACCESS_REMOTE_WRITE, at + 20, 4, &range, &why));
	assert_int_equal(range.theirs, at + 20);
	assert_int_equal(range.region_start, at + 16);
	assert_int_equal(range.region_length, 32);
	assert_true(vb_foreign_lives(area, AREA, keys[4], range.generation));
	assert_false(vb_foreign_lives(area, AREA, keys[4], range.generation + 1));
	assert_false(vb_foreign_lives(area, AREA, keys[0], range.generation));
	assert_true(vb_memory_invalidate(memory, keys[4], &pd, QPN, false, &why));
	assert_false(vb_foreign_lives(area, AREA, keys[4], range.generation));
	assert_true(vb_window_bind(memory, &bind, &why));
	assert_false(vb_foreign_lives(area, AREA, keys[4], range.generation));
	assert_true(ask(&pd, keys[2], IBV_ACCESS_REMOTE_READ, 5, UINT64_MAX, &range, &why));
	assert_true(range.null);
	assert_true(ask(&pd, keys[3], IBV_ACCESS_REMOTE_READ, 0xfffffffffffff004, 4, &range, &why));
	assert_int_equal(range.theirs, at + 4);
	vb_memory_destroy(memory);
}

static void many_entries_and_their_end(void **state)
{
	static uint8_t bytes[16];
	struct vb_pd pd = {.handle = 1};
	struct vb_memory *memory = open_table(12);
	struct vb_foreign_range range;
	struct vb_fault_record why;
	uint32_t keys[REGIONS];

	(void)state;
	for (unsigned i = 0; i < REGIONS; i++)
		keys[i] = fixture_register(memory, &pd, bytes, sizeof(bytes), IBV_ACCESS_REMOTE_READ);
	for (unsigned i = 0; i < REGIONS; i++)
		assert_true(ask(&pd, keys[i], IBV_ACCESS_REMOTE_READ, (uintptr_t)bytes, 16, &range, &why));
	for (unsigned i = 0; i < REGIONS; i++) {
		assert_int_equal(vb_region_deregister(memory, keys[i]), 0);
		assert_int_equal(asked, i + 1);
		assert_int_equal(asked_key, keys[i]);
		assert_false(ask(&pd, keys[i], IBV_ACCESS_REMOTE_READ, (uintptr_t)bytes, 16, &range, &why));
		assert_int_equal(why.fault, VB_FAULT_KEY_UNKNOWN);
	}
	vb_foreign_withdraw(area);
	keys[0] = fixture_register(memory, &pd, bytes, sizeof(bytes), IBV_ACCESS_REMOTE_READ);
	assert_false(ask(&pd, keys[0], IBV_ACCESS_REMOTE_READ, (uintptr_t)bytes, 16, &range, &why));
	vb_memory_destroy(memory);
	/* Beyond the area there is no memory. */
	assert_null(vb_foreign_chunk(area, AREA, 4, 512 * ENTRY));
	assert_null(vb_foreign_chunk(area, AREA, UINT32_MAX, 512 * ENTRY));
	assert_null(vb_foreign_chunk(area, 100, 0, 512 * ENTRY));
}

/* Windows wait for others when they are unbound, and only if they were bound. */
static void windows_ask(void **state)
{
	static uint8_t bytes[64];
	struct vb_pd pd = {.handle = 1};
	struct vb_memory *memory = open_table(13);
	uint32_t region = fixture_register(memory, &pd, bytes, sizeof(bytes), IBV_ACCESS_MW_BIND | IBV_ACCESS_LOCAL_WRITE);
	struct vb_window_bind bind = {.region_lkey = region, .address = (uintptr_t)bytes, .length = 64, .qpn = QPN,
				      .access = IBV_ACCESS_REMOTE_READ, .pd = &pd};
	struct vb_foreign_range range;
	struct vb_fault_record why;
	uint32_t window;

	(void)state;
	assert_int_equal(vb_window_allocate(memory, VB_REGION_MW_TYPE_2, &pd, &window), 0);
	bind.window_key = window;
	bind.new_key = (window & ~0xffu) | 0x42;
	assert_true(vb_window_bind(memory, &bind, &why));
	assert_int_equal(asked, 0);
	assert_true(ask(&pd, bind.new_key, IBV_ACCESS_REMOTE_READ, (uintptr_t)bytes, 1, &range, &why));
	assert_true(vb_memory_invalidate(memory, bind.new_key, &pd, QPN, false, &why));
	assert_int_equal(asked, 1);
	assert_int_equal(asked_key, bind.new_key);
	assert_false(ask(&pd, bind.new_key, IBV_ACCESS_REMOTE_READ, (uintptr_t)bytes, 1, &range, &why));
	assert_int_equal(why.fault, VB_FAULT_KEY_INVALIDATED);
	assert_int_equal(vb_window_deallocate(memory, window), 0);
	assert_int_equal(asked, 1);
	vb_memory_destroy(memory);
}

/* A peer that is stopped in the middle of a copy through a window: the window names nothing from then on, and nobody
 * waits. What protects its region stays until the peer is done. */
static void a_stopped_peer_makes_nobody_wait(void **state)
{
	static uint8_t bytes[64];
	struct vb_pd pd = {.handle = 1};
	struct vb_memory *memory = open_table(14);
	uint32_t region = fixture_register(memory, &pd, bytes, sizeof(bytes), IBV_ACCESS_MW_BIND | IBV_ACCESS_LOCAL_WRITE);
	struct vb_window_bind bind = {.region_lkey = region, .address = (uintptr_t)bytes, .length = 64, .qpn = QPN,
				      .access = IBV_ACCESS_REMOTE_READ, .pd = &pd};
	struct vb_foreign_range range;
	struct vb_fault_record why;
	uint32_t window, key;

	(void)state;
	for (unsigned type = 1; type <= 2; type++) {
		assert_int_equal(vb_window_allocate(memory, type == 1 ? VB_REGION_MW_TYPE_1 : VB_REGION_MW_TYPE_2, &pd, &window), 0);
		bind.window_key = window;
		key = bind.new_key = (window & ~0xffu) | 0x42;
		assert_int_equal(vb_window_bind(memory, &bind, &why), VB_WINDOW_DONE);
		copied_key = key;
		if (type == 2) {
			assert_int_equal(vb_memory_invalidate(memory, key, &pd, QPN, false, &why), VB_WINDOW_LATER);
			assert_int_equal(vb_memory_invalidate(memory, key, &pd, QPN, false, &why), VB_WINDOW_LATER);
		}
		bind.new_key = (window & ~0xffu) | 0x43;
		assert_int_equal(vb_window_bind(memory, &bind, &why), VB_WINDOW_LATER);
		assert_int_equal(vb_window_bind(memory, &bind, &why), VB_WINDOW_LATER);
		assert_false(ask(&pd, key, IBV_ACCESS_REMOTE_READ, (uintptr_t)bytes, 1, &range, &why));
		assert_false(ask(&pd, bind.new_key, IBV_ACCESS_REMOTE_READ, (uintptr_t)bytes, 1, &range, &why));
		assert_int_equal(vb_region_deregister(memory, region), -EBUSY);
		copied_key = 0;
		assert_int_equal(vb_window_bind(memory, &bind, &why), VB_WINDOW_DONE);
		assert_true(ask(&pd, bind.new_key, IBV_ACCESS_REMOTE_READ, (uintptr_t)bytes, 1, &range, &why));
		assert_int_equal(vb_window_deallocate(memory, window), 0);
	}
	/* By the peer's own request, which says that it is done: whatever it shows. */
	assert_int_equal(vb_window_allocate(memory, VB_REGION_MW_TYPE_2, &pd, &window), 0);
	bind.window_key = window;
	copied_key = bind.new_key = (window & ~0xffu) | 0x44;
	assert_int_equal(vb_window_bind(memory, &bind, &why), VB_WINDOW_DONE);
	assert_int_equal(vb_memory_invalidate(memory, bind.new_key, &pd, QPN, true, &why), VB_WINDOW_DONE);
	assert_int_equal(vb_region_deregister(memory, region), -EBUSY);
	/* Nobody had to say that the window is free: that is found out. */
	copied_key = 0;
	assert_int_equal(vb_region_deregister(memory, region), 0);
	assert_int_equal(vb_window_deallocate(memory, window), 0);
	vb_memory_destroy(memory);
}

/* Whatever the owner writes into its area, looking is harmless. */
static void nonsense_is_harmless(void **state)
{
	static uint8_t bytes[64];
	const uint64_t seed = 99;
	struct vb_pd pd = {.handle = 1};
	struct vb_memory *memory = open_table(seed);
	unsigned found = 0;
	uint32_t keys[64];

	(void)state;
	print_message("seed %llu\n", (unsigned long long)seed);
	for (unsigned i = 0; i < 64; i++)
		keys[i] = fixture_register(memory, &pd, bytes, sizeof(bytes), IBV_ACCESS_REMOTE_READ);
	for (unsigned round = 0; round < 20000; round++) {
		struct vb_foreign_asker who = {.pd = 1, .qpn = QPN, .rights = IBV_ACCESS_REMOTE_READ};
		uint32_t at = fixture_random(&fixture) % (4096 + 64 * 88);
		struct vb_foreign_range range;
		struct vb_fault_record why;
		size_t bytes_of_area = round % 2 ? AREA : fixture_random(&fixture) % AREA;

		/* Never the magic itself, or nothing further is reached. */
		if (at >= 8)
			area[at] = (uint8_t)fixture_random(&fixture);
		found += vb_foreign_find(area, bytes_of_area, round % 3 ? keys[round % 64] : fixture_random(&fixture), &who,
					 (uintptr_t)bytes, fixture_random(&fixture), &range, &why);
	}
	(void)found;
	vb_memory_destroy(memory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(same_answers_as_the_owners_access),
		cmocka_unit_test(many_entries_and_their_end),
		cmocka_unit_test(windows_ask),
		cmocka_unit_test(a_stopped_peer_makes_nobody_wait),
		cmocka_unit_test(nonsense_is_harmless),
	};

	return cmocka_run_group_tests_name("memory/foreign", tests, make_area, drop_area);
}
