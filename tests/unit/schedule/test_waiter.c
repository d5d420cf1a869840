/* SPDX-License-Identifier: MIT
 *
 * Which thread of the application sleeps on the sockets of the wire itself (schedule/waiter.h).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "schedule/waiter.h"

#define LATER VB_WAITER_ALONE

static const char one, other;              /* threads */

/* A thread that no other has gone to sleep beside for a while. */
static vb_time be_alone(struct vb_waiter *waiter, const void *thread, vb_time now)
{
	vb_waiter_note(waiter, thread, now);
	return now + LATER;
}

static void one_that_is_alone_may(void **state)
{
	struct vb_waiter waiter = {0};
	vb_time now = VB_SECONDS(1);

	(void)state;
	assert_false(vb_waiter_begin(&waiter, &one, now));
	assert_false(vb_waiter_begin(&waiter, &one, now + LATER - 1));
	assert_false(vb_waiter_sleeps(&waiter));
	assert_true(vb_waiter_begin(&waiter, &one, now + LATER));
	assert_true(vb_waiter_sleeps(&waiter));
	vb_waiter_end(&waiter, now + LATER + 1);
	assert_false(vb_waiter_sleeps(&waiter));
	/* As often as it likes. */
	assert_true(vb_waiter_begin(&waiter, &one, now + LATER + 2));
}

static void threads_that_take_turns_may_not(void **state)
{
	struct vb_waiter waiter = {0};
	vb_time now = VB_SECONDS(1);

	(void)state;
	for (int i = 0; i < 100; i++, now += LATER / 2)
		assert_false(vb_waiter_begin(&waiter, i % 2 ? &one : &other, now));
	/* One that has not been heard of for a while sleeps, and is no reason. */
	now = be_alone(&waiter, &one, now);
	assert_true(vb_waiter_begin(&waiter, &one, now));
}

static void there_is_one_at_a_time(void **state)
{
	struct vb_waiter waiter = {0};
	vb_time now = be_alone(&waiter, &one, VB_SECONDS(1));

	(void)state;
	assert_true(vb_waiter_begin(&waiter, &one, now));
	now = be_alone(&waiter, &other, now);
	assert_false(vb_waiter_begin(&waiter, &other, now));
	vb_waiter_end(&waiter, now);
	assert_true(vb_waiter_begin(&waiter, &other, now));
}

/* A signal handler may leave a sleep by longjmp. */
static void one_that_did_not_end_begins_again(void **state)
{
	struct vb_waiter waiter = {0};
	vb_time now = be_alone(&waiter, &one, VB_SECONDS(1));

	(void)state;
	assert_true(vb_waiter_begin(&waiter, &one, now));
	assert_true(vb_waiter_begin(&waiter, &one, now + 1));
	vb_waiter_end(&waiter, now + 2);
	assert_false(vb_waiter_sleeps(&waiter));
}

/* Packets are left to it while it sleeps, and for a moment after that. */
static void it_attends_for_a_moment_longer(void **state)
{
	struct vb_waiter waiter = {0};
	vb_time now = be_alone(&waiter, &one, VB_SECONDS(1));

	(void)state;
	assert_false(vb_waiter_attends(&waiter, now));
	assert_true(vb_waiter_begin(&waiter, &one, now));
	assert_true(vb_waiter_attends(&waiter, now + VB_SECONDS(100)));
	now += VB_SECONDS(100);
	vb_waiter_end(&waiter, now);
	assert_int_equal(vb_waiter_last_seen(&waiter), now);
	assert_true(vb_waiter_attends(&waiter, now + VB_MICROSECONDS(10)));
	assert_false(vb_waiter_attends(&waiter, now + VB_MICROSECONDS(100)));
}

/* What it arms is for its own sleep. */
static void one_that_just_slept_comes_back(void **state)
{
	struct vb_waiter waiter = {0};
	vb_time now = be_alone(&waiter, &one, VB_SECONDS(1));

	(void)state;
	assert_false(vb_waiter_comes_back(&waiter, &one, now));
	assert_true(vb_waiter_begin(&waiter, &one, now));
	vb_waiter_end(&waiter, now);
	assert_true(vb_waiter_comes_back(&waiter, &one, now + VB_MICROSECONDS(100)));
	assert_false(vb_waiter_comes_back(&waiter, &other, now + VB_MICROSECONDS(100)));
	assert_false(vb_waiter_comes_back(&waiter, &one, now + VB_MILLISECONDS(10)));
	vb_waiter_note(&waiter, &other, now);
	assert_false(vb_waiter_comes_back(&waiter, &one, now + VB_MICROSECONDS(100)));
	vb_waiter_note(&waiter, &one, now);
	assert_false(vb_waiter_comes_back(&waiter, &one, now + VB_MICROSECONDS(100)));
}

/* Another goes to sleep meanwhile: packets are the engine thread's, until one begins anew. */
static void others_may_need_the_engine_thread(void **state)
{
	struct vb_waiter waiter = {0};
	vb_time now = be_alone(&waiter, &one, VB_SECONDS(1));

	(void)state;
	assert_true(vb_waiter_begin(&waiter, &one, now));
	assert_true(vb_waiter_attends(&waiter, now));
	assert_false(vb_waiter_need_engine(&waiter));
	assert_false(vb_waiter_attends(&waiter, now));
	waiter.napping = true;
	assert_true(vb_waiter_need_engine(&waiter));
	vb_waiter_end(&waiter, now);
	assert_true(vb_waiter_begin(&waiter, &one, now));
	assert_true(vb_waiter_attends(&waiter, now));
}

/* It was woken, and others have its processor. */
static void what_lies_there_is_left_to_it_for_a_while(void **state)
{
	struct vb_waiter waiter = {0};
	vb_time now = be_alone(&waiter, &one, VB_SECONDS(1)), since = 0, seen;

	(void)state;
	assert_false(vb_waiter_may_still_come(&waiter, &since, now));
	assert_true(vb_waiter_begin(&waiter, &one, now));
	seen = now += VB_SECONDS(5);
	assert_true(vb_waiter_may_still_come(&waiter, &since, now));
	assert_true(vb_waiter_may_still_come(&waiter, &since, seen + VB_WAITER_GRACE - 1));
	assert_false(vb_waiter_may_still_come(&waiter, &since, seen + VB_WAITER_GRACE));
	/* One that has come may be at work for long. */
	since = 0;
	vb_waiter_end(&waiter, now);
	assert_false(vb_waiter_may_still_come(&waiter, &since, now));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_that_is_alone_may),
		cmocka_unit_test(threads_that_take_turns_may_not),
		cmocka_unit_test(there_is_one_at_a_time),
		cmocka_unit_test(one_that_did_not_end_begins_again),
		cmocka_unit_test(it_attends_for_a_moment_longer),
		cmocka_unit_test(one_that_just_slept_comes_back),
		cmocka_unit_test(others_may_need_the_engine_thread),
		cmocka_unit_test(what_lies_there_is_left_to_it_for_a_while),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
