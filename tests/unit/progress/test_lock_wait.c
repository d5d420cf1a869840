/* SPDX-License-Identifier: MIT
 *
 * Waiting for a lock, by the clock of the machine (not in unit/base, which is also run where clocks are emulated).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <time.h>

#include "base/lock.h"

static void pause_for(long nanoseconds)
{
	nanosleep(&(struct timespec){.tv_nsec = nanoseconds}, NULL);
}

static struct vb_lock of_a_program = VB_LOCK_INITIALIZER(VB_RANK_POSTING);

static long milliseconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

struct waited {
	long time, of_processor;
};

static void *wait_for_it(void *argument)
{
	struct waited *waited = argument;
	long began = milliseconds(CLOCK_MONOTONIC);

	vb_lock_take(&of_a_program);
	vb_lock_release(&of_a_program);
	*waited = (struct waited){milliseconds(CLOCK_MONOTONIC) - began, milliseconds(CLOCK_THREAD_CPUTIME_ID)};
	return NULL;
}

/* Whoever waits long for a lock that was never opened, but initialized by its definition, sleeps as well. */
static void waiting_takes_no_processor(void **state)
{
	pthread_t thread;
	struct waited waited = {0};

	(void)state;
	vb_lock_take(&of_a_program);
	assert_int_equal(pthread_create(&thread, NULL, wait_for_it, &waited), 0);
	while (__atomic_load_n(&of_a_program.sleepers, __ATOMIC_RELAXED) == 0)
		pause_for(100000);
	pause_for(400000000);
	vb_lock_release(&of_a_program);
	pthread_join(thread, NULL);
	print_message("%ld ms of %ld\n", waited.of_processor, waited.time);
	assert_true(waited.of_processor < waited.time / 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(waiting_takes_no_processor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
