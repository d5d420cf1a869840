/* SPDX-License-Identifier: MIT
 *
 * Two queue pairs of one lane (schedule/lane.h) whose peers are gone: the timer of one has run out, unseen, when the other is told to end,
 * which has the lane's sockets read. So has the first, before it gives up. In a child, whose engine thread is held up. Run with
 * VERBENA_LANES=4.
 */
#include <pthread.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "io/clock.h"
#include "lib/engine_stop.h"
#include "lib/private_network.h"
#include "lib/two_processes.h"
#include "wire/daemon_message.h"

static struct world world;
static struct pair pair[2];

static void *make_two(void *argument)
{
	const struct pair_options impatient = {.timeout = 1, .no_retry = true};

	(void)argument;
	pair_open(&pair[0], &world, &impatient);
	pair_open(&pair[1], &world, NULL);
	return NULL;
}

static void end_both(int fd)
{
	enum { LONG_ENOUGH_US = 20000, HUNG_SECONDS = 20 };
	struct pair first;
	struct card card;
	pthread_t thread;
	vb_time until;

	world_open(&world, "lo");
	pair_open(&first, &world, NULL);     /* has lane 0 */
	assert_int_equal(pthread_create(&thread, NULL, make_two, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(pair[0].qp[0]->qp_num % VB_DAEMON_LANES, 1);
	assert_int_equal(pair[1].qp[0]->qp_num % VB_DAEMON_LANES, 1);
	pair_reset(&pair[0], 1);
	pair_reset(&pair[1], 1);
	talk(fd, &(const struct card){.qpn = (uint32_t)engine_asleep()}, &card);
	meet(fd);
	alarm(HUNG_SECONDS);
	for (int i = 0; i < 2; i++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr = pair_request(&pair[i], 0, IBV_WR_RDMA_WRITE, &sge, 0, 64);

		pair_post(&pair[i], 0, &wr);
	}
	until = vb_clock_now() + VB_MICROSECONDS(LONG_ENOUGH_US);
	while (vb_clock_now() < until)
		;
	to_error(pair[1].qp[0]);
	alarm(0);
	meet(fd);
	meet(fd);
}

static void two_of_a_lane_end_at_once(void **state)
{
	struct card card;
	pid_t child, engine;
	int fd;

	(void)state;
	child = start(end_both, &fd);
	talk(fd, &(const struct card){0}, &card);
	engine = (pid_t)card.qpn;
	stop_engine(engine);
	meet(fd);
	meet(fd);
	resume_engine(engine);
	meet(fd);
	finish(child, fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_of_a_lane_end_at_once),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
