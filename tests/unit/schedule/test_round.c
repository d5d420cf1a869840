/* SPDX-License-Identifier: MIT
 *
 * One look for a round over several CQs (schedule/round.h), in virtual time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "schedule/round.h"

enum { CQS = 50 };

static const char cq[CQS];
static struct vb_round polled;
static vb_time now;

static int make(void **state)
{
	(void)state;
	polled = (struct vb_round){0};
	now = VB_SECONDS(100);
	return 0;
}

/* True: it made a pass. */
static bool poll_in_vain(const char *which)
{
	now += 50;
	if (vb_round_has_looked(&polled, which, now))
		return false;
	vb_round_begin(&polled, which, now);
	now += 600;
	return true;
}

static void a_round_has_one_look(void **state)
{
	(void)state;
	for (unsigned rounds = 0; rounds < 10; rounds++)
		for (unsigned i = 0; i < CQS; i++)
			assert_int_equal(poll_in_vain(&cq[i]), i == 0);
}

static void one_that_polls_one_looks_each_time(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 100; i++)
		assert_true(poll_in_vain(&cq[0]));
}

static void one_that_goes_over_to_another_waits_for_one_poll(void **state)
{
	(void)state;
	assert_true(poll_in_vain(&cq[0]));
	assert_false(poll_in_vain(&cq[1]));
	for (unsigned i = 0; i < 100; i++)
		assert_true(poll_in_vain(&cq[1]));
}

static void two_in_turn_are_looked_at_as_one(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		assert_true(poll_in_vain(&cq[0]));
		assert_false(poll_in_vain(&cq[1]));
	}
}

static void what_was_seen_long_ago_does_not_count(void **state)
{
	(void)state;
	assert_true(poll_in_vain(&cq[0]));
	now += VB_LONGEST_ROUND;
	assert_true(poll_in_vain(&cq[1]));
	assert_false(poll_in_vain(&cq[0]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_round_has_one_look, make),
		cmocka_unit_test_setup(one_that_polls_one_looks_each_time, make),
		cmocka_unit_test_setup(one_that_goes_over_to_another_waits_for_one_poll, make),
		cmocka_unit_test_setup(two_in_turn_are_looked_at_as_one, make),
		cmocka_unit_test_setup(what_was_seen_long_ago_does_not_count, make),
	};

	return cmocka_run_group_tests_name("schedule/round", tests, NULL, NULL);
}
