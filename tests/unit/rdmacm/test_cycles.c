/* SPDX-License-Identifier: MIT
 *
 * Ten thousand times a connection is made, used and ended, with everything that belongs to it. Nothing may be left: not in the
 * process (descriptors; memory, which AddressSanitizer counts at its end), and not in verbenad, which is started here so that
 * its end can be waited for. It ends by itself once no process is connected and no id is left in it, and gives
 * AddressSanitizer's status as its exit status.
 */
#include <fcntl.h>
#include <malloc.h>
#include <rdma/rdma_verbs.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "cm.h"
#include "lib/patience.h"
#include "lib/private_network.h"
#include "lib/resident.h"

#if defined(__SANITIZE_THREAD__)
enum { CYCLES = 1000 };
#else
enum { CYCLES = 10000 };
#endif
/* How much verbenad may hold more at the end than half way: it remembers each connection for a second after its end, and so
 * holds the more of them the faster they come. */
enum { WARM_UP = 100, DAEMON_GROWTH = 4 << 20, OWN_GROWTH = 64 << 10 };

static struct {
	pid_t pid;
	char proc[32];                   /* its folder: /proc is not that of our process namespace */
	char asan_options[512];          /* what we were told: entering the network may change it */
} verbenad;

static void start_daemon(void)
{
	char line[64] = "", fd[16];
	size_t length = 0;
	ssize_t got;
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	verbenad.pid = fork();
	assert_true(verbenad.pid >= 0);
	if (verbenad.pid == 0) {
		char outside[32] = "";

		snprintf(fd, sizeof(fd), "%d", ends[1]);
		setenv("ASAN_OPTIONS", verbenad.asan_options, 1);
		if (readlink("/proc/self", outside, sizeof(outside) - 1) > 0 && dprintf(ends[1], "%s\n", outside) > 0)
			execl(getenv("VERBENA_DAEMON"), "verbenad", "--foreground", "--idle-seconds", "1", "--ready-fd", fd,
			      (char *)NULL);
		_exit(127);
	}
	close(ends[1]);
	while (length < sizeof(line) - 1 && (got = read(ends[0], line + length, sizeof(line) - 1 - length)) > 0)
		length += (size_t)got;
	close(ends[0]);
	assert_non_null(strstr(line, "\nready\n"));
	*strchr(line, '\n') = '\0';
	snprintf(verbenad.proc, sizeof(verbenad.proc), "/proc/%.10s", line);
}

static unsigned descriptors_of_daemon(void)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/fd", verbenad.proc);
	return descriptors_in(path);
}

static void cycles(int from, int to)
{
	struct connection connection;

	for (int i = from; i < to; i++) {
		connection_open(&connection);
		if (i % 16 == 0)
			exchange_message(&connection, i & 1, "and one message");
		assert_int_equal(rdma_disconnect(connection.id[i & 1]), 0);
		assert_int_equal(expect_cm_event(connection.channel[!(i & 1)], RDMA_CM_EVENT_DISCONNECTED), 0);
		connection_close(&connection);
	}
}

/* `make connections` asks for more than the usual. */
static int how_many(void)
{
	const char *asked = getenv("CONNECTIONS");

	return asked && atoi(asked) > 2 * WARM_UP ? atoi(asked) : CYCLES;
}

static void nothing_is_left_behind(void **state)
{
	const int count = how_many();
	int64_t begun = patience_clock();
	unsigned own, daemons;
	long half_way, grown;
	size_t allocated;

	(void)state;
	cycles(0, WARM_UP);
	own = open_descriptors();
	daemons = descriptors_of_daemon();
	allocated = mallinfo2().uordblks;
	cycles(WARM_UP, count / 2);
	half_way = (long)resident_bytes(verbenad.proc);
	cycles(count / 2, count);
	grown = (long)resident_bytes(verbenad.proc) - half_way;
	print_message("%d connections in %lld ms\n", count, (long long)(patience_clock() - begun));
	print_message("allocated before %zu, after %zu; verbenad grew from %ld by %ld\n", allocated, mallinfo2().uordblks, half_way,
		      grown);
	assert_int_equal(open_descriptors(), own);
	assert_true(eventually(descriptors_of_daemon() == daemons));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* they keep what is freed for a while */
	assert_true(mallinfo2().uordblks < allocated + OWN_GROWTH);
	assert_true(grown < DAEMON_GROWTH);
#endif
}

/* 0, or what its exit status says. It may search itself for leaks first, which alone takes half a minute on a busy machine. */
static int wait_for_end(pid_t pid)
{
	int status = 0;

	if (!eventually_within(10 * PATIENCE_MS, waitpid(pid, &status, WNOHANG) == pid)) {
		print_error("process %d does not end\n", (int)pid);
		kill(pid, SIGKILL);
		return -1;
	}
	return status;
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_is_left_behind)};
	pid_t child;
	int failed = 0, status;

	snprintf(verbenad.asan_options, sizeof(verbenad.asan_options), "%s", getenv("ASAN_OPTIONS") ? getenv("ASAN_OPTIONS") : "");
	private_network_enter();
	start_daemon();
	fflush(NULL);
	child = fork();
	if (child == 0)
		exit(cmocka_run_group_tests(tests, NULL, NULL));
	while (waitpid(child, &status, 0) != child)
		;
	failed |= status;
	status = wait_for_end(verbenad.pid);
	if (status != 0)
		fprintf(stderr, "verbenad ended with status %x\n", (unsigned)status);
	return (failed | status) != 0;
}
