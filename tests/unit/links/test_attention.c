/* SPDX-License-Identifier: MIT
 *
 * The engine thread falls asleep (links/memory/attention.c): it says so, has all processors execute a barrier, and
 * looks once more. That nothing is lost then is shown in tests/unit/litmus.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/sleep_flag.h"
#include "io/barrier.h"
#include "io/clock.h"
#include "links/memory/memory_link.h"

struct bed {
	struct vb_schedule *schedule;
	struct vb_same_host same_host;
};

/* A process with one queue pair that goes through memory, and which nobody polls for. */
static int make(void **state)
{
	struct bed *bed = calloc(1, sizeof(*bed));

	bed->schedule = aligned_alloc(VB_LINE, sizeof(*bed->schedule));
	memset(bed->schedule, 0, sizeof(*bed->schedule));
	vb_schedule_init(bed->schedule);
	bed->same_host.schedule = bed->same_host.link.schedule = bed->schedule;
	bed->same_host.link.members = 1;
	bed->same_host.segment = mmap(NULL, sizeof(struct vb_segment), PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_true(bed->same_host.segment != MAP_FAILED);
	*state = bed;
	return 0;
}

static int unmake(void **state)
{
	struct bed *bed = *state;

	vb_schedule_fini(bed->schedule);
	munmap(bed->same_host.segment, sizeof(struct vb_segment));
	free(bed->schedule);
	free(bed);
	return 0;
}

/* One look, after the barrier, is enough: no second one is waited for. */
static void the_first_look_is_enough(void **state)
{
	struct bed *bed = *state;

	vb_sleep_end(&bed->same_host.segment->header.asleep);
	assert_true(vb_attention_rest(&bed->same_host.link, VB_TIME_NEVER) == VB_TIME_NEVER);
	assert_int_equal(bed->same_host.segment->header.asleep, 1);
	assert_true(vb_attention_rest(&bed->same_host.link, VB_TIME_NEVER) == VB_TIME_NEVER);
}

static void what_is_there_is_found(void **state)
{
	struct bed *bed = *state;

	vb_sleep_end(&bed->same_host.segment->header.asleep);
	bed->same_host.look_at_all = true;
	assert_true(vb_attention_rest(&bed->same_host.link, VB_TIME_NEVER) == 0);
	bed->same_host.fruitful++;
	/* And it is asked again as long as it is there, whoever said that we sleep. */
	assert_true(vb_attention_rest(&bed->same_host.link, VB_TIME_NEVER) == 0);
}

/* A pass came to nothing: another thread has it locked, and may want this processor. */
static void what_is_held_is_waited_for(void **state)
{
	struct bed *bed = *state;
	vb_time before, until;

	bed->same_host.look_at_all = true;
	assert_true(vb_attention_rest(&bed->same_host.link, VB_TIME_NEVER) == 0);
	for (unsigned i = 0; i < 3; i++) {
		before = vb_clock_now();
		until = vb_attention_rest(&bed->same_host.link, VB_TIME_NEVER);
		assert_true(until >= before + VB_MICROSECONDS(20) && until <= vb_clock_now() + VB_MICROSECONDS(20));
	}
	/* It has let go. */
	bed->same_host.fruitful++;
	assert_true(vb_attention_rest(&bed->same_host.link, VB_TIME_NEVER) == 0);
	bed->same_host.look_at_all = false;
	assert_true(vb_attention_rest(&bed->same_host.link, VB_TIME_NEVER) == VB_TIME_NEVER);
	/* What comes then is something else. */
	bed->same_host.look_at_all = true;
	assert_true(vb_attention_rest(&bed->same_host.link, VB_TIME_NEVER) == 0);
}

/* Without barriers wakers have fences of their own: that is shown to them. */
static void who_cannot_have_barriers_says_so(void **state)
{
	struct bed *bed = *state;

	vb_attention_open(&bed->same_host);
	assert_int_equal(bed->same_host.segment->header.fenced, !vb_barrier_join());
	bed->same_host.segment->header.fenced = 1;
	vb_sleep_end(&bed->same_host.segment->header.asleep);
	assert_true(vb_attention_rest(&bed->same_host.link, VB_TIME_NEVER) == VB_TIME_NEVER);
	assert_int_equal(bed->same_host.segment->header.asleep, 1);
}

/* A barrier that is refused, though others count on it: the engine thread comes round. */
static void who_lost_them_does_not_sleep_for_ever(void **state)
{
	struct bed *bed = *state;

	bed->same_host.restless = true;
	assert_true(vb_attention_rest(&bed->same_host.link, VB_TIME_NEVER) <= vb_clock_now() + VB_MILLISECONDS(1));
}

/* A thread that arms a CQ says that we sleep, and looks itself. */
static void so_it_does_for_one_who_armed(void **state)
{
	struct bed *bed = *state;

	vb_sleep_end(&bed->same_host.segment->header.asleep);
	vb_attention_watched(&bed->same_host.link);
	assert_int_equal(bed->same_host.segment->header.asleep, 1);
	assert_true(vb_attention_rest(&bed->same_host.link, VB_TIME_NEVER) == VB_TIME_NEVER);
}

/* A process that was asleep long ago and stays so makes no wake-ups. */
static void nobody_who_sleeps_is_disturbed(void **state)
{
	struct bed *bed = *state;

	bed->same_host.segment->header.asleep = 1;
	bed->same_host.link.members = 0;
	assert_true(vb_attention_rest(&bed->same_host.link, VB_TIME_NEVER) == VB_TIME_NEVER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_first_look_is_enough, make, unmake),
		cmocka_unit_test_setup_teardown(what_is_there_is_found, make, unmake),
		cmocka_unit_test_setup_teardown(what_is_held_is_waited_for, make, unmake),
		cmocka_unit_test_setup_teardown(who_cannot_have_barriers_says_so, make, unmake),
		cmocka_unit_test_setup_teardown(who_lost_them_does_not_sleep_for_ever, make, unmake),
		cmocka_unit_test_setup_teardown(so_it_does_for_one_who_armed, make, unmake),
		cmocka_unit_test_setup_teardown(nobody_who_sleeps_is_disturbed, make, unmake),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
