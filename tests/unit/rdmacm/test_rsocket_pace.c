/* SPDX-License-Identifier: MIT
 *
 * For how long threads of streams look before they sleep, against peers of every pace, in virtual time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rdmacm/rsocket/pace.h"

/* It moves so much and waits for what comes `after`. True: it was seen without a sleep. */
static bool moves_and_waits(struct vb_pace *pace, uint64_t bytes, vb_time after, vb_time *looked)
{
	vb_time length;

	vb_pace_moved(pace, bytes);
	length = vb_pace_length(pace);
	*looked += length < after ? length : after;
	if (after <= length)
		vb_pace_saw(pace);
	else
		vb_pace_saw_nothing(pace);
	return after <= length;
}

static void stream_that_runs_is_not_slept_on(void **state)
{
	struct vb_pace pace = {0};
	vb_time looked = 0;

	(void)state;
	for (unsigned i = 0; i < 1000; i++)
		assert_true(moves_and_waits(&pace, 512 * 1024, VB_MICROSECONDS(200), &looked));
}

static void pieces_count_together(void **state)
{
	struct vb_pace pace = {0};

	(void)state;
	for (unsigned i = 0; i < 15; i++) {
		vb_pace_moved(&pace, 4096);
		vb_pace_saw(&pace);
	}
	assert_int_equal(vb_pace_length(&pace), 0);
	vb_pace_moved(&pace, 4096);
	assert_int_equal(vb_pace_length(&pace), VB_PACE_LOOK);
}

static void short_messages_change_nothing(void **state)
{
	struct vb_pace pace = {0};
	vb_time looked = 0;

	(void)state;
	for (unsigned i = 0; i < 10000; i++)
		moves_and_waits(&pace, 64, VB_MICROSECONDS(500), &looked);
	assert_int_equal(looked, 0);
}

static void slow_peer_is_slept_for(void **state)
{
	const vb_time slow = VB_MICROSECONDS(400);
	struct vb_pace pace = {0};
	vb_time looked = 0;

	(void)state;
	for (unsigned i = 0; i < 10000; i++)
		assert_false(moves_and_waits(&pace, 512 * 1024, slow, &looked));
	assert_in_range(looked, 1, 10000 * slow / 40);
}

static void stream_that_runs_again_is_found_out(void **state)
{
	struct vb_pace pace = {0};
	vb_time looked = 0;
	unsigned slept = 0;

	(void)state;
	for (unsigned i = 0; i < 100; i++)
		moves_and_waits(&pace, 512 * 1024, VB_MILLISECONDS(5), &looked);
	for (unsigned i = 0; i < 1000; i++)
		slept += !moves_and_waits(&pace, 512 * 1024, VB_MICROSECONDS(100), &looked);
	assert_in_range(slept, 0, VB_PACE_REST);
	/* One pause does not end it. */
	moves_and_waits(&pace, 512 * 1024, VB_MILLISECONDS(5), &looked);
	assert_true(moves_and_waits(&pace, 512 * 1024, VB_MICROSECONDS(100), &looked));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stream_that_runs_is_not_slept_on),
		cmocka_unit_test(pieces_count_together),
		cmocka_unit_test(short_messages_change_nothing),
		cmocka_unit_test(slow_peer_is_slept_for),
		cmocka_unit_test(stream_that_runs_again_is_found_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
