/* SPDX-License-Identifier: MIT
 *
 * Shared receive queues.
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

enum { USERS = 5 };

static struct ibv_srq *create(uint32_t max_wr, uint32_t max_sge)
{
	struct ibv_srq_init_attr attr = {.srq_context = &world, .attr = {.max_wr = max_wr, .max_sge = max_sge}};

	return ibv_create_srq(world.pd, &attr);
}

static void post(struct ibv_srq *srq, uint64_t wr_id, uint8_t *buffer, uint32_t length, uint32_t lkey)
{
	struct ibv_sge sge = {(uintptr_t)buffer, length, lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), 0);
}

static void many_draw_from_one(void **state)
{
	struct ibv_srq *srq = create(64, 1);
	const struct pair_options options = {.srq = srq};
	struct pair pair[USERS];
	static uint8_t pool[64 * 256];
	struct ibv_mr *mr = ibv_reg_mr(world.pd, pool, sizeof(pool), IBV_ACCESS_LOCAL_WRITE);
	bool used[64] = {false};

	(void)state;
	assert_ptr_equal(srq->srq_context, &world);
	for (int i = 0; i < USERS; i++)
		pair_open(&pair[i], &world, &options);
	assert_int_equal(ibv_destroy_srq(srq), EBUSY);
	for (uint64_t i = 0; i < 50; i++)
		post(srq, i, pool + i * 256, 256, mr->lkey);
	for (int round = 0; round < 10; round++) {
		for (int i = 0; i < USERS; i++) {
			struct ibv_sge sge;
			struct ibv_send_wr wr = pair_request(&pair[i], 0, IBV_WR_SEND, &sge, 0, 200);
			struct ibv_wc wc;

			fill_pattern(pair[i].buffer[0], 200, (uint32_t)(round * 10 + i));
			pair_post(&pair[i], 0, &wr);
			wc = wait_completion(pair[i].cq[1]);
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			assert_int_equal(wc.qp_num, pair[i].qp[1]->qp_num);
			assert_int_equal(wc.byte_len, 200);
			assert_false(used[wc.wr_id]);
			used[wc.wr_id] = true;
			assert_true(has_pattern(pool + wc.wr_id * 256, 200, (uint32_t)(round * 10 + i)));
			expect_completion(pair[i].cq[0], wr.wr_id, IBV_WC_SEND);
		}
	}
	for (int i = 0; i < USERS; i++)
		pair_close(&pair[i]);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

/* A shared queue has a protection domain of its own, and the regions of its receives belong to that one. */
static void receives_belong_to_the_queues_domain(void **state)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
	static const uint32_t lengths[] = {8, 600, 3000};
	struct ibv_pd *other = ibv_alloc_pd(world.context);
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 16, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(other, &attr);
	static uint8_t pool[8192];
	struct ibv_mr *mr = ibv_reg_mr(other, pool, sizeof(pool), IBV_ACCESS_LOCAL_WRITE);

	(void)state;
	for (unsigned i = 0; i < 9; i++) {
		const struct pair_options options = {.type = types[i / 3], .srq = srq};
		const uint32_t length = lengths[i % 3], before = types[i / 3] == IBV_QPT_UD ? 40 : 0;
		struct pair pair;
		struct ibv_sge sge;
		struct ibv_send_wr wr;

		pair_open(&pair, &world, &options);
		fill_pattern(pair.buffer[0], length, i + 1);
		post(srq, i, pool, sizeof(pool), mr->lkey);
		wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, length);
		pair_post(&pair, 0, &wr);
		assert_int_equal(expect_completion(pair.cq[1], i, IBV_WC_RECV).byte_len, before + length);
		assert_true(has_pattern(pool + before, length, i + 1));
		expect_completion(pair.cq[0], wr.wr_id, IBV_WC_SEND);
		/* A region of the queue pair's domain is not one of theirs. */
		post(srq, 100 + i, pair.buffer[1], 8192, pair.mr[1]->lkey);
		pair_post(&pair, 0, &wr);
		expect_status(pair.cq[1], 100 + i, IBV_WC_LOC_PROT_ERR);
		expect_event(world.context, IBV_EVENT_QP_LAST_WQE_REACHED);
		pair_close(&pair);
	}
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(other), 0);
}

static void limits_are_told_once(void **state)
{
	struct ibv_srq *srq = create(16, 1);
	const struct pair_options options = {.srq = srq};
	struct ibv_srq_attr attr = {.srq_limit = 3};
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	pair_open(&pair, &world, &options);
	for (uint64_t i = 0; i < 5; i++)
		post(srq, i, pair.buffer[1], 64, pair.mr[1]->lkey);
	assert_int_equal(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
	assert_int_equal(ibv_query_srq(srq, &attr), 0);
	assert_int_equal(attr.srq_limit, 3);
	for (int i = 0; i < 3; i++) {
		wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, 8);
		pair_post(&pair, 0, &wr);
		expect_completion(pair.cq[0], wr.wr_id, IBV_WC_SEND);
	}
	assert_ptr_equal(expect_event(world.context, IBV_EVENT_SRQ_LIMIT_REACHED).element.srq, srq);
	assert_int_equal(ibv_query_srq(srq, &attr), 0);
	assert_int_equal(attr.srq_limit, 0);
	pair_close(&pair);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void size_and_resizing(void **state)
{
	struct ibv_srq *srq = create(4, 2);
	struct ibv_srq_attr attr;
	struct ibv_sge sge[3] = {{0}};
	struct ibv_recv_wr wr = {.sg_list = sge, .num_sge = 1}, *bad;
	uint32_t posted = 0, room;

	(void)state;
	assert_int_equal(ibv_query_srq(srq, &attr), 0);
	assert_true(attr.max_wr >= 4 && attr.max_sge >= 2);
	room = attr.max_wr;
	while (ibv_post_srq_recv(srq, &wr, &bad) == 0)
		posted++;
	assert_int_equal(posted, room);
	assert_ptr_equal(bad, &wr);
	assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), ENOMEM);
	attr.max_wr = 1;
	assert_int_equal(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), EINVAL);
	attr.max_wr = 100;
	assert_int_equal(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), 0);
	assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), 0);
	wr.num_sge = (int)attr.max_sge + 30;
	assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), EINVAL);
	assert_int_equal(ibv_modify_srq(srq, &attr, 1 << 7), EINVAL);
	assert_int_equal(ibv_modify_srq(srq, NULL, IBV_SRQ_MAX_WR), EINVAL);
	assert_int_equal(ibv_query_srq(srq, NULL), EINVAL);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void the_last_request_is_announced_when_a_user_fails(void **state)
{
	struct ibv_srq *srq = create(16, 1);
	const struct pair_options options = {.srq = srq};
	struct pair pair;
	struct ibv_recv_wr wr = {0}, *bad;

	(void)state;
	pair_open(&pair, &world, &options);
	post(srq, 1, pair.buffer[1], 64, pair.mr[1]->lkey);
	/* A user of a shared queue has none of its own. */
	assert_int_equal(ibv_post_recv(pair.qp[1], &wr, &bad), EINVAL);
	to_error(pair.qp[1]);
	assert_ptr_equal(expect_event(world.context, IBV_EVENT_QP_LAST_WQE_REACHED).element.qp, pair.qp[1]);
	expect_silence(pair.cq[1]);      /* what is in the shared queue is not this user's to flush */
	pair_close(&pair);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void other_kinds_are_refused(void **state)
{
	struct ibv_srq_init_attr_ex attr = {.attr = {.max_wr = 1, .max_sge = 1}, .pd = world.pd,
					    .comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE};
	struct ibv_srq *srq;
	uint32_t number;

	(void)state;
	attr.srq_type = IBV_SRQT_TM;
	assert_null(ibv_create_srq_ex(world.context, &attr));
	assert_int_equal(errno, EOPNOTSUPP);
	attr.srq_type = IBV_SRQT_BASIC;
	assert_non_null(srq = ibv_create_srq_ex(world.context, &attr));
	assert_int_equal(ibv_get_srq_num(srq, &number), EOPNOTSUPP);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	attr.comp_mask |= IBV_SRQ_INIT_ATTR_CQ;
	assert_non_null(srq = ibv_create_srq_ex(world.context, &attr));
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_draw_from_one),
		cmocka_unit_test(receives_belong_to_the_queues_domain),
		cmocka_unit_test(limits_are_told_once),
		cmocka_unit_test(size_and_resizing),
		cmocka_unit_test(the_last_request_is_announced_when_a_user_fails),
		cmocka_unit_test(other_kinds_are_refused),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, open_world, close_world);
}
