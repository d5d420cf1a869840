/* SPDX-License-Identifier: MIT
 *
 * The ibv_wr_* builders: every operation and every setter, lists, errors and aborts.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/one_world.h"
#include "lib/private_network.h"

enum {
	RC_OPS = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |
		 IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
		 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW |
		 IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_ATOMIC_WRITE,
	UD_OPS = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM,
};

static struct ibv_qp_ex *begin(struct pair *pair, uint64_t wr_id, unsigned flags)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(pair->qp[0]);

	assert_non_null(qp);
	ibv_wr_start(qp);
	qp->wr_id = wr_id;
	qp->wr_flags = flags;
	return qp;
}

static void every_operation_works(void **state)
{
	const struct pair_options options = {.send_ops = RC_OPS, .inline_data = 128};
	struct pair pair;
	struct ibv_qp_ex *qp;
	struct ibv_wc wc;
	struct ibv_sge list[2];
	struct ibv_data_buf pieces[2] = {{"hello ", 6}, {"world", 6}};
	uint64_t base, *theirs;
	uint32_t rkey;

	(void)state;
	pair_open(&pair, &world, &options);
	base = (uintptr_t)pair.buffer[1];
	rkey = pair.mr[1]->rkey;
	theirs = (uint64_t *)(void *)pair.buffer[1];
	fill_pattern(pair.buffer[0], 3000, 1);

	qp = begin(&pair, 1, IBV_SEND_SIGNALED);
	ibv_wr_rdma_write(qp, rkey, base + 4096);
	ibv_wr_set_sge(qp, pair.mr[0]->lkey, (uintptr_t)pair.buffer[0], 3000);
	assert_int_equal(ibv_wr_complete(qp), 0);
	expect_completion(pair.cq[0], 1, IBV_WC_RDMA_WRITE);
	assert_true(has_pattern(pair.buffer[1] + 4096, 3000, 1));

	pair_receive(&pair, 1, 50, 0, 0);
	qp = begin(&pair, 2, IBV_SEND_SIGNALED);
	ibv_wr_rdma_write_imm(qp, rkey, base + 8192, htonl(7));
	ibv_wr_set_inline_data_list(qp, 2, pieces);
	assert_int_equal(ibv_wr_complete(qp), 0);
	wc = expect_completion(pair.cq[1], 50, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.imm_data, htonl(7));
	assert_string_equal((char *)pair.buffer[1] + 8192, "hello world");
	expect_completion(pair.cq[0], 2, IBV_WC_RDMA_WRITE);

	qp = begin(&pair, 3, IBV_SEND_SIGNALED);
	ibv_wr_rdma_read(qp, rkey, base + 4096);
	list[0] = (struct ibv_sge){(uintptr_t)pair.buffer[0] + 8192, 1000, pair.mr[0]->lkey};
	list[1] = (struct ibv_sge){(uintptr_t)pair.buffer[0] + 9192, 2000, pair.mr[0]->lkey};
	ibv_wr_set_sge_list(qp, 2, list);
	assert_int_equal(ibv_wr_complete(qp), 0);
	expect_completion(pair.cq[0], 3, IBV_WC_RDMA_READ);
	assert_true(has_pattern(pair.buffer[0] + 8192, 3000, 1));

	*theirs = 5;
	qp = begin(&pair, 4, IBV_SEND_SIGNALED);
	ibv_wr_atomic_fetch_add(qp, rkey, base, 10);
	ibv_wr_set_sge(qp, pair.mr[0]->lkey, (uintptr_t)pair.buffer[0], 8);
	qp->wr_id = 5;
	ibv_wr_atomic_cmp_swp(qp, rkey, base, 15, 77);
	ibv_wr_set_sge(qp, pair.mr[0]->lkey, (uintptr_t)pair.buffer[0] + 8, 8);
	assert_int_equal(ibv_wr_complete(qp), 0);
	expect_completion(pair.cq[0], 4, IBV_WC_FETCH_ADD);
	expect_completion(pair.cq[0], 5, IBV_WC_COMP_SWAP);
	assert_int_equal(*theirs, 77);
	assert_int_equal(((uint64_t *)(void *)pair.buffer[0])[0], 5);
	assert_int_equal(((uint64_t *)(void *)pair.buffer[0])[1], 15);

	pair_receive(&pair, 1, 51, 0, 64);
	pair_receive(&pair, 1, 52, 0, 64);
	qp = begin(&pair, 6, IBV_SEND_SIGNALED);
	ibv_wr_send(qp);
	ibv_wr_set_inline_data(qp, "abc", 4);
	qp->wr_id = 7;
	ibv_wr_send_imm(qp, htonl(9));
	ibv_wr_set_inline_data(qp, NULL, 0);
	assert_int_equal(ibv_wr_complete(qp), 0);
	assert_int_equal(expect_completion(pair.cq[1], 51, IBV_WC_RECV).byte_len, 4);
	wc = expect_completion(pair.cq[1], 52, IBV_WC_RECV);
	assert_int_equal(wc.byte_len, 0);
	assert_int_equal(wc.imm_data, htonl(9));
	expect_completion(pair.cq[0], 6, IBV_WC_SEND);
	expect_completion(pair.cq[0], 7, IBV_WC_SEND);
	pair_close(&pair);
}

/* Eight bytes, copied at the call; ibv_query_device_ex promises it (the kernel's IB_UVERBS_DEVICE_ATOMIC_WRITE). */
static void eight_bytes_are_written_at_once(void **state)
{
	const struct pair_options options = {.send_ops = RC_OPS, .inline_data = 16};
	struct ibv_device_attr_ex device;
	struct ibv_send_wr wr, *bad;
	struct ibv_qp_ex *qp;
	struct ibv_sge sge;
	struct pair pair;
	uint64_t base, value = 0x1122334455667788;
	uint32_t rkey;

	(void)state;
	assert_int_equal(ibv_query_device_ex(world.context, NULL, &device), 0);
	assert_true(device.device_cap_flags_ex & 1ull << 40);
	pair_open(&pair, &world, &options);
	base = (uintptr_t)pair.buffer[1];
	rkey = pair.mr[1]->rkey;
	qp = begin(&pair, 1, IBV_SEND_SIGNALED);
	ibv_wr_atomic_write(qp, rkey, base + 64, &value);
	value = 0;
	qp->wr_id = 2;
	ibv_wr_atomic_fetch_add(qp, rkey, base + 64, 1);
	ibv_wr_set_sge(qp, pair.mr[0]->lkey, (uintptr_t)pair.buffer[0], 8);
	assert_int_equal(ibv_wr_complete(qp), 0);
	expect_completion(pair.cq[0], 1, IBV_WC_ATOMIC_WRITE);
	expect_completion(pair.cq[0], 2, IBV_WC_FETCH_ADD);
	assert_true(*(uint64_t *)(void *)pair.buffer[0] == 0x1122334455667788);
	assert_true(((uint64_t *)(void *)pair.buffer[1])[8] == 0x1122334455667789);
	/* Not aligned; no value; a list beside the value; by ibv_post_send, which has no place for it. */
	qp = begin(&pair, 3, IBV_SEND_SIGNALED);
	ibv_wr_atomic_write(qp, rkey, base + 4, &value);
	assert_int_equal(ibv_wr_complete(qp), EINVAL);
	qp = begin(&pair, 3, IBV_SEND_SIGNALED);
	ibv_wr_atomic_write(qp, rkey, base, NULL);
	assert_int_equal(ibv_wr_complete(qp), EINVAL);
	qp = begin(&pair, 3, IBV_SEND_SIGNALED);
	ibv_wr_atomic_write(qp, rkey, base, &value);
	ibv_wr_set_sge(qp, pair.mr[0]->lkey, (uintptr_t)pair.buffer[0], 8);
	assert_int_equal(ibv_wr_complete(qp), EINVAL);
	wr = pair_request(&pair, 0, IBV_WR_ATOMIC_WRITE, &sge, 0, 8);
	assert_int_equal(ibv_post_send(pair.qp[0], &wr, &bad), EINVAL);
	expect_silence(pair.cq[0]);
	pair_close(&pair);
}

static void windows_are_bound_and_invalidated(void **state)
{
	const struct pair_options options = {.send_ops = RC_OPS};
	struct pair pair;
	struct ibv_mw *mw = ibv_alloc_mw(world.pd, IBV_MW_TYPE_2);
	uint32_t key = ibv_inc_rkey(mw->rkey);
	struct ibv_mw_bind_info info;
	struct ibv_qp_ex *qp;

	(void)state;
	pair_open(&pair, &world, &options);
	info = (struct ibv_mw_bind_info){pair.mr[0], (uintptr_t)pair.buffer[0], 64, IBV_ACCESS_REMOTE_READ};
	qp = begin(&pair, 1, IBV_SEND_SIGNALED);
	ibv_wr_bind_mw(qp, mw, key, &info);
	qp->wr_id = 2;
	ibv_wr_local_inv(qp, key);
	assert_int_equal(ibv_wr_complete(qp), 0);
	expect_completion(pair.cq[0], 1, IBV_WC_BIND_MW);
	expect_completion(pair.cq[0], 2, IBV_WC_LOCAL_INV);
	/* The other's window, by a send. */
	info = (struct ibv_mw_bind_info){pair.mr[1], (uintptr_t)pair.buffer[1], 64, IBV_ACCESS_REMOTE_READ};
	key = ibv_inc_rkey(key);
	ibv_wr_start(ibv_qp_to_qp_ex(pair.qp[1]));
	ibv_qp_to_qp_ex(pair.qp[1])->wr_id = 3;
	ibv_qp_to_qp_ex(pair.qp[1])->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_bind_mw(ibv_qp_to_qp_ex(pair.qp[1]), mw, key, &info);
	assert_int_equal(ibv_wr_complete(ibv_qp_to_qp_ex(pair.qp[1])), 0);
	expect_completion(pair.cq[1], 3, IBV_WC_BIND_MW);
	pair_receive(&pair, 1, 4, 0, 8);
	qp = begin(&pair, 5, IBV_SEND_SIGNALED);
	ibv_wr_send_inv(qp, key);
	ibv_wr_set_sge(qp, pair.mr[0]->lkey, (uintptr_t)pair.buffer[0], 8);
	assert_int_equal(ibv_wr_complete(qp), 0);
	assert_int_equal(expect_completion(pair.cq[1], 4, IBV_WC_RECV).invalidated_rkey, key);
	expect_completion(pair.cq[0], 5, IBV_WC_SEND);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	pair_close(&pair);
}

static void datagrams_take_their_address(void **state)
{
	const struct pair_options options = {.type = IBV_QPT_UD, .send_ops = UD_OPS, .inline_data = 64};
	struct pair pair;
	struct ibv_qp_ex *qp;

	(void)state;
	pair_open(&pair, &world, &options);
	pair_receive(&pair, 1, 1, 0, 100);
	qp = begin(&pair, 2, IBV_SEND_SIGNALED);
	ibv_wr_send(qp);
	ibv_wr_set_ud_addr(qp, pair.ah[1], pair.qp[1]->qp_num, PAIR_QKEY);
	ibv_wr_set_inline_data(qp, "datagram", 9);
	assert_int_equal(ibv_wr_complete(qp), 0);
	assert_int_equal(expect_completion(pair.cq[1], 1, IBV_WC_RECV).byte_len, 49);
	assert_string_equal((char *)pair.buffer[1] + 40, "datagram");
	expect_completion(pair.cq[0], 2, IBV_WC_SEND);
	/* Without an address: refused. */
	qp = begin(&pair, 3, IBV_SEND_SIGNALED);
	ibv_wr_send(qp);
	ibv_wr_set_inline_data(qp, "datagram", 9);
	assert_int_equal(ibv_wr_complete(qp), EINVAL);
	expect_silence(pair.cq[0]);
	pair_close(&pair);
}

/* One bad request spoils its list, and only it. */
static void errors_take_the_whole_list_back(void **state)
{
	const struct pair_options options = {.send_ops = RC_OPS, .depth = 4, .inline_data = 16, .sge = 1};
	struct pair pair;
	struct ibv_qp_ex *qp;
	char long_bytes[2000] = "";
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	(void)state;
	pair_open(&pair, &world, &options);
	qp = begin(&pair, 1, IBV_SEND_SIGNALED);
	ibv_wr_rdma_write(qp, pair.mr[1]->rkey, (uintptr_t)pair.buffer[1]);
	ibv_wr_set_sge(qp, pair.mr[0]->lkey, (uintptr_t)pair.buffer[0], 8);
	ibv_wr_rdma_write(qp, pair.mr[1]->rkey, (uintptr_t)pair.buffer[1]);
	ibv_wr_set_inline_data(qp, long_bytes, sizeof(long_bytes));
	assert_int_equal(ibv_wr_complete(qp), EINVAL);
	expect_silence(pair.cq[0]);
	/* Too many. */
	assert_int_equal(ibv_query_qp(pair.qp[0], &attr, IBV_QP_CAP, &init), 0);
	qp = begin(&pair, 1, IBV_SEND_SIGNALED);
	for (uint32_t i = 0; i <= attr.cap.max_send_wr; i++) {
		ibv_wr_rdma_write(qp, pair.mr[1]->rkey, (uintptr_t)pair.buffer[1]);
		ibv_wr_set_sge(qp, pair.mr[0]->lkey, (uintptr_t)pair.buffer[0], 8);
	}
	assert_int_equal(ibv_wr_complete(qp), ENOMEM);
	expect_silence(pair.cq[0]);
	/* Aborted. */
	qp = begin(&pair, 1, IBV_SEND_SIGNALED);
	ibv_wr_rdma_write(qp, pair.mr[1]->rkey, (uintptr_t)pair.buffer[1]);
	ibv_wr_set_sge(qp, pair.mr[0]->lkey, (uintptr_t)pair.buffer[0], 8);
	ibv_wr_abort(qp);
	expect_silence(pair.cq[0]);
	/* And then all is well. */
	qp = begin(&pair, 2, IBV_SEND_SIGNALED);
	ibv_wr_rdma_write(qp, pair.mr[1]->rkey, (uintptr_t)pair.buffer[1]);
	ibv_wr_set_sge(qp, pair.mr[0]->lkey, (uintptr_t)pair.buffer[0], 8);
	assert_int_equal(ibv_wr_complete(qp), 0);
	expect_completion(pair.cq[0], 2, IBV_WC_RDMA_WRITE);
	pair_close(&pair);
}

static void what_cannot_be_built_is_not_offered(void **state)
{
	struct ibv_cq *cq = ibv_create_cq(world.context, 4, NULL, NULL, 0);
	static const struct { enum ibv_qp_type type; uint64_t ops; } impossible[] = {
		{IBV_QPT_RC, IBV_QP_EX_WITH_TSO}, {IBV_QPT_UC, IBV_QP_EX_WITH_ATOMIC_WRITE}, {IBV_QPT_RC, 1ull << 20},
		{IBV_QPT_UD, IBV_QP_EX_WITH_RDMA_WRITE}, {IBV_QPT_UD, IBV_QP_EX_WITH_RDMA_READ},
		{IBV_QPT_XRC_SEND, IBV_QP_EX_WITH_ATOMIC_WRITE}, {IBV_QPT_UD, IBV_QP_EX_WITH_ATOMIC_WRITE},
		{IBV_QPT_UC, IBV_QP_EX_WITH_RDMA_READ}, {IBV_QPT_UC, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD},
	};
	struct ibv_qp_init_attr_ex attr;

	(void)state;
	for (size_t i = 0; i < sizeof(impossible) / sizeof(impossible[0]); i++) {
		attr = (struct ibv_qp_init_attr_ex){
			.send_cq = cq, .recv_cq = cq, .qp_type = impossible[i].type, .pd = world.pd,
			.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
			.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .send_ops_flags = impossible[i].ops,
		};
		assert_null(ibv_create_qp_ex(world.context, &attr));
		assert_int_equal(errno, EOPNOTSUPP);
	}
	attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
	attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
	attr.create_flags = IBV_QP_CREATE_SCATTER_FCS;
	assert_null(ibv_create_qp_ex(world.context, &attr));
	assert_int_equal(errno, EOPNOTSUPP);
	attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_RX_HASH;
	assert_null(ibv_create_qp_ex(world.context, &attr));
	assert_int_equal(errno, EOPNOTSUPP);
	attr.comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	assert_null(ibv_create_qp_ex(world.context, &attr));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

/* ibv_wr_post(3) keeps other senders out between ibv_wr_start and ibv_wr_complete, and nothing else: the thread may post receives
 * and poll, and both make progress. */
static void a_list_under_construction_locks_senders_only(void **state)
{
	const struct pair_options options = {.send_ops = RC_OPS};
	struct pair pair;
	struct ibv_qp_ex *qp;

	(void)state;
	pair_open(&pair, &world, &options);
	fill_pattern(pair.buffer[0], 100, 3);
	fill_pattern(pair.buffer[1], 100, 4);
	pair_receive(&pair, 1, 20, 4096, 4096);

	/* Something to poll for. */
	qp = begin(&pair, 1, IBV_SEND_SIGNALED);
	ibv_wr_send(qp);
	ibv_wr_set_sge(qp, pair.mr[0]->lkey, (uintptr_t)pair.buffer[0], 100);
	assert_int_equal(ibv_wr_complete(qp), 0);

	qp = begin(&pair, 2, IBV_SEND_SIGNALED);
	pair_receive(&pair, 0, 10, 4096, 4096);
	ibv_wr_rdma_write(qp, pair.mr[1]->rkey, (uintptr_t)pair.buffer[1] + 8192);
	expect_completion(pair.cq[0], 1, IBV_WC_SEND);
	expect_completion(pair.cq[1], 20, IBV_WC_RECV);
	ibv_wr_set_sge(qp, pair.mr[0]->lkey, (uintptr_t)pair.buffer[0], 100);
	/* The receive that was posted meanwhile takes a message meanwhile. */
	{
		struct ibv_sge sge;
		struct ibv_send_wr wr = pair_request(&pair, 1, IBV_WR_SEND, &sge, 0, 100);

		wr.wr_id = 30;
		pair_post(&pair, 1, &wr);
	}
	expect_completion(pair.cq[0], 10, IBV_WC_RECV);
	expect_completion(pair.cq[1], 30, IBV_WC_SEND);
	assert_int_equal(ibv_wr_complete(qp), 0);
	expect_completion(pair.cq[0], 2, IBV_WC_RDMA_WRITE);
	assert_true(has_pattern(pair.buffer[1] + 8192, 100, 3));
	assert_true(has_pattern(pair.buffer[0] + 4096, 100, 4));
	pair_close(&pair);
}

enum { LISTS = 2000, PER_LIST = 3, AHEAD = 12 };

static uint32_t polled;                  /* atomic, of both threads' together */

/* Two threads that stay so close to what was polled overrun neither queue. */
static void wait_for_room(uint32_t posted)
{
	while (2 * posted > __atomic_load_n(&polled, __ATOMIC_ACQUIRE) + AHEAD)
		sched_yield();
}

static void *send_lists(void *argument)
{
	struct pair *pair = argument;
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(pair->qp[0]);

	for (unsigned i = 0; i < LISTS; i++) {
		wait_for_room(i);
		ibv_wr_start(qp);
		for (unsigned k = 0; k < PER_LIST; k++) {
			qp->wr_id = 1000;
			qp->wr_flags = k + 1 == PER_LIST ? IBV_SEND_SIGNALED : 0;
			ibv_wr_rdma_write(qp, pair->mr[1]->rkey, (uintptr_t)pair->buffer[1]);
			ibv_wr_set_sge(qp, pair->mr[0]->lkey, (uintptr_t)pair->buffer[0], 64);
		}
		if (ibv_wr_complete(qp) != 0)
			return (void *)1;
	}
	return NULL;
}

static void *send_singly(void *argument)
{
	struct pair *pair = argument;

	for (unsigned i = 0; i < LISTS; i++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr = pair_request(pair, 0, IBV_WR_RDMA_WRITE, &sge, 0, 64), *bad;

		wait_for_room(i);
		wr.wr_id = 1;
		wr.send_flags = IBV_SEND_SIGNALED;
		if (ibv_post_send(pair->qp[0], &wr, &bad) != 0)
			return (void *)1;
	}
	return NULL;
}

/* Two threads, each by its own kind of call, and a third that polls: every list is posted whole. */
static void builders_and_posters_take_turns(void **state)
{
	const struct pair_options options = {.send_ops = RC_OPS};
	uint64_t sum = 0;
	struct pair pair;
	pthread_t thread[2];
	void *result;

	(void)state;
	pair_open(&pair, &world, &options);
	assert_int_equal(pthread_create(&thread[0], NULL, send_lists, &pair), 0);
	assert_int_equal(pthread_create(&thread[1], NULL, send_singly, &pair), 0);
	for (unsigned i = 0; i < 2 * LISTS; i++) {
		struct ibv_wc wc = wait_completion(pair.cq[0]);

		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		sum += wc.wr_id;
		__atomic_fetch_add(&polled, 1, __ATOMIC_RELEASE);
	}
	assert_int_equal(sum, LISTS * 1001);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(pthread_join(thread[i], &result), 0);
		assert_null(result);
	}
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_operation_works),
		cmocka_unit_test(eight_bytes_are_written_at_once),
		cmocka_unit_test(windows_are_bound_and_invalidated),
		cmocka_unit_test(datagrams_take_their_address),
		cmocka_unit_test(errors_take_the_whole_list_back),
		cmocka_unit_test(what_cannot_be_built_is_not_offered),
		cmocka_unit_test(a_list_under_construction_locks_senders_only),
		cmocka_unit_test(builders_and_posters_take_turns),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, open_world, close_world);
}
