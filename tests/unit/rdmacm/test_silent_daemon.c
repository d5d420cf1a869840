/* SPDX-License-Identifier: MIT
 *
 * verbenad stands still (a signal, a debugger) under a program that has an id. A call that needs verbenad waits until it goes on, and the
 * log says whom it waits for. A program that comes anew is refused.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/patience.h"
#include "lib/private_network.h"
#include "unit/rdmacm/cm.h"

static bool log_has(const char *words)
{
	char said[4096] = "";
	FILE *log = fopen(getenv("VERBENA_LOG_FILE"), "r");

	assert_non_null(log);
	assert_true(fread(said, 1, sizeof(said) - 1, log) < sizeof(said));
	fclose(log);
	return strstr(said, words);
}

static void *bind_it(void *id)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	return rdma_bind_addr(id, (struct sockaddr *)&address) == 0 ? id : NULL;
}

static void a_call_says_whom_it_waits_for(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id, *first;
	pid_t daemon;
	pthread_t thread;
	char words[64];
	void *bound;

	(void)state;
	assert_int_equal(rdma_create_id(channel, &first, NULL, RDMA_PS_TCP), 0);
	assert_non_null(bind_it(first));
	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	daemon = daemon_pid();
	assert_int_equal(kill(daemon, SIGSTOP), 0);
	assert_int_equal(pthread_create(&thread, NULL, bind_it, id), 0);
	snprintf(words, sizeof(words), "calls of librdmacm wait for verbenad (pid %d)", (int)daemon);
	assert_true(eventually(log_has(words)));
	assert_int_equal(kill(daemon, SIGCONT), 0);
	assert_int_equal(pthread_join(thread, &bound), 0);
	assert_ptr_equal(bound, id);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_destroy_id(first), 0);
	rdma_destroy_event_channel(channel);
}

int main(void)
{
	char name[] = "/tmp/rdmacm_silence.XXXXXX";
	int log = mkstemp(name), failed;

	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_call_says_whom_it_waits_for),
	};

	setenv("VERBENA_LOG_FILE", name, 1);
	private_network_enter();
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(name);
	return log < 0 ? 1 : failed;
}
