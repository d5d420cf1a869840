/* SPDX-License-Identifier: MIT
 *
 * Who sends what was put off, in virtual time (schedule/naps.h, schedule/spinner.h): threads of an application that poll, post, stop, look
 * at their memory or find completions each time, at random; and the engine thread, which naps as long as it may. Work that was put
 * off leaves within VB_LONGEST_PUT_OFF. And how long packets lie there for a program that waits by looking at its memory.
 * The seed is printed; VB_SEED sets it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "schedule/naps.h"

/* What a thread of the application does for a while. */
enum habit { POLLS_IN_VAIN, FINDS_COMPLETIONS, POSTS_ONLY, POSTS_AND_POLLS, STOPS, ARMS, HABITS };

static struct {
	struct vb_spinner spinner;
	struct vb_naps naps;
	vb_time now;
	vb_time put_off;                   /* since when work waits; 0: none does */
	vb_time longest;
	unsigned passes, times;
	/* The engine thread. */
	enum { ASLEEP, NAPPING, BETWEEN_NAPS } engine;
	vb_time nap_ends;
	bool kicked;
	bool told;                         /* vb_schedule.told */
	bool packet;                       /* one lies in the socket */
	bool packets_told;                 /* they come when `packet` says so; else one lies there now and then */
	uint64_t seed;
} world;

static uint64_t draw(uint64_t below)
{
	world.seed ^= world.seed << 13;
	world.seed ^= world.seed >> 7;
	world.seed ^= world.seed << 17;
	return world.seed % below;
}

static void pass(void)
{
	world.passes++;
	world.spinner.pass++;
	if (world.put_off != 0 && world.now - world.put_off > world.longest)
		world.longest = world.now - world.put_off;
	world.put_off = 0;
	world.packet = false;
}

static struct vb_naps_view view(void)
{
	return (struct vb_naps_view){
		.spins = vb_spinner_spins(&world.spinner, world.now),
		.seen = vb_spinner_last_seen(&world.spinner),
		.pass = world.spinner.pass,
		.put_off = world.put_off != 0,
	};
}

/* It makes a pass, and then sleeps until it is told. */
static void work(void)
{
	pass();
	world.engine = ASLEEP;
	world.told = false;
}

/* As progress/engine.c: it was woken, or a nap is over. It naps again, or works. */
static void decide(void)
{
	struct vb_naps_view seen = view();

	if (vb_naps_begin(&world.naps, &seen)) {
		world.engine = NAPPING;
		world.nap_ends = world.now + world.naps.length;
	} else {
		work();
	}
	world.spinner.napping = world.engine == NAPPING;
}

static void end_nap(void)
{
	bool disturbed = world.kicked;
	struct vb_naps_view seen = view();
	enum vb_nap_end end = disturbed ? VB_NAP_WORK : vb_naps_end(&world.naps, &seen);

	world.kicked = false;
	world.spinner.napping = false;
	/* No thread polls, and packets lie there. */
	if (end == VB_NAP_LOOK && (world.packets_told ? world.packet : draw(4) == 0)) {
		vb_naps_learn_bad(&world.naps);
		end = VB_NAP_WORK;
	}
	if (end == VB_NAP_WORK)
		work();
	else
		world.engine = BETWEEN_NAPS;
}

static void run_engine(void)
{
	if (world.engine == BETWEEN_NAPS) {
		decide();
	} else if (world.engine == ASLEEP && world.kicked) {
		world.kicked = false;
		decide();
	} else if (world.engine == NAPPING && (world.kicked || world.now >= world.nap_ends)) {
		end_nap();
	}
}

/* vb_schedule_defer. */
static void post(void)
{
	vb_spinner_note_post(&world.spinner, world.now);
	if (!vb_spinner_may_put_off(&world.spinner, world.now))
		return;
	world.times++;
	if (world.put_off == 0)
		world.put_off = world.now;
	if (world.spinner.napping || world.told)
		return;
	world.kicked = world.told = true;
}

static void poll_in_vain(void)
{
	(void)vb_spinner_polled_empty(&world.spinner, world.now);
	pass();
}

static void poll_with_success(void)
{
	if (vb_spinner_polled(&world.spinner, false))
		vb_spinner_seen(&world.spinner, world.now);
}

static void act(enum habit habit)
{
	switch (habit) {
	case POLLS_IN_VAIN:
		poll_in_vain();
		break;
	case FINDS_COMPLETIONS:
		poll_with_success();
		if (draw(8) == 0)
			post();
		break;
	case POSTS_ONLY:
		post();
		break;
	case POSTS_AND_POLLS:
		if (draw(3) == 0)
			post();
		else
			poll_in_vain();
		break;
	case ARMS:
		if (draw(100) == 0 && vb_spinner_watch(&world.spinner, world.now))
			world.kicked = true;
		break;
	default:
		break;
	}
}

/* In steps of up to two microseconds. `habit`: HABITS for one after the other, at random. */
static void live(vb_time how_long, enum habit habit)
{
	vb_time until = world.now + how_long, changes = 0;
	enum habit current = habit;

	while (world.now < until) {
		if (habit == HABITS && world.now >= changes) {
			current = (enum habit)draw(HABITS);
			changes = world.now + (vb_time)draw(VB_MILLISECONDS(3));
		}
		act(current);
		world.now += 1 + (vb_time)draw(VB_MICROSECONDS(2));
		run_engine();
		if (world.put_off != 0)
			assert_true(world.now - world.put_off <= VB_LONGEST_PUT_OFF + VB_MICROSECONDS(2));
	}
}

static int make(void **state)
{
	const char *wish = getenv("VB_SEED");

	(void)state;
	world = (typeof(world)){.now = VB_SECONDS(1)};
	world.seed = wish ? strtoull(wish, NULL, 0) : 88172645463325252ull;
	print_message("seed %llu\n", (unsigned long long)world.seed);
	vb_naps_init(&world.naps);
	return 0;
}

static void whatever_the_threads_do(void **state)
{
	(void)state;
	live(VB_SECONDS(2), HABITS);
	print_message("%u times put off, at most for %lld us\n", world.times, (long long)world.longest / 1000);
	assert_true(world.times > 1000);
}

/* A thread that polls a CQ in which there is always something makes no pass, but is seen to poll: the engine thread does not wait
 * for it. */
static void a_thread_that_finds_completions_each_time(void **state)
{
	(void)state;
	live(VB_MILLISECONDS(20), POLLS_IN_VAIN);
	live(VB_MILLISECONDS(200), FINDS_COMPLETIONS);
	assert_true(world.times > 1000);
}

static void a_thread_that_posts_and_stops(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 50; i++) {
		live(VB_MILLISECONDS(5), POLLS_IN_VAIN);
		live(VB_MICROSECONDS(20), POSTS_ONLY);
		live(VB_MILLISECONDS(5), STOPS);
		assert_true(world.put_off == 0);
	}
	assert_true(world.times > 50);
}

/* One that has never polled is not waited for at all. */
static void nothing_is_put_off_where_no_thread_polls(void **state)
{
	(void)state;
	live(VB_MILLISECONDS(20), POSTS_ONLY);
	assert_int_equal(world.times, 0);
}

static void naps_grow_and_shrink(void **state)
{
	struct vb_naps_view seen = {.spins = true};
	unsigned naps = 0;

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		assert_true(vb_naps_begin(&world.naps, &seen));
		seen.seen++;
		assert_int_equal(vb_naps_end(&world.naps, &seen), VB_NAP_AGAIN);
	}
	assert_true(world.naps.length == VB_LONGEST_NAP);
	/* No thread polls, and something waits, each time: few naps are taken then, and short ones. */
	for (unsigned i = 0; i < 10000; i++) {
		if (!vb_naps_begin(&world.naps, &seen))
			continue;
		assert_int_equal(vb_naps_end(&world.naps, &seen), VB_NAP_LOOK);
		vb_naps_learn_bad(&world.naps);
		naps++;
	}
	assert_true(naps < 16);
	assert_true(world.naps.length <= VB_MICROSECONDS(4));
}

/* A thread polls all the time, and each nap costs so much processor time. How long the engine thread slept of that, in a second. */
static vb_time sleep_beside_a_spinner(vb_time cost)
{
	struct vb_naps_view seen = {.spins = true};
	vb_time slept = 0, now = 0;

	while (now < VB_SECONDS(1)) {
		assert_true(vb_naps_begin(&world.naps, &seen));
		slept += world.naps.length;
		now += world.naps.length + cost;
		if (vb_naps_is_measured(&world.naps))
			vb_naps_learn_cost(&world.naps, cost);
		seen.seen++;
		assert_int_equal(vb_naps_end(&world.naps, &seen), VB_NAP_AGAIN);
	}
	return slept;
}

/* For the millisecond that it has, a handful of naps and not hundreds. And they were bad after all if it does not come. */
static void naps_for_one_that_is_about_to_run_are_few(void **state)
{
	vb_time waited = 0;
	unsigned count = 0;

	(void)state;
	world.naps.length = VB_MICROSECONDS(4);
	for (; waited < VB_MILLISECONDS(1); waited += world.naps.length, count++)
		vb_naps_lengthen(&world.naps);
	assert_in_range(count, 1, 10);
	vb_naps_lengthen(&world.naps);
	vb_naps_lengthen(&world.naps);
	assert_true(world.naps.length == VB_LONGEST_NAP);
	for (count = 0; world.naps.length > 0; count++)
		vb_naps_learn_bad(&world.naps);
	assert_int_equal(count, 3);
}

static void naps_that_cost_much_are_longer(void **state)
{
	(void)state;
	sleep_beside_a_spinner(VB_MICROSECONDS(10));
	assert_true(world.naps.length == VB_LONGEST_NAP);
	/* In an emulated guest: an eighth of the time at most, and not a third. */
	sleep_beside_a_spinner(VB_MICROSECONDS(500));
	assert_true(sleep_beside_a_spinner(VB_MICROSECONDS(500)) > VB_MILLISECONDS(875));
	sleep_beside_a_spinner(VB_MILLISECONDS(10));
	assert_true(world.naps.length == VB_LONGEST_COSTLY_NAP);
	sleep_beside_a_spinner(VB_MICROSECONDS(10));
	assert_true(world.naps.length == VB_LONGEST_NAP);
}

/* As ib_write_lat: it posts a WRITE, polls for its completion and then looks at its memory until the peer's WRITE is there. What
 * comes meanwhile only the engine thread can take in: at once, and not after a nap. `answer`: how long polls are in vain, 0 where the
 * completion is there with the first poll (UC). Returns how long the peer's WRITEs lay there on average. */
static vb_time look_at_memory(vb_time answer, unsigned rounds)
{
	const vb_time step = 250, peer_thinks = VB_MICROSECONDS(1);
	vb_time waited = 0, arrived;

	for (unsigned i = 0; i < rounds; i++) {
		vb_time until = world.now + answer;

		vb_spinner_note_post(&world.spinner, world.now);
		for (; world.now < until; world.now += step, run_engine())
			poll_in_vain();
		/* The acknowledgement wakes an engine thread that sleeps, too. */
		if (answer > 0)
			world.kicked = world.kicked || world.engine == ASLEEP;
		if (vb_spinner_polled(&world.spinner, answer > 0))
			vb_spinner_seen(&world.spinner, world.now);
		for (until = world.now + peer_thinks + (vb_time)draw(VB_MICROSECONDS(6)); world.now < until; world.now += step)
			run_engine();
		arrived = world.now;
		world.packet = true;
		world.kicked = world.kicked || world.engine == ASLEEP;
		for (run_engine(); world.packet; run_engine())
			world.now += step;
		waited += world.now - arrived;
	}
	return waited / rounds;
}

static void who_looks_at_memory_is_served_at_once(void **state)
{
	(void)state;
	world.packets_told = true;
	for (vb_time answer = 0; answer <= VB_MICROSECONDS(8); answer += VB_MICROSECONDS(2)) {
		vb_time at_first, then;

		/* After one that only polls, for whom naps are as long as they get. */
		vb_naps_init(&world.naps);
		world.naps.length = VB_LONGEST_NAP;
		at_first = look_at_memory(answer, 1000);
		then = look_at_memory(answer, 10000);
		print_message("%lld us of polling: %lld ns, then %lld ns\n", (long long)answer / 1000, (long long)at_first,
			      (long long)then);
		assert_true(then < VB_MICROSECONDS(1));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(whatever_the_threads_do, make),
		cmocka_unit_test_setup(a_thread_that_finds_completions_each_time, make),
		cmocka_unit_test_setup(a_thread_that_posts_and_stops, make),
		cmocka_unit_test_setup(nothing_is_put_off_where_no_thread_polls, make),
		cmocka_unit_test_setup(naps_grow_and_shrink, make),
		cmocka_unit_test_setup(naps_for_one_that_is_about_to_run_are_few, make),
		cmocka_unit_test_setup(naps_that_cost_much_are_longer, make),
		cmocka_unit_test_setup(who_looks_at_memory_is_served_at_once, make),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
