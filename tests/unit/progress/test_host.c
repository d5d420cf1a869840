/* SPDX-License-Identifier: MIT
 *
 * What tells hosts apart: the same whenever it is asked for, and another in a network namespace of its own, which is another host to RDMA.
 */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/host.h"

enum { SAME = 1, ANOTHER = 2, SKIPPED = 77 };

static void namespaces_are_hosts(void **state)
{
	uint64_t seed = vb_host_seed();
	pid_t child;
	int status;

	(void)state;
	assert_true(seed == vb_host_seed());
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
			_exit(SKIPPED);
		_exit(vb_host_seed() == seed ? SAME : ANOTHER);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == SKIPPED)
		skip();
	assert_int_equal(WEXITSTATUS(status), ANOTHER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(namespaces_are_hosts)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
