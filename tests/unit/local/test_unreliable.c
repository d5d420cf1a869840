/* SPDX-License-Identifier: MIT
 *
 * UC through memory, where it is not as RC: a sender hears of nothing, waits for nobody for ever, and goes on when its peer comes again.
 * What both do alike, and what UC does on the wire, test_parity.c compares.
 */
#include "pair.h"

static struct pair pair;
static struct process *const a = &pair.process[0], *const b = &pair.process[1];

static void open_both(void)
{
	pair_open(&pair, BY_MEMORY, &(struct pair_options){.unreliable = true});
}

static void begin(void)
{
	open_both();
	pair_connect(&pair, &usual);
	assert_int_equal(vb_local_path(a->local), VB_LOCAL_TAKEN);
	assert_int_equal(vb_local_path(b->local), VB_LOCAL_TAKEN);
}

static void connect_one(struct process *p, const struct connection *c)
{
	pair_to_init(p, c);
	pair_to_rtr(p, c);
	pair_to_rts(p, c);
}

static void reconnect(struct process *p)
{
	/* A PSN means nothing to the other, which goes on with its own. */
	struct connection c = usual;

	c.psn[0] += 1000;
	c.psn[1] += 5000;
	assert_int_equal(pair_to(p, IBV_QPS_RESET), 0);
	connect_one(p, &c);
}

static void exchange_length(uint64_t wr_id, uint32_t length)
{
	for (unsigned i = 0; i < 2; i++) {
		struct process *p = &pair.process[i];

		pair_fill(p, 0, length, (uint8_t)(wr_id + i));
		pair_receive(p, 1 << 20, length, wr_id);
		pair_receive(p, 2 << 20, length, wr_id + 1);
		pair_send(p, IBV_WR_SEND_WITH_IMM, 0, length, 0, wr_id + 2, IBV_SEND_SIGNALED);
		pair_send(p, IBV_WR_RDMA_WRITE, 0, length, 3 << 20, wr_id + 3, IBV_SEND_SIGNALED);
		pair_send(p, IBV_WR_RDMA_WRITE_WITH_IMM, 0, length, 4 << 20, wr_id + 4, IBV_SEND_SIGNALED);
	}
	pair_settle(&pair);
	for (unsigned i = 0; i < 2; i++) {
		struct process *p = &pair.process[i];

		for (unsigned k = 0; k < 3; k++)
			pair_expect(&p->send_cq, wr_id + 2 + k, IBV_WC_SUCCESS);
		pair_expect(&p->recv_cq, wr_id, IBV_WC_SUCCESS);
		pair_expect(&p->recv_cq, wr_id + 1, IBV_WC_SUCCESS);
		pair_verify(p, 1 << 20, length, (uint8_t)(wr_id + 1 - i));
		pair_verify(p, 3 << 20, length, (uint8_t)(wr_id + 1 - i));
		pair_verify(p, 4 << 20, length, (uint8_t)(wr_id + 1 - i));
	}
	pair_expect_nothing(&pair);
}

static void exchange(uint64_t wr_id)
{
	exchange_length(wr_id, 100);
	exchange_length(wr_id, 60000);
}

/* ---- nobody there ---- */

static void what_is_sent_to_nobody_completes_at_once(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM};
	vb_time before;

	(void)state;
	open_both();
	pair_to_init(b, &usual);
	connect_one(a, &usual);
	before = pair.now;
	for (unsigned i = 0; i < 300; i++)
		pair_send(a, opcodes[i % 4], 0, i % 3 == 0 ? 0 : i % 3 == 1 ? 8 : 100000, 0, i, IBV_SEND_SIGNALED);
	pair_settle(&pair);
	for (unsigned i = 0; i < 300; i++)
		pair_expect(&a->send_cq, i, IBV_WC_SUCCESS);
	pair_expect_nothing(&pair);
	assert_true(pair.now == before);
	/* A peer that comes later is found, and what was lost stays lost. */
	pair_to_rtr(b, &usual);
	pair_to_rts(b, &usual);
	pair_settle(&pair);
	exchange(1000);
	pair_close(&pair);
}

/* What is wrong at this end is told, whether there is a peer or not. */
static void our_own_faults_are_told_without_a_peer(void **state)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.wr_id = 7, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};

	(void)state;
	open_both();
	pair_to_init(b, &usual);
	connect_one(a, &usual);
	sge = pair_sge(a, 0, 100);
	sge.lkey ^= 0x100;
	assert_int_equal(pair_post(a, &wr), 0);
	pair_send(a, IBV_WR_SEND, 0, 8, 0, 8, 0);
	pair_settle(&pair);
	pair_expect(&a->send_cq, 7, IBV_WC_LOC_PROT_ERR);
	pair_expect(&a->send_cq, 8, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(a->qp->state, IBV_QPS_SQE);
	/* From there it goes on. */
	assert_int_equal(pair_to(a, IBV_QPS_RTS), 0);
	pair_to_rtr(b, &usual);
	pair_to_rts(b, &usual);
	pair_settle(&pair);
	exchange(100);
	pair_close(&pair);
}

/* What was sent before the failure arrives, and from SQE it goes on. */
static void a_failed_send_takes_nothing_along(void **state)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.wr_id = 7, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};

	(void)state;
	begin();
	pair_receive(b, 1 << 20, 100, 1);
	sge = pair_sge(a, 0, 100);
	sge.lkey ^= 0x100;
	pair_send(a, IBV_WR_SEND, 0, 100, 0, 6, IBV_SEND_SIGNALED);
	assert_int_equal(pair_post(a, &wr), 0);
	pair_serve(a);
	pair_settle(&pair);
	pair_expect(&a->send_cq, 6, IBV_WC_SUCCESS);
	pair_expect(&a->send_cq, 7, IBV_WC_LOC_PROT_ERR);
	pair_expect(&b->recv_cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(a->qp->state, IBV_QPS_SQE);
	assert_int_equal(pair_to(a, IBV_QPS_RTS), 0);
	exchange(100);
	pair_close(&pair);
}

/* What was left in the ring when its sender fell into the error state was sent, and is received. */
static void the_error_state_does_not_take_back(void **state)
{
	(void)state;
	begin();
	for (unsigned i = 0; i < 4; i++)
		pair_receive(b, i << 20, 1 << 20, i);
	for (unsigned i = 0; i < 3; i++)
		pair_send(a, IBV_WR_SEND, 0, 100, 0, 10 + i, IBV_SEND_SIGNALED);
	pair_send(a, IBV_WR_SEND, 0, 100000, 0, 13, IBV_SEND_SIGNALED);
	pair_serve(a);
	assert_int_equal(pair_to(a, IBV_QPS_ERR), 0);
	for (unsigned i = 0; i < 4; i++)
		pair_expect(&a->send_cq, 10 + i, IBV_WC_SUCCESS);
	pair_settle(&pair);
	for (unsigned i = 0; i < 3; i++)
		pair_expect(&b->recv_cq, i, IBV_WC_SUCCESS);
	/* But for the one whose bytes are the application's again. */
	pair_expect_nothing(&pair);
	assert_int_equal(b->counters.dropped_pkts, 1);
	pair_close(&pair);
}

/* A queue pair of the other kind does not understand it, as on the wire. */
static void kinds_do_not_mix(void **state)
{
	struct vb_qp_config config;

	(void)state;
	open_both();
	config = (struct vb_qp_config){
		.type = IBV_QPT_RC,
		.pd = &a->pd,
		.send_cq = &a->send_cq,
		.recv_cq = &a->recv_cq,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qpn = a->qp->qpn,
	};
	vb_qp_destroy(a->qp);
	assert_int_equal(vb_qp_create(&config, &a->queue_host, b->qp->transport, NULL, &a->qp), 0);
	connect_one(b, &usual);
	pair.unreliable = false;
	connect_one(a, &usual);
	pair_receive(b, 0, 100, 1);
	pair_receive(a, 0, 100, 1);
	pair_send(a, IBV_WR_SEND, 0, 8, 0, 2, IBV_SEND_SIGNALED);
	pair_send(b, IBV_WR_SEND, 0, 8, 0, 3, IBV_SEND_SIGNALED);
	pair_run(&pair, pair.now + VB_SECONDS(20));
	pair_expect(&a->send_cq, 2, IBV_WC_RETRY_EXC_ERR);
	pair_expect(&a->recv_cq, 1, IBV_WC_WR_FLUSH_ERR);
	pair_expect(&b->send_cq, 3, IBV_WC_SUCCESS);
	pair_expect_nothing(&pair);
	assert_int_equal(vb_local_path(b->local), VB_LOCAL_UNDECIDED);
	pair_close(&pair);
}

/* Its peer is connected to another queue pair. Packets of UC do not say whose they are, so that goes by wire. */
static void a_ring_of_three_goes_by_wire(void **state)
{
	(void)state;
	open_both();
	connect_one(b, &usual);
	pair_settle(&pair);
	b->segment->qp[PAIR_QP_INDEX].peer_qpn ^= 1;
	connect_one(a, &usual);
	pair_settle(&pair);
	assert_int_equal(vb_local_path(a->local), VB_LOCAL_DECLINED);
	pair_close(&pair);
}

/* ---- receives ---- */

static void a_message_without_a_receive_is_dropped(void **state)
{
	vb_time before;

	(void)state;
	begin();
	before = pair.now;
	for (unsigned i = 0; i < 10; i++)
		pair_send(a, i % 2 ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_SEND, 0, i < 5 ? 8 : 50000, 0, i, IBV_SEND_SIGNALED);
	pair_settle(&pair);
	for (unsigned i = 0; i < 10; i++)
		pair_expect(&a->send_cq, i, IBV_WC_SUCCESS);
	assert_int_equal(b->counters.dropped_pkts, 10);
	assert_true(pair.now == before);
	pair_receive(b, 0, 100, 1);
	pair_settle(&pair);
	pair_expect_nothing(&pair);
	pair_close(&pair);
}

/* A stream to an application that posts its receives late: nothing is lost, and what is in the ring completes. */
static void a_receiver_may_be_behind(void **state)
{
	(void)state;
	begin();
	pair_receive(b, 0, 100, 0);
	for (unsigned i = 0; i < 20; i++)
		pair_send(a, IBV_WR_SEND, 0, 100, 0, i, IBV_SEND_SIGNALED);
	pair_settle(&pair);
	for (unsigned i = 0; i < 20; i++)
		pair_expect(&a->send_cq, i, IBV_WC_SUCCESS);
	pair_expect(&b->recv_cq, 0, IBV_WC_SUCCESS);
	/* While it is behind, more is sent. */
	pair_send(a, IBV_WR_SEND, 0, 100, 0, 20, IBV_SEND_SIGNALED);
	pair_settle(&pair);
	pair_expect(&a->send_cq, 20, IBV_WC_SUCCESS);
	/* Its bytes are still the application's: that one waits. */
	pair_fill(a, 0, 50000, 3);
	pair_send(a, IBV_WR_SEND, 0, 50000, 0, 21, IBV_SEND_SIGNALED);
	pair_settle(&pair);
	pair_expect_nothing(&pair);
	for (unsigned i = 1; i < 22; i++)
		pair_receive(b, 1 << 20, 50000, i);
	pair_settle(&pair);
	for (unsigned i = 1; i < 22; i++)
		pair_expect(&b->recv_cq, i, IBV_WC_SUCCESS);
	pair_expect(&a->send_cq, 21, IBV_WC_SUCCESS);
	pair_verify(b, 1 << 20, 50000, 3);
	assert_int_equal(b->counters.dropped_pkts, 0);
	assert_int_equal(a->counters.rcvd_rnr_err, 0);
	pair_expect_nothing(&pair);
	pair_close(&pair);
}

/* One that posts none any more is waited for once. */
static void a_receiver_that_stays_behind_loses(void **state)
{
	vb_time before;

	(void)state;
	begin();
	pair_receive(b, 0, 100, 0);
	for (unsigned i = 0; i < 5; i++)
		pair_send(a, IBV_WR_SEND, 0, 50000, 0, i, IBV_SEND_SIGNALED);
	pair_send(a, IBV_WR_RDMA_WRITE, 0, 8, 0, 5, IBV_SEND_SIGNALED);
	/* Too long for the receive: its queue pair fails, and a does not hear of it. */
	pair_settle(&pair);
	assert_int_equal(b->qp->state, IBV_QPS_ERR);
	pair_expect(&b->recv_cq, 0, IBV_WC_LOC_LEN_ERR);
	for (unsigned i = 0; i < 6; i++)
		pair_expect(&a->send_cq, i, IBV_WC_SUCCESS);
	pair_close(&pair);

	begin();
	pair_receive(b, 0, 50000, 0);
	for (unsigned i = 0; i < 5; i++)
		pair_send(a, IBV_WR_SEND, 0, 50000, 0, i, IBV_SEND_SIGNALED);
	pair_send(a, IBV_WR_RDMA_WRITE, 0, 8, 0, 5, IBV_SEND_SIGNALED);
	before = pair.now;
	pair_run(&pair, pair.now + VB_SECONDS(30));
	pair_expect(&b->recv_cq, 0, IBV_WC_SUCCESS);
	for (unsigned i = 0; i < 6; i++)
		pair_expect(&a->send_cq, i, IBV_WC_SUCCESS);
	assert_int_equal(b->counters.dropped_pkts, 4);
	assert_int_equal(a->qp->state, IBV_QPS_RTS);
	before = pair.now;
	pair_send(a, IBV_WR_SEND, 0, 50000, 0, 6, IBV_SEND_SIGNALED);
	pair_settle(&pair);
	pair_expect(&a->send_cq, 6, IBV_WC_SUCCESS);
	assert_true(pair.now == before);
	exchange(100);
	pair_close(&pair);
}

/* ---- a peer that does not look ---- */

/* a alone, for that long. */
static void run_alone(vb_time time)
{
	vb_time until = pair.now + time;

	while (pair.now < until) {
		vb_time next;

		for (unsigned i = 0; pair_serve(a); i++)
			assert_true(i < 10000);
		vb_lock_take(&a->qp->lock);
		next = vb_local_next_deadline(a->local);
		vb_lock_release(&a->qp->lock);
		pair.now = next < until && next > pair.now ? next : until;
	}
}

static void a_stopped_peer_holds_nobody_up(void **state)
{
	vb_time before;

	(void)state;
	begin();
	pair_fill(a, 0, 200000, 1);
	for (unsigned i = 0; i < 100; i++)
		pair_receive(b, 1 << 20, 200000, 500 + i);
	pair_send(a, IBV_WR_SEND, 0, 100, 0, 0, IBV_SEND_SIGNALED);
	pair_send(a, IBV_WR_SEND, 0, 200000, 0, 1, IBV_SEND_SIGNALED);
	pair_send(a, IBV_WR_RDMA_WRITE, 0, 8, 3 << 20, 2, IBV_SEND_SIGNALED);
	run_alone(VB_MILLISECONDS(500));
	pair_expect_nothing(&pair);
	run_alone(VB_SECONDS(5));
	for (unsigned i = 0; i < 3; i++)
		pair_expect(&a->send_cq, i, IBV_WC_SUCCESS);
	/* Once is enough: those after it do not wait, whether there is room for them or not. */
	before = pair.now;
	for (unsigned i = 3; i < 903; i++)
		pair_send(a, IBV_WR_SEND, 0, i % 2 ? 1000 : 5000, 0, i, IBV_SEND_SIGNALED);
	run_alone(VB_MILLISECONDS(1));
	for (unsigned i = 3; i < 903; i++)
		pair_expect(&a->send_cq, i, IBV_WC_SUCCESS);
	assert_in_range(pair.now - before, 0, VB_MILLISECONDS(1));
	/* It goes on: what was in the ring is there, what was withdrawn is not, and its bytes were the application's. */
	pair_fill(a, 0, 200000, 77);
	pair_settle(&pair);
	pair_expect(&b->recv_cq, 500, IBV_WC_SUCCESS);
	assert_int_equal(b->counters.dropped_pkts, 1);
	for (unsigned i = 1;; i++) {
		struct ibv_wc wc;

		if (!pair_poll(&b->recv_cq, &wc)) {
			assert_in_range(i, 40, 70);
			break;
		}
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.byte_len, 1000);
	}
	pair_expect_nothing(&pair);
	/* And it is as before. */
	assert_int_equal(pair_to(b, IBV_QPS_ERR), 0);
	for (struct ibv_wc wc; pair_poll(&b->recv_cq, &wc);)
		assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	reconnect(b);
	pair_settle(&pair);
	exchange(2000);
	pair_close(&pair);
}

/* Stopped in the middle of a long message, which is withdrawn meanwhile: nobody sees what it did not send. */
static void a_message_under_way_is_withdrawn(void **state)
{
	(void)state;
	begin();
	pair_fill(a, 0, 4 << 20, 1);
	pair_receive(b, 0, 4 << 20, 1);
	pair_send(a, IBV_WR_SEND, 0, 4 << 20, 0, 2, IBV_SEND_SIGNALED);
	pair_serve(a);
	assert_true(pair_serve(b));
	run_alone(VB_SECONDS(5));
	pair_expect(&a->send_cq, 2, IBV_WC_SUCCESS);
	pair_fill(a, 0, 4 << 20, 99);
	pair_settle(&pair);
	pair_expect_nothing(&pair);
	assert_int_equal(b->counters.dropped_pkts, 1);
	/* Its receive has the next message. */
	pair_send(a, IBV_WR_SEND, 0, 100, 0, 3, IBV_SEND_SIGNALED);
	pair_settle(&pair);
	pair_expect(&b->recv_cq, 1, IBV_WC_SUCCESS);
	pair_verify(b, 0, 100, 99);
	pair_expect(&a->send_cq, 3, IBV_WC_SUCCESS);
	pair_close(&pair);
}

static void a_dead_peer_is_silence(void **state)
{
	(void)state;
	for (unsigned opcode = 0; opcode < 3; opcode++) {
		vb_time before;

		begin();
		before = pair.now;
		pair_send(a, opcode == 0 ? IBV_WR_SEND : opcode == 1 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_WRITE_WITH_IMM, 0, 50000, 0, 1,
			  IBV_SEND_SIGNALED);
		a->copy_result = -ESRCH;
		pair_serve(a);
		a->peer.gone = true;
		run_alone(VB_MILLISECONDS(60));
		pair_expect(&a->send_cq, 1, IBV_WC_SUCCESS);
		for (unsigned i = 0; i < 500; i++)
			pair_send(a, IBV_WR_SEND, 0, 4000, 0, i, IBV_SEND_SIGNALED);
		run_alone(VB_MILLISECONDS(200));
		for (unsigned i = 0; i < 500; i++)
			pair_expect(&a->send_cq, i, IBV_WC_SUCCESS);
		assert_in_range(pair.now - before, 0, VB_SECONDS(1));
		assert_int_equal(a->qp->state, IBV_QPS_RTS);
		pair_close(&pair);
	}
}

/* The sender dies in the middle of a long message: the receive is there for another. */
static void a_dead_sender_leaves_the_receive(void **state)
{
	(void)state;
	begin();
	pair_receive(b, 0, 1 << 20, 1);
	pair_send(a, IBV_WR_SEND, 0, 1 << 20, 0, 2, IBV_SEND_SIGNALED);
	pair_serve(a);
	b->copy_result = -ESRCH;
	pair_serve(b);
	assert_int_equal(b->qp->state, IBV_QPS_RTS);
	pair_expect_nothing(&pair);
	b->copy_result = 0;
	reconnect(a);
	pair_settle(&pair);
	pair_send(a, IBV_WR_SEND, 0, 100, 0, 3, 0);
	pair_settle(&pair);
	pair_expect(&b->recv_cq, 1, IBV_WC_SUCCESS);
	pair_close(&pair);
}

/* ---- lives ---- */

/* One of the two is reset and comes again; the other was never told, and goes on. */
static void a_peer_comes_again(void **state)
{
	(void)state;
	for (unsigned settled = 0; settled < 2; settled++) {
		begin();
		for (unsigned i = 0; i < 20; i++) {
			exchange(i * 10);
			/* Some with work left in the ring, or in the middle of it. */
			if (i % 3 == 0) {
				pair_send(a, IBV_WR_SEND, 0, i % 2 ? 100 : 3 << 20, 0, 99, 0);
				pair_send(a, IBV_WR_RDMA_WRITE, 0, 3 << 20, 0, 99, 0);
				pair_serve(a);
			}
			reconnect(i % 4 < 2 ? b : a);
			if (settled)
				pair_settle(&pair);
			if (i % 5 == 0)
				reconnect(i % 4 < 2 ? a : b);
			pair_settle(&pair);
			for (struct ibv_wc wc; pair_poll(&b->recv_cq, &wc);)
				fail_msg("message of a life before");
		}
		pair_close(&pair);
	}
}

/* The one that came again sends at once: it waits until the other has looked. */
static void who_comes_again_is_heard_at_once(void **state)
{
	(void)state;
	begin();
	exchange(1);
	pair_receive(a, 1 << 20, 100, 50);
	reconnect(b);
	pair_fill(b, 0, 100, 9);
	pair_send(b, IBV_WR_SEND, 0, 100, 0, 51, IBV_SEND_SIGNALED);
	pair_serve(b);
	pair_expect_nothing(&pair);
	pair_settle(&pair);
	pair_expect(&a->recv_cq, 50, IBV_WC_SUCCESS);
	pair_verify(a, 1 << 20, 100, 9);
	pair_expect(&b->send_cq, 51, IBV_WC_SUCCESS);
	exchange(100);
	pair_close(&pair);
}

/* By the fast path, too. */
static void short_messages_in_short(void **state)
{
	struct ibv_wc wc[4];
	vb_time before;

	(void)state;
	begin();
	for (unsigned i = 0; i < 100; i++) {
		struct process *from = i % 2 ? b : a, *to = from->other;
		struct ibv_sge sge = pair_sge(from, 0, 64);
		struct ibv_send_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};

		pair_fill(from, 0, 64, (uint8_t)i);
		pair_receive(to, 1000, 64, 1000 + i);
		assert_int_equal(vb_local_fast_way(from->qp, &wr), VB_FAST_SEND);
		vb_lock_take(&from->qp->lock);
		/* Until both have looked once. */
		if (i < 2)
			assert_int_equal(vb_qp_post_send(from->qp, &wr, &(struct ibv_send_wr *){NULL}, pair.now), 0);
		else
			assert_true(vb_local_fast_send(from->qp, from->local, &wr, pair.now));
		vb_lock_release(&from->qp->lock);
		if (i < 2) {
			pair_settle(&pair);
			pair_expect(&to->recv_cq, 1000 + i, IBV_WC_SUCCESS);
			pair_expect(&from->send_cq, i, IBV_WC_SUCCESS);
			continue;
		}
		vb_lock_take(&to->qp->lock);
		assert_int_equal(vb_local_fast_poll(to->qp, to->local, &to->recv_cq, 4, wc, pair.now), 1);
		vb_lock_release(&to->qp->lock);
		assert_int_equal(wc[0].wr_id, 1000 + i);
		pair_verify(to, 1000, 64, (uint8_t)i);
		vb_lock_take(&from->qp->lock);
		assert_int_equal(vb_local_fast_poll(from->qp, from->local, &from->send_cq, 4, wc, pair.now), 1);
		vb_lock_release(&from->qp->lock);
		assert_int_equal(wc[0].wr_id, i);
	}
	/* Not to one that does not take it: the ordinary way knows what to do. */
	before = pair.now;
	assert_int_equal(pair_to(b, IBV_QPS_RESET), 0);
	pair_settle(&pair);
	pair_send(a, IBV_WR_SEND, 0, 8, 0, 200, IBV_SEND_SIGNALED);
	pair_settle(&pair);
	pair_expect(&a->send_cq, 200, IBV_WC_SUCCESS);
	assert_true(pair.now == before);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_sent_to_nobody_completes_at_once),
		cmocka_unit_test(our_own_faults_are_told_without_a_peer),
		cmocka_unit_test(a_failed_send_takes_nothing_along),
		cmocka_unit_test(the_error_state_does_not_take_back),
		cmocka_unit_test(kinds_do_not_mix),
		cmocka_unit_test(a_ring_of_three_goes_by_wire),
		cmocka_unit_test(a_message_without_a_receive_is_dropped),
		cmocka_unit_test(a_receiver_may_be_behind),
		cmocka_unit_test(a_receiver_that_stays_behind_loses),
		cmocka_unit_test(a_stopped_peer_holds_nobody_up),
		cmocka_unit_test(a_message_under_way_is_withdrawn),
		cmocka_unit_test(a_dead_peer_is_silence),
		cmocka_unit_test(a_dead_sender_leaves_the_receive),
		cmocka_unit_test(a_peer_comes_again),
		cmocka_unit_test(who_comes_again_is_heard_at_once),
		cmocka_unit_test(short_messages_in_short),
	};

	return cmocka_run_group_tests_name("local/unreliable", tests, NULL, NULL);
}
