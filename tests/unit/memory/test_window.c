/* SPDX-License-Identifier: MIT
 *
 * Memory windows: what may be bound, what access a binding gives, and what takes it away (IBA 10.6.7).
 */
#include "fixture.h"

enum { QPN = 0x123, OTHER_QPN = 0x456, SIZE = 256 };

struct world {
	struct fixture f;
	struct vb_memory *memory;
	struct vb_pd pd, other_pd;
	uint8_t bytes[SIZE];
	uint32_t region, type_1, type_2;
	struct vb_fault_record why;
};

static int set_up(void **state)
{
	static struct world w;

	memset(&w, 0, sizeof(w));
	w.memory = fixture_memory(&w.f, 4242, 64);
	w.region = fixture_register(w.memory, &w.pd, w.bytes, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	assert_int_equal(vb_window_allocate(w.memory, VB_REGION_MW_TYPE_1, &w.pd, &w.type_1), 0);
	assert_int_equal(vb_window_allocate(w.memory, VB_REGION_MW_TYPE_2, &w.pd, &w.type_2), 0);
	*state = &w;
	return 0;
}

static int tear_down(void **state)
{
	vb_memory_destroy(((struct world *)*state)->memory);
	return 0;
}

/* A bind of the middle half that succeeds unless the test spoils it. */
static struct vb_window_bind good_bind(struct world *w, uint32_t window)
{
	return (struct vb_window_bind){
		.window_key = window,
		.new_key = (window & ~0xffu) | (uint8_t)(window + 1),
		.region_lkey = w->region,
		.address = (uintptr_t)w->bytes + 64,
		.length = 128,
		.access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
		.qpn = QPN,
		.pd = &w->pd,
	};
}

static bool can_write(struct world *w, uint32_t key, uint32_t qpn, uint64_t address, size_t length)
{
	struct vb_accessor who = fixture_remote(&w->pd, qpn, key, IBV_ACCESS_REMOTE_WRITE);
	uint8_t from[SIZE] = {1};

	return vb_memory_place(w->memory, &who, address, from, length, &w->why);
}

static void bind_rules(struct world *w, uint32_t window)
{
	uint32_t unbindable = fixture_register(w->memory, &w->pd, w->bytes, SIZE, IBV_ACCESS_LOCAL_WRITE);
	uint32_t read_only = fixture_register(w->memory, &w->pd, w->bytes, SIZE, IBV_ACCESS_MW_BIND);
	uint32_t foreign = fixture_register(w->memory, &w->other_pd, w->bytes, SIZE,
					    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	uint64_t start = (uintptr_t)w->bytes;
	const struct {
		enum vb_fault expected;
		uint32_t window_key, new_key, region;
		struct vb_pd *pd;
		uint64_t address, length;
		uint32_t access;
	} cases[] = {
		/* 0 / NULL: leave as in the good bind */
		{.expected = VB_FAULT_KEY_UNKNOWN, .window_key = w->region},
		{.expected = VB_FAULT_KEY_UNKNOWN, .window_key = 0xdeadbeef},
		{.expected = VB_FAULT_KEY_UNKNOWN, .region = 0xdeadbeef},
		{.expected = VB_FAULT_KEY_UNKNOWN, .region = w->region ^ 1},
		{.expected = VB_FAULT_KEY_UNKNOWN, .region = w->type_1},
		{.expected = VB_FAULT_PD_MISMATCH, .pd = &w->other_pd},
		{.expected = VB_FAULT_PD_MISMATCH, .region = foreign},
		{.expected = VB_FAULT_RIGHTS, .region = unbindable},
		{.expected = VB_FAULT_RIGHTS, .region = read_only, .access = IBV_ACCESS_REMOTE_WRITE},
		{.expected = VB_FAULT_RIGHTS, .region = read_only, .access = IBV_ACCESS_REMOTE_ATOMIC},
		{.expected = VB_FAULT_BIND, .access = IBV_ACCESS_MW_BIND},
		{.expected = VB_FAULT_BIND, .new_key = window ^ 0x100},
		{.expected = VB_FAULT_RANGE, .address = start - 1, .length = 2},
		{.expected = VB_FAULT_RANGE, .address = start, .length = SIZE + 1},
		{.expected = VB_FAULT_RANGE, .address = start + SIZE, .length = 1},
		{.expected = VB_FAULT_RANGE, .address = start + 1, .length = UINT64_MAX},
		{.expected = VB_FAULT_RANGE, .address = UINT64_MAX, .length = 2},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct vb_window_bind bind = good_bind(w, window);

		bind.window_key = cases[i].window_key ? cases[i].window_key : bind.window_key;
		if (cases[i].window_key)
			bind.new_key = cases[i].window_key;
		bind.new_key = cases[i].new_key ? cases[i].new_key : bind.new_key;
		bind.region_lkey = cases[i].region ? cases[i].region : bind.region_lkey;
		bind.pd = cases[i].pd ? cases[i].pd : bind.pd;
		bind.address = cases[i].address ? cases[i].address : bind.address;
		bind.length = cases[i].length ? cases[i].length : bind.length;
		bind.access = cases[i].access ? cases[i].access : bind.access;
		assert_false(vb_window_bind(w->memory, &bind, &w->why));
		if (w->why.fault != cases[i].expected)
			print_error("case %zu: %s\n", i, vb_fault_name(w->why.fault));
		assert_int_equal(w->why.fault, cases[i].expected);
	}
	/* Nothing of all this left a window bound. */
	assert_int_equal(vb_region_deregister(w->memory, unbindable), 0);
	assert_int_equal(vb_region_deregister(w->memory, read_only), 0);
	assert_int_equal(vb_region_deregister(w->memory, foreign), 0);
	assert_int_equal(vb_region_deregister(w->memory, w->region), 0);
}

static void type_1_obeys_the_bind_rules(void **state)
{
	struct world *w = *state;

	bind_rules(w, w->type_1);
}

static void type_2_obeys_the_bind_rules(void **state)
{
	struct world *w = *state;

	bind_rules(w, w->type_2);
}

static void an_unbound_window_names_nothing(void **state)
{
	struct world *w = *state;

	assert_false(can_write(w, w->type_1, QPN, (uintptr_t)w->bytes, 1));
	assert_int_equal(w->why.fault, VB_FAULT_KEY_INVALIDATED);
	assert_false(can_write(w, w->type_1 ^ 1, QPN, (uintptr_t)w->bytes, 1));
	assert_int_equal(w->why.fault, VB_FAULT_KEY_UNKNOWN);
}

static void type_1_is_bound_again_at_will(void **state)
{
	struct world *w = *state;
	struct vb_window_bind bind = good_bind(w, w->type_1), again;
	uint64_t start = (uintptr_t)w->bytes;

	bind.new_key = 0;
	assert_true(vb_window_bind(w->memory, &bind, &w->why));
	assert_int_equal(bind.new_key >> 8, w->type_1 >> 8);
	assert_int_not_equal(bind.new_key, w->type_1);
	assert_true(can_write(w, bind.new_key, QPN, start + 64, 128));
	assert_true(can_write(w, bind.new_key, OTHER_QPN, start + 64, 128));
	assert_false(can_write(w, bind.new_key, QPN, start + 63, 2));
	assert_int_equal(w->why.fault, VB_FAULT_RANGE);
	assert_false(can_write(w, w->type_1, QPN, start + 64, 1));
	assert_int_equal(vb_region_deregister(w->memory, w->region), -EBUSY);
	again = bind;
	again.window_key = bind.new_key;
	again.new_key = (bind.new_key & ~0xffu) | (uint8_t)(bind.new_key + 1);
	again.address = start;
	again.length = 8;
	assert_true(vb_window_bind(w->memory, &again, &w->why));
	assert_false(can_write(w, bind.new_key, QPN, start, 1));
	assert_true(can_write(w, again.new_key, QPN, start, 8));
	assert_false(can_write(w, again.new_key, QPN, start + 64, 1));
	/* Length 0 unbinds, and the region may go. */
	again.window_key = again.new_key;
	again.new_key = 0;
	again.length = 0;
	assert_true(vb_window_bind(w->memory, &again, &w->why));
	assert_false(can_write(w, again.new_key, QPN, start, 1));
	assert_int_equal(w->why.fault, VB_FAULT_KEY_INVALIDATED);
	assert_int_equal(vb_region_deregister(w->memory, w->region), 0);
}

static void type_2_belongs_to_its_queue_pair(void **state)
{
	struct world *w = *state;
	struct vb_window_bind bind = good_bind(w, w->type_2), again;
	uint64_t start = (uintptr_t)w->bytes;

	assert_true(vb_window_bind(w->memory, &bind, &w->why));
	assert_true(can_write(w, bind.new_key, QPN, start + 64, 128));
	assert_false(can_write(w, bind.new_key, OTHER_QPN, start + 64, 1));
	assert_int_equal(w->why.fault, VB_FAULT_QP_MISMATCH);
	/* Bound: not again before it is invalidated, and not unbound by length 0. */
	again = good_bind(w, bind.new_key);
	assert_false(vb_window_bind(w->memory, &again, &w->why));
	assert_int_equal(w->why.fault, VB_FAULT_BIND);
	again.length = 0;
	assert_false(vb_window_bind(w->memory, &again, &w->why));
	assert_int_equal(w->why.fault, VB_FAULT_BIND);
	assert_int_equal(vb_region_reregister(w->memory, w->region,
					      &(struct vb_region_info){.kind = VB_REGION_MR, .pd = &w->pd}), -EBUSY);

	assert_false(vb_memory_invalidate(w->memory, bind.new_key, &w->pd, OTHER_QPN, true, &w->why));
	assert_int_equal(w->why.fault, VB_FAULT_QP_MISMATCH);
	assert_false(vb_memory_invalidate(w->memory, bind.new_key, &w->other_pd, QPN, true, &w->why));
	assert_int_equal(w->why.fault, VB_FAULT_PD_MISMATCH);
	assert_false(vb_memory_invalidate(w->memory, bind.new_key ^ 3, &w->pd, QPN, true, &w->why));
	assert_int_equal(w->why.fault, VB_FAULT_KEY_UNKNOWN);
	assert_true(vb_memory_invalidate(w->memory, bind.new_key, &w->pd, QPN, true, &w->why));
	assert_false(can_write(w, bind.new_key, QPN, start + 64, 1));
	assert_int_equal(w->why.fault, VB_FAULT_KEY_INVALIDATED);
	assert_false(vb_memory_invalidate(w->memory, bind.new_key, &w->pd, QPN, false, &w->why));
	assert_int_equal(w->why.fault, VB_FAULT_KEY_INVALIDATED);
	again = good_bind(w, bind.new_key);
	assert_true(vb_window_bind(w->memory, &again, &w->why));
	assert_int_equal(vb_window_deallocate(w->memory, w->type_2), 0);
	assert_int_equal(vb_window_deallocate(w->memory, w->type_2), -EINVAL);
	assert_false(can_write(w, again.new_key, QPN, start + 64, 1));
	assert_int_equal(w->why.fault, VB_FAULT_KEY_UNKNOWN);
	assert_int_equal(vb_region_deregister(w->memory, w->region), 0);
}

static void only_type_2_windows_are_invalidated(void **state)
{
	struct world *w = *state;
	struct vb_window_bind bind = good_bind(w, w->type_1);

	assert_true(vb_window_bind(w->memory, &bind, &w->why));
	assert_false(vb_memory_invalidate(w->memory, bind.new_key, &w->pd, QPN, false, &w->why));
	assert_int_equal(w->why.fault, VB_FAULT_RIGHTS);
	assert_false(vb_memory_invalidate(w->memory, w->region, &w->pd, QPN, true, &w->why));
	assert_int_equal(w->why.fault, VB_FAULT_RIGHTS);
	assert_false(vb_memory_invalidate(w->memory, 0, &w->pd, QPN, true, &w->why));
	assert_int_equal(w->why.fault, VB_FAULT_KEY_UNKNOWN);
}

static void zero_based_windows_are_named_by_offsets(void **state)
{
	struct world *w = *state;
	struct vb_window_bind bind = good_bind(w, w->type_2);

	bind.access |= IBV_ACCESS_ZERO_BASED;
	assert_true(vb_window_bind(w->memory, &bind, &w->why));
	assert_true(can_write(w, bind.new_key, QPN, 0, 1));
	assert_int_equal(w->bytes[64], 1);
	assert_true(can_write(w, bind.new_key, QPN, 127, 1));
	assert_false(can_write(w, bind.new_key, QPN, 128, 1));
	assert_false(can_write(w, bind.new_key, QPN, (uintptr_t)w->bytes + 64, 1));
	assert_int_equal(w->why.fault, VB_FAULT_RANGE);
}

static void a_window_gives_no_more_than_was_bound(void **state)
{
	struct world *w = *state;
	struct vb_window_bind bind = good_bind(w, w->type_1);
	struct vb_accessor read = fixture_remote(&w->pd, QPN, 0, IBV_ACCESS_REMOTE_READ), local;
	uint8_t byte;

	bind.access = IBV_ACCESS_REMOTE_WRITE;
	assert_true(vb_window_bind(w->memory, &bind, &w->why));
	read.key = bind.new_key;
	assert_true(can_write(w, bind.new_key, QPN, bind.address, 1));
	assert_false(vb_memory_fetch(w->memory, &read, bind.address, &byte, 1, &w->why));
	assert_int_equal(w->why.fault, VB_FAULT_RIGHTS);
	local = fixture_local(&w->pd, bind.new_key, 0);
	assert_false(vb_memory_fetch(w->memory, &local, bind.address, &byte, 1, &w->why));
	assert_int_equal(w->why.fault, VB_FAULT_KEY_NOT_LOCAL);
}

static void windows_go_with_their_queue_pair(void **state)
{
	struct world *w = *state;
	struct vb_window_bind one = good_bind(w, w->type_2), two, three, fixed;
	uint32_t second, third;

	assert_int_equal(vb_window_allocate(w->memory, VB_REGION_MW_TYPE_2, &w->pd, &second), 0);
	assert_int_equal(vb_window_allocate(w->memory, VB_REGION_MW_TYPE_2, &w->pd, &third), 0);
	assert_int_equal(vb_memory_count(w->memory, VB_REGION_MW_TYPE_2), 3);
	two = good_bind(w, second);
	two.qpn = OTHER_QPN;
	three = good_bind(w, third);
	fixed = good_bind(w, w->type_1);
	assert_true(vb_window_bind(w->memory, &one, &w->why));
	assert_true(vb_window_bind(w->memory, &two, &w->why));
	assert_true(vb_window_bind(w->memory, &three, &w->why));
	assert_true(vb_window_bind(w->memory, &fixed, &w->why));
	vb_memory_unbind_qp(w->memory, QPN);
	assert_false(can_write(w, one.new_key, QPN, one.address, 1));
	assert_false(can_write(w, three.new_key, QPN, one.address, 1));
	assert_true(can_write(w, two.new_key, OTHER_QPN, one.address, 1));
	assert_true(can_write(w, fixed.new_key, QPN, one.address, 1));
	vb_memory_unbind_qp(w->memory, OTHER_QPN);
	assert_false(can_write(w, two.new_key, OTHER_QPN, one.address, 1));
	assert_int_equal(vb_region_deregister(w->memory, w->region), -EBUSY);
	assert_int_equal(vb_window_deallocate(w->memory, w->type_1), 0);
	assert_int_equal(vb_region_deregister(w->memory, w->region), 0);
	assert_int_equal(vb_window_deallocate(w->memory, w->region), -EINVAL);
}

int main(void)
{
#define WINDOW_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		WINDOW_TEST(type_1_obeys_the_bind_rules),
		WINDOW_TEST(type_2_obeys_the_bind_rules),
		WINDOW_TEST(an_unbound_window_names_nothing),
		WINDOW_TEST(type_1_is_bound_again_at_will),
		WINDOW_TEST(type_2_belongs_to_its_queue_pair),
		WINDOW_TEST(only_type_2_windows_are_invalidated),
		WINDOW_TEST(zero_based_windows_are_named_by_offsets),
		WINDOW_TEST(a_window_gives_no_more_than_was_bound),
		WINDOW_TEST(windows_go_with_their_queue_pair),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
