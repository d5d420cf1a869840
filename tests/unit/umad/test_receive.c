/* SPDX-License-Identifier: MIT
 *
 * umad_recv and umad_send on a socket of ours in the place of verbenad's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/umad.h>

enum { MAD = 256, AGENT = 3, TRIES = 30000 };

struct message {
	struct ib_user_mad header;
	uint8_t data[MAD];
};

static char state_of(pid_t pid)
{
	char path[64], text[512] = "";
	const char *end;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "r");
	assert_non_null(file);
	assert_non_null(fgets(text, sizeof(text), file));
	fclose(file);
	end = strrchr(text, ')');
	assert_non_null(end);
	return end[2];
}

static void wait_without_end(int fd, int ready)
{
	struct message message;
	int length = MAD;

	if (write(ready, "", 1) != 1)
		_exit(2);
	_exit(umad_recv(fd, &message, &length, -1) == AGENT && length == MAD ? 0 : 1);
}

/* The program has made the descriptor non-blocking, and waits with a negative timeout: it sleeps until a MAD comes. */
static void a_wait_without_end_sleeps(void **state)
{
	struct message message = {.header = {.agent_id = AGENT, .length = sizeof(message)}};
	int ends[2], ready[2], status, tries = 0;
	char byte;
	pid_t child;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends), 0);
	assert_int_equal(pipe(ready), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0)
		wait_without_end(ends[0], ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	while (state_of(child) != 'S' && tries++ < TRIES)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	if (tries > TRIES)
		kill(child, SIGKILL);
	else
		assert_int_equal(send(ends[1], &message, sizeof(message), 0), sizeof(message));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	for (unsigned i = 0; i < 2; i++) {
		close(ends[i]);
		close(ready[i]);
	}
}

static void *take_when_told_to_end(void *ends)
{
	static struct message message;

	pthread_cancel(pthread_self());
	(void)umad_unregister(((int *)ends)[0], 1);
	(void)umad_send(((int *)ends)[0], AGENT, &message, MAD, 0, 0);
	(void)umad_close_port(-1);
	/* AddressSanitizer takes the stack of a thread that is really cancelled for a wrong one. */
	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &(int){0});
	return ends;
}

/* What takes locks or has something in hand comes back. */
static void who_was_told_to_end_comes_back(void **state)
{
	pthread_t thread;
	void *result;
	int ends[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	assert_int_equal(pthread_create(&thread, NULL, take_when_told_to_end, ends), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_ptr_equal(result, ends);
	close(ends[0]);
	close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_wait_without_end_sleeps),
		cmocka_unit_test(who_was_told_to_end_comes_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
