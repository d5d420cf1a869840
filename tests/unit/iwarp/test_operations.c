/* SPDX-License-Identifier: MIT
 *
 * Every operation between two engines, with and without CRC, in FPDUs of a segment and in long ones, by sockets that cut as they like.
 */
#include "streams.h"

static struct streams streams;
static struct end *const a = &streams.end[0], *const b = &streams.end[1];

/* Ways to carry the same bytes. */
static const struct options ways[] = {
	{.direct = true},
	{.crc = true},
	{.mulpdu = VB_MULPDU_LARGE, .direct = true},
	{.mulpdu = VB_MULPDU_LARGE, .crc = true},
	{.mulpdu = VB_MULPDU_LEAST},
	{.mulpdu = VB_MULPDU_MOST, .direct = true, .random_cuts = true, .most_taken = 100000, .room = 200000},
	{.mulpdu = VB_MULPDU_LARGE, .direct = true, .random_cuts = true, .most_taken = 20000, .most_read = 15000, .room = 60000},
	{.mulpdu = VB_MULPDU_LARGE, .crc = true, .random_cuts = true, .most_taken = 20000, .most_read = 15000, .room = 60000},
	{.random_cuts = true, .most_taken = 3000, .most_read = 2000, .room = 5000},
	{.srq = true, .crc = true, .random_cuts = true, .ready = VB_IWARP_READY_READ},
	{.srq = true, .ready = VB_IWARP_READY_SEND, .random_cuts = true, .ird = {1, 1}, .ord = {1, 1}},
};
enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

static void each_way(void (*scene)(void))
{
	for (unsigned i = 0; i < WAYS; i++) {
		struct options options = ways[i];

		options.seed = 0x1000 + i;
		streams_open(&streams, &options);
		scene();
		assert_int_equal(a->qp->state, IBV_QPS_RTS);
		assert_int_equal(b->qp->state, IBV_QPS_RTS);
		expect_none(&streams);
		streams_close(&streams);
	}
}

static const uint32_t lengths[] = {0, 1, 2, 3, 4, 5, 1000, 1424, 1425, 1428, 1429, 4096, 8191, 65536, 100001, (1 << 20) + 5};
enum { LENGTHS = sizeof(lengths) / sizeof(lengths[0]) };

static void sends(void)
{
	for (unsigned i = 0; i < LENGTHS; i++) {
		struct ibv_wc wc;

		fill(a, 0, lengths[i], (uint8_t)i);
		post_receive(b, 2 << 20, 2 << 20, i + 100);
		assert_int_equal(post_send(a, IBV_WR_SEND, 0, lengths[i], 0, i, i % 2 ? IBV_SEND_SOLICITED : 0), 0);
		streams_settle(&streams);
		expect(&a->send_cq, i, IBV_WC_SUCCESS);
		wc = expect(&b->recv_cq, i + 100, IBV_WC_SUCCESS);
		assert_int_equal(wc.byte_len, lengths[i]);
		assert_int_equal(wc.opcode, IBV_WC_RECV);
		assert_int_equal(wc.wc_flags, 0);
		verify(b, 2 << 20, lengths[i], (uint8_t)i);
	}
}

static void test_send(void **state)
{
	(void)state;
	each_way(sends);
}

static void writes(void)
{
	for (unsigned i = 0; i < LENGTHS; i++) {
		fill(a, 0, lengths[i], (uint8_t)(i + 3));
		b->arena[(2 << 20) + lengths[i]] = 0x5a;
		assert_int_equal(post_send(a, IBV_WR_RDMA_WRITE, 0, lengths[i], 2 << 20, i, 0), 0);
		streams_settle(&streams);
		assert_int_equal(expect(&a->send_cq, i, IBV_WC_SUCCESS).opcode, IBV_WC_RDMA_WRITE);
		verify(b, 2 << 20, lengths[i], (uint8_t)(i + 3));
		assert_int_equal(b->arena[(2 << 20) + lengths[i]], 0x5a);
	}
}

static void test_write(void **state)
{
	(void)state;
	each_way(writes);
}

static void reads(void)
{
	for (unsigned i = 0; i < LENGTHS; i++) {
		fill(b, 2 << 20, lengths[i], (uint8_t)(i + 5));
		assert_int_equal(post_send(a, IBV_WR_RDMA_READ, 0, lengths[i], 2 << 20, i, 0), 0);
		streams_settle(&streams);
		assert_int_equal(expect(&a->send_cq, i, IBV_WC_SUCCESS).opcode, IBV_WC_RDMA_READ);
		verify(a, 0, lengths[i], (uint8_t)(i + 5));
	}
}

static void test_read(void **state)
{
	(void)state;
	each_way(reads);
}

static void writes_with_immediate(void)
{
	for (unsigned i = 0; i < LENGTHS; i++) {
		struct ibv_wc wc;

		fill(a, 0, lengths[i], (uint8_t)(i + 9));
		post_receive(b, 0, 0, i + 50);
		/* A WRITE before it is not counted into it. */
		post_send(a, IBV_WR_RDMA_WRITE, 0, 77, 0, i, 0);
		assert_int_equal(post_send(a, IBV_WR_RDMA_WRITE_WITH_IMM, 0, lengths[i], 2 << 20, i, 0), 0);
		streams_settle(&streams);
		expect(&a->send_cq, i, IBV_WC_SUCCESS);
		expect(&a->send_cq, i, IBV_WC_SUCCESS);
		wc = expect(&b->recv_cq, i + 50, IBV_WC_SUCCESS);
		assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
		assert_int_equal(wc.byte_len, lengths[i]);
		assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
		assert_int_equal(wc.imm_data, 0x11223344);
		verify(b, 2 << 20, lengths[i], (uint8_t)(i + 9));
	}
}

static void test_write_with_immediate(void **state)
{
	(void)state;
	each_way(writes_with_immediate);
}

static int post_atomic(enum ibv_wr_opcode opcode, uint64_t compare_add, uint64_t swap, uint64_t wr_id)
{
	struct ibv_sge sge = sge_of(a, 0, 8);
	struct ibv_send_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED};

	wr.wr.atomic.remote_addr = (uintptr_t)b->arena + 64;
	wr.wr.atomic.rkey = b->key;
	wr.wr.atomic.compare_add = compare_add;
	wr.wr.atomic.swap = swap;
	return post(a, &wr);
}

static uint64_t word(const struct end *end, uint32_t offset)
{
	uint64_t v;

	memcpy(&v, end->arena + offset, sizeof(v));
	return v;
}

static void atomics(void)
{
	memset(b->arena + 64, 0, 8);
	for (uint64_t i = 0; i < 20; i++)
		assert_int_equal(post_atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, UINT64_C(0x100000001), 0, i), 0);
	streams_settle(&streams);
	for (uint64_t i = 0; i < 20; i++)
		assert_int_equal(expect(&a->send_cq, i, IBV_WC_SUCCESS).opcode, IBV_WC_FETCH_ADD);
	assert_int_equal(word(b, 64), 20 * UINT64_C(0x100000001));
	assert_int_equal(word(a, 0), 19 * UINT64_C(0x100000001));
	post_atomic(IBV_WR_ATOMIC_CMP_AND_SWP, 20 * UINT64_C(0x100000001), 42, 30);
	post_atomic(IBV_WR_ATOMIC_CMP_AND_SWP, 41, 43, 31);
	streams_settle(&streams);
	expect(&a->send_cq, 30, IBV_WC_SUCCESS);
	expect(&a->send_cq, 31, IBV_WC_SUCCESS);
	assert_int_equal(word(b, 64), 42);
	assert_int_equal(word(a, 0), 42);
}

static void test_atomics(void **state)
{
	(void)state;
	each_way(atomics);
}

/* A list of many elements at both ends, of odd lengths, some empty. */
static void lists(void)
{
	struct ibv_sge gather[VB_MAX_SGE], scatter[VB_MAX_SGE];
	struct ibv_send_wr wr = {.wr_id = 1, .sg_list = gather, .num_sge = VB_MAX_SGE, .send_flags = IBV_SEND_SIGNALED};
	bool srq = streams.options.srq;

	for (unsigned variant = 0; variant < 9; variant++) {
		uint32_t unit = variant % 3 == 0 ? 3 : variant % 3 == 1 ? 700 : 20001, at = 0;

		for (uint32_t i = 0; i < VB_MAX_SGE; i++) {
			gather[i] = sge_of(a, (i ^ 1) * (unit + 11), i == 7 ? 0 : unit);
			scatter[i] = sge_of(b, i * (unit + 5), i == 3 ? 1 : unit + 2);
		}
		wr.opcode = variant / 3 == 0 ? IBV_WR_SEND : variant / 3 == 1 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
		wr.wr.rdma.remote_addr = (uintptr_t)b->arena + (3 << 20);
		wr.wr.rdma.rkey = b->key;
		fill(a, 0, 1 << 20, 9);
		fill(b, 3 << 20, 1 << 20, 77);
		if (variant / 3 == 0)
			assert_int_equal(srq ? post_receive(b, 0, 1 << 20, 5) : post_list(b, scatter, VB_MAX_SGE, 5), 0);
		assert_int_equal(post(a, &wr), 0);
		streams_settle(&streams);
		expect(&a->send_cq, 1, IBV_WC_SUCCESS);
		if (variant / 3 == 0) {
			uint32_t sender = 0, receiver = 0, receiver_at = 0;

			assert_int_equal(expect(&b->recv_cq, 5, IBV_WC_SUCCESS).byte_len, 29 * unit);
			for (; sender < VB_MAX_SGE; sender++)
				for (at = 0; at < gather[sender].length; at++) {
					const uint8_t *from = (uint8_t *)(uintptr_t)gather[sender].addr, *to = b->arena;

					while (!srq && receiver_at == scatter[receiver].length) {
						receiver++;
						receiver_at = 0;
					}
					if (!srq)
						to = (uint8_t *)(uintptr_t)scatter[receiver].addr;
					assert_int_equal(to[receiver_at], from[at]);
					receiver_at++;
				}
			continue;
		}
		for (uint32_t i = 0; i < VB_MAX_SGE; i++) {
			assert_memory_equal((void *)(uintptr_t)gather[i].addr, b->arena + (3 << 20) + at, gather[i].length);
			at += gather[i].length;
		}
	}
}

static void test_lists(void **state)
{
	(void)state;
	each_way(lists);
}

/* Both directions at once, everything together; completions in order, every byte in its place. */
static void crowd(void)
{
	enum { WORK = 60, SLOT = 30000 };

	for (unsigned i = 0; i < 2; i++) {
		struct end *end = &streams.end[i];

		fill(end, 0, WORK * SLOT, (uint8_t)(i * 50));
		for (uint64_t r = 0; r < WORK; r++)
			post_receive(end, (2 << 20) + (uint32_t)r * SLOT, SLOT, r);
	}
	for (uint32_t w = 0; w < WORK; w++)
		for (unsigned i = 0; i < 2; i++) {
			struct end *end = &streams.end[i];
			uint32_t length = streams_random(&streams) % (w % 5 == 0 ? SLOT : 300);

			/* Reads of the untouched half of the sources, so that the result does not depend on order. */
			if (w % 3 == 0)
				post_send(end, IBV_WR_RDMA_READ, (4 << 20) + w * 300, length % 300, w * SLOT, w,
					  w % 2 ? IBV_SEND_FENCE : 0);
			else if (w % 3 == 1)
				post_send(end, IBV_WR_SEND, w * SLOT, length, 0, w, 0);
			else
				post_send(end, IBV_WR_SEND, w * SLOT, length % 200, 0, w, IBV_SEND_INLINE);
			if (streams_random(&streams) % 4 == 0)
				streams_settle(&streams);
		}
	streams_settle(&streams);
	for (unsigned i = 0; i < 2; i++) {
		struct end *end = &streams.end[i], *other = end->other;
		uint32_t message = 0;

		for (uint32_t w = 0; w < WORK; w++) {
			struct ibv_wc wc = expect(&end->send_cq, w, IBV_WC_SUCCESS);

			if (w % 3 == 0) {
				assert_int_equal(wc.opcode, IBV_WC_RDMA_READ);
				continue;
			}
			wc = expect(&other->recv_cq, message, IBV_WC_SUCCESS);
			assert_memory_equal(other->arena + (2 << 20) + message * SLOT, end->arena + w * SLOT, wc.byte_len);
			message++;
		}
	}
	/* What is left of the receives. */
	for (unsigned i = 0; i < 2; i++) {
		struct end *end = &streams.end[i];

		assert_int_equal(vb_receive_queue_count(end->qp->srq ? &end->srq.queue : &end->qp->receive), WORK / 3);
	}
}

static void test_crowd(void **state)
{
	(void)state;
	each_way(crowd);
}

/* ---- windows, fences, inline ---- */

static uint32_t bind_window(uint32_t window, uint32_t offset, uint32_t length, uint64_t wr_id)
{
	struct ibv_mw mw = {.rkey = window, .type = IBV_MW_TYPE_2};
	struct ibv_mr mr = {.lkey = b->key};
	struct ibv_send_wr wr = {.wr_id = wr_id, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED};

	wr.bind_mw.mw = &mw;
	wr.bind_mw.rkey = window + 1;
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){.mr = &mr, .addr = (uintptr_t)b->arena + offset, .length = length,
							 .mw_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
	assert_int_equal(post(b, &wr), 0);
	return mw.rkey;
}

static void write_to(uint32_t key, uint32_t remote, uint32_t length, uint64_t wr_id)
{
	struct ibv_sge sge = sge_of(a, 0, length);
	struct ibv_send_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED};

	wr.wr.rdma.remote_addr = (uintptr_t)b->arena + remote;
	wr.wr.rdma.rkey = key;
	assert_int_equal(post(a, &wr), 0);
}

static void windows(void)
{
	struct ibv_send_wr wr = {.wr_id = 4, .opcode = IBV_WR_SEND_WITH_INV, .send_flags = IBV_SEND_SIGNALED};
	uint32_t window, key;
	struct ibv_wc wc;

	assert_int_equal(vb_window_allocate(b->memory, VB_REGION_MW_TYPE_2, &b->pd, &window), 0);
	key = bind_window(window, 4096, 10000, 1);
	streams_settle(&streams);
	assert_int_equal(expect(&b->send_cq, 1, IBV_WC_SUCCESS).opcode, IBV_WC_BIND_MW);
	fill(a, 0, 10000, 3);
	write_to(key, 4096, 10000, 2);
	streams_settle(&streams);
	expect(&a->send_cq, 2, IBV_WC_SUCCESS);
	verify(b, 4096, 10000, 3);
	/* The peer invalidates it with a SEND, and is believed. */
	post_receive(b, 0, 64, 3);
	wr.invalidate_rkey = key;
	assert_int_equal(post(a, &wr), 0);
	streams_settle(&streams);
	expect(&a->send_cq, 4, IBV_WC_SUCCESS);
	wc = expect(&b->recv_cq, 3, IBV_WC_SUCCESS);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_INV);
	assert_int_equal(wc.invalidated_rkey, key);
	/* Bound again, and invalidated by its owner. */
	key = bind_window(key, 0, 64, 5);
	wr = (struct ibv_send_wr){.wr_id = 6, .opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = key, .send_flags = IBV_SEND_SIGNALED};
	assert_int_equal(post(b, &wr), 0);
	streams_settle(&streams);
	expect(&b->send_cq, 5, IBV_WC_SUCCESS);
	assert_int_equal(expect(&b->send_cq, 6, IBV_WC_SUCCESS).opcode, IBV_WC_LOCAL_INV);
}

static void test_windows(void **state)
{
	(void)state;
	each_way(windows);
}

/* Local work behind an answer that the socket takes in pieces: a request that was retired must not be looked at again. */
static void test_local_work_behind_a_cut(void **state)
{
	struct options options = {.room = 3000, .most_taken = 900};
	uint32_t window;

	(void)state;
	streams_open(&streams, &options);
	assert_int_equal(vb_window_allocate(b->memory, VB_REGION_MW_TYPE_2, &b->pd, &window), 0);
	for (uint64_t i = 0; i < 100; i++) {
		struct ibv_send_wr wr = {.wr_id = 1000 + i, .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED};

		post_send(a, IBV_WR_RDMA_READ, 0, 20000, 2 << 20, i, 0);
		window = bind_window(window, (uint32_t)i * 8, 8, i);
		if (i % 2)
			streams_settle(&streams);
		wr.invalidate_rkey = window;
		assert_int_equal(post(b, &wr), 0);
	}
	streams_settle(&streams);
	for (uint64_t i = 0; i < 100; i++) {
		expect(&a->send_cq, i, IBV_WC_SUCCESS);
		expect(&b->send_cq, i, IBV_WC_SUCCESS);
		expect(&b->send_cq, 1000 + i, IBV_WC_SUCCESS);
	}
	assert_true(b->short_writes > 100);
	streams_close(&streams);
}

/* With one READ at a time a fenced SEND behind it leaves when the answer is whole, and not before. */
static void test_fence(void **state)
{
	struct options options = {.ird = {1, 1}, .ord = {1, 1}};
	uint8_t bytes[4096];

	(void)state;
	streams_open(&streams, &options);
	streams_settle(&streams);
	fill(b, 0, 100, 1);
	post_receive(b, 1 << 20, 64, 50);
	post_send(a, IBV_WR_RDMA_READ, 0, 100, 0, 1, 0);
	post_send(a, IBV_WR_RDMA_READ, 200, 100, 0, 2, 0);
	post_send(a, IBV_WR_SEND, 0, 32, 0, 3, IBV_SEND_FENCE);
	/* One READ request and nothing else. */
	assert_int_equal(end_drain(a, bytes, sizeof(bytes)), vb_fpdu_length(46));
	end_feed(b, bytes, vb_fpdu_length(46));
	assert_int_equal(end_drain(a, bytes, sizeof(bytes)), 0);
	streams_settle(&streams);
	for (uint64_t i = 1; i <= 3; i++)
		expect(&a->send_cq, i, IBV_WC_SUCCESS);
	expect(&b->recv_cq, 50, IBV_WC_SUCCESS);
	verify(a, 200, 100, 1);
	/* The SEND took its bytes behind the fence: from what the first READ had brought. */
	verify(b, 1 << 20, 32, 1);
	streams_close(&streams);
}

/* A few requests of READs wait for others while much of what was asked for is still to come, and for nothing else. */
static void test_reads_may_wait(void **state)
{
	struct options options = {.ird = {16, 16}, .ord = {16, 16}};
	uint8_t bytes[4096];

	(void)state;
	streams_open(&streams, &options);
	streams_settle(&streams);
	for (unsigned i = 0; i < 8; i++) {
		assert_false(vb_iwarp_reads_may_wait(a->qp));
		post_send(a, IBV_WR_RDMA_READ, 0, 32 << 10, 0, i, 0);
		assert_false(vb_iwarp_reads_may_wait(a->qp)); /* little is to come */
		assert_int_equal(end_drain(a, bytes, sizeof(bytes)), vb_fpdu_length(46));
	}
	assert_false(vb_iwarp_reads_may_wait(a->qp)); /* there is nothing that could */
	post_send(a, IBV_WR_RDMA_READ, 0, 32 << 10, 0, 8, 0);
	assert_true(vb_iwarp_reads_may_wait(a->qp));
	/* The peer's READs are to be answered, too. */
	post_send(b, IBV_WR_RDMA_READ, 0, 100, 0, 60, 0);
	end_feed(a, bytes, end_drain(b, bytes, sizeof(bytes)));
	assert_false(vb_iwarp_reads_may_wait(a->qp));
	assert_true(end_drain(a, bytes, sizeof(bytes)) > vb_fpdu_length(46));
	/* A SEND behind it is waited for by somebody, perhaps. */
	post_send(a, IBV_WR_RDMA_READ, 0, 32 << 10, 0, 9, 0);
	assert_true(vb_iwarp_reads_may_wait(a->qp));
	post_send(a, IBV_WR_SEND, 0, 8, 0, 10, 0);
	assert_false(vb_iwarp_reads_may_wait(a->qp));
	assert_true(end_drain(a, bytes, sizeof(bytes)) > vb_fpdu_length(46));
	/* As many as may be asked for, or leave together; and who closes does not wait. */
	for (unsigned i = 11; i < 17; i++) {
		assert_int_equal(vb_iwarp_reads_may_wait(a->qp), i > 11);
		post_send(a, IBV_WR_RDMA_READ, 0, 32 << 10, 0, i, 0);
	}
	assert_true(vb_iwarp_reads_may_wait(a->qp));
	assert_int_equal(modify(a, IBV_QPS_SQD), 0);
	assert_false(vb_iwarp_reads_may_wait(a->qp));
	streams_close(&streams);
}

/* Solicited events wake a CQ that is armed for them; others do not. */
static void test_solicited(void **state)
{
	struct options options = {0};

	(void)state;
	streams_open(&streams, &options);
	for (uint64_t i = 0; i < 4; i++)
		post_receive(b, 0, 64, i);
	vb_cq_arm(&b->recv_cq, true);
	post_send(a, IBV_WR_SEND, 0, 8, 0, 1, 0);
	streams_settle(&streams);
	assert_int_equal(b->completion_events, 0);
	post_send(a, IBV_WR_SEND, 0, 8, 0, 2, IBV_SEND_SOLICITED);
	streams_settle(&streams);
	assert_int_equal(b->completion_events, 1);
	vb_cq_arm(&b->recv_cq, true);
	post_send(a, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 8, 0, 3, IBV_SEND_SOLICITED);
	streams_settle(&streams);
	assert_int_equal(b->completion_events, 2);
	streams_close(&streams);
}

/* Much is to come: it is read into its place. */
static void test_direct(void **state)
{
	struct options options = {.mulpdu = VB_MULPDU_LARGE, .direct = true, .most_read = 24000};

	(void)state;
	streams_open(&streams, &options);
	fill(a, 0, 1 << 20, 1);
	post_send(a, IBV_WR_RDMA_WRITE, 0, 1 << 20, 2 << 20, 1, 0);
	streams_settle(&streams);
	verify(b, 2 << 20, 1 << 20, 1);
	assert_true(b->direct_reads > 20);
	streams_close(&streams);
}

/* Requests and answers take turns: a READ does not wait for the whole of what is posted. */
static void test_turns(void **state)
{
	struct options options = {.mulpdu = VB_MULPDU_LARGE, .room = 100000};
	static uint8_t bytes[100000];
	uint32_t before = 0;

	(void)state;
	streams_open(&streams, &options);
	streams_settle(&streams);
	for (uint64_t i = 0; i < 2; i++)
		post_send(b, IBV_WR_RDMA_WRITE, 0, 4 << 20, 0, i, 0);
	post_send(a, IBV_WR_RDMA_READ, 0, 64, 4 << 20, 9, 0);
	end_feed(b, bytes, end_drain(a, bytes, sizeof(bytes)));
	for (uint32_t at = 0, there = 0;;) {
		uint32_t length;

		/* An FPDU whole, then the next. */
		while (there - at < 4 || there - at < vb_fpdu_length(vb_fpdu_get_length(bytes + at))) {
			size_t some;

			memmove(bytes, bytes + at, there - at);
			there -= at;
			at = 0;
			some = end_drain(b, bytes + there, 30000);
			assert_true(some > 0);
			there += (uint32_t)some;
		}
		if ((bytes[at + 3] & 15) == VB_RDMAP_READ_RESPONSE)
			break;
		length = vb_fpdu_length(vb_fpdu_get_length(bytes + at));
		before += length;
		at += length;
	}
	assert_true(before > 0 && before < VB_IWARP_MESSAGE + 2000);
	streams_close(&streams);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_send),
		cmocka_unit_test(test_write),
		cmocka_unit_test(test_read),
		cmocka_unit_test(test_write_with_immediate),
		cmocka_unit_test(test_atomics),
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_crowd),
		cmocka_unit_test(test_windows),
		cmocka_unit_test(test_local_work_behind_a_cut),
		cmocka_unit_test(test_fence),
		cmocka_unit_test(test_reads_may_wait),
		cmocka_unit_test(test_solicited),
		cmocka_unit_test(test_direct),
		cmocka_unit_test(test_turns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
