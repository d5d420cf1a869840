/* SPDX-License-Identifier: MIT
 *
 * The doorbell: readable while it rings, obeying O_NONBLOCK, never eaten by a waiter.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "verbs/doorbell.h"

static bool readable(const struct vb_doorbell *bell)
{
	struct pollfd waiting = {.fd = bell->wait_fd, .events = POLLIN};

	return poll(&waiting, 1, 0) == 1;
}

static void rings_until_silenced(void **state)
{
	struct vb_doorbell bell;

	(void)state;
	assert_int_equal(vb_doorbell_init(&bell), 0);
	assert_false(readable(&bell));
	for (int i = 0; i < 100000; i++)         /* more than any socket holds */
		vb_doorbell_ring(&bell);
	assert_true(readable(&bell));
	assert_int_equal(vb_doorbell_wait(&bell), 0);
	assert_int_equal(vb_doorbell_wait(&bell), 0);
	assert_true(readable(&bell));
	errno = 12345;
	vb_doorbell_silence(&bell);
	assert_int_equal(errno, 12345);
	assert_false(readable(&bell));
	vb_doorbell_silence(&bell);
	vb_doorbell_ring(&bell);
	assert_true(readable(&bell));
	vb_doorbell_fini(&bell);
}

static void obeys_the_descriptors_flags(void **state)
{
	struct vb_doorbell bell;

	(void)state;
	assert_int_equal(vb_doorbell_init(&bell), 0);
	assert_int_equal(fcntl(bell.wait_fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(vb_doorbell_wait(&bell), -EAGAIN);
	assert_true(fcntl(bell.wait_fd, F_GETFD) & FD_CLOEXEC);
	vb_doorbell_fini(&bell);
}

static void *wait_for_bell(void *bell)
{
	return (void *)(intptr_t)vb_doorbell_wait(bell);
}

static void wakes_all_sleepers(void **state)
{
	struct vb_doorbell bell;
	pthread_t sleeper[3];

	(void)state;
	assert_int_equal(vb_doorbell_init(&bell), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&sleeper[i], NULL, wait_for_bell, &bell), 0);
	vb_doorbell_ring(&bell);
	for (int i = 0; i < 3; i++) {
		void *result;

		assert_int_equal(pthread_join(sleeper[i], &result), 0);
		assert_null(result);
	}
	vb_doorbell_fini(&bell);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rings_until_silenced),
		cmocka_unit_test(obeys_the_descriptors_flags),
		cmocka_unit_test(wakes_all_sleepers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
