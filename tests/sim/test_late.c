/* SPDX-License-Identifier: MIT
 *
 * Short messages that no completion waits for, in a conversation (roce/late.c): between two of our own few of them are acknowledged one by
 * one, all of them are in the end, and what is waited for is as soon as ever.
 */
#include "roce/engine.h"
#include "sim/testing.h"

enum { TURNS = 200, LENGTH = 8, RECEIVES = 64 };

struct seen {
	unsigned acknowledgements, probes;
	bool is_foreign;                 /* probes mean nothing to it */
};

static bool look(void *context, const struct vb_roce_packet *packet)
{
	struct seen *seen = context;

	seen->acknowledgements += packet->op->kind == VB_KIND_ACKNOWLEDGE || packet->piggybacks;
	seen->probes += packet->op->kind == VB_KIND_FLOW_PROBE;
	return packet->op->kind != VB_KIND_FLOW_PROBE || !seen->is_foreign;
}

static void receive(struct pair *pair, bool at_b, uint64_t wr_id)
{
	struct sim_region *memory = at_b ? &pair->b_memory : &pair->a_memory;

	assert_int_equal(sim_post_receive(at_b ? pair->b : pair->a, memory->bytes + LENGTH, LENGTH, memory->key, wr_id), 0);
}

static void say(struct pair *pair, bool from_b, uint64_t value, unsigned flags)
{
	struct sim_region *memory = from_b ? &pair->b_memory : &pair->a_memory;
	struct ibv_sge sge = {(uintptr_t)memory->bytes, LENGTH, memory->key};
	struct ibv_send_wr wr = {.wr_id = value, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = flags};

	memcpy(memory->bytes, &value, LENGTH);
	assert_int_equal(sim_post_send(from_b ? pair->b : pair->a, &wr), 0);
}

/* What was said, and nothing else. */
static void hear(struct pair *pair, bool at_b, uint64_t value)
{
	struct ibv_wc wc;

	assert_true(sim_wait(pair->sim, at_b ? pair->b_cq : pair->a_cq, &wc, VB_SECONDS(4)));
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_memory_equal((at_b ? &pair->b_memory : &pair->a_memory)->bytes + LENGTH, &value, LENGTH);
	receive(pair, at_b, 0);
}

static void open_pair(struct pair *pair, uint64_t seed, struct seen *seen)
{
	pair_open(pair, seed, seed % 2, &sim_usual, 2 * LENGTH);
	pair->sim->network.filter = look;
	pair->sim->network.filter_context = seen;
	for (unsigned i = 0; i < RECEIVES; i++) {
		receive(pair, false, i);
		receive(pair, true, i);
	}
}

static void converse(struct pair *pair, unsigned turns)
{
	for (unsigned i = 0; i < turns; i++) {
		say(pair, false, i, 0);
		hear(pair, true, i);
		say(pair, true, ~(uint64_t)i, 0);
		hear(pair, false, ~(uint64_t)i);
	}
}

static bool is_acknowledged(struct vb_qp *qp)
{
	return !vb_roce_requester_outstanding(&vb_roce_engine(qp)->requester) && vb_send_queue_count(&qp->send) == 0;
}

static void few_are_acknowledged_one_by_one(void **state)
{
	struct seen seen = {0};
	struct pair pair;

	(void)state;
	open_pair(&pair, 1, &seen);
	converse(&pair, TURNS);
	seen.acknowledgements = 0;
	converse(&pair, TURNS);
	assert_in_range(seen.acknowledgements, 2, TURNS / 4);
	assert_int_equal(seen.probes, 2);
	pair_close(&pair);
}

/* Nobody had to ask. */
static void all_are_in_the_end(void **state)
{
	struct seen seen = {0};
	struct pair pair;

	(void)state;
	open_pair(&pair, 2, &seen);
	converse(&pair, TURNS);
	say(&pair, false, 7, 0);
	hear(&pair, true, 7);
	assert_false(is_acknowledged(pair.a));
	sim_run(pair.sim);
	assert_true(is_acknowledged(pair.a));
	assert_true(is_acknowledged(pair.b));
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(pair.hosts[i]->counters.duplicate_request, 0);
	pair_close(&pair);
}

static void what_is_waited_for_is_at_once(void **state)
{
	struct seen seen = {0};
	struct pair pair;
	struct ibv_wc wc;
	vb_time before;

	(void)state;
	open_pair(&pair, 3, &seen);
	converse(&pair, TURNS);
	before = pair.sim->now;
	say(&pair, false, 7, IBV_SEND_SIGNALED);
	assert_true(sim_wait(pair.sim, pair.a_cq, &wc, VB_SECONDS(1)));
	assert_int_equal(wc.opcode, IBV_WC_SEND);
	assert_true(pair.sim->now - before < VB_MICROSECONDS(100));
	pair_close(&pair);
}

/* The receives of the other end are few, and whoever sends wants to know how many are left. */
static void credits_are_waited_for(void **state)
{
	struct seen seen = {0};
	struct pair pair;

	(void)state;
	pair_open(&pair, 4, false, &sim_usual, 2 * LENGTH);
	pair.sim->network.filter = look;
	pair.sim->network.filter_context = &seen;
	receive(&pair, false, 0);
	receive(&pair, true, 0);
	converse(&pair, TURNS);
	assert_true(seen.acknowledgements >= 2 * TURNS - 2);
	assert_int_equal(pair.hosts[0]->counters.rcvd_rnr_err + pair.hosts[1]->counters.rcvd_rnr_err, 0);
	pair_close(&pair);
}

/* What is owed is sent before the queue pair ends (links do so: progress/carriers.c). */
static void it_can_be_hurried(void **state)
{
	struct seen seen = {0};
	struct pair pair;

	(void)state;
	open_pair(&pair, 5, &seen);
	converse(&pair, TURNS);
	sim_run(pair.sim);
	say(&pair, false, 7, 0);
	hear(&pair, true, 7);
	vb_lock_take(&pair.b->lock);
	assert_true(vb_roce_hurry(pair.b));
	assert_false(vb_roce_hurry(pair.b));
	vb_lock_release(&pair.b->lock);
	sim_touch(pair.b);
	sim_run_to(pair.sim, pair.sim->now + VB_MICROSECONDS(20));
	assert_true(is_acknowledged(pair.a));
	pair_close(&pair);
}

static void others_are_asked_as_ever(void **state)
{
	struct seen seen = {.is_foreign = true};
	struct pair pair;

	(void)state;
	open_pair(&pair, 6, &seen);
	converse(&pair, 2 * TURNS);
	assert_true(seen.acknowledgements >= 4 * TURNS - 1);
	assert_in_range(seen.probes, 2, 2 * 4);
	pair_close(&pair);
}

static void every_network(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 60; seed++) {
		struct seen seen = {0};
		struct pair pair;

		open_pair(&pair, seed, &seen);
		converse(&pair, TURNS / 2);
		pair.sim->network.loss = (uint32_t)(seed % 4) * 20000;
		pair.sim->network.duplication = (uint32_t)(seed % 3) * 20000;
		pair.sim->network.reorder = (uint32_t)(seed % 5) * 20000;
		pair.sim->network.reorder_delay = VB_MICROSECONDS(50);
		converse(&pair, TURNS);
		pair.sim->network.loss = 0;
		sim_run(pair.sim);
		assert_true(is_acknowledged(pair.a));
		assert_true(is_acknowledged(pair.b));
		pair_close(&pair);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(few_are_acknowledged_one_by_one),
		cmocka_unit_test(all_are_in_the_end),
		cmocka_unit_test(what_is_waited_for_is_at_once),
		cmocka_unit_test(credits_are_waited_for),
		cmocka_unit_test(it_can_be_hurried),
		cmocka_unit_test(others_are_asked_as_ever),
		cmocka_unit_test(every_network),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
