/* SPDX-License-Identifier: MIT
 *
 * A thread that sleeps until something comes, and takes it itself (wire/sleeping_call.h). By wire, and through memory.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/engine_stop.h"
#include "lib/one_pair.h"
#include "lib/patience.h"
#include "lib/private_network.h"
#include "lib/two_processes.h"
#include "wire/sleeping_call.h"

int execute_ioctl(struct ibv_context *context, void *command);

enum { ROUNDS = 20, SIZE = 3000 };

static int say(enum vb_sleeping_verb verb, struct ibv_cq *cq, int *fd)
{
	struct vb_sleeping_call call = {.magic = VB_SLEEPING_MAGIC, .version = VB_SLEEPING_VERSION, .verb = verb, .cq = cq, .fd = -1};
	int error = execute_ioctl(world.context, &call);

	if (fd != NULL)
		*fd = call.fd;
	return error;
}

/* Not before no other thread has gone to sleep for a while. */
static int begin(void)
{
	int64_t since = patience_clock();
	int fd;

	while (say(VB_SLEEPING_BEGIN, NULL, &fd) != 0)
		patience_rest(since);
	assert_true(fd >= 0);
	return fd;
}

static void end(void)
{
	assert_int_equal(say(VB_SLEEPING_END, NULL, NULL), 0);
}

static void sleep_on(int fd, const struct ibv_comp_channel *channel)
{
	struct pollfd fds[] = {{.fd = fd, .events = POLLIN}, {.fd = channel ? channel->fd : -1, .events = POLLIN}};

	if (fd >= 0)
		assert_int_equal(say(VB_SLEEPING_SETTLE, NULL, NULL), 0);
	assert_true(poll(fds, 2, PATIENCE_MS) > 0);
	if (fd >= 0 && fds[0].revents != 0)
		assert_int_equal(say(VB_SLEEPING_WOKEN, NULL, NULL), 0);
}

static void take_event(struct ibv_comp_channel *channel, struct ibv_cq *expected)
{
	struct ibv_cq *cq;
	void *context;

	assert_int_equal(ibv_get_cq_event(channel, &cq, &context), 0);
	assert_ptr_equal(cq, expected);
	ibv_ack_cq_events(cq, 1);
}

/* Whichever of the two has taken what came. */
static void disarm(struct ibv_comp_channel *channel, struct ibv_cq *cq)
{
	if (say(VB_SLEEPING_DISARM, cq, NULL) == EALREADY)
		take_event(channel, cq);
}

/* ---- with an engine thread that is stopped ---- */

static bool was_told;                      /* atomic */

static void *wait_for_event(void *channel)
{
	take_event(channel, pair.cq[CHILD]);
	__atomic_store_n(&was_told, true, __ATOMIC_RELEASE);
	return NULL;
}

static void open_child(int fd, struct ibv_comp_channel *channel)
{
	struct card other;

	pair_open(&pair, &world, &(struct pair_options){.stay_in_reset = true, .channel = channel});
	talk(fd, &(const struct card){.qpn = pair.qp[CHILD]->qp_num}, &other);
	pair.elsewhere = other.qpn;
	pair_to_init(&pair, CHILD);
	pair_to_rtr(&pair, CHILD);
	pair_to_rts(&pair, CHILD);
	pair_receive(&pair, CHILD, 1, 0, SIZE);
	pair_receive(&pair, CHILD, 2, SIZE, SIZE);
	meet(fd);                        /* both are ready */
}

static void take_own(int sockets, struct ibv_comp_channel *channel)
{
	assert_int_equal(ibv_req_notify_cq(pair.cq[CHILD], 0), 0);
	sleep_on(sockets, channel);
	end();
	disarm(channel, pair.cq[CHILD]);
	assert_int_equal(expect_completion(pair.cq[CHILD], 1, IBV_WC_RECV).byte_len, SIZE);
	assert_true(has_pattern(pair.buffer[CHILD], SIZE, 1));
}

/* Of another thread, which sleeps on its completions. */
static void take_for_other(int fd, struct ibv_comp_channel *channel)
{
	pthread_t thread;
	int sockets;

	assert_int_equal(ibv_req_notify_cq(pair.cq[CHILD], 0), 0);
	assert_int_equal(pthread_create(&thread, NULL, wait_for_event, channel), 0);
	meet(fd);                        /* it is sent */
	do {
		sockets = begin();
		(void)poll(&(struct pollfd){.fd = sockets, .events = POLLIN}, 1, 10);
		end();
		assert_int_equal(say(VB_SLEEPING_PASS, NULL, NULL), 0);
	} while (!__atomic_load_n(&was_told, __ATOMIC_ACQUIRE));
	assert_int_equal(pthread_join(thread, NULL), 0);
	expect_completion(pair.cq[CHILD], 2, IBV_WC_RECV);
	assert_true(has_pattern(pair.buffer[CHILD] + SIZE, SIZE, 2));
}

static void sleep_without_engine(int fd)
{
	struct ibv_comp_channel *channel;
	struct card nothing;
	int sockets;

	world_open(&world, "lo");
	channel = open_channel();
	open_child(fd, channel);
	sockets = begin();
	talk(fd, &(const struct card){.qpn = (uint32_t)engine_asleep()}, &nothing);
	meet(fd);                        /* it is stopped */
	take_own(sockets, channel);
	take_for_other(fd, channel);
	meet(fd);
	meet(fd);                        /* it goes on */
	pair_close(&pair);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
	world_close(&world);
}

static void send_to_child(uint32_t number)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = pair_request(&pair, PARENT, IBV_WR_SEND, &sge, (number - 1) * SIZE, SIZE);

	wr.wr_id = number;
	fill_pattern(pair.buffer[PARENT] + (number - 1) * SIZE, SIZE, number);
	pair_post(&pair, PARENT, &wr);
}

static void packets_wake_it_and_it_takes_them(void **state)
{
	/* No packet is sent twice, but in ages: one would wake it in any case. */
	const struct pair_options options = {.timeout = 20};
	struct card other;
	pid_t child, engine;
	int fd;

	(void)state;
	child = start(sleep_without_engine, &fd);
	open_half(&world, &pair, PARENT, &options, fd, &other);
	talk(fd, &(const struct card){0}, &other);
	engine = (pid_t)other.qpn;
	stop_engine(engine);
	meet(fd);
	send_to_child(1);
	meet(fd);
	send_to_child(2);
	meet(fd);
	resume_engine(engine);
	/* Acknowledgements may be its affair. */
	expect_completion(pair.cq[PARENT], 1, IBV_WC_SEND);
	expect_completion(pair.cq[PARENT], 2, IBV_WC_SEND);
	meet(fd);
	finish(child, fd);
	close_half(&world, &pair);
}

/* ---- with one ---- */

static void send_one(uint64_t number)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, SIZE);

	wr.wr_id = number;
	fill_pattern(pair.buffer[0], SIZE, (uint32_t)number);
	pair_receive(&pair, 1, number, 0, SIZE);
	pair_post(&pair, 0, &wr);
}

static void expect_arrival(const struct ibv_wc *wc, uint64_t number)
{
	assert_int_equal(wc->status, IBV_WC_SUCCESS);
	assert_int_equal(wc->wr_id, number);
	assert_int_equal(wc->byte_len, SIZE);
	assert_true(has_pattern(pair.buffer[1], SIZE, (uint32_t)number));
	expect_completion(pair.cq[0], number, IBV_WC_SEND);
}

/* As a sleep is made: armed, looked at, slept. True: there is a completion. */
static bool sleep_once(struct ibv_wc *wc)
{
	int sockets = begin(), got;

	assert_int_equal(ibv_req_notify_cq(pair.cq[1], 0), 0);
	got = ibv_poll_cq(pair.cq[1], 1, wc);
	if (got == 0)
		sleep_on(sockets, pair.options.channel);
	end();
	disarm(pair.options.channel, pair.cq[1]);
	return got == 1 || ibv_poll_cq(pair.cq[1], 1, wc) == 1;
}

static void it_misses_nothing_that_the_engine_thread_takes(void **state)
{
	struct ibv_wc wc;

	(void)state;
	for (uint64_t i = 0; i < ROUNDS; i++) {
		send_one(i);
		while (!sleep_once(&wc))
			;
		expect_arrival(&wc, i);
	}
}

/* It may be gone: a signal handler has left its sleep by longjmp, say. */
static void what_it_leaves_the_engine_thread_takes(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < ROUNDS; i++) {
		struct ibv_wc wc;

		assert_int_equal(ibv_req_notify_cq(pair.cq[1], 0), 0);
		(void)begin();
		send_one(i);
		take_event(pair.options.channel, pair.cq[1]);
		wc = wait_completion(pair.cq[1]);
		expect_arrival(&wc, i);
	}
	end();
}

/* It sleeps until packets come, and none does: an event that is due by time is the engine thread's affair. */
static void what_is_due_by_time_the_engine_thread_sees_to(void **state)
{
	struct ibv_modify_cq_attr attr = {.attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = {.cq_count = 100, .cq_period = 3000}};

	(void)state;
	assert_int_equal(ibv_modify_cq(pair.cq[1], &attr), 0);
	(void)begin();
	assert_int_equal(ibv_req_notify_cq(pair.cq[1], 0), 0);
	for (uint64_t i = 0; i < ROUNDS; i++) {
		struct ibv_wc wc;

		send_one(i);
		sleep_on(-1, pair.options.channel);
		take_event(pair.options.channel, pair.cq[1]);
		wc = wait_completion(pair.cq[1]);
		expect_arrival(&wc, i);
		assert_int_equal(ibv_req_notify_cq(pair.cq[1], 0), 0);
	}
	end();
}

static void *begin_beside(void *unused)
{
	(void)unused;
	assert_int_equal(say(VB_SLEEPING_BEGIN, NULL, NULL), EBUSY);
	return NULL;
}

static void another_may_not_meanwhile(void **state)
{
	pthread_t thread;

	(void)state;
	(void)begin();
	assert_int_equal(pthread_create(&thread, NULL, begin_beside, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	end();
}

static void what_is_not_known_is_refused(void **state)
{
	struct vb_sleeping_call call = {.magic = VB_SLEEPING_MAGIC, .version = VB_SLEEPING_VERSION + 1, .verb = VB_SLEEPING_BEGIN};

	(void)state;
	assert_int_equal(execute_ioctl(world.context, &call), ENOSYS);
	call = (struct vb_sleeping_call){.magic = VB_SLEEPING_MAGIC, .version = VB_SLEEPING_VERSION, .verb = VB_SLEEPING_PRIVATE + 1};
	assert_int_equal(execute_ioctl(world.context, &call), ENOSYS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packets_wake_it_and_it_takes_them),
		WITH_PAIR(it_misses_nothing_that_the_engine_thread_takes),
		WITH_PAIR(what_it_leaves_the_engine_thread_takes),
		WITH_PAIR(what_is_due_by_time_the_engine_thread_sees_to),
		WITH_PAIR(another_may_not_meanwhile),
		WITH_PAIR(what_is_not_known_is_refused),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
