/* SPDX-License-Identifier: MIT
 *
 * Work queues: their states, what is posted in each, and what becomes of it.
 */
#include "fixture.h"

enum { NUMBER = 0x2345, DEPTH = 4 };

static struct vb_pd pd;
static struct vb_cq cq;
static struct vb_wq wq;

static void open_wq(uint32_t capacity)
{
	const struct vb_wq_config config = {.pd = &pd, .cq = &cq, .max_wr = DEPTH, .max_sge = 2, .number = NUMBER};

	memset(&notes, 0, sizeof(notes));
	assert_int_equal(vb_cq_init(&cq, &fixture_host, NULL, capacity), 0);
	assert_int_equal(vb_wq_init(&wq, &fixture_host, NULL, &config), 0);
	assert_int_equal(pd.users, 1);
	assert_int_equal(cq.users, 1);
}

static int set_up(void **state)
{
	(void)state;
	open_wq(16);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	vb_wq_fini(&wq);
	assert_int_equal(pd.users, 0);
	assert_int_equal(cq.users, 0);
	vb_cq_fini(&cq);
	return 0;
}

static int post_with(uint64_t wr_id, int elements)
{
	struct ibv_sge list[3] = {{1, 10, 100}, {2, 20, 200}, {3, 30, 300}};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = list, .num_sge = elements}, *bad = NULL;
	int error = vb_wq_post(&wq, &wr, &bad, FIXTURE_NOW);

	assert_ptr_equal(bad, error ? &wr : NULL);
	return error;
}

static void assert_flushed(uint64_t wr_id)
{
	struct ibv_wc wc;

	assert_int_equal(vb_cq_poll(&cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(wc.qp_num, NUMBER);
}

static void receives_are_posted_in_rdy(void **state)
{
	struct vb_taken_receive taken;

	(void)state;
	assert_int_equal(vb_wq_state(&wq), IBV_WQS_RESET);
	assert_int_equal(post_with(1, 1), EINVAL);
	assert_int_equal(vb_wq_modify(&wq, IBV_WQS_RDY, FIXTURE_NOW), 0);
	assert_int_equal(post_with(1, 3), EINVAL);
	for (uint64_t i = 1; i <= DEPTH; i++)
		assert_int_equal(post_with(i, 2), 0);
	assert_int_equal(post_with(5, 1), ENOMEM);
	assert_true(vb_srq_take(&wq.receives, &taken));
	assert_int_equal(taken.wr_id, 1);
	assert_int_equal(taken.length, 30);
	assert_true(vb_cq_looks_empty(&cq));
}

static void errors_flush(void **state)
{
	(void)state;
	assert_int_equal(vb_wq_modify(&wq, IBV_WQS_RDY, FIXTURE_NOW), 0);
	assert_int_equal(post_with(1, 1), 0);
	assert_int_equal(post_with(2, 1), 0);
	assert_int_equal(vb_wq_modify(&wq, IBV_WQS_ERR, FIXTURE_NOW), 0);
	assert_flushed(1);
	assert_flushed(2);
	assert_int_equal(post_with(3, 1), 0);
	assert_flushed(3);
	assert_true(vb_cq_looks_empty(&cq));
	/* The program asked for it: no event. */
	assert_int_equal(notes.events, 0);
}

static void states_lead_where_they_may(void **state)
{
	static const bool may[3][3] = {
		[IBV_WQS_RESET] = {[IBV_WQS_RESET] = true, [IBV_WQS_RDY] = true},
		[IBV_WQS_RDY] = {[IBV_WQS_RESET] = true, [IBV_WQS_RDY] = true, [IBV_WQS_ERR] = true},
		[IBV_WQS_ERR] = {[IBV_WQS_RESET] = true, [IBV_WQS_ERR] = true},
	};

	(void)state;
	for (unsigned from = IBV_WQS_RESET; from <= IBV_WQS_ERR; from++) {
		for (unsigned to = IBV_WQS_RESET; to <= IBV_WQS_ERR; to++) {
			assert_int_equal(vb_wq_modify(&wq, IBV_WQS_RESET, FIXTURE_NOW), 0);
			for (unsigned at = IBV_WQS_RDY; at <= from; at++)
				assert_int_equal(vb_wq_modify(&wq, at, FIXTURE_NOW), 0);
			assert_int_equal(vb_wq_modify(&wq, to, FIXTURE_NOW), may[from][to] ? 0 : -EINVAL);
			assert_int_equal(vb_wq_state(&wq), may[from][to] ? to : from);
		}
	}
	assert_int_equal(vb_wq_modify(&wq, IBV_WQS_UNKNOWN, FIXTURE_NOW), -EINVAL);
}

static void reset_forgets(void **state)
{
	struct vb_taken_receive taken;

	(void)state;
	assert_int_equal(vb_wq_modify(&wq, IBV_WQS_RDY, FIXTURE_NOW), 0);
	assert_int_equal(post_with(1, 1), 0);
	assert_int_equal(vb_wq_modify(&wq, IBV_WQS_ERR, FIXTURE_NOW), 0);
	assert_int_equal(vb_wq_modify(&wq, IBV_WQS_RESET, FIXTURE_NOW), 0);
	vb_wq_discard(&wq);
	assert_true(vb_cq_looks_empty(&cq));
	assert_int_equal(vb_wq_modify(&wq, IBV_WQS_RDY, FIXTURE_NOW), 0);
	assert_int_equal(post_with(2, 1), 0);
	assert_int_equal(vb_wq_modify(&wq, IBV_WQS_RESET, FIXTURE_NOW), 0);
	assert_int_equal(vb_wq_modify(&wq, IBV_WQS_RDY, FIXTURE_NOW), 0);
	assert_false(vb_srq_take(&wq.receives, &taken));
}

static void failing_is_told_once(void **state)
{
	(void)state;
	vb_wq_fail(&wq, FIXTURE_NOW);
	assert_int_equal(notes.events, 0);
	assert_int_equal(vb_wq_modify(&wq, IBV_WQS_RDY, FIXTURE_NOW), 0);
	assert_int_equal(post_with(1, 1), 0);
	vb_wq_fail(&wq, FIXTURE_NOW);
	vb_wq_fail(&wq, FIXTURE_NOW);
	assert_int_equal(notes.events, 1);
	assert_int_equal(notes.event[0], IBV_EVENT_WQ_FATAL);
	assert_int_equal(vb_wq_state(&wq), IBV_WQS_ERR);
	assert_flushed(1);
}

static void what_cannot_be(void **state)
{
	struct vb_wq other;
	struct vb_wq_config config = {.pd = &pd, .cq = &cq, .max_wr = 1, .number = 1};

	(void)state;
	config.max_wr = 0;
	assert_int_equal(vb_wq_init(&other, &fixture_host, NULL, &config), -EINVAL);
	config.max_wr = fixture_host.profile->limits.qp_wr + 1;
	assert_int_equal(vb_wq_init(&other, &fixture_host, NULL, &config), -EINVAL);
	config.max_wr = 1;
	config.max_sge = fixture_host.profile->limits.recv_sge + 1;
	assert_int_equal(vb_wq_init(&other, &fixture_host, NULL, &config), -EINVAL);
	config.max_sge = 0;
	config.cq = NULL;
	assert_int_equal(vb_wq_init(&other, &fixture_host, NULL, &config), -EINVAL);
	assert_int_equal(pd.users, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(receives_are_posted_in_rdy, set_up, tear_down),
		cmocka_unit_test_setup_teardown(errors_flush, set_up, tear_down),
		cmocka_unit_test_setup_teardown(states_lead_where_they_may, set_up, tear_down),
		cmocka_unit_test_setup_teardown(reset_forgets, set_up, tear_down),
		cmocka_unit_test_setup_teardown(failing_is_told_once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_cannot_be, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
