/* SPDX-License-Identifier: MIT
 *
 * The window: where it starts, how it grows and shrinks, and that nothing takes it out of its bounds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "roce/congestion.h"

static void starts_within_its_bounds(void **state)
{
	static const uint32_t mtus[] = {256, 512, 1024, 2048, 4096};
	/* What two whole runs hold (128 packets of 272 or 528 bytes, 124, 62, 30), and three packets where that makes a difference. */
	static const uint32_t pieces[] = {128, 128, 127, 65, 33}, pieces_alike[] = {128, 128, 124, 62, 33};
	struct vb_roce_congestion c;

	(void)state;
	for (unsigned i = 0; i < 5; i++) {
		uint32_t whole = 128 * 1024 / mtus[i];

		vb_roce_congestion_init(&c, mtus[i], vb_roce_policy_for(NULL));
		assert_int_equal(c.requests.size, VB_WINDOW_START);
		assert_true(vb_roce_congestion_floor(&c) >= VB_WINDOW_MIN);
		assert_true(vb_roce_congestion_floor(&c) >= 8 * mtus[i]);
		assert_int_equal(vb_roce_congestion_read_piece(&c, UINT32_MAX, false), pieces[i]);
		assert_int_equal(vb_roce_congestion_read_piece(&c, UINT32_MAX, true), pieces_alike[i]);
		/* Reads up to 128 KiB as an adapter would send them, where the number of packets allows. */
		assert_int_equal(vb_roce_congestion_read_piece(&c, whole, false), whole < 128 ? whole : 128);
		assert_int_equal(vb_roce_congestion_read_piece(&c, 1, false), 1);
	}
}

static void grows_only_when_used(void **state)
{
	struct vb_roce_congestion c;

	(void)state;
	vb_roce_congestion_init(&c, 1024, vb_roce_policy_for(NULL));
	vb_roce_window_acknowledged(&c, 10000, 20000, psn_of(5));
	assert_int_equal(c.requests.size, VB_WINDOW_START);
	vb_roce_window_acknowledged(&c, 10000, VB_WINDOW_START, psn_of(5));
	assert_int_equal(c.requests.size, VB_WINDOW_START + 10000);
	for (unsigned i = 0; i < 10000; i++)
		vb_roce_window_acknowledged(&c, 10000, c.requests.size, psn_of(5));
	assert_int_equal(c.requests.size, VB_WINDOW_MAX);
}

static void one_loss_counts_once(void **state)
{
	struct vb_roce_congestion c;
	uint32_t after;

	(void)state;
	vb_roce_congestion_init(&c, 1024, vb_roce_policy_for(NULL));
	vb_roce_window_lost(&c, psn_of(100));
	after = c.requests.size;
	assert_int_equal(after, (uint64_t)VB_WINDOW_START * 7 / 10);
	vb_roce_window_lost(&c, psn_of(120));
	assert_int_equal(c.requests.size, after);
	/* until what was under way is acknowledged */
	vb_roce_window_acknowledged(&c, 1000, 1000, psn_of(99));
	vb_roce_window_lost(&c, psn_of(130));
	assert_int_equal(c.requests.size, after);
	vb_roce_window_acknowledged(&c, 1000, 1000, psn_of(100));
	vb_roce_window_lost(&c, psn_of(130));
	assert_true(c.requests.size < after);
	/* responses have a window of their own */
	assert_int_equal(c.responses.size, VB_READ_WINDOW_START);
	vb_roce_congestion_response_lost(&c, psn_of(7));
	assert_true(c.responses.size < VB_READ_WINDOW_START);
}

/* One packet in a hundred says nothing of a buffer that is full; many out of one window do. */
static void chance_losses_are_forgiven(void **state)
{
	struct vb_roce_congestion c;
	uint32_t allowed = 1 + VB_WINDOW_START / vb_roce_charge(1024, 1) / 32;

	(void)state;
	vb_roce_congestion_init(&c, 1024, vb_roce_policy_for(NULL));
	for (unsigned i = 0; i < 100; i++) {
		for (unsigned k = 0; k < allowed; k++)
			vb_roce_congestion_one_lost(&c, psn_of(100 * i + 100 + k));
		/* As far as had been sent when the first was lost. */
		vb_roce_window_acknowledged(&c, 0, 0, psn_of(100 * i + 100));
	}
	assert_int_equal(c.requests.size, VB_WINDOW_START);
	for (unsigned k = 0; k <= allowed; k++)
		vb_roce_congestion_one_lost(&c, psn_of(10100));
	assert_int_equal(c.requests.size, (uint64_t)VB_WINDOW_START * 7 / 10);
}

static void approaches_the_last_loss_slowly(void **state)
{
	struct vb_roce_congestion c;
	uint32_t far, near;

	(void)state;
	vb_roce_congestion_init(&c, 1024, vb_roce_policy_for(NULL));
	vb_roce_window_lost(&c, psn_of(1));
	vb_roce_window_acknowledged(&c, 0, c.requests.size, psn_of(1));
	far = c.requests.size;
	vb_roce_window_acknowledged(&c, 6400, c.requests.size, psn_of(1));
	far = c.requests.size - far;
	c.requests.size = c.requests.ceiling - 1000;
	near = c.requests.size;
	vb_roce_window_acknowledged(&c, 6400, c.requests.size, psn_of(1));
	near = c.requests.size - near;
	assert_int_equal(far, 800);
	assert_int_equal(near, 100);
}

static void never_below_the_floor(void **state)
{
	struct vb_roce_congestion c;

	(void)state;
	vb_roce_congestion_init(&c, 4096, vb_roce_policy_for(NULL));
	for (unsigned i = 0; i < 100; i++) {
		vb_roce_window_lost(&c, psn_of(i));
		vb_roce_congestion_response_lost(&c, psn_of(i));
		vb_roce_window_timed_out(&c);
		vb_roce_window_notified(&c, VB_SECONDS(i + 1));
		assert_true(c.requests.size >= vb_roce_congestion_floor(&c));
		assert_true(c.responses.size >= vb_roce_congestion_floor(&c));
		assert_true(vb_roce_congestion_read_piece(&c, UINT32_MAX, false) >= VB_READ_PIECE_MIN_PACKETS);
	}
	assert_int_equal(c.requests.size, vb_roce_congestion_floor(&c));
}

static void notifications_are_obeyed_once_in_a_while(void **state)
{
	struct vb_roce_congestion c;

	(void)state;
	vb_roce_congestion_init(&c, 1024, vb_roce_policy_for(NULL));
	assert_true(vb_roce_window_notified(&c, VB_SECONDS(1)));
	assert_false(vb_roce_window_notified(&c, VB_SECONDS(1) + VB_MICROSECONDS(49)));
	assert_true(vb_roce_window_notified(&c, VB_SECONDS(1) + VB_MICROSECONDS(50)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(starts_within_its_bounds),
		cmocka_unit_test(grows_only_when_used),
		cmocka_unit_test(one_loss_counts_once),
		cmocka_unit_test(chance_losses_are_forgiven),
		cmocka_unit_test(approaches_the_last_loss_slowly),
		cmocka_unit_test(never_below_the_floor),
		cmocka_unit_test(notifications_are_obeyed_once_in_a_while),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
