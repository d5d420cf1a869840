/* SPDX-License-Identifier: MIT
 *
 * How often a thread that polls an empty CQ looks at the links (schedule/looks.c), in virtual time: each time where it waits, seldom where
 * it works between its polls.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Its statics are what is looked at. */
#include "schedule/looks.c"

enum { LOOK = 600, SHORT_POLL = 50, CALL = 30 };       /* nanoseconds */

static struct vb_looks looks;
static vb_time now;

static int make(void **state)
{
	(void)state;
	looks = (struct vb_looks){0};
	now = VB_SECONDS(100);
	return 0;
}

/* True: it made a look. */
static bool poll_in_vain(void)
{
	vb_time began = now;

	if (!vb_looks_is_due(&looks, began)) {
		now += SHORT_POLL;
		return false;
	}
	now += LOOK;
	if (vb_looks_is_timed(&looks, began))
		vb_looks_made(&looks, began, now, false);
	return true;
}

/* How many looks it makes in so much time, with so much work after each second poll. */
static unsigned count_looks(vb_time duration, vb_time work, unsigned *polls)
{
	vb_time end = now + duration;
	unsigned made = 0;

	for (*polls = 0; now < end; ++*polls) {
		made += poll_in_vain();
		now += *polls % 2 ? work : CALL;
	}
	return made;
}

static void one_that_waits_looks_each_time(void **state)
{
	unsigned polls, made = count_looks(VB_MILLISECONDS(10), CALL, &polls);

	(void)state;
	assert_int_equal(made, polls);
	assert_false(vb_looks_works_between(&looks));
}

/* QEMU, with pages of 1 KiB. */
static void one_that_works_looks_seldom(void **state)
{
	const vb_time duration = VB_MILLISECONDS(10);
	unsigned polls, made = count_looks(duration, 500, &polls);

	(void)state;
	assert_true(vb_looks_works_between(&looks));
	assert_true(made * (vb_time)LOOK < duration / 8);
	/* But it does look: its sends are acknowledged so. */
	assert_true(made * (vb_time)LOOK > duration / 12);
}

static void one_that_works_for_long_looks_each_time(void **state)
{
	unsigned polls, made = count_looks(VB_MILLISECONDS(10), VB_MICROSECONDS(50), &polls);

	(void)state;
	assert_true(made >= polls / 2);
}

/* Who is answered in time is never held up, whatever it does meanwhile. */
static void one_that_finds_something_looks_each_time(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		unsigned polls, made = count_looks(VB_LOOKS_IN_VAIN * 3 / 4, 500, &polls);

		assert_int_equal(made, polls);
		vb_looks_found(&looks);
	}
}

/* Where others want the processor a yield may take milliseconds. */
static void to_yield_is_no_work(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 10000; i++) {
		assert_true(poll_in_vain());
		now += CALL;
		if (i % 4 != 0)
			continue;
		vb_looks_waited(&looks);
		now += VB_MICROSECONDS(20);
	}
	assert_false(vb_looks_works_between(&looks));
}

static void one_that_was_away_begins_anew(void **state)
{
	unsigned polls;

	(void)state;
	count_looks(VB_MILLISECONDS(1), 500, &polls);
	while (poll_in_vain())
		now += CALL;
	now += 2 * LONGEST_APART;
	assert_true(poll_in_vain());
	now += CALL;
	assert_true(poll_in_vain());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(one_that_waits_looks_each_time, make),
		cmocka_unit_test_setup(one_that_works_looks_seldom, make),
		cmocka_unit_test_setup(one_that_works_for_long_looks_each_time, make),
		cmocka_unit_test_setup(one_that_finds_something_looks_each_time, make),
		cmocka_unit_test_setup(to_yield_is_no_work, make),
		cmocka_unit_test_setup(one_that_was_away_begins_anew, make),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
