/* SPDX-License-Identifier: MIT
 *
 * A verbenad that did not answer (io/daemon_silence.h): for how long it is not waited for, and what is said of it.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/daemon_silence.h"
#include "io/unix_socket.h"
#include "lib/own_clock.h"

static void it_is_silent_for_ten_seconds(void **state)
{
	(void)state;
	assert_false(vb_daemon_is_silent());
	vb_daemon_note(-ETIMEDOUT, getpid());
	assert_true(vb_daemon_is_silent());
	now += VB_SECONDS(10) - 1;
	assert_true(vb_daemon_is_silent());
	now++;
	assert_false(vb_daemon_is_silent());
}

static void an_answer_ends_it(void **state)
{
	(void)state;
	vb_daemon_note(-ETIMEDOUT, getpid());
	vb_daemon_note(0, getpid());
	assert_false(vb_daemon_is_silent());
}

/* Who cannot do without it waits for a moment at least: it may answer again. */
static void the_next_wait_is_short(void **state)
{
	(void)state;
	vb_daemon_note(0, getpid());
	assert_int_equal(vb_daemon_patience(VB_SECONDS(10)), VB_SECONDS(10));
	vb_daemon_note(-ETIMEDOUT, getpid());
	assert_true(vb_daemon_patience(VB_SECONDS(10)) < VB_SECONDS(1));
	assert_true(vb_daemon_patience(VB_SECONDS(10)) > 0);
	assert_int_equal(vb_daemon_that_is_stopped(), 0);
	vb_daemon_note(0, getpid());
}

/* That none runs, or that it refuses, is an answer. */
static void others_are_answers(void **state)
{
	(void)state;
	vb_daemon_note(-ECONNREFUSED, 0);
	vb_daemon_note(-EUSERS, getpid());
	assert_false(vb_daemon_is_silent());
}

/* One that accepts nobody fills up: nobody waits for a place there for ever. */
static void a_full_backlog_is_waited_for_in_vain(void **state)
{
	enum { PLACES = 16 };
	char name[32];
	int listener, fd[PLACES], count = 0;

	(void)state;
	snprintf(name, sizeof(name), "verbena/test/%d", (int)getpid());
	listener = vb_unix_listen(name);
	assert_true(listener >= 0);
	assert_int_equal(listen(listener, 1), 0);
	while (count < PLACES && (fd[count] = vb_unix_connect_within(name, VB_MILLISECONDS(1))) >= 0)
		count++;
	assert_in_range(count, 1, PLACES - 1);
	assert_int_equal(fd[count], -EAGAIN);
	while (count > 0)
		close(fd[--count]);
	close(listener);
}

static bool log_has(const char *words)
{
	char said[4096] = "";
	FILE *log = fopen(getenv("VERBENA_LOG_FILE"), "r");

	assert_non_null(log);
	assert_true(fread(said, 1, sizeof(said) - 1, log) < sizeof(said));
	fclose(log);
	return strstr(said, words);
}

static void the_log_says_what_is_the_matter(void **state)
{
	pid_t stopped = fork();

	(void)state;
	if (stopped == 0) {
		raise(SIGSTOP);
		_exit(0);
	}
	assert_int_equal(waitpid(stopped, NULL, WUNTRACED), stopped);
	assert_false(log_has("is stopped"));
	vb_daemon_note(-ETIMEDOUT, stopped);
	assert_true(log_has("is stopped. For the next 10 s"));
	assert_int_equal(vb_daemon_that_is_stopped(), stopped);
	assert_int_equal(vb_daemon_silent_pid(), stopped);
	assert_int_equal(kill(stopped, SIGKILL), 0);
	assert_int_equal(waitpid(stopped, NULL, 0), stopped);
	assert_int_equal(vb_daemon_that_is_stopped(), 0);
}

int main(void)
{
	char name[] = "/tmp/daemon_silence.XXXXXX";
	int log = mkstemp(name), failed;

	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_silent_for_ten_seconds),
		cmocka_unit_test(an_answer_ends_it),
		cmocka_unit_test(the_next_wait_is_short),
		cmocka_unit_test(others_are_answers),
		cmocka_unit_test(a_full_backlog_is_waited_for_in_vain),
		cmocka_unit_test(the_log_says_what_is_the_matter),
	};

	setenv("VERBENA_LOG_FILE", name, 1);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(name);
	return log < 0 ? 1 : failed;
}
