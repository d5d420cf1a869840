/* SPDX-License-Identifier: MIT
 *
 * UC and UD: messages may vanish, but what arrives is whole, once, in order (UC) and right. The 40 bytes before a
 * datagram, Q_Keys, drop rules, the SQE state.
 */
#include "sim/testing.h"

enum { SLOT = 8192, MESSAGES = 400, QKEY = 0x11111111 };

/* Every message says its number in every word. */
static void write_message(uint8_t *bytes, uint32_t length, uint32_t number)
{
	for (uint32_t at = 0; at + 4 <= length; at += 4)
		memcpy(bytes + at, &number, 4);
}

static void check_message(const uint8_t *bytes, uint32_t length, uint32_t number)
{
	for (uint32_t at = 0; at + 4 <= length; at += 4)
		assert_memory_equal(bytes + at, &number, 4);
}

static uint32_t length_of(uint32_t number)
{
	return 4 + number * 7919 % 2000 * 4;
}

static void run_connected(bool write, uint32_t loss, uint32_t reorder, uint32_t corruption, uint32_t duplication)
{
	struct sim_connection connection = sim_usual;
	uint32_t next = 0, received = 0, completed = 0, posted = 0;
	struct pair pair;
	struct ibv_wc wc;

	pair_make(&pair, 40 + loss, write, IBV_QPT_UC, (size_t)SLOT * MESSAGES);
	connection.psn_a = 0xfffffe;
	sim_connect(pair.a, pair.b, &connection);
	pair.sim->network.loss = loss;
	pair.sim->network.reorder = reorder;
	pair.sim->network.corruption = corruption;
	pair.sim->network.duplication = duplication;
	for (uint32_t i = 0; i < MESSAGES; i++)
		write_message(pair.a_memory.bytes + (size_t)i * SLOT, length_of(i), i);
	for (uint32_t i = 0; i < MESSAGES; i++)
		assert_int_equal(sim_post_receive(pair.b, pair.b_memory.bytes + (size_t)i * SLOT, SLOT,
						  pair.b_memory.key, i),
				 0);
	while (completed < MESSAGES) {
		struct ibv_sge sge = {(uintptr_t)pair.a_memory.bytes + (uint64_t)posted * SLOT, length_of(posted),
				      pair.a_memory.key};
		struct ibv_send_wr wr = {.wr_id = posted, .sg_list = &sge, .num_sge = 1, .imm_data = htobe32(posted),
					 .opcode = write ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_SEND_WITH_IMM,
					 .send_flags = IBV_SEND_SIGNALED};

		wr.wr.rdma.remote_addr = (uintptr_t)pair.b_memory.bytes + (uint64_t)posted * SLOT;
		wr.wr.rdma.rkey = pair.b_memory.key;
		if (posted < MESSAGES && posted < completed + 100) {
			assert_int_equal(sim_post_send(pair.a, &wr), 0);
			posted++;
			continue;
		}
		assert_true(sim_wait(pair.sim, pair.a_cq, &wc, VB_SECONDS(1)));
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.wr_id, completed);
		completed++;
	}
	sim_run(pair.sim);
	while (sim_poll(pair.b_cq, &wc)) {
		uint32_t number = be32toh(wc.imm_data);

		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.wr_id, received);
		assert_true(number >= next && number < MESSAGES);
		assert_int_equal(wc.byte_len, length_of(number));
		check_message(pair.b_memory.bytes + (size_t)(write ? number : wc.wr_id) * SLOT, length_of(number),
			      number);
		next = number + 1;
		received++;
	}
	if (loss + reorder + corruption + duplication == 0)
		assert_int_equal(received, MESSAGES);
	else
		assert_true(received > MESSAGES / 4 && received <= MESSAGES);
	assert_int_equal(pair.b->state, IBV_QPS_RTS);
	pair_close(&pair);
}

static void connected_messages_are_whole_or_not_there(void **state)
{
	(void)state;
	for (unsigned write = 0; write < 2; write++) {
		run_connected(write, 0, 0, 0, 0);
		run_connected(write, 20000, 0, 0, 0);
		run_connected(write, 0, 20000, 0, 0);
		run_connected(write, 0, 0, 50000, 0);
		run_connected(write, 0, 0, 0, 200000);
		run_connected(write, 10000, 10000, 10000, 10000);
	}
}

/* No receive: the message is dropped, the next one that finds a receive is delivered. */
static void connected_without_receive(void **state)
{
	struct pair pair;
	struct ibv_wc wc;

	(void)state;
	pair_make(&pair, 1, false, IBV_QPT_UC, 65536);
	sim_connect(pair.a, pair.b, &sim_usual);
	pair_post(&pair, IBV_WR_SEND, 5000, 1);
	sim_run(pair.sim);
	assert_int_equal(sim_post_receive(pair.b, pair.b_memory.bytes, 65536, pair.b_memory.key, 9), 0);
	pair_post(&pair, IBV_WR_SEND, 6000, 2);
	sim_run(pair.sim);
	expect_send(pair.a_cq, 1, IBV_WC_SUCCESS);
	expect_send(pair.a_cq, 2, IBV_WC_SUCCESS);
	assert_true(sim_poll(pair.b_cq, &wc));
	assert_int_equal(wc.byte_len, 6000);
	assert_false(sim_poll(pair.b_cq, &wc));
	pair_close(&pair);
}

/* A bad key or missing right of a WRITE on UC: nothing is written, nobody is told, the QP lives. */
static void connected_bad_key(void **state)
{
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED};

	(void)state;
	pair_make(&pair, 1, false, IBV_QPT_UC, 65536);
	sim_connect(pair.a, pair.b, &sim_usual);
	memset(pair.a_memory.bytes, 1, 5000);
	sge = (struct ibv_sge){(uintptr_t)pair.a_memory.bytes, 5000, pair.a_memory.key};
	wr.wr.rdma.remote_addr = (uintptr_t)pair.b_memory.bytes + 65536 - 4999;
	wr.wr.rdma.rkey = pair.b_memory.key;
	assert_int_equal(sim_post_send(pair.a, &wr), 0);
	sim_run(pair.sim);
	expect_send(pair.a_cq, 1, IBV_WC_SUCCESS);
	for (unsigned i = 0; i < 65536; i++)
		assert_int_equal(pair.b_memory.bytes[i], 0);
	assert_int_equal(pair.b->state, IBV_QPS_RTS);
	assert_true(pair.hosts[1]->counters.dropped_pkts >= 1);
	pair_close(&pair);
}

static void connected_receive_too_short(void **state)
{
	struct pair pair;

	(void)state;
	pair_make(&pair, 1, false, IBV_QPT_UC, 65536);
	sim_connect(pair.a, pair.b, &sim_usual);
	assert_int_equal(sim_post_receive(pair.b, pair.b_memory.bytes, 1500, pair.b_memory.key, 9), 0);
	pair_post(&pair, IBV_WR_SEND, 1501, 1);
	sim_run(pair.sim);
	expect_send(pair.a_cq, 1, IBV_WC_SUCCESS);
	expect_send(pair.b_cq, 9, IBV_WC_LOC_LEN_ERR);
	assert_int_equal(pair.b->state, IBV_QPS_ERR);
	pair_close(&pair);
}

/* The send side of UC and UD fails alone: SQE, from which it comes back. */
static void send_queue_error(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQE};
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED};
	struct pair pair;

	(void)state;
	pair_make(&pair, 1, false, IBV_QPT_UC, 65536);
	sim_connect(pair.a, pair.b, &sim_usual);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(sim_post_receive(pair.b, pair.b_memory.bytes, 65536, pair.b_memory.key, i), 0);
	assert_int_equal(sim_post_receive(pair.a, pair.a_memory.bytes, 65536, pair.a_memory.key, 77), 0);
	pair_post(&pair, IBV_WR_SEND, 5000, 1);
	sge = (struct ibv_sge){(uintptr_t)pair.a_memory.bytes, 5000, 0x777};
	assert_int_equal(sim_post_send(pair.a, &wr), 0);
	pair_post(&pair, IBV_WR_SEND, 5000, 3);
	sim_run(pair.sim);
	expect_send(pair.a_cq, 1, IBV_WC_SUCCESS);
	expect_send(pair.a_cq, 2, IBV_WC_LOC_PROT_ERR);
	expect_send(pair.a_cq, 3, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(pair.a->state, IBV_QPS_SQE);
	expect_send(pair.b_cq, 0, IBV_WC_SUCCESS);

	/* Its receive side goes on. */
	sge = (struct ibv_sge){(uintptr_t)pair.b_memory.bytes, 100, pair.b_memory.key};
	assert_int_equal(sim_post_send(pair.b, &wr), 0);
	sim_run(pair.sim);
	expect_send(pair.b_cq, 2, IBV_WC_SUCCESS);
	expect_send(pair.a_cq, 77, IBV_WC_SUCCESS);

	assert_int_equal(vb_qp_modify(pair.a, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE, NULL, IBV_MTU_4096,
				      pair.sim->now),
			 0);
	pair_post(&pair, IBV_WR_SEND, 5000, 4);
	sim_run(pair.sim);
	expect_send(pair.a_cq, 4, IBV_WC_SUCCESS);
	expect_send(pair.b_cq, 1, IBV_WC_SUCCESS);
	pair_close(&pair);
}

/* ---- datagrams ---- */

static void post_datagram(struct pair *pair, struct ibv_ah *ah, uint32_t length, uint32_t qkey, uint32_t number)
{
	struct ibv_sge sge = {(uintptr_t)pair->a_memory.bytes, length, pair->a_memory.key};
	struct ibv_send_wr wr = {.wr_id = number, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM,
				 .imm_data = htobe32(number), .send_flags = IBV_SEND_SIGNALED};

	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = pair->b->qpn;
	wr.wr.ud.remote_qkey = qkey;
	assert_int_equal(sim_post_send(pair->a, &wr), 0);
}

static void datagrams(void **state)
{
	(void)state;
	for (unsigned ipv6 = 0; ipv6 < 2; ipv6++) {
		struct ibv_ah *ah;
		struct pair pair;
		struct ibv_wc wc;

		pair_make(&pair, 1, ipv6, IBV_QPT_UD, 65536);
		sim_open_datagram(pair.a, QKEY, IBV_MTU_4096);
		sim_open_datagram(pair.b, QKEY, IBV_MTU_4096);
		ah = sim_ah(pair.hosts[0], pair.hosts[1]);
		for (uint32_t length = 0; length <= 4096; length += length < 8 ? 1 : 511) {
			uint8_t *grh = pair.b_memory.bytes;

			pair_fill(&pair, &pair.a_memory, 4096);
			memset(pair.b_memory.bytes, 0xee, 8192);
			assert_int_equal(sim_post_receive(pair.b, pair.b_memory.bytes, 40 + length,
							  pair.b_memory.key, 5),
					 0);
			post_datagram(&pair, ah, length, QKEY, length);
			sim_run(pair.sim);
			expect_send(pair.a_cq, length, IBV_WC_SUCCESS);
			assert_true(sim_poll(pair.b_cq, &wc));
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			assert_int_equal(wc.byte_len, 40 + length);
			assert_int_equal(wc.src_qp, pair.a->qpn);
			assert_int_equal(wc.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
			assert_int_equal(wc.sl, ipv6 ? 0x9 : 0xa);
			assert_int_equal(be32toh(wc.imm_data), length);
			assert_memory_equal(pair.b_memory.bytes + 40, pair.a_memory.bytes, length);
			if (ipv6) {
				assert_int_equal(grh[0] >> 4, 6);
				assert_memory_equal(grh + 8, pair.hosts[0]->address, 16);
				assert_memory_equal(grh + 24, pair.hosts[1]->address, 16);
			} else {
				assert_int_equal(grh[20], 0x45);
				assert_memory_equal(grh + 32, pair.hosts[0]->address + 12, 4);
				assert_memory_equal(grh + 36, pair.hosts[1]->address + 12, 4);
			}
		}
		sim_ah_free(ah);
		pair_close(&pair);
	}
}

static void datagrams_that_are_not_taken(void **state)
{
	struct ibv_ah *ah;
	struct pair pair;
	struct ibv_wc wc;

	(void)state;
	pair_make(&pair, 1, false, IBV_QPT_UD, 65536);
	sim_open_datagram(pair.a, QKEY, IBV_MTU_4096);
	sim_open_datagram(pair.b, QKEY, IBV_MTU_1024);
	ah = sim_ah(pair.hosts[0], pair.hosts[1]);
	/* no receive */
	post_datagram(&pair, ah, 100, QKEY, 1);
	sim_run(pair.sim);
	assert_int_equal(pair.hosts[1]->counters.dropped_pkts, 1);
	/* wrong key */
	assert_int_equal(sim_post_receive(pair.b, pair.b_memory.bytes, 8192, pair.b_memory.key, 1), 0);
	post_datagram(&pair, ah, 100, QKEY + 1, 2);
	sim_run(pair.sim);
	assert_int_equal(pair.hosts[1]->counters.bad_qkey_pkts, 1);
	/* longer than the receiver's MTU */
	post_datagram(&pair, ah, 1025, QKEY, 3);
	sim_run(pair.sim);
	assert_int_equal(pair.hosts[1]->counters.dropped_pkts, 2);
	assert_false(sim_poll(pair.b_cq, &wc));
	/* and one that is */
	post_datagram(&pair, ah, 1024, QKEY, 4);
	sim_run(pair.sim);
	expect_send(pair.b_cq, 1, IBV_WC_SUCCESS);
	/* a buffer that forgot the 40 bytes is told so, and the next one works */
	assert_int_equal(sim_post_receive(pair.b, pair.b_memory.bytes, 1024, pair.b_memory.key, 2), 0);
	assert_int_equal(sim_post_receive(pair.b, pair.b_memory.bytes, 1064, pair.b_memory.key, 3), 0);
	post_datagram(&pair, ah, 1024, QKEY, 5);
	post_datagram(&pair, ah, 1024, QKEY, 6);
	sim_run(pair.sim);
	expect_send(pair.b_cq, 2, IBV_WC_LOC_LEN_ERR);
	expect_send(pair.b_cq, 3, IBV_WC_SUCCESS);
	assert_int_equal(pair.b->state, IBV_QPS_RTS);
	sim_ah_free(ah);
	pair_close(&pair);
}

/* Longer than our own MTU: a local error, SQE, at every MTU. */
static void try_too_long(enum ibv_mtu mtu)
{
	struct ibv_ah *ah;
	struct pair pair;

	pair_make(&pair, 1, false, IBV_QPT_UD, 65536);
	sim_open_datagram(pair.a, QKEY, mtu);
	ah = sim_ah(pair.hosts[0], pair.hosts[1]);
	post_datagram(&pair, ah, (128u << mtu) + 1, QKEY, 1);
	sim_run(pair.sim);
	expect_send(pair.a_cq, 1, IBV_WC_LOC_LEN_ERR);
	assert_int_equal(pair.a->state, IBV_QPS_SQE);
	sim_ah_free(ah);
	pair_close(&pair);
}

static void datagram_too_long_to_send(void **state)
{
	(void)state;
	for (int mtu = IBV_MTU_256; mtu <= IBV_MTU_4096; mtu++)
		try_too_long((enum ibv_mtu)mtu);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(connected_messages_are_whole_or_not_there),
		cmocka_unit_test(connected_without_receive),
		cmocka_unit_test(connected_bad_key),
		cmocka_unit_test(connected_receive_too_short),
		cmocka_unit_test(send_queue_error),
		cmocka_unit_test(datagrams),
		cmocka_unit_test(datagrams_that_are_not_taken),
		cmocka_unit_test(datagram_too_long_to_send),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
