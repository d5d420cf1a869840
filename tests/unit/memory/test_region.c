/* SPDX-License-Identifier: MIT
 *
 * Registering, changing, asking and forgetting regions, and the access flags they may have.
 */
#include "fixture.h"

/* Typed from ibv_reg_mr(3), not from the code: every combination of the eight plain bits. */
static void access_flags_are_checked(void **state)
{
	(void)state;
	for (unsigned access = 0; access < 256; access++) {
		int remote_stores = (access & 2) || (access & 8);
		int local_write = access & 1;

		assert_int_equal(vb_region_check_access(access), remote_stores && !local_write ? -EINVAL : 0);
	}
	for (unsigned bit = 8; bit < 32; bit++) {
		int optional = bit >= 20 && bit <= 29;

		assert_int_equal(vb_region_check_access(1u << bit), optional ? 0 : -EINVAL);
	}
	assert_int_equal(vb_region_check_access(IBV_ACCESS_RELAXED_ORDERING | IBV_ACCESS_REMOTE_WRITE), -EINVAL);
}

static void query_returns_what_was_registered(void **state)
{
	struct fixture f;
	struct vb_memory *memory = fixture_memory(&f, 1, 8);
	struct vb_pd pd = {.handle = 3};
	struct vb_region_info info = {VB_REGION_MR, &pd, 0x1000, 0x200, 0x99000, IBV_ACCESS_LOCAL_WRITE, true}, back;
	uint32_t key;

	(void)state;
	assert_int_equal(vb_region_register(memory, &info, &key), 0);
	assert_int_equal(pd.users, 1);
	assert_int_equal(vb_memory_count(memory, VB_REGION_MR), 1);
	assert_int_equal(vb_region_query(memory, key, &back), 0);
	assert_int_equal(back.kind, VB_REGION_MR);
	assert_ptr_equal(back.pd, &pd);
	assert_int_equal(back.start, 0x1000);
	assert_int_equal(back.length, 0x200);
	assert_int_equal(back.iova, 0x99000);
	assert_int_equal(back.access, IBV_ACCESS_LOCAL_WRITE);
	assert_true(back.checked);
	assert_int_equal(vb_region_query(memory, key ^ 1, &back), -EINVAL);
	assert_int_equal(vb_region_deregister(memory, key ^ 1), -EINVAL);
	assert_int_equal(vb_region_deregister(memory, key), 0);
	assert_int_equal(vb_region_query(memory, key, &back), -EINVAL);
	assert_int_equal(pd.users, 0);
	assert_int_equal(vb_memory_count(memory, VB_REGION_MR), 0);
	vb_memory_destroy(memory);
}

static void reregistering_keeps_the_key(void **state)
{
	struct fixture f;
	struct vb_memory *memory = fixture_memory(&f, 1, 8);
	struct vb_pd pd = {.handle = 1}, other = {.handle = 2};
	uint8_t first[16] = {0}, second[32] = {0};
	uint32_t key = fixture_register(memory, &pd, first, sizeof(first), IBV_ACCESS_LOCAL_WRITE);
	struct vb_region_info info = {VB_REGION_MR, &other, (uintptr_t)second, 32, (uintptr_t)second, 0, false};
	struct vb_accessor old = fixture_local(&pd, key, IBV_ACCESS_LOCAL_WRITE), new = fixture_local(&other, key, 0);
	struct vb_fault_record why;
	uint8_t byte = 1;

	(void)state;
	assert_int_equal(vb_region_reregister(memory, key, &info), 0);
	assert_int_equal(pd.users, 0);
	assert_int_equal(other.users, 1);
	assert_false(vb_memory_place(memory, &old, (uintptr_t)first, &byte, 1, &why));
	assert_int_equal(why.fault, VB_FAULT_PD_MISMATCH);
	assert_true(vb_memory_fetch(memory, &new, (uintptr_t)second + 31, &byte, 1, &why));
	assert_int_equal(byte, 0);
	new.rights = IBV_ACCESS_LOCAL_WRITE;
	assert_false(vb_memory_place(memory, &new, (uintptr_t)second, &byte, 1, &why));
	assert_int_equal(why.fault, VB_FAULT_RIGHTS);
	assert_int_equal(vb_region_reregister(memory, key ^ 0x10, &info), -EINVAL);
	info.kind = VB_REGION_NULL_MR;
	assert_int_equal(vb_region_reregister(memory, key, &info), -EINVAL);
	vb_memory_destroy(memory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(access_flags_are_checked),
		cmocka_unit_test(query_returns_what_was_registered),
		cmocka_unit_test(reregistering_keeps_the_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
