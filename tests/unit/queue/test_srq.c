/* SPDX-License-Identifier: MIT
 *
 * Receive rings and shared receive queues: order, room, the limit event, resizing.
 */
#include "fixture.h"
#include "profiles/limits.h"

static struct vb_srq srq;
static struct vb_pd pd;

static int set_up(void **state)
{
	struct ibv_srq_attr attr = {.max_wr = 6, .max_sge = 2, .srq_limit = 99};

	(void)state;
	memset(&notes, 0, sizeof(notes));
	assert_int_equal(vb_srq_init(&srq, &fixture_host, NULL, &pd, &attr), 0);
	assert_int_equal(attr.max_wr, 6);
	assert_int_equal(attr.max_sge, 2);
	assert_int_equal(pd.users, 1);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	vb_srq_fini(&srq);
	assert_int_equal(pd.users, 0);
	return 0;
}

static int post_shared(uint64_t wr_id, int elements)
{
	struct ibv_sge list[3] = {{1, 10, 100}, {2, 20, 200}, {3, 30, 300}};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = list, .num_sge = elements}, *bad = NULL;
	int error = vb_srq_post(&srq, &wr, &bad);

	assert_ptr_equal(bad, error ? &wr : NULL);
	return error;
}

static void post_many(uint64_t first, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		assert_int_equal(post_shared(first + i, 1), 0);
}

static void assert_takes(uint64_t wr_id)
{
	struct vb_taken_receive taken;

	assert_true(vb_srq_take(&srq, &taken));
	assert_int_equal(taken.wr_id, wr_id);
}

static void receives_are_taken_in_order(void **state)
{
	struct vb_taken_receive taken;

	(void)state;
	assert_false(vb_srq_take(&srq, &taken));
	assert_int_equal(post_shared(1, 2), 0);
	assert_int_equal(post_shared(2, 0), 0);
	assert_true(vb_srq_take(&srq, &taken));
	assert_int_equal(taken.wr_id, 1);
	assert_int_equal(taken.length, 30);
	assert_int_equal(taken.sge_count, 2);
	assert_int_equal(taken.list[1].lkey, 200);
	assert_true(vb_srq_take(&srq, &taken));
	assert_int_equal(taken.wr_id, 2);
	assert_int_equal(taken.length, 0);
	assert_int_equal(taken.sge_count, 0);
	for (uint64_t i = 0; i < 50; i++) {
		post_many(10 * i, 4);
		for (uint64_t j = 0; j < 4; j++)
			assert_takes(10 * i + j);
	}
}

static void bad_work_is_refused_where_it_stands(void **state)
{
	struct ibv_recv_wr wr[3] = {{.wr_id = 1}, {.wr_id = 2, .num_sge = 3}, {.wr_id = 3}}, *bad = NULL;

	(void)state;
	wr[0].next = &wr[1];
	wr[1].next = &wr[2];
	assert_int_equal(vb_srq_post(&srq, wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr[1]);
	assert_takes(1);
	assert_int_equal(post_shared(1, -1), EINVAL);
	post_many(0, 6);
	assert_int_equal(post_shared(7, 1), ENOMEM);
}

static void the_limit_fires_once(void **state)
{
	struct ibv_srq_attr attr = {.srq_limit = 3}, back;

	(void)state;
	post_many(0, 5);
	assert_int_equal(vb_srq_modify(&srq, &attr, IBV_SRQ_LIMIT), 0);
	vb_srq_query(&srq, &back);
	assert_int_equal(back.srq_limit, 3);
	assert_takes(0);
	assert_takes(1);
	assert_int_equal(notes.events, 0); /* three are left: not below */
	assert_takes(2);
	assert_int_equal(notes.events, 1);
	assert_int_equal(notes.event[0], IBV_EVENT_SRQ_LIMIT_REACHED);
	vb_srq_query(&srq, &back);
	assert_int_equal(back.srq_limit, 0);
	assert_takes(3);
	assert_int_equal(notes.events, 1);
	assert_int_equal(vb_srq_modify(&srq, &attr, IBV_SRQ_LIMIT), 0);
	assert_takes(4);
	assert_int_equal(notes.events, 2);
}

static void resizing_keeps_what_waits(void **state)
{
	struct ibv_srq_attr attr = {.max_wr = 3}, back;

	(void)state;
	post_many(0, 4);
	assert_takes(0);
	post_many(4, 1);
	assert_int_equal(vb_srq_modify(&srq, &attr, IBV_SRQ_MAX_WR), -EINVAL);
	attr.max_wr = 100;
	assert_int_equal(vb_srq_modify(&srq, &attr, IBV_SRQ_MAX_WR), 0);
	vb_srq_query(&srq, &back);
	assert_int_equal(back.max_wr, 100);
	post_many(5, 96);
	assert_int_equal(post_shared(0, 1), ENOMEM);
	for (uint64_t i = 1; i <= 100; i++)
		assert_takes(i);
	attr.max_wr = 1;
	assert_int_equal(vb_srq_modify(&srq, &attr, IBV_SRQ_MAX_WR), 0);
	post_many(7, 1);
	assert_int_equal(post_shared(8, 1), ENOMEM);
	assert_takes(7);
}

static void modify_is_all_or_nothing(void **state)
{
	struct ibv_srq_attr attr = {.max_wr = 10, .srq_limit = 11}, back;

	(void)state;
	assert_int_equal(vb_srq_modify(&srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), -EINVAL);
	attr.srq_limit = 7;
	assert_int_equal(vb_srq_modify(&srq, &attr, IBV_SRQ_LIMIT), -EINVAL);
	attr.max_wr = VB_MAX_SRQ_WR + 1;
	assert_int_equal(vb_srq_modify(&srq, &attr, IBV_SRQ_MAX_WR), -EINVAL);
	attr.max_wr = 0;
	assert_int_equal(vb_srq_modify(&srq, &attr, IBV_SRQ_MAX_WR), -EINVAL);
	assert_int_equal(vb_srq_modify(&srq, &attr, 1 << 5), -EINVAL);
	vb_srq_query(&srq, &back);
	assert_int_equal(back.max_wr, 6);
	assert_int_equal(back.srq_limit, 0);
	attr.max_wr = 10;
	attr.srq_limit = 10;
	assert_int_equal(vb_srq_modify(&srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), 0);
	/* A limit that would not fit any more refuses the shrink. */
	attr.max_wr = 9;
	assert_int_equal(vb_srq_modify(&srq, &attr, IBV_SRQ_MAX_WR), -EINVAL);
	assert_int_equal(vb_srq_modify(&srq, &attr, 0), 0);
}

static void sizes_are_checked(void **state)
{
	struct vb_srq other;
	struct ibv_srq_attr attr = {.max_wr = 0, .max_sge = 1};

	(void)state;
	assert_int_equal(vb_srq_init(&other, &fixture_host, NULL, &pd, &attr), -EINVAL);
	attr.max_wr = VB_MAX_SRQ_WR + 1;
	assert_int_equal(vb_srq_init(&other, &fixture_host, NULL, &pd, &attr), -EINVAL);
	attr.max_wr = 1;
	attr.max_sge = VB_MAX_SGE + 1;
	assert_int_equal(vb_srq_init(&other, &fixture_host, NULL, &pd, &attr), -EINVAL);
	attr.max_sge = 1;
	assert_int_equal(vb_srq_init(&other, &fixture_host, NULL, NULL, &attr), -EINVAL);
	assert_int_equal(pd.users, 1);
}

int main(void)
{
#define SRQ_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		SRQ_TEST(receives_are_taken_in_order),
		SRQ_TEST(bad_work_is_refused_where_it_stands),
		SRQ_TEST(the_limit_fires_once),
		SRQ_TEST(resizing_keeps_what_waits),
		SRQ_TEST(modify_is_all_or_nothing),
		SRQ_TEST(sizes_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
