/* SPDX-License-Identifier: MIT
 *
 * How soon two programs answer each other that wait by looking at their memory (ib_write_lat), so that only their engine threads take
 * packets in (schedule/linger.h). In virtual time: whichever way it began, sleeping or awake, and wherever the engine threads run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "schedule/linger.h"

#define WAKING VB_MICROSECONDS(18)         /* a thread on a processor that sleeps, in a virtual machine */
#define SERVING VB_MICROSECONDS(1)
#define ANSWERING VB_MICROSECONDS(1)

enum { ROUNDS = 1000 };

/* One of the two. */
struct end {
	struct vb_linger linger;
	int cpu, application_cpu;
	vb_time idle_since;                /* when the engine thread last had something to do */
};

/* When the engine thread that had nothing more to do then falls asleep. */
static vb_time falls_asleep_at(const struct end *end)
{
	vb_time idle = 0;

	while (vb_linger_goes_on(&end->linger, idle, end->cpu, end->application_cpu, false))
		idle += VB_MICROSECONDS(1);
	return end->idle_since + idle;
}

/* A packet comes at that time: when is its answer on the way? */
static vb_time answer(struct end *end, vb_time now)
{
	vb_time asleep_at = falls_asleep_at(end);

	if (now >= asleep_at) {
		vb_linger_slept(&end->linger, now - asleep_at);
		now += WAKING;
	}
	end->idle_since = now + SERVING;
	/* The application cannot see it while the engine thread keeps its processor. */
	if (end->cpu == end->application_cpu)
		return falls_asleep_at(end) + ANSWERING;
	return end->idle_since + ANSWERING;
}

/* One way on average, after as many rounds before. */
static vb_time talk(struct end ends[2], vb_time began)
{
	vb_time now = began, settled = 0;

	for (unsigned i = 0; i < 4 * ROUNDS; i++) {
		if (i == 2 * ROUNDS)
			settled = now;
		now = answer(&ends[i % 2], now);
	}
	return (now - settled) / (2 * ROUNDS);
}

static void make(struct end ends[2], int own_processor)
{
	for (int i = 0; i < 2; i++) {
		ends[i] = (struct end){.cpu = own_processor ? 2 + i : i, .application_cpu = i};
		vb_linger_init(&ends[i].linger);
	}
}

static void two_that_were_asleep_stay_awake_soon(void **state)
{
	struct end ends[2];
	vb_time took;

	(void)state;
	make(ends, 1);
	took = talk(ends, VB_SECONDS(1));
	print_message("%lld ns one way\n", (long long)took);
	assert_true(took == SERVING + ANSWERING);
}

static void an_engine_thread_leaves_the_application_its_processor(void **state)
{
	struct end ends[2];
	vb_time took;

	(void)state;
	make(ends, 0);
	took = talk(ends, VB_SECONDS(1));
	print_message("%lld ns one way\n", (long long)took);
	assert_true(took == WAKING + SERVING + ANSWERING);
}

/* It is not kept awake by what comes seldom. */
static void a_long_sleep_makes_it_short_again(void **state)
{
	struct vb_linger linger;

	(void)state;
	vb_linger_init(&linger);
	assert_false(vb_linger_goes_on(&linger, VB_SHORTEST_LINGER + 1, 0, -1, false));
	for (unsigned i = 0; i < 10; i++)
		vb_linger_slept(&linger, VB_MICROSECONDS(5));
	assert_true(vb_linger_goes_on(&linger, VB_LONGEST_LINGER, 0, -1, false));
	assert_false(vb_linger_goes_on(&linger, VB_LONGEST_LINGER + 1, 0, -1, false));
	vb_linger_slept(&linger, VB_LONG_SLEEP);
	assert_false(vb_linger_goes_on(&linger, VB_SHORTEST_LINGER + 1, 0, -1, false));
}

/* The thread that it has woken looks itself. */
static void beside_threads_that_sleep_it_sleeps_soon(void **state)
{
	struct vb_linger linger;

	(void)state;
	vb_linger_init(&linger);
	for (unsigned i = 0; i < 10; i++)
		vb_linger_slept(&linger, VB_MICROSECONDS(5));
	assert_true(vb_linger_goes_on(&linger, VB_LINGER_BESIDE_SLEEPERS, 0, -1, true));
	assert_false(vb_linger_goes_on(&linger, VB_LINGER_BESIDE_SLEEPERS + 1, 0, -1, true));
	assert_true(vb_linger_goes_on(&linger, VB_LINGER_BESIDE_SLEEPERS + 1, 0, -1, false));
}

/* Packets of a stream, each takes WORK and the next comes so long after it was done. Returns for how much of the gaps it looked, in
 * percent. */
static vb_time looks_during(struct vb_linger *linger, vb_time work, vb_time gap)
{
	vb_time looked = 0;

	for (unsigned i = 0; i < ROUNDS; i++) {
		vb_time idle = 0;

		vb_linger_looked(linger, work, true);
		while (idle < gap && vb_linger_goes_on(linger, idle, 0, -1, false)) {
			vb_linger_looked(linger, VB_MICROSECONDS(1), false);
			idle += VB_MICROSECONDS(1);
		}
		if (idle < gap)
			vb_linger_slept(linger, gap - idle);
		looked += idle;
	}
	return looked * 100 / (ROUNDS * gap);
}

/* Nobody waits in the gaps of a stream: they are slept through but for the first microseconds. Those of two that wait for each other
 * are looked through. Whichever came before. */
static void the_gaps_of_a_stream_are_slept_through(void **state)
{
	const vb_time gap = VB_MICROSECONDS(60);
	struct vb_linger linger;

	(void)state;
	vb_linger_init(&linger);
	assert_in_range(looks_during(&linger, VB_MICROSECONDS(400), gap), 30, 40);
	assert_in_range(looks_during(&linger, VB_MICROSECONDS(2), gap), 95, 100);
	assert_in_range(looks_during(&linger, VB_MICROSECONDS(400), gap), 30, 40);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_that_were_asleep_stay_awake_soon),
		cmocka_unit_test(an_engine_thread_leaves_the_application_its_processor),
		cmocka_unit_test(a_long_sleep_makes_it_short_again),
		cmocka_unit_test(beside_threads_that_sleep_it_sleeps_soon),
		cmocka_unit_test(the_gaps_of_a_stream_are_slept_through),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
