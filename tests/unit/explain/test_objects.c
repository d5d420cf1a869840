/* SPDX-License-Identifier: MIT
 *
 * Verbs that make and change objects, asked for what cannot be: each names the argument at fault.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/one_world.h"
#include "lib/private_network.h"
#include "unit/explain/told.h"

static void addresses(void **state)
{
	struct ibv_ah_attr attr = {.port_num = 1};
	struct ibv_wc wc = {0};
	struct ibv_grh grh = {0};

	(void)state;
	told_clear();
	assert_null(ibv_create_ah(world.pd, &attr));
	assert_int_equal(errno, EINVAL);
	told_expect("verb", "ibv_create_ah", "error", "EINVAL", "attribute", "ah_attr.is_global", "value", "0", NULL);
	attr.is_global = 1;
	attr.grh.sgid_index = 50;
	attr.grh.dgid = world.gid;
	assert_null(ibv_create_ah(world.pd, &attr));
	told_expect("verb", "ibv_create_ah", "sgid_index", "50", "sgid", "none", "dgid", "127.0.0.1", NULL);
	attr.grh.sgid_index = (uint8_t)world.gid_index;
	memset(&attr.grh.dgid, 0, sizeof(attr.grh.dgid));
	assert_null(ibv_create_ah(world.pd, &attr));
	told_expect("verb", "ibv_create_ah", "sgid", "127.0.0.1", "dgid", "::", NULL);
	attr.grh.dgid.raw[0] = 0xfd;
	attr.grh.dgid.raw[15] = 7;
	assert_null(ibv_create_ah(world.pd, &attr));
	told_expect("verb", "ibv_create_ah", "sgid", "127.0.0.1", "dgid", "fd00::7", NULL);
	attr.port_num = 3;
	assert_null(ibv_create_ah(world.pd, &attr));
	told_expect("verb", "ibv_create_ah", "attribute", "ah_attr.port_num", "value", "3", "limit", "1", NULL);
	told_clear();
	assert_null(ibv_create_ah_from_wc(world.pd, &wc, &grh, 1));
	told_expect("verb", "ibv_init_ah_from_wc", "attribute", "IBV_WC_GRH in wc_flags", "value", "0", NULL);
}

static void shared_receive_queues(void **state)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 1 << 20, .max_sge = 1}};
	struct ibv_srq_init_attr_ex wide = {.comp_mask = IBV_SRQ_INIT_ATTR_TYPE, .srq_type = IBV_SRQT_TM};
	struct ibv_srq_attr change = {.max_wr = 4, .srq_limit = 9};
	struct ibv_sge sge[3] = {{0}};
	struct ibv_recv_wr wr = {.wr_id = 44, .sg_list = sge, .num_sge = 3}, *bad;
	struct ibv_srq *srq;

	(void)state;
	told_clear();
	assert_null(ibv_create_srq(world.pd, &attr));
	told_expect("verb", "ibv_create_srq", "error", "EINVAL", "attribute", "max_wr", "value", number(1 << 20), NULL);
	attr.attr = (struct ibv_srq_attr){.max_wr = 2, .max_sge = 1000};
	assert_null(ibv_create_srq(world.pd, &attr));
	told_expect("verb", "ibv_create_srq", "attribute", "max_sge", "value", "1000", NULL);
	assert_null(ibv_create_srq_ex(world.context, &wide));
	assert_int_equal(errno, EOPNOTSUPP);
	told_expect("verb", "ibv_create_srq_ex", "error", "EOPNOTSUPP", NULL);
	attr.attr.max_sge = 1;
	srq = ibv_create_srq(world.pd, &attr);
	assert_non_null(srq);
	assert_int_equal(ibv_modify_srq(srq, &change, IBV_SRQ_LIMIT), EINVAL);
	told_expect("verb", "ibv_modify_srq", "attribute", "srq_limit", "value", "9", "limit", "2", NULL);
	assert_int_equal(ibv_modify_srq(srq, &change, 64), EINVAL);
	told_expect("verb", "ibv_modify_srq", "attribute", "attr_mask", "value", "64", NULL);
	assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), EINVAL);
	told_expect("verb", "ibv_post_srq_recv", "wr_id", "44", "attribute", "num_sge", "value", "3", "limit", "1", NULL);
	wr.num_sge = 0;
	while (ibv_post_srq_recv(srq, &wr, &bad) == 0)
		continue;
	told_expect("verb", "ibv_post_srq_recv", "error", "ENOMEM", "max_wr", "2", NULL);
	change.max_wr = 1;
	assert_int_equal(ibv_modify_srq(srq, &change, IBV_SRQ_MAX_WR), EINVAL);
	told_expect("verb", "ibv_modify_srq", "attribute", "max_wr", "value", "1", "limit", "2", NULL);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void completion_queues(void **state)
{
	struct ibv_cq_init_attr_ex wide = {.cqe = 4, .wc_flags = IBV_WC_EX_WITH_CVLAN};
	struct ibv_cq *cq = ibv_create_cq(world.context, 4, NULL, NULL, 0);

	(void)state;
	told_clear();
	assert_null(ibv_create_cq(world.context, 0, NULL, NULL, 0));
	told_expect("verb", "ibv_create_cq", "attribute", "cqe", "value", "0", "limit", "1", NULL);
	assert_null(ibv_create_cq(world.context, 4, NULL, NULL, 99));
	told_expect("verb", "ibv_create_cq", "attribute", "comp_vector", "value", "99", "limit", "3", NULL);
	assert_null(ibv_create_cq_ex(world.context, &wide));
	assert_int_equal(errno, EOPNOTSUPP);
	told_expect("verb", "ibv_create_cq_ex", "error", "EOPNOTSUPP", "attribute", "wc_flags", "extra", hex(IBV_WC_EX_WITH_CVLAN, 1),
		    NULL);
	assert_int_equal(ibv_resize_cq(cq, 1 << 30), EINVAL);
	told_expect("verb", "ibv_resize_cq", "attribute", "cqe", "value", number(1 << 30), NULL);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void regions(void **state)
{
	static uint8_t memory[8192];
	struct ibv_mr *mr = ibv_reg_mr(world.pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	int file = memfd_create("some", MFD_CLOEXEC);

	(void)state;
	assert_non_null(mr);
	told_clear();
	assert_int_not_equal(ibv_rereg_mr(mr, 0, NULL, NULL, 0, IBV_ACCESS_REMOTE_READ), 0);
	told_expect("verb", "ibv_rereg_mr", "error", "EINVAL", NULL);
	assert_int_not_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE), 0);
	told_expect("verb", "ibv_rereg_mr", "access", "REMOTE_WRITE", "missing", "LOCAL_WRITE", "address", hex((uintptr_t)memory, 1),
		    "length", "8192", NULL);
	assert_int_equal(ftruncate(file, 4096), 0);
	assert_null(ibv_reg_dmabuf_mr(world.pd, 0, 8192, 0, file, IBV_ACCESS_LOCAL_WRITE));
	told_expect("verb", "ibv_reg_dmabuf_mr", "attribute", "length", "value", "8192", "limit", "4096", NULL);
	close(file);
	assert_null(ibv_reg_dmabuf_mr(world.pd, 0, 4096, 0, file, IBV_ACCESS_LOCAL_WRITE));
	told_expect("verb", "ibv_reg_dmabuf_mr", "error", "EBADF", NULL);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void device_memory_and_windows(void **state)
{
	struct ibv_alloc_dm_attr attr = {.length = 1 << 30};
	struct ibv_dm *dm;

	(void)state;
	told_clear();
	assert_null(ibv_alloc_dm(world.context, &attr));
	told_expect("verb", "ibv_alloc_dm", "error", "ENOMEM", "attribute", "length", "value", number(1 << 30), "limit",
		    number(16 << 20), NULL);
	attr = (struct ibv_alloc_dm_attr){.length = 4096, .log_align_req = 30};
	assert_null(ibv_alloc_dm(world.context, &attr));
	told_expect("verb", "ibv_alloc_dm", "error", "EINVAL", "attribute", "log_align_req", "value", "30", NULL);
	attr.log_align_req = 0;
	dm = ibv_alloc_dm(world.context, &attr);
	assert_non_null(dm);
	assert_null(ibv_reg_dm_mr(world.pd, dm, 0, 4096, IBV_ACCESS_LOCAL_WRITE));
	told_expect("verb", "ibv_reg_dm_mr", "attribute", "IBV_ACCESS_ZERO_BASED", "value", "0", NULL);
	assert_null(ibv_reg_dm_mr(world.pd, dm, 4000, 97, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED));
	told_expect("verb", "ibv_reg_dm_mr", "attribute", "length", "value", "97", "limit", "96", NULL);
	assert_int_equal(ibv_free_dm(dm), 0);
	assert_null(ibv_alloc_mw(world.pd, (enum ibv_mw_type)9));
	told_expect("verb", "ibv_alloc_mw", "error", "EINVAL", "number", hex(9, 6), NULL);
}

static void a_bind_without_a_region(void **state)
{
	struct ibv_mw_bind bind = {.wr_id = 12, .bind_info = {.length = 64}};
	struct ibv_mw *mw = ibv_alloc_mw(world.pd, IBV_MW_TYPE_1);
	struct pair pair;

	(void)state;
	pair_open(&pair, &world, NULL);
	told_clear();
	/* Past the header's own checks. */
	assert_int_equal(world.context->ops.bind_mw(pair.qp[0], mw, &bind), EINVAL);
	told_expect("verb", "ibv_post_send", "opcode", "BIND_MW", "wr_id", "12", "attribute", "bind_info.mr", NULL);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	pair_close(&pair);
}

static void multicast_groups(void **state)
{
	const struct pair_options datagrams = {.type = IBV_QPT_UD};
	union ibv_gid group = {.raw = {[10] = 0xff, [11] = 0xff, [12] = 239, [15] = 1}};
	struct pair pair;

	(void)state;
	pair_open(&pair, &world, NULL);
	told_clear();
	assert_int_equal(ibv_attach_mcast(pair.qp[0], &group, 0), EINVAL);
	told_expect("verb", "ibv_attach_mcast", "qp_type", "RC", "group", "239.0.0.1", NULL);
	pair_close(&pair);
	pair_open(&pair, &world, &datagrams);
	assert_int_equal(ibv_attach_mcast(pair.qp[0], &world.gid, 0), EINVAL);
	told_expect("verb", "ibv_attach_mcast", "qp_type", "UD", "group", "127.0.0.1", "number", hex(pair.qp[0]->qp_num, 6), NULL);
	assert_int_equal(ibv_detach_mcast(pair.qp[0], &group, 0), EINVAL);
	told_expect("verb", "ibv_detach_mcast", "group", "239.0.0.1", NULL);
	pair_close(&pair);
}

static void tables_and_ports(void **state)
{
	struct ibv_port_attr port;
	union ibv_gid gid;
	__be16 key;

	(void)state;
	told_clear();
	assert_int_equal(ibv_query_port(world.context, 2, &port), EINVAL);
	told_expect("verb", "ibv_query_port", "attribute", "port_num", "value", "2", "limit", "1", NULL);
	assert_int_equal(ibv_query_gid(world.context, 1, 9999, &gid), -1);
	told_expect("verb", "ibv_query_gid", "attribute", "index", "value", "9999", "limit", "63", NULL);
	assert_int_equal(ibv_query_pkey(world.context, 1, 5, &key), -1);
	told_expect("verb", "ibv_query_pkey", "attribute", "index", "value", "5", NULL);
}

static void what_there_is_not(void **state)
{
	struct ibv_flow_attr flow = {0};
	struct ibv_flow_action_esp_attr action = {0};
	struct ibv_qp_rate_limit_attr rate = {0};
	struct pair pair;

	(void)state;
	pair_open(&pair, &world, NULL);
	told_clear();
	/* There are rules, but not for such queue pairs. */
	assert_null(ibv_create_flow(pair.qp[0], &flow));
	assert_int_equal(errno, EINVAL);
	told_expect("verb", "ibv_create_flow", "error", "EINVAL", NULL);
	assert_null(ibv_create_flow_action_esp(world.context, &action));
	assert_int_equal(ibv_modify_qp_rate_limit(pair.qp[0], &rate), EOPNOTSUPP);
	for (const char *const *verb = (const char *const[]){"ibv_create_flow_action_esp",
							      "ibv_modify_qp_rate_limit", NULL}; *verb; verb++)
		told_expect("verb", *verb, "error", "EOPNOTSUPP", NULL);
	pair_close(&pair);
}

static void receive_side_scaling(void **state)
{
	struct ibv_cq *cq = ibv_create_cq(world.context, 4, NULL, NULL, 0);
	struct ibv_wq_init_attr queue = {.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = world.pd};
	struct ibv_rwq_ind_table_init_attr entries = {.log_ind_tbl_size = 31};
	struct ibv_wq_attr change = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_ERR};
	struct ibv_qp_init_attr_ex scaled = {.qp_type = IBV_QPT_RAW_PACKET, .pd = world.pd, .send_cq = cq,
					     .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH};
	struct ibv_recv_wr wr = {.wr_id = 5}, *bad;
	struct ibv_wq *wq;

	(void)state;
	told_clear();
	assert_null(ibv_create_wq(world.context, &queue));
	told_expect("verb", "ibv_create_wq", "error", "EINVAL", NULL);
	queue.cq = cq;
	wq = ibv_create_wq(world.context, &queue);
	assert_non_null(wq);
	assert_int_equal(ibv_modify_wq(wq, &change), EINVAL);
	told_expect("verb", "ibv_modify_wq", "error", "EINVAL", NULL);
	assert_int_equal(ibv_post_wq_recv(wq, &wr, &bad), EINVAL);
	told_expect("verb", "ibv_post_wq_recv", "error", "EINVAL", NULL);
	assert_null(ibv_create_rwq_ind_table(world.context, &entries));
	told_expect("verb", "ibv_create_rwq_ind_table", "error", "EINVAL", NULL);
	assert_null(ibv_create_qp_ex(world.context, &scaled));
	told_expect("verb", "ibv_create_qp", "error", "EINVAL", "attribute", "cap", NULL);
	scaled.send_cq = NULL;
	assert_null(ibv_create_qp_ex(world.context, &scaled));
	told_expect("verb", "ibv_create_qp", "error", "EINVAL", "attribute", "rx_hash_key_len", "limit", "40", NULL);
	assert_int_equal(ibv_destroy_wq(wq), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void xrc(void **state)
{
	struct ibv_xrcd_init_attr domain = {0};
	struct ibv_srq_init_attr_ex srq = {.comp_mask = IBV_SRQ_INIT_ATTR_TYPE, .srq_type = IBV_SRQT_XRC};
	struct ibv_qp_init_attr_ex receiver = {.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = world.pd};
	struct ibv_qp_open_attr other = {0};

	(void)state;
	told_clear();
	assert_null(ibv_open_xrcd(world.context, &domain));
	told_expect("verb", "ibv_open_xrcd", "error", "EINVAL", NULL);
	domain = (struct ibv_xrcd_init_attr){.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -7};
	assert_null(ibv_open_xrcd(world.context, &domain));
	told_expect("verb", "ibv_open_xrcd", "error", "EBADF", NULL);
	assert_null(ibv_create_srq_ex(world.context, &srq));
	told_expect("verb", "ibv_create_srq_ex", "error", "EINVAL", NULL);
	assert_null(ibv_create_qp_ex(world.context, &receiver));
	told_expect("verb", "ibv_create_qp", "error", "EINVAL", "attribute", "xrcd", "qp_type", "XRC_RECV", NULL);
	assert_null(ibv_open_qp(world.context, &other));
	told_expect("verb", "ibv_open_qp", "error", "EINVAL", NULL);
}

static void a_queue_pair_without_a_domain(void **state)
{
	struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_RC, .comp_mask = IBV_QP_INIT_ATTR_CREATE_FLAGS};

	(void)state;
	told_clear();
	assert_null(ibv_create_qp_ex(world.context, &attr));
	assert_int_equal(errno, EINVAL);
	told_expect("verb", "ibv_create_qp_ex", "error", "EINVAL", NULL);
}

/* Before anything runs that could be asked. */
static void say_that_there_is_no_daemon(void)
{
	char *daemon = getenv("VERBENA_DAEMON") ? strdup(getenv("VERBENA_DAEMON")) : NULL;
	int count;

	setenv("VERBENA_DAEMON", "/nonexistent/verbenad", 1);
	if (ibv_get_device_list(&count) != NULL || errno != ENOENT)
		abort();
	if (daemon)
		setenv("VERBENA_DAEMON", daemon, 1);
	else
		unsetenv("VERBENA_DAEMON");
	free(daemon);
}

static void no_daemon(void **state)
{
	(void)state;
	told_expect("verb", "ibv_get_device_list", "error", "ENOENT", "missing", "verbenad", NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_daemon),
		cmocka_unit_test(addresses),
		cmocka_unit_test(shared_receive_queues),
		cmocka_unit_test(completion_queues),
		cmocka_unit_test(regions),
		cmocka_unit_test(device_memory_and_windows),
		cmocka_unit_test(a_bind_without_a_region),
		cmocka_unit_test(multicast_groups),
		cmocka_unit_test(tables_and_ports),
		cmocka_unit_test(what_there_is_not),
		cmocka_unit_test(receive_side_scaling),
		cmocka_unit_test(xrc),
		cmocka_unit_test(a_queue_pair_without_a_domain),
	};
	int failed;

	private_network_enter();
	told_prepare();
	say_that_there_is_no_daemon();
	failed = cmocka_run_group_tests(tests, open_world, close_world);
	told_remove();
	return failed;
}
