/* SPDX-License-Identifier: MIT
 *
 * Many threads: posting to one queue pair, polling one completion queue, and pairs of their own.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/one_world.h"
#include "lib/private_network.h"

enum { THREADS = 4, ROUNDS = 300 };

static void *own_pair(void *argument)
{
	struct pair pair;
	uint32_t seed = (uint32_t)(uintptr_t)argument;

	pair_open(&pair, &world, NULL);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint32_t length = (i * 977 + seed * 31) % 9000;
		struct ibv_sge sge;
		struct ibv_send_wr wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, length);

		fill_pattern(pair.buffer[0], length, i + seed);
		pair_receive(&pair, 1, i, 0, length);
		pair_post(&pair, 0, &wr);
		assert_int_equal(expect_completion(pair.cq[1], i, IBV_WC_RECV).byte_len, length);
		assert_true(has_pattern(pair.buffer[1], length, i + seed));
		expect_completion(pair.cq[0], wr.wr_id, IBV_WC_SEND);
	}
	pair_close(&pair);
	return NULL;
}

static void threads_with_pairs_of_their_own(void **state)
{
	pthread_t thread[THREADS];

	(void)state;
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, own_pair, (void *)i), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(thread[i], NULL), 0);
}

static struct pair shared;
static uint32_t sent, received, seen[THREADS * ROUNDS];

static void *post_to_shared(void *argument)
{
	uint64_t base = (uintptr_t)argument * ROUNDS;

	for (uint64_t i = 0; i < ROUNDS; i++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr = pair_request(&shared, 0, IBV_WR_RDMA_WRITE_WITH_IMM, &sge, 0, 64), *bad;
		struct ibv_recv_wr receive = {.wr_id = base + i}, *bad_receive;
		int error;

		wr.wr_id = base + i;
		wr.imm_data = (uint32_t)(base + i);
		while ((error = ibv_post_recv(shared.qp[1], &receive, &bad_receive)) == ENOMEM)
			sched_yield();
		assert_int_equal(error, 0);
		while ((error = ibv_post_send(shared.qp[0], &wr, &bad)) == ENOMEM)
			sched_yield();
		assert_int_equal(error, 0);
	}
	return NULL;
}

static void *poll_shared(void *unused)
{
	(void)unused;
	while (__atomic_load_n(&sent, __ATOMIC_ACQUIRE) < THREADS * ROUNDS ||
	       __atomic_load_n(&received, __ATOMIC_ACQUIRE) < THREADS * ROUNDS) {
		struct ibv_wc wc[4];

		for (int side = 0; side < 2; side++) {
			int got = ibv_poll_cq(shared.cq[side], 4, wc);

			assert_true(got >= 0);
			for (int i = 0; i < got; i++) {
				assert_int_equal(wc[i].status, IBV_WC_SUCCESS);
				if (side == 1)
					__atomic_fetch_add(&seen[wc[i].imm_data], 1, __ATOMIC_RELAXED);
			}
			__atomic_fetch_add(side == 0 ? &sent : &received, (uint32_t)got, __ATOMIC_ACQ_REL);
		}
	}
	return NULL;
}

static void threads_sharing_everything(void **state)
{
	const struct pair_options options = {.depth = 128};
	pthread_t poster[THREADS], poller[2];

	(void)state;
	pair_open(&shared, &world, &options);
	for (int side = 0; side < 2; side++)     /* queues refill before the pollers come round */
		assert_int_equal(ibv_resize_cq(shared.cq[side], THREADS * ROUNDS), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&poller[i], NULL, poll_shared, NULL), 0);
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&poster[i], NULL, post_to_shared, (void *)i), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(poster[i], NULL), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_join(poller[i], NULL), 0);
	for (int i = 0; i < THREADS * ROUNDS; i++)
		assert_int_equal(seen[i], 1);
	pair_close(&shared);
}

/* Objects are made and unmade while packets fly. */
static void *make_and_unmake(void *unused)
{
	(void)unused;
	for (int i = 0; i < 30; i++) {
		struct pair pair;
		struct ibv_sge sge;
		struct ibv_send_wr wr;

		pair_open(&pair, &world, NULL);
		for (int j = 0; j < 5; j++) {
			wr = pair_request(&pair, 0, IBV_WR_RDMA_WRITE, &sge, 0, 30000);
			pair_post(&pair, 0, &wr);
		}
		if (i % 2 == 0)
			expect_completion(pair.cq[0], wr.wr_id, IBV_WC_RDMA_WRITE);
		pair_close(&pair);
	}
	return NULL;
}

static void threads_making_and_unmaking(void **state)
{
	pthread_t thread[THREADS];

	(void)state;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, make_and_unmake, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(thread[i], NULL), 0);
}

static struct ibv_comp_channel *channel;

static void *wait_for_events(void *unused)
{
	struct ibv_cq *cq;
	void *context;

	(void)unused;
	for (int i = 0; i < ROUNDS / 3; i++) {
		assert_int_equal(ibv_get_cq_event(channel, &cq, &context), 0);
		ibv_ack_cq_events(cq, 1);
		__atomic_fetch_add(&received, 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

static void several_getters_on_one_channel(void **state)
{
	struct pair_options options = {0};
	pthread_t getter[3];
	struct pair pair;

	(void)state;
	received = 0;
	options.channel = channel = ibv_create_comp_channel(world.context);
	pair_open(&pair, &world, &options);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&getter[i], NULL, wait_for_events, NULL), 0);
	for (uint32_t i = 0; i < ROUNDS / 3 * 3; i++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr = pair_request(&pair, 0, IBV_WR_RDMA_WRITE, &sge, 0, 8);

		assert_int_equal(ibv_req_notify_cq(pair.cq[0], 0), 0);
		pair_post(&pair, 0, &wr);
		expect_completion(pair.cq[0], wr.wr_id, IBV_WC_RDMA_WRITE);
	}
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_join(getter[i], NULL), 0);
	pair_close(&pair);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_with_pairs_of_their_own),
		cmocka_unit_test(threads_sharing_everything),
		cmocka_unit_test(threads_making_and_unmaking),
		cmocka_unit_test(several_getters_on_one_channel),
	};

	private_network_enter();
	setenv("CMOCKA_TEST_ABORT", "1", 1);     /* a failed assertion cannot unwind another thread */
	return cmocka_run_group_tests(tests, open_world, close_world);
}
