/* SPDX-License-Identifier: MIT
 *
 * Responses in full runs (roce/singly.c): between two of our own a stream of long READs is answered by packets that are each an ONLY;
 * others see what they always saw. What comes to be in the requester's memory is the same on every network.
 */
#include "roce/engine.h"
#include "roce/roce.h"
#include "sim/testing.h"

enum { MTU = 1024, SLOTS = 12, SLOT = 64 * MTU, MEMORY = SLOTS * SLOT, FEW = 16 };

static struct vb_burst burst;

struct seen {
	unsigned first, middle, last, only;
	unsigned permitting;             /* requests with the pattern */
	unsigned probes;
	unsigned lose;                   /* each n-th response; 0: none */
	unsigned responses;
	bool is_foreign;                 /* probes mean nothing to the peer */
};

static bool look(void *context, const struct vb_roce_packet *packet)
{
	struct seen *seen = context;

	seen->permitting += packet->singly;
	seen->probes += packet->op->kind == VB_KIND_FLOW_PROBE;
	if (packet->op->kind == VB_KIND_FLOW_PROBE)
		return !seen->is_foreign;
	if (packet->op->kind != VB_KIND_READ_RESPONSE)
		return true;
	seen->first += packet->op->position == VB_POSITION_FIRST;
	seen->middle += packet->op->position == VB_POSITION_MIDDLE;
	seen->last += packet->op->position == VB_POSITION_LAST;
	seen->only += packet->op->position == VB_POSITION_ONLY;
	return seen->lose == 0 || ++seen->responses % seen->lose != 0;
}

static void watch(struct pair *pair, struct seen *seen)
{
	memset(seen, 0, sizeof(*seen));
	pair->sim->network.filter = look;
	pair->sim->network.filter_context = seen;
}

static void open_pair(struct pair *pair, uint64_t seed, struct seen *seen)
{
	pair_open(pair, seed, seed % 2, &sim_usual, MEMORY);
	pair_fill(pair, &pair->b_memory, MEMORY);
	watch(pair, seen);
}

/* `count` READs of that length, and what they bring. */
static void read_some(struct pair *pair, unsigned count, uint32_t length)
{
	memset(pair->a_memory.bytes, 0xee, MEMORY);
	for (unsigned i = 0; i < count; i++) {
		pair_post_at(pair, IBV_WR_RDMA_READ, i % SLOTS * SLOT, i % SLOTS * SLOT, length, i);
		if (i % SLOTS == SLOTS - 1)
			sim_run(pair->sim);
	}
	sim_run(pair->sim);
	for (unsigned i = 0; i < count; i++)
		expect_send(pair->a_cq, i, IBV_WC_SUCCESS);
	for (unsigned i = 0; i < count && i < SLOTS; i++)
		assert_memory_equal(pair->a_memory.bytes + i * SLOT, pair->b_memory.bytes + i * SLOT, length);
}

static void get_acquainted(struct pair *pair, struct seen *seen)
{
	read_some(pair, FEW, 4 * MTU);
	assert_true(vb_roce_engine(pair->a)->requester.peer_remembers);
	assert_int_equal(seen->probes, 1);
	memset(seen, 0, sizeof(*seen));
}

static void few_are_answered_as_ever(void **state)
{
	struct seen seen;
	struct pair pair;

	(void)state;
	open_pair(&pair, 1, &seen);
	read_some(&pair, FEW - 1, 4 * MTU);
	assert_int_equal(seen.probes, 0);
	assert_int_equal(seen.only, 0);
	assert_int_equal(seen.first, FEW - 1);
	assert_int_equal(seen.last, FEW - 1);
	pair_close(&pair);
}

/* Whole packets, a last one that is shorter, and shorter by what needs a pad. */
static void a_stream_is_answered_by_packets_that_are_alike(void **state)
{
	static const uint32_t lengths[] = {64 * MTU, 5 * MTU, 3 * MTU - 1, 20 * MTU + 4, 2 * MTU + 1, 63 * MTU + 7};

	(void)state;
	for (unsigned i = 0; i < 6; i++) {
		struct seen seen;
		struct pair pair;

		open_pair(&pair, 2 + i, &seen);
		get_acquainted(&pair, &seen);
		read_some(&pair, 2 * SLOTS, lengths[i]);
		assert_int_equal(seen.first + seen.middle + seen.last, 0);
		assert_int_equal(seen.only, 2 * SLOTS * vb_roce_packets(lengths[i], MTU));
		assert_int_equal(seen.permitting, 2 * SLOTS);
		assert_int_equal(pair.hosts[0]->counters.completer_retry_err, 0);
		pair_close(&pair);
	}
}

/* Of one packet or two none is unlike the others. */
static void short_ones_are_not_asked_for_so(void **state)
{
	struct seen seen;
	struct pair pair;

	(void)state;
	open_pair(&pair, 1, &seen);
	read_some(&pair, 4 * FEW, 2 * MTU);
	assert_int_equal(seen.probes, 0);
	read_some(&pair, FEW, 3 * MTU);
	memset(&seen, 0, sizeof(seen));
	read_some(&pair, FEW, 2 * MTU);
	assert_int_equal(seen.permitting, 0);
	pair_close(&pair);
}

/* Three READs of 64 packets at once: 192 in four runs, where it would be seven. Whether others are asked for need not be looked for while
 * there is a whole run to send. */
static void responses_share_runs(void **state)
{
	(void)state;
	for (unsigned known = 0; known < 2; known++) {
		uint32_t ignored = 0, asked, packets, sum = 0, runs = 0;
		struct seen seen;
		struct pair pair;
		bool more = true;

		open_pair(&pair, 1, &seen);
		if (known)
			get_acquainted(&pair, &seen);
		for (unsigned i = 0; i < 3; i++)
			pair_post_at(&pair, IBV_WR_RDMA_READ, i * SLOT, i * SLOT, SLOT, i);
		pair_carry(&pair, false, &asked, &ignored);
		assert_int_equal(asked, 3);
		while (more) {
			assert_int_equal(vb_roce_answers_reads(pair.b), !known || 3 * 64 - sum < 62);
			more = pair_carry(&pair, true, &packets, &runs);
			sum += packets;
		}
		assert_false(vb_roce_answers_reads(pair.b));
		assert_int_equal(sum, 3 * 64);
		assert_int_equal(runs, known ? 4 : 7);
		for (unsigned i = 0; i < 3; i++)
			expect_send(pair.a_cq, i, IBV_WC_SUCCESS);
		assert_memory_equal(pair.a_memory.bytes, pair.b_memory.bytes, 3 * SLOT);
		pair_close(&pair);
	}
}

/* A window that was used up opens by half: requests do not leave one by one. */
static void requests_leave_together(void **state)
{
	enum { READS = 40 };
	uint32_t asked = 0, ignored = 0, packets, times = 0;
	struct sim_connection connection = sim_usual;
	struct seen seen;
	struct pair pair;

	(void)state;
	connection.rd_atomic_a = connection.rd_atomic_b = 16;
	pair_open(&pair, 1, false, &connection, MEMORY);
	watch(&pair, &seen);
	get_acquainted(&pair, &seen);
	for (unsigned i = 0; i < READS; i++)
		pair_post_at(&pair, IBV_WR_RDMA_READ, 0, 0, SLOT, i);
	while (asked < READS) {
		pair_carry(&pair, false, &packets, &ignored);
		asked += packets;
		times += packets > 0;
		/* At first there is no room for more in half of it. */
		assert_true(packets != 1 || asked == READS || asked < READS / 4);
		pair_carry(&pair, true, &packets, &ignored);
		assert_true(packets > 0);
	}
	assert_true(times <= READS / 2 + 2);
	pair_close(&pair);
}

/* They are taken many at a time. */
static void they_are_taken_in_bulk(void **state)
{
	struct seen seen;
	struct pair pair;
	uint64_t before;

	(void)state;
	open_pair(&pair, 4, &seen);
	get_acquainted(&pair, &seen);
	before = pair.sim->packets_in_bulk;
	read_some(&pair, SLOTS, SLOT);
	assert_true(pair.sim->packets_in_bulk - before > 64 * SLOTS / 2);
	pair_close(&pair);
}

static void other_makes_never_see_it(void **state)
{
	struct seen seen;
	struct pair pair;

	(void)state;
	open_pair(&pair, 3, &seen);
	seen.is_foreign = true;
	for (unsigned i = 0; i < 40; i++)
		read_some(&pair, FEW, 4 * MTU);
	assert_int_equal(seen.permitting, 0);
	assert_int_equal(seen.only, 0);
	assert_int_equal(seen.probes, 4);
	pair_close(&pair);
}

/* One of our own that does not know the pattern answers as ever, and that is taken. */
static void it_is_a_permission(void **state)
{
	struct vb_roce_packet request;
	struct vb_transport_status status;
	struct seen seen;
	struct pair pair;

	(void)state;
	open_pair(&pair, 5, &seen);
	get_acquainted(&pair, &seen);
	vb_roce_query(pair.a, &status);
	pair_post_at(&pair, IBV_WR_RDMA_READ, 0, 0, 8 * MTU, 1);
	vb_lock_take(&pair.a->lock);
	vb_burst_reset(&burst);
	vb_roce_send(pair.a, pair.sim->now, &burst);
	vb_lock_release(&pair.a->lock);
	assert_int_equal(burst.packets, 1);
	request = (struct vb_roce_packet){
		.opcode = 0x0c, .op = vb_roce_opcode(0x0c), .pkey = VB_DEFAULT_PKEY, .destination_qpn = pair.b->qpn, .ack_request = true,
		.psn = psn_of(status.send), .reth = {(uintptr_t)pair.b_memory.bytes, pair.b_memory.key, 8 * MTU},
	};
	sim_inject(pair.b, &request);
	sim_run(pair.sim);
	assert_int_equal(seen.first, 1);
	assert_int_equal(seen.middle, 6);
	assert_int_equal(seen.last, 1);
	expect_send(pair.a_cq, 1, IBV_WC_SUCCESS);
	assert_memory_equal(pair.a_memory.bytes, pair.b_memory.bytes, 8 * MTU);
	assert_int_equal(pair.hosts[0]->counters.completer_retry_err, 0);
	pair_close(&pair);
}

static void adapters_that_are_played_do_not_ask(void **state)
{
	struct vb_roce_policy policy;
	struct seen seen;
	struct pair pair;

	(void)state;
	assert_true(vb_roce_policy_parse(&policy, "window"));
	policy.recovery = VB_RECOVERY_GO_BACK_N;
	pair_make(&pair, 1, false, IBV_QPT_RC, MEMORY);
	pair.hosts[0]->queue_host.policy = pair.hosts[1]->queue_host.policy = &policy;
	sim_connect(pair.a, pair.b, &sim_usual);
	pair_fill(&pair, &pair.b_memory, MEMORY);
	watch(&pair, &seen);
	read_some(&pair, 4 * FEW, 4 * MTU);
	assert_int_equal(seen.permitting + seen.only + seen.probes, 0);
	pair_close(&pair);
}

/* Between them, acknowledgements of what is not a READ, and the order of completions. */
static void others_are_between_them(void **state)
{
	struct seen seen;
	struct pair pair;

	(void)state;
	open_pair(&pair, 6, &seen);
	get_acquainted(&pair, &seen);
	for (unsigned i = 0; i < 4; i++) {
		pair_post_at(&pair, IBV_WR_RDMA_READ, i * SLOT, i * SLOT, 30 * MTU, 3 * i);
		pair_post_at(&pair, IBV_WR_RDMA_WRITE, 8 * SLOT, (8 + i) * SLOT, 3 * MTU, 3 * i + 1);
		pair_post_at(&pair, IBV_WR_RDMA_READ, (4 + i) * SLOT, (8 + i) * SLOT, 3 * MTU, 3 * i + 2);
	}
	sim_run(pair.sim);
	for (unsigned i = 0; i < 12; i++)
		expect_send(pair.a_cq, i, IBV_WC_SUCCESS);
	for (unsigned i = 0; i < 4; i++) {
		assert_memory_equal(pair.a_memory.bytes + i * SLOT, pair.b_memory.bytes + i * SLOT, 30 * MTU);
		assert_memory_equal(pair.a_memory.bytes + (4 + i) * SLOT, pair.a_memory.bytes + 8 * SLOT, 3 * MTU);
	}
	pair_close(&pair);
}

static void what_is_lost_comes_again(void **state)
{
	(void)state;
	for (unsigned lose = 2; lose < 90; lose++) {
		struct seen seen;
		struct pair pair;

		open_pair(&pair, 10 + lose, &seen);
		get_acquainted(&pair, &seen);
		seen.lose = lose;
		read_some(&pair, SLOTS, SLOT - lose % 9);
		assert_true(seen.only > 0);
		pair_close(&pair);
	}
}

/* The region goes away between request and response: refused, as ever. */
static void a_refusal_is_told(void **state)
{
	struct seen seen;
	struct pair pair;

	(void)state;
	open_pair(&pair, 7, &seen);
	get_acquainted(&pair, &seen);
	pair_post_at(&pair, IBV_WR_RDMA_READ, 0, 0, 4 * MTU, 1);
	pair_post_at(&pair, IBV_WR_RDMA_READ, 0, MEMORY - 2 * MTU, 4 * MTU, 2);
	sim_run(pair.sim);
	expect_send(pair.a_cq, 1, IBV_WC_SUCCESS);
	expect_send(pair.a_cq, 2, IBV_WC_REM_ACCESS_ERR);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(few_are_answered_as_ever),
		cmocka_unit_test(a_stream_is_answered_by_packets_that_are_alike),
		cmocka_unit_test(short_ones_are_not_asked_for_so),
		cmocka_unit_test(responses_share_runs),
		cmocka_unit_test(requests_leave_together),
		cmocka_unit_test(they_are_taken_in_bulk),
		cmocka_unit_test(other_makes_never_see_it),
		cmocka_unit_test(it_is_a_permission),
		cmocka_unit_test(adapters_that_are_played_do_not_ask),
		cmocka_unit_test(others_are_between_them),
		cmocka_unit_test(what_is_lost_comes_again),
		cmocka_unit_test(a_refusal_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
