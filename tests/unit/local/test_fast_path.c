/* SPDX-License-Identifier: MIT
 *
 * The short way (local/fast_path.c): that it does what the ordinary way does, to the last field of a completion, that
 * it leaves everything alone that is not plain, and that the two go together, in one thread and in two at once.
 */
#include <pthread.h>
#include <stdlib.h>

#include "lib/patience.h"
#include "pair.h"

static struct pair pair;
static struct process *const a = &pair.process[0], *const b = &pair.process[1];

enum { TURNS = 20000, LONGEST = 176 };

static void begin(const struct pair_options *options)
{
	pair_open(&pair, BY_MEMORY, options);
	pair_connect(&pair, &usual);
	pair_expect_nothing(&pair);
}

static bool send_wr(struct process *p, struct ibv_send_wr *wr)
{
	bool sent;

	vb_lock_take(&p->qp->lock);
	sent = vb_local_fast_way(p->qp, wr) == VB_FAST_SEND && vb_local_fast_send(p->qp, p->local, wr, pair.now);
	vb_lock_release(&p->qp->lock);
	return sent;
}

static bool write_wr(struct ibv_send_wr *wr)
{
	bool written;

	vb_lock_take(&a->qp->lock);
	written = vb_local_fast_way(a->qp, wr) == VB_FAST_WRITE && vb_local_fast_write(a->qp, a->local, wr, pair.now);
	vb_lock_release(&a->qp->lock);
	return written;
}

static bool send_plainly(struct process *p, uint32_t length, uint64_t wr_id, unsigned flags)
{
	struct ibv_sge sge = pair_sge(p, 0, length);
	struct ibv_send_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = flags};

	return send_wr(p, &wr);
}

static int poll_plainly(struct process *p, struct vb_cq *cq, int room, struct ibv_wc *wc)
{
	int taken = 0;

	vb_lock_take(&p->qp->lock);
	if (vb_cq_lets_pass(cq))
		taken = vb_local_fast_poll(p->qp, p->local, cq, room, wc, pair.now);
	vb_lock_release(&p->qp->lock);
	return taken;
}

/* A message each way: from then on each is an answer. */
static void warm_up(void)
{
	assert_int_equal(pair_receive(b, 4096, 64, 1), 0);
	assert_int_equal(pair_receive(a, 4096, 64, 1), 0);
	assert_int_equal(pair_send(a, IBV_WR_SEND, 0, 8, 0, 2, IBV_SEND_SIGNALED), 0);
	pair_settle(&pair);
	assert_int_equal(pair_send(b, IBV_WR_SEND, 0, 8, 0, 2, IBV_SEND_SIGNALED), 0);
	pair_settle(&pair);
	pair_expect(&a->send_cq, 2, IBV_WC_SUCCESS);
	pair_expect(&a->recv_cq, 1, IBV_WC_SUCCESS);
	pair_expect(&b->send_cq, 2, IBV_WC_SUCCESS);
	pair_expect(&b->recv_cq, 1, IBV_WC_SUCCESS);
}

/* The same message both ways gives the same completions. */
static void compare_completions(bool shared)
{
	static const uint32_t lengths[] = {1, 7, 8, 47, 48, 49, 112, 113, LONGEST};

	begin(&(struct pair_options){.max_inline = 256, .with_srq = shared});
	warm_up();
	for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]) * 2; i++) {
		uint32_t length = lengths[i / 2];
		unsigned flags = IBV_SEND_SIGNALED | (i % 2 ? IBV_SEND_INLINE : IBV_SEND_SOLICITED);
		struct ibv_wc plain[2], ordinary[2];

		memset(plain, 0xee, sizeof(plain));
		memset(ordinary, 0xee, sizeof(ordinary));
		pair_fill(a, 0, length, (uint8_t)i);
		memset(b->arena + 8192, 0xcc, length + 1);
		assert_int_equal(pair_receive(b, 8192, 512, 70), 0);
		assert_true(send_plainly(a, length, 80, flags));
		/* b has something to say too, so that this is a conversation. */
		assert_int_equal(pair_receive(a, 4096, 64, 71), 0);
		assert_true(send_plainly(b, 8, 81, 0));
		assert_int_equal(poll_plainly(b, &b->recv_cq, 1, &plain[0]), 1);
		pair_verify(b, 8192, length, (uint8_t)i);
		assert_int_equal(b->arena[8192 + length], 0xcc);
		assert_int_equal(poll_plainly(a, &a->send_cq, 1, &plain[1]), 1);
		pair_settle(&pair);
		pair_expect(&a->recv_cq, 71, IBV_WC_SUCCESS);

		assert_int_equal(pair_receive(b, 8192, 512, 70), 0);
		assert_int_equal(pair_send(a, IBV_WR_SEND, 0, length, 0, 80, flags), 0);
		pair_settle(&pair);
		assert_true(pair_poll(&b->recv_cq, &ordinary[0]));
		assert_true(pair_poll(&a->send_cq, &ordinary[1]));
		assert_memory_equal(plain, ordinary, sizeof(plain));
	}
	pair_expect_nothing(&pair);
	assert_int_equal(a->counters.rdma_sends, 1 + 4 * sizeof(lengths) / sizeof(lengths[0]));
	assert_int_equal(b->counters.rdma_recvs, 1 + 4 * sizeof(lengths) / sizeof(lengths[0]));
	pair_close(&pair);
}

static void completions_are_the_same(void **state)
{
	(void)state;
	compare_completions(false);
	compare_completions(true);
}

/* A header and bytes in several places, as UCX posts them. */
static void inline_lists_are_gathered(void **state)
{
	static const uint32_t lengths[][3] = {{9, 8, 0}, {1, 0, 1}, {0, 8, 0}, {16, 80, 80}, {0, 0, LONGEST}};

	(void)state;
	begin(&(struct pair_options){.max_inline = 256});
	warm_up();
	a->shares_memory = true;
	assert_int_equal(pair_send(a, IBV_WR_RDMA_WRITE, 0, 8, 65536, 3, IBV_SEND_SIGNALED), 0);
	pair_settle(&pair);
	pair_expect(&a->send_cq, 3, IBV_WC_SUCCESS);
	for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		const uint32_t *part = lengths[i], length = part[0] + part[1] + part[2];
		/* Inline data has no key. */
		struct ibv_sge list[3] = {{.addr = (uintptr_t)a->arena, .length = part[0]},
					  {.addr = (uintptr_t)a->arena + part[0], .length = part[1]},
					  {.addr = (uintptr_t)a->arena + part[0] + part[1], .length = part[2]}};
		struct ibv_send_wr wr = {.wr_id = 4, .sg_list = list, .num_sge = 3, .opcode = IBV_WR_SEND,
					 .send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED};
		struct ibv_wc wc;

		pair_fill(a, 0, length, (uint8_t)(i + 1));
		b->arena[8192 + length] = b->arena[65536 + length] = 0xcc;
		assert_int_equal(pair_receive(b, 8192, 512, 5), 0);
		assert_true(send_wr(a, &wr));
		pair_settle(&pair);
		assert_true(pair_poll(&b->recv_cq, &wc));
		assert_int_equal(wc.byte_len, length);
		pair_verify(b, 8192, length, (uint8_t)(i + 1));
		pair_expect(&a->send_cq, 4, IBV_WC_SUCCESS);

		wr.opcode = IBV_WR_RDMA_WRITE;
		wr.wr.rdma.remote_addr = (uintptr_t)b->arena + 65536;
		wr.wr.rdma.rkey = b->key;
		assert_true(write_wr(&wr));
		pair_verify(b, 65536, length, (uint8_t)(i + 1));
		pair_expect(&a->send_cq, 4, IBV_WC_SUCCESS);
		assert_true(b->arena[8192 + length] == 0xcc && b->arena[65536 + length] == 0xcc);
	}
	pair_expect_nothing(&pair);
	pair_close(&pair);
}

static void what_is_not_plain_is_not_sent(void **state)
{
	const struct vb_queue_watch watch = {0};
	struct ibv_sge sge[5];
	struct ibv_send_wr wr, second;
	uint32_t most_sge;

	(void)state;
	begin(&(struct pair_options){.max_inline = 256});
	warm_up();
	most_sge = a->qp->send.max_sge;
	for (unsigned i = 0; i < sizeof(sge) / sizeof(sge[0]); i++)
		sge[i] = pair_sge(a, 0, 8);
	wr = (struct ibv_send_wr){.sg_list = sge, .num_sge = 1, .opcode = IBV_WR_SEND};
	second = wr;
#define REFUSED(change, back)                                                                                          \
	do {                                                                                                           \
		uint64_t produced = a->local->initiator.produced;                                                      \
		uint32_t head = a->qp->send.head;                                                                      \
		change;                                                                                                \
		assert_false(send_wr(a, &wr));                                                                         \
		back;                                                                                                  \
		assert_int_equal(a->local->initiator.produced, produced);                                              \
		assert_int_equal(a->qp->send.head, head);                                                              \
		assert_int_equal(a->qp->send.reserved, head);                                                          \
	} while (0)
	assert_false(send_wr(a, NULL));
	REFUSED(wr.next = &second, wr.next = NULL);
	REFUSED(wr.num_sge = 2, wr.num_sge = 1);
	REFUSED(wr.num_sge = 0, wr.num_sge = 1);
	REFUSED(wr.opcode = IBV_WR_SEND_WITH_IMM, wr.opcode = IBV_WR_SEND);
	REFUSED(wr.opcode = IBV_WR_RDMA_READ, wr.opcode = IBV_WR_SEND);
	REFUSED(wr.send_flags = IBV_SEND_FENCE, wr.send_flags = 0);
	REFUSED(sge[0].length = 0, sge[0].length = 8);
	REFUSED(sge[0].length = LONGEST + 1, sge[0].length = 8);
	REFUSED(sge[0].lkey ^= 0x100, sge[0].lkey ^= 0x100);
	REFUSED(a->queue_host.watch = &watch, a->queue_host.watch = NULL);
	REFUSED(a->qp->send.max_wr = 0, a->qp->send.max_wr = PAIR_MAX_WR);
	REFUSED(assert_int_equal(pair_to(a, IBV_QPS_SQD), 0), assert_int_equal(pair_to(a, IBV_QPS_RTS), 0));
	/* Lists that are inline: too many elements, too many bytes, so many that their sum is few again. */
	wr.send_flags = IBV_SEND_INLINE;
	REFUSED(wr.num_sge = 5, wr.num_sge = 1);
	REFUSED(wr.num_sge = -1, wr.num_sge = 1);
	wr.num_sge = 2;
	REFUSED(sge[1].length = LONGEST - 7, sge[1].length = 8);
	REFUSED(sge[1].length = UINT32_MAX - 6, sge[1].length = 8);
	REFUSED(a->qp->send.max_sge = 1, a->qp->send.max_sge = most_sge);
	wr.num_sge = 1;
	wr.send_flags = 0;
	/* Inline, and longer than was asked for when it was made. */
	REFUSED((wr.send_flags = IBV_SEND_INLINE, sge[0].length = a->qp->send.max_inline + 1), (wr.send_flags = 0, sge[0].length = 8));
	/* Something waits before it. */
	assert_int_equal(pair_post(a, &second), 0);
	REFUSED((void)0, (void)0);
	while (pair_serve(a))
		;
	assert_true(send_wr(a, &wr));
	/* The peer has gone. */
	assert_int_equal(pair_to(b, IBV_QPS_ERR), 0);
	REFUSED((void)0, (void)0);
#undef REFUSED
	pair_close(&pair);
}

/* Left in the ring by a, and not for the short way. */
static void expect_ordinary(uint64_t wr_id)
{
	struct ibv_wc wc;
	uint64_t consumed = b->local->target.consumed;

	assert_int_equal(poll_plainly(b, &b->recv_cq, 1, &wc), 0);
	assert_int_equal(b->local->target.consumed, consumed);
	pair_settle(&pair);
	pair_expect(&b->recv_cq, wr_id, IBV_WC_SUCCESS);
}

static void keep_talking(void)
{
	assert_int_equal(pair_receive(a, 4096, 64, 9), 0);
	assert_int_equal(pair_send(b, IBV_WR_SEND, 0, 8, 0, 9, 0), 0);
	pair_settle(&pair);
	pair_expect(&a->recv_cq, 9, IBV_WC_SUCCESS);
}

static void receive_what_is_not_plain(bool shared)
{
	struct ibv_sge list[2];
	struct ibv_wc wc[2];

	begin(&(struct pair_options){.with_srq = shared});
	warm_up();
	/* An immediate comes as it is; long ones, those without bytes and receives of several elements the ordinary way. */
	for (unsigned i = 0; i < 4; i++) {
		static const uint32_t lengths[] = {LONGEST + 1, 5000, 0, 8};

		keep_talking();
		list[0] = pair_sge(b, 8192, i == 3 ? 4 : 8000);
		list[1] = pair_sge(b, 65536, 8000);
		assert_int_equal(pair_post_receive(b, list, i == 3 ? 2 : 1, 30 + i), 0);
		assert_int_equal(pair_send(a, IBV_WR_SEND, 0, lengths[i], 0, 40, 0), 0);
		while (pair_serve(a))
			;
		expect_ordinary(30 + i);
	}
	/* Nothing to put it in, then too little. */
	keep_talking();
	assert_true(send_plainly(a, 8, 50, 0));
	assert_int_equal(poll_plainly(b, &b->recv_cq, 1, wc), 0);
	assert_int_equal(pair_receive(b, 8192, 64, 51), 0);
	assert_int_equal(poll_plainly(b, &b->recv_cq, 2, wc), 1);
	assert_int_equal(wc[0].wr_id, 51);
	/* In a stream: nothing was said since. */
	assert_int_equal(pair_receive(b, 8192, 64, 52), 0);
	assert_true(send_plainly(a, 8, 50, 0));
	expect_ordinary(52);
	/* A completion queue that somebody waits for, or that has something in it already. */
	keep_talking();
	assert_int_equal(pair_receive(b, 8192, 64, 53), 0);
	assert_true(send_plainly(a, 8, 50, 0));
	vb_cq_arm(&b->recv_cq, false);
	assert_false(vb_cq_lets_pass(&b->recv_cq));
	expect_ordinary(53);
	assert_true(vb_cq_lets_pass(&b->recv_cq));
	keep_talking();
	assert_int_equal(pair_receive(b, 8192, 64, 54), 0);
	assert_true(send_plainly(a, 8, 50, 0));
	pair_settle(&pair);
	assert_false(vb_cq_lets_pass(&b->recv_cq));
	pair_expect(&b->recv_cq, 54, IBV_WC_SUCCESS);
	/* Too little: an error, and the ordinary way says which. */
	keep_talking();
	assert_int_equal(pair_receive(b, 8192, 4, 55), 0);
	assert_true(send_plainly(a, 8, 56, 0));
	assert_int_equal(poll_plainly(b, &b->recv_cq, 1, wc), 0);
	pair_settle(&pair);
	pair_expect(&b->recv_cq, 55, IBV_WC_LOC_LEN_ERR);
	pair_expect(&a->send_cq, 56, IBV_WC_REM_INV_REQ_ERR);
	pair_close(&pair);
}

static void what_is_not_plain_is_not_received(void **state)
{
	(void)state;
	receive_what_is_not_plain(false);
	receive_what_is_not_plain(true);
}

/* A shared queue tells when few are left, also those who take them in short. */
static void shared_receives_are_taken(void **state)
{
	struct ibv_srq_attr low = {.srq_limit = 2};
	struct ibv_wc wc;

	(void)state;
	begin(&(struct pair_options){.with_srq = true});
	warm_up();
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(pair_receive(b, 8192, 64, 20 + i), 0);
	assert_int_equal(vb_srq_modify(&b->srq, &low, IBV_SRQ_LIMIT), 0);
	for (unsigned i = 0; i < 3; i++) {
		keep_talking();
		pair_fill(a, 0, 8, (uint8_t)i);
		assert_true(send_plainly(a, 8, 30, 0));
		assert_int_equal(b->events, i < 2 ? 0 : 1);
		assert_int_equal(poll_plainly(b, &b->recv_cq, 1, &wc), 1);
		assert_int_equal(wc.wr_id, 20 + i);
		pair_verify(b, 8192, 8, (uint8_t)i);
		assert_int_equal(b->events, i < 1 ? 0 : 1);
	}
	assert_int_equal(b->event[0], IBV_EVENT_SRQ_LIMIT_REACHED);
	/* Not where the short way can put it: it is taken, and the ordinary way has it. */
	keep_talking();
	assert_int_equal(pair_post_receive(b, (struct ibv_sge[]){pair_sge(b, 8192, 4), pair_sge(b, 9000, 60)}, 2, 40), 0);
	assert_int_equal(pair_receive(b, 8192, 64, 41), 0);
	assert_true(send_plainly(a, 8, 30, 0));
	expect_ordinary(40);
	assert_int_equal(vb_receive_queue_count(&b->srq.queue), 1);
	pair_close(&pair);
}

static void nonsense_is_left_to_the_ordinary_way(void **state)
{
	struct ibv_wc wc;
	uint64_t *at;

	(void)state;
	begin(NULL);
	warm_up();
	keep_talking();
	assert_int_equal(pair_receive(b, 8192, 64, 60), 0);
	at = (uint64_t *)(void *)(a->segment->qp[PAIR_QP_INDEX].near + b->local->target.position % VB_RING_BYTES);
	assert_true(send_plainly(a, 8, 61, IBV_SEND_SIGNALED));
	/* More bytes than a record may have. */
	__atomic_store_n(&at[1], (uint64_t)VB_RECORD_INLINE + 1, __ATOMIC_RELAXED);
	assert_int_equal(poll_plainly(b, &b->recv_cq, 1, &wc), 0);
	pair_settle(&pair);
	pair_expect(&a->send_cq, 61, IBV_WC_REM_INV_REQ_ERR);
	pair_close(&pair);
}

/* Request and answer in one completion queue: the request's completion is the first, though both are there. */
static void a_request_completes_before_its_answer(void **state)
{
	struct vb_cq *own = NULL;
	struct ibv_wc wc[4];

	(void)state;
	begin(NULL);
	warm_up();
	own = a->qp->recv_cq;
	a->qp->recv_cq = a->qp->send_cq;
	for (unsigned i = 0; i < 100; i++) {
		int room = 1 + (int)(i % 3), got;

		assert_int_equal(pair_receive(b, 8192, 64, 1), 0);
		assert_int_equal(pair_receive(a, 4096, 64, 2), 0);
		assert_true(send_plainly(a, 8, 3, i % 5 ? IBV_SEND_SIGNALED : 0));
		assert_int_equal(poll_plainly(b, &b->recv_cq, 1, wc), 1);
		assert_true(send_plainly(b, 8, 4, IBV_SEND_SIGNALED));
		got = poll_plainly(a, &a->send_cq, room, wc);
		if (i % 5 && got < 2)
			got += poll_plainly(a, &a->send_cq, 4 - got, wc + got);
		assert_int_equal(got, i % 5 ? 2 : 1);
		assert_int_equal(wc[0].wr_id, i % 5 ? 3 : 2);
		assert_int_equal(wc[got - 1].wr_id, 2);
		assert_int_equal(poll_plainly(b, &b->send_cq, 1, wc), 1);
		assert_int_equal(wc[0].wr_id, 4);
		assert_int_equal(vb_send_queue_count(&a->qp->send) + vb_send_queue_count(&b->qp->send), 0);
	}
	a->qp->recv_cq = own;
	pair_expect_nothing(&pair);
	pair_close(&pair);
}

/* More is acknowledged than the caller has room for: the rest is in the completion queue, in order. */
static void what_does_not_fit_waits(void **state)
{
	struct ibv_wc wc;

	(void)state;
	begin(NULL);
	warm_up();
	for (unsigned i = 0; i < 20; i++) {
		assert_int_equal(pair_receive(b, 8192, 64, i), 0);
		assert_true(send_plainly(a, 8, 100 + i, i % 4 == 3 ? IBV_SEND_SIGNALED : 0));
	}
	while (pair_serve(b))
		;
	assert_int_equal(poll_plainly(a, &a->send_cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, 103);
	assert_int_equal(poll_plainly(a, &a->send_cq, 1, &wc), 0);
	for (unsigned i = 7; i < 20; i += 4)
		pair_expect(&a->send_cq, 100 + i, IBV_WC_SUCCESS);
	assert_int_equal(vb_send_queue_count(&a->qp->send), 0);
	for (unsigned i = 0; i < 20; i++)
		pair_expect(&b->recv_cq, i, IBV_WC_SUCCESS);
	pair_expect_nothing(&pair);
	pair_close(&pair);
}

/* What waits for an acknowledgement begins when it comes. */
static void acknowledgements_let_others_begin(void **state)
{
	struct ibv_wc wc;

	(void)state;
	begin(NULL);
	warm_up();
	pair_fill(a, 0, 8, 7);
	assert_int_equal(pair_receive(b, 8192, 64, 1), 0);
	assert_true(send_plainly(a, 8, 2, IBV_SEND_SIGNALED));
	/* Must not overtake it. */
	assert_int_equal(pair_send(a, IBV_WR_RDMA_WRITE, 0, 8, 65536, 3, IBV_SEND_SIGNALED), 0);
	while (pair_serve(a))
		;
	assert_int_equal(b->arena[65536], 0);
	while (pair_serve(b))
		;
	if (poll_plainly(a, &a->send_cq, 1, &wc) == 1)
		assert_int_equal(b->arena[65536], 7);
	while (pair_serve(a))
		;
	pair_verify(b, 65536, 8, 7);
	pair_expect(&a->send_cq, 2, IBV_WC_SUCCESS);
	pair_expect(&a->send_cq, 3, IBV_WC_SUCCESS);
	pair_expect(&b->recv_cq, 1, IBV_WC_SUCCESS);
	pair_close(&pair);
}

/* ---- two threads ---- */

static bool take(struct process *p, struct vb_cq *cq, struct ibv_wc *wc, unsigned turn)
{
	bool more;

	if (turn % 3 != 0 && poll_plainly(p, cq, 1, wc) == 1)
		return true;
	vb_lock_take(&p->qp->lock);
	vb_local_serve(p->qp, p->local, pair.now, false, &more);
	vb_lock_release(&p->qp->lock);
	return vb_cq_poll(cq, 1, wc) == 1;
}

static void wait_for(struct process *p, struct vb_cq *cq, uint64_t wr_id, unsigned turn)
{
	struct patience_turn other = {0};
	struct ibv_wc wc;

	while (!take(p, cq, &wc, turn))
		patience_turn_is_theirs(&other);
	if (wc.status != IBV_WC_SUCCESS || wc.wr_id != wr_id)
		abort();
}

static void *talk(void *argument)
{
	struct process *p = argument;
	bool first = p == a;

	for (unsigned turn = 0; turn < TURNS; turn++) {
		uint64_t word = 0;

		if (turn > 0 || !first) {
			wait_for(p, &p->recv_cq, turn, turn);
			memcpy(&word, p->arena + 4096, sizeof(word));
			if (word != (first ? 2 * turn - 1 : 2 * turn))
				abort();
		}
		/* Nobody would be there to take it. */
		if (!first && turn == TURNS - 1)
			break;
		if (pair_receive(p, 4096, 64, turn + 1) != 0)
			abort();
		word = first ? 2 * turn : 2 * turn + 1;
		memcpy(p->arena, &word, sizeof(word));
		if (!send_plainly(p, 8, turn, IBV_SEND_SIGNALED) && pair_send(p, IBV_WR_SEND, 0, 8, 0, turn, IBV_SEND_SIGNALED) != 0)
			abort();
		wait_for(p, &p->send_cq, turn, turn + 1);
	}
	return NULL;
}

static void let_two_talk(bool shared)
{
	pthread_t threads[2];

	begin(&(struct pair_options){.with_srq = shared});
	assert_int_equal(pair_receive(b, 4096, 64, 0), 0);
	assert_int_equal(pthread_create(&threads[0], NULL, talk, a), 0);
	assert_int_equal(pthread_create(&threads[1], NULL, talk, b), 0);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	assert_int_equal(b->counters.rdma_recvs, TURNS);
	pair_close(&pair);
}

static void two_that_talk(void **state)
{
	(void)state;
	let_two_talk(false);
	let_two_talk(true);
}

/* ---- WRITE ---- */

/* As the ordinary way does it: from then on it is known where the bytes go. */
static void write_ordinarily(uint32_t length, uint64_t wr_id, unsigned flags)
{
	assert_int_equal(pair_send(a, IBV_WR_RDMA_WRITE, 0, length, 8192, wr_id, flags), 0);
	while (pair_serve(a))
		;
}

static void write_short_ones(bool shared)
{
	static const uint32_t lengths[] = {1, 7, 8, 48, LONGEST};

	begin(&(struct pair_options){.max_inline = 256});
	a->shares_memory = shared;
	write_ordinarily(8, 1, IBV_SEND_SIGNALED);
	pair_settle(&pair);
	pair_expect(&a->send_cq, 1, IBV_WC_SUCCESS);
	for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]) * 2; i++) {
		unsigned flags = IBV_SEND_SIGNALED | (i % 2 ? IBV_SEND_INLINE : 0);
		struct ibv_sge sge = pair_sge(a, 0, lengths[i / 2]);
		struct ibv_send_wr wr = {.wr_id = 5, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = flags,
					 .wr.rdma = {.remote_addr = (uintptr_t)b->arena + 8192, .rkey = b->key}};
		struct ibv_wc plain, ordinary;

		memset(&plain, 0xee, sizeof(plain));
		memset(&ordinary, 0xee, sizeof(ordinary));
		pair_fill(a, 0, sge.length, (uint8_t)(i + 1));
		b->arena[8192 + sge.length] = 0xcc;
		assert_true(write_wr(&wr));
		pair_verify(b, 8192, sge.length, (uint8_t)(i + 1));
		assert_int_equal(b->arena[8192 + sge.length], 0xcc);
		assert_true(pair_poll(&a->send_cq, &plain));
		assert_int_equal(vb_send_queue_count(&a->qp->send), 0);
		write_ordinarily(sge.length, 5, flags);
		assert_true(pair_poll(&a->send_cq, &ordinary));
		assert_memory_equal(&plain, &ordinary, sizeof(plain));
		/* Nobody asked to hear of this one. */
		wr.send_flags = 0;
		assert_true(write_wr(&wr));
		assert_true(vb_cq_looks_empty(&a->send_cq));
	}
	/* By system calls, one for each, or by stores. */
	assert_int_equal(a->writes, shared ? 0 : 1 + 3 * 2 * sizeof(lengths) / sizeof(lengths[0]));
	pair_close(&pair);
}

static void short_writes_complete_at_once(void **state)
{
	(void)state;
	write_short_ones(true);
	write_short_ones(false);
}

static void what_is_not_plain_is_not_written(void **state)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	begin(NULL);
	sge = pair_sge(a, 0, 8);
	wr = (struct ibv_send_wr){.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				  .wr.rdma = {.remote_addr = (uintptr_t)b->arena + 8192, .rkey = b->key}};
	pair_fill(a, 0, 8, 9);
	memset(b->arena + 8192, 0, 64);
#define REFUSED(change, back)                                                                                          \
	do {                                                                                                           \
		uint32_t head = a->qp->send.head;                                                                      \
		change;                                                                                                \
		assert_false(write_wr(&wr));                                                                           \
		back;                                                                                                  \
		assert_int_equal(a->qp->send.head, head);                                                              \
		assert_int_equal(a->qp->send.reserved, head);                                                          \
		for (unsigned i = 0; i < 64; i++)                                                                      \
			assert_int_equal(b->arena[8192 + i], 0);                                                       \
	} while (0)
	/* Nothing is known of where it goes; then, that a READ came from there. */
	a->shares_memory = true;
	REFUSED((void)0, (void)0);
	write_ordinarily(8, 1, 0);
	assert_int_equal(pair_send(a, IBV_WR_RDMA_READ, 512, 8, 8192, 1, 0), 0);
	pair_settle(&pair);
	memset(b->arena + 8192, 0, 64);
	REFUSED((void)0, (void)0);
	write_ordinarily(8, 1, 0);
	memset(b->arena + 8192, 0, 64);
	/* Its own faults, which the ordinary way tells. */
	REFUSED(wr.wr.rdma.rkey ^= 0x100, wr.wr.rdma.rkey ^= 0x100);
	REFUSED(wr.wr.rdma.remote_addr -= 65536, wr.wr.rdma.remote_addr += 65536);
	REFUSED(sge.lkey ^= 0x100, sge.lkey ^= 0x100);
	REFUSED(sge.length = LONGEST + 1, sge.length = 8);
	REFUSED(wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, wr.opcode = IBV_WR_RDMA_WRITE);
	REFUSED(wr.send_flags = IBV_SEND_FENCE, wr.send_flags = 0);
	REFUSED(wr.wr.rdma.rkey = b->null_key, wr.wr.rdma.rkey = b->key);
	/* By system calls, which fail. */
	a->shares_memory = false;
	a->mappings++;
	REFUSED(a->copy_result = -EFAULT, a->copy_result = 0);
	REFUSED((b->hole_start = (uintptr_t)b->arena + 8192, b->hole_end = b->hole_start + 1), b->hole_start = b->hole_end = 0);
	a->shares_memory = true;
	/* A message before it is not there yet. */
	assert_int_equal(pair_receive(b, 4096, 64, 2), 0);
	assert_true(send_plainly(a, 8, 3, IBV_SEND_SIGNALED));
	REFUSED((void)0, (void)0);
	pair_settle(&pair);
	pair_expect(&a->send_cq, 3, IBV_WC_SUCCESS);
	pair_expect(&b->recv_cq, 2, IBV_WC_SUCCESS);
	/* The peer has gone. */
	assert_true(write_wr(&wr));
	pair_verify(b, 8192, 8, 9);
	memset(b->arena + 8192, 0, 64);
	assert_int_equal(pair_to(b, IBV_QPS_ERR), 0);
	REFUSED((void)0, (void)0);
#undef REFUSED
	pair_close(&pair);
}

/* ---- bytes of no region, without a work request ---- */

enum { FAR = 16384, LONG = 5000 };

static bool place(uint64_t address, uint32_t key, const struct iovec *spans, unsigned count)
{
	bool placed;

	vb_lock_take(&a->qp->lock);
	placed = vb_local_place(a->qp, a->local, address, key, spans, count);
	vb_lock_release(&a->qp->lock);
	return placed;
}

static void bytes_are_placed_at_once(void **state)
{
	static uint8_t own[LONG];
	const struct iovec spans[] = {{own, 1}, {own + 1, 0}, {own + 1, LONG - 1}};
	uint64_t bytes;

	(void)state;
	for (unsigned i = 0; i < LONG; i++)
		own[i] = (uint8_t)(i * 7);
	begin(NULL);
	a->shares_memory = true;
	write_ordinarily(8, 1, 0);
	bytes = a->qp->send.bytes;
	b->arena[FAR + LONG] = 0xcc;
	assert_true(place((uintptr_t)b->arena + FAR, b->key, spans, 3));
	assert_memory_equal(b->arena + FAR, own, LONG);
	assert_int_equal(b->arena[FAR + LONG], 0xcc);
	assert_int_equal(a->qp->send.bytes, bytes + LONG);
	assert_int_equal(a->qp->send.head, 1);
	/* Behind a message that is not there yet, too. */
	assert_int_equal(pair_receive(b, 4096, 64, 2), 0);
	assert_true(send_plainly(a, 8, 3, IBV_SEND_SIGNALED));
	memset(b->arena + FAR, 0, LONG);
	assert_true(place((uintptr_t)b->arena + FAR, b->key, spans, 3));
	assert_memory_equal(b->arena + FAR, own, LONG);
	pair_settle(&pair);
	pair_expect(&a->send_cq, 3, IBV_WC_SUCCESS);
	pair_expect(&b->recv_cq, 2, IBV_WC_SUCCESS);
	pair_expect_nothing(&pair);
	pair_close(&pair);
}

static void what_may_not_be_written_is_not_placed(void **state)
{
	static uint8_t own[LONG];
	const struct iovec span = {own, LONG};

	(void)state;
	memset(own, 9, sizeof(own));
	begin(NULL);
	memset(b->arena + FAR, 0, LONG);
#define REFUSED(address, key)                                                                                          \
	do {                                                                                                           \
		assert_false(place(address, key, &span, 1));                                                           \
		for (unsigned i = 0; i < LONG; i++)                                                                    \
			assert_int_equal(b->arena[FAR + i], 0);                                                        \
	} while (0)
	/* Nothing is known of where it goes. */
	a->shares_memory = true;
	REFUSED((uintptr_t)b->arena + FAR, b->key);
	write_ordinarily(8, 1, 0);
	/* A key that is none, a range that is not its own, memory that is none. */
	REFUSED((uintptr_t)b->arena + FAR, b->key ^ 0x100);
	REFUSED((uintptr_t)b->arena - 1, b->key);
	REFUSED((uintptr_t)b->arena + FAR, b->null_key);
	/* It is not shared. */
	a->shares_memory = false;
	a->mappings++;
	REFUSED((uintptr_t)b->arena + FAR, b->key);
	assert_int_equal(a->writes, 0);
	a->shares_memory = true;
	assert_true(place((uintptr_t)b->arena + FAR, b->key, &span, 1));
	assert_memory_equal(b->arena + FAR, own, LONG);
	memset(b->arena + FAR, 0, LONG);
	/* The peer has gone. */
	assert_int_equal(pair_to(b, IBV_QPS_ERR), 0);
	REFUSED((uintptr_t)b->arena + FAR, b->key);
#undef REFUSED
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(completions_are_the_same),
		cmocka_unit_test(inline_lists_are_gathered),
		cmocka_unit_test(what_is_not_plain_is_not_sent),
		cmocka_unit_test(what_is_not_plain_is_not_received),
		cmocka_unit_test(shared_receives_are_taken),
		cmocka_unit_test(nonsense_is_left_to_the_ordinary_way),
		cmocka_unit_test(a_request_completes_before_its_answer),
		cmocka_unit_test(what_does_not_fit_waits),
		cmocka_unit_test(acknowledgements_let_others_begin),
		cmocka_unit_test(two_that_talk),
		cmocka_unit_test(short_writes_complete_at_once),
		cmocka_unit_test(what_is_not_plain_is_not_written),
		cmocka_unit_test(bytes_are_placed_at_once),
		cmocka_unit_test(what_may_not_be_written_is_not_placed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
