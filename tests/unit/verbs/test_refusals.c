/* SPDX-License-Identifier: MIT
 *
 * What a verb that fails leaves behind: manual pages say that it returns "the value of errno", so errno has it too. And an object whose
 * handle was changed is none: the kernel looks objects up by it and says ENOENT.
 */
#include <errno.h>
#include <fcntl.h>
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

/* -1, and errno (ibv_query_gid(3) and those of its time). */
#define MINUS_ONE(expected, call)                        \
	do {                                             \
		errno = 0;                               \
		assert_int_equal(call, -1);              \
		assert_int_equal(errno, expected);       \
	} while (0)

/* NULL, and errno. */
#define NOTHING(expected, call)                          \
	do {                                             \
		errno = 0;                               \
		assert_null(call);                       \
		assert_int_equal(errno, expected);       \
	} while (0)

static void minus_one_where_the_manual_says_so(void **state)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(world.context);
	struct ibv_async_event event;
	struct ibv_ah_attr address;
	struct ibv_grh grh = {0};
	struct ibv_wc wc = {.wc_flags = IBV_WC_GRH};
	struct ibv_cq *cq;
	void *cq_context;
	union ibv_gid gid;
	__be16 pkey;

	(void)state;
	assert_non_null(channel);
	assert_int_equal(fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK), 0);
	assert_int_equal(fcntl(world.context->async_fd, F_SETFL, fcntl(world.context->async_fd, F_GETFL) | O_NONBLOCK), 0);
	MINUS_ONE(EINVAL, ibv_close_device(NULL));
	MINUS_ONE(EINVAL, ibv_query_gid(world.context, 1, 1000, &gid));
	MINUS_ONE(EINVAL, ibv_query_gid(world.context, 2, 0, &gid));
	MINUS_ONE(EINVAL, ibv_query_pkey(world.context, 1, 1000, &pkey));
	MINUS_ONE(EINVAL, ibv_get_pkey_index(world.context, 1, 0x3412));
	MINUS_ONE(EINVAL, ibv_init_ah_from_wc(world.context, 1, &wc, &grh, &address));
	MINUS_ONE(EAGAIN, ibv_get_cq_event(channel, &cq, &cq_context));
	MINUS_ONE(EAGAIN, ibv_get_async_event(world.context, &event));
	assert_int_equal(fcntl(world.context->async_fd, F_SETFL, fcntl(world.context->async_fd, F_GETFL) & ~O_NONBLOCK), 0);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

/* What cannot be made, with the number that its manual page has for it, or the kernel where the page has none. */
static void nothing_and_errno(void **state)
{
	static uint8_t bytes[64];
	struct ibv_cq *cq = ibv_create_cq(world.context, 4, NULL, NULL, 0);
	struct ibv_qp_init_attr rc = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
				      .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_qp_init_attr unknown = {.send_cq = cq, .recv_cq = cq, .qp_type = (enum ibv_qp_type)77};
	struct ibv_qp_init_attr_ex tso = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .pd = world.pd,
					  .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					  .send_ops_flags = IBV_QP_EX_WITH_TSO};
	struct ibv_cq_init_attr_ex vlan = {.cqe = 4, .wc_flags = IBV_WC_EX_WITH_CVLAN};
	struct ibv_srq_init_attr no_srq = {.attr = {.max_wr = 0, .max_sge = 1}};
	struct ibv_srq_init_attr_ex tags = {.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD, .pd = world.pd,
					    .srq_type = IBV_SRQT_TM, .attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_xrcd_init_attr no_file = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1};
	struct ibv_qp_open_attr no_qp = {.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
					 .qp_type = IBV_QPT_XRC_RECV};
	struct ibv_alloc_dm_attr empty_dm = {0}, large_dm = {.length = 1ull << 40}, small_dm = {.length = 64};
	struct ibv_wq_init_attr no_wq = {.wq_type = (enum ibv_wq_type)7, .max_wr = 1, .max_sge = 1, .pd = world.pd, .cq = cq};
	struct ibv_wq_init_attr vlan_wq = {.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = world.pd, .cq = cq,
					   .comp_mask = IBV_WQ_INIT_ATTR_FLAGS, .create_flags = IBV_WQ_FLAGS_CVLAN_STRIPPING};
	struct ibv_rwq_ind_table_init_attr no_table = {.log_ind_tbl_size = 31, .ind_tbl = (struct ibv_wq *[]){NULL}};
	struct ibv_counters_init_attr no_counters = {.comp_mask = 1};
	struct ibv_td_init_attr no_td = {.comp_mask = 1};
	struct ibv_parent_domain_init_attr no_parent = {0};
	struct ibv_flow_attr flow = {.type = IBV_FLOW_ATTR_NORMAL, .size = sizeof(flow), .port = 1};
	struct ibv_flow_action_esp_attr esp = {0};
	struct ibv_ah_attr local = {.port_num = 1};
	struct ibv_grh grh = {0};
	struct ibv_wc wc = {0};
	struct ibv_dm *dm = ibv_alloc_dm(world.context, &small_dm);
	struct ibv_qp *qp = ibv_create_qp(world.pd, &rc);

	(void)state;
	assert_non_null(dm);
	assert_non_null(qp);
	NOTHING(EINVAL, ibv_alloc_pd(NULL));
	NOTHING(EINVAL, ibv_reg_mr(world.pd, bytes, 0, 0));
	NOTHING(EINVAL, ibv_reg_mr(world.pd, bytes, sizeof(bytes), IBV_ACCESS_REMOTE_WRITE));
	NOTHING(EFAULT, ibv_reg_mr(world.pd, (void *)4096, 64, 0));
	NOTHING(EINVAL, ibv_reg_mr_iova(world.pd, bytes, sizeof(bytes), UINT64_MAX - 1, 0));
	NOTHING(EBADF, ibv_reg_dmabuf_mr(world.pd, 0, 64, 0, -1, 0));
	NOTHING(EINVAL, ibv_alloc_dm(world.context, &empty_dm));
	NOTHING(ENOMEM, ibv_alloc_dm(world.context, &large_dm));
	NOTHING(EINVAL, ibv_reg_dm_mr(world.pd, dm, 0, 64, 0));
	NOTHING(EINVAL, ibv_reg_dm_mr(world.pd, dm, 0, 65, IBV_ACCESS_ZERO_BASED));
	NOTHING(EINVAL, ibv_alloc_mw(world.pd, (enum ibv_mw_type)7));
	NOTHING(EINVAL, ibv_create_cq(world.context, 0, NULL, NULL, 0));
	NOTHING(EINVAL, ibv_create_cq(world.context, 4, NULL, NULL, 1000));
	NOTHING(EOPNOTSUPP, ibv_create_cq_ex(world.context, &vlan));
	NOTHING(EINVAL, ibv_create_srq(world.pd, &no_srq));
	NOTHING(EOPNOTSUPP, ibv_create_srq_ex(world.context, &tags));
	NOTHING(EOPNOTSUPP, ibv_create_qp(world.pd, &unknown));
	NOTHING(EOPNOTSUPP, ibv_create_qp_ex(world.context, &tso));
	NOTHING(EINVAL, ibv_create_ah(world.pd, &local));
	NOTHING(EINVAL, ibv_create_ah_from_wc(world.pd, &wc, &grh, 1));
	NOTHING(EINVAL, ibv_open_xrcd(world.context, &no_file));
	NOTHING(EINVAL, ibv_open_qp(world.context, &no_qp));
	NOTHING(EINVAL, ibv_create_wq(world.context, &no_wq));
	NOTHING(EOPNOTSUPP, ibv_create_wq(world.context, &vlan_wq));
	NOTHING(EINVAL, ibv_create_rwq_ind_table(world.context, &no_table));
	NOTHING(EINVAL, ibv_create_counters(world.context, &no_counters));
	NOTHING(EINVAL, ibv_alloc_td(world.context, &no_td));
	NOTHING(EINVAL, ibv_alloc_parent_domain(world.context, &no_parent));
	/* ibv_create_flow(3): "QP ... invalid". */
	NOTHING(EINVAL, ibv_create_flow(qp, &flow));
	NOTHING(EOPNOTSUPP, ibv_create_flow_action_esp(world.context, &esp));
	NOTHING(EBADF, ibv_import_device(-1));
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_free_dm(dm), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

/* As errno_is_set_as_well_as_returned, of the verbs that came later. */
static void numbers_of_later_verbs(void **state)
{
	static uint8_t bytes[64];
	struct ibv_xrcd_init_attr xrcd_attr = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_alloc_dm_attr dm_attr = {.length = 64};
	struct ibv_counter_attach_attr unknown_counter = {.counter_desc = (enum ibv_counter_description)7};
	struct ibv_counters_init_attr counters_attr = {0};
	struct ibv_qp_rate_limit_attr rate = {.rate_limit = 1};
	struct ibv_td_init_attr td_attr = {0};
	struct ibv_wq_attr no_change = {0};
	struct ibv_recv_wr receive = {0}, *bad_receive;
	struct ibv_ops_wr ops = {0}, *bad_ops;
	struct ibv_gid_entry entry;
	struct ibv_ece ece;
	struct pair_options options = {.send_ops = IBV_QP_EX_WITH_SEND};
	struct ibv_mr *mr = ibv_reg_mr(world.pd, bytes, sizeof(bytes), IBV_ACCESS_LOCAL_WRITE);
	struct ibv_mr *on_demand = ibv_reg_mr(world.pd, bytes, sizeof(bytes), IBV_ACCESS_ON_DEMAND);
	struct ibv_sge no_region = {(uintptr_t)bytes, 1, 0xdead0000}, pinned = {(uintptr_t)bytes, 1, mr->lkey};
	struct ibv_sge beyond = {(uintptr_t)bytes, sizeof(bytes) + 1, on_demand->lkey}, read_only = {(uintptr_t)bytes, 1, on_demand->lkey};
	struct ibv_pd *other = ibv_alloc_pd(world.context);
	struct ibv_xrcd *xrcd = ibv_open_xrcd(world.context, &xrcd_attr);
	struct ibv_srq *srq = ibv_create_srq(world.pd, &srq_attr), *of_xrc;
	struct ibv_dm *dm = ibv_alloc_dm(world.context, &dm_attr);
	struct ibv_mr *dm_mr = ibv_reg_dm_mr(world.pd, dm, 0, 64, IBV_ACCESS_ZERO_BASED);
	struct ibv_counters *counters = ibv_create_counters(world.context, &counters_attr);
	struct ibv_td *td = ibv_alloc_td(world.context, &td_attr);
	struct ibv_parent_domain_init_attr parent_attr = {.pd = world.pd, .td = td};
	struct ibv_pd *parent = ibv_alloc_parent_domain(world.context, &parent_attr);
	struct ibv_cq *cq = ibv_create_cq(world.context, 4, NULL, NULL, 0);
	struct ibv_srq_init_attr_ex xrc_attr = {
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = IBV_SRQT_XRC, .xrcd = xrcd, .cq = cq, .pd = world.pd, .attr = {.max_wr = 1, .max_sge = 1},
	};
	struct ibv_wq_init_attr wq_attr = {.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = world.pd, .cq = cq};
	struct ibv_wq *wq = ibv_create_wq(world.context, &wq_attr);
	struct ibv_rwq_ind_table_init_attr table_attr = {.ind_tbl = &wq};
	struct ibv_rwq_ind_table *table = ibv_create_rwq_ind_table(world.context, &table_attr);
	struct ibv_mw_bind bind = {.bind_info = {.mr = mr, .addr = (uintptr_t)bytes, .length = 64}};
	struct ibv_mw *mw = ibv_alloc_mw(world.pd, IBV_MW_TYPE_1);
	struct ibv_qp_init_attr qp_attr = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
					   .cap = {.max_send_wr = 1, .max_recv_wr = 1}};
	struct ibv_qp *in_reset = ibv_create_qp(world.pd, &qp_attr);
	struct pair pair;
	uint32_t number;

	(void)state;
	assert_non_null(of_xrc = ibv_create_srq_ex(world.context, &xrc_attr));
	assert_non_null(table);
	assert_non_null(parent);
	pair_open(&pair, &world, &options);
	REFUSED(EOPNOTSUPP, ibv_query_gid_ex(world.context, 1, 0, &entry, 1));
	REFUSED(EINVAL, ibv_query_gid_ex(world.context, 1, 1000, &entry, 0));
	REFUSED(ENODATA, ibv_query_gid_ex(world.context, 1, 63, &entry, 0));
	/* ibv_advise_mr(3), line by line. */
	REFUSED(ENOTSUP, ibv_advise_mr(world.pd, (enum ibv_advise_mr_advice)77, 0, &pinned, 1));
	REFUSED(EINVAL, ibv_advise_mr(world.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 1u << 31, &read_only, 1));
	REFUSED(EINVAL, ibv_advise_mr(world.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &pinned, 1));
	REFUSED(EFAULT, ibv_advise_mr(world.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &no_region, 1));
	REFUSED(EFAULT, ibv_advise_mr(world.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &beyond, 1));
	REFUSED(EPERM, ibv_advise_mr(world.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, &read_only, 1));
	REFUSED(EPERM, ibv_advise_mr(other, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &read_only, 1));
	REFUSED(EFAULT, ibv_memcpy_to_dm(dm, 60, bytes, 5));
	REFUSED(EFAULT, ibv_memcpy_from_dm(bytes, dm, 65, 0));
	REFUSED(EBUSY, ibv_free_dm(dm));
	REFUSED(EBUSY, ibv_close_xrcd(xrcd));
	REFUSED(EOPNOTSUPP, ibv_get_srq_num(srq, &number));
	/* By the header alone, which leaves errno as it is. */
	assert_int_equal(ibv_post_srq_ops(srq, &ops, &bad_ops), EOPNOTSUPP);
	REFUSED(EOPNOTSUPP, ibv_query_ece(pair.qp[0], &ece));
	REFUSED(EOPNOTSUPP, ibv_modify_qp_rate_limit(pair.qp[0], &rate));
	REFUSED(EINVAL, ibv_modify_wq(wq, &no_change));
	REFUSED(EINVAL, ibv_post_wq_recv(wq, &receive, &bad_receive));
	REFUSED(EBUSY, ibv_destroy_wq(wq));
	REFUSED(EINVAL, ibv_read_counters(counters, NULL, 1, 0));
	REFUSED(ENOTSUP, ibv_attach_counters_point_flow(counters, &unknown_counter, NULL));
	REFUSED(EBUSY, ibv_dealloc_td(td));
	REFUSED(EINVAL, ibv_bind_mw(in_reset, mw, &bind));
	REFUSED(EINVAL, ibv_dereg_mr(NULL));
	/* ibv_rereg_mr(3) has codes of its own. */
	errno = 0;
	assert_int_equal(ibv_rereg_mr(mr, 1 << 30, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(errno, EINVAL);
	/* Nothing but SEND was asked for; one that is too long is noticed at the end. */
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(pair.qp[0]);

	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_sge_list(ex, 1000, NULL);
	REFUSED(EINVAL, ibv_wr_complete(ex));
	/* -errno: ibv_query_gid_table(3). */
	assert_int_equal(ibv_query_gid_table(world.context, &entry, 0, 0), -EINVAL);
	assert_true(ibv_poll_cq(cq, -1, NULL) < 0);
	pair_close(&pair);
	assert_int_equal(ibv_destroy_qp(in_reset), 0);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_int_equal(ibv_destroy_rwq_ind_table(table), 0);
	assert_int_equal(ibv_destroy_wq(wq), 0);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
	assert_int_equal(ibv_dealloc_td(td), 0);
	assert_int_equal(ibv_destroy_counters(counters), 0);
	assert_int_equal(ibv_dereg_mr(dm_mr), 0);
	assert_int_equal(ibv_free_dm(dm), 0);
	assert_int_equal(ibv_destroy_srq(of_xrc), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_close_xrcd(xrcd), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_dealloc_pd(other), 0);
	assert_int_equal(ibv_dereg_mr(on_demand), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
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
		cmocka_unit_test(minus_one_where_the_manual_says_so),
		cmocka_unit_test(nothing_and_errno),
		cmocka_unit_test(numbers_of_later_verbs),
		cmocka_unit_test(an_object_with_another_handle_is_none),
		cmocka_unit_test(what_cannot_be_imported),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, open_world, close_world);
}
