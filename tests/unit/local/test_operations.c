/* SPDX-License-Identifier: MIT
 *
 * Every operation through memory: what arrives, what completes, and that it went the way it should.
 */
#include "lib/atomic_write.h"
#include "pair.h"

static struct pair pair;
static struct process *const a = &pair.process[0], *const b = &pair.process[1];

static void begin(const struct pair_options *options)
{
	pair_open(&pair, BY_MEMORY, options);
	pair_connect(&pair, &usual);
	assert_int_equal(vb_local_path(a->local), VB_LOCAL_TAKEN);
	assert_int_equal(vb_local_path(b->local), VB_LOCAL_TAKEN);
	pair_expect_nothing(&pair);
}

/* Lengths around all that changes with them: nothing, a cache line, inline to reference, a piece. */
static const uint32_t lengths[] = {0, 1, 7, 8, 47, 48, 49, 1023, 4095, 4096, 4097, 65536, (1 << 20) - 1, 1 << 20, (1 << 20) + 1,
				   (3 << 20) + 17};

/* What the engine says of itself when nothing is under way. */
static void expect_status(struct process *p, uint32_t sent, uint32_t received)
{
	struct vb_transport_status status;

	vb_local_query(p->local, &status);
	assert_int_equal(status.send, sent + 1);
	assert_int_equal(status.acknowledged, sent + 1);
	assert_int_equal(status.expected, received + 1);
	assert_int_equal(status.msn, received);
	assert_int_equal(status.outstanding, 0);
	assert_int_equal(status.retries_left, usual.retry_cnt);
}

static void sends_of_all_lengths(void **state)
{
	(void)state;
	begin(NULL);
	for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		uint32_t length = lengths[i];
		struct ibv_wc wc;

		pair_fill(a, 0, length, (uint8_t)i);
		memset(b->arena, 0xee, length + 1);
		assert_int_equal(pair_receive(b, 0, length + 1, i), 0);
		assert_int_equal(pair_send(a, IBV_WR_SEND_WITH_IMM, 0, length, 0, 100 + i, IBV_SEND_SIGNALED), 0);
		pair_settle(&pair);
		assert_true(pair_poll(&b->recv_cq, &wc));
		assert_int_equal(wc.wr_id, i);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.opcode, IBV_WC_RECV);
		assert_int_equal(wc.byte_len, length);
		assert_int_equal(be32toh(wc.imm_data), 0x11220000 + 100 + i);
		assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
		assert_int_equal(wc.src_qp, a->qp->qpn);
		pair_expect(&a->send_cq, 100 + i, IBV_WC_SUCCESS);
		pair_verify(b, 0, length, (uint8_t)i);
		assert_int_equal(b->arena[length], 0xee);
	}
	assert_int_equal(a->counters.rdma_sends, sizeof(lengths) / sizeof(lengths[0]));
	assert_int_equal(b->counters.rdma_recvs, sizeof(lengths) / sizeof(lengths[0]));
	expect_status(a, sizeof(lengths) / sizeof(lengths[0]), 0);
	expect_status(b, 0, sizeof(lengths) / sizeof(lengths[0]));
	assert_int_equal(a->writes + a->reads, 0);
	pair_close(&pair);
}

/* A call that pulls them all keeps a thread that polls from those that are there, and the queue pair from threads that post. */
static void long_messages_come_some_at_a_time(void **state)
{
	enum { MESSAGES = 12, LENGTH = 1 << 20 };
	static const unsigned at_a_time[] = {4, 1};     /* pieces: none polls; a thread does */

	(void)state;
	for (unsigned polled = 0; polled < 2; polled++) {
		bool more = true;
		unsigned taken = 0;

		begin(NULL);
		pair_fill(a, 0, LENGTH, 5);
		for (unsigned i = 0; i < MESSAGES; i++) {
			assert_int_equal(pair_receive(b, LENGTH, LENGTH, i), 0);
			assert_int_equal(pair_send(a, IBV_WR_SEND, 0, LENGTH, 0, 100 + i, IBV_SEND_SIGNALED), 0);
		}
		pair_serve(a);
		while (more) {
			vb_lock_take(&b->qp->lock);
			more = false;
			assert_true(vb_local_serve(b->qp, b->local, pair.now, polled, &more));
			vb_lock_release(&b->qp->lock);
			for (unsigned i = 0; i < at_a_time[polled]; i++)
				pair_expect(&b->recv_cq, taken++, IBV_WC_SUCCESS);
			/* As many of ours are known to have come. */
			pair_serve(a);
			for (unsigned i = taken - at_a_time[polled]; i < taken; i++)
				pair_expect(&a->send_cq, 100 + i, IBV_WC_SUCCESS);
			assert_true(more || taken == MESSAGES);
			more &= taken < MESSAGES;
		}
		assert_int_equal(taken, MESSAGES);
		pair_verify(b, LENGTH, LENGTH, 5);
		pair_settle(&pair);
		pair_close(&pair);
	}
}

static void writes_and_reads_need_no_target(void **state)
{
	(void)state;
	begin(NULL);
	for (unsigned shared = 0; shared < 2; shared++) {
		a->shares_memory = shared;
		for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
			uint32_t length = lengths[i], calls = a->writes;

			pair_fill(a, 0, length, (uint8_t)(i + 1));
			memset(b->arena, 0, length + 1);
			assert_int_equal(pair_send(a, IBV_WR_RDMA_WRITE, 0, length, 0, i, IBV_SEND_SIGNALED), 0);
			while (pair_serve(a))
				;
			pair_expect(&a->send_cq, i, IBV_WC_SUCCESS);
			pair_verify(b, 0, length, (uint8_t)(i + 1));
			assert_int_equal(b->arena[length], 0);
			memset(a->arena, 0, length);
			assert_int_equal(pair_send(a, IBV_WR_RDMA_READ, 0, length, 0, i, IBV_SEND_SIGNALED), 0);
			while (pair_serve(a))
				;
			pair_expect(&a->send_cq, i, IBV_WC_SUCCESS);
			pair_verify(a, 0, length, (uint8_t)(i + 1));
			assert_true(a->writes == calls || (!shared && length > 0));
		}
	}
	assert_int_equal(a->counters.rdma_writes, 2 * sizeof(lengths) / sizeof(lengths[0]));
	assert_int_equal(a->counters.rdma_reads, 2 * sizeof(lengths) / sizeof(lengths[0]));
	assert_int_equal(a->counters.rdma_sends + b->counters.rdma_writes + b->counters.rdma_reads, 0);
	assert_int_equal(a->wakes + b->wakes, 0);
	pair_close(&pair);
}

static void write_with_immediate(void **state)
{
	struct ibv_wc wc;

	(void)state;
	begin(NULL);
	pair_fill(a, 0, 5000, 3);
	assert_int_equal(pair_receive(b, 100000, 4, 1), 0);
	assert_int_equal(pair_send(a, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 5000, 64, 2, IBV_SEND_SIGNALED), 0);
	pair_settle(&pair);
	assert_true(pair_poll(&b->recv_cq, &wc));
	assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.byte_len, 5000);
	assert_int_equal(be32toh(wc.imm_data), 0x11220002);
	pair_verify(b, 64, 5000, 3);
	pair_expect(&a->send_cq, 2, IBV_WC_SUCCESS);
	pair_close(&pair);
}

static void atomics_both_ways(void **state)
{
	uint64_t *word;

	(void)state;
	begin(NULL);
	word = (uint64_t *)(void *)b->arena;
	for (unsigned shared = 0; shared < 2; shared++) {
		a->shares_memory = shared;
		*word = 3;
		assert_int_equal(post_atomic_write(a->qp, (uintptr_t)word, b->key, 40, 9, IBV_SEND_SIGNALED, pair.now), 0);
		assert_int_equal(pair_atomic(a, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 0, 2, 0, 1), 0);
		assert_int_equal(pair_atomic(a, IBV_WR_ATOMIC_CMP_AND_SWP, 8, 0, 42, 7, 2), 0);
		assert_int_equal(pair_atomic(a, IBV_WR_ATOMIC_CMP_AND_SWP, 16, 0, 42, 9, 3), 0);
		for (unsigned i = 0; i < 300; i++)
			assert_int_equal(pair_atomic(a, IBV_WR_ATOMIC_FETCH_AND_ADD, 24, 0, 1, 0, 4), 0);
		if (shared)
			while (pair_serve(a))
				;
		else
			pair_settle(&pair);
		pair_expect(&a->send_cq, 9, IBV_WC_SUCCESS);
		pair_expect(&a->send_cq, 1, IBV_WC_SUCCESS);
		pair_expect(&a->send_cq, 2, IBV_WC_SUCCESS);
		pair_expect(&a->send_cq, 3, IBV_WC_SUCCESS);
		for (unsigned i = 0; i < 300; i++)
			pair_expect(&a->send_cq, 4, IBV_WC_SUCCESS);
		assert_int_equal(*word, 307);
		assert_int_equal(((uint64_t *)(void *)a->arena)[0], 40);
		assert_int_equal(((uint64_t *)(void *)a->arena)[1], 42);
		assert_int_equal(((uint64_t *)(void *)a->arena)[2], 7);
		assert_int_equal(((uint64_t *)(void *)a->arena)[3], 306);
		assert_int_equal(a->shares, shared ? 1 : 0);
	}
	pair_close(&pair);
}

/* A WRITE after a SEND is not seen before it, nor a SEND after a READ that is still under way. */
static void order_across_the_ways(void **state)
{
	(void)state;
	begin(NULL);
	pair_fill(a, 0, 64, 1);
	pair_receive(b, 4096, 64, 1);
	pair_send(a, IBV_WR_SEND, 0, 64, 0, 10, IBV_SEND_SIGNALED);
	pair_send(a, IBV_WR_RDMA_WRITE, 0, 64, 0, 11, IBV_SEND_SIGNALED);
	pair_send(a, IBV_WR_SEND, 0, 64, 0, 12, IBV_SEND_SIGNALED);
	while (pair_serve(a))
		;
	assert_int_equal(a->writes, 0);
	pair_expect_nothing(&pair);
	while (pair_serve(b))
		;
	while (pair_serve(a))
		;
	pair_verify(b, 0, 64, 1);
	pair_expect(&a->send_cq, 10, IBV_WC_SUCCESS);
	pair_expect(&a->send_cq, 11, IBV_WC_SUCCESS);
	pair_expect(&b->recv_cq, 1, IBV_WC_SUCCESS);
	pair_expect_nothing(&pair);
	pair_receive(b, 4096, 64, 2);
	pair_settle(&pair);
	pair_expect(&a->send_cq, 12, IBV_WC_SUCCESS);
	pair_expect(&b->recv_cq, 2, IBV_WC_SUCCESS);
	pair_close(&pair);
}

/* LOCAL_INV of a window while a peer is in the middle of a copy by its key: it completes when that is over. Until then
 * the peer's requests are served, by whatever the queue pair is carried. */
static void invalidation_of_what_is_copied(void **state)
{
	(void)state;
	for (enum carrier carrier = BY_MEMORY; carrier <= BY_WIRE; carrier++) {
		struct ibv_send_wr wr = {.wr_id = 50, .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED};
		struct vb_window_bind bind;
		struct vb_fault_record why;
		uint64_t *copying;
		uint32_t window;

		pair_open(&pair, carrier, NULL);
		pair_connect(&pair, &usual);
		copying = &a->segment->header.copying[7];
		assert_int_equal(vb_window_allocate(b->memory, VB_REGION_MW_TYPE_2, &b->pd, &window), 0);
		wr.invalidate_rkey = (window & ~0xffu) | 0x31;
		bind = (struct vb_window_bind){window, wr.invalidate_rkey, b->key, (uintptr_t)b->arena, 64, IBV_ACCESS_REMOTE_WRITE,
					       b->qp->qpn, &b->pd};
		assert_int_equal(vb_window_bind(b->memory, &bind, &why), VB_WINDOW_DONE);
		*copying = vb_segment_copy_word(b->qp->qpn + 1, PAIR_TABLE, wr.invalidate_rkey);
		assert_int_equal(pair_post(b, &wr), 0);
		assert_int_equal(pair_receive(b, 0, 64, 1), 0);
		assert_int_equal(pair_send(a, IBV_WR_SEND, 0, 64, 0, 2, IBV_SEND_SIGNALED), 0);
		for (unsigned i = 0; i < 100; i++) {
			pair_serve(a);
			pair_serve(b);
		}
		pair_expect(&a->send_cq, 2, IBV_WC_SUCCESS);
		pair_expect(&b->recv_cq, 1, IBV_WC_SUCCESS);
		pair_expect_nothing(&pair);
		assert_int_equal(vb_region_deregister(b->memory, b->key), -EBUSY);
		*copying = 0;
		/* Nobody says so: somebody comes to look before long. */
		pair_run(&pair, pair.now + VB_MILLISECONDS(1));
		pair_expect(&b->send_cq, 50, IBV_WC_SUCCESS);
		assert_int_equal(vb_region_deregister(b->memory, b->key), 0);
		pair_close(&pair);
	}
}

static void write_eight(uint64_t value)
{
	memcpy(a->arena, &value, sizeof(value));
	assert_int_equal(pair_send(a, IBV_WR_RDMA_WRITE, 0, sizeof(value), 64, value, IBV_SEND_SIGNALED), 0);
	while (pair_serve(a))
		;
}

/* Where a key was found in shared memory is remembered: for as long as that registration stands and no mapping went. */
static void what_is_shared_is_looked_up_once(void **state)
{
	struct vb_region_info info = {.kind = VB_REGION_MR, .pd = &b->pd, .length = 8192, .access = PAIR_ACCESS};
	uint64_t *first, *second;

	(void)state;
	begin(NULL);
	a->shares_memory = true;
	first = (uint64_t *)(void *)(b->arena + 64);
	second = (uint64_t *)(void *)(b->arena + (1 << 20) + 64);
	for (uint64_t i = 1; i <= 10; i++) {
		write_eight(i);
		pair_expect(&a->send_cq, i, IBV_WC_SUCCESS);
		assert_int_equal(*first, i);
	}
	assert_int_equal(a->shares, 1);
	a->mappings++;
	write_eight(11);
	pair_expect(&a->send_cq, 11, IBV_WC_SUCCESS);
	assert_int_equal(a->shares, 2);
	/* The same key and the same address, of other bytes. */
	info.iova = (uintptr_t)b->arena;
	info.start = info.iova + (1 << 20);
	assert_int_equal(vb_region_reregister(b->memory, b->key, &info), 0);
	write_eight(12);
	pair_expect(&a->send_cq, 12, IBV_WC_SUCCESS);
	assert_int_equal(*first, 11);
	assert_int_equal(*second, 12);
	assert_int_equal(a->shares, 3);
	/* Without the right, and without the region. */
	info.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
	assert_int_equal(vb_region_reregister(b->memory, b->key, &info), 0);
	write_eight(13);
	pair_settle(&pair);
	pair_expect(&a->send_cq, 13, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(*second, 12);
	pair_close(&pair);
}

/* A read gives no right to write, nor a few bytes the right to those behind the region. */
static void what_is_known_is_checked(void **state)
{
	struct vb_region_info info = {.kind = VB_REGION_MR, .pd = &b->pd, .length = 72,
				      .access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ};

	(void)state;
	for (unsigned writes = 0; writes < 2; writes++) {
		begin(NULL);
		a->shares_memory = true;
		info.start = info.iova = (uintptr_t)b->arena;
		info.access |= writes ? IBV_ACCESS_REMOTE_WRITE : 0;
		assert_int_equal(vb_region_reregister(b->memory, b->key, &info), 0);
		memset(b->arena, 7, 128);
		assert_int_equal(pair_send(a, IBV_WR_RDMA_READ, 0, 8, 64, 1, IBV_SEND_SIGNALED), 0);
		while (pair_serve(a))
			;
		pair_expect(&a->send_cq, 1, IBV_WC_SUCCESS);
		assert_int_equal(a->shares, 1);
		memset(a->arena, 9, 128);
		assert_int_equal(pair_send(a, IBV_WR_RDMA_WRITE, 0, 8, writes ? 65 : 64, 2, IBV_SEND_SIGNALED), 0);
		pair_settle(&pair);
		pair_expect(&a->send_cq, 2, IBV_WC_REM_ACCESS_ERR);
		for (unsigned i = 0; i < 128; i++)
			assert_int_equal(b->arena[i], 7);
		pair_close(&pair);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sends_of_all_lengths),
		cmocka_unit_test(long_messages_come_some_at_a_time),
		cmocka_unit_test(writes_and_reads_need_no_target),
		cmocka_unit_test(write_with_immediate),
		cmocka_unit_test(atomics_both_ways),
		cmocka_unit_test(order_across_the_ways),
		cmocka_unit_test(invalidation_of_what_is_copied),
		cmocka_unit_test(what_is_shared_is_looked_up_once),
		cmocka_unit_test(what_is_known_is_checked),
	};

	return cmocka_run_group_tests_name("local/operations", tests, NULL, NULL);
}
