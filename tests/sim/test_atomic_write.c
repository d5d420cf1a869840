/* SPDX-License-Identifier: MIT
 *
 * ATOMIC WRITE (IBA annex A19): eight bytes, written once and in their turn whatever the network does, answered by a response without
 * data; what is not eight aligned bytes is refused.
 */
#include <errno.h>

#include "lib/atomic_write.h"
#include "sim/testing.h"

static void post(struct pair *pair, uint64_t offset, uint64_t value, uint64_t wr_id)
{
	assert_int_equal(post_atomic_write(pair->a, (uintptr_t)pair->b_memory.bytes + offset, pair->b_memory.key, value, wr_id,
					   IBV_SEND_SIGNALED, pair->sim->now), 0);
	sim_touch(pair->a);
}

static void it_writes_eight_bytes(void **state)
{
	static const char bytes[] = "12345678";
	struct pair pair;
	struct ibv_wc wc;
	uint64_t value;

	(void)state;
	pair_open(&pair, 1, false, &sim_usual, 4096);
	memset(pair.b_memory.bytes, 0xee, 64);
	memcpy(&value, bytes, 8);
	post(&pair, 16, value, 7);
	sim_run(pair.sim);
	assert_true(sim_poll(pair.a_cq, &wc));
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_ATOMIC_WRITE);
	assert_int_equal(wc.wr_id, 7);
	assert_memory_equal(pair.b_memory.bytes + 16, bytes, 8);
	assert_int_equal(pair.b_memory.bytes[15], 0xee);
	assert_int_equal(pair.b_memory.bytes[24], 0xee);
	assert_false(sim_poll(pair.b_cq, &wc));
	pair_close(&pair);
}

enum { ROUNDS = 120 };

/* After each, two additions tell what they found: were one executed twice or out of its turn, they would find something else. */
static void run_disturbed(uint64_t seed, uint8_t reads)
{
	struct sim_connection connection = sim_usual;
	struct ibv_send_wr wr = {.num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .send_flags = IBV_SEND_SIGNALED};
	uint64_t *found, *target;
	struct pair pair;
	struct ibv_wc wc;

	connection.rd_atomic_a = connection.rd_atomic_b = reads;
	pair_open(&pair, seed, seed % 2, &connection, 1 << 16);
	pair.sim->network.loss = 30000;
	pair.sim->network.duplication = 50000;
	pair.sim->network.reorder = 50000;
	pair.sim->network.reorder_delay = VB_MICROSECONDS(300);
	found = (uint64_t *)(void *)(pair.a_memory.bytes + 8192);
	target = (uint64_t *)(void *)pair.b_memory.bytes;
	wr.wr.atomic.remote_addr = (uintptr_t)target;
	wr.wr.atomic.rkey = pair.b_memory.key;
	wr.wr.atomic.compare_add = 1;
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct ibv_sge sge = {0, 8, pair.a_memory.key};

		post(&pair, 0, 1000 * i, 1);
		wr.sg_list = &sge;
		for (unsigned k = 0; k < 2; k++) {
			sge.addr = (uintptr_t)&found[2 * i + k];
			assert_int_equal(sim_post_send(pair.a, &wr), 0);
		}
		if (i % 3 == 0)
			pair_post_at(&pair, IBV_WR_RDMA_WRITE, 4096, 4096, 3000, 2);
		while (vb_send_queue_count(&pair.a->send) > 8)
			assert_true(sim_wait(pair.sim, pair.a_cq, &wc, VB_SECONDS(10)));
	}
	sim_run(pair.sim);
	while (sim_poll(pair.a_cq, &wc))
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(pair.a->state, IBV_QPS_RTS);
	for (unsigned i = 0; i < 2 * ROUNDS; i++)
		assert_int_equal(found[i], 1000 * (i / 2) + i % 2);
	assert_int_equal(*target, 1000 * (ROUNDS - 1) + 2);
	assert_int_equal(vb_send_queue_count(&pair.a->send), 0);
	pair_close(&pair);
}

static void it_is_executed_once_and_in_turn(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 12; seed++) {
		print_message("seed %u\n", (unsigned)seed);
		run_disturbed(seed, (uint8_t)(1 + seed % 4));
	}
}

static void expect_refusal(const struct sim_connection *connection, unsigned access, uint64_t offset, enum ibv_wc_status status,
			   enum vb_fault fault)
{
	struct sim_region target;
	struct pair pair;

	pair_open(&pair, 5, false, connection, 4096);
	target = sim_region(pair.hosts[1], 64, access);
	assert_int_equal(post_atomic_write(pair.a, (uintptr_t)target.bytes + offset, target.key, 1, 3, IBV_SEND_SIGNALED, pair.sim->now),
			 0);
	sim_touch(pair.a);
	sim_run(pair.sim);
	expect_send(pair.a_cq, 3, status);
	assert_int_equal(pair.b->fault.fault, fault);
	assert_int_equal(pair.b->fault.key, target.key);
	assert_int_equal(target.bytes[0], 0);
	sim_region_free(&target);
	pair_close(&pair);
}

static void what_the_peer_does_not_allow(void **state)
{
	struct sim_connection connection = sim_usual;

	(void)state;
	expect_refusal(&connection, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_REMOTE_READ, 0, IBV_WC_REM_ACCESS_ERR,
		       VB_FAULT_RIGHTS);
	expect_refusal(&connection, SIM_ALL_ACCESS, 64, IBV_WC_REM_ACCESS_ERR, VB_FAULT_RANGE);
	connection.access = IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_REMOTE_READ;
	expect_refusal(&connection, SIM_ALL_ACCESS, 0, IBV_WC_REM_INV_REQ_ERR, VB_FAULT_QP_RIGHTS);
}

/* What our requester does not send, others might. */
static void what_is_not_eight_aligned_bytes(void **state)
{
	static const struct { uint32_t offset, length, payload; enum vb_fault fault; } cases[] = {
		{4, 8, 8, VB_FAULT_UNALIGNED_ATOMIC}, {0, 16, 16, VB_FAULT_MESSAGE_LENGTH}, {0, 8, 4, VB_FAULT_MESSAGE_LENGTH},
		{0, 4, 4, VB_FAULT_MESSAGE_LENGTH},   {0, 16, 8, VB_FAULT_MESSAGE_LENGTH},  {0, 0, 0, VB_FAULT_MESSAGE_LENGTH},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct vb_roce_packet packet = {.opcode = 0x1d, .op = vb_roce_opcode(0x1d), .pkey = 0xffff, .ack_request = true};
		static const uint8_t ones[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, zeros[32];
		struct pair pair;

		pair_open(&pair, i, false, &sim_usual, 4096);
		memset(pair.b_memory.bytes, 0, 32);
		packet.psn = psn_of(sim_usual.psn_a);
		packet.reth.address = (uintptr_t)pair.b_memory.bytes + cases[i].offset;
		packet.reth.rkey = pair.b_memory.key;
		packet.reth.length = cases[i].length;
		packet.payload = ones;
		packet.payload_length = cases[i].payload;
		sim_inject(pair.b, &packet);
		assert_int_equal(pair.b->state, IBV_QPS_ERR);
		assert_int_equal(pair.b->fault.fault, cases[i].fault);
		assert_memory_equal(pair.b_memory.bytes, zeros, 32);
		/* Nor does our own queue take it. */
		assert_int_equal(post_atomic_write(pair.a, (uintptr_t)pair.b_memory.bytes + 4, pair.b_memory.key, 1, 1, 0, pair.sim->now),
				 EINVAL);
		pair_close(&pair);
	}
}

static void other_answers_are_none(void **state)
{
	/* An atomic acknowledgement, a response with data, a response of several packets. */
	static const struct { uint8_t opcode; uint32_t payload; } answers[] = {{0x12, 0}, {0x10, 8}, {0x0d, 0}};

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct vb_roce_packet packet = {.opcode = answers[i].opcode, .op = vb_roce_opcode(answers[i].opcode), .pkey = 0xffff};
		struct pair pair;

		pair_open(&pair, i, false, &sim_usual, 4096);
		pair.sim->network.loss = SIM_MILLION;
		post(&pair, 0, 1, 9);
		sim_run_to(pair.sim, pair.sim->now + VB_MICROSECONDS(100));
		packet.psn = psn_of(sim_usual.psn_a);
		packet.payload = pair.b_memory.bytes;
		packet.payload_length = answers[i].payload;
		sim_inject(pair.a, &packet);
		expect_send(pair.a_cq, 9, IBV_WC_BAD_RESP_ERR);
		pair_close(&pair);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_writes_eight_bytes),
		cmocka_unit_test(it_is_executed_once_and_in_turn),
		cmocka_unit_test(what_the_peer_does_not_allow),
		cmocka_unit_test(what_is_not_eight_aligned_bytes),
		cmocka_unit_test(other_answers_are_none),
	};

	return cmocka_run_group_tests_name("sim/atomic_write", tests, NULL, NULL);
}
