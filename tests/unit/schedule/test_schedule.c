/* SPDX-License-Identifier: MIT
 *
 * When the engine thread is woken for work that was put off (schedule/schedule.c): once, however many queue pairs have some, and
 * again for what comes after it has looked.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/event.h"
#include "schedule/schedule.h"

enum { PAIRS = 50 };

static struct vb_schedule schedule;
static struct vb_qp qp[PAIRS];
static const vb_time now = VB_SECONDS(100);

static int make(void **state)
{
	(void)state;
	schedule = (struct vb_schedule){0};
	vb_schedule_init(&schedule);
	schedule.event_fd = vb_event_open();
	for (unsigned i = 0; i < PAIRS; i++) {
		qp[i] = (struct vb_qp){0};
		vb_lock_init(&qp[i].lock, VB_RANK_QP);
		vb_list_init(&qp[i].active);
	}
	/* A thread polls. */
	vb_spinner_seen(&schedule.spinner, now);
	return schedule.event_fd < 0;
}

static int end(void **state)
{
	(void)state;
	close(schedule.event_fd);
	vb_schedule_fini(&schedule);
	return 0;
}

/* How often the engine thread was woken. */
static uint64_t kicks(void)
{
	uint64_t count;

	if (read(schedule.event_fd, &count, sizeof(count)) == (ssize_t)sizeof(count))
		return count;
	assert_int_equal(errno, EAGAIN);
	return 0;
}

static bool defer(unsigned i)
{
	bool put_off;

	vb_lock_take(&qp[i].lock);
	put_off = vb_schedule_defer(&schedule, &qp[i], now);
	vb_lock_release(&qp[i].lock);
	return put_off;
}

static void put_off(unsigned first, unsigned last)
{
	for (unsigned i = first; i < last; i++)
		assert_true(defer(i));
}

static void many_wake_it_once(void **state)
{
	(void)state;
	put_off(0, PAIRS);
	assert_int_equal(kicks(), 1);
	assert_true(vb_schedule_has_active(&schedule));
}

static void what_comes_after_its_look_wakes_it_again(void **state)
{
	(void)state;
	put_off(0, 2);
	assert_int_equal(kicks(), 1);
	/* It looks, and a thread that polls has sent all. */
	while (vb_schedule_next_active(&schedule.lane[0]))
		;
	assert_false(vb_schedule_has_active(&schedule));
	put_off(2, 4);
	assert_int_equal(kicks(), 1);
}

/* The first was seen before it looked, and is not sent yet; the second comes behind its look: whoever sends the first need not see it. */
static void what_comes_behind_others_wakes_it_too(void **state)
{
	(void)state;
	put_off(0, 1);
	assert_int_equal(kicks(), 1);
	assert_true(vb_schedule_has_active(&schedule));
	put_off(1, 2);
	assert_int_equal(kicks(), 1);
}

/* However much is posted to it; and again when that was sent. */
static void one_that_waits_is_listed_once(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		put_off(0, 1);
		put_off(0, 1);
		assert_ptr_equal(vb_schedule_next_active(&schedule.lane[0]), &qp[0]);
		assert_null(vb_schedule_next_active(&schedule.lane[0]));
	}
	put_off(0, 1);
	vb_schedule_forget(&schedule, &qp[0]);
	put_off(0, 1);
	assert_true(vb_schedule_is_enlisted(&qp[0]));
}

/* It looks when the nap ends. */
static void one_that_naps_is_not_woken(void **state)
{
	(void)state;
	schedule.spinner.napping = true;
	put_off(0, PAIRS);
	assert_int_equal(kicks(), 0);
	assert_true(vb_schedule_has_active(&schedule));
}

static void where_no_thread_polls_nothing_is_put_off(void **state)
{
	(void)state;
	vb_spinner_watch(&schedule.spinner, now);
	assert_false(defer(0));
	assert_false(vb_schedule_has_active(&schedule));
	assert_int_equal(kicks(), 0);
}

/* It was put into the list of the lane that it had, without its lock, while it was given another; and then it is withdrawn. */
static void one_that_is_withdrawn_is_in_no_list(void **state)
{
	enum { LANE = 2 };
	struct vb_binding *binding = &schedule.binding[0];

	(void)state;
	qp[0].scheduler = binding;
	*binding = (struct vb_binding){.qp = &qp[0], .home = LANE, .lane = LANE};
	assert_int_equal(vb_schedule_enlist(&schedule, &qp[0]), 1);
	binding->lane = 0;
	qp[0].scheduler = NULL;
	vb_schedule_forget(&schedule, &qp[0]);
	assert_false(vb_schedule_is_enlisted(&qp[0]));
	assert_null(vb_schedule_next_active(&schedule.lane[LANE]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(many_wake_it_once, make, end),
		cmocka_unit_test_setup_teardown(what_comes_after_its_look_wakes_it_again, make, end),
		cmocka_unit_test_setup_teardown(what_comes_behind_others_wakes_it_too, make, end),
		cmocka_unit_test_setup_teardown(one_that_waits_is_listed_once, make, end),
		cmocka_unit_test_setup_teardown(one_that_is_withdrawn_is_in_no_list, make, end),
		cmocka_unit_test_setup_teardown(one_that_naps_is_not_woken, make, end),
		cmocka_unit_test_setup_teardown(where_no_thread_polls_nothing_is_put_off, make, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
