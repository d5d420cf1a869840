/* SPDX-License-Identifier: MIT
 *
 * A process whose slot is on a port of its user has multicast groups from verbenad (links/udp/multicast.c), which stands still. Each
 * queue pair would wait for it: all together for longer than a test may take. The first waits, and all are told.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#include "io/daemon_silence.h"
#include "lib/patience.h"
#include "lib/private_network.h"
#include "links/link.h"
#include "progress/endpoint_parts.h"
#include "unit/links/one_endpoint.h"

enum { GROUPS = 100, LOOPBACK = 1 /* the index of lo in every network namespace */ };

static bool on_users_port;

uint16_t __real_vb_udp_port(int fd);
uint16_t __wrap_vb_udp_port(int fd);

uint16_t __wrap_vb_udp_port(int fd)
{
	return on_users_port ? 20000 : __real_vb_udp_port(fd);
}

static void joining_waits_once(void **state)
{
	uint8_t group[16] = {[10] = 0xff, 0xff, 239, 1, 2, 0};
	struct vb_qp *qp = create_qp(0, 1, 1);
	pid_t daemon = (pid_t)endpoint->daemon.pid;

	(void)state;
	join(qp, qp, 18, 7);
	on_users_port = true;
	assert_int_equal(kill(daemon, SIGSTOP), 0);
	for (unsigned i = 0; i < GROUPS; i++) {
		group[15] = (uint8_t)i;
		assert_int_equal(vb_endpoint_attach_multicast(endpoint, qp, group, LOOPBACK), -ETIMEDOUT);
	}
	assert_int_equal(vb_daemon_silent_pid(), daemon);
	assert_int_equal(kill(daemon, SIGCONT), 0);
	assert_true(eventually(vb_endpoint_attach_multicast(endpoint, qp, group, LOOPBACK) == 0));
	assert_int_equal(vb_endpoint_detach_multicast(endpoint, qp, group, LOOPBACK), 0);
	on_users_port = false;
	destroy_qp(qp);
}

static int open_all(void **state)
{
	(void)state;
	open_endpoint(16);
	return 0;
}

static int close_all(void **state)
{
	(void)state;
	close_endpoint();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(joining_waits_once),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, open_all, close_all);
}
