/* SPDX-License-Identifier: MIT
 *
 * Whose turn it is to ask (rdmacm/turns.c), by a clock of the test's: who waits, for how long, and who may be overtaken.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rdmacm/turns.h"

enum { TURNS = 3 };

static struct vb_rdmacm_turns turns;
static struct vb_rdmacm_turn turn[TURNS];
static const struct vb_cm_address there = {.family = 2, .port = 7174};

static int take(unsigned i, vb_time now)
{
	return vb_rdmacm_turn_take(&turns, &turn[i], 1, &there, now);
}

static int begin(void **state)
{
	(void)state;
	vb_list_init(&turns.destinations);
	for (unsigned i = 0; i < TURNS; i++)
		vb_rdmacm_turn_init(&turn[i]);
	return 0;
}

static int end(void **state)
{
	(void)state;
	for (unsigned i = 0; i < TURNS; i++)
		vb_rdmacm_turn_leave(&turn[i], false);
	assert_true(vb_list_is_empty(&turns.destinations));
	return 0;
}

/* One that was refused is before all that were called after it, however long it takes. */
static void a_refused_one_is_not_overtaken(void **state)
{
	const vb_time again = VB_SECONDS(5);

	(void)state;
	assert_int_equal(take(0, 0), 1);
	assert_int_equal(take(1, 1), 0);
	vb_rdmacm_turn_refused(&turn[0], 1, again);
	assert_null(vb_rdmacm_turns_next(&turns, again - 1));
	assert_int_equal(vb_rdmacm_turns_deadline(&turns), again);
	assert_ptr_equal(vb_rdmacm_turns_next(&turns, again), &turn[0]);
	vb_rdmacm_turn_asked(&turn[0], again);
	assert_null(vb_rdmacm_turns_next(&turns, again));
	vb_rdmacm_turn_leave(&turn[0], true);
	assert_ptr_equal(vb_rdmacm_turns_next(&turns, again), &turn[1]);
}

/* One that is not answered is waited for that long and no longer: if it is refused after that, the next is under way. */
static void one_that_is_refused_late_may_be_overtaken(void **state)
{
	(void)state;
	assert_int_equal(take(0, 0), 1);
	assert_int_equal(take(1, 1), 0);
	assert_null(vb_rdmacm_turns_next(&turns, VB_RDMACM_TURN_PATIENCE - 1));
	assert_ptr_equal(vb_rdmacm_turns_next(&turns, VB_RDMACM_TURN_PATIENCE), &turn[1]);
	vb_rdmacm_turn_asked(&turn[1], VB_RDMACM_TURN_PATIENCE);
	vb_rdmacm_turn_refused(&turn[0], 1, VB_SECONDS(1));
	/* Those that come now are behind it again. */
	assert_int_equal(take(2, VB_RDMACM_TURN_PATIENCE + 1), 0);
	assert_null(vb_rdmacm_turns_next(&turns, VB_SECONDS(1) - 1));
	assert_ptr_equal(vb_rdmacm_turns_next(&turns, VB_SECONDS(1)), &turn[0]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_refused_one_is_not_overtaken),
		TEST(one_that_is_refused_late_may_be_overtaken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
