/* SPDX-License-Identifier: MIT
 *
 * Queue pairs of several kinds of devices in one process. Their numbers come from one range, and anybody can send a RoCE packet to any of
 * them: for those of another kind it is a packet for a queue pair that is not there.
 */
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/one_world.h"
#include "lib/private_network.h"

static struct ibv_context *open_by_name(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	assert_non_null(list);
	for (unsigned i = 0; list[i] && !context; i++)
		if (strcmp(ibv_get_device_name(list[i]), name) == 0)
			context = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	assert_non_null(context);
	return context;
}

static void packets_for_a_queue_pair_of_streams(void **state)
{
	const struct pair_options options = {.stay_in_reset = true, .timeout = 8, .retry = 1};
	struct ibv_context *context = open_by_name("iwarp_lo");
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 8, NULL, NULL, 0);
	struct ibv_qp_init_attr attr = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_qp *stream = ibv_create_qp(pd, &attr);
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct pair pair;

	(void)state;
	assert_non_null(stream);
	for (unsigned i = 0; i < 2; i++) {
		pair_open(&pair, &world, &options);
		pair.elsewhere = stream->qp_num;
		pair_to_init(&pair, 0);
		pair_to_rtr(&pair, 0);
		pair_to_rts(&pair, 0);
		wr = pair_request(&pair, 0, i == 0 ? IBV_WR_SEND : IBV_WR_RDMA_READ, &sge, 0, 4000);
		wr.wr_id = 5;
		pair_post(&pair, 0, &wr);
		expect_status(pair.cq[0], 5, IBV_WC_RETRY_EXC_ERR);
		pair_close(&pair);
	}
	/* Its device is none the worse for it. */
	assert_int_equal(state_of(stream), IBV_QPS_INIT);
	assert_int_equal(ibv_destroy_qp(stream), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(context), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(packets_for_a_queue_pair_of_streams)};

	setenv("VERBENA_TRANSPORT", "roce,iwarp", 1);
	private_network_enter();
	return cmocka_run_group_tests(tests, open_world, close_world);
}
