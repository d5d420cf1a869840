/* SPDX-License-Identifier: MIT
 *
 * Extended completion queues.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/one_world.h"
#include "lib/patience.h"
#include "lib/private_network.h"

static struct ibv_cq_ex *create(uint64_t wc_flags, uint32_t flags)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 64, .wc_flags = wc_flags, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
					   .flags = flags};

	return ibv_create_cq_ex(world.context, &attr);
}

static int start(struct ibv_cq_ex *cq)
{
	struct ibv_poll_cq_attr attr = {0};
	int error;

	return eventually((error = ibv_start_poll(cq, &attr)) != ENOENT) ? error : ENOENT;
}

/* A UD pair whose receiver completes on an extended queue. */
static void use_extended(struct pair *pair, struct ibv_cq_ex *cq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = ibv_cq_ex_to_cq(cq), .recv_cq = ibv_cq_ex_to_cq(cq), .qp_type = pair->options.type,
		.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1},
	};

	assert_int_equal(ibv_destroy_qp(pair->qp[1]), 0);
	pair->qp[1] = ibv_create_qp(world.pd, &attr);
	assert_non_null(pair->qp[1]);
	pair_connect(pair);
}

static void every_field_reads(void **state)
{
	struct ibv_cq_ex *cq = create(IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
				      IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK, 0);
	const struct pair_options options = {.type = IBV_QPT_UD, .stay_in_reset = true};
	struct ibv_values_ex before = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK}, after = before;
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct timespec wall;
	uint64_t stamp, wall_stamp;

	(void)state;
	assert_non_null(cq);
	pair_open(&pair, &world, &options);
	use_extended(&pair, cq);
	assert_int_equal(ibv_query_rt_values_ex(world.context, &before), 0);
	for (uint64_t i = 0; i < 3; i++) {
		pair_receive(&pair, 1, 10 + i, 0, 140);
		wr = pair_request(&pair, 0, IBV_WR_SEND_WITH_IMM, &sge, 0, 100);
		wr.imm_data = htonl(0x1234);
		pair_post(&pair, 0, &wr);
	}
	assert_int_equal(start(cq), 0);
	for (uint64_t i = 0; i < 3; i++) {
		assert_int_equal(cq->status, IBV_WC_SUCCESS);
		assert_int_equal(cq->wr_id, 10 + i);
		assert_int_equal(ibv_wc_read_opcode(cq), IBV_WC_RECV);
		assert_int_equal(ibv_wc_read_vendor_err(cq), 0);
		assert_int_equal(ibv_wc_read_byte_len(cq), 140);
		assert_int_equal(ibv_wc_read_imm_data(cq), htonl(0x1234));
		assert_int_equal(ibv_wc_read_qp_num(cq), pair.qp[1]->qp_num);
		assert_int_equal(ibv_wc_read_src_qp(cq), pair.qp[0]->qp_num);
		assert_int_equal(ibv_wc_read_wc_flags(cq), IBV_WC_GRH | IBV_WC_WITH_IMM);
		assert_int_equal(ibv_wc_read_slid(cq), 0);
		assert_int_equal(ibv_wc_read_sl(cq), 0xa); /* by IPv4 */
		assert_int_equal(ibv_wc_read_dlid_path_bits(cq), 0);
		stamp = ibv_wc_read_completion_ts(cq);
		wall_stamp = ibv_wc_read_completion_wallclock_ns(cq);
		assert_int_equal(ibv_query_rt_values_ex(world.context, &after), 0);
		clock_gettime(CLOCK_REALTIME, &wall);
		assert_true(stamp >= (uint64_t)before.raw_clock.tv_nsec && stamp <= (uint64_t)after.raw_clock.tv_nsec);
		assert_true(wall_stamp <= (uint64_t)wall.tv_sec * 1000000000u + (uint64_t)wall.tv_nsec);
		assert_true(wall_stamp + 600000000000u > (uint64_t)wall.tv_sec * 1000000000u);
		/* Between the polls, work may be posted that completes here. */
		pair_receive(&pair, 1, 10 + i, 0, 140);
		wr = pair_request(&pair, 1, IBV_WR_SEND, &sge, 0, 8);
		wr.wr_id = 99;
		wr.send_flags = i == 2 ? IBV_SEND_SIGNALED : 0;
		pair_post(&pair, 1, &wr);
		if (i < 2) {
			int error = ibv_next_poll(cq);

			if (error == ENOENT) {   /* not there yet */
				ibv_end_poll(cq);
				assert_int_equal(start(cq), 0);
			}
		}
	}
	ibv_end_poll(cq);
	assert_int_equal(start(cq), 0);
	assert_int_equal(cq->wr_id, 99);
	assert_int_equal(ibv_wc_read_opcode(cq), IBV_WC_SEND);
	assert_int_equal(ibv_next_poll(cq), ENOENT);
	ibv_end_poll(cq);
	{
		struct ibv_poll_cq_attr bad = {.comp_mask = 1};
		struct ibv_poll_cq_attr good = {0};

		assert_int_equal(ibv_start_poll(cq, &bad), EINVAL);
		assert_int_equal(ibv_start_poll(cq, &good), ENOENT);
	}
	assert_int_equal(ibv_destroy_qp(pair.qp[1]), 0);
	pair.qp[1] = NULL;
	pair_close(&pair);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

static int64_t set_back;                 /* seconds */

/* The library's clock, too: somebody may set the time of day back under it. */
__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *time)
{
	int rc = (int)syscall(SYS_clock_gettime, clock, time);

	if (clock == CLOCK_REALTIME)
		time->tv_sec -= (time_t)__atomic_load_n(&set_back, __ATOMIC_RELAXED);
	return rc;
}

static void wall_clock_stamps_never_run_backwards(void **state)
{
	struct ibv_cq_ex *cq = create(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK, 0);
	const struct pair_options options = {.type = IBV_QPT_UD, .stay_in_reset = true};
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct pair pair;
	uint64_t last = 0;

	(void)state;
	assert_non_null(cq);
	pair_open(&pair, &world, &options);
	use_extended(&pair, cq);
	for (uint64_t i = 0; i < 4; i++) {
		uint64_t stamp;

		pair_receive(&pair, 1, i, 0, 140);
		wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, 100);
		pair_post(&pair, 0, &wr);
		assert_int_equal(start(cq), 0);
		stamp = ibv_wc_read_completion_wallclock_ns(cq);
		assert_true(stamp >= last);
		__atomic_store_n(&set_back, (int64_t)i * 5, __ATOMIC_RELAXED);
		assert_int_equal(ibv_wc_read_completion_wallclock_ns(cq), stamp);
		last = stamp;
		ibv_end_poll(cq);
	}
	__atomic_store_n(&set_back, 0, __ATOMIC_RELAXED);
	assert_int_equal(ibv_destroy_qp(pair.qp[1]), 0);
	pair.qp[1] = NULL;
	pair_close(&pair);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

/* The plain calls work on an extended queue too. */
static void plain_calls_work_as_well(void **state)
{
	struct ibv_cq_ex *cq = create(0, IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
	const struct pair_options options = {.stay_in_reset = true};
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	pair_open(&pair, &world, &options);
	use_extended(&pair, cq);
	pair_receive(&pair, 1, 5, 0, 8);
	wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, 8);
	pair_post(&pair, 0, &wr);
	expect_completion(ibv_cq_ex_to_cq(cq), 5, IBV_WC_RECV);
	assert_int_equal(ibv_resize_cq(ibv_cq_ex_to_cq(cq), 10), 0);
	assert_int_equal(ibv_destroy_qp(pair.qp[1]), 0);
	pair.qp[1] = NULL;
	pair_close(&pair);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

static void what_cannot_be_delivered_cannot_be_asked_for(void **state)
{
	static const uint64_t impossible[] = {IBV_WC_EX_WITH_CVLAN, IBV_WC_EX_WITH_TM_INFO, 1ull << 40};
	struct ibv_cq_init_attr_ex attr = {.cqe = 64, .comp_mask = 1u << 9};

	(void)state;
	for (size_t i = 0; i < sizeof(impossible) / sizeof(impossible[0]); i++) {
		assert_null(create(impossible[i], 0));
		assert_int_equal(errno, EOPNOTSUPP);
	}
	assert_null(create(0, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_null(ibv_create_cq_ex(world.context, &attr));
	assert_int_equal(errno, EINVAL);
	attr = (struct ibv_cq_init_attr_ex){.cqe = 0};
	assert_null(ibv_create_cq_ex(world.context, &attr));
	assert_int_equal(errno, EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_field_reads),
		cmocka_unit_test(wall_clock_stamps_never_run_backwards),
		cmocka_unit_test(plain_calls_work_as_well),
		cmocka_unit_test(what_cannot_be_delivered_cannot_be_asked_for),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, open_world, close_world);
}
