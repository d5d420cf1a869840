/* SPDX-License-Identifier: MIT
 *
 * verbenad stands still (a signal, a debugger) while a program makes many connections. Each end would ask it who has the peer, and
 * wait: all together for longer than a test may take. One waits, the others go by wire at once, and all of them work. Devices cannot
 * be opened without it: who tries is told, and waits once.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/one_world.h"
#include "lib/patience.h"
#include "lib/private_network.h"

enum { PAIRS = 100, LENGTH = 64 };

static pid_t daemon_pid(void)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "\0verbena/1"};
	struct ucred daemon;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, (struct sockaddr *)&name, offsetof(struct sockaddr_un, sun_path) + 10), 0);
	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &daemon, &(socklen_t){sizeof(daemon)}), 0);
	close(fd);
	return daemon.pid;
}

static struct ibv_wc poll_one(struct ibv_cq *cq)
{
	struct ibv_wc wc = {0};

	assert_true(eventually(ibv_poll_cq(cq, 1, &wc) == 1));
	return wc;
}

static void write_through(struct pair *pair, uint32_t seed)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = pair_request(pair, 0, IBV_WR_RDMA_WRITE, &sge, 0, LENGTH), *bad;

	fill_pattern(pair->buffer[0], LENGTH, seed);
	assert_int_equal(ibv_post_send(pair->qp[0], &wr, &bad), 0);
	assert_int_equal(poll_one(pair->cq[0]).status, IBV_WC_SUCCESS);
	assert_true(has_pattern(pair->buffer[1], LENGTH, seed));
}

static void many_connections_wait_for_it_once(void **state)
{
	static struct pair pair[PAIRS];
	pid_t daemon = daemon_pid();

	(void)state;
	assert_int_equal(kill(daemon, SIGSTOP), 0);
	for (unsigned i = 0; i < PAIRS; i++)
		pair_open(&pair[i], &world, &(struct pair_options){.depth = 4});
	for (unsigned i = 0; i < PAIRS; i++)
		write_through(&pair[i], i);
	assert_int_equal(kill(daemon, SIGCONT), 0);
	for (unsigned i = 0; i < PAIRS; i++)
		pair_close(&pair[i]);
}

/* The same for what cannot be had without it: the program is told, soon and each time. */
static void devices_are_refused_after_one_wait(void **state)
{
	struct ibv_device **list = ibv_get_device_list(NULL), **again;
	pid_t daemon = daemon_pid();

	(void)state;
	assert_non_null(list);
	world_close(&world);
	assert_int_equal(kill(daemon, SIGSTOP), 0);
	for (unsigned i = 0; i < PAIRS; i++) {
		errno = 0;
		assert_null(ibv_open_device(list[0]));
		assert_int_equal(errno, ETIMEDOUT);
		errno = 0;
		assert_null(ibv_get_device_list(NULL));
		assert_int_equal(errno, ETIMEDOUT);
	}
	assert_int_equal(kill(daemon, SIGCONT), 0);
	/* It is there again as soon as it goes on. */
	assert_true(eventually((again = ibv_get_device_list(NULL)) != NULL));
	ibv_free_device_list(again);
	ibv_free_device_list(list);
	world_open(&world, "lo");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_connections_wait_for_it_once),
		cmocka_unit_test(devices_are_refused_after_one_wait),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, open_world, close_world);
}
