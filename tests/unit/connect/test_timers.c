/* SPDX-License-Identifier: MIT
 *
 * The timer heap against a plain array: whatever is set, moved and cancelled, the earliest is the earliest.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "connect/timers.h"

enum { TIMERS = 200, STEPS = 50000 };

static uint64_t seed = 0x5eed0001;

static uint32_t draw(void)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33);
}

static vb_time earliest(const struct vb_connect_timer *timer)
{
	vb_time when = VB_TIME_NEVER;

	for (unsigned i = 0; i < TIMERS; i++)
		if (timer[i].place)
			when = vb_time_earlier(when, timer[i].when);
	return when;
}

static void the_earliest_is_first(void **state)
{
	static struct vb_connect_timer timer[TIMERS];
	struct vb_connect_timers timers = {0};

	(void)state;
	print_message("seed %#llx\n", (unsigned long long)seed);
	assert_null(vb_connect_timers_first(&timers));
	assert_int_equal(vb_connect_timers_reserve(&timers, TIMERS), 0);
	for (unsigned step = 0; step < STEPS; step++) {
		struct vb_connect_timer *t = &timer[draw() % TIMERS], *first;

		switch (draw() % 4) {
		case 0:
			vb_connect_timer_cancel(&timers, t);
			assert_int_equal(t->place, 0);
			break;
		case 1:
			first = vb_connect_timers_first(&timers);
			if (first)
				vb_connect_timer_cancel(&timers, first);
			break;
		default:
			vb_connect_timer_set(&timers, t, draw() % 1000);
			break;
		}
		first = vb_connect_timers_first(&timers);
		assert_int_equal(first ? first->when : VB_TIME_NEVER, earliest(timer));
	}
	for (unsigned i = 0; i < TIMERS; i++)
		vb_connect_timer_set(&timers, &timer[i], VB_TIME_NEVER);
	assert_int_equal(timers.count, 0);
	vb_connect_timers_fini(&timers);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(the_earliest_is_first)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
