/* SPDX-License-Identifier: MIT
 *
 * When the engine thread leaves the work to the application (schedule/spinner.c): while somebody polls, and while somebody who
 * polled a moment ago posts many requests, which takes longer than a poll counts as fresh. Not for one who has gone to sleep, nor
 * for one who only posts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Its statics are what is looked at. */
#include "schedule/spinner.c"

static struct vb_spinner spinner;

static int make(void **state)
{
	(void)state;
	spinner = (struct vb_spinner){0};
	return 0;
}

/* What it thinks when the last poll and the last post were so long ago; 0: never. */
static bool spins_after(vb_time polled_ago, vb_time posted_ago)
{
	const vb_time now = VB_SECONDS(100);

	spinner.stamp = polled_ago ? now - polled_ago : 0;
	spinner.post_stamp = 0;
	if (posted_ago)
		vb_spinner_note_post(&spinner, now - posted_ago);
	return vb_spinner_spins(&spinner, now);
}

static void polling_is_seen(void **state)
{
	(void)state;
	assert_false(spins_after(0, 0));
	assert_true(spins_after(STAMP_IS_FRESH / 4, 0));
	assert_false(spins_after(2 * STAMP_IS_FRESH, 0));
}

static void posting_counts_as_polling(void **state)
{
	(void)state;
	assert_true(spins_after(4 * STAMP_IS_FRESH, STAMP_IS_FRESH / 4));
	/* That was long ago, too. */
	assert_false(spins_after(4 * STAMP_IS_FRESH, 2 * STAMP_IS_FRESH));
	/* Whoever posts for so long may never poll. */
	assert_false(spins_after(LONGEST_POSTING + STAMP_IS_FRESH, STAMP_IS_FRESH / 4));
	assert_false(spins_after(0, STAMP_IS_FRESH / 4));
}

static void one_who_goes_to_sleep_does_not_spin(void **state)
{
	(void)state;
	assert_false(vb_spinner_watch(&spinner, VB_SECONDS(100)));
	assert_false(spins_after(STAMP_IS_FRESH / 4, STAMP_IS_FRESH / 8));
}

static void one_who_armed_long_ago_may_look_at_memory(void **state)
{
	const vb_time now = VB_SECONDS(100);

	(void)state;
	assert_false(vb_spinner_sleeps(&spinner, now));
	vb_spinner_watch(&spinner, now);
	assert_true(vb_spinner_sleeps(&spinner, now + ARMED_LATELY - 1));
	assert_false(vb_spinner_sleeps(&spinner, now + ARMED_LATELY));
	/* Or polls by now. */
	vb_spinner_watch(&spinner, now);
	for (unsigned i = 0; i <= POLLS_OF_A_SPINNER; i++)
		vb_spinner_polled_empty(&spinner, now);
	assert_false(vb_spinner_sleeps(&spinner, now));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(polling_is_seen, make),
		cmocka_unit_test_setup(posting_counts_as_polling, make),
		cmocka_unit_test_setup(one_who_goes_to_sleep_does_not_spin, make),
		cmocka_unit_test_setup(one_who_armed_long_ago_may_look_at_memory, make),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
