/* SPDX-License-Identifier: MIT
 *
 * When the engine thread leaves the work to the application (schedule/spinner.c): while somebody polls, and while somebody who
 * polled a moment ago posts many requests, which takes longer than a poll counts as fresh. Not for one who has gone to sleep, nor
 * for one who only posts. And when a thread that polls in vain gives its processor away.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Its statics are what is looked at. */
#include "schedule/spinner.c"

static struct vb_spinner spinner;

static int make(void **state)
{
	(void)state;
	spinner = (struct vb_spinner){0};
	return 0;
}

/* What it thinks when the last poll and the last post were so long ago; 0: never. */
static bool spins_after(vb_time polled_ago, vb_time posted_ago)
{
	const vb_time now = VB_SECONDS(100);

	spinner.stamp = polled_ago ? now - polled_ago : 0;
	spinner.post_stamp = 0;
	if (posted_ago)
		vb_spinner_note_post(&spinner, now - posted_ago);
	return vb_spinner_spins(&spinner, now);
}

static void polling_is_seen(void **state)
{
	(void)state;
	assert_false(spins_after(0, 0));
	assert_true(spins_after(STAMP_IS_FRESH / 4, 0));
	assert_false(spins_after(2 * STAMP_IS_FRESH, 0));
}

static void posting_counts_as_polling(void **state)
{
	(void)state;
	assert_true(spins_after(4 * STAMP_IS_FRESH, STAMP_IS_FRESH / 4));
	/* That was long ago, too. */
	assert_false(spins_after(4 * STAMP_IS_FRESH, 2 * STAMP_IS_FRESH));
	/* Whoever posts for so long may never poll. */
	assert_false(spins_after(LONGEST_POSTING + STAMP_IS_FRESH, STAMP_IS_FRESH / 4));
	assert_false(spins_after(0, STAMP_IS_FRESH / 4));
}

static bool looks_elsewhere_after(vb_time polled_ago)
{
	(void)spins_after(polled_ago, 0);
	return vb_spinner_looks_elsewhere(&spinner, VB_SECONDS(100));
}

/* Its acknowledgements may await an answer (roce/await.c). */
static void one_who_polled_before_may_look_elsewhere(void **state)
{
	(void)state;
	assert_false(looks_elsewhere_after(0));
	assert_true(looks_elsewhere_after(2 * STAMP_IS_FRESH));
	assert_true(looks_elsewhere_after(POLLED_BEFORE / 2));
	assert_false(looks_elsewhere_after(2 * POLLED_BEFORE));
	/* One that sleeps does not look. */
	(void)vb_spinner_watch(&spinner, VB_SECONDS(100));
	assert_false(looks_elsewhere_after(2 * STAMP_IS_FRESH));
}

static void one_who_goes_to_sleep_does_not_spin(void **state)
{
	(void)state;
	assert_false(vb_spinner_watch(&spinner, VB_SECONDS(100)));
	assert_false(spins_after(STAMP_IS_FRESH / 4, STAMP_IS_FRESH / 8));
}

static void one_who_armed_long_ago_may_look_at_memory(void **state)
{
	const vb_time now = VB_SECONDS(100);

	(void)state;
	assert_false(vb_spinner_sleeps(&spinner, now));
	vb_spinner_watch(&spinner, now);
	assert_true(vb_spinner_sleeps(&spinner, now + ARMED_LATELY - 1));
	assert_false(vb_spinner_sleeps(&spinner, now + ARMED_LATELY));
	/* Or polls by now. */
	vb_spinner_watch(&spinner, now);
	for (unsigned i = 0; i <= POLLS_OF_A_SPINNER; i++)
		vb_spinner_polled_empty(&spinner, now);
	assert_false(vb_spinner_sleeps(&spinner, now));
}

static unsigned polls_until_yield(uint32_t *vain, unsigned weight)
{
	unsigned polls = weight;

	while (!vb_spinner_must_yield(vain, weight, false)) {
		assert_true(polls < 2 * POLLS_BEFORE_YIELD);
		polls += weight;
	}
	return polls;
}

static void on_one_processor_it_does_so_soon(void **state)
{
	(void)state;
	vb_spinner_set_processors(1);
	for (unsigned weight = 1; weight <= POLLS_PER_YIELD_OF_ONE; weight *= 2) {
		uint32_t vain = 0;

		for (unsigned again = 0; again < 10; again++)
			assert_int_equal(polls_until_yield(&vain, weight), POLLS_PER_YIELD_OF_ONE);
		assert_false(vb_spinner_must_yield(&vain, weight, true));
	}
	vb_spinner_set_processors(2);
}

/* The peer may be on another processor, or another host. */
static void where_no_other_runs_meanwhile_it_does_not(void **state)
{
	uint32_t vain = 0;

	(void)state;
	vb_spinner_set_processors(1);
	for (unsigned i = 0; i < YIELDS_IN_VAIN; i++) {
		assert_int_equal(polls_until_yield(&vain, 1), POLLS_PER_YIELD_OF_ONE);
		vb_spinner_yielded(OTHERS_RAN / 2);
	}
	vain = 0;
	assert_true(polls_until_yield(&vain, 1) > POLLS_BEFORE_YIELD);
	/* Once others do, it is as before. */
	vb_spinner_yielded(OTHERS_RAN);
	vain = 0;
	assert_int_equal(polls_until_yield(&vain, 1), POLLS_PER_YIELD_OF_ONE);
	vb_spinner_set_processors(2);
}

/* However much each of its looks counts: at memory, at rings of datagrams, at a pass of another thread, at sockets. */
static void who_polls_in_vain_gives_its_processor_away(void **state)
{
	static const unsigned weights[] = {1, 6, 10, 40};

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		uint32_t vain = 0;

		for (unsigned again = 0; again < 2; again++) {
			assert_in_range(polls_until_yield(&vain, weights[i]), POLLS_BEFORE_YIELD,
					POLLS_BEFORE_YIELD + POLLS_PER_YIELD + weights[i]);
			for (unsigned more = 0; more < 10; more++)
				assert_in_range(polls_until_yield(&vain, weights[i]), POLLS_PER_YIELD - weights[i],
						POLLS_PER_YIELD + weights[i]);
			assert_false(vb_spinner_must_yield(&vain, weights[i], true));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(polling_is_seen, make),
		cmocka_unit_test_setup(posting_counts_as_polling, make),
		cmocka_unit_test_setup(one_who_polled_before_may_look_elsewhere, make),
		cmocka_unit_test_setup(one_who_goes_to_sleep_does_not_spin, make),
		cmocka_unit_test_setup(one_who_armed_long_ago_may_look_at_memory, make),
		cmocka_unit_test_setup(on_one_processor_it_does_so_soon, make),
		cmocka_unit_test_setup(where_no_other_runs_meanwhile_it_does_not, make),
		cmocka_unit_test_setup(who_polls_in_vain_gives_its_processor_away, make),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
