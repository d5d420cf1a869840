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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
