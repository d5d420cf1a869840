/* SPDX-License-Identifier: MIT
 *
 * Threads with sockets of their own (schedule/lane.h): which queue pair comes to which lane, traffic within and between lanes, CQs of queue
 * pairs of several, numbers that lead to another lane's socket, and a verbenad that is replaced meanwhile. Run with VERBENA_LANES=4.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "io/clock.h"
#include "io/unix_socket.h"
#include "lib/one_world.h"
#include "lib/patience.h"
#include "lib/private_network.h"
#include "wire/daemon_message.h"

enum { LANES = 4, ROUNDS = 200, CROWD = 1200 };

static struct pair pair[LANES];
static struct pair_options options;
static pthread_barrier_t barrier;

static unsigned lane_of(const struct ibv_qp *qp)
{
	return qp->qp_num & (VB_DAEMON_LANES - 1);
}

static void run_threads(void *(*work)(void *))
{
	pthread_t thread[LANES];

	assert_int_equal(pthread_barrier_init(&barrier, NULL, LANES), 0);
	for (uintptr_t i = 0; i < LANES; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, work, (void *)i), 0);
	for (int i = 0; i < LANES; i++)
		assert_int_equal(pthread_join(thread[i], NULL), 0);
	pthread_barrier_destroy(&barrier);
}

static void *make(void *argument)
{
	pair_open(&pair[(uintptr_t)argument], &world, &options);
	/* None ends, and makes room for another, before all have theirs. */
	pthread_barrier_wait(&barrier);
	return NULL;
}

static void make_pairs(const struct pair_options *wanted)
{
	options = wanted ? *wanted : (struct pair_options){0};
	run_threads(make);
}

static void close_pairs(void)
{
	for (int i = 0; i < LANES; i++)
		pair_close(&pair[i]);
}

static void *send_on_own(void *argument)
{
	struct pair *own = &pair[(uintptr_t)argument];
	uint32_t seed = (uint32_t)(uintptr_t)argument;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint32_t length = (i * 977 + seed * 31) % 9000;
		struct ibv_sge sge;
		struct ibv_send_wr wr = pair_request(own, 0, i % 8 == 7 ? IBV_WR_RDMA_READ : IBV_WR_SEND, &sge, 0, length);

		fill_pattern(own->buffer[i % 8 == 7], length, i + seed);
		if (i % 8 != 7)
			pair_receive(own, 1, i, 0, length);
		pair_post(own, 0, &wr);
		if (i % 8 != 7)
			assert_int_equal(expect_completion(own->cq[1], i, IBV_WC_RECV).byte_len, length);
		expect_completion(own->cq[0], wr.wr_id, i % 8 == 7 ? IBV_WC_RDMA_READ : IBV_WC_SEND);
		assert_true(has_pattern(own->buffer[i % 8 != 7], length, i + seed));
	}
	return NULL;
}

/* Both ends of a thread's pair have its lane, and no two threads have the same. */
static void a_thread_has_a_lane(void **state)
{
	unsigned seen = 0;

	(void)state;
	make_pairs(NULL);
	for (int i = 0; i < LANES; i++) {
		assert_int_equal(lane_of(pair[i].qp[0]), lane_of(pair[i].qp[1]));
		seen |= 1u << lane_of(pair[i].qp[0]);
	}
	assert_int_equal(seen, (1 << LANES) - 1);
	run_threads(send_on_own);
	close_pairs();
}

/* A queue pair is where its CQ is, whichever thread makes it. */
static void a_cq_keeps_its_lane(void **state)
{
	struct ibv_qp *qp;

	(void)state;
	make_pairs(NULL);
	for (int i = 0; i < LANES; i++) {
		struct ibv_qp_init_attr attr = {
			.qp_type = IBV_QPT_RC, .send_cq = pair[i].cq[0], .recv_cq = pair[i].cq[0],
			.cap = {.max_send_wr = 1, .max_recv_wr = 1},
		};

		qp = ibv_create_qp(world.pd, &attr);
		assert_non_null(qp);
		assert_int_equal(lane_of(qp), lane_of(pair[i].qp[0]));
		assert_int_equal(ibv_destroy_qp(qp), 0);
	}
	close_pairs();
}

/* The receiving end of each becomes that of the next. */
static void cross(void)
{
	struct pair first = pair[0];

	for (int i = 0; i < LANES; i++) {
		const struct pair *next = i + 1 < LANES ? &pair[i + 1] : &first;

		pair[i].qp[1] = next->qp[1];
		pair[i].cq[1] = next->cq[1];
		pair[i].mr[1] = next->mr[1];
		pair[i].buffer[1] = next->buffer[1];
	}
	for (int i = 0; i < LANES; i++)
		pair_connect(&pair[i]);
}

static void lanes_talk_to_each_other(void **state)
{
	(void)state;
	make_pairs(&(struct pair_options){.stay_in_reset = true});
	cross();
	run_threads(send_on_own);
	close_pairs();
}

/* Sends complete in the CQ of one lane, receives in that of another: who polls either sees to it. */
static void a_queue_pair_between_lanes(void **state)
{
	struct pair mixed;

	(void)state;
	make_pairs(NULL);
	pair_open(&mixed, &world, &(struct pair_options){.stay_in_reset = true});
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr attr = {
			.qp_type = IBV_QPT_RC, .send_cq = pair[1].cq[0], .recv_cq = pair[2].cq[0],
			.cap = {.max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 4, .max_recv_sge = 4},
		};

		assert_int_equal(ibv_destroy_qp(mixed.qp[i]), 0);
		assert_int_equal(ibv_destroy_cq(mixed.cq[i]), 0);
		mixed.qp[i] = ibv_create_qp(world.pd, &attr);
		assert_non_null(mixed.qp[i]);
	}
	pair_connect(&mixed);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr = pair_request(&mixed, 0, IBV_WR_SEND, &sge, 0, 3000);

		pair_receive(&mixed, 1, i, 0, 3000);
		pair_post(&mixed, 0, &wr);
		expect_completion(pair[2].cq[0], i, IBV_WC_RECV);
		expect_completion(pair[1].cq[0], wr.wr_id, IBV_WC_SEND);
	}
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ibv_destroy_qp(mixed.qp[i]), 0);
		assert_int_equal(ibv_dereg_mr(mixed.mr[i]), 0);
		free(mixed.buffer[i]);
	}
	run_threads(send_on_own);
	close_pairs();
}

/* One thread that polls the CQs of all lanes in turn. */
static void one_thread_polls_all(void **state)
{
	enum { AT_ONCE = 8 };
	unsigned missing = LANES * AT_ONCE;
	vb_time until = vb_clock_now() + VB_SECONDS(PATIENCE_SECONDS);

	(void)state;
	make_pairs(NULL);
	for (int i = 0; i < LANES * AT_ONCE; i++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr = pair_request(&pair[i % LANES], 0, IBV_WR_RDMA_WRITE, &sge, 0, 5000);

		pair_post(&pair[i % LANES], 0, &wr);
	}
	while (missing > 0 && vb_clock_now() < until) {
		for (int i = 0; i < LANES; i++) {
			struct ibv_wc wc;
			int got = ibv_poll_cq(pair[i].cq[0], 1, &wc);

			assert_true(got >= 0);
			if (got == 1)
				assert_int_equal(wc.status, IBV_WC_SUCCESS);
			missing -= (unsigned)got;
		}
	}
	assert_int_equal(missing, 0);
	close_pairs();
}

static void *make_and_unmake(void *argument)
{
	struct pair *own = &pair[(uintptr_t)argument];

	for (int i = 0; i < 30; i++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr;

		pair_open(own, &world, NULL);
		for (int j = 0; j < 5; j++) {
			wr = pair_request(own, 0, IBV_WR_RDMA_WRITE, &sge, 0, 30000);
			pair_post(own, 0, &wr);
		}
		if (i % 2 == 0)
			expect_completion(own->cq[0], wr.wr_id, IBV_WC_RDMA_WRITE);
		pair_close(own);
	}
	return NULL;
}

static void queue_pairs_come_and_go(void **state)
{
	(void)state;
	run_threads(make_and_unmake);
}

/* More than have numbers of their lanes: packets of the others come to any socket of the process. */
static void numbers_of_other_lanes(void **state)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC, .cap = {.max_send_wr = 1, .max_recv_wr = 1}};
	struct ibv_qp *crowd[CROWD];
	struct ibv_cq *cq = ibv_create_cq(world.context, 16, NULL, NULL, 0);
	bool strays = false;

	(void)state;
	attr.send_cq = attr.recv_cq = cq;
	for (int i = 0; i < CROWD; i++)
		assert_non_null(crowd[i] = ibv_create_qp(world.pd, &attr));
	/* In a few tries: each has a chance of one in sixteen thousand to be made without a stray. */
	for (int i = 0; i < 3 && !strays; i++) {
		make_pairs(NULL);
		for (int j = 0; j < LANES; j++)
			strays = strays || lane_of(pair[j].qp[0]) != lane_of(pair[j].qp[1]);
		run_threads(send_on_own);
		close_pairs();
	}
	assert_true(strays);
	run_threads(make_and_unmake);
	for (int i = 0; i < CROWD; i++)
		assert_int_equal(ibv_destroy_qp(crowd[i]), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

/* Nobody polls the receiving end: the engine thread answers for every lane. */
static void lanes_that_nobody_polls(void **state)
{
	(void)state;
	make_pairs(&(struct pair_options){.stay_in_reset = true});
	cross();
	for (int i = 0; i < LANES; i++) {
		for (int j = 0; j < 20; j++) {
			struct ibv_sge sge;
			struct ibv_send_wr wr = pair_request(&pair[i], 0, j % 2 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, &sge, 0, 20000);

			pair_post(&pair[i], 0, &wr);
			expect_completion(pair[i].cq[0], wr.wr_id, j % 2 ? IBV_WC_RDMA_WRITE : IBV_WC_RDMA_READ);
		}
	}
	close_pairs();
}

/* Threads that sleep on their CQs are woken, whichever lane it is. */
static void *sleep_for_each(void *argument)
{
	struct pair *own = &pair[(uintptr_t)argument];
	struct ibv_cq *cq;
	void *context;

	for (uint32_t i = 0; i < 30; i++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr = pair_request(own, 0, IBV_WR_RDMA_WRITE, &sge, 0, 100);
		struct ibv_wc wc;

		assert_int_equal(ibv_req_notify_cq(own->cq[0], 0), 0);
		pair_post(own, 0, &wr);
		assert_int_equal(ibv_get_cq_event(own->cq[0]->channel, &cq, &context), 0);
		ibv_ack_cq_events(cq, 1);
		assert_int_equal(ibv_poll_cq(own->cq[0], 1, &wc), 1);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
	}
	return NULL;
}

static void *make_with_channel(void *argument)
{
	struct pair_options own = {.channel = ibv_create_comp_channel(world.context)};

	pair_open(&pair[(uintptr_t)argument], &world, &own);
	pthread_barrier_wait(&barrier);
	return NULL;
}

static void sleepers_are_woken(void **state)
{
	struct ibv_comp_channel *channel[LANES];

	(void)state;
	run_threads(make_with_channel);
	run_threads(sleep_for_each);
	for (int i = 0; i < LANES; i++)
		channel[i] = pair[i].cq[0]->channel;
	close_pairs();
	for (int i = 0; i < LANES; i++)
		assert_int_equal(ibv_destroy_comp_channel(channel[i]), 0);
}

static uint32_t daemon_pid(void)
{
	struct vb_unix_peer peer = {0};
	int fd = vb_unix_connect(VB_DAEMON_SOCKET);

	if (fd >= 0) {
		assert_int_equal(vb_unix_peer(fd, &peer), 0);
		close(fd);
	}
	return (uint32_t)peer.pid;
}

/* The sockets are shown to the new one, and packets come by them again. */
static void a_new_verbenad_takes_them_over(void **state)
{
	uint32_t before = daemon_pid(), after;
	vb_time until = vb_clock_now() + VB_SECONDS(PATIENCE_SECONDS);

	(void)state;
	make_pairs(&(struct pair_options){.stay_in_reset = true});
	cross();
	assert_int_equal(kill((pid_t)before, SIGKILL), 0);
	run_threads(send_on_own);
	while (((after = daemon_pid()) == 0 || after == before) && vb_clock_now() < until)
		sched_yield();
	assert_int_not_equal(after, before);
	for (int i = 0; i < 5; i++)
		run_threads(send_on_own);
	close_pairs();
	/* And others can be made. */
	make_pairs(NULL);
	run_threads(send_on_own);
	close_pairs();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_has_a_lane),
		cmocka_unit_test(a_cq_keeps_its_lane),
		cmocka_unit_test(lanes_talk_to_each_other),
		cmocka_unit_test(a_queue_pair_between_lanes),
		cmocka_unit_test(one_thread_polls_all),
		cmocka_unit_test(queue_pairs_come_and_go),
		cmocka_unit_test(numbers_of_other_lanes),
		cmocka_unit_test(lanes_that_nobody_polls),
		cmocka_unit_test(sleepers_are_woken),
		cmocka_unit_test(a_new_verbenad_takes_them_over),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, open_world, close_world);
}
