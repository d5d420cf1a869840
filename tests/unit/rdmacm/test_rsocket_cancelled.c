/* SPDX-License-Identifier: MIT
 *
 * Threads that are cancelled (pthread_cancel, pthreads(7)) in calls on rsockets. One that waits where recv, send, accept, poll or select
 * would be cancelled is cancelled, leaves no lock held and nothing behind. One that was told to end beforehand comes back from each call
 * that need not wait.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/patience.h"
#include "lib/private_network.h"
#include "rsockets.h"

enum { BUFFER = 64 * 1024, MANY = 64, ROUNDS = 50 };

#ifndef __SANITIZE_ADDRESS__
struct waiter {
	void (*wait)(int socket);
	int socket;
	pthread_t thread;
	sem_t ready;
	int look;                        /* /proc/.../syscall of it */
};

static void *wait_in_call(void *argument)
{
	struct waiter *waiter = argument;

	waiter->look = open("/proc/thread-self/syscall", O_RDONLY | O_CLOEXEC);
	sem_post(&waiter->ready);
	waiter->wait(waiter->socket);
	return NULL;
}

static bool sleeps(const struct waiter *waiter)
{
	char said[256] = "";

	return pread(waiter->look, said, sizeof(said) - 1, 0) > 0 && atoi(said) == SYS_ppoll;
}

static void cancel_while_it_waits(void (*wait)(int socket), int socket)
{
	struct waiter waiter = {.wait = wait, .socket = socket};
	void *result;

	assert_int_equal(sem_init(&waiter.ready, 0, 0), 0);
	assert_int_equal(pthread_create(&waiter.thread, NULL, wait_in_call, &waiter), 0);
	assert_int_equal(sem_wait(&waiter.ready), 0);
	assert_true(waiter.look >= 0);
	assert_true(eventually(sleeps(&waiter)));
	assert_int_equal(pthread_cancel(waiter.thread), 0);
	assert_int_equal(pthread_join(waiter.thread, &result), 0);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	close(waiter.look);
	sem_destroy(&waiter.ready);
}

static void receive(int socket)
{
	char byte;

	(void)!rrecv(socket, &byte, 1, 0);
}

static void send_all(int socket)
{
	static const char bytes[BUFFER];

	while (rsend(socket, bytes, sizeof(bytes), 0) > 0)
		;
}

static void accept_one(int socket)
{
	(void)raccept(socket, NULL, NULL);
}

static void poll_many(int socket)
{
	struct pollfd fds[MANY];

	for (unsigned i = 0; i < MANY; i++)
		fds[i] = (struct pollfd){.fd = i == 0 ? socket : -1, .events = POLLIN};
	(void)rpoll(fds, MANY, -1);
}

static void select_one(int socket)
{
	fd_set readable;

	FD_ZERO(&readable);
	FD_SET(socket, &readable);
	(void)rselect(socket + 1, &readable, NULL, NULL, NULL);
}

static void is_cancelled_while_it_waits(void **state)
{
	struct sockaddr_in address;
	int pair[2], listener;

	(void)state;
	connected(pair, BUFFER, 0);
	cancel_while_it_waits(receive, pair[0]);
	cancel_while_it_waits(poll_many, pair[0]);
	cancel_while_it_waits(select_one, pair[0]);
	/* Its lock is free. */
	send_stream(pair[1], 0, 100);
	expect_stream(pair[0], 0, 100);
	cancel_while_it_waits(send_all, pair[0]);
	assert_int_equal(poll_one(pair[1], POLLIN, -1), POLLIN);
	close_both(pair);
	listener = listening(&address, 0, 0);
	cancel_while_it_waits(accept_one, listener);
	assert_int_equal(rclose(listener), 0);
}

static size_t in_use(void)
{
	return mallinfo2().uordblks;
}

/* What the first threads leave is theirs to keep: caches, tables. */
static void leaves_nothing_behind(void **state)
{
	int pair[2];
	size_t before = 0;

	(void)state;
	connected(pair, BUFFER, 0);
	for (unsigned i = 0; i < ROUNDS; i++) {
		if (i == 10)
			before = in_use();
		cancel_while_it_waits(poll_many, pair[0]);
		cancel_while_it_waits(select_one, pair[0]);
		cancel_while_it_waits(receive, pair[0]);
	}
	/* Each list of rpoll's has 64 entries. */
	assert_in_range(in_use(), 0, before + (ROUNDS - 10) * MANY);
	close_both(pair);
}

#endif

struct life {
	unsigned steps;
	bool came_back;
};

static bool step(struct life *life, bool done)
{
	life->steps += done;
	return done;
}

static void *live(void *argument)
{
	struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct life *life = argument;
	int pair[2], listener, before, on = 1;
	struct pollfd fd;
	char byte = 1;

	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	connected(pair, 0, 0);
	pthread_cancel(pthread_self());
	(void)pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);
	listener = rsocket(AF_INET, SOCK_STREAM, 0);
	(void)(step(life, rsetsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0) &&
	       step(life, rbind(listener, (struct sockaddr *)&here, sizeof(here)) == 0) && step(life, rlisten(listener, 1) == 0) &&
	       step(life, rclose(listener) == 0) && step(life, rsend(pair[0], &byte, 1, 0) == 1));
	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	fd = (struct pollfd){.fd = pair[1], .events = POLLIN};
	(void)step(life, rpoll(&fd, 1, -1) == 1);
	(void)pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);
	(void)step(life, rpoll(&fd, 1, -1) == 1);
	(void)step(life, rrecv(pair[1], &byte, 1, 0) == 1);
	(void)step(life, rshutdown(pair[0], SHUT_RDWR) == 0);
	(void)step(life, rclose(pair[0]) == 0);
	(void)step(life, rclose(pair[1]) == 0);
	life->came_back = true;
	/* AddressSanitizer takes the stack of a thread that is really cancelled for a wrong one. */
	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return NULL;
}

static void is_not_cancelled_where_it_need_not_wait(void **state)
{
	struct life life = {0};
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, live, &life), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(life.came_back);
	assert_int_equal(life.steps, 11);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_not_cancelled_where_it_need_not_wait),
#ifndef __SANITIZE_ADDRESS__
		cmocka_unit_test(is_cancelled_while_it_waits),
		cmocka_unit_test(leaves_nothing_behind),
#endif
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
