/* SPDX-License-Identifier: MIT
 *
 * Receives that come to a shared queue while another thread is in a pass: the wake-up for them may be used up by an engine thread that
 * finds the pass taken. It must not sleep then, until a pass has looked.
 */
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "links/ethernet/ethernet_link.h"

static void nobody_sleeps_on_new_receives(void **state)
{
	static struct vb_schedule schedule;
	struct vb_link *link;

	(void)state;
	vb_schedule_init(&schedule);
	schedule.event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	assert_true(schedule.event_fd >= 0);
	assert_int_equal(vb_ethernet_link_open(&link, &schedule), 0);
	/* No queue pair waits for receives. */
	link->driver->replenished(link);
	assert_int_equal(link->driver->rest(link, VB_TIME_NEVER), VB_TIME_NEVER);
	vb_ethernet_link_of(link)->starved = 1;
	link->driver->replenished(link);
	assert_int_equal(link->driver->rest(link, VB_TIME_NEVER), 0);
	vb_lock_take(&schedule.progress);
	(void)link->driver->drain(link, 1, true);
	vb_lock_release(&schedule.progress);
	assert_int_equal(link->driver->rest(link, VB_TIME_NEVER), VB_TIME_NEVER);
	link->driver->close(link);
	close(schedule.event_fd);
	vb_schedule_fini(&schedule);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(nobody_sleeps_on_new_receives)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
