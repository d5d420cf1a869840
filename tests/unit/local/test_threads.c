/* SPDX-License-Identifier: MIT
 *
 * Two processes that really run at the same time: a thread for each serves its queue pair, which is all the two share
 * but the segments. Messages, writes, reads and atomics in both directions; keys that come and go under way; queue
 * pairs that fail and SRQs that go under way.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "lib/patience.h"
#include "pair.h"

static struct pair pair;
static struct process *const a = &pair.process[0], *const b = &pair.process[1];

enum { MESSAGES = 3000, WINDOW = 32, SPACE = 16384, REGISTRATIONS = 1000, FEWEST = 20, STREAM = WINDOW * 1000 };

static _Thread_local struct patience_turn turn;

/* Others may have come first wherever we let them: so often, or, where so many want a processor that each time takes long, for so long. */
enum { LONG_ENOUGH_MS = 20000, A_MOMENT_MS = 50 };

static void let_others(unsigned times)
{
	int64_t began = patience_clock();

	for (unsigned i = 0; i < times && patience_clock() - began < A_MOMENT_MS; i++)
		sched_yield();
}

static bool serve(struct process *p)
{
	bool did, more;

	vb_lock_take(&p->qp->lock);
	did = vb_local_serve(p->qp, p->local, pair.now, false, &more);
	vb_lock_release(&p->qp->lock);
	return did || more;
}

/* Where each thing is in the arena. */
enum { SENDING = 0, RECEIVING = 1 << 20, WRITTEN = 2 << 20, READ = 3 << 20, COUNTER = (4 << 20) + 64, RESULT = 5 << 20 };

static uint32_t length_of(uint32_t number)
{
	return 8 + number * 2654435761u % 9000;
}

/* Each message is followed by a WRITE, a READ of what stands in the peer's arena since before, and an atomic. */
static void post_message(struct process *p, uint32_t number)
{
	uint32_t at = SENDING + number % WINDOW * SPACE, length = length_of(number);

	memset(p->arena + at, (int)(number & 0xff), length);
	memcpy(p->arena + at, &number, 4);
	if (pair_send(p, IBV_WR_SEND, at, length, 0, number, IBV_SEND_SIGNALED) != 0 ||
	    pair_send(p, IBV_WR_RDMA_WRITE, at, length, WRITTEN + number % WINDOW * SPACE, number, IBV_SEND_SIGNALED) != 0)
		abort();
	if (pair.unreliable)
		return;
	if (pair_send(p, IBV_WR_RDMA_READ, READ + number % WINDOW * SPACE, 64, RESULT + 4096, number, IBV_SEND_SIGNALED) != 0 ||
	    pair_atomic(p, IBV_WR_ATOMIC_FETCH_AND_ADD, RESULT + number % WINDOW * 8, COUNTER, 1, 0, number) != 0)
		abort();
}

static unsigned works_a_message(void)
{
	return pair.unreliable ? 2 : 4;
}

static unsigned check_receives(struct process *p, unsigned received)
{
	struct ibv_wc wc;

	while (pair_poll(&p->recv_cq, &wc)) {
		const uint8_t *bytes = p->arena + RECEIVING + received % WINDOW * SPACE;
		uint32_t number;

		memcpy(&number, bytes, 4);
		if (wc.status != IBV_WC_SUCCESS || wc.wr_id != received || number != received ||
		    wc.byte_len != length_of(received) || bytes[wc.byte_len - 1] != (received & 0xff)) {
			fprintf(stderr, "receive %u: status %d, wr %llu, number %u, %u bytes\n", received, wc.status,
				(unsigned long long)wc.wr_id, number, wc.byte_len);
			abort();
		}
		if (pair_receive(p, RECEIVING + received % WINDOW * SPACE, SPACE, received + WINDOW) != 0)
			abort();
		received++;
	}
	return received;
}

static void *live(void *argument)
{
	struct process *p = argument;
	unsigned posted = 0, completed = 0, received = 0, each = works_a_message();
	struct ibv_wc wc;

	while (completed < each * MESSAGES || received < MESSAGES) {
		while (posted < MESSAGES && posted - completed / each < WINDOW)
			post_message(p, posted++);
		if (serve(p))
			patience_turn_is_ours(&turn);
		else
			patience_turn_is_theirs(&turn);
		received = check_receives(p, received);
		while (pair_poll(&p->send_cq, &wc)) {
			if (wc.status != IBV_WC_SUCCESS || wc.wr_id != completed / each) {
				fprintf(stderr, "send %u: status %d, wr %llu\n", completed, wc.status, (unsigned long long)wc.wr_id);
				abort();
			}
			completed++;
		}
	}
	/* The peer may still need us. */
	__atomic_fetch_add(&p->seed, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&p->other->seed, __ATOMIC_SEQ_CST) % 2 == 0) {
		if (serve(p))
			patience_turn_is_ours(&turn);
		else
			patience_turn_is_theirs(&turn);
	}
	return NULL;
}

static void run_both(void *(*one)(void *), void *(*two)(void *))
{
	pthread_t threads[2];

	assert_int_equal(pthread_create(&threads[0], NULL, one, a), 0);
	assert_int_equal(pthread_create(&threads[1], NULL, two, b), 0);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}

static void send_in_both_directions(bool unreliable)
{
	uint64_t counter;

	pair_open(&pair, BY_MEMORY, &(struct pair_options){.unreliable = unreliable});
	pair_connect(&pair, &usual);
	for (unsigned i = 0; i < 2; i++) {
		pair.process[i].seed = 0;
		for (unsigned k = 0; k < WINDOW; k++)
			pair_receive(&pair.process[i], RECEIVING + k * SPACE, SPACE, k);
	}
	run_both(live, live);
	for (unsigned i = 0; i < 2; i++) {
		memcpy(&counter, pair.process[i].arena + COUNTER, 8);
		assert_int_equal(counter, unreliable ? 0 : MESSAGES);
	}
	pair_close(&pair);
}

static void traffic_in_both_directions(void **state)
{
	(void)state;
	send_in_both_directions(false);
}

/* Nothing is lost here, though receives are posted late: time stands still, and nobody waits too long. */
static void unreliable_traffic_in_both_directions(void **state)
{
	(void)state;
	send_in_both_directions(true);
}

/* ---- nothing is forgotten that could go on: time stands still here, so no deadline would find it ---- */

/* As progress/ does: after work was posted, and when there is work; as long as there is more to do. */
static void attend(struct process *p, bool posted)
{
	bool more = posted || vb_local_has_work(p->local) || vb_local_is_stalled(p->local);

	if (more)
		patience_turn_is_ours(&turn);
	else
		patience_turn_is_theirs(&turn);
	while (more) {
		vb_lock_take(&p->qp->lock);
		vb_local_serve(p->qp, p->local, pair.now, false, &more);
		vb_lock_release(&p->qp->lock);
	}
}

/* Each waits until the one before it is acknowledged. */
static void *write_one_after_the_other(void *argument)
{
	struct process *p = argument;
	struct ibv_wc wc;

	for (unsigned posted = 0, completed = 0; completed < STREAM;) {
		bool all_done = posted == completed;

		for (unsigned i = 0; all_done && i < WINDOW; i++)
			if (pair_send(p, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 64, WRITTEN, posted++, IBV_SEND_SIGNALED) != 0)
				abort();
		attend(p, all_done);
		for (; pair_poll(&p->send_cq, &wc); completed++)
			if (wc.status != IBV_WC_SUCCESS || wc.wr_id != completed)
				abort();
	}
	return NULL;
}

static void *receive_only(void *argument)
{
	struct process *p = argument;
	struct ibv_wc wc;

	for (unsigned received = 0; received < STREAM;) {
		attend(p, false);
		for (; pair_poll(&p->recv_cq, &wc); received++)
			if (wc.status != IBV_WC_SUCCESS || pair_receive(p, RECEIVING, SPACE, 0) != 0)
				abort();
	}
	return NULL;
}

static void stream(struct pair_options options)
{
	pair_open(&pair, BY_MEMORY, &options);
	pair_connect(&pair, &usual);
	for (unsigned k = 0; k < WINDOW; k++)
		pair_receive(b, RECEIVING, SPACE, k);
	run_both(write_one_after_the_other, receive_only);
	pair_close(&pair);
}

static void whoever_has_work_asks_for_it(void **state)
{
	(void)state;
	stream((struct pair_options){0});
	stream((struct pair_options){.unreliable = true});
	stream((struct pair_options){.xrc = true});
}

/* ---- keys that go: after a deregistration nobody writes there ---- */

static uint32_t offered_key;             /* atomic */
static unsigned written, refused;
static unsigned landed;                  /* atomic: those that were not refused */

/* A refused access waits for the peer's NAK, which would end the queue pair. Here the peer forgives. */
static void forget_refusal(struct process *p)
{
	struct vb_local_initiator *initiator = &p->local->initiator;

	vb_lock_take(&p->qp->lock);
	initiator->released = initiator->head;
	initiator->consumed = initiator->produced;
	vb_lock_release(&p->qp->lock);
}

static void *write_by_any_key(void *argument)
{
	struct process *p = argument;
	struct ibv_wc wc;

	for (;;) {
		struct ibv_sge sge = pair_sge(p, 0, 4096);
		struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
		uint32_t key = __atomic_load_n(&offered_key, __ATOMIC_SEQ_CST);
		unsigned refused_before = refused;

		if (key == 0) {
			patience_turn_is_theirs(&turn);
			continue;
		}
		patience_turn_is_ours(&turn);
		if (key == 1)
			break;
		memset(p->arena, 0xff, 4096);
		wr.wr.rdma.remote_addr = (uintptr_t)p->other->arena;
		wr.wr.rdma.rkey = key;
		if (pair_post(p, &wr) != 0)
			abort();
		do {
			serve(p);
			refused += p->local->initiator.consumed != p->local->initiator.produced;
			forget_refusal(p);
		} while (!pair_poll(&p->send_cq, &wc));
		written++;
		if (refused == refused_before)
			__atomic_fetch_add(&landed, 1, __ATOMIC_SEQ_CST);
		/* Or nobody registers anything meanwhile. */
		sched_yield();
	}
	return NULL;
}

static void *register_and_deregister(void *argument)
{
	struct process *p = argument;
	struct vb_region_info info = {.kind = VB_REGION_MR, .pd = &p->pd, .start = (uintptr_t)p->arena, .length = 4096,
				      .iova = (uintptr_t)p->arena, .access = PAIR_ACCESS};

	int64_t began = patience_clock();

	for (unsigned i = 0; i < REGISTRATIONS && (i < FEWEST || patience_clock() - began < LONG_ENOUGH_MS); i++) {
		uint32_t key;

		if (vb_region_register(p->memory, &info, &key) != 0)
			abort();
		__atomic_store_n(&offered_key, key, __ATOMIC_SEQ_CST);
		/* The first is there until it was used; the others go at any time. */
		while (i == 0 && __atomic_load_n(&landed, __ATOMIC_SEQ_CST) == 0)
			patience_turn_is_theirs(&turn);
		let_others(i % 20);
		if (vb_region_deregister(p->memory, key) != 0)
			abort();
		/* Ours alone from now on: whoever still writes is caught here, or by ThreadSanitizer. */
		memset(p->arena, 0, 4096);
		let_others(4);
		for (unsigned k = 0; k < 4096; k++)
			if (p->arena[k] != 0)
				abort();
		__atomic_store_n(&offered_key, 0, __ATOMIC_SEQ_CST);
	}
	__atomic_store_n(&offered_key, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

static void deregistration_waits_for_copies(void **state)
{
	(void)state;
	for (unsigned shared = 0; shared < 2; shared++) {
		pair_open(&pair, BY_MEMORY, NULL);
		a->shares_memory = shared;
		a->dawdles = true;
		pair_connect(&pair, &usual);
		offered_key = 0;
		written = refused = landed = 0;
		run_both(write_by_any_key, register_and_deregister);
		print_message("%u written, %u of them refused\n", written, refused);
		assert_true(written > 0 && written != refused);
		pair_close(&pair);
	}
}

/* ---- queue pairs that fail, and XRC SRQs that go: after that nobody writes on their behalf ---- */

static void *write_until_it_fails(void *argument)
{
	struct process *p = argument;

	while (__atomic_load_n(&offered_key, __ATOMIC_SEQ_CST) == 0) {
		struct ibv_wc wc;

		if (vb_send_queue_count(&p->qp->send) < 16)
			pair_send(p, IBV_WR_RDMA_WRITE, 0, 65536, 0, 0, IBV_SEND_SIGNALED);
		serve(p);
		while (pair_poll(&p->send_cq, &wc))
			;
	}
	return NULL;
}

static void *end_and_look(void *argument)
{
	struct process *p = argument;

	while (__atomic_load_n(&p->arena[65535], __ATOMIC_ACQUIRE) == 0)
		patience_turn_is_theirs(&turn);
	if (pair.xrc)
		pair_drop_srq(p, 0);
	else if (pair_to(p, IBV_QPS_ERR) != 0)
		abort();
	memset(p->arena, 0, 65536);
	let_others(200);
	for (unsigned i = 0; i < 65536; i++)
		if (p->arena[i] != 0)
			abort();
	__atomic_store_n(&offered_key, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

static void end_while_written_to(struct pair_options options)
{
	for (unsigned i = 0; i < 30; i++) {
		pair_open(&pair, BY_MEMORY, &options);
		a->shares_memory = i % 2;
		a->dawdles = true;
		b->pause = VB_MICROSECONDS(900);
		pair_connect(&pair, &usual);
		memset(a->arena, 0xff, 65536);
		offered_key = 0;
		run_both(write_until_it_fails, end_and_look);
		pair_close(&pair);
	}
}

static void the_error_state_ends_all_writes(void **state)
{
	(void)state;
	end_while_written_to((struct pair_options){0});
}

static void an_srq_that_goes_ends_all_writes(void **state)
{
	(void)state;
	end_while_written_to((struct pair_options){.xrc = true});
}

/* ---- a look without the lock, by a thread that has slept in it ---- */

static struct vb_local as_it_was;        /* what the sleeper has read of it */
static bool go_on;

static void *look_where_it_was(void *found)
{
	while (!__atomic_load_n(&go_on, __ATOMIC_RELAXED))
		sched_yield();
	*(bool *)found = vb_local_ring_has_work(&as_it_was);
	return NULL;
}

static void send_one(uint32_t length)
{
	struct ibv_wc wc;

	assert_int_equal(pair_receive(b, RECEIVING, SPACE, 0), 0);
	assert_int_equal(pair_send(a, IBV_WR_SEND, SENDING, length, 0, 0, IBV_SEND_SIGNALED), 0);
	pair_settle(&pair);
	assert_true(pair_poll(&a->send_cq, &wc));
	assert_true(pair_poll(&b->recv_cq, &wc));
	assert_int_equal(wc.byte_len, length);
}

/* Where the second record was to begin there is, a lap later, the middle of another. ThreadSanitizer sees what is no order between two
 * threads, whichever of them was first. */
static void a_late_look_finds_a_message(void **state)
{
	pthread_t thread;
	bool found = true;

	(void)state;
	pair_open(&pair, BY_MEMORY, NULL);
	pair_connect(&pair, &usual);
	memset(a->arena, 0xee, SPACE);
	send_one(8);
	as_it_was = *b->local;
	assert_int_equal(as_it_was.target.position % VB_RING_BYTES, VB_RECORD_ALIGN);
	go_on = false;
	assert_int_equal(pthread_create(&thread, NULL, look_where_it_was, &found), 0);
	for (unsigned i = 0; i < 100 && a->local->initiator.head % VB_RING_BYTES != 0; i++)
		send_one(8);
	assert_int_equal(a->local->initiator.head % VB_RING_BYTES, 0);
	send_one(100);
	__atomic_store_n(&go_on, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	assert_false(found);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(traffic_in_both_directions),
		cmocka_unit_test(unreliable_traffic_in_both_directions),
		cmocka_unit_test(whoever_has_work_asks_for_it),
		cmocka_unit_test(deregistration_waits_for_copies),
		cmocka_unit_test(the_error_state_ends_all_writes),
		cmocka_unit_test(an_srq_that_goes_ends_all_writes),
		cmocka_unit_test(a_late_look_finds_a_message),
	};

	return cmocka_run_group_tests_name("local/threads", tests, NULL, NULL);
}
