/* SPDX-License-Identifier: MIT
 *
 * The peer of stream rsockets is stopped (SIGSTOP) and never goes on. By wire nobody acknowledges for it, where TCP's kernel would: what
 * was written, a keep-alive and a close find that out when the transport gives up, all within the time of one; who only reads and asked
 * for no keep-alive is told nothing, as with TCP. Through memory what is written has arrived, and writing stops when the peer's room is
 * full, as with TCP; closing says so by a message that the peer must take, and waits for it as long as by wire.
 */
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/patience.h"
#include "lib/private_network.h"
#include "rsockets.h"

/* The transport's 18 s (docs/rdmacm.md), and as much again as a busy machine may need. */
enum { CONNECTIONS = 4, LONG_MS = 18 * 1000 + PATIENCE_MS, KEEP_IDLE = 1, ROOM = 16 * 1024 };

enum { WRITES, KEEPS_ALIVE, CLOSES, READS };

static void play_peer(int fd)
{
	struct sockaddr_in address;
	int listener = listening(&address, ROOM, 0), last = -1;
	char byte;

	assert_int_equal(write(fd, &address, sizeof(address)), sizeof(address));
	for (unsigned i = 0; i < CONNECTIONS; i++)
		assert_true((last = raccept(listener, NULL, NULL)) >= 0);
	assert_int_equal(rrecv(last, &byte, 1, MSG_WAITALL), 1);
	assert_int_equal(rsend(last, &byte, 1, 0), 1);
	for (;;)
		pause();
}

/* A peer that has accepted all of these, and is stopped. READS gives the peer room by a message of its own: that is acknowledged with the
 * byte that comes back, and nothing of it is under way then. */
static pid_t connect_all(int sockets[CONNECTIONS])
{
	struct sockaddr_in address;
	int between[2], status;
	pid_t peer;
	char byte = 0;

	assert_int_equal(pipe(between), 0);
	peer = fork();
	assert_true(peer >= 0);
	if (peer == 0) {
		setenv("CMOCKA_TEST_ABORT", "1", 1);
		play_peer(between[1]);
	}
	close(between[1]);
	assert_int_equal(read(between[0], &address, sizeof(address)), sizeof(address));
	for (unsigned i = 0; i < CONNECTIONS; i++) {
		sockets[i] = rsocket(AF_INET, SOCK_STREAM, 0);
		assert_true(sockets[i] >= 0);
		assert_int_equal(rconnect(sockets[i], (struct sockaddr *)&address, sizeof(address)), 0);
	}
	close(between[0]);
	assert_int_equal(rsend(sockets[READS], &byte, 1, 0), 1);
	assert_int_equal(rrecv(sockets[READS], &byte, 1, MSG_WAITALL), 1);
	assert_int_equal(kill(peer, SIGSTOP), 0);
	assert_int_equal(waitpid(peer, &status, WUNTRACED), peer);
	assert_true(WIFSTOPPED(status));
	return peer;
}

static void end_peer(pid_t peer)
{
	assert_int_equal(kill(peer, SIGKILL), 0);
	assert_int_equal(waitpid(peer, NULL, 0), peer);
}

static void *close_it(void *socket)
{
	return (void *)(intptr_t)rclose(*(const int *)socket);
}

static int error_of(int socket)
{
	int error = -1;
	socklen_t length = sizeof(error);

	assert_int_equal(rgetsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length), 0);
	return error;
}

static void by_wire_the_transport_gives_up(void **state)
{
	int sockets[CONNECTIONS], on = 1, idle = KEEP_IDLE;
	pid_t peer = connect_all(sockets);
	int64_t began = patience_clock();
	pthread_t closer;
	void *closed;
	char bytes[100] = {0};

	(void)state;
	assert_int_equal(rsetsockopt(sockets[KEEPS_ALIVE], IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle)), 0);
	assert_int_equal(rsetsockopt(sockets[KEEPS_ALIVE], SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)), 0);
	assert_int_equal(pthread_create(&closer, NULL, close_it, &sockets[CLOSES]), 0);
	assert_int_equal(rsend(sockets[WRITES], bytes, sizeof(bytes), 0), sizeof(bytes));

	assert_int_equal(poll_one(sockets[WRITES], POLLIN, LONG_MS), POLLIN | POLLHUP | POLLERR);
	printf("what was written failed after %lld ms\n", (long long)(patience_clock() - began));
	assert_int_equal(rrecv(sockets[WRITES], bytes, 1, 0), -1);
	assert_int_equal(errno, ETIMEDOUT);
	assert_int_equal(rsend(sockets[WRITES], bytes, 1, MSG_NOSIGNAL), -1);
	assert_int_equal(errno, ECONNRESET);

	assert_int_equal(poll_one(sockets[KEEPS_ALIVE], POLLIN, LONG_MS), POLLIN | POLLHUP | POLLERR);
	printf("the keep-alive failed after %lld ms\n", (long long)(patience_clock() - began));
	assert_int_equal(error_of(sockets[KEEPS_ALIVE]), ETIMEDOUT);

	assert_int_equal(pthread_join(closer, &closed), 0);
	printf("the close ended after %lld ms\n", (long long)(patience_clock() - began));
	assert_null(closed);

	assert_int_equal(poll_one(sockets[READS], POLLIN | POLLOUT, 0), POLLOUT);
	end_peer(peer);
	assert_int_equal(rclose(sockets[WRITES]), 0);
	assert_int_equal(rclose(sockets[KEEPS_ALIVE]), 0);
	assert_int_equal(rclose(sockets[READS]), 0);
}

static void through_memory_writing_stops(void **state)
{
	int sockets[CONNECTIONS];
	pid_t peer = connect_all(sockets);
	int64_t began = patience_clock();
	char bytes[1000] = {0};
	ssize_t sent = 0, all = 0;
	pthread_t closer;
	void *closed;

	(void)state;
	while ((sent = rsend(sockets[WRITES], bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
		all += sent;
	assert_true(errno == EAGAIN || errno == EWOULDBLOCK);
	printf("%zd bytes were written\n", all);
	assert_int_equal(poll_one(sockets[WRITES], POLLIN | POLLOUT, 0), 0);
	assert_int_equal(poll_one(sockets[READS], POLLIN | POLLOUT, 0), POLLOUT);
	/* What was written is in the peer's memory already. Two at a time: each waits for the transport. */
	assert_int_equal(pthread_create(&closer, NULL, close_it, &sockets[CLOSES]), 0);
	assert_int_equal(rclose(sockets[WRITES]), 0);
	assert_int_equal(pthread_join(closer, &closed), 0);
	assert_null(closed);
	printf("the closes ended after %lld ms\n", (long long)(patience_clock() - began));
	end_peer(peer);
	/* A process that is gone is another matter. */
	assert_true(poll_one(sockets[READS], POLLIN, PATIENCE_MS) & POLLHUP);
	assert_int_equal(rclose(sockets[KEEPS_ALIVE]), 0);
	assert_int_equal(rclose(sockets[READS]), 0);
}

int main(void)
{
	const struct CMUnitTest by_wire[] = {cmocka_unit_test(by_wire_the_transport_gives_up)};
	const struct CMUnitTest through_memory[] = {cmocka_unit_test(through_memory_writing_stops)};

	private_network_enter();
	return getenv("VERBENA_WIRE") ? cmocka_run_group_tests(by_wire, NULL, NULL) : cmocka_run_group_tests(through_memory, NULL, NULL);
}
