/* SPDX-License-Identifier: MIT
 *
 * The log, seen from outside: each case runs in a child with its own environment, because the settings are read once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"

/* What `speak` writes to stderr in a child with VERBENA_LOG=level and VERBENA_LOG_FILE=file. */
static void hear(char *out, size_t room, const char *level, const char *file, void (*speak)(void))
{
	int ends[2], status;
	size_t length = 0;
	ssize_t got;
	pid_t child;

	assert_int_equal(pipe(ends), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		dup2(ends[1], STDERR_FILENO);
		close(ends[0]);
		close(ends[1]);
		unsetenv("VERBENA_LOG");
		unsetenv("VERBENA_LOG_FILE");
		if (level)
			setenv("VERBENA_LOG", level, 1);
		if (file)
			setenv("VERBENA_LOG_FILE", file, 1);
		speak();
		_exit(0);
	}
	close(ends[1]);
	while (length < room - 1 && (got = read(ends[0], out + length, room - 1 - length)) > 0)
		length += (size_t)got;
	out[length] = '\0';
	close(ends[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static unsigned lines_in(const char *text)
{
	unsigned lines = 0;

	for (; *text; text++)
		lines += *text == '\n';
	return lines;
}

static void speak_each_level(void)
{
	vb_log(VB_LOG_ERROR, "broken %d", 7);
	vb_log(VB_LOG_WARN, "odd");
	vb_log(VB_LOG_INFO, "fyi");
	vb_log(VB_LOG_DEBUG, "detail");
}

static void level_decides(void **state)
{
	static const struct { const char *level; unsigned lines; } cases[] = {
		{NULL, 1}, {"error", 1}, {"warn", 2}, {"info", 3}, {"debug", 4}, {"loud", 1}, {"", 1},
	};
	char text[4096];

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		hear(text, sizeof(text), cases[i].level, NULL, speak_each_level);
		assert_int_equal(lines_in(text), cases[i].lines);
		assert_non_null(strstr(text, ": error: broken 7\n"));
	}
}

static void speak_with_errno(void)
{
	errno = ENOLINK;
	vb_log(VB_LOG_ERROR, "first: %m");
	if (errno != ENOLINK)
		_exit(1);
	vb_log_limited(VB_LOG_ERROR, "second: %m");
	vb_log(VB_LOG_DEBUG, "not wanted");
	if (errno != ENOLINK)
		_exit(1);
}

static void errno_is_preserved(void **state)
{
	char text[4096], expected[200];

	(void)state;
	hear(text, sizeof(text), NULL, "/nonexistent/folder/log", speak_with_errno);
	snprintf(expected, sizeof(expected), "first: %s\n", strerror(ENOLINK));
	assert_non_null(strstr(text, expected));
	snprintf(expected, sizeof(expected), "second: %s\n", strerror(ENOLINK));
	assert_non_null(strstr(text, expected));
}

static void speak_without_end(void)
{
	static char long_word[5000];

	memset(long_word, 'x', sizeof(long_word) - 1);
	vb_log(VB_LOG_ERROR, "%s", long_word);
	vb_log(VB_LOG_ERROR, "after");
}

static void long_lines_are_cut_not_lost(void **state)
{
	char text[8192];

	(void)state;
	hear(text, sizeof(text), NULL, NULL, speak_without_end);
	assert_int_equal(lines_in(text), 2);
	assert_true(strchr(text, '\n') - text >= 1000);
	assert_non_null(strstr(text, ": error: after\n"));
}

/* The only clock the log asks, so time passes in this program when a test says so. */
static struct timespec virtual_now = {1000, 0};

int clock_gettime(clockid_t clock, struct timespec *now)
{
	(void)clock;
	*now = virtual_now;
	return 0;
}

static void speak_a_flood(void)
{
	for (int i = 0; i < 1000; i++)
		vb_log_limited(VB_LOG_ERROR, "flood %d", i);
	virtual_now.tv_nsec += 999999999;
	vb_log_limited(VB_LOG_ERROR, "too early");
	virtual_now.tv_sec += 1;
	virtual_now.tv_nsec = 0;
	vb_log_limited(VB_LOG_ERROR, "later");
	vb_log_limited(VB_LOG_ERROR, "last");
}

static void floods_are_limited(void **state)
{
	static char text[65536];

	(void)state;
	hear(text, sizeof(text), NULL, NULL, speak_a_flood);
	assert_non_null(strstr(text, ": error: flood 9\n"));
	assert_null(strstr(text, "flood 10\n"));
	assert_null(strstr(text, "too early"));
	/* 990 of the flood and the one that came too early. */
	assert_non_null(strstr(text, ": error: 991 lines like the next were suppressed\n"));
	assert_non_null(strstr(text, ": error: later\n"));
	assert_int_equal(lines_in(text), 10 + 1 + 2);
}

static void lines_go_to_the_file(void **state)
{
	char path[] = "/tmp/verbena-test-log-XXXXXX", text[4096], content[4096];
	int fd = mkstemp(path);
	ssize_t got;

	(void)state;
	assert_true(fd >= 0);
	hear(text, sizeof(text), "warn", path, speak_each_level);
	got = read(fd, content, sizeof(content) - 1);
	close(fd);
	unlink(path);
	assert_true(got > 0);
	content[got] = '\0';
	assert_int_equal(lines_in(content), 2);
	assert_string_equal(text, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(level_decides),
		cmocka_unit_test(errno_is_preserved),
		cmocka_unit_test(long_lines_are_cut_not_lost),
		cmocka_unit_test(floods_are_limited),
		cmocka_unit_test(lines_go_to_the_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
