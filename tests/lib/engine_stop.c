/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/engine_stop.h"

/* Looks, a millisecond apart. No nap between two polls is as long as QUIET of them. */
enum { QUIET = 50, LOOKS = 20000 };

/* What /proc/self/task/THREAD/status says of `key`. */
static void read_status(int thread, const char *key, char *value, size_t size)
{
	char path[64], line[128];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", thread);
	file = fopen(path, "r");
	assert_non_null(file);
	do
		assert_non_null(fgets(line, sizeof(line), file));
	while (strncmp(line, key, strlen(key)) != 0);
	fclose(file);
	snprintf(value, size, "%s", line + strlen(key) + 1);
}

/* Its number below /proc, which may count processes from further out than we do; 0: it has not begun yet. */
static int find_engine(void)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *entry;
	char value[64];
	int found = 0;

	assert_non_null(tasks);
	while ((entry = readdir(tasks)) != NULL) {
		int thread = atoi(entry->d_name);

		if (thread == 0)
			continue;
		read_status(thread, "Name:", value, sizeof(value));
		if (strcmp(value, "verbena\n") == 0)
			found = thread;
	}
	closedir(tasks);
	return found;
}

pid_t engine_asleep(void)
{
	const struct timespec between = {.tv_nsec = 1000000};
	char value[64], before[64] = "", state[64];
	unsigned quiet = 0, looks = 0;
	int engine;

	for (; (engine = find_engine()) == 0 && looks < LOOKS; looks++)
		nanosleep(&between, NULL);
	assert_int_not_equal(engine, 0);
	for (; quiet < QUIET && looks < LOOKS; looks++) {
		read_status(engine, "voluntary_ctxt_switches:", value, sizeof(value));
		read_status(engine, "State:", state, sizeof(state));
		quiet = state[0] == 'S' && strcmp(value, before) == 0 ? quiet + 1 : 0;
		memcpy(before, value, sizeof(before));
		nanosleep(&between, NULL);
	}
	assert_int_equal(quiet, QUIET);
	/* The last number is that of the innermost namespace: ours. */
	read_status(engine, "NSpid:", value, sizeof(value));
	return atoi(strrchr(value, '\t') ? strrchr(value, '\t') + 1 : value);
}

void stop_engine(pid_t engine)
{
	int status;

	assert_int_equal(ptrace(PTRACE_SEIZE, engine, NULL, NULL), 0);
	assert_int_equal(ptrace(PTRACE_INTERRUPT, engine, NULL, NULL), 0);
	assert_int_equal(waitpid(engine, &status, __WALL), engine);
	assert_true(WIFSTOPPED(status));
}

void resume_engine(pid_t engine)
{
	assert_int_equal(ptrace(PTRACE_DETACH, engine, NULL, NULL), 0);
}
