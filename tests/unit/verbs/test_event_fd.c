/* SPDX-License-Identifier: MIT
 *
 * The descriptor of a channel: readable while it is raised, obeying O_NONBLOCK, never eaten by a waiter.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/time.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "io/event_fd.h"
#include "io/signals.h"

static bool readable(const struct vb_event_fd *event_fd)
{
	struct pollfd waiting = {.fd = event_fd->wait_fd, .events = POLLIN};

	return poll(&waiting, 1, 0) == 1;
}

static void rings_until_silenced(void **state)
{
	struct vb_event_fd event_fd;

	(void)state;
	assert_int_equal(vb_event_fd_init(&event_fd), 0);
	assert_false(readable(&event_fd));
	for (int i = 0; i < 100000; i++)         /* more than any socket holds */
		vb_event_fd_raise(&event_fd);
	assert_true(readable(&event_fd));
	assert_int_equal(vb_event_fd_wait(&event_fd), 0);
	assert_int_equal(vb_event_fd_wait(&event_fd), 0);
	assert_true(readable(&event_fd));
	errno = 12345;
	vb_event_fd_clear(&event_fd);
	assert_int_equal(errno, 12345);
	assert_false(readable(&event_fd));
	vb_event_fd_clear(&event_fd);
	vb_event_fd_raise(&event_fd);
	assert_true(readable(&event_fd));
	vb_event_fd_fini(&event_fd);
}

static void obeys_the_descriptors_flags(void **state)
{
	struct vb_event_fd event_fd;

	(void)state;
	assert_int_equal(vb_event_fd_init(&event_fd), 0);
	assert_int_equal(fcntl(event_fd.wait_fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(vb_event_fd_wait(&event_fd), -EAGAIN);
	assert_true(fcntl(event_fd.wait_fd, F_GETFD) & FD_CLOEXEC);
	vb_event_fd_fini(&event_fd);
}

static void *wait_for_bell(void *event_fd)
{
	return (void *)(intptr_t)vb_event_fd_wait(event_fd);
}

static void wakes_all_sleepers(void **state)
{
	struct vb_event_fd event_fd;
	pthread_t sleeper[3];

	(void)state;
	assert_int_equal(vb_event_fd_init(&event_fd), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&sleeper[i], NULL, wait_for_bell, &event_fd), 0);
	vb_event_fd_raise(&event_fd);
	for (int i = 0; i < 3; i++) {
		void *result;

		assert_int_equal(pthread_join(sleeper[i], &result), 0);
		assert_null(result);
	}
	vb_event_fd_fini(&event_fd);
}

static void ignore(int signal)
{
	(void)signal;
}

static void *ring_later(void *event_fd)
{
	usleep(30000);
	vb_event_fd_raise(event_fd);
	return NULL;
}

/* As read(2) does: a signal ends the sleep, unless the program asked for calls to be restarted. */
static void signals_end_or_do_not_end_the_sleep(void **state)
{
	/* Again and again: the first may come before we sleep. */
	const struct itimerval soon = {.it_value = {.tv_usec = 5000}, .it_interval = {.tv_usec = 5000}}, never = {0};
	struct sigaction action = {.sa_handler = ignore};
	struct vb_event_fd event_fd;
	pthread_t ringer;
	sigset_t alarm_only;

	(void)state;
	assert_int_equal(vb_event_fd_init(&event_fd), 0);
	assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
	assert_int_equal(setitimer(ITIMER_REAL, &soon, NULL), 0);
	assert_int_equal(vb_event_fd_wait(&event_fd), -EINTR);
	assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);

	action.sa_flags = SA_RESTART;
	assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
	sigemptyset(&alarm_only);
	sigaddset(&alarm_only, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &alarm_only, NULL);   /* the ringer shall not get it */
	assert_int_equal(pthread_create(&ringer, NULL, ring_later, &event_fd), 0);
	pthread_sigmask(SIG_UNBLOCK, &alarm_only, NULL);
	assert_int_equal(setitimer(ITIMER_REAL, &soon, NULL), 0);
	assert_int_equal(vb_event_fd_wait(&event_fd), 0);
	assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
	assert_int_equal(pthread_join(ringer, NULL), 0);
	vb_event_fd_fini(&event_fd);
}

/* Which handler ends a sleep cannot be told: all are asked, but those of faults. */
static void handlers_may_be_of_one_mind(void **state)
{
	const struct sigaction restart = {.sa_handler = ignore, .sa_flags = SA_RESTART}, end = {.sa_handler = ignore};
	struct sigaction before[3];

	(void)state;
	assert_int_equal(sigaction(SIGALRM, &restart, &before[0]), 0);
	assert_int_equal(sigaction(SIGSEGV, &end, &before[1]), 0);
	assert_true(vb_signals_agree());
	assert_true(vb_signals_restart_calls());
	assert_int_equal(sigaction(SIGUSR1, &end, &before[2]), 0);
	assert_false(vb_signals_agree());
	assert_false(vb_signals_restart_calls());
	assert_int_equal(sigaction(SIGALRM, &end, NULL), 0);
	assert_true(vb_signals_agree());
	assert_false(vb_signals_restart_calls());
	assert_int_equal(sigaction(SIGALRM, &before[0], NULL), 0);
	assert_int_equal(sigaction(SIGSEGV, &before[1], NULL), 0);
	assert_int_equal(sigaction(SIGUSR1, &before[2], NULL), 0);
}

/* The same, with something else to wait for. */
static void something_else_may_end_the_sleep(void **state)
{
	struct vb_event_fd event_fd, other;

	(void)state;
	assert_int_equal(vb_event_fd_init(&event_fd), 0);
	assert_int_equal(vb_event_fd_init(&other), 0);
	assert_true(vb_event_fd_blocks(&event_fd));
	vb_event_fd_raise(&other);
	assert_int_equal(vb_event_fd_wait_beside(&event_fd, other.wait_fd), 1);
	vb_event_fd_raise(&event_fd);
	assert_int_equal(vb_event_fd_wait_beside(&event_fd, other.wait_fd), 0);
	vb_event_fd_clear(&other);
	assert_int_equal(vb_event_fd_wait_beside(&event_fd, other.wait_fd), 0);
	vb_event_fd_clear(&event_fd);
	/* Destroyed. */
	assert_int_equal(close(event_fd.ring_fd), 0);
	assert_int_equal(vb_event_fd_wait_beside(&event_fd, other.wait_fd), -EBADF);
	assert_int_equal(fcntl(event_fd.wait_fd, F_SETFL, O_NONBLOCK), 0);
	assert_false(vb_event_fd_blocks(&event_fd));
	assert_int_equal(close(event_fd.wait_fd), 0);
	vb_event_fd_fini(&other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(signals_end_or_do_not_end_the_sleep),
		cmocka_unit_test(rings_until_silenced),
		cmocka_unit_test(obeys_the_descriptors_flags),
		cmocka_unit_test(wakes_all_sleepers),
		cmocka_unit_test(something_else_may_end_the_sleep),
		cmocka_unit_test(handlers_may_be_of_one_mind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
