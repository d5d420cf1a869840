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
	else
		vb_looks_waited(&looks);
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

static void yield(vb_time lasts)
{
	now += lasts;
	vb_looks_yielded(&looks, now);
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

/* It is known for that: a completion now and then changes nothing. */
static void one_that_works_looks_seldom_after_it_found_something(void **state)
{
	const vb_time between = VB_LOOKS_IN_VAIN * 4;
	unsigned polls, made = 0;

	(void)state;
	count_looks(VB_MILLISECONDS(1), 500, &polls);
	for (unsigned i = 0; i < 100; i++) {
		vb_looks_found(&looks);
		made += count_looks(between, 500, &polls);
	}
	assert_true(made * (vb_time)LOOK < between * 100 / 8);
	assert_true(made * (vb_time)LOOK > between * 100 / 12);
}

/* One that worked begins to wait for answers, and still works between its polls: it is held up for the first of them alone. */
static void one_that_begins_to_wait_for_answers_looks_each_time(void **state)
{
	unsigned polls, made, held_up = 0;

	(void)state;
	count_looks(VB_MILLISECONDS(20), 500, &polls);
	for (unsigned i = 0; i < 100; i++) {
		vb_looks_found(&looks);
		made = count_looks(VB_MICROSECONDS(10), 500, &polls);
		held_up += made < polls;
		assert_true(made == polls || i <= MOST_SPARE / VB_LOOKS_IN_VAIN);
	}
	assert_true(held_up > 0);
}

/* Another thread makes a pass, and has much to do. */
static void one_that_works_does_not_ask_again_at_once_whether_another_is_through(void **state)
{
	const vb_time duration = VB_MILLISECONDS(10);
	unsigned polls, asked = 0;
	vb_time end;

	(void)state;
	count_looks(VB_MILLISECONDS(1), 500, &polls);
	for (end = now + duration; now < end; now += 500) {
		if (vb_looks_is_left_to_another(&looks, now))
			continue;
		vb_looks_leave_to_another(&looks, now);
		asked++;
	}
	assert_true(asked <= duration / (VB_LOOKS_APART * LOOK) + 1);
	assert_true(asked > duration / (VB_LOOKS_APART * LOOK + 2 * 500));
}

static void one_that_waits_asks_again_at_once_whether_another_is_through(void **state)
{
	unsigned polls;

	(void)state;
	count_looks(VB_MILLISECONDS(1), CALL, &polls);
	for (unsigned i = 0; i < 1000; i++, now += CALL) {
		assert_false(vb_looks_is_left_to_another(&looks, now));
		vb_looks_leave_to_another(&looks, now);
	}
}

/* It was without a processor for a moment, which is taken for work. Now the thread that makes the pass is, and is to get it. */
static void one_that_seemed_to_work_is_found_out_while_another_is_at_it(void **state)
{
	enum { SOON = 100 };
	unsigned polls, i;

	(void)state;
	count_looks(VB_MILLISECONDS(1), CALL, &polls);
	now += VB_MICROSECONDS(40);
	poll_in_vain();
	assert_true(vb_looks_works_between(&looks));
	for (i = 0; i < SOON && vb_looks_works_between(&looks); i++, now += CALL)
		if (!vb_looks_is_left_to_another(&looks, now))
			vb_looks_leave_to_another(&looks, now);
	assert_true(i < SOON);
}

/* Nor is one held up that works, but is answered in time. */
static void one_that_is_answered_asks_again_at_once_whether_another_is_through(void **state)
{
	unsigned polls;

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		count_looks(VB_LOOKS_IN_VAIN * 3 / 4, 500, &polls);
		assert_true(vb_looks_works_between(&looks));
		vb_looks_leave_to_another(&looks, now);
		assert_false(vb_looks_is_left_to_another(&looks, now));
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
		yield(VB_MICROSECONDS(20));
	}
	assert_false(vb_looks_works_between(&looks));
}

/* Where others have the processor for a moment, again and again: it waits, and is answered. */
static void one_without_a_processor_is_not_known_for_work(void **state)
{
	unsigned polls;

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		count_looks(VB_LOOKS_IN_VAIN, CALL, &polls);
		now += VB_MICROSECONDS(40);
		poll_in_vain();
		now += CALL;
		poll_in_vain();
		vb_looks_found(&looks);
		assert_true(looks.spare == 0);
	}
}

/* Two ranks of MPI on one processor, each of which does as much between its polls as it takes to be thought at work: the answer is there
 * whenever it has given its processor to the other. */
static void one_that_is_answered_while_it_yields_waits(void **state)
{
	unsigned polls, made;

	(void)state;
	count_looks(VB_MILLISECONDS(10), 500, &polls);
	assert_true(vb_looks_works_between(&looks));
	for (unsigned i = 0; i < ANSWERED_WAITS / ANSWERED_MORE; i++) {
		yield(VB_MICROSECONDS(20));
		vb_looks_found(&looks);
		count_looks(VB_LOOKS_IN_VAIN * 2, 500, &polls);
	}
	assert_false(vb_looks_works_between(&looks));
	assert_false(vb_looks_keeps_processor(&looks, now));
	made = count_looks(VB_MILLISECONDS(1), 500, &polls);
	assert_int_equal(made, polls);
}

/* Other programs have its processor meanwhile, and what it sent is acknowledged now and then. */
static void one_that_yields_in_vain_works(void **state)
{
	unsigned polls;

	(void)state;
	count_looks(VB_MILLISECONDS(10), 500, &polls);
	for (unsigned i = 0; i < 100; i++) {
		yield(VB_MILLISECONDS(3));
		if (i % 4 == 0)
			vb_looks_found(&looks);
		count_looks(VB_LOOKS_IN_VAIN * 4, 500, &polls);
		assert_true(vb_looks_works_between(&looks));
	}
}

/* What it shared its processor with is gone. */
static void one_that_is_no_longer_answered_while_it_yields_works(void **state)
{
	unsigned polls, i;

	(void)state;
	looks.answered = ANSWERED_MOST;
	for (i = 0; i < ANSWERED_MOST && !vb_looks_works_between(&looks); i++) {
		yield(300);
		count_looks(VB_LOOKS_IN_VAIN, 500, &polls);
	}
	assert_int_equal(i, ANSWERED_MOST - ANSWERED_WAITS + 1);
}

/* Else it would never be found out. */
static void one_that_works_keeps_its_processor_for_a_while(void **state)
{
	vb_time began;
	unsigned polls;

	(void)state;
	count_looks(VB_LOOKS_IN_VAIN * 2, 500, &polls);
	for (unsigned i = 0; i < 10; i++) {
		for (began = now; vb_looks_keeps_processor(&looks, now);)
			count_looks(VB_MICROSECONDS(10), 500, &polls);
		assert_true(now - began > LONGEST_KEPT - VB_LOOKS_IN_VAIN * 4 && now - began < LONGEST_KEPT + VB_LOOKS_IN_VAIN);
		yield(300);
		poll_in_vain();
	}
}

static void one_that_was_away_looks_at_once(void **state)
{
	unsigned polls;

	(void)state;
	count_looks(VB_MILLISECONDS(1), 500, &polls);
	while (poll_in_vain())
		now += CALL;
	now += 2 * LONGEST_APART;
	assert_true(poll_in_vain());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(one_that_waits_looks_each_time, make),
		cmocka_unit_test_setup(one_that_works_looks_seldom, make),
		cmocka_unit_test_setup(one_that_works_for_long_looks_each_time, make),
		cmocka_unit_test_setup(one_that_finds_something_looks_each_time, make),
		cmocka_unit_test_setup(one_that_works_looks_seldom_after_it_found_something, make),
		cmocka_unit_test_setup(one_that_begins_to_wait_for_answers_looks_each_time, make),
		cmocka_unit_test_setup(one_that_works_does_not_ask_again_at_once_whether_another_is_through, make),
		cmocka_unit_test_setup(one_that_waits_asks_again_at_once_whether_another_is_through, make),
		cmocka_unit_test_setup(one_that_seemed_to_work_is_found_out_while_another_is_at_it, make),
		cmocka_unit_test_setup(one_that_is_answered_asks_again_at_once_whether_another_is_through, make),
		cmocka_unit_test_setup(to_yield_is_no_work, make),
		cmocka_unit_test_setup(one_without_a_processor_is_not_known_for_work, make),
		cmocka_unit_test_setup(one_that_is_answered_while_it_yields_waits, make),
		cmocka_unit_test_setup(one_that_yields_in_vain_works, make),
		cmocka_unit_test_setup(one_that_is_no_longer_answered_while_it_yields_works, make),
		cmocka_unit_test_setup(one_that_works_keeps_its_processor_for_a_while, make),
		cmocka_unit_test_setup(one_that_was_away_looks_at_once, make),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
