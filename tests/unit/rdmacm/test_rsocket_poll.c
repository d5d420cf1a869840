/* SPDX-License-Identifier: MIT
 *
 * rpoll and rselect: rsockets and ordinary descriptors together, timeouts, and that nobody who sleeps is forgotten.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/patience.h"
#include "lib/private_network.h"
#include "rsockets.h"

static void rsockets_and_pipes_together(void **state)
{
	int pair[2], ends[2];
	struct pollfd fds[4];
	int64_t start;
	char byte = 1;

	(void)state;
	connected(pair, 0, 0);
	assert_int_equal(pipe(ends), 0);
	fds[0] = (struct pollfd){.fd = ends[0], .events = POLLIN, .revents = 99};
	fds[1] = (struct pollfd){.fd = pair[1], .events = POLLIN, .revents = 99};
	fds[2] = (struct pollfd){.fd = -1, .events = POLLIN, .revents = 99};
	fds[3] = (struct pollfd){.fd = pair[0], .events = 0, .revents = 99};
	assert_int_equal(rpoll(fds, 4, 0), 0);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(fds[i].revents, 0);
	start = patience_clock();
	assert_int_equal(rpoll(fds, 4, 120), 0);
	assert_true(patience_clock() - start >= 119);
	assert_int_equal(write(ends[1], &byte, 1), 1);
	assert_int_equal(rpoll(fds, 4, PATIENCE_MS), 1);
	assert_int_equal(fds[0].revents, POLLIN);
	assert_int_equal(fds[1].revents, 0);
	send_stream(pair[0], 0, 1);
	assert_true(eventually(rpoll(fds, 4, PATIENCE_MS) != 1));
	assert_int_equal(fds[0].revents, POLLIN);
	assert_int_equal(fds[1].revents, POLLIN);
	fds[3].events = POLLOUT;
	assert_int_equal(rpoll(fds, 4, PATIENCE_MS), 3);
	assert_int_equal(fds[3].revents, POLLOUT);
	close(ends[0]);
	fds[1].fd = -1;
	fds[3].fd = -1;
	assert_int_equal(rpoll(fds, 4, 0), 1);
	assert_int_equal(fds[0].revents, POLLNVAL);
	close(ends[1]);
	close_both(pair);
	assert_int_equal(rpoll(NULL, 0, 1), 0);
}

static void many_descriptors(void **state)
{
	enum { MANY = 50 };
	struct pollfd fds[MANY];
	int ends[2], pair[2];

	(void)state;
	connected(pair, 0, 0);
	assert_int_equal(pipe(ends), 0);
	for (unsigned i = 0; i < MANY; i++)
		fds[i] = (struct pollfd){.fd = i % 2 ? ends[0] : pair[1], .events = POLLIN};
	assert_int_equal(rpoll(fds, MANY, 20), 0);
	send_stream(pair[0], 0, 1);
	assert_int_equal(poll_one(pair[1], POLLIN, PATIENCE_MS), POLLIN);
	assert_int_equal(rpoll(fds, MANY, PATIENCE_MS), MANY / 2);
	close(ends[0]);
	close(ends[1]);
	close_both(pair);
}

static void as_select(void **state)
{
	struct timeval timeout = {.tv_usec = 50000}, wrong = {.tv_sec = -1};
	fd_set readable, writable, exceptional;
	int pair[2], ends[2], highest;

	(void)state;
	connected(pair, 0, 0);
	assert_int_equal(pipe(ends), 0);
	highest = (pair[1] > ends[0] ? pair[1] : ends[0]) + 1;
	FD_ZERO(&readable);
	FD_SET(pair[1], &readable);
	FD_SET(ends[0], &readable);
	exceptional = readable;
	assert_int_equal(rselect(highest, &readable, NULL, &exceptional, &timeout), 0);
	assert_false(FD_ISSET(pair[1], &readable));
	assert_false(FD_ISSET(ends[0], &readable));
	send_stream(pair[0], 0, 1);
	FD_SET(pair[1], &readable);
	FD_SET(ends[0], &readable);
	FD_ZERO(&writable);
	FD_SET(pair[1], &writable);
	assert_int_equal(rselect(highest, &readable, NULL, NULL, NULL), 1);
	assert_true(FD_ISSET(pair[1], &readable));
	assert_false(FD_ISSET(ends[0], &readable));
	assert_int_equal(rselect(highest, &readable, &writable, NULL, NULL), 2);
	assert_int_equal(rselect(highest, &readable, NULL, NULL, &wrong), -1);
	assert_int_equal(errno, EINVAL);
	close(ends[0]);
	close(ends[1]);
	FD_SET(ends[0], &readable);
	assert_int_equal(rselect(highest, &readable, NULL, NULL, &timeout), -1);
	assert_int_equal(errno, EBADF);
	close_both(pair);
}

static void *poll_for_input(void *socket)
{
	struct pollfd fd = {.fd = *(int *)socket, .events = POLLIN};

	return (void *)(intptr_t)(rpoll(&fd, 1, PATIENCE_MS) == 1 ? fd.revents : -1);
}

/* One of them takes the completion; the others must learn of it all the same. Again and again, as it is a matter of
 * moments. */
static void all_sleepers_wake(void **state)
{
	enum { SLEEPERS = 4, ROUNDS = 50 };
	pthread_t threads[SLEEPERS];
	int pair[2];

	(void)state;
	connected(pair, 0, 0);
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < SLEEPERS; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, poll_for_input, &pair[1]), 0);
		usleep(round * 50);
		send_stream(pair[0], round, 1);
		for (unsigned i = 0; i < SLEEPERS; i++) {
			void *result;

			pthread_join(threads[i], &result);
			assert_int_equal((intptr_t)result, POLLIN);
		}
		expect_stream(pair[1], round, 1);
	}
	close_both(pair);
}

static void *answer_all(void *socket)
{
	char byte;

	while (poll_one(*(int *)socket, POLLIN, PATIENCE_MS) == POLLIN &&
	       rrecv(*(int *)socket, &byte, 1, MSG_DONTWAIT) == 1)
		if (rsend(*(int *)socket, &byte, 1, 0) != 1)
			break;
	return NULL;
}

/* Each side sleeps until the other has written one byte: a single lost wake-up ends this. */
static void a_thousand_turns(void **state)
{
	pthread_t thread;
	int64_t start;
	int pair[2];

	(void)state;
	connected(pair, 0, 0);
	assert_int_equal(pthread_create(&thread, NULL, answer_all, &pair[1]), 0);
	start = patience_clock();
	for (unsigned i = 0; i < 1000; i++) {
		send_stream(pair[0], i, 1);
		assert_int_equal(poll_one(pair[0], POLLIN, PATIENCE_MS), POLLIN);
		expect_stream(pair[0], i, 1);
	}
	print_message("1000 turns in %d ms\n", (int)(patience_clock() - start));
	rclose(pair[0]);
	pthread_join(thread, NULL);
	rclose(pair[1]);
}

static bool interrupted;

static void handle(int number)
{
	(void)number;
}

/* Again and again: the first may come before it sleeps. */
static void *interrupt(void *thread)
{
	while (!__atomic_load_n(&interrupted, __ATOMIC_RELAXED)) {
		usleep(20000);
		pthread_kill(*(pthread_t *)thread, SIGUSR1);
	}
	return NULL;
}

static void signals_interrupt_as_they_should(void **state)
{
	struct sigaction action = {.sa_handler = handle}, before;
	pthread_t self = pthread_self(), thread;
	struct pollfd fd;
	char byte;
	int pair[2];

	(void)state;
	connected(pair, 0, 0);
	fd = (struct pollfd){.fd = pair[0], .events = POLLIN};
	assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
	pthread_create(&thread, NULL, interrupt, &self);
	assert_int_equal(rrecv(pair[0], &byte, 1, 0), -1);
	assert_int_equal(errno, EINTR);
	__atomic_store_n(&interrupted, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	__atomic_store_n(&interrupted, false, __ATOMIC_RELAXED);
	action.sa_flags = SA_RESTART;            /* poll(2) is interrupted even so */
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	pthread_create(&thread, NULL, interrupt, &self);
	assert_int_equal(rpoll(&fd, 1, PATIENCE_MS), -1);
	assert_int_equal(errno, EINTR);
	__atomic_store_n(&interrupted, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	sigaction(SIGUSR1, &before, NULL);
	close_both(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rsockets_and_pipes_together),
		cmocka_unit_test(many_descriptors),
		cmocka_unit_test(as_select),
		cmocka_unit_test(all_sleepers_wake),
		cmocka_unit_test(a_thousand_turns),
		cmocka_unit_test(signals_interrupt_as_they_should),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
