/* SPDX-License-Identifier: MIT
 *
 * Our reading of the monotonic clock against the clock itself, over many of the marks from which it counts on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <time.h>

#include "io/clock.h"

/* The one is read between two readings of the other; but a thread may lose the processor between counter and clock. */
#define TOLERANCE VB_MICROSECONDS(200)

static vb_time read_clock(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (vb_time)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void *compare(void *wrong)
{
	for (vb_time end = read_clock() + VB_MILLISECONDS(50), before = 0; before < end;) {
		vb_time now, after;

		before = read_clock();
		now = vb_clock_now();
		after = read_clock();
		*(unsigned *)wrong += now < before - TOLERANCE || now > after + TOLERANCE;
	}
	return NULL;
}

static void is_the_monotonic_clock(void **state)
{
	unsigned wrong[3] = {0};
	pthread_t other[2];

	(void)state;
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&other[i], NULL, compare, &wrong[i]), 0);
	compare(&wrong[2]);
	for (unsigned i = 0; i < 2; i++) {
		pthread_join(other[i], NULL);
		assert_int_equal(wrong[i], 0);
	}
	assert_int_equal(wrong[2], 0);
}

static void continues_after_a_pause(void **state)
{
	vb_time before = vb_clock_now(), after;

	(void)state;
	nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
	after = vb_clock_now();
	assert_true(after - before >= VB_MILLISECONDS(20) - TOLERANCE);
	assert_true(after <= read_clock() + TOLERANCE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_the_monotonic_clock),
		cmocka_unit_test(continues_after_a_pause),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
