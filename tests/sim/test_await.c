/* SPDX-License-Identifier: MIT
 *
 * Two programs that look at their memory and poll for the completion of their own WRITEs alone (roce/await.c): the acknowledgement of what
 * the engine thread receives leaves with the answer; without one a little later, and at once where none ever comes.
 */
#include "sim/testing.h"

enum { WARM = 100, TURNS = 100, LENGTH = 8, IN_VAIN = 3, LEFT_OUT = 256 };

#define LATEST VB_MICROSECONDS(40)
#define FAR_LONGER VB_MILLISECONDS(1)
#define MOMENT 100

struct seen {
	unsigned alone;                  /* acknowledgements without a message */
};

static bool look(void *context, const struct vb_roce_packet *packet)
{
	struct seen *seen = context;

	seen->alone += packet->op->kind == VB_KIND_ACKNOWLEDGE;
	return true;
}

static void open_pair(struct pair *pair, struct seen *seen)
{
	pair_open(pair, 1, false, &sim_usual, 2 * LENGTH);
	pair->sim->network.filter = look;
	pair->sim->network.filter_context = seen;
}

static void write_to_peer(struct pair *pair, bool from_b, uint64_t value)
{
	struct sim_region *own = from_b ? &pair->b_memory : &pair->a_memory, *other = from_b ? &pair->a_memory : &pair->b_memory;
	struct ibv_sge sge = {(uintptr_t)own->bytes, LENGTH, own->key};
	struct ibv_send_wr wr = {.wr_id = value, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {.remote_addr = (uintptr_t)other->bytes + LENGTH, .rkey = other->key}};

	memcpy(own->bytes, &value, LENGTH);
	assert_int_equal(sim_post_send(from_b ? pair->b : pair->a, &wr), 0);
}

static bool has(const struct pair *pair, bool at_b, uint64_t value)
{
	return memcmp((at_b ? &pair->b_memory : &pair->a_memory)->bytes + LENGTH, &value, LENGTH) == 0;
}

/* Until that memory shows it. */
static void see(struct pair *pair, bool at_b, uint64_t value)
{
	vb_time end = pair->sim->now + VB_SECONDS(1);

	while (!has(pair, at_b, value) && pair->sim->now < end)
		sim_run_to(pair->sim, pair->sim->now + MOMENT);
	assert_true(has(pair, at_b, value));
}

static void converse(struct pair *pair, unsigned turns)
{
	for (uint64_t i = 1; i <= turns; i++) {
		write_to_peer(pair, false, i);
		see(pair, true, i);
		write_to_peer(pair, true, i);
		see(pair, false, i);
		/* a polled for its own completion until now, and has received the answer that brought it. */
		expect_send(pair->a_cq, i, IBV_WC_SUCCESS);
	}
	sim_run(pair->sim);
	for (uint64_t i = 1; i <= turns; i++)
		expect_send(pair->b_cq, i, IBV_WC_SUCCESS);
}

static void it_leaves_with_the_answer(void **state)
{
	struct seen seen = {0};
	struct pair pair;

	(void)state;
	open_pair(&pair, &seen);
	pair.hosts[0]->awaits_answers = pair.hosts[1]->awaits_answers = true;
	converse(&pair, WARM);
	seen.alone = 0;
	converse(&pair, TURNS);
	/* The last answer has none. */
	assert_int_equal(seen.alone, 1);
	pair_close(&pair);
}

/* How long after it was posted a WRITE of a is completed. */
static vb_time time_last(struct pair *pair, uint64_t value, unsigned count)
{
	vb_time began = pair->sim->now;
	struct ibv_wc wc;

	write_to_peer(pair, false, value);
	for (unsigned i = 0; i < count; i++) {
		assert_true(sim_wait(pair->sim, pair->a_cq, &wc, VB_SECONDS(1)));
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
	}
	assert_int_equal(wc.wr_id, value);
	assert_true(has(pair, true, value));
	return pair->sim->now - began;
}

static vb_time time_one(struct pair *pair, uint64_t value)
{
	return time_last(pair, value, 1);
}

/* Behind another. */
static vb_time time_one_behind(struct pair *pair, uint64_t value)
{
	return time_last(pair, value, 2);
}

static void without_one_it_leaves_a_little_later_and_soon_at_once(void **state)
{
	struct seen seen = {0};
	struct pair pair;
	vb_time at_once;

	(void)state;
	open_pair(&pair, &seen);
	at_once = time_one(&pair, 1);
	assert_true(at_once < LATEST);
	pair.hosts[1]->awaits_answers = true;
	for (unsigned i = 0; i < IN_VAIN; i++) {
		vb_time took = time_one(&pair, 2 + i);

		assert_true(took >= LATEST);
		assert_true(took <= LATEST + at_once);
	}
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < LEFT_OUT; i++)
			assert_true(time_one(&pair, 100 + i) <= at_once);
		/* The trial. */
		assert_true(time_one(&pair, 99) >= LATEST);
	}
	pair_close(&pair);
}

/* A stream of WRITEs is no conversation: it is not taken for one again and again. */
static void more_of_them_await_nothing(void **state)
{
	struct seen seen = {0};
	struct pair pair;
	vb_time at_once;

	(void)state;
	open_pair(&pair, &seen);
	at_once = time_one(&pair, 1);
	pair.hosts[1]->awaits_answers = true;
	for (unsigned i = 0; i < LEFT_OUT; i++) {
		write_to_peer(&pair, false, 2);
		assert_true(time_one_behind(&pair, 2) <= (i < IN_VAIN ? LATEST + at_once : at_once));
	}
	pair_close(&pair);
}

/* The program polls for those. */
static void messages_that_take_a_receive_await_nothing(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE_WITH_IMM};
	struct seen seen = {0};
	struct pair pair;

	(void)state;
	open_pair(&pair, &seen);
	pair.hosts[1]->awaits_answers = true;
	for (unsigned i = 0; i < 2; i++) {
		vb_time began = pair.sim->now;
		struct ibv_wc wc;

		assert_int_equal(sim_post_receive(pair.b, pair.b_memory.bytes, LENGTH, pair.b_memory.key, i), 0);
		pair_post(&pair, opcodes[i], LENGTH, i);
		assert_true(sim_wait(pair.sim, pair.a_cq, &wc, VB_SECONDS(1)));
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_true(pair.sim->now - began < LATEST);
	}
	pair_close(&pair);
}

/* Nothing of it is left when the queue pair is made anew. */
static void a_new_connection_awaits_nothing_of_the_old(void **state)
{
	struct seen seen = {0};
	struct pair pair;

	(void)state;
	open_pair(&pair, &seen);
	pair.hosts[1]->awaits_answers = true;
	write_to_peer(&pair, false, 1);
	see(&pair, true, 1);
	seen.alone = 0;
	assert_int_equal(sim_modify_state(pair.b, IBV_QPS_RESET), 0);
	sim_run_to(pair.sim, pair.sim->now + FAR_LONGER);
	assert_int_equal(seen.alone, 0);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_leaves_with_the_answer),
		cmocka_unit_test(without_one_it_leaves_a_little_later_and_soon_at_once),
		cmocka_unit_test(more_of_them_await_nothing),
		cmocka_unit_test(messages_that_take_a_receive_await_nothing),
		cmocka_unit_test(a_new_connection_awaits_nothing_of_the_old),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
