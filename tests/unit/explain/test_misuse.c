/* SPDX-License-Identifier: MIT
 *
 * The misuse watch: each kind provoked, told once, and silent where nothing is wrong.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/one_world.h"
#include "lib/patience.h"
#include "lib/private_network.h"
#include "unit/explain/told.h"

/* A send that waits for its receive, so that there is time to change its buffer. */
static void a_buffer_changed_while_posted(void **state)
{
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	pair_open(&pair, &world, NULL);
	told_clear();
	for (int i = 0; i < 3; i++) {
		wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, 5000);
		pair_post(&pair, 0, &wr);
		if (i > 0)
			pair.buffer[0][4999] ^= 1;
		pair_receive(&pair, 1, 1, 0, 8192);
		expect_completion(pair.cq[1], 1, IBV_WC_RECV);
		expect_completion(pair.cq[0], wr.wr_id, IBV_WC_SEND);
		assert_int_equal(told_count("misuse", "buffer_changed"), i > 0);
	}
	told_expect("misuse", "buffer_changed", "qpn", hex(pair.qp[0]->qp_num, 6), "wr_id", number(wr.wr_id), "opcode", "SEND", "length",
		    "5000", NULL);
	pair_close(&pair);
}

static void a_region_deregistered_under_work(void **state)
{
	struct pair pair;
	struct ibv_mr *mr;
	struct ibv_sge sge;
	struct ibv_recv_wr wr = {.wr_id = 77, .sg_list = &sge, .num_sge = 1}, *bad;
	uint32_t key;

	(void)state;
	pair_open(&pair, &world, NULL);
	told_clear();
	mr = ibv_reg_mr(world.pd, pair.buffer[1], 4096, IBV_ACCESS_LOCAL_WRITE);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(told_count("misuse", "region_in_use"), 0);
	mr = ibv_reg_mr(world.pd, pair.buffer[1], 4096, IBV_ACCESS_LOCAL_WRITE);
	key = mr->lkey;
	sge = (struct ibv_sge){(uintptr_t)pair.buffer[1], 64, key};
	assert_int_equal(ibv_post_recv(pair.qp[1], &wr, &bad), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	told_expect("misuse", "region_in_use", "key", hex(key, 8), "region_length", "4096", "qpn", hex(pair.qp[1]->qp_num, 6), "wr_id",
		    "77", "opcode", "RECV", NULL);
	pair_close(&pair);
}

static void a_completion_queue_that_is_large_enough(void **state)
{
	const struct pair_options options = {.depth = 8};
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	pair_open(&pair, &world, &options);
	told_clear();
	for (int round = 0; round < 20; round++) {
		for (uint64_t i = 0; i < 8; i++)
			pair_receive(&pair, 1, i, 0, 64);
		for (uint64_t i = 0; i < 8; i++) {
			wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, 64);
			pair_post(&pair, 0, &wr);
		}
		for (uint64_t i = 0; i < 8; i++) {
			expect_completion(pair.cq[1], i, IBV_WC_RECV);
			expect_completion(pair.cq[0], wr.wr_id, IBV_WC_SEND);
		}
	}
	pair_receive(&pair, 1, 1, 0, 64);
	pair_reset(&pair, 1);
	assert_int_equal(told_count("explain", "misuse"), 0);
	pair_close(&pair);
}

static void *acknowledge_when_told(void *argument)
{
	if (!eventually(told_count("misuse", "unacknowledged_events") > 0))
		print_error("not told\n");
	ibv_ack_async_event(argument);
	return NULL;
}

static void an_event_that_is_not_acknowledged(void **state)
{
	struct pair pair;
	struct ibv_async_event event;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	pthread_t thread;

	(void)state;
	pair_open(&pair, &world, NULL);
	wr = pair_request(&pair, 0, IBV_WR_RDMA_WRITE, &sge, 0, 64);
	wr.wr.rdma.rkey ^= 0x5500;
	pair_post(&pair, 0, &wr);
	expect_status(pair.cq[0], wr.wr_id, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_get_async_event(world.context, &event), 0);
	told_clear();
	pthread_create(&thread, NULL, acknowledge_when_told, &event);
	pair_close(&pair);
	pthread_join(thread, NULL);
	told_expect("misuse", "unacknowledged_events", "object", "QP", "events_read", "1", "events_acknowledged", "0", NULL);
}

static void fields_of_a_failed_completion(void **state)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 16, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct ibv_poll_cq_attr poll = {0};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(world.context, &attr);
	struct ibv_qp_init_attr init = {
		.send_cq = ibv_cq_ex_to_cq(cq), .recv_cq = ibv_cq_ex_to_cq(cq), .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct pair pair;

	(void)state;
	pair_open(&pair, &world, &(struct pair_options){.stay_in_reset = true});
	assert_int_equal(ibv_destroy_qp(pair.qp[0]), 0);
	pair.qp[0] = ibv_create_qp(world.pd, &init);
	assert_non_null(pair.qp[0]);
	pair_to_init(&pair, 0);
	pair_receive(&pair, 0, 31, 0, 8);
	to_error(pair.qp[0]);
	told_clear();
	assert_int_equal(ibv_start_poll(cq, &poll), 0);
	assert_int_equal(cq->wr_id, 31);
	assert_int_equal(ibv_wc_read_qp_num(cq), pair.qp[0]->qp_num);
	(void)ibv_wc_read_vendor_err(cq);
	assert_int_equal(told_count("explain", "misuse"), 0);
	(void)ibv_wc_read_byte_len(cq);
	(void)ibv_wc_read_opcode(cq);
	ibv_end_poll(cq);
	told_expect("misuse", "field_not_valid", "field", "byte_len", "wr_id", "31", "status", "WR_FLUSH_ERR", NULL);
	assert_int_equal(told_count("explain", "misuse"), 1);
	pair_close(&pair);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_buffer_changed_while_posted),
		cmocka_unit_test(a_region_deregistered_under_work),
		cmocka_unit_test(a_completion_queue_that_is_large_enough),
		cmocka_unit_test(an_event_that_is_not_acknowledged),
		cmocka_unit_test(fields_of_a_failed_completion),
	};
	int failed;

	private_network_enter();
	told_prepare();
	failed = cmocka_run_group_tests(tests, open_world, close_world);
	told_remove();
	return failed;
}
