/* SPDX-License-Identifier: MIT
 *
 * A lock that one thread takes again and again: it is taken by that thread without an exchange, and every other thread still finds it
 * taken, gets it, and is alone with it. That the barrier is needed, and is enough, is shown in unit/litmus.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/lock.h"

#ifdef __clang__
/* One thread takes it, another looks. */
#pragma clang diagnostic ignored "-Wthread-safety-analysis"
#endif

/* As base/favourite.c has them. */
enum { FIRST_STREAK = 1024, GROWTH = 4 };
enum { OTHERS = 3, BURSTS = 100, BURST = 5000, VISITS = 1000 };

static struct vb_lock lock;
static uint64_t counter;
static unsigned barriers;                  /* atomic */
static bool is_seen_inside;

static bool barrier(void)
{
	__atomic_fetch_add(&barriers, 1, __ATOMIC_RELAXED);
	return syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
}

static bool barrier_that_is_refused(void)
{
	return false;
}

/* The favourite's store was on its way. */
static bool barrier_that_shows_one_inside(void)
{
	if (is_seen_inside)
		__atomic_store_n(&lock.inside, 1, __ATOMIC_RELAXED);
	return barrier();
}

static void open_lock(bool (*by)(void))
{
	assert_int_equal(syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0), 0);
	vb_lock_init(&lock, VB_RANK_QP);
	vb_lock_allow_favourites(by);
	counter = 0;
	barriers = 0;
	is_seen_inside = false;
}

static void take_often(unsigned times)
{
	for (unsigned i = 0; i < times; i++) {
		vb_lock_take(&lock);
		vb_lock_release(&lock);
	}
}

static void *take_once(void *unused)
{
	(void)unused;
	take_often(1);
	return NULL;
}

static void *try_once(void *result)
{
	*(bool *)result = vb_lock_try(&lock);
	if (*(bool *)result)
		vb_lock_release(&lock);
	return NULL;
}

static void by_another(void *(*function)(void *), void *argument)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, function, argument), 0);
	pthread_join(thread, NULL);
}

static bool is_taken_as_favourite(void)
{
	bool is_inside;

	vb_lock_take(&lock);
	is_inside = lock.inside == 1;
	assert_int_equal(lock.taken, !is_inside);
	assert_false(vb_lock_try(&lock));
	assert_true(vb_lock_is_held(&lock));
	vb_lock_release(&lock);
	assert_false(vb_lock_is_held(&lock));
	return is_inside;
}

static void who_takes_it_often_is_favoured(void **state)
{
	(void)state;
	open_lock(barrier);
	take_often(FIRST_STREAK - 1);
	assert_false(is_taken_as_favourite());
	take_often(2);
	assert_true(is_taken_as_favourite());
	assert_true(vb_lock_try(&lock));
	assert_int_equal(lock.inside, 1);
	assert_int_equal(lock.taken, 0);
	vb_lock_release(&lock);
	assert_int_equal(barriers, 0);
}

static void nothing_is_favoured_without_a_barrier(void **state)
{
	(void)state;
	open_lock(NULL);
	take_often(4 * FIRST_STREAK);
	assert_false(is_taken_as_favourite());
}

/* One barrier each time, and each time it takes longer. Another thread does not become the favourite of a lock that had one. */
static void another_ends_the_favour(void **state)
{
	uint32_t streak = FIRST_STREAK;

	(void)state;
	open_lock(barrier);
	for (unsigned times = 1; times <= 3; times++, streak *= GROWTH) {
		take_often(streak - 1);
		assert_false(is_taken_as_favourite());
		take_often(2);
		assert_true(is_taken_as_favourite());
		by_another(take_once, NULL);
		by_another(take_once, NULL);
		assert_int_equal(barriers, times);
		assert_false(is_taken_as_favourite());
		by_another(take_once, NULL);
	}
}

/* What sets a lock up is often not the thread that uses it. */
static void *use(void *unused)
{
	(void)unused;
	take_often(FIRST_STREAK + 2);
	assert_true(is_taken_as_favourite());
	return NULL;
}

static void the_first_that_takes_it_often_is_favoured(void **state)
{
	(void)state;
	open_lock(barrier);
	take_often(FIRST_STREAK / 2);
	by_another(use, NULL);
	assert_int_equal(barriers, 0);
	take_often(1);
	assert_int_equal(barriers, 1);
}

static void who_tries_does_not_wait_for_the_favourite(void **state)
{
	bool has_it;

	(void)state;
	open_lock(barrier_that_shows_one_inside);
	take_often(FIRST_STREAK + 2);
	vb_lock_take(&lock);
	assert_int_equal(lock.inside, 1);
	by_another(try_once, &has_it);
	assert_false(has_it);
	assert_int_equal(barriers, 0);
	vb_lock_release(&lock);
	/* It was not seen before the barrier. */
	is_seen_inside = true;
	by_another(try_once, &has_it);
	assert_false(has_it);
	assert_int_equal(barriers, 1);
	assert_int_equal(lock.taken, 0);
	/* The favour has ended, and the one inside is heeded all the same. */
	by_another(try_once, &has_it);
	assert_false(has_it);
	vb_lock_release_by_former(&lock);
	by_another(try_once, &has_it);
	assert_true(has_it);
}

static void *wait_for_it(void *unused)
{
	(void)unused;
	vb_lock_take(&lock);
	counter = counter * 2;
	vb_lock_release(&lock);
	return NULL;
}

/* Until it waits: it holds what all but the favourite have to have. */
static void who_waits_gets_it_behind_the_favourite(void **state)
{
	pthread_t thread;

	(void)state;
	open_lock(barrier);
	for (unsigned i = 0; i < 3; i++) {
		open_lock(barrier);
		take_often(FIRST_STREAK + 2);
		vb_lock_take(&lock);
		counter = 0;
		assert_int_equal(pthread_create(&thread, NULL, wait_for_it, NULL), 0);
		while (__atomic_load_n(&barriers, __ATOMIC_RELAXED) == 0)
			sched_yield();
		/* The second time it has gone to sleep, as like as not. */
		for (unsigned yields = 0; yields < i * 100000; yields++)
			vb_lock_relax();
		counter = 21;
		vb_lock_release(&lock);
		pthread_join(thread, NULL);
		assert_int_equal(counter, 42);
	}
}

/* ---- many ---- */

static void *visit(void *number)
{
	for (unsigned i = 0; i < VISITS; i++) {
		if (i % 3 == 1) {
			if (!vb_lock_try(&lock))
				continue;
		} else {
			vb_lock_take(&lock);
		}
		counter++;
		++*(uint64_t *)number;
		vb_lock_release(&lock);
		for (unsigned relaxes = 0; relaxes < 100; relaxes++)
			vb_lock_relax();
	}
	return NULL;
}

/* The first thread becomes the favourite again and again, and then the others come. */
static void lets_one_in_at_a_time_by(bool (*by)(void), unsigned bursts)
{
	pthread_t thread[OTHERS];
	uint64_t counted[OTHERS] = {0}, sum = 0;
	unsigned favoured = 0;

	open_lock(by);
	for (unsigned burst = 0; burst < bursts; burst++) {
		/* So that it does not take ever longer. */
		vb_lock_take(&lock);
		lock.streak = lock.left = FIRST_STREAK;
		vb_lock_release(&lock);
		for (unsigned i = 0; i < BURST; i++) {
			if (i == BURST / 2)
				for (unsigned other = 0; other < OTHERS; other++)
					assert_int_equal(pthread_create(&thread[other], NULL, visit, &counted[other]), 0);
			vb_lock_take(&lock);
			favoured += lock.inside;
			counter++;
			sum++;
			vb_lock_release(&lock);
		}
		for (unsigned other = 0; other < OTHERS; other++)
			pthread_join(thread[other], NULL);
	}
	for (unsigned i = 0; i < OTHERS; i++)
		sum += counted[i];
	assert_int_equal(counter, sum);
	assert_true(favoured >= BURST / 2 - FIRST_STREAK);
	print_message("%llu takes, %u of them by the favourite, %u barriers\n", (unsigned long long)sum, favoured, barriers);
}

static void lets_one_in_at_a_time(void **state)
{
	(void)state;
	lets_one_in_at_a_time_by(barrier, BURSTS);
}

/* A filter of system calls that came later: time has to do. And nobody is favoured any more. */
static void goes_on_where_barriers_are_refused(void **state)
{
	(void)state;
	lets_one_in_at_a_time_by(barrier_that_is_refused, 4);
	take_often(4 * FIRST_STREAK);
	by_another(take_once, NULL);
	take_often(16 * FIRST_STREAK);
	assert_false(is_taken_as_favourite());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_takes_it_often_is_favoured),
		cmocka_unit_test(nothing_is_favoured_without_a_barrier),
		cmocka_unit_test(another_ends_the_favour),
		cmocka_unit_test(the_first_that_takes_it_often_is_favoured),
		cmocka_unit_test(who_tries_does_not_wait_for_the_favourite),
		cmocka_unit_test(who_waits_gets_it_behind_the_favourite),
		cmocka_unit_test(lets_one_in_at_a_time),
		cmocka_unit_test(goes_on_where_barriers_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
