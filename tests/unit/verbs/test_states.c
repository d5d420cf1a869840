/* SPDX-License-Identifier: MIT
 *
 * States of queue pairs as programs meet them: what modify refuses, reset and reuse, draining. (Every transition and
 * every attribute mask is tried in tests/unit/queue.)
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/one_world.h"
#include "lib/private_network.h"

static int modify_to_rtr(struct pair *pair, const struct ibv_ah_attr *address)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = pair->qp[1]->qp_num,
		.max_dest_rd_atomic = 1,
		.ah_attr = *address,
	};

	return ibv_modify_qp(pair->qp[0], &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static void addresses_are_checked(void **state)
{
	const struct pair_options options = {.stay_in_reset = true};
	const struct ibv_ah_attr good = {.grh = {.dgid = world.gid, .sgid_index = (uint8_t)world.gid_index}, .is_global = 1,
					 .port_num = 1};
	struct ibv_ah_attr bad;
	struct pair pair;

	(void)state;
	pair_open(&pair, &world, &options);
	pair_to_init(&pair, 0);
	bad = good;
	bad.is_global = 0;
	assert_int_equal(modify_to_rtr(&pair, &bad), EINVAL);
	bad = good;
	bad.grh.sgid_index = 63;
	assert_int_equal(modify_to_rtr(&pair, &bad), EINVAL);
	bad.grh.sgid_index = 200;
	assert_int_equal(modify_to_rtr(&pair, &bad), EINVAL);
	bad = good;
	memset(&bad.grh.dgid, 0, sizeof(bad.grh.dgid));
	assert_int_equal(modify_to_rtr(&pair, &bad), EINVAL);
	bad = good;
	bad.port_num = 2;
	assert_int_equal(modify_to_rtr(&pair, &bad), EINVAL);
	bad = good;
	memset(bad.grh.dgid.raw, 0, 16);
	bad.grh.dgid.raw[15] = 1;                /* ::1 from 127.0.0.1 */
	assert_int_equal(modify_to_rtr(&pair, &bad), EINVAL);
	assert_int_equal(state_of(pair.qp[0]), IBV_QPS_INIT);
	assert_int_equal(modify_to_rtr(&pair, &good), 0);
	assert_int_equal(pair.qp[0]->state, IBV_QPS_RTR);
	pair_close(&pair);
}

static void steps_cannot_be_skipped(void **state)
{
	const struct pair_options options = {.stay_in_reset = true};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};
	struct pair pair;

	(void)state;
	pair_open(&pair, &world, &options);
	assert_int_equal(ibv_modify_qp(pair.qp[0], &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), EINVAL);
	attr.qp_state = IBV_QPS_INIT;
	assert_int_equal(ibv_modify_qp(pair.qp[0], &attr, IBV_QP_STATE), EINVAL);
	attr.port_num = 9;
	assert_int_equal(ibv_modify_qp(pair.qp[0], &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
			 EINVAL);
	attr.port_num = 1;
	attr.pkey_index = 1;
	assert_int_equal(ibv_modify_qp(pair.qp[0], &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
			 EINVAL);
	assert_int_equal(state_of(pair.qp[0]), IBV_QPS_RESET);
	pair_close(&pair);
}

static void what_was_set_can_be_asked(void **state)
{
	const struct pair_options options = {.mtu = IBV_MTU_2048, .timeout = 12, .retry = 5, .rnr_retry = 3, .min_rnr_timer = 9,
					     .read_depth = 4};
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct pair pair;

	(void)state;
	pair_open(&pair, &world, &options);
	assert_int_equal(ibv_query_qp(pair.qp[0], &attr, -1, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(attr.path_mtu, IBV_MTU_2048);
	assert_int_equal(attr.dest_qp_num, pair.qp[1]->qp_num);
	assert_int_equal(attr.timeout, 12);
	assert_int_equal(attr.retry_cnt, 5);
	assert_int_equal(attr.rnr_retry, 3);
	assert_int_equal(attr.min_rnr_timer, 9);
	assert_int_equal(attr.max_rd_atomic, 4);
	assert_int_equal(attr.max_dest_rd_atomic, 4);
	assert_int_equal(attr.port_num, 1);
	assert_memory_equal(&attr.ah_attr.grh.dgid, &world.gid, 16);
	assert_int_equal(attr.ah_attr.is_global, 1);
	pair_close(&pair);
}

static void reset_forgets_and_begins_anew(void **state)
{
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	pair_open(&pair, &world, NULL);
	for (int round = 0; round < 5; round++) {
		pair_receive(&pair, 1, 1, 0, 64);
		pair_receive(&pair, 1, 2, 0, 64);
		wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, 64);
		pair_post(&pair, 0, &wr);
		expect_completion(pair.cq[1], 1, IBV_WC_RECV);
		/* Completions not yet polled go with the reset; receive 2 is gone without a completion. */
		pair_reset(&pair, 0);
		pair_reset(&pair, 1);
		expect_silence(pair.cq[0]);
		expect_silence(pair.cq[1]);
		pair_connect(&pair);
	}
	pair_close(&pair);
}

static void draining(void **state)
{
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};

	(void)state;
	pair_open(&pair, &world, NULL);
	for (uint64_t i = 0; i < 10; i++) {
		wr = pair_request(&pair, 0, IBV_WR_RDMA_WRITE, &sge, 0, 60000);
		wr.wr_id = i;
		pair_post(&pair, 0, &wr);
	}
	assert_int_equal(ibv_modify_qp(pair.qp[0], &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	/* What was under way finishes; what is posted now waits. */
	assert_ptr_equal(expect_event(world.context, IBV_EVENT_SQ_DRAINED).element.qp, pair.qp[0]);
	wr = pair_request(&pair, 0, IBV_WR_RDMA_WRITE, &sge, 0, 8);
	wr.wr_id = 10;
	pair_post(&pair, 0, &wr);
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS};
	assert_int_equal(ibv_modify_qp(pair.qp[0], &attr, IBV_QP_STATE), 0);
	for (uint64_t i = 0; i < 11; i++)
		expect_completion(pair.cq[0], i, IBV_WC_RDMA_WRITE);
	pair_close(&pair);
}

/* UD: a local fault stops the send queue only, and SQE leads back to RTS. */
static void send_queue_error_and_back(void **state)
{
	const struct pair_options options = {.type = IBV_QPT_UD};
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQE};

	(void)state;
	pair_open(&pair, &world, &options);
	wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, 8);
	sge.lkey ^= 0x7700;
	pair_post(&pair, 0, &wr);
	expect_status(pair.cq[0], wr.wr_id, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(state_of(pair.qp[0]), IBV_QPS_SQE);
	pair_post(&pair, 0, &wr);
	expect_status(pair.cq[0], wr.wr_id, IBV_WC_WR_FLUSH_ERR);
	/* The receive side is alive. */
	pair_receive(&pair, 0, 5, 0, 100);
	wr = pair_request(&pair, 1, IBV_WR_SEND, &sge, 0, 8);
	pair_post(&pair, 1, &wr);
	expect_completion(pair.cq[0], 5, IBV_WC_RECV);
	assert_int_equal(ibv_modify_qp(pair.qp[0], &attr, IBV_QP_STATE), 0);
	pair_receive(&pair, 1, 6, 0, 100);
	wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, 8);
	pair_post(&pair, 0, &wr);
	expect_completion(pair.cq[0], wr.wr_id, IBV_WC_SEND);
	pair_close(&pair);
}

static void destroyed_in_any_state_and_busy(void **state)
{
	(void)state;
	for (int to = IBV_QPS_RESET; to <= IBV_QPS_ERR; to++) {
		const struct pair_options options = {.stay_in_reset = true};
		struct pair pair;

		if (to == IBV_QPS_SQD || to == IBV_QPS_SQE)
			continue;
		pair_open(&pair, &world, &options);
		if (to >= IBV_QPS_INIT)
			pair_to_init(&pair, 0);
		if (to >= IBV_QPS_RTR)
			pair_to_rtr(&pair, 0);
		if (to >= IBV_QPS_RTS) {
			struct ibv_sge sge;
			struct ibv_send_wr wr;

			pair_to_rts(&pair, 0);
			wr = pair_request(&pair, 0, IBV_WR_RDMA_WRITE, &sge, 0, 100000);
			pair_post(&pair, 0, &wr);        /* nobody answers: the other is in RESET */
		}
		if (to == IBV_QPS_ERR)
			to_error(pair.qp[0]);
		pair_close(&pair);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_are_checked),
		cmocka_unit_test(steps_cannot_be_skipped),
		cmocka_unit_test(what_was_set_can_be_asked),
		cmocka_unit_test(reset_forgets_and_begins_anew),
		cmocka_unit_test(draining),
		cmocka_unit_test(send_queue_error_and_back),
		cmocka_unit_test(destroyed_in_any_state_and_busy),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, open_world, close_world);
}
