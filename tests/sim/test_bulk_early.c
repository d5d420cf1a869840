/* SPDX-License-Identifier: MIT
 *
 * Responses that came ahead of a missing one are taken many at a time (roce/bulk_early.c): to their places, once, and nowhere else.
 */
#include "roce/engine.h"
#include "roce/roce.h"
#include "sim/testing.h"
#include "wire/icrc.h"

enum { MTU = 1024, PACKETS = 16, FEW = 16, LENGTH = PACKETS * MTU, MEMORY = 2 * LENGTH };

static struct vb_burst burst;
static uint8_t answer[2 * PACKETS * (MTU + 64)];
static size_t segment;

static void take_answer(struct pair *pair, unsigned packets)
{
	vb_lock_take(&pair->b->lock);
	vb_roce_send(pair->b, pair->sim->now, &burst);
	vb_lock_release(&pair->b->lock);
	assert_int_equal(burst.packets, packets);
	assert_int_equal(burst.runs, 1);
	segment = burst.run[0].segment_size;
	assert_true(burst.run[0].bytes <= sizeof(answer));
	memcpy(answer, burst.run[0].data, burst.run[0].bytes);
}

/* A READ of that length of a peer that is known, its answer in `answer` and on its way nowhere. */
static void begin(struct pair *pair, uint32_t length)
{
	uint32_t asked, ignored = 0;

	pair_open(pair, 1, false, &sim_usual, MEMORY);
	pair_fill(pair, &pair->b_memory, MEMORY);
	for (unsigned i = 0; i < FEW; i++) {
		pair_post_at(pair, IBV_WR_RDMA_READ, 0, 0, 4 * MTU, 0);
		sim_run(pair->sim);
		expect_send(pair->a_cq, 0, IBV_WC_SUCCESS);
	}
	assert_true(vb_roce_engine(pair->a)->requester.peer_remembers);
	memset(pair->a_memory.bytes, 0xee, MEMORY);
	pair_post_at(pair, IBV_WR_RDMA_READ, 0, 0, length, 1);
	pair_carry(pair, false, &asked, &ignored);
	assert_int_equal(asked, 1);
	vb_burst_reset(&burst);
	take_answer(pair, PACKETS);
}

static struct vb_roce_bulk give(struct pair *pair, unsigned first, unsigned count)
{
	struct vb_roce_bulk bulk = {answer + first * segment, count * segment, segment, segment, first, 0, 0};
	struct vb_icrc_prefix prefix = {0};

	vb_lock_take(&pair->a->lock);
	vb_roce_receive_bulk(pair->a, pair->sim->now, &pair->b->path, &prefix, &bulk);
	vb_lock_release(&pair->a->lock);
	return bulk;
}

static bool is_untouched(const struct pair *pair, uint32_t offset, uint32_t length)
{
	for (uint32_t i = offset; i < offset + length; i++)
		if (pair->a_memory.bytes[i] != 0xee)
			return false;
	return true;
}

static bool is_there(const struct pair *pair, uint32_t offset, uint32_t length)
{
	return memcmp(pair->a_memory.bytes + offset, pair->b_memory.bytes + offset, length) == 0;
}

static bool came(const struct pair *pair, unsigned number)
{
	const struct vb_roce_requester *requester = &vb_roce_engine_of(pair->a)->requester;

	return vb_roce_early_has(requester, psn_add(requester->acknowledged, number));
}

/* What is missing is asked for, and nothing else comes again. */
static void finish(struct pair *pair, uint32_t length)
{
	sim_run(pair->sim);
	expect_send(pair->a_cq, 1, IBV_WC_SUCCESS);
	assert_true(is_there(pair, 0, length));
	assert_true(is_untouched(pair, length, MEMORY - length));
	pair_close(pair);
}

static void those_behind_a_missing_one_are_taken_together(void **state)
{
	struct vb_roce_bulk got;
	struct pair pair;

	(void)state;
	begin(&pair, LENGTH);
	got = give(&pair, 1, PACKETS - 1);
	assert_int_equal(got.taken, PACKETS - 1);
	assert_int_equal(got.damaged, 0);
	assert_int_equal(vb_roce_engine(pair.a)->requester.early.count, PACKETS - 1);
	assert_true(is_untouched(&pair, 0, MTU));
	assert_true(is_there(&pair, MTU, LENGTH - MTU));
	assert_int_equal(pair.hosts[0]->counters.completer_retry_err, 1);
	finish(&pair, LENGTH);
}

/* With every other one missing, each gap is asked for. */
static void gaps_are_seen(void **state)
{
	struct pair pair;

	(void)state;
	begin(&pair, LENGTH);
	for (unsigned i = 1; i < PACKETS; i += 2)
		assert_int_equal(give(&pair, i, 1).taken, 1);
	assert_int_equal(vb_roce_engine(pair.a)->requester.early.count, PACKETS / 2);
	finish(&pair, LENGTH);
}

static void a_damaged_one_has_not_come(void **state)
{
	enum { DAMAGED = 4 };
	struct vb_roce_bulk got;
	struct pair pair;

	(void)state;
	begin(&pair, LENGTH);
	answer[DAMAGED * segment + 100] ^= 1;
	got = give(&pair, 1, PACKETS - 1);
	assert_int_equal(got.taken, DAMAGED - 1);
	assert_int_equal(got.damaged, 1);
	assert_false(came(&pair, DAMAGED));
	got = give(&pair, DAMAGED + 1, PACKETS - DAMAGED - 1);
	assert_int_equal(got.taken, PACKETS - DAMAGED - 1);
	assert_false(came(&pair, DAMAGED));
	finish(&pair, LENGTH);
}

/* A second packet for a place is looked at before it is copied anywhere. */
static void a_place_that_is_taken_is_left_alone(void **state)
{
	enum { TWICE = 2 };
	struct vb_roce_bulk got;
	struct pair pair;

	(void)state;
	begin(&pair, LENGTH);
	assert_int_equal(give(&pair, TWICE, 3).taken, 3);
	answer[TWICE * segment + 100] ^= 1;
	got = give(&pair, TWICE, 3);
	assert_int_equal(got.taken + got.damaged, 0);
	assert_true(is_there(&pair, TWICE * MTU, MTU));
	finish(&pair, LENGTH);
}

/* By its PSN it was not asked for, has come before, or must be shorter. */
static void others_go_nowhere(void **state)
{
	static const int steps[] = {-3, -1, PACKETS - 1, PACKETS, PACKETS + 5, 1000, 5000, 1 << 22};
	uint32_t length = LENGTH - 4;

	(void)state;
	for (unsigned i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		struct vb_roce_bulk got;
		struct pair pair;
		uint32_t psn;

		begin(&pair, length);
		psn = (vb_roce_engine(pair.a)->requester.acknowledged.v + (uint32_t)steps[i]) & VB_PSN_MASK;
		answer[9] = (uint8_t)(psn >> 16);
		answer[10] = (uint8_t)(psn >> 8);
		answer[11] = (uint8_t)psn;
		got = give(&pair, 0, 1);
		assert_int_equal(got.taken + got.damaged, 0);
		assert_true(is_untouched(&pair, 0, MEMORY));
		finish(&pair, length);
	}
}

/* The end of a piece and the beginning of the next, of another read: each to its own. */
static void a_bundle_is_of_several_reads(void **state)
{
	struct vb_roce_bulk got;
	uint32_t asked, ignored = 0;
	struct pair pair;

	(void)state;
	begin(&pair, LENGTH);
	pair_post_at(&pair, IBV_WR_RDMA_READ, LENGTH, LENGTH, LENGTH, 2);
	pair_carry(&pair, false, &asked, &ignored);
	assert_int_equal(asked, 1);
	assert_int_equal(give(&pair, 1, 2).taken, 2);
	take_answer(&pair, 2 * PACKETS);
	got = give(&pair, 3, 2 * PACKETS - 4);
	assert_int_equal(got.taken, 2 * PACKETS - 4);
	assert_true(is_there(&pair, MTU, 2 * LENGTH - 2 * MTU));
	assert_true(is_untouched(&pair, 2 * LENGTH - MTU, MTU));
	sim_run(pair.sim);
	expect_send(pair.a_cq, 1, IBV_WC_SUCCESS);
	expect_send(pair.a_cq, 2, IBV_WC_SUCCESS);
	assert_true(is_there(&pair, 0, 2 * LENGTH));
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(those_behind_a_missing_one_are_taken_together),
		cmocka_unit_test(gaps_are_seen),
		cmocka_unit_test(a_damaged_one_has_not_come),
		cmocka_unit_test(a_place_that_is_taken_is_left_alone),
		cmocka_unit_test(others_go_nowhere),
		cmocka_unit_test(a_bundle_is_of_several_reads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
