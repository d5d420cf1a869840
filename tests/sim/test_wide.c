/* SPDX-License-Identifier: MIT
 *
 * Wide windows of responses (roce/wide.c): how often a requester has to ask for one long READ, and who may ask for so much.
 */
#include "roce/engine.h"
#include "roce/roce.h"
#include "sim/testing.h"

enum { MTU = 1024, RUN = 62, PACKETS = 1024, MEMORY = PACKETS * MTU, FEW = 16, LARGE = 8 << 20, USUAL = 425984 };

struct seen {
	unsigned lose;                   /* this response, from now on; 0: none */
	bool is_foreign;                 /* probes mean nothing to the peer */
};

static bool look(void *context, const struct vb_roce_packet *packet)
{
	struct seen *seen = context;

	if (packet->op->kind == VB_KIND_FLOW_PROBE)
		return !seen->is_foreign;
	return packet->op->kind != VB_KIND_READ_RESPONSE || seen->lose == 0 || --seen->lose != 0;
}

static void read_whole(struct pair *pair, unsigned times)
{
	for (unsigned i = 0; i < times; i++) {
		memset(pair->a_memory.bytes, 0xee, MEMORY);
		pair_post(pair, IBV_WR_RDMA_READ, MEMORY, i);
		sim_run(pair->sim);
		expect_send(pair->a_cq, i, IBV_WC_SUCCESS);
		assert_memory_equal(pair->a_memory.bytes, pair->b_memory.bytes, MEMORY);
	}
}

/* Whose socket has a buffer of that size. It has read enough to know its peer, and what its window may be. */
static void open_pair(struct pair *pair, struct seen *seen, struct vb_receive_share *share)
{
	struct sim_connection connection = sim_usual;

	connection.rd_atomic_a = connection.rd_atomic_b = 16;
	pair_open(pair, 1, false, &connection, MEMORY);
	pair_fill(pair, &pair->b_memory, MEMORY);
	pair->hosts[0]->queue_host.share = share;
	pair->sim->network.filter = look;
	pair->sim->network.filter_context = seen;
	read_whole(pair, FEW);
}

static uint32_t window_of(const struct pair *pair)
{
	return vb_roce_engine(pair->a)->requester.congestion.responses.size;
}

/* One READ. Each time the requester has asked, all comes that it asked for, before it is asked again. Tells how often it asks, and how many
 * packets come the first time. */
static unsigned count_trips(struct pair *pair, uint32_t *first)
{
	unsigned trips = 0;
	uint32_t asked, ignored = 0;

	*first = 0;
	pair_post(pair, IBV_WR_RDMA_READ, MEMORY, 1);
	for (uint32_t all = 0; all < PACKETS; trips++) {
		uint32_t came, runs;
		bool more;

		pair_carry(pair, false, &asked, &ignored);
		assert_true(asked > 0);
		do {
			runs = 0;
			more = pair_carry(pair, true, &came, &runs);
			all += came;
			*first += trips == 0 ? came : 0;
			/* The sender's call brings the receiver a run, and not a fragment of another. */
			assert_int_equal(runs, 1);
			assert_true(came == RUN || !more);
		} while (more);
	}
	expect_send(pair->a_cq, 1, IBV_WC_SUCCESS);
	assert_memory_equal(pair->a_memory.bytes, pair->b_memory.bytes, MEMORY);
	return trips;
}

static void one_long_read_takes_two_trips(void **state)
{
	struct vb_receive_share share = {.bytes = LARGE};
	struct seen seen = {0};
	struct pair pair;
	uint32_t first;

	(void)state;
	open_pair(&pair, &seen, &share);
	assert_int_equal(window_of(&pair), VB_READ_WINDOW_WIDE);
	assert_int_equal(count_trips(&pair, &first), 2);
	assert_int_equal(first, 3 * 4 * RUN);
	pair_close(&pair);
}

/* The buffer that an ordinary user has where nobody has seen to it, or one of which nothing is known. */
static void a_usual_buffer_is_not_filled(void **state)
{
	(void)state;
	for (unsigned known = 0; known < 2; known++) {
		struct vb_receive_share share = {.bytes = USUAL};
		struct seen seen = {0};
		struct pair pair;
		uint32_t first;

		open_pair(&pair, &seen, known ? &share : NULL);
		assert_int_equal(window_of(&pair), VB_WINDOW_MAX);
		assert_int_equal(count_trips(&pair, &first), 4);
		assert_int_equal(first, 2 * 2 * RUN);
		pair_close(&pair);
	}
}

static void other_makes_are_not_asked_for_so_much(void **state)
{
	struct vb_receive_share share = {.bytes = LARGE};
	struct seen seen = {.is_foreign = true};
	struct pair pair;

	(void)state;
	open_pair(&pair, &seen, &share);
	assert_int_equal(window_of(&pair), VB_WINDOW_MAX);
	assert_int_equal(share.wide, 0);
	pair_close(&pair);
}

/* One that is lost, by chance as it may be, makes it an ordinary one; and it becomes wide again, but slowly. */
static void a_loss_makes_it_narrow(void **state)
{
	struct vb_receive_share share = {.bytes = LARGE};
	struct seen seen = {0};
	struct pair pair;

	(void)state;
	open_pair(&pair, &seen, &share);
	seen.lose = PACKETS - RUN;
	read_whole(&pair, 1);
	assert_int_equal(seen.lose, 0);
	assert_in_range(window_of(&pair), VB_WINDOW_MAX, VB_WINDOW_MAX + VB_WINDOW_MAX / 8);
	read_whole(&pair, 2);
	assert_in_range(window_of(&pair), VB_WINDOW_MAX + 1, VB_READ_WINDOW_WIDE - 1);
	read_whole(&pair, 8 * FEW);
	assert_int_equal(window_of(&pair), VB_READ_WINDOW_WIDE);
	pair_close(&pair);
}

/* Two of them are a quarter of that buffer. Who comes too late in a period may be in time in the next. */
static void a_buffer_has_few_places(void **state)
{
	struct vb_receive_share share = {.bytes = LARGE}, usual = {.bytes = USUAL};
	struct vb_receive_share least = {.bytes = LARGE / 2}, less = {.bytes = LARGE / 2 - 1};

	(void)state;
	/* The least that has one. */
	assert_true(vb_roce_wide_take(&least, 1));
	assert_false(vb_roce_wide_take(&least, 1));
	assert_false(vb_roce_wide_take(&less, 1));
	for (uint32_t period = 0xfffffff0; period != 16; period++) {
		assert_true(vb_roce_wide_take(&share, period));
		assert_true(vb_roce_wide_take(&share, period));
		assert_false(vb_roce_wide_take(&share, period));
		/* By an old clock. */
		assert_false(vb_roce_wide_take(&share, period - 1));
		assert_false(vb_roce_wide_take(&usual, period));
	}
}

/* The place is another's from the next period on. */
static void who_has_no_place_is_narrow_again(void **state)
{
	struct vb_receive_share share = {.bytes = LARGE};
	struct seen seen = {0};
	struct pair pair;
	uint32_t first;

	(void)state;
	open_pair(&pair, &seen, &share);
	for (unsigned i = 0; i < 3; i++)
		vb_roce_wide_take(&share, vb_roce_engine(pair.a)->requester.wide_period + 1);
	pair.sim->now += VB_MILLISECONDS(17);
	assert_int_equal(count_trips(&pair, &first), 4);
	assert_int_equal(window_of(&pair), VB_WINDOW_MAX);
	pair.sim->now += VB_MILLISECONDS(17);
	read_whole(&pair, FEW);
	assert_int_equal(window_of(&pair), VB_READ_WINDOW_WIDE);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_long_read_takes_two_trips),
		cmocka_unit_test(a_usual_buffer_is_not_filled),
		cmocka_unit_test(other_makes_are_not_asked_for_so_much),
		cmocka_unit_test(a_loss_makes_it_narrow),
		cmocka_unit_test(a_buffer_has_few_places),
		cmocka_unit_test(who_has_no_place_is_narrow_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
