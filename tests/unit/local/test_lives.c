/* SPDX-License-Identifier: MIT
 *
 * Coming together and parting: who goes with whom through memory, new lives under old numbers, peers that die at every step,
 * and what of the past still counts.
 */
#include "local/doorbells.h"
#include "pair.h"

static struct pair pair;
static struct process *const a = &pair.process[0], *const b = &pair.process[1];

static void begin(void)
{
	pair_open(&pair, BY_MEMORY, NULL);
	pair_connect(&pair, &usual);
}

static void reconnect(struct process *p)
{
	assert_int_equal(pair_to(p, IBV_QPS_RESET), 0);
	pair_to_init(p, &usual);
	pair_to_rtr(p, &usual);
	pair_to_rts(p, &usual);
}

/* One message each way and a WRITE; all must arrive. */
static void exchange(uint64_t wr_id)
{
	pair_fill(a, 0, 100, (uint8_t)wr_id);
	pair_fill(b, 200, 100, (uint8_t)(wr_id + 1));
	pair_receive(a, 1000, 100, wr_id);
	pair_receive(b, 1000, 100, wr_id);
	pair_send(a, IBV_WR_SEND, 0, 100, 0, wr_id + 1, IBV_SEND_SIGNALED);
	pair_send(b, IBV_WR_SEND, 200, 100, 0, wr_id + 1, IBV_SEND_SIGNALED);
	pair_send(a, IBV_WR_RDMA_WRITE, 0, 100, 3000, wr_id + 2, IBV_SEND_SIGNALED);
	pair_settle(&pair);
	for (unsigned i = 0; i < 2; i++) {
		pair_expect(&pair.process[i].recv_cq, wr_id, IBV_WC_SUCCESS);
		pair_expect(&pair.process[i].send_cq, wr_id + 1, IBV_WC_SUCCESS);
	}
	pair_expect(&a->send_cq, wr_id + 2, IBV_WC_SUCCESS);
	pair_verify(b, 1000, 100, (uint8_t)wr_id);
	pair_verify(a, 1000, 100, (uint8_t)(wr_id + 1));
	pair_verify(b, 3000, 100, (uint8_t)wr_id);
	pair_expect_nothing(&pair);
}

static void many_lives_under_the_same_numbers(void **state)
{
	(void)state;
	begin();
	for (unsigned i = 0; i < 50; i++) {
		exchange(i * 10);
		/* Some part with work left in the ring. */
		if (i % 3 == 0)
			pair_send(a, IBV_WR_SEND, 0, 100, 0, 99, 0);
		if (i % 3 != 1)
			pair_serve(a);
		reconnect(i % 2 ? a : b);
		if (i % 5 == 0)
			pair_settle(&pair);
		reconnect(i % 2 ? b : a);
		pair_settle(&pair);
		pair_expect_nothing(&pair);
	}
	pair_close(&pair);
}

/* Nothing has passed yet: whoever comes again is welcome. */
static void a_peer_may_come_again_before_anything_passed(void **state)
{
	(void)state;
	begin();
	reconnect(b);
	pair_settle(&pair);
	exchange(1);
	pair_close(&pair);
}

/* b is destroyed, and another queue pair gets its number, at another index of the segment. `taken`: the two had found each other. */
static void come_back_elsewhere(bool taken)
{
	pair_open(&pair, BY_MEMORY, NULL);
	if (taken) {
		pair_connect(&pair, &usual);
	} else {
		pair_to_init(a, &usual);
		pair_to_rtr(a, &usual);
		pair_to_rts(a, &usual);
		pair_to_init(b, &usual);
	}
	pair_settle(&pair);
	assert_int_equal(vb_local_path(a->local), taken ? VB_LOCAL_TAKEN : VB_LOCAL_UNDECIDED);
	assert_int_equal(pair_to(b, IBV_QPS_RESET), 0);
	b->segment->qp_index[PAIR_QPN_INDEX] = 0;
	pair_settle(&pair);
	assert_false(vb_local_has_work(a->local));
	b->segment->qp_index[PAIR_QPN_INDEX] = 1 + PAIR_QP_INDEX + 7;
	pair_to_init(b, &usual);
	pair_to_rtr(b, &usual);
	pair_to_rts(b, &usual);
	/* A process that sleeps, and looks at its queue pairs when it is woken, finds it. */
	assert_true(vb_local_has_work(a->local));
	exchange(1);
	assert_int_equal(vb_local_path(a->local), VB_LOCAL_TAKEN);
	/* Something has passed: the next one is not the same any more, wherever it is. */
	assert_int_equal(pair_to(b, IBV_QPS_RESET), 0);
	b->segment->qp_index[PAIR_QPN_INDEX] = 1 + PAIR_QP_INDEX;
	reconnect(b);
	pair_send(a, IBV_WR_SEND, 0, 8, 0, 21, 0);
	pair_run(&pair, pair.now + VB_SECONDS(10));
	pair_expect(&a->send_cq, 21, IBV_WC_RETRY_EXC_ERR);
	pair_close(&pair);
}

static void a_number_may_come_back_elsewhere(void **state)
{
	(void)state;
	come_back_elsewhere(false);
	come_back_elsewhere(true);
}

/* Something has: the old generation's counts do not fit the new one. As on the wire, nobody answers. */
static void a_new_life_does_not_answer_for_the_old(void **state)
{
	(void)state;
	begin();
	exchange(1);
	reconnect(b);
	pair_receive(b, 0, 100, 20);
	pair_send(a, IBV_WR_SEND, 0, 8, 0, 21, 0);
	pair_send(b, IBV_WR_RDMA_WRITE, 0, 8, 0, 22, 0);
	pair_run(&pair, pair.now + VB_SECONDS(10));
	pair_expect(&a->send_cq, 21, IBV_WC_RETRY_EXC_ERR);
	pair_expect(&b->send_cq, 22, IBV_WC_RETRY_EXC_ERR);
	pair_expect(&b->recv_cq, 20, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(a->counters.retry_exceeded_err, 1);
	pair_close(&pair);
}

/* A has reset and come again, b has not noticed: what it holds is of a's generation before. */
static void work_waits_for_the_right_life(void **state)
{
	(void)state;
	begin();
	exchange(1);
	reconnect(a);
	pair_receive(b, 500, 100, 20);
	pair_send(a, IBV_WR_SEND, 0, 8, 0, 21, IBV_SEND_SIGNALED);
	pair_send(a, IBV_WR_RDMA_WRITE, 0, 8, 0, 22, IBV_SEND_SIGNALED);
	pair_settle(&pair);
	pair_expect_nothing(&pair);
	assert_int_equal(a->writes, 1);
	/* The application of b gets there in time. */
	reconnect(b);
	pair_receive(b, 500, 100, 23);
	pair_settle(&pair);
	pair_expect(&b->recv_cq, 23, IBV_WC_SUCCESS);
	pair_expect(&a->send_cq, 21, IBV_WC_SUCCESS);
	pair_expect(&a->send_cq, 22, IBV_WC_SUCCESS);
	pair_close(&pair);
}

/* The receiver of the last message destroys its queue pair at once, and makes another under the same number. */
static void acknowledgements_outlive_their_giver(void **state)
{
	(void)state;
	for (unsigned again = 0; again < 2; again++) {
		begin();
		pair_receive(b, 0, 100, 1);
		pair_send(a, IBV_WR_SEND, 0, 8, 0, 2, IBV_SEND_SIGNALED);
		pair_serve(a);
		pair_serve(b);
		pair_expect(&b->recv_cq, 1, IBV_WC_SUCCESS);
		assert_int_equal(pair_to(b, IBV_QPS_RESET), 0);
		if (again)
			reconnect(b);
		pair_run(&pair, pair.now + VB_SECONDS(10));
		pair_expect(&a->send_cq, 2, IBV_WC_SUCCESS);
		pair_expect_nothing(&pair);
		pair_close(&pair);
	}
}

static void naks_outlive_their_giver(void **state)
{
	(void)state;
	for (unsigned again = 0; again < 2; again++) {
		begin();
		pair_receive(b, 0, 4, 1);
		pair_send(a, IBV_WR_SEND, 0, 8, 0, 2, IBV_SEND_SIGNALED);
		pair_serve(a);
		pair_serve(b);
		pair_expect(&b->recv_cq, 1, IBV_WC_LOC_LEN_ERR);
		assert_int_equal(b->qp->state, IBV_QPS_ERR);
		assert_int_equal(pair_to(b, IBV_QPS_RESET), 0);
		if (again)
			reconnect(b);
		pair_run(&pair, pair.now + VB_SECONDS(10));
		pair_expect(&a->send_cq, 2, IBV_WC_REM_INV_REQ_ERR);
		pair_close(&pair);
	}
}

static void records_of_the_dead_are_not_executed(void **state)
{
	(void)state;
	begin();
	pair_receive(b, 0, 100000, 1);
	pair_send(a, IBV_WR_SEND, 0, 8, 0, 2, IBV_SEND_SIGNALED);
	pair_send(a, IBV_WR_SEND, 0, 50000, 0, 3, IBV_SEND_SIGNALED);
	pair_serve(a);
	assert_int_equal(pair_to(a, IBV_QPS_ERR), 0);
	pair_settle(&pair);
	pair_expect(&a->send_cq, 2, IBV_WC_WR_FLUSH_ERR);
	pair_expect(&a->send_cq, 3, IBV_WC_WR_FLUSH_ERR);
	pair_expect_nothing(&pair);
	pair_close(&pair);
}

/* The sender fails in the middle of a message that is pulled in pieces: the receive stays, and is flushed with the others. */
static void half_a_message(void **state)
{
	(void)state;
	for (unsigned who = 0; who < 2; who++) {
		begin();
		pair_receive(b, 0, 4 << 20, 1);
		pair_receive(b, 0, 4 << 20, 2);
		pair_send(a, IBV_WR_SEND, 0, 4 << 20, 0, 3, IBV_SEND_SIGNALED);
		pair_serve(a);
		pair_serve(b);
		assert_int_equal(b->reads, 1);
		assert_int_equal(pair_to(who ? b : a, IBV_QPS_ERR), 0);
		pair_run(&pair, pair.now + VB_SECONDS(10));
		assert_int_equal(b->reads, 1);
		pair_expect(&a->send_cq, 3, who ? IBV_WC_RETRY_EXC_ERR : IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(pair_to(b, IBV_QPS_ERR), 0);
		pair_expect(&b->recv_cq, 1, IBV_WC_WR_FLUSH_ERR);
		pair_expect(&b->recv_cq, 2, IBV_WC_WR_FLUSH_ERR);
		pair_expect_nothing(&pair);
		pair_close(&pair);
	}
}

/* b is at a's first message, which is behind a wrap, and has no receive for it. Whoever has a's number next begins at the beginning. */
static void stall_and_come_again(bool elsewhere)
{
	begin();
	pair_fill(a, 0, 1000, 1);
	pair_send(a, IBV_WR_SEND, 0, 1000, 0, 1, IBV_SEND_SIGNALED);
	pair_serve(a);
	pair_serve(b);
	assert_int_equal(pair_to(a, IBV_QPS_RESET), 0);
	if (elsewhere)
		a->segment->qp_index[PAIR_QPN_INDEX] = 1 + PAIR_QP_INDEX + 7;
	reconnect(a);
	pair_fill(a, 0, 8, 77);
	pair_send(a, IBV_WR_SEND, 0, 8, 0, 2, IBV_SEND_SIGNALED);
	pair_receive(b, 5000, 1000, 3);
	pair_settle(&pair);
	pair_expect(&b->recv_cq, 3, IBV_WC_SUCCESS);
	pair_expect(&a->send_cq, 2, IBV_WC_SUCCESS);
	pair_verify(b, 5000, 8, 77);
	pair_expect_nothing(&pair);
	pair_close(&pair);
}

static void a_new_life_begins_at_the_beginning(void **state)
{
	(void)state;
	stall_and_come_again(false);
	stall_and_come_again(true);
}

/* Of a's first message one piece was pulled. What comes in its next life is pulled from its first byte. */
static void a_new_life_is_pulled_whole(void **state)
{
	(void)state;
	begin();
	pair_receive(b, 0, 4 << 20, 1);
	pair_fill(a, 0, 4 << 20, 1);
	pair_send(a, IBV_WR_SEND, 0, 4 << 20, 0, 3, IBV_SEND_SIGNALED);
	pair_serve(a);
	pair_serve(b);
	assert_int_equal(b->reads, 1);
	reconnect(a);
	pair_fill(a, 0, 3 << 20, 77);
	pair_send(a, IBV_WR_SEND, 0, 3 << 20, 0, 4, IBV_SEND_SIGNALED);
	pair_settle(&pair);
	pair_expect(&b->recv_cq, 1, IBV_WC_SUCCESS);
	pair_expect(&a->send_cq, 4, IBV_WC_SUCCESS);
	pair_verify(b, 0, 3 << 20, 77);
	pair_expect_nothing(&pair);
	pair_close(&pair);
}

/* A long message is progress, however long it takes. */
static void a_long_pull_is_an_answer(void **state)
{
	struct connection c = usual;

	(void)state;
	pair_open(&pair, BY_MEMORY, NULL);
	c.timeout = 1;
	c.retry_cnt = 0;
	pair_connect(&pair, &c);
	pair_receive(b, 0, 5 << 20, 1);
	pair_send(a, IBV_WR_SEND, 0, 5 << 20, 0, 3, IBV_SEND_SIGNALED);
	for (unsigned i = 0; i < 8; i++) {
		pair_serve(a);
		pair_serve(b);
		pair.now += VB_MILLISECONDS(4);
	}
	pair_expect(&b->recv_cq, 1, IBV_WC_SUCCESS);
	pair_expect(&a->send_cq, 3, IBV_WC_SUCCESS);
	pair_close(&pair);
}

/* ---- offers ---- */

static void another_mtu_is_left_to_the_wire(void **state)
{
	struct connection c = usual;

	(void)state;
	pair_open(&pair, BY_MEMORY, NULL);
	c.mtu[1] = IBV_MTU_2048;
	pair_connect(&pair, &c);
	assert_int_equal(vb_local_path(a->local), VB_LOCAL_DECLINED);
	assert_int_equal(vb_local_path(b->local), VB_LOCAL_DECLINED);
	/* Their work is the wire's now. */
	pair_send(a, IBV_WR_SEND, 0, 8, 0, 1, 0);
	pair_run(&pair, pair.now + VB_SECONDS(100));
	assert_int_equal(vb_send_queue_count(&a->qp->send), 1);
	assert_int_equal(vb_local_next_deadline(a->local), VB_TIME_NEVER);
	pair_close(&pair);
}

static void a_peer_that_offers_the_wire(void **state)
{
	struct vb_local *none;

	(void)state;
	pair_open(&pair, BY_MEMORY, NULL);
	pair_to_init(a, &usual);
	pair_to_init(b, &usual);
	pair_to_rtr(a, &usual);
	pair_to_rts(a, &usual);
	pair_settle(&pair);
	assert_int_equal(vb_local_path(a->local), VB_LOCAL_UNDECIDED);
	pair_to_rtr(b, &usual);
	/* Instead of what pair_to_rtr attached. */
	vb_lock_take(&b->qp->lock);
	vb_local_detach(b->qp, b->segment, b->local);
	assert_int_equal(vb_local_attach(b->qp, b->segment, b->slot, 2, NULL, pair.now, &none), 0);
	b->local = NULL;
	assert_null(none);
	vb_lock_release(&b->qp->lock);
	assert_true(vb_local_has_work(a->local));
	pair_settle(&pair);
	assert_int_equal(vb_local_path(a->local), VB_LOCAL_DECLINED);
	assert_int_equal(a->segment->qp[PAIR_QP_INDEX].offer, VB_OFFER_WIRE);
	pair_close(&pair);
}

/* A peer that is connected to somebody else is not there for us, whatever it offers. */
static void a_peer_that_means_another(void **state)
{
	(void)state;
	pair_open(&pair, BY_MEMORY, NULL);
	pair_to_init(a, &usual);
	pair_to_init(b, &usual);
	pair_to_rtr(b, &usual);
	b->segment->qp[PAIR_QP_INDEX].peer_qpn++;
	pair_to_rtr(a, &usual);
	pair_to_rts(a, &usual);
	pair_send(a, IBV_WR_SEND, 0, 8, 0, 1, 0);
	pair_settle(&pair);
	assert_int_equal(vb_local_path(a->local), VB_LOCAL_UNDECIDED);
	pair_run(&pair, pair.now + VB_SECONDS(10));
	pair_expect(&a->send_cq, 1, IBV_WC_RETRY_EXC_ERR);
	pair_close(&pair);
}

static void work_waits_for_a_late_peer(void **state)
{
	(void)state;
	pair_open(&pair, BY_MEMORY, NULL);
	pair_to_init(a, &usual);
	pair_to_init(b, &usual);
	pair_to_rtr(a, &usual);
	pair_to_rts(a, &usual);
	pair_send(a, IBV_WR_SEND, 0, 8, 0, 1, IBV_SEND_SIGNALED);
	pair_send(a, IBV_WR_RDMA_WRITE, 0, 8, 0, 2, IBV_SEND_SIGNALED);
	pair_run(&pair, pair.now + VB_MILLISECONDS(400));
	pair_receive(b, 0, 64, 3);
	b->segment->header.asleep = 0;
	a->segment->header.asleep = 1;
	pair_to_rtr(b, &usual);
	assert_true(b->wakes > 0);
	pair_settle(&pair);
	pair_expect(&a->send_cq, 1, IBV_WC_SUCCESS);
	pair_expect(&a->send_cq, 2, IBV_WC_SUCCESS);
	pair_expect(&b->recv_cq, 3, IBV_WC_SUCCESS);
	pair_close(&pair);
}

/* Timeout 0: for ever. And patience is measured from the last progress. */
static void patience(void **state)
{
	struct connection c = usual;

	(void)state;
	pair_open(&pair, BY_MEMORY, NULL);
	c.timeout = 0;
	pair_connect(&pair, &c);
	assert_int_equal(pair_to(b, IBV_QPS_ERR), 0);
	pair_send(a, IBV_WR_SEND, 0, 8, 0, 1, 0);
	pair_run(&pair, pair.now + VB_SECONDS(1000));
	pair_expect_nothing(&pair);
	assert_int_equal(vb_local_next_deadline(a->local), VB_TIME_NEVER);
	pair_close(&pair);

	pair_open(&pair, BY_MEMORY, NULL);
	c.timeout = 14;
	c.retry_cnt = 3;
	pair_connect(&pair, &c);
	assert_int_equal(pair_to(b, IBV_QPS_ERR), 0);
	pair_send(a, IBV_WR_RDMA_WRITE, 0, 8, 0, 1, 0);
	/* Four tries, each of which may take four times as long as asked. */
	pair_run(&pair, pair.now + 16 * VB_MICROSECONDS(67108) - 1);
	pair_expect_nothing(&pair);
	pair_run(&pair, pair.now + VB_MILLISECONDS(1));
	pair_expect(&a->send_cq, 1, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(a->counters.local_ack_timeout_err, 15);
	pair_close(&pair);
}

/* Progress in time for the first look: not a timeout, and all patience begins again with it. */
static void progress_renews_patience(void **state)
{
	const vb_time timeout = VB_NANOSECONDS(4096) << 14;
	struct connection c = usual;

	(void)state;
	pair_open(&pair, BY_MEMORY, NULL);
	c.timeout = 14;
	c.retry_cnt = 3;
	pair_connect(&pair, &c);
	for (uint64_t i = 1; i <= 3; i++) {
		pair_receive(b, 4096, 64, 100 + i);
		pair_send(a, IBV_WR_SEND, 0, 8, 0, i, IBV_SEND_SIGNALED);
		pair_settle(&pair);
		pair_expect(&b->recv_cq, 100 + i, IBV_WC_SUCCESS);
		pair_expect(&a->send_cq, i, IBV_WC_SUCCESS);
		/* Nothing waits, so there is no deadline. */
		assert_int_equal(vb_local_next_deadline(a->local), VB_TIME_NEVER);
		pair.now += timeout - VB_MILLISECONDS(1);
	}
	assert_int_equal(pair_to(b, IBV_QPS_ERR), 0);
	pair_send(a, IBV_WR_SEND, 0, 8, 0, 4, IBV_SEND_SIGNALED);
	pair_settle(&pair);
	assert_int_equal(a->counters.local_ack_timeout_err, 0);
	pair_run(&pair, pair.now + 16 * timeout - VB_MILLISECONDS(1));
	pair_expect_nothing(&pair);
	assert_int_equal(a->counters.local_ack_timeout_err, 15);
	pair_run(&pair, pair.now + VB_MILLISECONDS(2));
	pair_expect(&a->send_cq, 4, IBV_WC_RETRY_EXC_ERR);
	pair_close(&pair);
}

/* ---- sleep ---- */

static void who_sleeps_is_woken(void **state)
{
	struct vb_doorbells_heard heard;
	uint32_t qpn[4];
	bool missed = false;
	unsigned wakes;

	(void)state;
	begin();
	b->segment->header.asleep = 1;
	pair_send(a, IBV_WR_RDMA_WRITE, 0, 8, 0, 1, 0);
	pair_send(a, IBV_WR_RDMA_READ, 0, 8, 0, 1, 0);
	while (pair_serve(a))
		;
	assert_int_equal(a->wakes, 0);
	pair_send(a, IBV_WR_SEND, 0, 8, 0, 2, 0);
	pair_serve(a);
	assert_int_equal(a->wakes, 1);
	pair_receive(b, 0, 8, 3);
	a->segment->header.asleep = 1;
	b->segment->header.asleep = 0;
	wakes = b->wakes;
	assert_true(vb_local_has_work(b->local));
	pair_serve(b);
	assert_int_equal(b->wakes, wakes + 1);
	assert_true(vb_local_has_work(a->local));
	a->segment->header.asleep = 0;
	pair_settle(&pair);
	assert_false(vb_local_has_work(a->local));
	/* A crowded process is told where to look. */
	vb_doorbells_attend(a->segment, b->slot, &heard);
	b->segment->header.crowded = 1;
	pair_receive(b, 0, 8, 3);
	pair_send(a, IBV_WR_SEND, 0, 8, 0, 2, 0);
	pair_serve(a);
	assert_int_equal(vb_doorbells_hear(a->segment, b->slot, &heard, qpn, 4, &missed), 1);
	assert_int_equal(qpn[0], b->qp->qpn);
	assert_false(missed);
	pair_close(&pair);
}

/* ---- dying ---- */

/* Everything that can be under way, in both directions. */
static void post_all(void)
{
	for (unsigned i = 0; i < 2; i++) {
		struct process *p = &pair.process[i];

		for (unsigned k = 0; k < 8; k++)
			pair_receive(p, 4 << 20, 2 << 20, 100 + k);
		pair_send(p, IBV_WR_SEND, 0, 8, 0, 1, IBV_SEND_SIGNALED);
		pair_send(p, IBV_WR_SEND, 0, (1 << 20) + 5, 0, 2, IBV_SEND_SIGNALED);
		pair_send(p, IBV_WR_RDMA_WRITE, 0, 1 << 21, 0, 3, IBV_SEND_SIGNALED);
		pair_atomic(p, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8, 1, 0, 4);
		pair_send(p, IBV_WR_RDMA_READ, 0, 100, 0, 5, IBV_SEND_SIGNALED);
		pair_send(p, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 10, 0, 6, IBV_SEND_SIGNALED);
		pair_send(p, IBV_WR_SEND, 0, 10000, 0, 7, IBV_SEND_SIGNALED);
	}
}

/* After so many steps of both, b does not move any more. All of a's work must end, well or with RETRY_EXC, and in order. */
static bool die_after(unsigned steps, int result)
{
	unsigned busy_after = 0, completed = 0;
	vb_time end;
	struct ibv_wc wc;

	begin();
	post_all();
	for (unsigned i = 0; i < steps; i++)
		busy_after += pair_serve(i % 2 ? b : a);
	if (result != 0) {
		a->copy_result = result;
		__atomic_store_n(&a->peer.gone, true, __ATOMIC_RELAXED);
	}
	end = pair.now + VB_SECONDS(60);
	while (pair.now < end) {
		for (unsigned i = 0; pair_serve(a); i++)
			assert_true(i < 1000);
		pair.now = vb_time_earlier(end, vb_local_next_deadline(a->local));
	}
	while (pair_poll(&a->send_cq, &wc)) {
		assert_int_equal(wc.wr_id, ++completed);
		assert_true(wc.status == IBV_WC_SUCCESS || wc.status == IBV_WC_RETRY_EXC_ERR || wc.status == IBV_WC_WR_FLUSH_ERR);
	}
	assert_int_equal(completed, 7);
	pair_close(&pair);
	return busy_after == steps;
}

static void death_at_every_step(void **state)
{
	unsigned steps = 0;

	(void)state;
	while (die_after(steps, 0))
		steps++;
	assert_true(steps > 5);
	for (unsigned i = 0; i <= steps; i++)
		die_after(i, -ESRCH);
}

/* Both sides of a queue pair that is connected to itself. */
static void a_queue_pair_with_itself(void **state)
{
	struct connection c = usual;

	(void)state;
	pair_open(&pair, BY_MEMORY, NULL);
	a->other = a;
	a->peer.segment = a->segment;
	a->peer.slot = a->slot;
	c.psn[1] = c.psn[0];
	pair_to_init(a, &c);
	pair_to_rtr(a, &c);
	pair_to_rts(a, &c);
	for (unsigned i = 0; i < 100; i++) {
		pair_fill(a, 0, 9000, (uint8_t)i);
		pair_receive(a, 20000, 9000, 1);
		pair_send(a, IBV_WR_SEND, 0, 9000, 0, 2, IBV_SEND_SIGNALED);
		pair_send(a, IBV_WR_RDMA_WRITE, 0, 9000, 40000, 3, IBV_SEND_SIGNALED);
		pair_settle(&pair);
		pair_expect(&a->recv_cq, 1, IBV_WC_SUCCESS);
		pair_expect(&a->send_cq, 2, IBV_WC_SUCCESS);
		pair_expect(&a->send_cq, 3, IBV_WC_SUCCESS);
		pair_verify(a, 20000, 9000, (uint8_t)i);
		pair_verify(a, 40000, 9000, (uint8_t)i);
	}
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_lives_under_the_same_numbers),
		cmocka_unit_test(a_peer_may_come_again_before_anything_passed),
		cmocka_unit_test(a_number_may_come_back_elsewhere),
		cmocka_unit_test(a_new_life_does_not_answer_for_the_old),
		cmocka_unit_test(work_waits_for_the_right_life),
		cmocka_unit_test(acknowledgements_outlive_their_giver),
		cmocka_unit_test(naks_outlive_their_giver),
		cmocka_unit_test(records_of_the_dead_are_not_executed),
		cmocka_unit_test(half_a_message),
		cmocka_unit_test(a_new_life_begins_at_the_beginning),
		cmocka_unit_test(a_new_life_is_pulled_whole),
		cmocka_unit_test(a_long_pull_is_an_answer),
		cmocka_unit_test(another_mtu_is_left_to_the_wire),
		cmocka_unit_test(a_peer_that_offers_the_wire),
		cmocka_unit_test(a_peer_that_means_another),
		cmocka_unit_test(work_waits_for_a_late_peer),
		cmocka_unit_test(patience),
		cmocka_unit_test(progress_renews_patience),
		cmocka_unit_test(who_sleeps_is_woken),
		cmocka_unit_test(death_at_every_step),
		cmocka_unit_test(a_queue_pair_with_itself),
	};

	return cmocka_run_group_tests_name("local/lives", tests, NULL, NULL);
}
