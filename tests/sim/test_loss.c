/* SPDX-License-Identifier: MIT
 *
 * What a lost packet costs between two of us: one packet, and nothing is executed out of turn meanwhile. And that a requester
 * finds out what its peer does with packets that come ahead of a missing one, and falls back to what every peer understands.
 */
#include "sim/testing.h"

enum { MTU = 1024, MOST_SEEN = 4096 };

/* Sees every packet that leaves; loses requests by how often they and their PSN were seen, and some answers. */
struct ear {
	bool swallow;                    /* everything */
	uint32_t first_psn;
	uint32_t lose[8];                /* packets, counted from first_psn, that are lost the first time */
	unsigned losses;
	uint64_t kept_back;              /* this one is lost every time; UINT64_MAX: none */
	int lose_answer;                 /* the n-th acknowledgement or NAK from now on; 0: none */
	unsigned times[MOST_SEEN];
	unsigned count, requests, naks, answers;
	uint32_t psn[MOST_SEEN];         /* of the requests, in the order they were sent */
	bool asks[MOST_SEEN];
};

static bool hear(void *context, const struct vb_roce_packet *packet)
{
	struct ear *ear = context;
	uint32_t number = (packet->psn.v - ear->first_psn) & VB_PSN_MASK;
	bool lost = false;

	if (!packet->op->is_request) {
		ear->answers++;
		if ((packet->aeth.syndrome & VB_AETH_TYPE_MASK) == VB_AETH_NAK)
			ear->naks++;
		return !ear->swallow && (ear->lose_answer == 0 || --ear->lose_answer != 0);
	}
	assert_true(number < MOST_SEEN && ear->requests < MOST_SEEN);
	ear->psn[ear->requests] = number;
	ear->asks[ear->requests++] = packet->ack_request;
	for (unsigned i = 0; i < ear->losses; i++)
		lost |= ear->lose[i] == number && ear->times[number] == 0;
	ear->times[number]++;
	return !ear->swallow && !lost && number != ear->kept_back;
}

static void listen(struct pair *pair, struct ear *ear)
{
	struct vb_transport_status status;

	memset(ear, 0, sizeof(*ear));
	ear->kept_back = UINT64_MAX;
	vb_roce_query(pair->a, &status);
	ear->first_psn = status.send;
	pair->sim->network.filter = hear;
	pair->sim->network.filter_context = ear;
}

static void open_pair(struct pair *pair, struct ear *ear)
{
	pair_open(pair, 7, false, &sim_usual, 1 << 20);
	pair_fill(pair, &pair->a_memory, 1 << 20);
	listen(pair, ear);
}

static void answer(struct pair *pair, const struct ear *ear, uint32_t number, uint8_t syndrome)
{
	struct vb_roce_packet packet = {.opcode = 0x11, .pkey = VB_DEFAULT_PKEY, .psn = psn_of(ear->first_psn + number)};

	packet.op = vb_roce_opcode(packet.opcode);
	packet.aeth.syndrome = syndrome;
	sim_inject(pair->a, &packet);
	sim_run_to(pair->sim, pair->sim->now + VB_MICROSECONDS(1));
}

static void acknowledge(struct pair *pair, const struct ear *ear, uint32_t number)
{
	answer(pair, ear, number, VB_AETH_ACK | VB_AETH_NO_CREDITS);
}

static void complain(struct pair *pair, const struct ear *ear, uint32_t number)
{
	answer(pair, ear, number, VB_AETH_NAK | VB_NAK_PSN_SEQUENCE_ERROR);
}

/* The requests after the first `from` that were seen are those numbered first..last, and no more. */
static void expect_sent(const struct ear *ear, unsigned from, uint32_t first, uint32_t last)
{
	assert_int_equal(ear->requests - from, last - first + 1);
	for (uint32_t i = first; i <= last; i++)
		assert_int_equal(ear->psn[from + i - first], i);
}

static void a_lost_packet_costs_one_packet(void **state)
{
	static const uint32_t lost[] = {3, 9, 40, 62};
	struct pair pair;
	struct ear ear;

	(void)state;
	for (unsigned first = 0; first < 2; first++) {
		open_pair(&pair, &ear);
		/* The second time the peer is known. */
		for (unsigned round = 0; round <= first; round++) {
			listen(&pair, &ear);
			memcpy(ear.lose, lost, sizeof(lost));
			ear.losses = sizeof(lost) / sizeof(lost[0]);
			pair_post(&pair, IBV_WR_RDMA_WRITE, 64 * MTU, round);
			sim_run(pair.sim);
			expect_send(pair.a_cq, round, IBV_WC_SUCCESS);
			assert_int_equal(ear.requests, 64 + ear.losses);
			assert_int_equal(ear.naks, ear.losses);
		}
		assert_memory_equal(pair.a_memory.bytes, pair.b_memory.bytes, 64 * MTU);
		assert_int_equal(pair.hosts[0]->counters.local_ack_timeout_err, 0);
		pair_close(&pair);
	}
}

/* Ten SENDs and a WRITE, of which a packet near the beginning does not come for a while. */
static void nothing_is_executed_out_of_turn(void **state)
{
	static const uint8_t nothing[4 * MTU];
	struct pair pair;
	struct ibv_wc wc;
	struct ear ear;

	(void)state;
	open_pair(&pair, &ear);
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(sim_post_receive(pair.b, pair.b_memory.bytes + i * 4 * MTU, 4 * MTU, pair.b_memory.key, i), 0);
	ear.kept_back = 5;
	for (unsigned i = 0; i < 10; i++)
		pair_post_at(&pair, IBV_WR_SEND, i * 4 * MTU, 0, 4 * MTU, i);
	pair_post_at(&pair, IBV_WR_RDMA_WRITE, 40 * MTU, 40 * MTU, 4 * MTU, 10);
	sim_run_to(pair.sim, pair.sim->now + VB_MILLISECONDS(10));
	expect_send(pair.b_cq, 0, IBV_WC_SUCCESS);
	assert_false(sim_poll(pair.b_cq, &wc));
	assert_memory_equal(pair.b_memory.bytes, pair.a_memory.bytes, 5 * MTU);
	assert_memory_equal(pair.b_memory.bytes + 5 * MTU, nothing, 3 * MTU);
	for (unsigned i = 2; i <= 10; i++)
		assert_memory_equal(pair.b_memory.bytes + i * 4 * MTU, nothing, 4 * MTU);
	ear.kept_back = UINT64_MAX;
	sim_run(pair.sim);
	for (unsigned i = 1; i < 10; i++)
		expect_send(pair.b_cq, i, IBV_WC_SUCCESS);
	for (unsigned i = 0; i <= 10; i++)
		expect_send(pair.a_cq, i, IBV_WC_SUCCESS);
	assert_memory_equal(pair.a_memory.bytes, pair.b_memory.bytes, 44 * MTU);
	pair_close(&pair);
}

/* A receive that is missing is told when its turn comes, not when the packet came. */
static void kept_packets_may_find_no_receive(void **state)
{
	struct pair pair;
	struct ear ear;

	(void)state;
	open_pair(&pair, &ear);
	ear.lose[0] = 0;
	ear.losses = 1;
	assert_int_equal(sim_post_receive(pair.b, pair.b_memory.bytes, MTU, pair.b_memory.key, 0), 0);
	for (unsigned i = 0; i < 3; i++)
		pair_post_at(&pair, IBV_WR_SEND, i * MTU, 0, MTU, i);
	sim_run_to(pair.sim, pair.sim->now + VB_MILLISECONDS(10));
	expect_send(pair.b_cq, 0, IBV_WC_SUCCESS);
	assert_true(pair.hosts[1]->counters.send_rnr_err > 0);
	for (unsigned i = 1; i < 3; i++)
		assert_int_equal(sim_post_receive(pair.b, pair.b_memory.bytes + i * MTU, MTU, pair.b_memory.key, i), 0);
	sim_run(pair.sim);
	for (unsigned i = 1; i < 3; i++)
		expect_send(pair.b_cq, i, IBV_WC_SUCCESS);
	assert_memory_equal(pair.a_memory.bytes, pair.b_memory.bytes, 3 * MTU);
	pair_close(&pair);
}

/* What stands where the responses to a read belong was no request, whenever it came. */
static void kept_packets_make_way_for_a_read(void **state)
{
	struct vb_roce_packet packet = {.opcode = 0x04, .op = vb_roce_opcode(0x04), .pkey = VB_DEFAULT_PKEY};
	struct vb_transport_status before, after;
	struct pair pair;
	struct ear ear;

	(void)state;
	open_pair(&pair, &ear);
	vb_roce_query(pair.b, &before);
	packet.psn = psn_of(before.expected + 2);
	sim_inject(pair.b, &packet);
	pair_post(&pair, IBV_WR_RDMA_READ, 5 * MTU, 1);
	pair_post(&pair, IBV_WR_RDMA_WRITE, 5 * MTU, 2);
	sim_run(pair.sim);
	expect_send(pair.a_cq, 1, IBV_WC_SUCCESS);
	expect_send(pair.a_cq, 2, IBV_WC_SUCCESS);
	vb_roce_query(pair.b, &after);
	assert_int_equal(after.expected, (before.expected + 10) & VB_PSN_MASK);
	/* One for the packet that was injected, none after. */
	assert_true(ear.naks <= 1);
	pair_close(&pair);
}

/* Whichever answer is lost while the window is full of kept packets, it is asked for in less than a timeout. */
static void a_lost_answer_is_asked_for(void **state)
{
	(void)state;
	for (int lost = 1; lost <= 4; lost++) {
		struct pair pair;
		struct ear ear;
		vb_time began;
		struct ibv_wc wc;

		open_pair(&pair, &ear);
		/* So that round trips are known. */
		pair_post(&pair, IBV_WR_RDMA_WRITE, 64 * MTU, 0);
		sim_run(pair.sim);
		expect_send(pair.a_cq, 0, IBV_WC_SUCCESS);
		listen(&pair, &ear);
		ear.lose[0] = 10;
		ear.lose[1] = 30;
		ear.losses = 2;
		ear.lose_answer = lost;
		began = pair.sim->now;
		pair_post(&pair, IBV_WR_RDMA_WRITE, 64 * MTU, 1);
		assert_true(sim_wait(pair.sim, pair.a_cq, &wc, VB_SECONDS(10)));
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_true(pair.sim->now - began < VB_MILLISECONDS(2));
		assert_int_equal(pair.hosts[0]->counters.local_ack_timeout_err, 0);
		assert_memory_equal(pair.a_memory.bytes, pair.b_memory.bytes, 64 * MTU);
		sim_run(pair.sim);
		pair_close(&pair);
	}
}

/* So is a packet that is lost a second time. */
static void a_selective_retransmit_may_be_lost(void **state)
{
	struct pair pair;
	struct ear ear;

	(void)state;
	open_pair(&pair, &ear);
	pair_post(&pair, IBV_WR_RDMA_WRITE, 64 * MTU, 0);
	sim_run(pair.sim);
	expect_send(pair.a_cq, 0, IBV_WC_SUCCESS);
	listen(&pair, &ear);
	ear.kept_back = 10;
	pair_post(&pair, IBV_WR_RDMA_WRITE, 64 * MTU, 1);
	while (ear.times[10] < 2)
		sim_run_to(pair.sim, pair.sim->now + VB_MICROSECONDS(1));
	ear.kept_back = UINT64_MAX;
	sim_run(pair.sim);
	expect_send(pair.a_cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(pair.hosts[0]->counters.local_ack_timeout_err, 0);
	assert_memory_equal(pair.a_memory.bytes, pair.b_memory.bytes, 64 * MTU);
	pair_close(&pair);
}

/* A WRITE of twenty packets is under way, to a peer that we play. */
static void open_with_twenty_sent(struct pair *pair, struct ear *ear)
{
	open_pair(pair, ear);
	ear->swallow = true;
	pair_post(pair, IBV_WR_RDMA_WRITE, 20 * MTU, 1);
	sim_run_to(pair->sim, pair->sim->now + VB_MICROSECONDS(1));
	expect_sent(ear, 0, 0, 19);
}

static void a_peer_that_drops_is_found_out(void **state)
{
	struct pair pair;
	struct ear ear;
	unsigned seen;

	(void)state;
	open_with_twenty_sent(&pair, &ear);
	seen = ear.requests;
	complain(&pair, &ear, 3);
	expect_sent(&ear, seen, 3, 3);
	assert_true(ear.asks[seen]);
	/* What is posted meanwhile waits. */
	pair_post(&pair, IBV_WR_RDMA_WRITE, MTU, 2);
	sim_run_to(pair.sim, pair.sim->now + VB_MICROSECONDS(1));
	assert_int_equal(ear.requests, seen + 1);
	seen = ear.requests;
	acknowledge(&pair, &ear, 3);
	expect_sent(&ear, seen, 4, 20);
	/* From now on at once. */
	seen = ear.requests;
	complain(&pair, &ear, 10);
	expect_sent(&ear, seen, 10, 20);
	acknowledge(&pair, &ear, 20);
	expect_send(pair.a_cq, 1, IBV_WC_SUCCESS);
	expect_send(pair.a_cq, 2, IBV_WC_SUCCESS);
	pair_close(&pair);
}

static void a_peer_that_keeps_is_found_out(void **state)
{
	struct pair pair;
	struct ear ear;
	unsigned seen;

	(void)state;
	open_with_twenty_sent(&pair, &ear);
	seen = ear.requests;
	complain(&pair, &ear, 3);
	expect_sent(&ear, seen, 3, 3);
	/* Far beyond: it had the rest. The next is missing, too, and the network says so twice. */
	seen = ear.requests;
	complain(&pair, &ear, 9);
	complain(&pair, &ear, 9);
	expect_sent(&ear, seen, 9, 9);
	/* New ones do not wait. */
	seen = ear.requests;
	pair_post(&pair, IBV_WR_RDMA_WRITE, MTU, 2);
	sim_run_to(pair.sim, pair.sim->now + VB_MICROSECONDS(1));
	expect_sent(&ear, seen, 20, 20);
	/* Many in a row: single packets would take as many round trips. */
	seen = ear.requests;
	complain(&pair, &ear, 10);
	expect_sent(&ear, seen, 10, 10);
	seen = ear.requests;
	complain(&pair, &ear, 11);
	expect_sent(&ear, seen, 11, 20);
	acknowledge(&pair, &ear, 20);
	expect_send(pair.a_cq, 1, IBV_WC_SUCCESS);
	expect_send(pair.a_cq, 2, IBV_WC_SUCCESS);
	pair_close(&pair);
}

/* It kept, and then it did not, for want of memory perhaps. */
static void a_peer_may_stop_keeping(void **state)
{
	struct pair pair;
	struct ear ear;
	unsigned seen;

	(void)state;
	open_with_twenty_sent(&pair, &ear);
	complain(&pair, &ear, 3);
	complain(&pair, &ear, 9);
	seen = ear.requests;
	acknowledge(&pair, &ear, 9);
	expect_sent(&ear, seen, 10, 19);
	acknowledge(&pair, &ear, 19);
	expect_send(pair.a_cq, 1, IBV_WC_SUCCESS);
	pair_close(&pair);
}

/* Two in a row are missing, and the NAK that told of the second was lost: the repetition of the first is answered for that alone. */
static void an_answer_to_a_repetition_proves_nothing(void **state)
{
	struct pair pair;
	struct ear ear;
	unsigned seen;

	(void)state;
	open_with_twenty_sent(&pair, &ear);
	complain(&pair, &ear, 3);
	seen = ear.requests;
	complain(&pair, &ear, 9);
	expect_sent(&ear, seen, 9, 9);
	while (ear.requests < seen + 3)
		sim_run_to(pair.sim, pair.sim->now + VB_MICROSECONDS(10));
	assert_int_equal(ear.psn[seen + 2], 9);
	seen = ear.requests;
	acknowledge(&pair, &ear, 9);
	expect_sent(&ear, seen, 10, 10);
	/* It was alone, and so is the next one. */
	seen = ear.requests;
	acknowledge(&pair, &ear, 14);
	complain(&pair, &ear, 15);
	expect_sent(&ear, seen, 15, 15);
	acknowledge(&pair, &ear, 19);
	expect_send(pair.a_cq, 1, IBV_WC_SUCCESS);
	pair_close(&pair);
}

/* Nor does a single one that was taken for an answer to something else. But many do. */
static void a_peer_that_has_kept_is_asked_often(void **state)
{
	enum { DOUBTS = 8 };
	struct pair pair;
	struct ear ear;
	unsigned seen;

	(void)state;
	open_with_twenty_sent(&pair, &ear);
	complain(&pair, &ear, 0);
	/* It keeps, and at the first doubt that is not certain any more. */
	complain(&pair, &ear, 2);
	for (uint32_t number = 2; number < 2 + DOUBTS; number++) {
		seen = ear.requests;
		acknowledge(&pair, &ear, number);
		expect_sent(&ear, seen, number + 1, 19);
		seen = ear.requests;
		complain(&pair, &ear, number + 1);
		expect_sent(&ear, seen, number + 1, number + 1);
	}
	acknowledge(&pair, &ear, 2 + DOUBTS);
	seen = ear.requests;
	complain(&pair, &ear, 12);
	expect_sent(&ear, seen, 12, 19);
	acknowledge(&pair, &ear, 19);
	expect_send(pair.a_cq, 1, IBV_WC_SUCCESS);
	pair_close(&pair);
}

/* The end of a message that nothing waits for does not ask for an acknowledgement, for one of those behind it will; here the one
 * behind it fails before it is sent, and is told when the first is done. What is sent again asks, because a duplicate
 * that does not gets no answer. */
static void what_is_sent_again_asks_for_an_answer(void **state)
{
	struct pair pair;
	struct ear ear;

	(void)state;
	open_pair(&pair, &ear);
	pair.flags = 0;
	pair_post(&pair, IBV_WR_RDMA_WRITE, 2 * MTU, 1);
	pair.flags = IBV_SEND_SIGNALED;
	pair.a_memory.key ^= 0xff;
	pair_post(&pair, IBV_WR_RDMA_WRITE, MTU, 2);
	pair.a_memory.key ^= 0xff;
	sim_run(pair.sim);
	assert_false(ear.asks[1]);
	assert_int_equal(ear.psn[ear.requests - 1], 1);
	assert_true(ear.asks[ear.requests - 1]);
	expect_send(pair.a_cq, 2, IBV_WC_LOC_PROT_ERR);
	pair_close(&pair);
}

/* An attacker who guesses the QPN and any PSN within reach gets a packet in before the peer's own comes. It is not executed: the two
 * contradict each other, and the PSN is asked for again. */
static void a_forged_packet_that_came_first_is_not_taken(void **state)
{
	for (unsigned before = 0; before < 2; before++) {
		struct vb_roce_packet forged = {.opcode = 0x07, .op = vb_roce_opcode(0x07), .pkey = 0xffff, .payload_length = MTU};
		uint8_t bytes[MTU] = {0xbd};
		struct pair pair;
		struct ear ear;

		(void)state;
		open_pair(&pair, &ear);
		ear.losses = 1;
		forged.psn = psn_of(ear.first_psn + 2);
		forged.payload = bytes;
		if (before)
			sim_inject(pair.b, &forged);
		pair_post(&pair, IBV_WR_RDMA_WRITE, 6 * MTU, 1);
		sim_run_to(pair.sim, pair.sim->now + VB_MICROSECONDS(12));
		if (!before) {
			assert_int_equal(ear.times[0], 1);
			sim_inject(pair.b, &forged);
		}
		sim_run(pair.sim);
		expect_send(pair.a_cq, 1, IBV_WC_SUCCESS);
		assert_memory_equal(pair.a_memory.bytes, pair.b_memory.bytes, 6 * MTU);
		assert_int_equal(pair.hosts[1]->counters.conflicting_request, 1);
		assert_int_equal(ear.times[2], 2);
		pair_close(&pair);
	}
}

/* The same of each packet of a WRITE but the first and the last, some of which are in their places by then (roce/bulk_ahead.c). */
static void a_forged_packet_that_comes_second_is_not_taken(void **state)
{
	enum { PACKETS = 12 };

	(void)state;
	for (unsigned number = 2; number < PACKETS - 1; number++) {
		struct vb_roce_packet forged = {.opcode = 0x07, .op = vb_roce_opcode(0x07), .pkey = 0xffff, .payload_length = MTU};
		uint8_t bytes[MTU] = {0xbd};
		struct pair pair;
		struct ear ear;

		open_pair(&pair, &ear);
		ear.kept_back = 1;
		forged.psn = psn_of(ear.first_psn + number);
		forged.payload = bytes;
		pair_post(&pair, IBV_WR_RDMA_WRITE, PACKETS * MTU, 1);
		sim_run_to(pair.sim, pair.sim->now + VB_MICROSECONDS(100));
		sim_inject(pair.b, &forged);
		sim_run_to(pair.sim, pair.sim->now + VB_MICROSECONDS(1));
		assert_int_equal(pair.hosts[1]->counters.conflicting_request, 1);
		ear.kept_back = UINT64_MAX;
		sim_run(pair.sim);
		expect_send(pair.a_cq, 1, IBV_WC_SUCCESS);
		assert_memory_equal(pair.a_memory.bytes, pair.b_memory.bytes, PACKETS * MTU);
		assert_int_equal(pair.hosts[1]->counters.conflicting_request, 1);
		assert_true(ear.times[number] > 1);
		pair_close(&pair);
	}
}

/* What came ahead in the WRITE under way goes to its place (roce/bulk_ahead.c), but for the end of the message, which an application may be
 * watching for; nothing of the next one does. */
static void what_came_ahead_in_a_write_is_in_its_place(void **state)
{
	static const uint8_t nothing[8 * MTU];
	enum { PACKETS = 40 };
	struct pair pair;
	struct ear ear;
	uint64_t before, placed;

	(void)state;
	open_pair(&pair, &ear);
	ear.kept_back = 3;
	pair_post(&pair, IBV_WR_RDMA_WRITE, PACKETS * MTU, 1);
	pair_post_at(&pair, IBV_WR_RDMA_WRITE, PACKETS * MTU, PACKETS * MTU, 8 * MTU, 2);
	before = pair.sim->packets_in_bulk;
	sim_run_to(pair.sim, pair.sim->now + VB_MILLISECONDS(10));
	placed = 0;
	for (unsigned i = 4; i < PACKETS - 1; i++)
		placed += memcmp(pair.b_memory.bytes + i * MTU, pair.a_memory.bytes + i * MTU, MTU) == 0;
	assert_true(placed > PACKETS / 2 && pair.sim->packets_in_bulk - before >= placed);
	assert_memory_equal(pair.b_memory.bytes + 3 * MTU, nothing, MTU);
	assert_memory_equal(pair.b_memory.bytes + (PACKETS - 1) * MTU, nothing, MTU);
	assert_memory_equal(pair.b_memory.bytes + PACKETS * MTU, nothing, 8 * MTU);
	assert_int_equal(ear.naks, 1);
	ear.kept_back = UINT64_MAX;
	sim_run(pair.sim);
	expect_send(pair.a_cq, 1, IBV_WC_SUCCESS);
	expect_send(pair.a_cq, 2, IBV_WC_SUCCESS);
	assert_memory_equal(pair.a_memory.bytes, pair.b_memory.bytes, (PACKETS + 8) * MTU);
	pair_close(&pair);
}

/* The region goes while a packet is missing: what is in its place stays, and the message is refused. */
static void a_region_may_go_while_packets_are_in_their_places(void **state)
{
	struct pair pair;
	struct ear ear;

	(void)state;
	open_pair(&pair, &ear);
	ear.kept_back = 3;
	pair_post(&pair, IBV_WR_RDMA_WRITE, 40 * MTU, 1);
	sim_run_to(pair.sim, pair.sim->now + VB_MILLISECONDS(1));
	sim_region_free(&pair.b_memory);
	ear.kept_back = UINT64_MAX;
	sim_run(pair.sim);
	expect_send(pair.a_cq, 1, IBV_WC_REM_ACCESS_ERR);
	pair.b_memory = sim_region(pair.hosts[1], MTU, IBV_ACCESS_LOCAL_WRITE);
	pair_close(&pair);
}

/* The limit of the above (docs/security.md): nothing contradicts it before its turn has come, and what the peer sends there is a
 * duplicate then. */
static void a_packet_forged_ahead_of_all_is_taken(void **state)
{
	struct vb_roce_packet forged = {.opcode = 0x07, .op = vb_roce_opcode(0x07), .pkey = 0xffff, .payload_length = MTU};
	uint8_t bytes[MTU] = {0xbd};
	struct pair pair;
	struct ear ear;

	(void)state;
	open_pair(&pair, &ear);
	forged.psn = psn_of(ear.first_psn + 2);
	forged.payload = bytes;
	sim_inject(pair.b, &forged);
	pair_post(&pair, IBV_WR_RDMA_WRITE, 6 * MTU, 1);
	sim_run(pair.sim);
	expect_send(pair.a_cq, 1, IBV_WC_SUCCESS);
	assert_memory_equal(pair.b_memory.bytes + 2 * MTU, bytes, MTU);
	assert_memory_equal(pair.a_memory.bytes, pair.b_memory.bytes, 2 * MTU);
	assert_memory_equal(pair.a_memory.bytes + 3 * MTU, pair.b_memory.bytes + 3 * MTU, 3 * MTU);
	assert_true(pair.hosts[1]->counters.duplicate_request > 0);
	pair_close(&pair);
}

/* Packets that are waiting when a queue pair ends are given back. */
static void a_queue_pair_may_end_while_packets_wait(void **state)
{
	(void)state;
	for (unsigned how = 0; how < 3; how++) {
		struct pair pair;
		struct ear ear;

		open_pair(&pair, &ear);
		ear.kept_back = 2;
		pair_post(&pair, IBV_WR_RDMA_WRITE, 200 * MTU, 1);
		sim_run_to(pair.sim, pair.sim->now + VB_MICROSECONDS(200));
		if (how > 0)
			assert_int_equal(sim_modify_state(pair.b, IBV_QPS_ERR), 0);
		if (how > 1)
			assert_int_equal(sim_modify_state(pair.b, IBV_QPS_RESET), 0);
		pair_close(&pair);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lost_packet_costs_one_packet),
		cmocka_unit_test(nothing_is_executed_out_of_turn),
		cmocka_unit_test(kept_packets_may_find_no_receive),
		cmocka_unit_test(kept_packets_make_way_for_a_read),
		cmocka_unit_test(a_lost_answer_is_asked_for),
		cmocka_unit_test(a_selective_retransmit_may_be_lost),
		cmocka_unit_test(a_peer_that_drops_is_found_out),
		cmocka_unit_test(a_peer_that_keeps_is_found_out),
		cmocka_unit_test(a_peer_may_stop_keeping),
		cmocka_unit_test(an_answer_to_a_repetition_proves_nothing),
		cmocka_unit_test(a_peer_that_has_kept_is_asked_often),
		cmocka_unit_test(what_is_sent_again_asks_for_an_answer),
		cmocka_unit_test(a_forged_packet_that_came_first_is_not_taken),
		cmocka_unit_test(a_forged_packet_that_comes_second_is_not_taken),
		cmocka_unit_test(what_came_ahead_in_a_write_is_in_its_place),
		cmocka_unit_test(a_region_may_go_while_packets_are_in_their_places),
		cmocka_unit_test(a_packet_forged_ahead_of_all_is_taken),
		cmocka_unit_test(a_queue_pair_may_end_while_packets_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
