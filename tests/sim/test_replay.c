/* SPDX-License-Identifier: MIT
 *
 * The responder asked twice, and memory that goes away under way. A duplicate atomic gets its first answer and is
 * not executed again; a duplicate read is read again from any of its packets on; what does not match the original
 * is not answered.
 */
#include "roce/roce.h"
#include "sim/testing.h"

enum { READ_REQUEST = 0x0c, FETCH_ADD = 0x14, WRITE_FIRST = 0x06, WRITE_MIDDLE = 0x07, WRITE_LAST = 0x08, WRITE_ONLY = 0x0a };
enum { MAX_ANSWERS = 256, MTU = 1024 };

struct answers {
	unsigned count;
	struct {
		uint8_t opcode;
		uint32_t psn, length, msn;
		uint8_t syndrome;
		uint64_t original;
	} list[MAX_ANSWERS];
};

/* What the responder says, none of which arrives anywhere. */
static bool record(void *context, const struct vb_roce_packet *packet)
{
	struct answers *answers = context;

	assert_true(answers->count < MAX_ANSWERS);
	answers->list[answers->count].opcode = packet->opcode;
	answers->list[answers->count].psn = packet->psn.v;
	answers->list[answers->count].length = packet->payload_length;
	answers->list[answers->count].msn = packet->aeth.msn;
	answers->list[answers->count].syndrome = packet->aeth.syndrome;
	answers->list[answers->count].original = packet->atomic_original;
	answers->count++;
	return false;
}

static void open(struct pair *pair, struct answers *answers, uint8_t resources)
{
	struct sim_connection connection = sim_usual;

	connection.rd_atomic_b = resources;
	connection.psn_a = 0xfffffe;
	pair_open(pair, 1, false, &connection, 65536);
	memset(answers, 0, sizeof(*answers));
	pair->sim->network.filter = record;
	pair->sim->network.filter_context = answers;
}

static void ask(struct pair *pair, uint8_t opcode, uint32_t psn, uint64_t offset, uint32_t length, uint32_t key)
{
	struct vb_roce_packet packet = {.opcode = opcode, .op = vb_roce_opcode(opcode), .pkey = 0xffff};

	packet.psn = psn_of(psn);
	packet.ack_request = true;
	packet.reth.address = packet.atomic.address = (uintptr_t)pair->b_memory.bytes + offset;
	packet.reth.rkey = packet.atomic.rkey = key;
	packet.reth.length = length;
	packet.atomic.swap_or_add = 1;
	if (opcode == WRITE_ONLY) {
		packet.payload = pair->a_memory.bytes;
		packet.payload_length = length;
	}
	sim_inject(pair->b, &packet);
	sim_run(pair->sim);
}

static void atomics_are_executed_once(void **state)
{
	struct answers answers;
	struct pair pair;
	uint64_t value;

	(void)state;
	open(&pair, &answers, 2);
	for (unsigned i = 0; i < 3; i++)
		ask(&pair, FETCH_ADD, 0xfffffe, 0, 0, pair.b_memory.key);
	ask(&pair, FETCH_ADD, 0xffffff, 0, 0, pair.b_memory.key);
	ask(&pair, FETCH_ADD, 0xfffffe, 0, 0, pair.b_memory.key);
	memcpy(&value, pair.b_memory.bytes, 8);
	assert_int_equal(value, 2);
	assert_int_equal(answers.count, 5);
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(answers.list[i].opcode, 0x12);
		assert_int_equal(answers.list[i].original, i == 3 ? 1 : 0);
		assert_int_equal(answers.list[i].psn, i == 3 ? 0xffffff : 0xfffffe);
		assert_int_equal(answers.list[i].msn, i == 3 ? 2 : 1);
	}
	/* The ring of two comes round: the first is forgotten, and a duplicate of it is left without an answer. */
	ask(&pair, FETCH_ADD, 0, 0, 0, pair.b_memory.key);
	ask(&pair, FETCH_ADD, 0xfffffe, 0, 0, pair.b_memory.key);
	memcpy(&value, pair.b_memory.bytes, 8);
	assert_int_equal(value, 3);
	assert_int_equal(answers.count, 6);
	/* A duplicate that means another word is not one. */
	ask(&pair, FETCH_ADD, 0, 8, 0, pair.b_memory.key);
	assert_int_equal(answers.count, 6);
	assert_int_equal(pair.b->state, IBV_QPS_RTS);
	pair_close(&pair);
}

static void expect_read(const struct answers *answers, unsigned from, uint32_t psn, uint32_t length)
{
	uint32_t packets = (length + 1023) / 1024;

	assert_int_equal(answers->count, from + packets);
	for (uint32_t i = 0; i < packets; i++) {
		uint8_t opcode = packets == 1 ? 0x10 : i == 0 ? 0x0d : i == packets - 1 ? 0x0f : 0x0e;

		assert_int_equal(answers->list[from + i].opcode, opcode);
		assert_int_equal(answers->list[from + i].psn, (psn + i) & 0xffffff);
		assert_int_equal(answers->list[from + i].length, i == packets - 1 ? length - i * 1024 : 1024);
	}
}

static void reads_are_answered_from_anywhere(void **state)
{
	struct answers answers;
	struct pair pair;
	unsigned before;

	(void)state;
	open(&pair, &answers, 2);
	ask(&pair, READ_REQUEST, 0xfffffe, 0, 5000, pair.b_memory.key);
	expect_read(&answers, 0, 0xfffffe, 5000);
	/* the rest of it, from its third packet */
	before = answers.count;
	ask(&pair, READ_REQUEST, 0, 2048, 5000 - 2048, pair.b_memory.key);
	expect_read(&answers, before, 0, 5000 - 2048);
	/* one packet of it */
	before = answers.count;
	ask(&pair, READ_REQUEST, 1, 3072, 1024, pair.b_memory.key);
	expect_read(&answers, before, 1, 1024);
	/* its last */
	before = answers.count;
	ask(&pair, READ_REQUEST, 2, 4096, 904, pair.b_memory.key);
	expect_read(&answers, before, 2, 904);
	before = answers.count;
	/* more than it was, other bytes, another key, nothing of it */
	ask(&pair, READ_REQUEST, 0, 2048, 5000, pair.b_memory.key);
	ask(&pair, READ_REQUEST, 0, 1024, 1024, pair.b_memory.key);
	ask(&pair, READ_REQUEST, 0, 2048, 1024, pair.b_memory.key + 1);
	ask(&pair, READ_REQUEST, 0, 2048, 0, pair.b_memory.key);
	assert_int_equal(answers.count, before);
	assert_int_equal(pair.b->state, IBV_QPS_RTS);
	/* and the next new request is the one after it */
	ask(&pair, READ_REQUEST, 3, 0, 100, pair.b_memory.key);
	expect_read(&answers, before, 3, 100);
	assert_int_equal(answers.list[answers.count - 1].msn, 2);
	pair_close(&pair);
}

/* A duplicate WRITE is acknowledged and not executed: what was written since stays. */
static void writes_are_executed_once(void **state)
{
	struct answers answers;
	struct pair pair;

	(void)state;
	open(&pair, &answers, 2);
	memset(pair.a_memory.bytes, 1, 100);
	ask(&pair, WRITE_ONLY, 0xfffffe, 0, 100, pair.b_memory.key);
	memset(pair.b_memory.bytes, 2, 100);
	ask(&pair, WRITE_ONLY, 0xfffffe, 0, 100, pair.b_memory.key);
	assert_int_equal(pair.b_memory.bytes[0], 2);
	assert_int_equal(answers.count, 2);
	assert_int_equal(answers.list[1].opcode, 0x11);
	assert_int_equal(answers.list[1].psn, 0xfffffe);
	assert_int_equal(answers.list[1].msn, 1);
	assert_int_equal(pair.hosts[1]->counters.duplicate_request, 1);
	pair_close(&pair);
}

/* Packet `number` of a WRITE of `of` packets. */
static void inject_piece(struct pair *pair, uint32_t number, uint32_t of, bool asks)
{
	uint8_t opcode = number == 0 ? WRITE_FIRST : number + 1 == of ? WRITE_LAST : WRITE_MIDDLE;
	struct vb_roce_packet packet = {.opcode = opcode, .op = vb_roce_opcode(opcode), .pkey = 0xffff};

	packet.psn = psn_of(0xfffffe + number);
	packet.ack_request = asks;
	packet.reth.address = (uintptr_t)pair->b_memory.bytes;
	packet.reth.rkey = pair->b_memory.key;
	packet.reth.length = of * MTU;
	packet.payload = pair->a_memory.bytes + number * MTU;
	packet.payload_length = MTU;
	sim_inject(pair->b, &packet);
}

/* Of a WRITE of three, of which the last asks for an acknowledgement. */
static void write_piece(struct pair *pair, uint32_t number)
{
	inject_piece(pair, number, 3, number == 2);
	sim_run(pair->sim);
}

/* A message of several packets is repeated: it is acknowledged where it asks for that, and not in its middle. The kernel's
 * rxe, acknowledged in the middle of a repetition, falls silent. */
static void a_duplicate_is_acknowledged_where_it_asks(void **state)
{
	struct answers answers;
	struct pair pair;

	(void)state;
	open(&pair, &answers, 2);
	for (uint32_t number = 0; number < 3; number++)
		write_piece(&pair, number);
	assert_int_equal(answers.count, 1);
	write_piece(&pair, 0);
	write_piece(&pair, 1);
	assert_int_equal(pair.hosts[1]->counters.duplicate_request, 2);
	assert_int_equal(answers.count, 1);
	write_piece(&pair, 2);
	assert_int_equal(answers.count, 2);
	assert_int_equal(answers.list[1].opcode, 0x11);
	assert_int_equal(answers.list[1].psn, 0);
	assert_int_equal(answers.list[1].msn, 1);
	pair_close(&pair);
}

static void expect_acknowledgement(const struct answers *answers, unsigned number, uint8_t syndrome, uint32_t psn)
{
	assert_int_equal(answers->count, number + 1);
	assert_int_equal(answers->list[number].opcode, 0x11);
	assert_int_equal(answers->list[number].syndrome & 0xe0, syndrome & 0xe0);
	assert_int_equal(answers->list[number].psn, psn);
}

enum { NAK = 0x60, ACK = 0x00 };

/* The middle one of three is missing, and the peer was told. */
static void open_with_a_gap(struct pair *pair, struct answers *answers)
{
	open(pair, answers, 2);
	write_piece(pair, 0);
	write_piece(pair, 2);
	expect_acknowledgement(answers, 0, NAK, 0xffffff);
}

/* A packet was missing, the peer was told, and sends it again without asking for an acknowledgement: so it sends all behind it
 * again, and is acknowledged where that asks. rxe, acknowledged at the first of them, would fall silent if its last were lost. */
static void a_gap_is_acknowledged_where_the_repetition_asks(void **state)
{
	struct answers answers;
	struct pair pair;

	(void)state;
	open_with_a_gap(&pair, &answers);
	write_piece(&pair, 1);
	assert_int_equal(answers.count, 1);
	write_piece(&pair, 2);
	expect_acknowledgement(&answers, 1, ACK, 0);
	assert_int_equal(answers.list[1].msn, 1);
	pair_close(&pair);
}

/* The program that has the message ends before the repetition has asked. */
static void a_gap_is_acknowledged_before_the_end(void **state)
{
	struct answers answers;
	struct pair pair;

	(void)state;
	open_with_a_gap(&pair, &answers);
	write_piece(&pair, 1);
	assert_int_equal(answers.count, 1);
	vb_lock_take(&pair.b->lock);
	assert_true(vb_roce_hurry(pair.b));
	assert_false(vb_roce_hurry(pair.b));
	vb_lock_release(&pair.b->lock);
	sim_touch(pair.b);
	sim_run(pair.sim);
	expect_acknowledgement(&answers, 1, ACK, 0);
	pair_close(&pair);
}

/* One that asks for it comes alone: what was kept behind it is acknowledged with it. */
static void a_gap_that_is_filled_alone_is_acknowledged_with_all_behind_it(void **state)
{
	struct answers answers;
	struct pair pair;

	(void)state;
	open_with_a_gap(&pair, &answers);
	inject_piece(&pair, 1, 3, true);
	sim_run(pair.sim);
	expect_acknowledgement(&answers, 1, ACK, 0);
	pair_close(&pair);
}

/* Out of order, and in order again before the peer was told: nothing will be repeated. */
static void a_gap_that_was_not_told_is_acknowledged_at_once(void **state)
{
	struct answers answers;
	struct pair pair;

	(void)state;
	open(&pair, &answers, 2);
	inject_piece(&pair, 0, 3, false);
	inject_piece(&pair, 2, 3, true);
	inject_piece(&pair, 1, 3, false);
	sim_run(pair.sim);
	expect_acknowledgement(&answers, 0, ACK, 0);
	pair_close(&pair);
}

/* A long message is repeated, and asks in its middle, too: up to there it is acknowledged, and whole at its end. A packet that
 * comes alone is acknowledged with all that is there. */
static void a_repetition_is_acknowledged_as_far_as_it_came(void **state)
{
	enum { PACKETS = 8, ASKS = 5, BASE = 0xfffffe };
	struct answers answers;
	struct pair pair;

	(void)state;
	open(&pair, &answers, 2);
	for (uint32_t number = 0; number < PACKETS; number++) {
		inject_piece(&pair, number, PACKETS, number == PACKETS - 1);
		sim_run(pair.sim);
	}
	expect_acknowledgement(&answers, 0, ACK, (BASE + PACKETS - 1) & 0xffffff);
	for (uint32_t number = 0; number <= ASKS; number++) {
		inject_piece(&pair, number, PACKETS, number == ASKS);
		sim_run(pair.sim);
	}
	expect_acknowledgement(&answers, 1, ACK, (BASE + ASKS) & 0xffffff);
	for (uint32_t number = ASKS + 1; number < PACKETS; number++) {
		inject_piece(&pair, number, PACKETS, number == PACKETS - 1);
		sim_run(pair.sim);
	}
	expect_acknowledgement(&answers, 2, ACK, (BASE + PACKETS - 1) & 0xffffff);
	inject_piece(&pair, 2, PACKETS, true);
	sim_run(pair.sim);
	expect_acknowledgement(&answers, 3, ACK, (BASE + PACKETS - 1) & 0xffffff);
	pair_close(&pair);
}

/* The region goes between request and answer. */
static void memory_gone_before_the_response(void **state)
{
	struct vb_roce_packet packet = {.opcode = READ_REQUEST, .op = vb_roce_opcode(READ_REQUEST), .pkey = 0xffff};
	struct answers answers;
	struct sim_region region;
	struct pair pair;

	(void)state;
	open(&pair, &answers, 2);
	region = sim_region(pair.hosts[1], 8192, SIM_ALL_ACCESS);
	packet.psn = psn_of(0xfffffe);
	packet.reth.address = (uintptr_t)region.bytes;
	packet.reth.rkey = region.key;
	packet.reth.length = 8192;
	sim_inject(pair.b, &packet);
	sim_region_free(&region);
	sim_run(pair.sim);
	assert_int_equal(answers.count, 1);
	assert_int_equal(answers.list[0].opcode, 0x11);
	assert_int_equal(answers.list[0].syndrome, 0x62);
	assert_int_equal(answers.list[0].psn, 0xfffffe);
	assert_int_equal(pair.b->state, IBV_QPS_ERR);
	assert_true(sim_host_was_told(pair.hosts[1], IBV_EVENT_QP_ACCESS_ERR));
	pair_close(&pair);
}

/* The sender's own region goes while its message is under way. */
static void memory_gone_while_sending(void **state)
{
	struct sim_region region;
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED};
	struct pair pair;

	(void)state;
	pair_open(&pair, 1, false, &sim_usual, 1 << 20);
	region = sim_region(pair.hosts[0], 1 << 20, SIM_ALL_ACCESS);
	sge = (struct ibv_sge){(uintptr_t)region.bytes, 1 << 20, region.key};
	wr.wr.rdma.remote_addr = (uintptr_t)pair.b_memory.bytes;
	wr.wr.rdma.rkey = pair.b_memory.key;
	pair_post(&pair, IBV_WR_RDMA_WRITE, 100, 1);
	assert_int_equal(sim_post_send(pair.a, &wr), 0);
	pair_post(&pair, IBV_WR_RDMA_WRITE, 100, 3);
	sim_run_to(pair.sim, pair.sim->now + VB_MICROSECONDS(25));
	sim_region_free(&region);
	sim_run(pair.sim);
	expect_send(pair.a_cq, 1, IBV_WC_SUCCESS);
	expect_send(pair.a_cq, 2, IBV_WC_LOC_PROT_ERR);
	expect_send(pair.a_cq, 3, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(pair.a->fault.wr_id, 2);
	pair_close(&pair);
}

/* The target goes in the middle of a WRITE: the packets that follow are refused. */
static void memory_gone_while_receiving(void **state)
{
	struct sim_region region;
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED};
	struct pair pair;

	(void)state;
	pair_open(&pair, 1, false, &sim_usual, 1 << 20);
	region = sim_region(pair.hosts[1], 1 << 20, SIM_ALL_ACCESS);
	sge = (struct ibv_sge){(uintptr_t)pair.a_memory.bytes, 1 << 20, pair.a_memory.key};
	wr.wr.rdma.remote_addr = (uintptr_t)region.bytes;
	wr.wr.rdma.rkey = region.key;
	assert_int_equal(sim_post_send(pair.a, &wr), 0);
	sim_run_to(pair.sim, pair.sim->now + VB_MICROSECONDS(25));
	sim_region_free(&region);
	sim_run(pair.sim);
	expect_send(pair.a_cq, 2, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(pair.b->state, IBV_QPS_ERR);
	pair_close(&pair);
}

/* RESET and a second life: nothing of the first is left. */
static void reset_and_again(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, 1, false, &sim_usual, 65536);
	for (unsigned life = 0; life < 5; life++) {
		struct sim_connection connection = sim_usual;

		pair_post(&pair, IBV_WR_RDMA_READ, 60000, 1);
		pair_post(&pair, IBV_WR_RDMA_WRITE, 60000, 2);
		sim_run_to(pair.sim, pair.sim->now + VB_MICROSECONDS(6 * life));
		assert_int_equal(sim_modify_state(pair.a, IBV_QPS_RESET), 0);
		assert_int_equal(sim_modify_state(pair.b, IBV_QPS_RESET), 0);
		/* What is still on its way belongs to the past. */
		connection.psn_a = 0x100000 * life;
		connection.psn_b = 0x200000 + 0x100000 * life;
		sim_run(pair.sim);
		sim_connect(pair.a, pair.b, &connection);
		pair_fill(&pair, &pair.a_memory, 65536);
		pair_post(&pair, IBV_WR_RDMA_WRITE, 65536, 7);
		sim_run(pair.sim);
		expect_send(pair.a_cq, 7, IBV_WC_SUCCESS);
		assert_memory_equal(pair.a_memory.bytes, pair.b_memory.bytes, 65536);
	}
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(atomics_are_executed_once),
		cmocka_unit_test(reads_are_answered_from_anywhere),
		cmocka_unit_test(writes_are_executed_once),
		cmocka_unit_test(a_duplicate_is_acknowledged_where_it_asks),
		cmocka_unit_test(a_gap_is_acknowledged_where_the_repetition_asks),
		cmocka_unit_test(a_gap_is_acknowledged_before_the_end),
		cmocka_unit_test(a_gap_that_is_filled_alone_is_acknowledged_with_all_behind_it),
		cmocka_unit_test(a_gap_that_was_not_told_is_acknowledged_at_once),
		cmocka_unit_test(a_repetition_is_acknowledged_as_far_as_it_came),
		cmocka_unit_test(memory_gone_before_the_response),
		cmocka_unit_test(memory_gone_while_sending),
		cmocka_unit_test(memory_gone_while_receiving),
		cmocka_unit_test(reset_and_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
