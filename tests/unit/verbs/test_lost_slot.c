/* SPDX-License-Identifier: MIT
 *
 * A new verbenad has given the process's slot to another: the program hears that its device is gone, makes no queue pair there that
 * nobody could reach, and opens the device again, whether or not it has closed it. The verbenad that refuses is the test's.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/clock.h"
#include "io/unix_socket.h"
#include "lib/patience.h"
#include "lib/private_network.h"
#include "lib/world.h"
#include "wire/daemon_message.h"

static int daemon_pid(void)
{
	struct vb_unix_peer peer = {0};
	int fd = vb_unix_connect(VB_DAEMON_SOCKET);

	if (fd >= 0) {
		assert_int_equal(vb_unix_peer(fd, &peer), 0);
		close(fd);
	}
	return peer.pid;
}

static void answer(int fd, const struct vb_daemon_message *asked)
{
	struct vb_daemon_message message;
	bool welcomes = asked->header.type == VB_DAEMON_HELLO;

	vb_daemon_message_begin(&message, welcomes ? VB_DAEMON_WELCOME : VB_DAEMON_ERROR, asked->header.sequence);
	if (welcomes)
		message.welcome.pid = (uint32_t)getpid();
	else
		message.error = (struct vb_daemon_error){.error = ESTALE, .text = "the slot belongs to another process"};
	(void)vb_unix_send(fd, &message, message.header.length, NULL, 0, true);
}

/* Welcomes each process, and refuses what it asks for, until the listener is shut. */
static void *play_daemon(void *argument)
{
	struct pollfd listener = {.fd = *(const int *)argument, .events = POLLIN};

	while (!(listener.revents & POLLHUP)) {
		struct vb_daemon_message message;
		int fds[VB_DAEMON_MAX_FDS];
		unsigned count = 0;
		int fd;

		(void)poll(&listener, 1, -1);
		fd = vb_unix_accept(listener.fd);
		while (fd >= 0 && vb_unix_receive(fd, &message, sizeof(message), fds, VB_DAEMON_MAX_FDS, &count,
						  vb_clock_now() + VB_SECONDS(PATIENCE_SECONDS)) > 0) {
			for (unsigned i = 0; i < count; i++)
				close(fds[i]);
			answer(fd, &message);
		}
		if (fd >= 0)
			close(fd);
	}
	return NULL;
}

static void await_fatal(struct ibv_context *context)
{
	struct ibv_async_event event;

	do {
		assert_int_equal(ibv_get_async_event(context, &event), 0);
		ibv_ack_async_event(&event);
	} while (event.event_type != IBV_EVENT_DEVICE_FATAL);
}

/* verbenad dies, and the next will not have the process. */
static void lose_slot(struct ibv_context *context)
{
	char *path = strdup(getenv("VERBENA_DAEMON"));
	int pid = daemon_pid(), listener = -1;
	pthread_t player;

	assert_int_not_equal(pid, 0);
	assert_int_equal(setenv("VERBENA_DAEMON", "/nonexistent/verbenad", 1), 0);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_true(eventually((listener = vb_unix_listen(VB_DAEMON_SOCKET)) >= 0));
	assert_int_equal(pthread_create(&player, NULL, play_daemon, &listener), 0);
	await_fatal(context);
	assert_int_equal(shutdown(listener, SHUT_RDWR), 0);
	assert_int_equal(pthread_join(player, NULL), 0);
	close(listener);
	assert_int_equal(setenv("VERBENA_DAEMON", path, 1), 0);
	free(path);
}

static void exchange(struct world *world)
{
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	pair_open(&pair, world, NULL);
	pair_receive(&pair, 1, 1, 0, 100);
	fill_pattern(pair.buffer[0], 100, 7);
	wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, 100);
	pair_post(&pair, 0, &wr);
	(void)expect_completion(pair.cq[1], 1, IBV_WC_RECV);
	assert_true(has_pattern(pair.buffer[1], 100, 7));
	pair_close(&pair);
}

static void the_program_is_told_and_opens_the_device_again(void **state)
{
	const struct ibv_qp_cap cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1};
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC, .cap = cap};
	struct world lost, found;
	struct pair pair;

	(void)state;
	world_open(&lost, "lo");
	pair_open(&pair, &lost, NULL);
	lose_slot(lost.context);
	attr.send_cq = attr.recv_cq = pair.cq[0];
	errno = 0;
	assert_null(ibv_create_qp(lost.pd, &attr));
	assert_int_equal(errno, ENODEV);
	world_open(&found, "lo");
	exchange(&found);
	pair_close(&pair);
	world_close(&lost);
	exchange(&found);
	world_close(&found);
}

static void the_program_closes_all_and_opens_again(void **state)
{
	struct world world;

	(void)state;
	world_open(&world, "lo");
	lose_slot(world.context);
	world_close(&world);
	world_open(&world, "lo");
	exchange(&world);
	world_close(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_program_is_told_and_opens_the_device_again),
		cmocka_unit_test(the_program_closes_all_and_opens_again),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
