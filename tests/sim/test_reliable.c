/* SPDX-License-Identifier: MIT
 *
 * RC over a network that loses nothing: every operation at every MTU and many sizes, with the bytes compared and
 * the fields of each completion checked; zero lengths, PSNs that wrap, scatter/gather, inline, immediate data,
 * invalidation, atomics.
 */
#include "sim/testing.h"

static const enum ibv_mtu mtus[] = {IBV_MTU_256, IBV_MTU_512, IBV_MTU_1024, IBV_MTU_2048, IBV_MTU_4096};

static void each_operation(struct pair *pair, uint32_t length)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND,	  IBV_WR_SEND_WITH_IMM,
						     IBV_WR_RDMA_WRITE,	  IBV_WR_RDMA_WRITE_WITH_IMM,
						     IBV_WR_RDMA_READ};
	struct ibv_wc wc;

	for (unsigned i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); i++) {
		enum ibv_wr_opcode opcode = opcodes[i];
		bool read = opcode == IBV_WR_RDMA_READ;
		bool receives = opcode != IBV_WR_RDMA_WRITE && !read;
		bool imm = opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
		struct sim_region *from = read ? &pair->b_memory : &pair->a_memory;
		struct sim_region *to = read ? &pair->a_memory : &pair->b_memory;

		pair_fill(pair, from, length);
		memset(to->bytes, 0xee, length + 16);
		if (receives)
			assert_int_equal(sim_post_receive(pair->b, to->bytes, length, to->key, 77), 0);
		pair_post(pair, opcode, length, 55);
		sim_run(pair->sim);
		expect_send(pair->a_cq, 55, IBV_WC_SUCCESS);
		if (receives) {
			assert_true(sim_poll(pair->b_cq, &wc));
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			assert_int_equal(wc.wr_id, 77);
			assert_int_equal(wc.byte_len, length);
			assert_int_equal(wc.qp_num, pair->b->qpn);
			assert_int_equal(wc.src_qp, pair->a->qpn);
			assert_int_equal(wc.opcode, opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? IBV_WC_RECV_RDMA_WITH_IMM :
											   IBV_WC_RECV);
			assert_int_equal(!!(wc.wc_flags & IBV_WC_WITH_IMM), imm);
			if (imm)
				assert_int_equal(wc.imm_data, htobe32(0xc0ffee00));
		}
		assert_false(sim_poll(pair->b_cq, &wc));
		assert_memory_equal(from->bytes, to->bytes, length);
		assert_int_equal(to->bytes[length], 0xee);
	}
}

static void every_operation_at_every_mtu(void **state)
{
	(void)state;
	for (unsigned m = 0; m < 5; m++) {
		uint32_t mtu = 128u << mtus[m];
		const uint32_t lengths[] = {0,	     1,	       2,	3,	 4,	      255,	    mtu - 1,
					    mtu,     mtu + 1,  2 * mtu, 2 * mtu + 3, 7 * mtu - 1, 65536, 65537,
					    131072,  131073,   300001,  1 << 20};
		struct sim_connection connection = sim_usual;
		struct pair pair;

		connection.mtu = mtus[m];
		/* Wraps within the first messages. */
		connection.psn_a = 0xfffff0;
		connection.psn_b = 0xffffff;
		pair_open(&pair, 7 + m, m % 2, &connection, 1 << 21);
		for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
			each_operation(&pair, lengths[i]);
		assert_int_equal(pair.hosts[0]->counters.completer_retry_err, 0);
		assert_int_equal(pair.hosts[0]->counters.local_ack_timeout_err, 0);
		pair_close(&pair);
	}
}

static void atomics(void **state)
{
	struct pair pair;
	uint64_t *target, *result;

	(void)state;
	pair_open(&pair, 3, false, &sim_usual, 4096);
	target = (uint64_t *)(void *)pair.b_memory.bytes;
	result = (uint64_t *)(void *)pair.a_memory.bytes;
	*target = 40;
	pair_post_atomic(&pair, IBV_WR_ATOMIC_FETCH_AND_ADD, 2, 0, 1);
	sim_run(pair.sim);
	expect_send(pair.a_cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(*result, 40);
	assert_int_equal(*target, 42);
	pair_post_atomic(&pair, IBV_WR_ATOMIC_CMP_AND_SWP, 41, 99, 2);
	sim_run(pair.sim);
	expect_send(pair.a_cq, 2, IBV_WC_SUCCESS);
	assert_int_equal(*result, 42);
	assert_int_equal(*target, 42);
	pair_post_atomic(&pair, IBV_WR_ATOMIC_CMP_AND_SWP, 42, 99, 3);
	sim_run(pair.sim);
	expect_send(pair.a_cq, 3, IBV_WC_SUCCESS);
	assert_int_equal(*result, 42);
	assert_int_equal(*target, 99);
	pair_close(&pair);
}

static void scattered_and_gathered(void **state)
{
	enum { PIECES = 8 };
	struct ibv_sge from[PIECES], to[PIECES];
	struct ibv_send_wr wr = {.wr_id = 5, .sg_list = from, .num_sge = PIECES, .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED};
	struct ibv_recv_wr receive = {.wr_id = 6, .sg_list = to, .num_sge = PIECES}, *bad;
	struct pair pair;
	struct ibv_wc wc;
	uint32_t length = 0;

	(void)state;
	pair_open(&pair, 4, true, &sim_usual, 1 << 16);
	pair_fill(&pair, &pair.a_memory, 1 << 16);
	for (uint32_t i = 0; i < PIECES; i++) {
		uint32_t n = i == 3 ? 0 : 37 * (i + 1) * (i + 1);

		from[i] = (struct ibv_sge){(uintptr_t)pair.a_memory.bytes + length, n, pair.a_memory.key};
		length += n;
	}
	for (uint32_t i = 0, at = 0; i < PIECES; i++) {
		uint32_t n = i == PIECES - 1 ? length - at : length / PIECES;

		to[i] = (struct ibv_sge){(uintptr_t)pair.b_memory.bytes + at, n, pair.b_memory.key};
		at += n;
	}
	vb_lock_take(&pair.b->lock);
	assert_int_equal(vb_qp_post_receive(pair.b, &receive, &bad, pair.sim->now), 0);
	vb_lock_release(&pair.b->lock);
	assert_int_equal(sim_post_send(pair.a, &wr), 0);
	sim_run(pair.sim);
	expect_send(pair.a_cq, 5, IBV_WC_SUCCESS);
	assert_true(sim_poll(pair.b_cq, &wc));
	assert_int_equal(wc.byte_len, length);
	assert_memory_equal(pair.a_memory.bytes, pair.b_memory.bytes, length);
	pair_close(&pair);
}

static void inline_data_may_be_reused_at_once(void **state)
{
	uint8_t local[200];
	struct ibv_sge sge = {(uintptr_t)local, sizeof(local), 0xdead};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE};
	struct pair pair;

	(void)state;
	pair_open(&pair, 4, false, &sim_usual, 4096);
	wr.wr.rdma.remote_addr = (uintptr_t)pair.b_memory.bytes;
	wr.wr.rdma.rkey = pair.b_memory.key;
	memset(local, 'x', sizeof(local));
	assert_int_equal(sim_post_send(pair.a, &wr), 0);
	memset(local, 'y', sizeof(local));
	sim_run(pair.sim);
	expect_send(pair.a_cq, 0, IBV_WC_SUCCESS);
	for (unsigned i = 0; i < sizeof(local); i++)
		assert_int_equal(pair.b_memory.bytes[i], 'x');
	pair_close(&pair);
}

static void unsignalled_work_is_silent(void **state)
{
	struct pair pair;
	struct ibv_wc wc;

	(void)state;
	pair_open(&pair, 4, false, &sim_usual, 4096);
	for (unsigned i = 0; i < 300; i++) {
		pair.flags = i % 10 == 9 ? IBV_SEND_SIGNALED : 0;
		pair_post(&pair, IBV_WR_RDMA_WRITE, 64, i);
	}
	sim_run(pair.sim);
	for (unsigned i = 9; i < 300; i += 10)
		expect_send(pair.a_cq, i, IBV_WC_SUCCESS);
	assert_false(sim_poll(pair.a_cq, &wc));
	pair_close(&pair);
}

/* 2^31 bytes are 2^19 packets of 4 KiB: nowhere does a length or a PSN overflow. */
static void two_gibibytes(void **state)
{
	struct sim_connection connection = sim_usual;
	struct ibv_sge sge = {.length = 1u << 31};
	struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED};
	struct pair pair;

	(void)state;
	connection.mtu = IBV_MTU_4096;
	pair_open(&pair, 4, true, &connection, 4096);
	sge.lkey = sim_null_region(pair.hosts[0]);
	wr.wr.rdma.rkey = sim_null_region(pair.hosts[1]);
	assert_int_equal(sim_post_send(pair.a, &wr), 0);
	sim_run(pair.sim);
	expect_send(pair.a_cq, 1, IBV_WC_SUCCESS);
	wr.opcode = IBV_WR_RDMA_READ;
	assert_int_equal(sim_post_send(pair.a, &wr), 0);
	sim_run(pair.sim);
	expect_send(pair.a_cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(pair.hosts[0]->counters.completer_retry_err, 0);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_operation_at_every_mtu),
		cmocka_unit_test(atomics),
		cmocka_unit_test(scattered_and_gathered),
		cmocka_unit_test(inline_data_may_be_reused_at_once),
		cmocka_unit_test(unsignalled_work_is_silent),
		cmocka_unit_test(two_gibibytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
