/* SPDX-License-Identifier: MIT
 *
 * How long to look before sleeping, against peers that answer after a fixed time, in virtual time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "preload/sockets/patience.h"

#define WAKING VB_MICROSECONDS(20)

/* Something comes `after` this long. True: it was seen without a sleep. */
static bool waits(struct vb_patience *patience, vb_time after)
{
	vb_time length = vb_patience_length(patience);

	if (after <= length)
		return true;
	vb_patience_slept(patience, after - length + WAKING);
	return false;
}

static unsigned sleeps(struct vb_patience *patience, vb_time after, unsigned rounds)
{
	unsigned slept = 0;

	for (unsigned i = 0; i < rounds; i++)
		slept += !waits(patience, after);
	return slept;
}

static void quick_answers_are_seen_without_a_sleep(void **state)
{
	(void)state;
	for (vb_time after = VB_MICROSECONDS(1); after <= VB_PATIENCE_MOST; after += VB_MICROSECONDS(1)) {
		struct vb_patience patience = {0};

		assert_in_range(sleeps(&patience, after, 100), 0, 6);
		assert_int_equal(sleeps(&patience, after, 100), 0);
	}
}

static void who_waits_for_long_hardly_looks(void **state)
{
	struct vb_patience patience = {0};

	(void)state;
	assert_int_equal(vb_patience_length(&patience), VB_PATIENCE_LEAST);
	assert_int_equal(sleeps(&patience, VB_MICROSECONDS(300), 10), 10);
	assert_int_equal(vb_patience_length(&patience), VB_PATIENCE_LEAST);
	/* Also after quick answers, from the first long sleep on. */
	sleeps(&patience, VB_MICROSECONDS(40), 20);
	assert_in_range(vb_patience_length(&patience), VB_MICROSECONDS(40), VB_PATIENCE_MOST);
	assert_int_equal(sleeps(&patience, VB_MILLISECONDS(1), 1), 1);
	assert_int_equal(vb_patience_length(&patience), VB_PATIENCE_LEAST);
}

/* Two sides that sleep wake each other so late that no sleep is short; if one of them looks, what comes comes soon. */
static void two_that_sleep_find_out(void **state)
{
	struct vb_patience patience = {0};
	unsigned slept = 0;

	(void)state;
	for (unsigned i = 0; i < 1000; i++) {
		bool looks = vb_patience_length(&patience) >= VB_MICROSECONDS(30);

		slept += !waits(&patience, looks ? VB_MICROSECONDS(30) : VB_MICROSECONDS(300));
	}
	assert_int_equal(slept, VB_PATIENCE_TRIES);
}

static void tries_are_few(void **state)
{
	struct vb_patience patience = {0};
	vb_time looked = 0;

	(void)state;
	for (unsigned i = 0; i < 1600; i++) {
		looked += vb_patience_length(&patience);
		waits(&patience, VB_MICROSECONDS(500));
	}
	assert_int_equal(looked, 1500 * VB_PATIENCE_LEAST + 100 * VB_PATIENCE_MOST - VB_PATIENCE_MOST + VB_PATIENCE_LEAST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quick_answers_are_seen_without_a_sleep),
		cmocka_unit_test(who_waits_for_long_hardly_looks),
		cmocka_unit_test(two_that_sleep_find_out),
		cmocka_unit_test(tries_are_few),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
