/* SPDX-License-Identifier: MIT
 *
 * Threads of the library: what the program's thread that makes them has set for itself is not theirs.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "io/thread.h"

struct seen {
	cpu_set_t processors;
	sigset_t blocked;
	int policy;
};

static cpu_set_t at_load;

static void *look(void *context)
{
	struct seen *seen = context;

	sched_getaffinity(0, sizeof(seen->processors), &seen->processors);
	pthread_sigmask(SIG_SETMASK, NULL, &seen->blocked);
	seen->policy = sched_getscheduler(0);
	return NULL;
}

static struct seen seen_by_thread(void)
{
	struct seen seen;
	pthread_t thread;

	memset(&seen, 0, sizeof(seen));
	assert_int_equal(vb_thread_start(&thread, look, &seen), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	return seen;
}

/* As DPDK does before it opens a device. */
static void a_maker_that_keeps_to_one_processor(void **state)
{
	struct seen seen;
	cpu_set_t one;

	(void)state;
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	seen = seen_by_thread();
	assert_true(CPU_EQUAL(&seen.processors, &at_load));
	assert_int_equal(sched_setaffinity(0, sizeof(at_load), &at_load), 0);
}

static void a_maker_with_a_policy_of_its_own(void **state)
{
	struct sched_param none = {0};

	(void)state;
	assert_int_equal(pthread_setschedparam(pthread_self(), SCHED_BATCH, &none), 0);
	assert_int_equal(seen_by_thread().policy, SCHED_OTHER);
	assert_int_equal(pthread_setschedparam(pthread_self(), SCHED_OTHER, &none), 0);
}

static void signals_are_the_programs(void **state)
{
	struct seen seen = seen_by_thread();
	sigset_t mine;

	(void)state;
	assert_int_equal(sigismember(&seen.blocked, SIGTERM), 1);
	assert_int_equal(sigismember(&seen.blocked, SIGUSR1), 1);
	pthread_sigmask(SIG_SETMASK, NULL, &mine);
	assert_int_equal(sigismember(&mine, SIGTERM), 0);
}

/* verbenad, started by such a program. */
static void a_process_for_others_forgets_its_maker(void **state)
{
	struct sched_param none = {0};
	struct seen seen;
	cpu_set_t one;

	(void)state;
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	assert_int_equal(pthread_setschedparam(pthread_self(), SCHED_BATCH, &none), 0);
	vb_thread_forget_maker();
	look(&seen);
	CPU_AND(&one, &seen.processors, &at_load);
	assert_true(CPU_EQUAL(&one, &at_load));
	assert_int_equal(seen.policy, SCHED_OTHER);
	assert_int_equal(sched_setaffinity(0, sizeof(at_load), &at_load), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_maker_that_keeps_to_one_processor),
		cmocka_unit_test(a_maker_with_a_policy_of_its_own),
		cmocka_unit_test(signals_are_the_programs),
		cmocka_unit_test(a_process_for_others_forgets_its_maker),
	};

	sched_getaffinity(0, sizeof(at_load), &at_load);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
