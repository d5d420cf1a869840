/* SPDX-License-Identifier: MIT
 *
 * The wait on a handful of descriptors, with as many as it takes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
#include <cmocka.h>

#include "io/event.h"

static void each_of_all_is_seen(void **state)
{
	struct vb_wait_item items[VB_WAIT_ITEMS];

	(void)state;
	for (unsigned i = 0; i < VB_WAIT_ITEMS; i++) {
		items[i].fd = vb_event_open();
		assert_true(items[i].fd >= 0);
	}
	for (unsigned raised = 0; raised < VB_WAIT_ITEMS; raised++) {
		vb_event_raise(items[raised].fd);
		vb_wait(items, VB_WAIT_ITEMS, VB_TIME_NEVER);
		for (unsigned i = 0; i < VB_WAIT_ITEMS; i++)
			assert_int_equal(items[i].readable, i == raised);
		vb_event_clear(items[raised].fd);
	}
	vb_wait(items, VB_WAIT_ITEMS, 0);
	for (unsigned i = 0; i < VB_WAIT_ITEMS; i++) {
		assert_false(items[i].readable);
		close(items[i].fd);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_of_all_is_seen),
	};

	return cmocka_run_group_tests_name("progress/wait", tests, NULL, NULL);
}
