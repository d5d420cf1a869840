/* SPDX-License-Identifier: MIT
 *
 * What threads that post and poll pass in io/: a thread that was told to end (pthread_cancel) comes back from it, as it holds our locks
 * there.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "io/memory_cable.h"
#include "io/process.h"
#include "io/unix_socket.h"

static int line[2];

static void *post_and_poll(void *watch)
{
	struct iovec part = {.iov_base = (char[8]){0}, .iov_len = 8};
	bool rang;

	pthread_cancel(pthread_self());
	(void)vb_process_has_ended(*(int *)watch);
	(void)vb_unix_send_parts(line[0], &part, 1, VB_MILLISECONDS(1));
	(void)vb_memory_cable_heard(line[1], &rang);
	vb_memory_cable_ring(line[0]);
	/* Until there is no room: it waits for some. */
	while (vb_unix_send_parts(line[0], &part, 1, VB_MILLISECONDS(1)) == 0)
		;
	/* AddressSanitizer takes the stack of a thread that is really cancelled for a wrong one. */
	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &(int){0});
	return watch;
}

static void who_was_told_to_end_comes_back(void **state)
{
	int watch = vb_process_watch(getpid());
	pthread_t thread;
	void *result;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, line), 0);
	assert_int_equal(pthread_create(&thread, NULL, post_and_poll, &watch), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_ptr_equal(result, &watch);
	close(line[0]);
	close(line[1]);
	if (watch >= 0)
		close(watch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_was_told_to_end_comes_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
