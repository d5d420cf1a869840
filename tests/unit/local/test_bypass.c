/* SPDX-License-Identifier: MIT
 *
 * WRITEs and READs of a stream's queue pairs past it, through memory: that they go this way, that nothing overtakes what went by the
 * stream, and that the stream has them whenever something is not as it should be. That programs see no difference is test_parity.c's.
 */
#include "iwarp/engine.h"
#include "memory/region.h"
#include "pair.h"

static struct pair pair;
static struct process *const a = &pair.process[0], *const b = &pair.process[1];

static const uint32_t lengths[] = {1, 8, 4096, 65536, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, (3 << 20) + 17};

static void begin(void)
{
	pair_open(&pair, BY_BYPASS, NULL);
	pair_connect(&pair, &usual);
	pair_expect_nothing(&pair);
}

static uint64_t sent(const struct process *p)
{
	return vb_iwarp_engine_of(p->qp)->sender.cursor.fpdus;
}

static bool leads(struct process *p)
{
	bool yes;

	vb_lock_take(&p->qp->lock);
	yes = vb_local_bypass_leads(p->bypass);
	vb_lock_release(&p->qp->lock);
	return yes;
}

static void write_one(uint32_t length, uint8_t first)
{
	pair_fill(a, 0, length, first);
	assert_int_equal(pair_send(a, IBV_WR_RDMA_WRITE, 0, length, 0, length, IBV_SEND_SIGNALED), 0);
	pair_settle(&pair);
	pair_expect(&a->send_cq, length, IBV_WC_SUCCESS);
	pair_verify(b, 0, length, first);
}

static void both_of_all_lengths(void **state)
{
	uint64_t before;

	(void)state;
	begin();
	before = sent(a);
	for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		write_one(lengths[i], (uint8_t)i);
		pair_fill(b, 0, lengths[i], (uint8_t)(i + 100));
		assert_int_equal(pair_send(a, IBV_WR_RDMA_READ, 0, lengths[i], 0, i, IBV_SEND_SIGNALED), 0);
		pair_settle(&pair);
		pair_expect(&a->send_cq, i, IBV_WC_SUCCESS);
		pair_verify(a, 0, lengths[i], (uint8_t)(i + 100));
	}
	assert_true(sent(a) == before);
	assert_true(a->writes >= sizeof(lengths) / sizeof(lengths[0]) && a->reads >= sizeof(lengths) / sizeof(lengths[0]));
	pair_expect_nothing(&pair);
	pair_close(&pair);
}

/* The peer counts what it has taken in, so the next goes past it again. */
static void sends_go_by_the_stream(void **state)
{
	uint64_t before;

	(void)state;
	begin();
	for (unsigned i = 0; i < 3; i++) {
		before = sent(a);
		write_one(100, (uint8_t)i);
		assert_true(sent(a) == before && a->writes == i + 1);
		assert_int_equal(pair_receive(b, 4096, 64, i), 0);
		assert_int_equal(pair_send(a, IBV_WR_SEND, 0, 64, 0, 7, IBV_SEND_SIGNALED), 0);
		pair_settle(&pair);
		pair_expect(&a->send_cq, 7, IBV_WC_SUCCESS);
		pair_expect(&b->recv_cq, i, IBV_WC_SUCCESS);
		assert_true(sent(a) == before + 1);
	}
	pair_close(&pair);
}

static void nothing_overtakes_a_message_that_waits(void **state)
{
	(void)state;
	begin();
	pair_fill(a, 0, 64, 1);
	memset(b->arena, 0xee, 64);
	assert_int_equal(pair_send(a, IBV_WR_SEND, 0, 64, 0, 1, IBV_SEND_SIGNALED), 0);
	pair_settle(&pair);
	assert_true(vb_iwarp_is_stalled(b->qp));
	assert_int_equal(pair_send(a, IBV_WR_RDMA_WRITE, 0, 64, 0, 2, IBV_SEND_SIGNALED), 0);
	/* It is on its way by the stream; the socket takes nothing of it now. */
	vb_lock_take(&a->qp->lock);
	assert_false(vb_iwarp_send(a->qp, pair.now, pair.out));
	assert_int_equal(pair.out->marks, 1);
	vb_iwarp_sent(a->qp, pair.now, pair.out, 0);
	vb_lock_release(&a->qp->lock);
	assert_int_equal(a->writes, 0);
	assert_int_equal(b->arena[0], 0xee);
	assert_int_equal(pair_receive(b, 4096, 64, 3), 0);
	pair_settle(&pair);
	pair_expect(&a->send_cq, 1, IBV_WC_SUCCESS);
	pair_expect(&a->send_cq, 2, IBV_WC_SUCCESS);
	pair_expect(&b->recv_cq, 3, IBV_WC_SUCCESS);
	pair_verify(b, 0, 64, 1);
	pair_close(&pair);
}

/* What a sends now, to be handed to b later: how many bytes. */
static size_t offer(uint8_t *bytes)
{
	size_t length = 0;

	vb_lock_take(&a->qp->lock);
	assert_false(vb_iwarp_send(a->qp, pair.now, pair.out));
	for (unsigned i = 0; i < pair.out->count; i++) {
		memcpy(bytes + length, pair.out->spans[i].iov_base, pair.out->spans[i].iov_len);
		length += pair.out->spans[i].iov_len;
	}
	if (length > 0)
		vb_iwarp_sent(a->qp, pair.now, pair.out, length);
	vb_lock_release(&a->qp->lock);
	return length;
}

/* One WRITE is on its way by the stream, and the next could not go past it. It waits, for a while; where the peer does not come to it,
 * it follows by the stream. */
static void a_stream_that_is_full_is_waited_for(void **state)
{
	static uint8_t bytes[3][4096];
	size_t length[3];

	(void)state;
	for (unsigned comes = 0; comes < 2; comes++) {
		begin();
		pair_fill(a, 0, 64, 3);
		pair_fill(a, 64, 64, 4);
		a->copy_result = -ESRCH;
		assert_int_equal(pair_send(a, IBV_WR_RDMA_WRITE, 0, 64, 0, 1, IBV_SEND_SIGNALED), 0);
		length[0] = offer(bytes[0]);
		a->copy_result = 0;
		assert_true(length[0] > 64);
		assert_int_equal(pair_send(a, IBV_WR_RDMA_WRITE, 64, 64, 0, 2, IBV_SEND_SIGNALED), 0);
		assert_int_equal(offer(bytes[1]), 0);
		assert_true(vb_iwarp_next_deadline(a->qp) > pair.now && vb_iwarp_next_deadline(a->qp) <= pair.now + VB_MILLISECONDS(2));
		pair.now += comes ? VB_MILLISECONDS(1) : VB_SECONDS(2);
		length[1] = comes ? 0 : offer(bytes[1]);
		assert_true(comes || length[1] > 64);
		for (unsigned i = 0; i < 2; i++) {
			vb_lock_take(&b->qp->lock);
			assert_int_equal(vb_iwarp_take(b->qp, pair.now, bytes[i], length[i]), length[i]);
			vb_lock_release(&b->qp->lock);
		}
		pair_settle(&pair);
		pair_expect(&a->send_cq, 1, IBV_WC_SUCCESS);
		pair_expect(&a->send_cq, 2, IBV_WC_SUCCESS);
		assert_int_equal(a->writes, 1 + comes);
		pair_verify(b, 0, 64, 4);
		pair_close(&pair);
	}
}

/* The refusal is the stream's: test_errors.c of iWARP has each. */
static void a_refused_one_goes_by_the_stream(void **state)
{
	(void)state;
	begin();
	assert_int_equal(vb_region_deregister(b->memory, b->key), 0);
	assert_int_equal(pair_send(a, IBV_WR_RDMA_READ, 0, 64, 0, 1, IBV_SEND_SIGNALED), 0);
	pair_settle(&pair);
	pair_expect(&a->send_cq, 1, IBV_WC_REM_ACCESS_ERR);
	assert_true(pair_was_told(b, IBV_EVENT_QP_ACCESS_ERR) && pair_was_told(a, IBV_EVENT_QP_FATAL));
	assert_int_equal(a->reads, 0);
	/* And with that it is at its end. */
	assert_false(leads(a) || leads(b));
	pair_close(&pair);
}

static void an_unreachable_peer_has_the_stream(void **state)
{
	uint64_t before;

	(void)state;
	begin();
	before = sent(a);
	a->copy_result = -ESRCH;
	write_one(5000, 3);
	assert_true(sent(a) > before);
	a->copy_result = 0;
	write_one(5000, 4);
	assert_int_equal(a->writes, 2);
	pair_close(&pair);
}

/* Its first MiB has gone past the stream when the rest cannot. */
static void a_long_one_that_cannot_go_on(void **state)
{
	const uint32_t length = 3 << 20;

	(void)state;
	begin();
	pair_fill(a, 0, length, 9);
	assert_int_equal(pair_send(a, IBV_WR_RDMA_WRITE, 0, length, 0, 1, IBV_SEND_SIGNALED), 0);
	assert_true(pair_serve(a));
	assert_int_equal(a->writes, 1);
	a->copy_result = -EPERM;
	pair_settle(&pair);
	pair_expect(&a->send_cq, 1, IBV_WC_SUCCESS);
	pair_verify(b, 0, length, 9);
	assert_int_equal(a->writes, 2);
	pair_close(&pair);
}

/* Both name the other's number, and each has another connection in mind: one of them was told so by a stream of a third. */
static void another_connection(void **state)
{
	(void)state;
	pair_open(&pair, BY_BYPASS, NULL);
	pair.connection[1]++;
	pair_connect(&pair, &usual);
	assert_false(leads(a) || leads(b));
	write_one(64, 5);
	assert_int_equal(a->writes, 0);
	pair_close(&pair);
}

/* What the peer shows is looked at anew whenever its word changes, and believed in no number that leads nowhere. */
static void a_peer_that_shows_something_else(void **state)
{
	struct vb_segment_qp *shown;
	const struct vb_local_terms terms = {.table = PAIR_TABLE, .peer_qpn = 0, .service = VB_SEGMENT_BYPASS, .offers_local = true};
	struct vb_local_terms other = terms;

	(void)state;
	begin();
	assert_true(leads(a));
	shown = &b->segment->qp[PAIR_QP_INDEX];
	for (unsigned i = 0; i < 4; i++) {
		other = terms;
		other.peer_qpn = i == 0 ? b->qp->qpn : a->qp->qpn;
		other.service = i == 1 ? VB_SEGMENT_RC : VB_SEGMENT_BYPASS;
		other.connection = i == 2 ? 1 : pair.connection[0];
		other.table = i == 3 ? VB_SEGMENT_TABLES : PAIR_TABLE;
		vb_local_begin_generation(b->qp, b->segment, &other);
		assert_false(leads(a));
	}
	other.table = PAIR_TABLE;
	vb_local_begin_generation(b->qp, b->segment, &other);
	assert_true(leads(a));
	/* A count of more than was sent. */
	__atomic_store_n(&shown->consumed, 1000, __ATOMIC_RELAXED);
	write_one(64, 6);
	assert_int_equal(a->writes, 0);
	pair_close(&pair);
}

static void the_peer_fails(void **state)
{
	(void)state;
	begin();
	assert_true(leads(a));
	assert_int_equal(pair_to(b, IBV_QPS_ERR), 0);
	assert_false(leads(a));
	assert_int_equal(pair_send(a, IBV_WR_RDMA_WRITE, 0, 64, 0, 1, IBV_SEND_SIGNALED), 0);
	pair_settle(&pair);
	assert_int_equal(a->writes, 0);
	pair_close(&pair);
}

/* ---- rows ---- */

enum { ROW = 16, EACH = 4096 };

static void post_row(enum ibv_wr_opcode opcode, unsigned count, uint32_t each)
{
	for (unsigned i = 0; i < count; i++)
		assert_int_equal(pair_send(a, opcode, i * each, each, i * each, i, IBV_SEND_SIGNALED), 0);
}

static void expect_row(unsigned count)
{
	pair_settle(&pair);
	for (unsigned i = 0; i < count; i++)
		pair_expect(&a->send_cq, i, IBV_WC_SUCCESS);
	pair_expect_nothing(&pair);
}

static void a_row_is_one_copy(void **state)
{
	uint64_t before;

	(void)state;
	begin();
	before = sent(a);
	pair_fill(a, 0, ROW * EACH, 7);
	post_row(IBV_WR_RDMA_WRITE, ROW, EACH);
	expect_row(ROW);
	pair_verify(b, 0, ROW * EACH, 7);
	pair_fill(b, 0, ROW * EACH, 8);
	post_row(IBV_WR_RDMA_READ, ROW, EACH);
	expect_row(ROW);
	pair_verify(a, 0, ROW * EACH, 8);
	assert_true(a->writes == 1 && a->reads == 1 && sent(a) == before);
	pair_close(&pair);
}

/* Of two to the same place the later one stands. */
static void a_row_keeps_its_order(void **state)
{
	(void)state;
	begin();
	for (unsigned i = 0; i < 3; i++) {
		pair_fill(a, i * EACH, EACH, (uint8_t)(i * 50));
		assert_int_equal(pair_send(a, IBV_WR_RDMA_WRITE, i * EACH, EACH, 0, i, IBV_SEND_SIGNALED), 0);
	}
	expect_row(3);
	assert_int_equal(a->writes, 1);
	pair_verify(b, 0, EACH, 100);
	pair_close(&pair);
}

/* A MiB, 64 elements of lists, another kind, another key. */
static void where_a_row_ends(void **state)
{
	struct ibv_sge sge[22];
	struct ibv_send_wr wr = {.sg_list = sge, .num_sge = 22, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
	struct vb_region_info info = {.pd = &b->pd, .length = ARENA, .access = PAIR_ACCESS};

	(void)state;
	begin();
	info.start = info.iova = (uintptr_t)b->arena;
	post_row(IBV_WR_RDMA_WRITE, 5, 256 << 10);
	expect_row(5);
	assert_int_equal(a->writes, 2);
	for (unsigned i = 0; i < 22; i++)
		sge[i] = pair_sge(a, i * 8, 8);
	wr.wr.rdma.remote_addr = (uintptr_t)b->arena;
	wr.wr.rdma.rkey = b->key;
	for (wr.wr_id = 0; wr.wr_id < 6; wr.wr_id++)
		assert_int_equal(pair_post(a, &wr), 0);
	expect_row(6);
	assert_int_equal(a->writes, 5);
	for (unsigned i = 0; i < 6; i++)
		assert_int_equal(pair_send(a, i == 2 || i == 3 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, 0, 8, 0, i, IBV_SEND_SIGNALED), 0);
	expect_row(6);
	assert_true(a->writes == 7 && a->reads == 1);
	wr.num_sge = 1;
	assert_int_equal(vb_region_register(b->memory, &info, &wr.wr.rdma.rkey), 0);
	assert_int_equal(pair_send(a, IBV_WR_RDMA_WRITE, 0, 8, 0, 0, IBV_SEND_SIGNALED), 0);
	for (wr.wr_id = 1; wr.wr_id < 3; wr.wr_id++)
		assert_int_equal(pair_post(a, &wr), 0);
	expect_row(3);
	assert_int_equal(a->writes, 9);
	assert_int_equal(vb_region_deregister(b->memory, wr.wr.rdma.rkey), 0);
	pair_close(&pair);
}

/* One whose own memory is at fault was looked at before they were moved: they are, past the stream or by it. */
static void work_at_fault_behind_a_row(void **state)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};

	(void)state;
	for (unsigned by_stream = 0; by_stream < 2; by_stream++) {
		begin();
		a->copy_result = by_stream ? -ESRCH : 0;
		sge = pair_sge(a, 0, 64);
		sge.lkey = 0x999;
		wr.wr.rdma.remote_addr = (uintptr_t)b->arena;
		wr.wr.rdma.rkey = b->key;
		pair_fill(a, 0, 2 * EACH, 3);
		post_row(IBV_WR_RDMA_WRITE, 2, EACH);
		assert_int_equal(pair_post(a, &wr), 0);
		assert_int_equal(pair_send(a, IBV_WR_RDMA_WRITE, 0, EACH, 0, 3, IBV_SEND_SIGNALED), 0);
		pair_settle(&pair);
		pair_expect(&a->send_cq, 0, IBV_WC_SUCCESS);
		pair_expect(&a->send_cq, 1, IBV_WC_SUCCESS);
		pair_expect(&a->send_cq, 2, IBV_WC_LOC_PROT_ERR);
		pair_expect(&a->send_cq, 3, IBV_WC_WR_FLUSH_ERR);
		pair_verify(b, 0, 2 * EACH, 3);
		pair_close(&pair);
	}
}

/* The first two go past the stream, the third by it, where it is refused. */
static void one_of_a_row_is_refused(void **state)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED};
	uint64_t before;

	(void)state;
	begin();
	before = sent(a);
	pair_fill(b, 0, 2 * EACH, 9);
	post_row(IBV_WR_RDMA_READ, 2, EACH);
	sge = pair_sge(a, 0, 64);
	wr.wr.rdma.remote_addr = (uintptr_t)b->arena + ARENA - 63;
	wr.wr.rdma.rkey = b->key;
	assert_int_equal(pair_post(a, &wr), 0);
	pair_settle(&pair);
	pair_expect(&a->send_cq, 0, IBV_WC_SUCCESS);
	pair_expect(&a->send_cq, 1, IBV_WC_SUCCESS);
	pair_expect(&a->send_cq, 2, IBV_WC_REM_ACCESS_ERR);
	pair_verify(a, 0, 2 * EACH, 9);
	assert_true(a->reads == 2 && sent(a) > before);
	pair_close(&pair);
}

/* It is tried once, not once for each that follows. */
static void a_row_that_cannot_go(void **state)
{
	uint64_t before;

	(void)state;
	begin();
	before = sent(a);
	pair_fill(a, 0, ROW * EACH, 1);
	a->copy_result = -EPERM;
	post_row(IBV_WR_RDMA_WRITE, ROW, EACH);
	expect_row(ROW);
	pair_verify(b, 0, ROW * EACH, 1);
	assert_true(sent(a) >= before + ROW && a->writes <= ROW + 1);
	a->copy_result = 0;
	a->writes = 0;
	post_row(IBV_WR_RDMA_WRITE, ROW, EACH);
	expect_row(ROW);
	assert_int_equal(a->writes, 1);
	pair_close(&pair);
}

/* Stores need no system call that a row would save. */
static void shared_memory_has_no_rows(void **state)
{
	(void)state;
	begin();
	a->shares_memory = true;
	pair_fill(a, 0, ROW * EACH, 2);
	post_row(IBV_WR_RDMA_WRITE, ROW, EACH);
	expect_row(ROW);
	pair_verify(b, 0, ROW * EACH, 2);
	assert_true(a->writes == 0 && a->shares > 0);
	pair_close(&pair);
}

static void a_row_with_inline_data(void **state)
{
	const struct pair_options options = {.max_inline = 64};

	(void)state;
	pair_open(&pair, BY_BYPASS, &options);
	pair_connect(&pair, &usual);
	pair_fill(a, 0, 3 * 64, 6);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(pair_send(a, IBV_WR_RDMA_WRITE, i * 64, 64, i * 64, i, IBV_SEND_SIGNALED | (i == 1 ? IBV_SEND_INLINE : 0)),
				 0);
	expect_row(3);
	pair_verify(b, 0, 3 * 64, 6);
	assert_int_equal(a->writes, 1);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_of_all_lengths),
		cmocka_unit_test(sends_go_by_the_stream),
		cmocka_unit_test(nothing_overtakes_a_message_that_waits),
		cmocka_unit_test(a_stream_that_is_full_is_waited_for),
		cmocka_unit_test(a_refused_one_goes_by_the_stream),
		cmocka_unit_test(an_unreachable_peer_has_the_stream),
		cmocka_unit_test(a_long_one_that_cannot_go_on),
		cmocka_unit_test(another_connection),
		cmocka_unit_test(a_peer_that_shows_something_else),
		cmocka_unit_test(the_peer_fails),
		cmocka_unit_test(a_row_is_one_copy),
		cmocka_unit_test(a_row_keeps_its_order),
		cmocka_unit_test(where_a_row_ends),
		cmocka_unit_test(work_at_fault_behind_a_row),
		cmocka_unit_test(one_of_a_row_is_refused),
		cmocka_unit_test(a_row_that_cannot_go),
		cmocka_unit_test(shared_memory_has_no_rows),
		cmocka_unit_test(a_row_with_inline_data),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
