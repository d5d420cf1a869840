/* SPDX-License-Identifier: MIT
 *
 * What vain polls look at. A program with connections through memory and a UD queue pair that is idle, as UCX has: polling the CQ of the
 * former looks at the sockets now and then only, and what comes for the latter comes all the same. This program's syscall() stands
 * before the C library's, and counts.
 */
#include <dlfcn.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/one_world.h"
#include "lib/patience.h"
#include "lib/private_network.h"

enum { POLLS = 3200, GRH = 40, LENGTH = 100 };

static __thread unsigned looks;            /* this thread's, at sockets */

/* All six are handed on, as the C library does, whether they were given or not. */
__attribute__((visibility("default"), no_sanitize_address)) long syscall(long number, ...)
{
	static long (*next)(long, ...);
	va_list list;
	long argument[6];

	/* No thread but the first comes here before it is set. */
	if (next == NULL)
		*(void **)(void *)&next = dlsym(RTLD_NEXT, "syscall");
	va_start(list, number);
	for (unsigned i = 0; i < 6; i++)
		argument[i] = va_arg(list, long);
	va_end(list);
	looks += number == SYS_recvmsg || number == SYS_recvmmsg;
	return next(number, argument[0], argument[1], argument[2], argument[3], argument[4], argument[5]);
}

static void message(struct pair *pair, uint64_t wr_id)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = pair_request(pair, 0, IBV_WR_SEND, &sge, 0, LENGTH);

	wr.wr_id = wr_id;
	fill_pattern(pair->buffer[0], LENGTH, (uint32_t)wr_id);
	memset(pair->buffer[1], 0, GRH + LENGTH);
	pair_receive(pair, 1, wr_id, 0, GRH + LENGTH);
	pair_post(pair, 0, &wr);
}

static unsigned looks_of_vain_polls(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	looks = 0;
	for (unsigned i = 0; i < POLLS; i++)
		assert_int_equal(ibv_poll_cq(cq, 1, &wc), 0);
	return looks;
}

static bool has_come(const struct pair *datagrams, struct ibv_cq *cq, uint32_t seed)
{
	struct ibv_wc wc;

	assert_int_equal(ibv_poll_cq(cq, 1, &wc), 0);
	return has_pattern(datagrams->buffer[1] + GRH, LENGTH, seed);
}

static void sockets_are_looked_at_now_and_then(void **state)
{
	struct pair connection, datagrams;

	(void)state;
	pair_open(&connection, &world, NULL);
	pair_open(&datagrams, &world, &(struct pair_options){.type = IBV_QPT_UD});
	message(&connection, 1);
	expect_completion(connection.cq[0], 1, IBV_WC_SEND);
	expect_completion(connection.cq[1], 1, IBV_WC_RECV);
	/* A pass looks at two sockets at most, and is made by one of 32. */
	assert_in_range(looks_of_vain_polls(connection.cq[0]), 0, POLLS / 8);
	for (uint32_t i = 2; i < 10; i++) {
		message(&datagrams, i);
		assert_true(eventually(has_come(&datagrams, connection.cq[0], i)));
		expect_completion(datagrams.cq[0], i, IBV_WC_SEND);
		expect_completion(datagrams.cq[1], i, IBV_WC_RECV);
	}
	/* Without it as before. */
	pair_close(&datagrams);
	assert_in_range(looks_of_vain_polls(connection.cq[0]), 0, POLLS / 8);
	pair_close(&connection);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sockets_are_looked_at_now_and_then),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, open_world, close_world);
}
