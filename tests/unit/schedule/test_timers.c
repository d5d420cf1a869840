/* SPDX-License-Identifier: MIT
 *
 * The timers against a model: a plain array of when each QP asked to be called.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "schedule/timers.h"
#include "queue/qp.h"

enum { QPS = 300 };

static struct vb_qp *qps;
static struct vb_timers timers;

static int open_timers(void **state)
{
	(void)state;
	qps = calloc(QPS, sizeof(*qps));
	vb_timers_init(&timers);
	assert_int_equal(vb_timers_reserve(&timers, QPS), 0);
	for (unsigned i = 0; i < QPS; i++)
		qps[i].timer_armed = VB_TIME_NEVER;
	return 0;
}

static int close_timers(void **state)
{
	(void)state;
	vb_timers_fini(&timers);
	free(qps);
	return 0;
}

static void fires_in_order(void **state)
{
	vb_time before = 0;
	unsigned count = 0;
	struct vb_qp *qp;

	(void)state;
	srand(1);
	for (unsigned i = 0; i < QPS; i++)
		vb_timers_arm(&timers, &qps[i], 1 + rand() % 1000);
	assert_null(vb_timers_pop(&timers, 0));
	while (vb_timers_next(&timers) != VB_TIME_NEVER) {
		vb_time when = vb_timers_next(&timers);

		assert_true(when >= before);
		before = when;
		qp = vb_timers_pop(&timers, when);
		assert_non_null(qp);
		assert_true(qp->timer_armed == VB_TIME_NEVER);
		count++;
	}
	assert_int_equal(count, QPS);
}

static void only_nearer_deadlines_move_an_entry(void **state)
{
	(void)state;
	vb_timers_arm(&timers, &qps[0], 100);
	vb_timers_arm(&timers, &qps[0], 200);
	assert_int_equal(vb_timers_next(&timers), 100);
	vb_timers_arm(&timers, &qps[0], 50);
	assert_int_equal(vb_timers_next(&timers), 50);
	assert_null(vb_timers_pop(&timers, 49));
	assert_ptr_equal(vb_timers_pop(&timers, 50), &qps[0]);
	assert_null(vb_timers_pop(&timers, VB_TIME_NEVER - 1));
}

static void the_sleeper_is_woken_when_needed(void **state)
{
	(void)state;
	/* Awake: nobody to wake. */
	vb_timers_awake(&timers);
	assert_false(vb_timers_arm(&timers, &qps[0], 1000));
	assert_int_equal(vb_timers_sleep(&timers), 1000);
	assert_false(vb_timers_arm(&timers, &qps[1], 1000));
	assert_false(vb_timers_arm(&timers, &qps[2], 2000));
	assert_true(vb_timers_arm(&timers, &qps[3], 900));
	/* Woken once is enough. */
	assert_false(vb_timers_arm(&timers, &qps[4], 800));
	assert_int_equal(vb_timers_sleep(&timers), 800);
	/* With nothing armed the sleep has no end, and anything ends it. */
	for (unsigned i = 0; i < 5; i++)
		vb_timers_disarm(&timers, &qps[i]);
	assert_true(vb_timers_sleep(&timers) == VB_TIME_NEVER);
	assert_true(vb_timers_arm(&timers, &qps[0], INT64_MAX - 1));
}

static void completion_queues_have_deadlines_too(void **state)
{
	struct vb_cq a, b;

	(void)state;
	vb_timers_arm(&timers, &qps[0], 500);
	vb_timers_arm_cq(&timers, &a, 300);
	vb_timers_arm_cq(&timers, &b, 400);
	assert_int_equal(vb_timers_next(&timers), 300);
	vb_timers_arm_cq(&timers, &a, 600);
	assert_int_equal(vb_timers_next(&timers), 400);
	assert_null(vb_timers_pop_cq(&timers, 399));
	assert_ptr_equal(vb_timers_pop_cq(&timers, 450), &b);
	vb_timers_arm_cq(&timers, &a, VB_TIME_NEVER);
	vb_timers_arm_cq(&timers, &a, VB_TIME_NEVER);
	assert_null(vb_timers_pop_cq(&timers, VB_TIME_NEVER - 1));
	assert_int_equal(vb_timers_next(&timers), 500);
}

static void agrees_with_a_model(void **state)
{
	vb_time model[QPS];
	unsigned seed = 99;

	(void)state;
	print_message("seed %u\n", seed);
	srand(seed);
	for (unsigned i = 0; i < QPS; i++)
		model[i] = VB_TIME_NEVER;
	for (unsigned step = 0; step < 100000; step++) {
		unsigned i = (unsigned)rand() % QPS;
		vb_time when = rand() % 100000, earliest = VB_TIME_NEVER;

		switch (rand() % 3) {
		case 0:
			vb_timers_arm(&timers, &qps[i], when);
			model[i] = vb_time_earlier(model[i], when);
			break;
		case 1:
			vb_timers_disarm(&timers, &qps[i]);
			model[i] = VB_TIME_NEVER;
			break;
		case 2: {
			struct vb_qp *qp = vb_timers_pop(&timers, when / 10);

			for (unsigned j = 0; j < QPS; j++)
				earliest = vb_time_earlier(earliest, model[j]);
			assert_int_equal(qp != NULL, earliest <= when / 10);
			if (qp) {
				assert_int_equal(model[qp - qps], earliest);
				model[qp - qps] = VB_TIME_NEVER;
			}
			break;
		}
		}
		assert_true(qps[i].timer_armed == model[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(fires_in_order, open_timers, close_timers),
		cmocka_unit_test_setup_teardown(only_nearer_deadlines_move_an_entry, open_timers, close_timers),
		cmocka_unit_test_setup_teardown(the_sleeper_is_woken_when_needed, open_timers, close_timers),
		cmocka_unit_test_setup_teardown(completion_queues_have_deadlines_too, open_timers, close_timers),
		cmocka_unit_test_setup_teardown(agrees_with_a_model, open_timers, close_timers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
