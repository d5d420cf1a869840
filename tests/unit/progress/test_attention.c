/* SPDX-License-Identifier: MIT
 *
 * The engine thread falls asleep (progress/local_attention.c): it looks twice before it sleeps without limit, since what a peer left may
 * become visible only after the first look, and that peer may have seen that somebody was awake.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "io/clock.h"
#include "progress/endpoint_parts.h"
#include "progress/same_host.h"

struct bed {
	struct vb_endpoint *endpoint;
	struct vb_same_host same_host;
};

/* A process with one queue pair that goes through memory, and which nobody polls for. */
static int make(void **state)
{
	struct bed *bed = calloc(1, sizeof(*bed));

	bed->endpoint = calloc(1, sizeof(*bed->endpoint));
	vb_lock_init(&bed->endpoint->progress);
	bed->endpoint->same_host = &bed->same_host;
	bed->endpoint->event_fd = -1;
	bed->same_host.endpoint = bed->endpoint;
	bed->same_host.members = 1;
	bed->same_host.board = mmap(NULL, sizeof(struct vb_board), PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_true(bed->same_host.board != MAP_FAILED);
	*state = bed;
	return 0;
}

static int unmake(void **state)
{
	struct bed *bed = *state;

	vb_lock_fini(&bed->endpoint->progress);
	munmap(bed->same_host.board, sizeof(struct vb_board));
	free(bed->endpoint);
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
	vb_time again = vb_local_attention_rest(&bed->same_host, VB_TIME_NEVER);

	assert_int_equal(bed->same_host.board->header.asleep, 1);
	assert_true(again > 0 && again <= vb_clock_now() + VB_MILLISECONDS(1));
	wait_until(again);
	assert_true(vb_local_attention_rest(&bed->same_host, VB_TIME_NEVER) == VB_TIME_NEVER);
	assert_true(vb_local_attention_rest(&bed->same_host, VB_TIME_NEVER) == VB_TIME_NEVER);
}

static void what_comes_to_light_late_is_found(void **state)
{
	struct bed *bed = *state;
	vb_time again = vb_local_attention_rest(&bed->same_host, VB_TIME_NEVER);

	bed->same_host.look_at_all = true;
	wait_until(again);
	assert_true(vb_local_attention_rest(&bed->same_host, VB_TIME_NEVER) == 0);
}

/* Whoever arms a CQ sets `asleep` itself: the engine thread is the one to look again. */
static void so_it_does_for_one_who_armed(void **state)
{
	struct bed *bed = *state;
	vb_time armed = vb_clock_now(), again;

	vb_local_attention_watch(&bed->same_host);
	assert_int_equal(bed->same_host.board->header.asleep, 1);
	again = vb_local_attention_rest(&bed->same_host, VB_TIME_NEVER);
	/* On a slow machine the time may be over already. */
	assert_true(again == VB_TIME_NEVER ? vb_clock_now() > armed + VB_MICROSECONDS(50) : again > armed);
	wait_until(bed->same_host.asleep_since + VB_MILLISECONDS(1));
	assert_true(vb_local_attention_rest(&bed->same_host, VB_TIME_NEVER) == VB_TIME_NEVER);
}

/* A process that was asleep long ago and stays so makes no wake-ups. */
static void nobody_who_sleeps_is_disturbed(void **state)
{
	struct bed *bed = *state;

	bed->same_host.board->header.asleep = 1;
	bed->same_host.members = 0;
	assert_true(vb_local_attention_rest(&bed->same_host, VB_TIME_NEVER) == VB_TIME_NEVER);
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
