/* SPDX-License-Identifier: MIT
 *
 * What a lost response to a read costs: one request and one response. Those that came ahead of it are not asked for again.
 */
#include "roce/engine.h"
#include "sim/testing.h"

enum { MTU = 1024, MOST = 8192, MEMORY = 1 << 20 };

/* Sees every packet that leaves, and loses responses. */
struct ear {
	uint32_t first_psn;
	uint32_t lose[8];                /* responses, counted from first_psn, that are lost the first times */
	unsigned losses;
	unsigned lose_times;             /* how often; 0: once */
	unsigned times[MOST];
	unsigned requests, responses, lost;
	bool knows_no_probes;
	uint32_t lose_request;           /* with this PSN, counted from first_psn, once; 0: none */
	uint32_t asked[MOST];            /* PSNs of read requests, in the order they were sent */
};

static bool hear(void *context, const struct vb_roce_packet *packet)
{
	struct ear *ear = context;
	uint32_t number = (packet->psn.v - ear->first_psn) & VB_PSN_MASK;
	bool lost = false;

	if (packet->op->service == VB_SERVICE_VENDOR)
		return !ear->knows_no_probes;
	assert_true(number < MOST && ear->requests < MOST);
	if (packet->op->kind == VB_KIND_READ_REQUEST) {
		ear->asked[ear->requests++] = number;
		if (number == ear->lose_request && number != 0) {
			ear->lose_request = 0;
			return false;
		}
	}
	if (packet->op->kind != VB_KIND_READ_RESPONSE)
		return true;
	for (unsigned i = 0; i < ear->losses; i++)
		lost |= ear->lose[i] == number && ear->times[number] < (ear->lose_times ? ear->lose_times : 1);
	ear->times[number]++;
	ear->responses++;
	ear->lost += lost;
	return !lost;
}

static void open_pair(struct pair *pair, struct ear *ear, uint64_t seed)
{
	struct vb_transport_status status;

	pair_open(pair, seed, false, &sim_usual, MEMORY);
	pair_fill(pair, &pair->b_memory, MEMORY);
	memset(ear, 0, sizeof(*ear));
	vb_roce_query(pair->a, &status);
	ear->first_psn = status.send;
	pair->sim->network.filter = hear;
	pair->sim->network.filter_context = ear;
}

static void lose(struct ear *ear, const uint32_t *lost, unsigned count)
{
	memcpy(ear->lose, lost, count * sizeof(*lost));
	ear->losses = count;
}

static void expect_no_timeout(const struct pair *pair)
{
	assert_int_equal(pair->hosts[0]->counters.local_ack_timeout_err, 0);
}

static void a_lost_response_costs_one_request_and_one_response(void **state)
{
	/* Neighbours are one gap; the first of all; the last but one. */
	static const uint32_t lost[] = {0, 3, 4, 30, 60, 62};
	enum { PACKETS = 64 };
	struct pair pair;
	struct ear ear;

	(void)state;
	open_pair(&pair, &ear, 1);
	lose(&ear, lost, 6);
	pair_post(&pair, IBV_WR_RDMA_READ, PACKETS * MTU, 1);
	sim_run(pair.sim);
	expect_send(pair.a_cq, 1, IBV_WC_SUCCESS);
	assert_memory_equal(pair.a_memory.bytes, pair.b_memory.bytes, PACKETS * MTU);
	assert_int_equal(ear.responses, PACKETS + ear.lost);
	expect_no_timeout(&pair);
	pair_close(&pair);
}

/* A responder may forget what lies before the part that it was asked for last. */
static void what_is_asked_again_never_lies_before_what_was(void **state)
{
	static const uint32_t lost[] = {2, 9, 10, 40};
	struct pair pair;
	struct ear ear;

	(void)state;
	open_pair(&pair, &ear, 2);
	lose(&ear, lost, 4);
	ear.knows_no_probes = true;
	pair_post(&pair, IBV_WR_RDMA_READ, 64 * MTU, 1);
	sim_run(pair.sim);
	expect_send(pair.a_cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(ear.asked[0], 0);
	for (unsigned i = 1, before = 0; i < ear.requests; i++) {
		/* New pieces lie behind all that was asked. */
		if (ear.times[ear.asked[i]] < 2)
			continue;
		assert_true(ear.asked[i] >= before);
		before = ear.asked[i];
	}
	pair_close(&pair);
}

/* A peer that answers probes is asked for every gap when it is seen: they take one round trip, and not one each. */
static void gaps_are_asked_for_at_once(void **state)
{
	static const uint32_t lost[] = {70, 75, 80, 90, 100, 103, 110, 120};
	vb_time took[2];

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct pair pair;
		struct ibv_wc wc;
		struct ear ear;
		vb_time began;

		open_pair(&pair, &ear, 3);
		ear.knows_no_probes = i == 1;
		/* The first loss, which shows what kind of peer it is. */
		lose(&ear, (const uint32_t[]){3}, 1);
		pair_post(&pair, IBV_WR_RDMA_READ, 64 * MTU, 1);
		sim_run(pair.sim);
		expect_send(pair.a_cq, 1, IBV_WC_SUCCESS);
		lose(&ear, lost, 8);
		ear.lost = ear.responses = ear.requests = 0;
		began = pair.sim->now;
		pair_post(&pair, IBV_WR_RDMA_READ, 64 * MTU, 2);
		assert_true(sim_wait(pair.sim, pair.a_cq, &wc, VB_SECONDS(1)));
		took[i] = pair.sim->now - began;
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_memory_equal(pair.a_memory.bytes, pair.b_memory.bytes, 64 * MTU);
		assert_int_equal(ear.lost, 8);
		assert_int_equal(ear.requests, 1 + 8);
		assert_int_equal(ear.responses, 64 + 8);
		expect_no_timeout(&pair);
		pair_close(&pair);
	}
	assert_true(took[0] < took[1] / 3);
}

/* Of several requests one is lost, and a response to the one before it, too. It alone is sent again, and all that follow
 * are answered once. */
static void a_lost_request_is_sent_again_alone(void **state)
{
	for (unsigned response = 0; response < 2; response++) {
		struct pair pair;
		struct ear ear;

		(void)state;
		open_pair(&pair, &ear, 4);
		lose(&ear, (const uint32_t[]){3}, 1);
		pair_post(&pair, IBV_WR_RDMA_READ, 64 * MTU, 1);
		sim_run(pair.sim);
		expect_send(pair.a_cq, 1, IBV_WC_SUCCESS);
		lose(&ear, (const uint32_t[]){70}, response);
		ear.lose_request = 128;
		ear.lost = ear.responses = ear.requests = 0;
		for (unsigned i = 2; i < 6; i++)
			pair_post_at(&pair, IBV_WR_RDMA_READ, i * 64 * MTU, i * 64 * MTU, 64 * MTU, i);
		sim_run(pair.sim);
		for (unsigned i = 2; i < 6; i++)
			expect_send(pair.a_cq, i, IBV_WC_SUCCESS);
		assert_memory_equal(pair.a_memory.bytes + 2 * 64 * MTU, pair.b_memory.bytes + 2 * 64 * MTU, 4 * 64 * MTU);
		assert_int_equal(ear.lost, response);
		assert_int_equal(ear.responses, 4 * 64 + response);
		expect_no_timeout(&pair);
		pair_close(&pair);
	}
}

static void a_response_may_be_lost_again(void **state)
{
	static const uint32_t lost[] = {7};
	struct pair pair;
	struct ear ear;

	(void)state;
	for (unsigned times = 2; times < 5; times++) {
		open_pair(&pair, &ear, times);
		lose(&ear, lost, 1);
		ear.lose_times = times;
		pair_post(&pair, IBV_WR_RDMA_READ, 512 * MTU, 1);
		pair_post(&pair, IBV_WR_RDMA_READ, 64 * MTU, 2);
		sim_run(pair.sim);
		expect_send(pair.a_cq, 1, IBV_WC_SUCCESS);
		expect_send(pair.a_cq, 2, IBV_WC_SUCCESS);
		assert_memory_equal(pair.a_memory.bytes, pair.b_memory.bytes, 512 * MTU);
		pair_close(&pair);
	}
}

/* Whoever knows the queue pair's number and about where its PSNs are can send a response ahead of the peer's. */
static void a_forged_response_is_not_taken(void **state)
{
	static const uint32_t lost[] = {5};
	uint8_t forged[MTU] = "forged";
	struct vb_roce_packet packet = {.opcode = 0x0e, .op = vb_roce_opcode(0x0e), .pkey = VB_DEFAULT_PKEY};
	struct pair pair;
	struct ear ear;

	(void)state;
	for (uint32_t number = 6; number < 60; number += 13) {
		open_pair(&pair, &ear, number);
		lose(&ear, lost, 1);
		pair_post(&pair, IBV_WR_RDMA_READ, 64 * MTU, 1);
		sim_run_to(pair.sim, pair.sim->now + 1);
		packet.psn = psn_of(ear.first_psn + number);
		packet.payload = forged;
		packet.payload_length = MTU;
		sim_inject(pair.a, &packet);
		sim_run(pair.sim);
		expect_send(pair.a_cq, 1, IBV_WC_SUCCESS);
		assert_memory_equal(pair.a_memory.bytes, pair.b_memory.bytes, 64 * MTU);
		pair_close(&pair);
	}
}

/* The last of those that came ahead may be one that does not count any more, because another with its PSN was unlike it. */
static void the_last_may_be_taken_back(void **state)
{
	static struct vb_roce_requester requester;

	(void)state;
	requester.acknowledged = psn_of(100);
	assert_true(vb_roce_early_add(&requester, psn_of(103)));
	assert_true(vb_roce_early_add(&requester, psn_of(110)));
	vb_roce_early_remove(&requester, psn_of(110));
	assert_int_equal(vb_roce_early_gap(&requester), 3);
	/* As far as responses are kept, and not once around all PSNs. */
	assert_true(vb_roce_early_gap_at(&requester, psn_of(104)) <= 2048);
	vb_roce_early_close(&requester);
}

static void a_queue_pair_may_end_while_responses_wait(void **state)
{
	static const uint32_t lost[] = {2};

	(void)state;
	for (unsigned how = 0; how < 3; how++) {
		struct pair pair;
		struct ear ear;

		open_pair(&pair, &ear, how);
		lose(&ear, lost, 1);
		ear.lose_times = MOST;
		pair_post(&pair, IBV_WR_RDMA_READ, 200 * MTU, 1);
		sim_run_to(pair.sim, pair.sim->now + VB_MICROSECONDS(200));
		if (how > 0)
			assert_int_equal(sim_modify_state(pair.a, IBV_QPS_ERR), 0);
		if (how > 1)
			assert_int_equal(sim_modify_state(pair.a, IBV_QPS_RESET), 0);
		pair_close(&pair);
	}
}

/* Reads with writes between them, and every packet may be lost, doubled or late: in order, and every byte right. */
static void reads_among_others(void **state)
{
	enum { ROUNDS = 60 };

	(void)state;
	for (uint64_t seed = 1; seed <= 12; seed++) {
		struct pair pair;

		pair_open(&pair, seed, false, &sim_usual, MEMORY);
		pair_fill(&pair, &pair.b_memory, MEMORY);
		pair.sim->network.loss = SIM_MILLION / 100;
		pair.sim->network.duplication = seed % 3 == 0 ? SIM_MILLION / 100 : 0;
		pair.sim->network.reorder = seed % 4 == 0 ? SIM_MILLION / 100 : 0;
		pair.sim->network.reorder_delay = VB_MICROSECONDS(50);
		for (unsigned round = 0; round < ROUNDS; round++) {
			uint32_t length = 1 + sim_below(pair.sim, 90 * MTU);
			uint64_t at = MEMORY / 2 + sim_below(pair.sim, MEMORY / 2 - 90 * MTU);
			struct ibv_wc wc;

			pair_post_at(&pair, IBV_WR_RDMA_READ, 0, at, length, 1);
			pair_post_at(&pair, IBV_WR_RDMA_WRITE, MEMORY / 2, 0, 5 * MTU, 2);
			pair_post_at(&pair, IBV_WR_RDMA_READ, 100 * MTU, at, length, 3);
			pair_post_at(&pair, IBV_WR_RDMA_READ, 200 * MTU, at, 10, 4);
			pair_post_at(&pair, IBV_WR_RDMA_READ, 201 * MTU, at, length, 5);
			for (unsigned i = 1; i <= 5; i++) {
				assert_true(sim_wait(pair.sim, pair.a_cq, &wc, VB_SECONDS(100)));
				assert_int_equal(wc.status, IBV_WC_SUCCESS);
				assert_int_equal(wc.wr_id, i);
				/* What was told is there, whatever is still missing. */
				if (i == 1)
					assert_memory_equal(pair.a_memory.bytes, pair.b_memory.bytes + at, length);
				if (i == 3)
					assert_memory_equal(pair.a_memory.bytes + 100 * MTU, pair.b_memory.bytes + at, length);
			}
			assert_memory_equal(pair.a_memory.bytes + 200 * MTU, pair.b_memory.bytes + at, 10);
			assert_memory_equal(pair.a_memory.bytes + 201 * MTU, pair.b_memory.bytes + at, length);
			pair_fill(&pair, &pair.b_memory, MEMORY);
			sim_run(pair.sim);
		}
		pair_close(&pair);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lost_response_costs_one_request_and_one_response),
		cmocka_unit_test(what_is_asked_again_never_lies_before_what_was),
		cmocka_unit_test(gaps_are_asked_for_at_once),
		cmocka_unit_test(a_lost_request_is_sent_again_alone),
		cmocka_unit_test(a_response_may_be_lost_again),
		cmocka_unit_test(a_forged_response_is_not_taken),
		cmocka_unit_test(the_last_may_be_taken_back),
		cmocka_unit_test(a_queue_pair_may_end_while_responses_wait),
		cmocka_unit_test(reads_among_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
