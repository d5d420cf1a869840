/* SPDX-License-Identifier: MIT
 *
 * A long message with none behind it leaves a run at a time: its receiver takes one in while the next is made.
 */
#include "roce/roce.h"
#include "sim/testing.h"

enum { MTU = 1024, MESSAGE = 256 * MTU, MEMORY = MESSAGE, WARM_UP = 8 };

static void post(struct pair *pair, uint64_t wr_id)
{
	assert_int_equal(sim_post_receive(pair->b, pair->b_memory.bytes, MESSAGE, pair->b_memory.key, wr_id), 0);
	pair_post(pair, IBV_WR_SEND, MESSAGE, wr_id);
}

/* The window is as wide as it becomes. */
static void open_pair(struct pair *pair)
{
	pair_open(pair, 1, false, &sim_usual, MEMORY);
	pair_fill(pair, &pair->a_memory, MEMORY);
	for (unsigned i = 0; i < WARM_UP; i++) {
		post(pair, i);
		sim_run(pair->sim);
		expect_send(pair->a_cq, i, IBV_WC_SUCCESS);
	}
}

/* Of all that is posted. Tells how many runs the largest burst had. */
static uint32_t carry_all(struct pair *pair, uint32_t left)
{
	uint32_t most = 0;

	while (left > 0) {
		uint32_t packets, runs = 0, ignored = 0;

		pair_carry(pair, false, &packets, &runs);
		left -= packets;
		most = runs > most ? runs : most;
		pair_carry(pair, true, &packets, &ignored);
	}
	return most;
}

static void a_run_at_a_time(void **state)
{
	struct pair pair;

	(void)state;
	open_pair(&pair);
	post(&pair, WARM_UP);
	assert_int_equal(carry_all(&pair, MESSAGE / MTU), 1);
	expect_send(pair.a_cq, WARM_UP, IBV_WC_SUCCESS);
	assert_memory_equal(pair.a_memory.bytes, pair.b_memory.bytes, MESSAGE);
	pair_close(&pair);
}

static void several_where_others_follow(void **state)
{
	struct pair pair;

	(void)state;
	open_pair(&pair);
	for (unsigned i = 0; i < WARM_UP; i++)
		post(&pair, i);
	assert_true(carry_all(&pair, WARM_UP * (MESSAGE / MTU)) > 1);
	for (unsigned i = 0; i < WARM_UP; i++)
		expect_send(pair.a_cq, i, IBV_WC_SUCCESS);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_run_at_a_time),
		cmocka_unit_test(several_where_others_follow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
