/* SPDX-License-Identifier: MIT
 *
 * Verbs that say no, and what they say about it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/one_world.h"
#include "lib/patience.h"
#include "lib/private_network.h"
#include "unit/explain/told.h"

static const struct pair_options asleep = {.stay_in_reset = true};

static void modify_lacks_an_attribute(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .max_dest_rd_atomic = 1};
	struct pair pair;

	(void)state;
	pair_open(&pair, &world, &asleep);
	pair_to_init(&pair, 0);
	attr.ah_attr.is_global = 1;
	attr.ah_attr.port_num = 1;
	attr.ah_attr.grh.dgid = world.gid;
	attr.ah_attr.grh.sgid_index = (uint8_t)world.gid_index;
	told_clear();
	assert_int_equal(ibv_modify_qp(pair.qp[0], &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_RQ_PSN |
				       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), EINVAL);
	told_expect("verb", "ibv_modify_qp", "error", "EINVAL", "qpn", hex(pair.qp[0]->qp_num, 6), "from", "INIT", "to", "RTR",
		    "missing", "dest_qp_num", NULL);
	pair_close(&pair);
}

static void modify_takes_a_wrong_turn(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};
	struct pair pair;

	(void)state;
	pair_open(&pair, &world, &asleep);
	told_clear();
	assert_int_equal(ibv_modify_qp(pair.qp[0], &attr, IBV_QP_STATE), EINVAL);
	told_expect("verb", "ibv_modify_qp", "from", "RESET", "to", "RTS", "missing", "transition", NULL);
	attr.qp_state = IBV_QPS_INIT;
	attr.port_num = 2;
	assert_int_equal(ibv_modify_qp(pair.qp[0], &attr, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS), EINVAL);
	told_expect("verb", "ibv_modify_qp", "attribute", "port_num", "value", "2", "limit", "1", NULL);
	assert_int_equal(ibv_modify_qp(pair.qp[0], &attr, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS |
				       IBV_QP_QKEY), EINVAL);
	told_expect("verb", "ibv_modify_qp", "extra", "qkey", NULL);
	pair_close(&pair);
}

static void modify_with_an_address_that_is_none(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = 5, .max_dest_rd_atomic = 1};
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
		   IBV_QP_MIN_RNR_TIMER;
	struct pair pair;

	(void)state;
	pair_open(&pair, &world, &asleep);
	pair_to_init(&pair, 0);
	told_clear();
	attr.ah_attr.port_num = 1;
	assert_int_equal(ibv_modify_qp(pair.qp[0], &attr, mask), EINVAL);
	told_expect("attribute", "ah_attr.is_global", "value", "0", "limit", "1", NULL);
	attr.ah_attr.is_global = 1;
	attr.ah_attr.grh.dgid = world.gid;
	attr.ah_attr.grh.sgid_index = 60;
	assert_int_equal(ibv_modify_qp(pair.qp[0], &attr, mask), EINVAL);
	told_expect("attribute", "ah_attr.grh", "sgid_index", "60", "dgid", "127.0.0.1", NULL);
	attr.ah_attr.grh.sgid_index = (uint8_t)world.gid_index;
	attr.path_mtu = (enum ibv_mtu)1024;
	assert_int_equal(ibv_modify_qp(pair.qp[0], &attr, mask), EINVAL);
	told_expect("attribute", "path_mtu", "value", "1024", NULL);
	pair_close(&pair);
}

static void posting_too_early_and_too_much(void **state)
{
	const struct pair_options options = {.depth = 2};
	struct ibv_send_wr wr, *bad;
	struct ibv_recv_wr receive = {.wr_id = 9}, *bad_receive;
	struct ibv_sge sge;
	struct ibv_wc wc;
	struct pair pair;

	(void)state;
	pair_open(&pair, &world, &asleep);
	told_clear();
	wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, 8);
	assert_int_equal(ibv_post_send(pair.qp[0], &wr, &bad), EINVAL);
	told_expect("verb", "ibv_post_send", "error", "EINVAL", "state", "RESET", "wr_id", number(wr.wr_id), "opcode", "SEND", NULL);
	assert_int_equal(ibv_post_recv(pair.qp[0], &receive, &bad_receive), EINVAL);
	told_expect("verb", "ibv_post_recv", "state", "RESET", "wr_id", "9", NULL);
	pair_close(&pair);

	pair_open(&pair, &world, &options);
	wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, 8);
	wr.num_sge = 5;
	wr.sg_list = calloc(5, sizeof(sge));
	assert_int_equal(ibv_post_send(pair.qp[0], &wr, &bad), EINVAL);
	free(wr.sg_list);
	told_expect("verb", "ibv_post_send", "attribute", "num_sge", "value", "5", "limit", "4", NULL);
	wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, 8);
	while (ibv_post_send(pair.qp[0], &wr, &bad) == 0)
		continue;
	told_expect("verb", "ibv_post_send", "error", "ENOMEM", "outstanding", number(2), "max_send_wr", number(2),
		    "signalled", number(2), NULL);
	wr = pair_request(&pair, 1, IBV_WR_ATOMIC_FETCH_AND_ADD, &sge, 4, 8);
	assert_int_equal(ibv_post_send(pair.qp[1], &wr, &bad), EINVAL);
	told_expect("verb", "ibv_post_send", "opcode", "ATOMIC_FETCH_AND_ADD", "address", hex((uintptr_t)pair.buffer[0] + 4, 1), NULL);
	/* Finished and not signaled: the queue is full all the same. */
	for (int i = 0; i < 2; i++) {
		wr = pair_request(&pair, 1, IBV_WR_RDMA_WRITE, &sge, 0, 8);
		wr.send_flags = 0;
		pair_post(&pair, 1, &wr);
	}
	assert_true(eventually((ibv_poll_cq(pair.cq[1], 1, &wc), ibv_post_send(pair.qp[1], &wr, &bad)) == ENOMEM &&
			       told_count("finished", "2") > 0));
	told_expect("verb", "ibv_post_send", "error", "ENOMEM", "outstanding", "2", "finished", "2", "signalled", "0", NULL);
	assert_true(told_mentions("this queue stays full"));
	pair_close(&pair);
}

static void creating_more_than_there_is(void **state)
{
	struct ibv_cq *cq = ibv_create_cq(world.context, 4, NULL, NULL, 0);
	struct ibv_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = {.max_send_wr = 1 << 20}};

	(void)state;
	told_clear();
	assert_null(ibv_create_qp(world.pd, &attr));
	assert_int_equal(errno, EINVAL);
	told_expect("verb", "ibv_create_qp", "error", "EINVAL", "attribute", "max_send_wr", "value", number(1 << 20), NULL);
	attr.cap.max_send_wr = 1;
	attr.recv_cq = NULL;
	assert_null(ibv_create_qp(world.pd, &attr));
	told_expect("verb", "ibv_create_qp", "attribute", "recv_cq", NULL);
	attr.qp_type = IBV_QPT_DRIVER;
	assert_null(ibv_create_qp(world.pd, &attr));
	assert_int_equal(errno, EOPNOTSUPP);
	told_expect("verb", "ibv_create_qp", "error", "EOPNOTSUPP", NULL);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void registering_what_cannot_be(void **state)
{
	void *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	told_clear();
	assert_null(ibv_reg_mr(world.pd, page, 4096, IBV_ACCESS_REMOTE_WRITE));
	assert_int_equal(errno, EINVAL);
	told_expect("verb", "ibv_reg_mr", "error", "EINVAL", "access", "REMOTE_WRITE", "missing", "LOCAL_WRITE", NULL);
	assert_null(ibv_reg_mr(world.pd, page, 4096, IBV_ACCESS_LOCAL_WRITE));
	assert_int_equal(errno, EFAULT);
	told_expect("verb", "ibv_reg_mr", "error", "EFAULT", "address", hex((uintptr_t)page, 1), "length", "4096", NULL);
	munmap(page, 4096);
}

/* UCX asks so whether there are dmabufs at all, and takes EBADF for yes: no news for people. */
static void asking_after_dmabufs(void **state)
{
	(void)state;
	told_clear();
	assert_null(ibv_reg_dmabuf_mr(world.pd, 0, 4096, 0, -1, IBV_ACCESS_LOCAL_WRITE));
	assert_int_equal(errno, EBADF);
	assert_int_equal(told_count("verb", "ibv_reg_dmabuf_mr"), 0);
	assert_null(ibv_reg_dmabuf_mr(world.pd, 0, 4096, 0, 1000000, IBV_ACCESS_LOCAL_WRITE));
	told_expect("verb", "ibv_reg_dmabuf_mr", "error", "EBADF", NULL);
}

static void destroying_what_is_in_use(void **state)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(world.context);
	struct ibv_cq *cq = ibv_create_cq(world.context, 1, NULL, channel, 0);
	struct pair pair;

	(void)state;
	pair_open(&pair, &world, &asleep);
	told_clear();
	assert_int_equal(ibv_destroy_cq(pair.cq[0]), EBUSY);
	told_expect("verb", "ibv_destroy_cq", "error", "EBUSY", NULL);
	assert_int_equal(ibv_dealloc_pd(world.pd), EBUSY);
	told_expect("verb", "ibv_dealloc_pd", "error", "EBUSY", NULL);
	assert_int_equal(ibv_destroy_comp_channel(channel), EBUSY);
	told_expect("verb", "ibv_destroy_comp_channel", "error", "EBUSY", NULL);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(modify_lacks_an_attribute),
		cmocka_unit_test(modify_takes_a_wrong_turn),
		cmocka_unit_test(modify_with_an_address_that_is_none),
		cmocka_unit_test(posting_too_early_and_too_much),
		cmocka_unit_test(creating_more_than_there_is),
		cmocka_unit_test(registering_what_cannot_be),
		cmocka_unit_test(asking_after_dmabufs),
		cmocka_unit_test(destroying_what_is_in_use),
	};
	int failed;

	private_network_enter();
	told_prepare();
	failed = cmocka_run_group_tests(tests, open_world, close_world);
	told_remove();
	return failed;
}
