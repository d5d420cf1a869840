/* SPDX-License-Identifier: MIT
 *
 * Memory windows of both types, by every way of binding and of losing them.
 */
#include <errno.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/one_world.h"
#include "lib/private_network.h"

/* Side 1 binds, side 0 uses. */
static enum ibv_wc_status try_write(struct pair *pair, uint32_t rkey, uint64_t address, uint32_t length)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = pair_request(pair, 0, IBV_WR_RDMA_WRITE, &sge, 0, length);

	wr.wr.rdma.rkey = rkey;
	wr.wr.rdma.remote_addr = address;
	pair_post(pair, 0, &wr);
	return wait_completion(pair->cq[0]).status;
}

static void reconnect(struct pair *pair)
{
	pair_reset(pair, 0);
	pair_reset(pair, 1);
	pair_connect(pair);
}

static struct ibv_mw_bind_info piece(struct pair *pair, size_t offset, uint64_t length, unsigned access)
{
	struct ibv_mw_bind_info info = {
		.mr = pair->mr[1],
		.addr = (uintptr_t)pair->buffer[1] + offset,
		.length = length,
		.mw_access_flags = access,
	};

	return info;
}

static void type_1_binds_rebinds_and_unbinds(void **state)
{
	struct pair pair;
	struct ibv_mw *mw = ibv_alloc_mw(world.pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {.wr_id = 1, .send_flags = IBV_SEND_SIGNALED};
	uint32_t first, second;
	uint64_t base;

	(void)state;
	assert_non_null(mw);
	pair_open(&pair, &world, NULL);
	base = (uintptr_t)pair.buffer[1];
	assert_int_equal(try_write(&pair, mw->rkey, base, 8), IBV_WC_REM_ACCESS_ERR);
	reconnect(&pair);
	bind.bind_info = piece(&pair, 4096, 100, IBV_ACCESS_REMOTE_WRITE);
	assert_int_equal(ibv_bind_mw(pair.qp[1], mw, &bind), 0);
	expect_completion(pair.cq[1], 1, IBV_WC_BIND_MW);
	first = mw->rkey;
	assert_int_equal(try_write(&pair, first, base + 4096, 100), IBV_WC_SUCCESS);
	assert_int_equal(ibv_dereg_mr(pair.mr[1]), EBUSY);
	assert_int_equal(try_write(&pair, first, base + 4096, 101), IBV_WC_REM_ACCESS_ERR);
	reconnect(&pair);
	/* Bound again elsewhere: the old key is dead. */
	bind.bind_info = piece(&pair, 8192, 50, IBV_ACCESS_REMOTE_WRITE);
	assert_int_equal(ibv_bind_mw(pair.qp[1], mw, &bind), 0);
	expect_completion(pair.cq[1], 1, IBV_WC_BIND_MW);
	second = mw->rkey;
	assert_true(second != first);
	assert_int_equal(try_write(&pair, second, base + 8192, 50), IBV_WC_SUCCESS);
	assert_int_equal(try_write(&pair, first, base + 4096, 8), IBV_WC_REM_ACCESS_ERR);
	reconnect(&pair);
	/* Length 0 unbinds. */
	bind.bind_info = (struct ibv_mw_bind_info){.mr = NULL};
	assert_int_equal(ibv_bind_mw(pair.qp[1], mw, &bind), 0);
	expect_completion(pair.cq[1], 1, IBV_WC_BIND_MW);
	assert_int_equal(try_write(&pair, mw->rkey, base + 8192, 8), IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	pair_close(&pair);
}

static void windows_grant_only_their_rights(void **state)
{
	struct pair pair;
	struct ibv_mw *mw = ibv_alloc_mw(world.pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {.wr_id = 1, .send_flags = IBV_SEND_SIGNALED};

	(void)state;
	pair_open(&pair, &world, NULL);
	bind.bind_info = piece(&pair, 0, 100, IBV_ACCESS_REMOTE_READ);
	assert_int_equal(ibv_bind_mw(pair.qp[1], mw, &bind), 0);
	expect_completion(pair.cq[1], 1, IBV_WC_BIND_MW);
	assert_int_equal(try_write(&pair, mw->rkey, bind.bind_info.addr, 8), IBV_WC_REM_ACCESS_ERR);
	reconnect(&pair);
	/* Zero based. */
	bind.bind_info = piece(&pair, 64, 100, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ZERO_BASED);
	assert_int_equal(ibv_bind_mw(pair.qp[1], mw, &bind), 0);
	expect_completion(pair.cq[1], 1, IBV_WC_BIND_MW);
	memset(pair.buffer[0], 0x6b, 8);
	assert_int_equal(try_write(&pair, mw->rkey, 4, 8), IBV_WC_SUCCESS);
	assert_int_equal(pair.buffer[1][68], 0x6b);
	assert_int_equal(pair.buffer[1][67], 0);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	pair_close(&pair);
}

static struct ibv_send_wr bind_request(struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	struct ibv_send_wr wr = {.wr_id = 2, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED};

	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = rkey;
	wr.bind_mw.bind_info = *info;
	return wr;
}

static void type_2_is_bound_by_work_and_invalidated_here(void **state)
{
	struct pair pair;
	struct ibv_mw *mw = ibv_alloc_mw(world.pd, IBV_MW_TYPE_2);
	struct ibv_mw_bind_info info;
	struct ibv_mw_bind plain = {0};
	struct ibv_send_wr wr, invalidate = {.wr_id = 3, .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED};
	uint32_t key;

	(void)state;
	pair_open(&pair, &world, NULL);
	assert_int_equal(ibv_bind_mw(pair.qp[1], mw, &plain), EINVAL);
	info = piece(&pair, 0, 100, IBV_ACCESS_REMOTE_WRITE);
	key = ibv_inc_rkey(mw->rkey);
	wr = bind_request(mw, key, &info);
	pair_post(&pair, 1, &wr);
	expect_completion(pair.cq[1], 2, IBV_WC_BIND_MW);
	mw->rkey = key;
	assert_int_equal(try_write(&pair, key, info.addr, 100), IBV_WC_SUCCESS);
	invalidate.invalidate_rkey = key;
	pair_post(&pair, 1, &invalidate);
	expect_completion(pair.cq[1], 3, IBV_WC_LOCAL_INV);
	assert_int_equal(ibv_dereg_mr(pair.mr[1]), 0);
	pair.mr[1] = ibv_reg_mr(world.pd, pair.buffer[1], PAIR_BUFFER, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	assert_int_equal(try_write(&pair, key, info.addr, 8), IBV_WC_REM_ACCESS_ERR);
	reconnect(&pair);
	/* And bound again, with another key. */
	info = piece(&pair, 0, 100, IBV_ACCESS_REMOTE_WRITE);
	key = ibv_inc_rkey(key);
	wr = bind_request(mw, key, &info);
	pair_post(&pair, 1, &wr);
	expect_completion(pair.cq[1], 2, IBV_WC_BIND_MW);
	assert_int_equal(try_write(&pair, key, info.addr, 8), IBV_WC_SUCCESS);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	pair_close(&pair);
}

/* Adapters take the low 8 bits of the key that is asked for, the rest is the window's; mw->rkey says what was bound. */
static void only_the_low_bits_of_a_key_are_chosen(void **state)
{
	struct pair pair;
	struct ibv_mw *mw = ibv_alloc_mw(world.pd, IBV_MW_TYPE_2);
	struct ibv_mw_bind_info info;
	struct ibv_send_wr wr;
	uint32_t index = mw->rkey & ~0xffu;

	(void)state;
	pair_open(&pair, &world, NULL);
	info = piece(&pair, 0, 100, IBV_ACCESS_REMOTE_WRITE);
	wr = bind_request(mw, ~index ^ 0x5a, &info);
	pair_post(&pair, 1, &wr);
	expect_completion(pair.cq[1], 2, IBV_WC_BIND_MW);
	assert_int_equal(mw->rkey, index | (0xff ^ 0x5a));
	assert_int_equal(try_write(&pair, mw->rkey, info.addr, 8), IBV_WC_SUCCESS);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	pair_close(&pair);
}

/* rxe and mlx5 take it and give no right for it: a window has no local use. */
static void a_local_right_is_taken_and_means_nothing(void **state)
{
	struct pair pair;
	struct ibv_mw *mw = ibv_alloc_mw(world.pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {.wr_id = 1, .send_flags = IBV_SEND_SIGNALED};

	(void)state;
	pair_open(&pair, &world, NULL);
	bind.bind_info = piece(&pair, 0, 100, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	assert_int_equal(ibv_bind_mw(pair.qp[1], mw, &bind), 0);
	expect_completion(pair.cq[1], 1, IBV_WC_BIND_MW);
	assert_int_equal(try_write(&pair, mw->rkey, bind.bind_info.addr, 8), IBV_WC_SUCCESS);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	pair_close(&pair);
}

static void a_send_invalidates_the_peers_window(void **state)
{
	struct pair pair;
	struct ibv_mw *mw = ibv_alloc_mw(world.pd, IBV_MW_TYPE_2);
	struct ibv_mw_bind_info info;
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct ibv_wc wc;
	uint32_t key = ibv_inc_rkey(mw->rkey);

	(void)state;
	pair_open(&pair, &world, NULL);
	info = piece(&pair, 0, 100, IBV_ACCESS_REMOTE_WRITE);
	wr = bind_request(mw, key, &info);
	pair_post(&pair, 1, &wr);
	expect_completion(pair.cq[1], 2, IBV_WC_BIND_MW);
	assert_int_equal(try_write(&pair, key, info.addr, 8), IBV_WC_SUCCESS);
	pair_receive(&pair, 1, 4, 8192, 64);
	wr = pair_request(&pair, 0, IBV_WR_SEND_WITH_INV, &sge, 0, 16);
	wr.invalidate_rkey = key;
	pair_post(&pair, 0, &wr);
	wc = expect_completion(pair.cq[1], 4, IBV_WC_RECV);
	assert_true(wc.wc_flags & IBV_WC_WITH_INV);
	assert_int_equal(wc.invalidated_rkey, key);
	expect_completion(pair.cq[0], wr.wr_id, IBV_WC_SEND);
	assert_int_equal(try_write(&pair, key, info.addr, 8), IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	pair_close(&pair);
}

static void impossible_binds_fail_at_the_binder(void **state)
{
	struct pair pair;
	struct ibv_mw *mw = ibv_alloc_mw(world.pd, IBV_MW_TYPE_2);
	char bytes[64];
	struct ibv_mr *unbindable = ibv_reg_mr(world.pd, bytes, sizeof(bytes), IBV_ACCESS_LOCAL_WRITE);
	struct ibv_mw_bind_info info;
	struct ibv_send_wr wr;

	(void)state;
	pair_open(&pair, &world, NULL);
	for (int kind = 0; kind < 3; kind++) {
		info = piece(&pair, 0, 100, IBV_ACCESS_REMOTE_WRITE);
		if (kind == 0)
			info.length = PAIR_BUFFER + 1;
		if (kind == 1)
			info = (struct ibv_mw_bind_info){unbindable, (uintptr_t)bytes, 8, IBV_ACCESS_REMOTE_WRITE};
		if (kind == 2)
			info.addr = UINT64_MAX - 50;
		wr = bind_request(mw, ibv_inc_rkey(mw->rkey), &info);
		pair_post(&pair, 1, &wr);
		expect_status(pair.cq[1], 2, IBV_WC_MW_BIND_ERR);
		assert_int_equal(state_of(pair.qp[1]), IBV_QPS_ERR);
		reconnect(&pair);
	}
	assert_int_equal(ibv_dereg_mr(unbindable), 0);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_null(ibv_alloc_mw(world.pd, (enum ibv_mw_type)3));
	assert_int_equal(errno, EINVAL);
	pair_close(&pair);
}

static void a_window_goes_with_its_queue_pair(void **state)
{
	struct pair pair;
	struct ibv_mw *mw = ibv_alloc_mw(world.pd, IBV_MW_TYPE_2);
	struct ibv_mw_bind_info info;
	struct ibv_send_wr wr;

	(void)state;
	pair_open(&pair, &world, NULL);
	info = piece(&pair, 0, 100, IBV_ACCESS_REMOTE_WRITE);
	wr = bind_request(mw, ibv_inc_rkey(mw->rkey), &info);
	pair_post(&pair, 1, &wr);
	expect_completion(pair.cq[1], 2, IBV_WC_BIND_MW);
	assert_int_equal(ibv_destroy_qp(pair.qp[1]), 0);
	pair.qp[1] = NULL;
	pair_close(&pair);       /* the region can go */
	assert_int_equal(ibv_dealloc_mw(mw), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(type_1_binds_rebinds_and_unbinds),
		cmocka_unit_test(windows_grant_only_their_rights),
		cmocka_unit_test(type_2_is_bound_by_work_and_invalidated_here),
		cmocka_unit_test(only_the_low_bits_of_a_key_are_chosen),
		cmocka_unit_test(a_local_right_is_taken_and_means_nothing),
		cmocka_unit_test(a_send_invalidates_the_peers_window),
		cmocka_unit_test(impossible_binds_fail_at_the_binder),
		cmocka_unit_test(a_window_goes_with_its_queue_pair),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, open_world, close_world);
}
