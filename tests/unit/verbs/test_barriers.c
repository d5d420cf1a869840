/* SPDX-License-Identifier: MIT
 *
 * The process has joined memory barriers when main begins: to join once there are threads takes milliseconds, and a program that opens
 * its device in the middle of its work waits for that.
 */
#include <dirent.h>
#include <linux/membarrier.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <infiniband/verbs.h>

enum { GET_REGISTRATIONS = 1 << 9 };       /* Linux 6.3 */

static long ask(int command)
{
	return syscall(SYS_membarrier, command, 0, 0);
}

static unsigned count_threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	unsigned count = 0;

	assert_non_null(tasks);
	for (struct dirent *entry = readdir(tasks); entry; entry = readdir(tasks))
		count += entry->d_name[0] != '.';
	closedir(tasks);
	return count;
}

/* Sanitizers have threads of their own. */
static bool can_have_joined(void)
{
	long can = ask(MEMBARRIER_CMD_QUERY);

	/* So that the library is there. */
	assert_non_null(ibv_wc_status_str(IBV_WC_SUCCESS));
	return can > 0 && (can & MEMBARRIER_CMD_PRIVATE_EXPEDITED) && count_threads() == 1;
}

static void own_barriers_can_be_had_without_opening_anything(void **state)
{
	(void)state;
	if (!can_have_joined())
		skip();
	assert_int_equal(ask(MEMBARRIER_CMD_PRIVATE_EXPEDITED), 0);
}

static void barriers_of_others_are_taken_part_in(void **state)
{
	long joined = ask(GET_REGISTRATIONS);

	(void)state;
	if (!can_have_joined() || joined < 0)
		skip();
	assert_true(joined & MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(own_barriers_can_be_had_without_opening_anything),
		cmocka_unit_test(barriers_of_others_are_taken_part_in),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
