/* SPDX-License-Identifier: MIT
 *
 * The engine thread falls asleep (links/memory/attention.c): it looks twice before it sleeps without limit, since what a peer left may
 * become visible only after the first look, and that peer may have seen that somebody was awake.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

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
	bed->same_host.board = mmap(NULL, sizeof(struct vb_board), PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_true(bed->same_host.board != MAP_FAILED);
	*state = bed;
	return 0;
}

static int unmake(void **state)
{
	struct bed *bed = *state;

	vb_schedule_fini(bed->schedule);
	munmap(bed->same_host.board, sizeof(struct vb_board));
	free(bed->schedule);
	free(bed);
	return 0;
}

static void wait_until(vb_time when)
{
	while (vb_clock_now() < when)
		;
}

static void the_second_look_comes_soon(void **state)
{
	struct bed *bed = *state;
	vb_time again = vb_attention_rest(&bed->same_host.link, VB_TIME_NEVER);

	assert_int_equal(bed->same_host.board->header.asleep, 1);
	assert_true(again > 0 && again <= vb_clock_now() + VB_MILLISECONDS(1));
	wait_until(again);
	assert_true(vb_attention_rest(&bed->same_host.link, VB_TIME_NEVER) == VB_TIME_NEVER);
	assert_true(vb_attention_rest(&bed->same_host.link, VB_TIME_NEVER) == VB_TIME_NEVER);
}

static void what_comes_to_light_late_is_found(void **state)
{
	struct bed *bed = *state;
	vb_time again = vb_attention_rest(&bed->same_host.link, VB_TIME_NEVER);

	bed->same_host.look_at_all = true;
	wait_until(again);
	assert_true(vb_attention_rest(&bed->same_host.link, VB_TIME_NEVER) == 0);
}

/* Whoever arms a CQ sets `asleep` itself: the engine thread is the one to look again. */
static void so_it_does_for_one_who_armed(void **state)
{
	struct bed *bed = *state;
	vb_time armed = vb_clock_now(), again;

	vb_attention_watched(&bed->same_host.link);
	assert_int_equal(bed->same_host.board->header.asleep, 1);
	again = vb_attention_rest(&bed->same_host.link, VB_TIME_NEVER);
	/* On a slow machine the time may be over already. */
	assert_true(again == VB_TIME_NEVER ? vb_clock_now() > armed + VB_MICROSECONDS(50) : again > armed);
	wait_until(bed->same_host.asleep_since + VB_MILLISECONDS(1));
	assert_true(vb_attention_rest(&bed->same_host.link, VB_TIME_NEVER) == VB_TIME_NEVER);
}

/* A process that was asleep long ago and stays so makes no wake-ups. */
static void nobody_who_sleeps_is_disturbed(void **state)
{
	struct bed *bed = *state;

	bed->same_host.board->header.asleep = 1;
	bed->same_host.link.members = 0;
	assert_true(vb_attention_rest(&bed->same_host.link, VB_TIME_NEVER) == VB_TIME_NEVER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_second_look_comes_soon, make, unmake),
		cmocka_unit_test_setup_teardown(what_comes_to_light_late_is_found, make, unmake),
		cmocka_unit_test_setup_teardown(so_it_does_for_one_who_armed, make, unmake),
		cmocka_unit_test_setup_teardown(nobody_who_sleeps_is_disturbed, make, unmake),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
