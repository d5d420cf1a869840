/* SPDX-License-Identifier: MIT
 *
 * ibv_modify_qp on real queue pairs: every transition × masks × type, the ranges of every attribute, nothing changed
 * by a refusal, and what RESET, SQD, SQE and ERR do.
 */
#include "expected_transitions.h"
#include "fixture.h"
#include "profiles/limits.h"

static struct world w;

static int modify(struct ibv_qp_attr *attr, int mask)
{
	return vb_qp_modify(w.qp, attr, mask, &fixture_path, IBV_MTU_4096, FIXTURE_NOW);
}

/* What the rules of this test say modify should answer, given good values. */
static int expected_result(const struct answer *answer, int attributes)
{
	if (!answer->valid || (answer->required & ~attributes) || (attributes & ~(answer->required | answer->optional)))
		return -EINVAL;
	return attributes & IBV_QP_ALT_PATH ? -EOPNOTSUPP : 0;
}

static void try_mask(unsigned from, unsigned to, const struct answer *answer, int attributes)
{
	struct ibv_qp_attr attr = good_attributes(), before;
	unsigned told;
	int result = expected_result(answer, attributes);

	w.qp->state = (enum ibv_qp_state)from;
	before = w.qp->attr;
	told = notes.modified;
	attr.qp_state = (enum ibv_qp_state)to;
	attr.cur_qp_state = (enum ibv_qp_state)from;
	assert_int_equal(modify(&attr, IBV_QP_STATE | attributes), result);
	if (result == 0) {
		assert_int_equal(w.qp->state, to);
		/* Told once, except of ERR in ERR, which is nothing new. */
		assert_int_equal(notes.modified, told + !(from == IBV_QPS_ERR && to == IBV_QPS_ERR));
	} else {
		assert_int_equal(w.qp->state, from);
		assert_int_equal(notes.modified, told);
		assert_memory_equal(&w.qp->attr, &before, sizeof(before));
	}
}

static void every_transition_with_every_deviation(void **state)
{
	(void)state;
	for (unsigned t = 0; t < 3; t++) {
		world_open(&w, types[t].type, 16, false, false);
		for (unsigned from = 0; from <= 6; from++)
			for (unsigned to = 0; to <= 6; to++) {
				struct answer answer = look_up(types[t].word, from, to);
				int bases[2] = {answer.required, answer.required | answer.optional};

				for (unsigned b = 0; b < 2; b++) {
					try_mask(from, to, &answer, bases[b]);
					try_mask(from, to, &answer, bases[b] & ~IBV_QP_ALT_PATH);
					for (unsigned i = 1; i < BITS; i++)
						for (unsigned j = 1; j <= i; j++)
							try_mask(from, to, &answer,
								 bases[b] ^ words[i].bit ^ (i == j ? 0 : words[j].bit));
				}
			}
		w.qp->state = IBV_QPS_RESET;
		world_close(&w);
	}
}

/* Values one step outside their range, in a transition that takes the attribute. */
static void every_attribute_has_its_range(void **state)
{
	static const int all_init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	static const int all_rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	static const int all_rts = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				   IBV_QP_MAX_QP_RD_ATOMIC;
	struct ibv_qp_attr attr;

	(void)state;
#define TRY(to, mask, field, value, result)                    \
	do {                                                   \
		attr = good_attributes();                      \
		attr.qp_state = (to);                          \
		attr.field = (value);                          \
		assert_int_equal(modify(&attr, (mask)), result); \
	} while (0)
	world_open(&w, IBV_QPT_RC, 16, false, false);
	TRY(IBV_QPS_INIT, all_init, port_num, 0, -EINVAL);
	TRY(IBV_QPS_INIT, all_init, port_num, 2, -EINVAL);
	TRY(IBV_QPS_INIT, all_init, pkey_index, 1, -EINVAL);
	TRY(IBV_QPS_INIT, all_init, qp_access_flags, 1u << 12, -EINVAL);
	TRY(IBV_QPS_INIT, all_init, qp_access_flags, 1u << 31, -EINVAL);
	TRY((enum ibv_qp_state)7, all_init, port_num, 1, -EINVAL);
	TRY((enum ibv_qp_state)-1, all_init, port_num, 1, -EINVAL);
	assert_int_equal(w.qp->state, IBV_QPS_RESET);
	TRY(IBV_QPS_INIT, all_init, qp_access_flags, 0xff | IBV_ACCESS_RELAXED_ORDERING, 0);
	TRY(IBV_QPS_RTR, all_rtr, path_mtu, 0, -EINVAL);
	TRY(IBV_QPS_RTR, all_rtr, path_mtu, 6, -EINVAL);
	TRY(IBV_QPS_RTR, all_rtr, path_mtu, -1, -EINVAL);
	TRY(IBV_QPS_RTR, all_rtr, dest_qp_num, 1u << 24, -EINVAL);
	TRY(IBV_QPS_RTR, all_rtr, max_dest_rd_atomic, VB_MAX_RD_ATOMIC + 1, -EINVAL);
	TRY(IBV_QPS_RTR, all_rtr, min_rnr_timer, 32, -EINVAL);
	TRY(IBV_QPS_RTR, all_rtr, ah_attr.is_global, 0, -EINVAL);
	TRY(IBV_QPS_RTR, all_rtr, ah_attr.port_num, 2, -EINVAL);
	attr = good_attributes();
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(vb_qp_modify(w.qp, &attr, all_rtr, NULL, IBV_MTU_4096, 0), -EINVAL);
	assert_int_equal(vb_qp_modify(w.qp, &attr, all_rtr, &fixture_path, IBV_MTU_512, 0), -EINVAL);
	assert_int_equal(w.qp->state, IBV_QPS_INIT);
	attr.rq_psn = 0xabcdef12;
	assert_int_equal(vb_qp_modify(w.qp, &attr, all_rtr, &fixture_path, IBV_MTU_1024, 0), 0);
	assert_int_equal(w.qp->attr.rq_psn, 0xcdef12);
	assert_int_equal(w.qp->path_mtu, 1024);
	assert_int_equal(w.qp->path.source_port, 49152);
	TRY(IBV_QPS_RTS, all_rts, timeout, 32, -EINVAL);
	TRY(IBV_QPS_RTS, all_rts, retry_cnt, 8, -EINVAL);
	TRY(IBV_QPS_RTS, all_rts, rnr_retry, 8, -EINVAL);
	TRY(IBV_QPS_RTS, all_rts, max_rd_atomic, VB_MAX_RD_ATOMIC + 1, -EINVAL);
	TRY(IBV_QPS_RTS, all_rts | IBV_QP_CUR_STATE, cur_qp_state, IBV_QPS_INIT, -EINVAL);
	TRY(IBV_QPS_RTS, all_rts | IBV_QP_PATH_MIG_STATE, path_mig_state, IBV_MIG_REARM, -EOPNOTSUPP);
	TRY(IBV_QPS_RTS, all_rts | IBV_QP_CUR_STATE, cur_qp_state, IBV_QPS_RTR, 0);
	/* Without IBV_QP_STATE: attributes of the state it is in. */
	TRY(IBV_QPS_INIT, IBV_QP_MIN_RNR_TIMER, min_rnr_timer, 31, 0);
	assert_int_equal(w.qp->state, IBV_QPS_RTS);
	assert_int_equal(w.qp->attr.min_rnr_timer, 31);
	TRY(IBV_QPS_INIT, 0, port_num, 1, 0);
	world_close(&w);
}

static void query_gives_everything_back(void **state)
{
	struct ibv_qp_attr back, good = good_attributes();
	struct ibv_qp_init_attr init;

	(void)state;
	world_open(&w, IBV_QPT_RC, 16, false, true);
	bring_to(w.qp, IBV_QPS_RTS);
	vb_qp_query(w.qp, &back, &init);
	assert_int_equal(back.qp_state, IBV_QPS_RTS);
	assert_int_equal(back.cur_qp_state, IBV_QPS_RTS);
	assert_int_equal(back.path_mtu, good.path_mtu);
	assert_int_equal(back.rq_psn, good.rq_psn);
	assert_int_equal(back.sq_psn, good.sq_psn);
	assert_int_equal(back.dest_qp_num, good.dest_qp_num);
	assert_int_equal(back.qp_access_flags, good.qp_access_flags);
	assert_int_equal(back.ah_attr.sl, 3);
	assert_int_equal(back.max_rd_atomic, 4);
	assert_int_equal(back.max_dest_rd_atomic, 5);
	assert_int_equal(back.min_rnr_timer, 12);
	assert_int_equal(back.port_num, 1);
	assert_int_equal(back.timeout, 14);
	assert_int_equal(back.retry_cnt, 7);
	assert_int_equal(back.rnr_retry, 6);
	assert_int_equal(back.sq_draining, 0);
	assert_int_equal(back.cap.max_send_wr, 8);
	assert_int_equal(init.cap.max_recv_sge, 2);
	assert_int_equal(init.sq_sig_all, 1);
	assert_int_equal(init.qp_type, IBV_QPT_RC);
	world_close(&w);
}

static void reset_forgets_everything(void **state)
{
	struct ibv_qp_attr back;
	struct ibv_qp_init_attr init;
	struct vb_fault_record why = {.fault = VB_FAULT_RETRY_EXCEEDED};

	(void)state;
	world_open(&w, IBV_QPT_RC, 16, false, true);
	bring_to(w.qp, IBV_QPS_RTS);
	assert_int_equal(post_one(w.qp, IBV_WR_SEND, 1, 0), 0);
	assert_int_equal(post_receive(w.qp, 2), 0);
	vb_lock_take(&w.qp->lock);
	vb_qp_fail_send(w.qp, IBV_WC_RETRY_EXC_ERR, &why, 0);
	vb_lock_release(&w.qp->lock);
	assert_false(vb_cq_looks_empty(&w.send_cq));
	assert_false(vb_cq_looks_empty(&w.recv_cq));
	assert_int_equal(step(w.qp, IBV_QPS_RESET, 0), 0);
	assert_empty(&w.send_cq);
	assert_empty(&w.recv_cq);
	assert_int_equal(w.qp->fault.fault, VB_FAULT_NONE);
	vb_qp_query(w.qp, &back, &init);
	assert_int_equal(back.qp_state, IBV_QPS_RESET);
	assert_int_equal(back.dest_qp_num, 0);
	assert_int_equal(back.cap.max_send_wr, 8);
	/* Work that was still queued vanishes without a completion (IBA 10.3.1.1). */
	bring_to(w.qp, IBV_QPS_RTS);
	assert_int_equal(post_one(w.qp, IBV_WR_SEND, 1, IBV_SEND_SIGNALED), 0);
	assert_int_equal(post_receive(w.qp, 2), 0);
	assert_int_equal(step(w.qp, IBV_QPS_RESET, 0), 0);
	assert_int_equal(vb_send_queue_count(&w.qp->send), 0);
	assert_int_equal(vb_receive_queue_count(&w.qp->receive), 0);
	assert_empty(&w.send_cq);
	assert_empty(&w.recv_cq);
	/* And it can be used again. */
	bring_to(w.qp, IBV_QPS_RTS);
	assert_int_equal(post_one(w.qp, IBV_WR_SEND, 3, 0), 0);
	vb_lock_take(&w.qp->lock);
	vb_qp_complete_send(w.qp, IBV_WC_SUCCESS, VB_FAULT_NONE, 0);
	vb_lock_release(&w.qp->lock);
	assert_completion(&w.send_cq, 3, IBV_WC_SUCCESS, IBV_WC_SEND);
	world_close(&w);
}

static void draining_ends_with_an_event_if_asked_for(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};

	(void)state;
	for (int asked = 0; asked < 2; asked++) {
		world_open(&w, IBV_QPT_RC, 16, false, false);
		bring_to(w.qp, IBV_QPS_RTS);
		assert_int_equal(modify(&attr, IBV_QP_STATE | (asked ? IBV_QP_EN_SQD_ASYNC_NOTIFY : 0)), 0);
		assert_true(w.qp->draining);
		assert_int_equal(notes.modified_from, IBV_QPS_RTS);
		/* Work is queued, not refused. */
		assert_int_equal(post_one(w.qp, IBV_WR_SEND, 1, IBV_SEND_SIGNALED), 0);
		assert_int_equal(vb_send_queue_count(&w.qp->send), 1);
		vb_lock_take(&w.qp->lock);
		vb_qp_drained(w.qp);
		vb_qp_drained(w.qp);
		vb_lock_release(&w.qp->lock);
		assert_false(w.qp->draining);
		assert_int_equal(notes.events, asked);
		if (asked)
			assert_int_equal(notes.event[0], IBV_EVENT_SQ_DRAINED);
		/* Changing attributes in SQD does not start another drain. */
		assert_int_equal(step(w.qp, IBV_QPS_SQD, IBV_QP_TIMEOUT), 0);
		assert_false(w.qp->draining);
		assert_int_equal(step(w.qp, IBV_QPS_RTS, 0), 0);
		assert_int_equal(vb_send_queue_count(&w.qp->send), 1);
		world_close(&w);
	}
}

static void datagrams_take_the_mtu_of_the_port(void **state)
{
	(void)state;
	world_open(&w, IBV_QPT_UD, 16, false, false);
	bring_to(w.qp, IBV_QPS_RTS);
	assert_int_equal(w.qp->path_mtu, 4096);
	assert_int_equal(w.qp->attr.qkey, 0x11111111);
	world_close(&w);
}

static void error_flushes_both_queues(void **state)
{
	(void)state;
	world_open(&w, IBV_QPT_RC, 16, false, false);
	bring_to(w.qp, IBV_QPS_RTS);
	assert_int_equal(post_one(w.qp, IBV_WR_SEND, 1, 0), 0);
	assert_int_equal(post_one(w.qp, IBV_WR_RDMA_READ, 2, 0), 0);
	assert_int_equal(post_receive(w.qp, 3), 0);
	assert_int_equal(step(w.qp, IBV_QPS_ERR, 0), 0);
	assert_int_equal(notes.modified_to, IBV_QPS_ERR);
	assert_int_equal(notes.sends_when_modified, 2); /* the engine is told before the flush */
	assert_completion(&w.send_cq, 1, IBV_WC_WR_FLUSH_ERR, IBV_WC_SEND);
	assert_completion(&w.send_cq, 2, IBV_WC_WR_FLUSH_ERR, IBV_WC_RDMA_READ);
	assert_completion(&w.recv_cq, 3, IBV_WC_WR_FLUSH_ERR, IBV_WC_RECV);
	assert_int_equal(notes.events, 0);
	assert_int_equal(step(w.qp, IBV_QPS_ERR, 0), 0);
	assert_int_equal(step(w.qp, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), -EINVAL);
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_transition_with_every_deviation),
		cmocka_unit_test(every_attribute_has_its_range),
		cmocka_unit_test(query_gives_everything_back),
		cmocka_unit_test(reset_forgets_everything),
		cmocka_unit_test(draining_ends_with_an_event_if_asked_for),
		cmocka_unit_test(datagrams_take_the_mtu_of_the_port),
		cmocka_unit_test(error_flushes_both_queues),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
