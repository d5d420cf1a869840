/* SPDX-License-Identifier: MIT
 *
 * Access to user memory: every operation against every set of rights, bounds to the byte, addresses that wrap,
 * kinds of regions, and the order of stores.
 */
#include "fixture.h"

enum { SIZE = 64, GUARD = 32, QPN = 9 };

/* Guards on both sides show a byte that went astray. */
struct arena {
	uint8_t before[GUARD];
	_Alignas(8) uint8_t bytes[SIZE];
	uint8_t after[GUARD];
};

static void fill_arena(struct arena *arena)
{
	memset(arena->before, 0xb0, GUARD);
	memset(arena->after, 0xa0, GUARD);
	for (unsigned i = 0; i < SIZE; i++)
		arena->bytes[i] = (uint8_t)i;
}

static void assert_guards_stand(const struct arena *arena)
{
	for (unsigned i = 0; i < GUARD; i++) {
		assert_int_equal(arena->before[i], 0xb0);
		assert_int_equal(arena->after[i], 0xa0);
	}
}

/* What can be asked, and the one right it takes (typed from IBA 10.6.3, 9.7.4.1.5). */
static const struct operation {
	const char *name;
	uint32_t right;
	bool remote, stores, atomic;
} operations[] = {
	{"local load", 0, false, false, false},
	{"local store", IBV_ACCESS_LOCAL_WRITE, false, true, false},
	{"remote write", IBV_ACCESS_REMOTE_WRITE, true, true, false},
	{"remote read", IBV_ACCESS_REMOTE_READ, true, false, false},
	{"remote compare and swap", IBV_ACCESS_REMOTE_ATOMIC, true, true, true},
	{"remote fetch and add", IBV_ACCESS_REMOTE_ATOMIC, true, true, true},
};

enum { OPERATIONS = sizeof(operations) / sizeof(operations[0]), FETCH_ADD = 5 };

static bool perform(struct vb_memory *memory, struct vb_pd *pd, uint32_t key, unsigned which, uint64_t address,
		    uint64_t length, struct vb_fault_record *why)
{
	const struct operation *operation = &operations[which];
	struct vb_accessor who = {pd, QPN, key, operation->right, operation->remote};
	static uint8_t buffer[4096];
	uint64_t original;

	if (operation->atomic)
		return vb_memory_atomic(memory, &who, which == FETCH_ADD ? VB_ATOMIC_FETCH_ADD : VB_ATOMIC_CMP_SWP,
					address, 1, 2, &original, why);
	if (length > sizeof(buffer))
		return vb_memory_check(memory, &who, address, length, why);
	if (operation->stores)
		return vb_memory_place(memory, &who, address, buffer, length, why);
	return vb_memory_fetch(memory, &who, address, buffer, length, why);
}

static void every_operation_against_every_right(void **state)
{
	struct fixture f;
	struct vb_memory *memory = fixture_memory(&f, 31, 64);
	struct vb_pd pd = {0}, other = {0};
	struct vb_fault_record why;
	struct arena arena;

	(void)state;
	fill_arena(&arena);
	for (uint32_t access = 0; access < 32; access++) {
		uint32_t key;

		if (vb_region_check_access(access) != 0)
			continue;
		key = fixture_register(memory, &pd, arena.bytes, SIZE, access);
		for (unsigned i = 0; i < OPERATIONS; i++) {
			bool may = operations[i].right == 0 || (access & operations[i].right);

			memset(&why, 0, sizeof(why));
			assert_int_equal(perform(memory, &pd, key, i, (uintptr_t)arena.bytes, 8, &why), may);
			if (!may) {
				assert_int_equal(why.fault, VB_FAULT_RIGHTS);
				assert_int_equal(why.rights_asked, operations[i].right);
				assert_int_equal(why.rights_granted, access);
				assert_int_equal(why.key, key);
				assert_int_equal(why.qpn, QPN);
			}
			assert_false(perform(memory, &other, key, i, (uintptr_t)arena.bytes, 8, &why));
			assert_int_equal(why.fault, VB_FAULT_PD_MISMATCH);
			assert_false(perform(memory, &pd, key ^ 0x80, i, (uintptr_t)arena.bytes, 8, &why));
			assert_int_equal(why.fault, VB_FAULT_KEY_UNKNOWN);
		}
		assert_int_equal(vb_region_deregister(memory, key), 0);
	}
	assert_guards_stand(&arena);
	vb_memory_destroy(memory);
}

/* Offsets and lengths around both ends, at several places of the address space, the top included. */
static void bounds_hold_for_every_operation(void **state)
{
	static const int64_t offsets[] = {-9, -8, -1, 0, 1, 8, SIZE - 9, SIZE - 8, SIZE - 1, SIZE, SIZE + 1, SIZE + 8};
	static const uint64_t lengths[] = {0, 1, 7, 8, 9, SIZE - 1, SIZE, SIZE + 1, 1ull << 31, 1ull << 32,
					   UINT64_MAX - SIZE, UINT64_MAX - 1, UINT64_MAX};
	struct fixture f;
	struct vb_memory *memory = fixture_memory(&f, 32, 64);
	struct vb_pd pd = {0};
	struct arena arena;
	uint64_t iovas[4];
	uint32_t all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		       IBV_ACCESS_REMOTE_ATOMIC;

	(void)state;
	fill_arena(&arena);
	iovas[0] = (uintptr_t)arena.bytes;
	iovas[1] = 0;
	iovas[2] = 0x7fffffffffffffc0;
	iovas[3] = UINT64_MAX - SIZE + 1; /* its last byte is the last byte there is */
	for (unsigned v = 0; v < 4; v++) {
		struct vb_region_info info = {VB_REGION_MR, &pd, (uintptr_t)arena.bytes, SIZE, iovas[v], all, false};
		uint32_t key;

		assert_int_equal(vb_region_register(memory, &info, &key), 0);
		for (unsigned i = 0; i < OPERATIONS; i++)
			for (unsigned o = 0; o < sizeof(offsets) / sizeof(offsets[0]); o++)
				for (unsigned l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++) {
					uint64_t length = operations[i].atomic ? 8 : lengths[l];
					bool inside = offsets[o] >= 0 && offsets[o] <= SIZE &&
						      length <= (uint64_t)(SIZE - offsets[o]);
					bool aligned = !operations[i].atomic || offsets[o] % 8 == 0;
					struct vb_fault_record why = {0};
					bool done = perform(memory, &pd, key, i, iovas[v] + (uint64_t)offsets[o],
							    length, &why);

					assert_int_equal(done, length == 0 || (inside && aligned));
					if (!done)
						assert_int_equal(why.fault, inside ? VB_FAULT_UNALIGNED_ATOMIC :
								 VB_FAULT_RANGE);
					if (!done && !inside) {
						assert_int_equal(why.region_start, iovas[v]);
						assert_int_equal(why.region_length, SIZE);
					}
				}
	}
	assert_guards_stand(&arena);
	vb_memory_destroy(memory);
}

/* IBA C9-88: with no bytes to move nothing is checked, not even the key. */
static void length_zero_checks_nothing(void **state)
{
	struct fixture f;
	struct vb_memory *memory = fixture_memory(&f, 33, 64);
	struct vb_accessor who = {NULL, QPN, 0xbad0bad0, IBV_ACCESS_REMOTE_WRITE, true};
	struct vb_fault_record why = {0};
	struct vb_hold span;

	(void)state;
	assert_true(vb_memory_check(memory, &who, 1, 0, &why));
	assert_true(vb_memory_place(memory, &who, 1, NULL, 0, &why));
	assert_true(vb_memory_fetch(memory, &who, 1, NULL, 0, &why));
	assert_true(vb_memory_span(memory, &who, 1, 0, &span, &why));
	assert_int_equal(why.fault, VB_FAULT_NONE);
	vb_memory_destroy(memory);
}

/* Every alignment and length: exactly those bytes, and no others. */
static void placement_is_exact(void **state)
{
	struct fixture f;
	struct vb_memory *memory = fixture_memory(&f, 34, 64);
	struct vb_pd pd = {0};
	struct vb_fault_record why;
	struct arena arena, expected;
	uint8_t from[SIZE], back[SIZE];
	uint32_t key = fixture_register(memory, &pd, arena.bytes, SIZE, IBV_ACCESS_LOCAL_WRITE);
	struct vb_accessor store = fixture_local(&pd, key, IBV_ACCESS_LOCAL_WRITE), load = fixture_local(&pd, key, 0);

	(void)state;
	for (unsigned i = 0; i < SIZE; i++)
		from[i] = (uint8_t)(0x80 + i);
	for (unsigned offset = 0; offset < SIZE; offset++)
		for (unsigned length = 1; offset + length <= SIZE; length++) {
			fill_arena(&arena);
			fill_arena(&expected);
			memcpy(expected.bytes + offset, from, length);
			assert_true(vb_memory_place(memory, &store, (uintptr_t)arena.bytes + offset, from, length,
						    &why));
			assert_memory_equal(&arena, &expected, sizeof(arena));
			memset(back, 0, sizeof(back));
			assert_true(vb_memory_fetch(memory, &load, (uintptr_t)arena.bytes + offset, back, length,
						    &why));
			assert_memory_equal(back, from, length);
		}
	vb_memory_destroy(memory);
}

static void an_iova_names_other_addresses(void **state)
{
	struct fixture f;
	struct vb_memory *memory = fixture_memory(&f, 35, 64);
	struct vb_pd pd = {0};
	struct arena arena;
	struct vb_region_info info = {VB_REGION_MR, &pd, (uintptr_t)arena.bytes, SIZE, 0x10000, IBV_ACCESS_LOCAL_WRITE,
				      false};
	struct vb_accessor who = fixture_local(&pd, 0, 0);
	struct vb_fault_record why;
	struct vb_hold span;
	uint8_t byte;

	(void)state;
	fill_arena(&arena);
	assert_int_equal(vb_region_register(memory, &info, &who.key), 0);
	assert_true(vb_memory_fetch(memory, &who, 0x10000 + 5, &byte, 1, &why));
	assert_int_equal(byte, 5);
	assert_true(vb_memory_span(memory, &who, 0x10000 + 7, SIZE - 7, &span, &why));
	assert_ptr_equal(span.bytes, arena.bytes + 7);
	vb_memory_let_go(&span);
	/* Held is what is on either side of the range as well, and nothing beyond. */
	assert_true(vb_memory_hold_around(memory, &who, 0x10000 + 7, 2, &span));
	assert_ptr_equal(vb_hold_bytes(&span, who.key, 0, 0x10000, SIZE), arena.bytes);
	assert_null(vb_hold_bytes(&span, who.key, 0, 0x10000, SIZE + 1));
	assert_null(vb_hold_bytes(&span, who.key, 0, 0xffff, 2));
	assert_false(vb_memory_hold_around(memory, &who, 0x10000 + 7, SIZE - 6, &span));
	assert_null(span.entry);
	assert_false(vb_memory_span(memory, &who, 0x10000 + 7, SIZE - 6, &span, &why));
	assert_null(span.entry);
	assert_false(vb_memory_fetch(memory, &who, (uintptr_t)arena.bytes, &byte, 1, &why));
	/* Zero-based: named by offsets, whatever iova says. */
	info.access |= IBV_ACCESS_ZERO_BASED;
	assert_int_equal(vb_region_register(memory, &info, &who.key), 0);
	assert_true(vb_memory_fetch(memory, &who, 9, &byte, 1, &why));
	assert_int_equal(byte, 9);
	assert_false(vb_memory_fetch(memory, &who, SIZE, &byte, 1, &why));
	vb_memory_destroy(memory);
}

static void the_implicit_region_covers_everything(void **state)
{
	struct fixture f;
	struct vb_memory *memory = fixture_memory(&f, 36, 64);
	struct vb_pd pd = {0};
	struct vb_region_info info = {VB_REGION_MR, &pd, 0, UINT64_MAX, 0, IBV_ACCESS_LOCAL_WRITE, true};
	struct vb_accessor who = fixture_local(&pd, 0, IBV_ACCESS_LOCAL_WRITE);
	struct vb_fault_record why;
	uint64_t there = 0, value = 77;
	struct vb_hold span;

	(void)state;
	assert_int_equal(vb_region_register(memory, &info, &who.key), 0);
	assert_true(vb_memory_place(memory, &who, (uintptr_t)&there, &value, 8, &why));
	assert_int_equal(there, 77);
	assert_true(vb_memory_span(memory, &who, (uintptr_t)&there, 8, &span, &why));
	assert_null(span.entry);
	assert_true(vb_memory_check(memory, &who, UINT64_MAX - 8, 8, &why));
	assert_false(vb_memory_check(memory, &who, UINT64_MAX - 8, 10, &why));
	assert_false(vb_memory_check(memory, &who, UINT64_MAX, UINT64_MAX, &why));
	assert_int_equal(why.fault, VB_FAULT_RANGE);
	vb_memory_destroy(memory);
}

static void checked_regions_survive_unmapped_memory(void **state)
{
	struct fixture f;
	struct vb_memory *memory = fixture_memory(&f, 37, 64);
	struct vb_pd pd = {0};
	struct arena arena;
	struct vb_region_info info = {VB_REGION_MR, &pd, (uintptr_t)arena.bytes, SIZE, (uintptr_t)arena.bytes,
				      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ON_DEMAND, true};
	struct vb_accessor who = fixture_local(&pd, 0, IBV_ACCESS_LOCAL_WRITE), atomic;
	struct vb_fault_record why;
	uint8_t buffer[SIZE] = {0};
	uint64_t original;

	(void)state;
	fill_arena(&arena);
	assert_int_equal(vb_region_register(memory, &info, &who.key), 0);
	f.hole_start = (uintptr_t)arena.bytes + 32;
	f.hole_end = (uintptr_t)arena.bytes + SIZE;
	assert_true(vb_memory_place(memory, &who, (uintptr_t)arena.bytes, buffer, 32, &why));
	assert_int_equal(f.checked_writes, 2); /* the tail last */
	assert_int_equal(arena.bytes[31], 0);
	assert_false(vb_memory_place(memory, &who, (uintptr_t)arena.bytes, buffer, 33, &why));
	assert_int_equal(why.fault, VB_FAULT_UNMAPPED);
	assert_false(vb_memory_fetch(memory, &who, (uintptr_t)arena.bytes + 33, buffer, 1, &why));
	assert_int_equal(why.fault, VB_FAULT_UNMAPPED);
	atomic = fixture_remote(&pd, QPN, who.key, IBV_ACCESS_REMOTE_ATOMIC);
	assert_false(vb_memory_atomic(memory, &atomic, VB_ATOMIC_FETCH_ADD, (uintptr_t)arena.bytes + 32, 1, 0,
				      &original, &why));
	assert_int_equal(why.fault, VB_FAULT_UNMAPPED);
	assert_true(vb_memory_atomic(memory, &atomic, VB_ATOMIC_FETCH_ADD, (uintptr_t)arena.bytes, 1, 0, &original,
				     &why));
	assert_int_equal(vb_region_deregister(memory, who.key), 0); /* nobody is left inside */
	vb_memory_destroy(memory);
}

static void the_null_region_swallows_and_gives_zeros(void **state)
{
	struct fixture f;
	struct vb_memory *memory = fixture_memory(&f, 38, 64);
	struct vb_pd pd = {0};
	struct vb_region_info info = {.kind = VB_REGION_NULL_MR, .pd = &pd};
	struct vb_accessor who = fixture_local(&pd, 0, IBV_ACCESS_LOCAL_WRITE), peer;
	struct vb_fault_record why;
	uint8_t buffer[SIZE];
	struct vb_hold span;

	(void)state;
	memset(buffer, 0xff, SIZE);
	assert_int_equal(vb_region_register(memory, &info, &who.key), 0);
	assert_int_equal(vb_memory_count(memory, VB_REGION_NULL_MR), 1);
	assert_true(vb_memory_place(memory, &who, 0, buffer, SIZE, &why));
	assert_true(vb_memory_place(memory, &who, UINT64_MAX, buffer, SIZE, &why));
	assert_true(vb_memory_fetch(memory, &who, 0x1234, buffer, SIZE, &why));
	for (unsigned i = 0; i < SIZE; i++)
		assert_int_equal(buffer[i], 0);
	assert_true(vb_memory_span(memory, &who, 0, SIZE, &span, &why));
	assert_null(span.entry);
	peer = fixture_remote(&pd, QPN, who.key, IBV_ACCESS_REMOTE_WRITE);
	assert_false(vb_memory_place(memory, &peer, 0, buffer, SIZE, &why));
	assert_int_equal(why.fault, VB_FAULT_RIGHTS);
	assert_int_equal(vb_region_deregister(memory, who.key), 0);
	vb_memory_destroy(memory);
}

static void atomics_return_the_original(void **state)
{
	struct fixture f;
	struct vb_memory *memory = fixture_memory(&f, 39, 64);
	struct vb_pd pd = {0};
	uint64_t word = 10, original = 0;
	uint32_t key = fixture_register(memory, &pd, &word, 8, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
	struct vb_accessor who = fixture_remote(&pd, QPN, key, IBV_ACCESS_REMOTE_ATOMIC);
	struct vb_fault_record why;
	uint64_t at = (uintptr_t)&word;

	(void)state;
	assert_true(vb_memory_atomic(memory, &who, VB_ATOMIC_FETCH_ADD, at, 5, 99, &original, &why));
	assert_int_equal(original, 10);
	assert_int_equal(word, 15);
	assert_true(vb_memory_atomic(memory, &who, VB_ATOMIC_FETCH_ADD, at, UINT64_MAX, 0, &original, &why));
	assert_int_equal(word, 14);
	assert_true(vb_memory_atomic(memory, &who, VB_ATOMIC_CMP_SWP, at, 100, 13, &original, &why));
	assert_int_equal(original, 14);
	assert_int_equal(word, 14);
	assert_true(vb_memory_atomic(memory, &who, VB_ATOMIC_CMP_SWP, at, 100, 14, &original, &why));
	assert_int_equal(original, 14);
	assert_int_equal(word, 100);
	vb_memory_destroy(memory);
}

/* The peer names an aligned address, but the region's iova and start disagree modulo 8. */
static void atomics_are_aligned_where_they_lie(void **state)
{
	struct fixture f;
	struct vb_memory *memory = fixture_memory(&f, 40, 64);
	struct vb_pd pd = {0};
	struct arena arena;
	struct vb_region_info info = {VB_REGION_MR, &pd, (uintptr_t)arena.bytes + 1, 32, 0x8000,
				      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC, false};
	struct vb_accessor who = fixture_remote(&pd, QPN, 0, IBV_ACCESS_REMOTE_ATOMIC);
	struct vb_fault_record why;
	uint64_t original;

	(void)state;
	fill_arena(&arena);
	assert_int_equal(vb_region_register(memory, &info, &who.key), 0);
	assert_false(vb_memory_atomic(memory, &who, VB_ATOMIC_FETCH_ADD, 0x8000, 1, 0, &original, &why));
	assert_int_equal(why.fault, VB_FAULT_UNALIGNED_ATOMIC);
	assert_false(vb_memory_atomic(memory, &who, VB_ATOMIC_FETCH_ADD, 0x8007, 1, 0, &original, &why));
	assert_int_equal(why.fault, VB_FAULT_UNALIGNED_ATOMIC);
	vb_memory_destroy(memory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_operation_against_every_right),
		cmocka_unit_test(bounds_hold_for_every_operation),
		cmocka_unit_test(length_zero_checks_nothing),
		cmocka_unit_test(placement_is_exact),
		cmocka_unit_test(an_iova_names_other_addresses),
		cmocka_unit_test(the_implicit_region_covers_everything),
		cmocka_unit_test(checked_regions_survive_unmapped_memory),
		cmocka_unit_test(the_null_region_swallows_and_gives_zeros),
		cmocka_unit_test(atomics_return_the_original),
		cmocka_unit_test(atomics_are_aligned_where_they_lie),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
