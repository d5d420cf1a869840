/* SPDX-License-Identifier: MIT
 *
 * VERBENA_PROFILE: what ibv_query_device says under each adapter's profile is what creation grants, and one more is refused. And
 * without a profile, that there are as many objects as the device says, and no more.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/private_network.h"
#include "unit/profiles/expected_profiles.h"
#include "unit/verbs/profile_world.h"

static struct ibv_qp *try_qp(struct ibv_cq *cq, enum ibv_qp_type type, struct ibv_qp_cap cap)
{
	struct ibv_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .qp_type = type, .cap = cap};

	errno = 0;
	return ibv_create_qp(world.pd, &attr);
}

static void expect_qp(struct ibv_cq *cq, enum ibv_qp_type type, struct ibv_qp_cap cap, int error)
{
	struct ibv_qp *qp = try_qp(cq, type, cap);

	if (error == 0) {
		assert_non_null(qp);
		assert_int_equal(ibv_destroy_qp(qp), 0);
	} else {
		assert_null(qp);
		assert_int_equal(errno, error);
	}
}

/* Addresses that nobody has: only on-demand regions may be like this. */
static void expect_region(size_t length, int error)
{
	struct ibv_mr *mr = ibv_reg_mr(world.pd, (void *)4096, length, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);

	if (error == 0) {
		assert_non_null(mr);
		assert_int_equal(ibv_dereg_mr(mr), 0);
	} else {
		assert_null(mr);
		assert_int_equal(errno, error);
	}
}

/* Its types come together, and with them domains and their SRQs. */
static void look_at_xrc(const struct ibv_device_attr *attr, bool expected)
{
	struct ibv_xrcd_init_attr domain = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
	struct ibv_srq_init_attr_ex srq = {.comp_mask = IBV_SRQ_INIT_ATTR_TYPE, .srq_type = IBV_SRQT_XRC};
	struct ibv_xrcd *xrcd = ibv_open_xrcd(world.context, &domain);

	assert_int_equal((attr->device_cap_flags & IBV_DEVICE_XRC) != 0, expected);
	assert_int_equal(xrcd != NULL, expected);
	if (xrcd != NULL)
		assert_int_equal(ibv_close_xrcd(xrcd), 0);
	else
		assert_int_equal(errno, EOPNOTSUPP);
	assert_null(ibv_create_srq_ex(world.context, &srq)); /* nor is all of it given */
	assert_int_equal(errno, expected ? EINVAL : EOPNOTSUPP);
}

static void look_at(const struct expected *e)
{
	const struct ibv_qp_cap usual = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1};
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	struct ibv_qp_cap cap;
	struct ibv_srq *srq;
	struct ibv_cq *cq;

	assert_int_equal(ibv_query_device(world.context, &attr), 0);
	assert_int_equal(ibv_query_port(world.context, 1, &port), 0);
	assert_int_equal(attr.max_qp, e->qp);
	assert_int_equal(attr.max_qp_wr, e->qp_wr);
	assert_int_equal(attr.max_sge, e->send_sge < e->recv_sge ? e->send_sge : e->recv_sge);
	assert_int_equal(attr.max_sge_rd, e->sge_rd);
	assert_int_equal(attr.max_cqe, e->cqe);
	assert_true(attr.max_mr_size == e->mr_size);
	assert_int_equal(attr.max_qp_rd_atom, e->rd);
	assert_int_equal(attr.max_qp_init_rd_atom, e->init_rd);
	assert_int_equal(attr.atomic_cap, e->atomics);
	assert_int_equal(attr.max_srq > 0, e->srq_wr > 0);
	assert_int_equal(attr.max_srq_wr, e->srq_wr);
	assert_int_equal(attr.max_srq_sge, e->srq_wr == 0 ? 0 : e->srq_sge != 0 ? e->srq_sge : 30);
	assert_int_equal(attr.max_mr, e->mr != 0 ? e->mr : 1 << 20);
	assert_int_equal(attr.max_ah > 0, (e->types & E_UD) != 0);
	assert_int_equal(attr.max_mcast_qp_attach, !(e->types & E_UD) ? 0 : e->group_qps != 0 ? e->group_qps : 1024);
	assert_int_equal(attr.vendor_id, 0x566265);
	assert_int_equal(port.max_msg_sz, e->message);
	assert_int_equal(port.gid_tbl_len, e->gids);
	assert_int_equal(port.pkey_tbl_len, e->iwarp ? 0 : 1);

	assert_null(ibv_create_cq(world.context, (int)e->cqe + 1, NULL, NULL, 0));
	assert_int_equal(errno, EINVAL);
	cq = ibv_create_cq(world.context, 8, NULL, NULL, 0);
	assert_non_null(cq);
	for (unsigned type = IBV_QPT_RC; type <= IBV_QPT_UD; type++)
		expect_qp(cq, type, usual, e->types & 1u << type ? 0 : EOPNOTSUPP);
	look_at_xrc(&attr, (e->types & E_XRC) != 0);
	cap = usual;
	cap.max_send_wr = cap.max_recv_wr = e->qp_wr;
	expect_qp(cq, IBV_QPT_RC, cap, 0);
	cap.max_send_wr++;
	expect_qp(cq, IBV_QPT_RC, cap, EINVAL);
	cap = usual;
	cap.max_send_sge = e->send_sge;
	cap.max_recv_sge = e->recv_sge;
	expect_qp(cq, IBV_QPT_RC, cap, 0);
	cap.max_recv_sge++;
	expect_qp(cq, IBV_QPT_RC, cap, EINVAL);
	cap.max_recv_sge--;
	cap.max_send_sge++;
	expect_qp(cq, IBV_QPT_RC, cap, EINVAL);
	cap = usual;
	cap.max_inline_data = e->inline_rc;
	expect_qp(cq, IBV_QPT_RC, cap, 0);
	cap.max_inline_data++;
	expect_qp(cq, IBV_QPT_RC, cap, e->grants_less_inline ? 0 : EINVAL);
	cap = usual;
	cap.max_recv_wr = 0;
	expect_qp(cq, IBV_QPT_RC, cap, e->needs_both_queues ? EINVAL : 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);

	errno = 0;
	srq = ibv_create_srq(world.pd, &srq_attr);
	assert_int_equal(srq != NULL, e->srq_wr > 0);
	if (srq == NULL)
		assert_int_equal(errno, EOPNOTSUPP);
	else
		assert_int_equal(ibv_destroy_srq(srq), 0);
	if (e->mr_size < 1ull << 60) {
		expect_region(e->mr_size, 0);
		expect_region(e->mr_size + 1, EINVAL);
	}
}

static void each_adapter_of_a_channel_adapter(void **state)
{
	(void)state;
	for (unsigned i = 0; i < EXPECTED_PROFILES; i++) {
		if (expected_profiles[i].iwarp)
			continue;
		open_as(expected_profiles[i].name);
		look_at(&expected_profiles[i]);
		world_close(&world);
	}
	open_as(NULL);
	world_close(&world);
}

static void each_adapter_of_an_rnic(void **state)
{
	unsigned seen = 0;

	(void)state;
	for (unsigned i = 0; i < EXPECTED_PROFILES; i++) {
		if (!expected_profiles[i].iwarp)
			continue;
		open_rnic_as(expected_profiles[i].name);
		look_at(&expected_profiles[i]);
		world_close(&world);
		seen++;
	}
	assert_true(seen > 0);
	unsetenv("VERBENA_PROFILE");
}

/* 1,023 are few enough to try. */
static void as_many_queue_pairs_as_are_promised(void **state)
{
	const struct ibv_qp_cap usual = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1};
	static struct ibv_qp *qp[1023];
	struct ibv_cq *cq;

	(void)state;
	open_as("erdma-compat");
	cq = ibv_create_cq(world.context, 8, NULL, NULL, 0);
	for (int i = 0; i < 1023; i++)
		assert_non_null(qp[i] = try_qp(cq, IBV_QPT_RC, usual));
	expect_qp(cq, IBV_QPT_RC, usual, ENOMEM);
	assert_int_equal(ibv_destroy_qp(qp[5]), 0);
	assert_non_null(qp[5] = try_qp(cq, IBV_QPT_RC, usual));
	for (int i = 0; i < 1023; i++)
		assert_int_equal(ibv_destroy_qp(qp[i]), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	world_close(&world);
}

static void *make_pd(void) { return ibv_alloc_pd(world.context); }
static int end_pd(void *pd) { return ibv_dealloc_pd(pd); }

static void *make_cq(void) { return ibv_create_cq(world.context, 1, NULL, NULL, 0); }
static int end_cq(void *cq) { return ibv_destroy_cq(cq); }

static void *make_srq(void)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 1, .max_sge = 1}};

	return ibv_create_srq(world.pd, &attr);
}
static int end_srq(void *srq) { return ibv_destroy_srq(srq); }

static void *make_ah(void)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = world.gid, .sgid_index = (uint8_t)world.gid_index}};

	return ibv_create_ah(world.pd, &attr);
}
static int end_ah(void *ah) { return ibv_destroy_ah(ah); }

/* `there`: that exist already. */
static void fill(void *(*make)(void), int (*end)(void *), int most, int there)
{
	void **object = calloc((size_t)most, sizeof(*object));

	assert_non_null(object);
	for (int i = there; i < most; i++)
		assert_non_null(object[i] = make());
	errno = 0;
	assert_null(make());
	assert_int_equal(errno, ENOMEM);
	/* What goes makes room for another. */
	assert_int_equal(end(object[there]), 0);
	assert_non_null(object[there] = make());
	for (int i = there; i < most; i++)
		assert_int_equal(end(object[i]), 0);
	free(object);
}

static void as_many_objects_as_are_promised(void **state)
{
	struct ibv_device_attr attr;

	(void)state;
	open_as(NULL);
	assert_int_equal(ibv_query_device(world.context, &attr), 0);
	fill(make_pd, end_pd, attr.max_pd, 1);
	fill(make_cq, end_cq, attr.max_cq, 0);
	fill(make_srq, end_srq, attr.max_srq, 0);
	fill(make_ah, end_ah, attr.max_ah, 0);
	world_close(&world);
}

static void a_name_that_is_none(void **state)
{
	int count = 7;

	(void)state;
	setenv("VERBENA_PROFILE", "mlx99", 1);
	errno = 0;
	assert_null(ibv_get_device_list(&count));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(count, 0);
	/* Adapters of another kind: there is no such device here. */
	setenv("VERBENA_PROFILE", "erdma", 1);
	struct ibv_device **list = ibv_get_device_list(&count);

	assert_non_null(list);
	assert_int_equal(count, 0);
	ibv_free_device_list(list);
	setenv("VERBENA_PROFILE", "", 1);
	list = ibv_get_device_list(&count);
	assert_true(count > 0);
	ibv_free_device_list(list);
	unsetenv("VERBENA_PROFILE");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_adapter_of_a_channel_adapter),
		cmocka_unit_test(each_adapter_of_an_rnic),
		cmocka_unit_test(as_many_queue_pairs_as_are_promised),
		cmocka_unit_test(as_many_objects_as_are_promised),
		cmocka_unit_test(a_name_that_is_none),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
