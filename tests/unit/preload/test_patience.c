/* SPDX-License-Identifier: MIT
 *
 * How long to look before sleeping, against peers that answer after a fixed time, in virtual time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "preload/sockets/patience.h"

#define WAKING VB_MICROSECONDS(20)

static vb_time now = VB_SECONDS(100);

/* Something comes `after` this long. True: it was seen without a sleep. */
static bool waits(struct vb_patience *patience, vb_time after)
{
	vb_time length = vb_patience_length(patience, now);

	now += after;
	if (after <= length)
		return true;
	now += WAKING;
	vb_patience_slept(patience, after - length + WAKING, now, false);
	return false;
}

static unsigned sleeps(struct vb_patience *patience, vb_time after, unsigned rounds)
{
	unsigned slept = 0;

	for (unsigned i = 0; i < rounds; i++)
		slept += !waits(patience, after);
	return slept;
}

static void quick_answers_are_seen_without_a_sleep(void **state)
{
	(void)state;
	for (vb_time after = VB_MICROSECONDS(1); after <= VB_PATIENCE_MOST; after += VB_MICROSECONDS(1)) {
		struct vb_patience patience = {0};

		assert_in_range(sleeps(&patience, after, 100), 0, 6);
		assert_int_equal(sleeps(&patience, after, 100), 0);
	}
}

static void who_waits_for_long_hardly_looks(void **state)
{
	struct vb_patience patience = {0};

	(void)state;
	assert_int_equal(vb_patience_length(&patience, now), VB_PATIENCE_LEAST);
	assert_int_equal(sleeps(&patience, VB_MICROSECONDS(300), 10), 10);
	assert_int_equal(vb_patience_length(&patience, now), VB_PATIENCE_LEAST);
	/* Also after quick answers, from the first long sleep on. */
	sleeps(&patience, VB_MICROSECONDS(40), 20);
	assert_in_range(vb_patience_length(&patience, now), VB_MICROSECONDS(40), VB_PATIENCE_MOST);
	assert_int_equal(sleeps(&patience, VB_MILLISECONDS(1), 1), 1);
	assert_int_equal(vb_patience_length(&patience, now), VB_PATIENCE_LEAST);
}

/* Two sides that sleep wake each other so late that no sleep is short; if one of them looks, what comes comes soon. */
static void two_that_sleep_find_out(void **state)
{
	struct vb_patience patience = {0};
	unsigned slept = 0;

	(void)state;
	for (unsigned i = 0; i < 1000; i++) {
		bool looks = vb_patience_length(&patience, now) >= VB_MICROSECONDS(30);

		slept += !waits(&patience, looks ? VB_MICROSECONDS(30) : VB_MICROSECONDS(300));
	}
	assert_int_equal(slept, VB_PATIENCE_TRIES);
}

static void tries_are_few(void **state)
{
	struct vb_patience patience = {0};
	vb_time looked = 0;

	(void)state;
	for (unsigned i = 0; i < 1600; i++) {
		looked += vb_patience_length(&patience, now);
		waits(&patience, VB_MICROSECONDS(500));
	}
	assert_int_equal(looked, 1500 * VB_PATIENCE_LEAST + 100 * VB_PATIENCE_MOST - VB_PATIENCE_MOST + VB_PATIENCE_LEAST);
}

/* Learned from short sleeps: the most, as long as nothing else is said. */
static struct vb_patience in_conversation(void)
{
	struct vb_patience patience = {0};

	while (vb_patience_length(&patience, now) < VB_PATIENCE_MOST)
		vb_patience_slept(&patience, VB_MICROSECONDS(50), now, false);
	return patience;
}

static void one_that_has_been_awake_looks_for_as_long(void **state)
{
	struct vb_patience patience = in_conversation();

	(void)state;
	now += VB_MICROSECONDS(99);
	assert_int_equal(vb_patience_length(&patience, now), VB_PATIENCE_MOST);
	now += VB_MICROSECONDS(301);
	assert_int_equal(vb_patience_length(&patience, now), VB_MICROSECONDS(400));
	now += VB_SECONDS(1);
	assert_int_equal(vb_patience_length(&patience, now), VB_PATIENCE_BUSY);
	/* Until it sleeps. */
	vb_patience_slept(&patience, VB_MICROSECONDS(200), now, false);
	assert_int_equal(vb_patience_length(&patience, now), VB_PATIENCE_MOST);
	vb_patience_slept(&patience, VB_PATIENCE_LONG_SLEEP, now, false);
	now += VB_SECONDS(1);
	assert_int_equal(vb_patience_length(&patience, now), VB_PATIENCE_LEAST);
}

/* A peer that takes 300 us for each turn, of which the first few are seen late: too long for VB_PATIENCE_MOST. */
static void slow_turns_are_seen_without_a_sleep(void **state)
{
	struct vb_patience patience = in_conversation();

	(void)state;
	for (vb_time turn = VB_MICROSECONDS(50); turn <= VB_MICROSECONDS(300); turn += VB_MICROSECONDS(50))
		assert_true(waits(&patience, turn));
	for (unsigned i = 0; i < 100; i++)
		assert_true(waits(&patience, VB_MICROSECONDS(300)));
}

/* Whatever comes when: looks that end in a sleep take no longer than the time before them, or VB_PATIENCE_MOST each. */
static void half_of_the_time_at_most_is_looked_for_nothing(void **state)
{
	struct vb_patience patience = {0};
	uint64_t seed = 88172645463325252ull;
	vb_time nothing = 0, awake = 0, before;
	unsigned slept = 0;

	(void)state;
	for (unsigned i = 0; i < 100000; i++) {
		vb_time length, after;

		seed = seed * 6364136223846793005ull + 1442695040888963407ull;
		after = (vb_time)(seed >> 33) % (seed >> 32 & 1 ? VB_MICROSECONDS(100) : VB_MILLISECONDS(2));
		now += VB_MICROSECONDS(10);
		awake += VB_MICROSECONDS(10);
		length = vb_patience_length(&patience, now);
		before = now;
		if (waits(&patience, after)) {
			awake += now - before;
		} else {
			nothing += length;
			slept++;
		}
	}
	assert_true(slept > 1000);
	assert_true(nothing <= awake + slept * VB_PATIENCE_MOST);
}

/* It looks, a microsecond each time, and then another thread has its processor for a while. True: it may look on. */
static bool loses_its_processor(struct vb_patience *patience, vb_time for_so_long)
{
	vb_time end = now + VB_PATIENCE_MOST, last = now;

	for (unsigned i = 0; i < 10; i++) {
		now += VB_MICROSECONDS(1);
		assert_true(vb_patience_goes_on(patience, &last, now, end));
	}
	now += for_so_long;
	return vb_patience_goes_on(patience, &last, now, end);
}

static void who_loses_its_processor_sleeps_instead(void **state)
{
	struct vb_patience patience = in_conversation();

	(void)state;
	vb_patience_slept(&patience, VB_MICROSECONDS(50), now, true);
	assert_true(loses_its_processor(&patience, VB_PATIENCE_AWAY - 1));
	assert_int_equal(vb_patience_length(&patience, now), VB_PATIENCE_MOST);
	assert_false(loses_its_processor(&patience, VB_PATIENCE_AWAY));
	for (unsigned i = 0; i < VB_PATIENCE_CROWDED; i++) {
		assert_int_equal(vb_patience_length(&patience, now), 0);
		vb_patience_slept(&patience, VB_MICROSECONDS(50), now, true);
	}
	/* The others may be gone. */
	assert_int_equal(vb_patience_length(&patience, now), VB_PATIENCE_MOST);
}

/* Two threads wake it one after the other, and take the processor while they do. */
static void but_not_where_others_must_wake_it(void **state)
{
	struct vb_patience patience = in_conversation();

	(void)state;
	assert_true(loses_its_processor(&patience, VB_PATIENCE_AWAY));
	assert_int_equal(vb_patience_length(&patience, now), VB_PATIENCE_MOST);
	vb_patience_slept(&patience, VB_MICROSECONDS(50), now, true);
	assert_false(loses_its_processor(&patience, VB_PATIENCE_AWAY));
	assert_int_equal(vb_patience_length(&patience, now), 0);
	vb_patience_slept(&patience, VB_MICROSECONDS(50), now, false);
	assert_int_equal(vb_patience_length(&patience, now), VB_PATIENCE_MOST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quick_answers_are_seen_without_a_sleep),
		cmocka_unit_test(who_waits_for_long_hardly_looks),
		cmocka_unit_test(two_that_sleep_find_out),
		cmocka_unit_test(tries_are_few),
		cmocka_unit_test(one_that_has_been_awake_looks_for_as_long),
		cmocka_unit_test(slow_turns_are_seen_without_a_sleep),
		cmocka_unit_test(half_of_the_time_at_most_is_looked_for_nothing),
		cmocka_unit_test(who_loses_its_processor_sleeps_instead),
		cmocka_unit_test(but_not_where_others_must_wake_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
