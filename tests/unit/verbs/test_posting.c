/* SPDX-License-Identifier: MIT
 *
 * Small requests posted one by one may wait for one another while somebody polls (links/udp/transmit.c): they leave all the same,
 * in order, whether the one who posted them polls again or never does. By wire, where they wait.
 */
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/one_world.h"
#include "lib/patience.h"
#include "lib/private_network.h"

enum { DEPTH = 256, MANY = 200, ROUNDS = 20, SIZE = 64 };

/* Long enough for the engine thread to leave the work to us. */
static void spin(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	for (int64_t began = patience_clock(); patience_clock() - began < 5;)
		assert_int_equal(ibv_poll_cq(cq, 1, &wc), 0);
}

static bool arrived(const uint8_t *bytes, uint8_t value)
{
	return __atomic_load_n(bytes, __ATOMIC_ACQUIRE) == value;
}

/* Nothing but our memory is looked at after the last post. */
static void nobody_polls_after_posting(void **state)
{
	const struct pair_options options = {.depth = DEPTH};
	struct pair pair;
	struct ibv_sge sge;

	(void)state;
	pair_open(&pair, &world, &options);
	for (uint8_t round = 1; round <= ROUNDS; round++) {
		unsigned count = 1 + round * 7u % 130;

		spin(pair.cq[0]);
		memset(pair.buffer[0], round, (size_t)MANY * SIZE);
		for (unsigned i = 0; i < count; i++) {
			struct ibv_send_wr wr = pair_request(&pair, 0, IBV_WR_RDMA_WRITE, &sge, (size_t)i * SIZE, SIZE);

			wr.wr_id = i;
			wr.send_flags = i + 1 == count ? IBV_SEND_SIGNALED : 0;
			pair_post(&pair, 0, &wr);
		}
		assert_true(eventually(arrived(pair.buffer[1] + (size_t)count * SIZE - 1, round)));
		/* In order: then the others are there too. */
		for (unsigned i = 0; i < count; i++)
			assert_true(arrived(pair.buffer[1] + (size_t)i * SIZE, round));
		expect_completion(pair.cq[0], count - 1, IBV_WC_RDMA_WRITE);
	}
	pair_close(&pair);
}

/* An acknowledgement may be put off while somebody polls; who destroys, resets or fails the queue pair must not lose it. */
static void acknowledged_to_the_last(void **state)
{
	const struct pair_options options = {.depth = 4};

	(void)state;
	for (unsigned way = 0; way < 3 * 10; way++) {
		struct ibv_qp_attr attr = {.qp_state = way % 3 == 1 ? IBV_QPS_ERR : IBV_QPS_RESET};
		struct pair pair;
		struct ibv_sge sge;
		struct ibv_send_wr wr;

		pair_open(&pair, &world, &options);
		pair_receive(&pair, 1, 7, 0, SIZE);
		spin(pair.cq[0]);
		wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, SIZE);
		pair_post(&pair, 0, &wr);
		expect_completion(pair.cq[1], 7, IBV_WC_RECV);
		if (way % 3 == 0) {
			assert_int_equal(ibv_destroy_qp(pair.qp[1]), 0);
			pair.qp[1] = NULL;
		} else {
			assert_int_equal(ibv_modify_qp(pair.qp[1], &attr, IBV_QP_STATE), 0);
		}
		expect_completion(pair.cq[0], wr.wr_id, IBV_WC_SEND);
		pair_close(&pair);
	}
}

static void tell(struct pair *pair, int from)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = pair_request(pair, from, IBV_WR_SEND, &sge, 0, 8);

	wr.send_flags = 0;
	pair_post(pair, from, &wr);
	expect_completion(pair->cq[1 - from], 7, IBV_WC_RECV);
	pair_receive(pair, 1 - from, 7, 0, 8);
}

/* The same of what does not ask for it, and is put off for longer (roce/late.c). The sender's queue is empty, which can be seen, when all
 * of it is acknowledged. */
static void acknowledged_to_the_last_unasked(void **state)
{
	const struct pair_options options = {.depth = DEPTH};
	struct ibv_qp_attr drain = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};

	(void)state;
	for (unsigned way = 0; way < 3 * 4; way++) {
		struct ibv_qp_attr attr = {.qp_state = way % 3 == 1 ? IBV_QPS_ERR : IBV_QPS_RESET};
		struct pair pair;

		pair_open(&pair, &world, &options);
		for (unsigned i = 0; i < 2 * DEPTH / 4; i++)
			pair_receive(&pair, i % 2, 7, 0, 8);
		spin(pair.cq[0]);
		for (unsigned i = 0; i < MANY; i++)
			tell(&pair, i % 2);
		tell(&pair, 0);
		if (way % 3 == 0) {
			assert_int_equal(ibv_destroy_qp(pair.qp[1]), 0);
			pair.qp[1] = NULL;
		} else {
			assert_int_equal(ibv_modify_qp(pair.qp[1], &attr, IBV_QP_STATE), 0);
		}
		assert_int_equal(ibv_modify_qp(pair.qp[0], &drain, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
		assert_ptr_equal(expect_event(world.context, IBV_EVENT_SQ_DRAINED).element.qp, pair.qp[0]);
		pair_close(&pair);
	}
}

static void exchange(enum ibv_qp_type type)
{
	const struct pair_options options = {.type = type, .depth = DEPTH};
	const size_t before = type == IBV_QPT_UD ? 40 : 0;
	struct pair pair;
	struct ibv_sge sge;

	pair_open(&pair, &world, &options);
	for (unsigned i = 0; i < MANY; i++)
		pair_receive(&pair, 1, i, (size_t)i * 2 * SIZE, (uint32_t)before + SIZE);
	spin(pair.cq[0]);
	for (unsigned i = 0; i < MANY; i++) {
		struct ibv_send_wr wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, (size_t)i * SIZE, SIZE);

		fill_pattern(pair.buffer[0] + (size_t)i * SIZE, SIZE, i);
		wr.wr_id = i;
		pair_post(&pair, 0, &wr);
	}
	for (unsigned i = 0; i < MANY; i++)
		expect_completion(pair.cq[0], i, IBV_WC_SEND);
	for (unsigned i = 0; i < MANY; i++) {
		expect_completion(pair.cq[1], i, IBV_WC_RECV);
		assert_true(has_pattern(pair.buffer[1] + (size_t)i * 2 * SIZE + before, SIZE, i));
	}
	pair_close(&pair);
}

static void the_poster_polls(void **state)
{
	(void)state;
	exchange(IBV_QPT_RC);
	exchange(IBV_QPT_UC);
	exchange(IBV_QPT_UD);
}

/* To and fro: the acknowledgement that waits for the answer comes with it, and comes when there is none. */
static void answers_and_none(void **state)
{
	struct pair pair;
	struct ibv_sge sge;

	(void)state;
	pair_open(&pair, &world, &(const struct pair_options){.depth = DEPTH});
	for (unsigned i = 0; i < MANY; i++) {
		struct ibv_send_wr there = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, 8);

		there.wr_id = i;
		pair_receive(&pair, 1, i, 0, 8);
		pair_receive(&pair, 0, i, 0, 8);
		pair_post(&pair, 0, &there);
		expect_completion(pair.cq[1], i, IBV_WC_RECV);
		if (i % 3 == 0) {
			struct ibv_send_wr back = pair_request(&pair, 1, IBV_WR_SEND, &sge, 0, 8);
			struct ibv_wc first, second;

			back.wr_id = i;
			pair_post(&pair, 1, &back);
			first = wait_completion(pair.cq[0]);
			second = wait_completion(pair.cq[0]);
			assert_int_equal(first.status, IBV_WC_SUCCESS);
			assert_int_equal(second.status, IBV_WC_SUCCESS);
			expect_completion(pair.cq[1], i, IBV_WC_SEND);
		} else {
			expect_completion(pair.cq[0], i, IBV_WC_SEND);
		}
	}
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_polls_after_posting),
		cmocka_unit_test(acknowledged_to_the_last),
		cmocka_unit_test(acknowledged_to_the_last_unasked),
		cmocka_unit_test(the_poster_polls),
		cmocka_unit_test(answers_and_none),
	};

	setenv("VERBENA_WIRE", "rocev2", 1);
	private_network_enter();
	return cmocka_run_group_tests(tests, open_world, close_world);
}
