/* SPDX-License-Identifier: MIT
 *
 * The lock: nobody is inside with another, whoever waits gets in, and nobody waits for long after it is free.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <time.h>

#include "base/lock.h"

#ifdef __clang__
/* One thread takes it, another looks. */
#pragma clang diagnostic ignored "-Wthread-safety-analysis"
#endif

enum { THREADS = 4, ROUNDS = 20000 };

static struct vb_lock lock;
static uint64_t counter;
static bool stop;

static void open_lock(void)
{
	vb_lock_init(&lock, VB_RANK_QP);
	counter = 0;
	stop = false;
}

static void pause_for(long nanoseconds)
{
	nanosleep(&(struct timespec){.tv_nsec = nanoseconds}, NULL);
}

static void can_be_tried(void **state)
{
	(void)state;
	open_lock();
	assert_true(vb_lock_try(&lock));
	assert_false(vb_lock_try(&lock));
	vb_lock_release(&lock);
	vb_lock_take(&lock);
	vb_lock_assert_held(&lock);
	assert_false(vb_lock_try(&lock));
	vb_lock_release(&lock);
	assert_true(vb_lock_try(&lock));
	vb_lock_release(&lock);
}

/* Some hold it so long that the others fall asleep. */
static void *count(void *number)
{
	for (unsigned i = 0; i < ROUNDS; i++) {
		if (i % 7 == 3) {
			if (!vb_lock_try(&lock))
				continue;
		} else {
			vb_lock_take(&lock);
		}
		counter++;
		++*(uint64_t *)number;
		if (i % 1000 == 500)
			pause_for(200000);
		vb_lock_release(&lock);
	}
	return NULL;
}

static void lets_one_in_at_a_time(void **state)
{
	pthread_t thread[THREADS];
	uint64_t counted[THREADS] = {0}, sum = 0;

	(void)state;
	open_lock();
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, count, &counted[i]), 0);
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(thread[i], NULL);
		sum += counted[i];
		assert_true(counted[i] >= ROUNDS / 7 * 6);
	}
	assert_int_equal(counter, sum);
	assert_int_equal(lock.sleepers, 0);
}

static void *take_in_turn(void *unused)
{
	(void)unused;
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		vb_lock_take(&lock);
		counter++;
		vb_lock_release(&lock);
	}
	return NULL;
}

/* Asleep or not: within half a minute it has had the lock again and again. */
static void sleepers_wake(void **state)
{
	struct timespec began, now;
	pthread_t thread;

	(void)state;
	open_lock();
	assert_int_equal(pthread_create(&thread, NULL, take_in_turn, NULL), 0);
	clock_gettime(CLOCK_MONOTONIC, &began);
	for (unsigned rounds = 0; rounds < 50; rounds++) {
		uint64_t before, after;

		vb_lock_take(&lock);
		before = counter;
		pause_for(100000);
		assert_int_equal(counter, before);
		vb_lock_release(&lock);
		do {
			pause_for(10000);
			vb_lock_take(&lock);
			after = counter;
			vb_lock_release(&lock);
			clock_gettime(CLOCK_MONOTONIC, &now);
			assert_true(now.tv_sec - began.tv_sec < 30);
		} while (after == before);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(can_be_tried),
		cmocka_unit_test(lets_one_in_at_a_time),
		cmocka_unit_test(sleepers_wake),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
