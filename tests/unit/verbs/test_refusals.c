/* SPDX-License-Identifier: MIT
 *
 * What a verb that fails leaves behind: manual pages say that it returns "the value of errno", so errno has it too. And an object whose
 * handle was changed is none: the kernel looks objects up by it and says ENOENT.
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

/* Returned and set. */
#define REFUSED(expected, call)                          \
	do {                                             \
		errno = 0;                               \
		assert_int_equal(call, expected);        \
		assert_int_equal(errno, expected);       \
	} while (0)

static void errno_is_set_as_well_as_returned(void **state)
{
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq_attr larger = {.max_wr = 1 << 20};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};
	struct ibv_recv_wr receive = {.num_sge = 1000}, *bad_receive;
	struct ibv_send_wr send = {.opcode = (enum ibv_wr_opcode)77}, *bad_send;
	struct ibv_modify_cq_attr moderation = {.attr_mask = 1u << 31};
	struct ibv_port_attr port;
	struct ibv_values_ex values = {.comp_mask = 1u << 31};
	struct ibv_sge sge = {.length = 1};
	struct ibv_comp_channel *channel = ibv_create_comp_channel(world.context);
	struct ibv_srq *srq = ibv_create_srq(world.pd, &srq_attr);
	struct pair_options options = {.channel = channel};
	union ibv_gid gid = {.raw = {1}};
	struct pair pair;

	(void)state;
	assert_non_null(channel);
	assert_non_null(srq);
	pair_open(&pair, &world, &options);
	REFUSED(EINVAL, ibv_query_device(world.context, NULL));
	REFUSED(EINVAL, ibv_query_port(world.context, 2, &port));
	REFUSED(EINVAL, ibv_query_rt_values_ex(world.context, &values));
	REFUSED(EBUSY, ibv_dealloc_pd(world.pd));
	REFUSED(EBUSY, ibv_destroy_comp_channel(channel));
	REFUSED(EBUSY, ibv_destroy_cq(pair.cq[0]));
	REFUSED(EINVAL, ibv_resize_cq(pair.cq[0], 0));
	REFUSED(EINVAL, ibv_modify_cq(pair.cq[0], &moderation));
	REFUSED(EINVAL, ibv_modify_srq(srq, &larger, IBV_SRQ_MAX_WR));
	REFUSED(EINVAL, ibv_query_srq(srq, NULL));
	receive.sg_list = &sge;
	REFUSED(EINVAL, ibv_post_srq_recv(srq, &receive, &bad_receive));
	REFUSED(EINVAL, ibv_modify_qp(pair.qp[0], &attr, IBV_QP_STATE | IBV_QP_QKEY));
	REFUSED(EINVAL, ibv_query_qp(pair.qp[0], NULL, 0, NULL));
	REFUSED(EINVAL, ibv_post_send(pair.qp[0], &send, &bad_send));
	REFUSED(EINVAL, ibv_post_recv(pair.qp[0], &receive, &bad_receive));
	REFUSED(EINVAL, ibv_attach_mcast(pair.qp[0], &gid, 0));
	REFUSED(EINVAL, ibv_detach_mcast(pair.qp[0], &gid, 0));
	REFUSED(EINVAL, ibv_destroy_qp(NULL));
	REFUSED(EINVAL, ibv_destroy_ah(NULL));
	REFUSED(EOPNOTSUPP, ibv_set_ece(pair.qp[0], &(struct ibv_ece){.vendor_id = 1}));
	pair_close(&pair);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

/* As it is, then changed, and mended again, as a program does that was written over memory. */
#define WITH_ANOTHER_HANDLE(object, call)                \
	do {                                             \
		(object)->handle ^= 0x55;                \
		REFUSED(ENOENT, call);                   \
		(object)->handle ^= 0x55;                \
	} while (0)

static void an_object_with_another_handle_is_none(void **state)
{
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_alloc_dm_attr dm_attr = {.length = 64};
	struct ibv_srq_attr limit = {.srq_limit = 1};
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_pd *pd = ibv_alloc_pd(world.context);
	struct ibv_srq *srq = ibv_create_srq(world.pd, &srq_attr);
	struct ibv_cq *cq = ibv_create_cq(world.context, 4, NULL, NULL, 0);
	struct ibv_mw *mw = ibv_alloc_mw(world.pd, IBV_MW_TYPE_1);
	struct ibv_dm *dm = ibv_alloc_dm(world.context, &dm_attr);
	struct pair pair;

	(void)state;
	pair_open(&pair, &world, NULL);
	WITH_ANOTHER_HANDLE(pd, ibv_dealloc_pd(pd));
	WITH_ANOTHER_HANDLE(srq, ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
	WITH_ANOTHER_HANDLE(srq, ibv_query_srq(srq, &limit));
	WITH_ANOTHER_HANDLE(srq, ibv_destroy_srq(srq));
	WITH_ANOTHER_HANDLE(cq, ibv_resize_cq(cq, 8));
	WITH_ANOTHER_HANDLE(cq, ibv_destroy_cq(cq));
	WITH_ANOTHER_HANDLE(mw, ibv_dealloc_mw(mw));
	WITH_ANOTHER_HANDLE(dm, ibv_free_dm(dm));
	WITH_ANOTHER_HANDLE(pair.mr[0], ibv_dereg_mr(pair.mr[0]));
	WITH_ANOTHER_HANDLE(pair.qp[0], ibv_modify_qp(pair.qp[0], &attr, IBV_QP_STATE));
	WITH_ANOTHER_HANDLE(pair.qp[0], ibv_query_qp(pair.qp[0], &attr, 0, &init));
	WITH_ANOTHER_HANDLE(pair.qp[0], ibv_destroy_qp(pair.qp[0]));
	/* Nothing happened to them. */
	assert_int_equal(state_of(pair.qp[0]), IBV_QPS_RTS);
	pair_close(&pair);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_int_equal(ibv_free_dm(dm), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void what_cannot_be_imported(void **state)
{
	(void)state;
	errno = 0;
	assert_null(ibv_import_pd(world.context, 0x7fffff));
	assert_int_equal(errno, ENOENT);
	errno = 0;
	assert_null(ibv_import_mr(world.pd, 0x7fffff));
	assert_int_equal(errno, ENOENT);
	errno = 0;
	assert_null(ibv_import_dm(world.context, 0x7fffff));
	assert_int_equal(errno, ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(errno_is_set_as_well_as_returned),
		cmocka_unit_test(an_object_with_another_handle_is_none),
		cmocka_unit_test(what_cannot_be_imported),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, open_world, close_world);
}
