/* SPDX-License-Identifier: MIT
 *
 * A peer that writes anything anywhere in its segment, at any moment. Whatever it does to its own connection, this side
 * must not crash, must not touch bytes outside what is registered, must not go round in circles, and all work must end.
 */
#include "pair.h"

static struct pair pair;
static struct process *const a = &pair.process[0], *const b = &pair.process[1];

enum { ROUNDS = 2000, GUARD = 1 << 16 };

/* Seven retries would be for ever: a peer may say RNR for as long as it likes. */
static struct connection patient;

/* a's bytes beyond what is registered and posted stay as they are. */
static uint32_t narrow_key(struct process *p)
{
	struct vb_region_info info = {.kind = VB_REGION_MR, .pd = &p->pd, .start = (uintptr_t)p->arena + GUARD, .length = 2 * GUARD,
				      .iova = (uintptr_t)p->arena + GUARD, .access = PAIR_ACCESS};
	uint32_t key;

	assert_int_equal(vb_region_register(p->memory, &info, &key), 0);
	return key;
}

static void check_guards(const struct process *p)
{
	for (unsigned i = 0; i < GUARD; i++)
		assert_true(p->arena[i] == 0x5a && p->arena[3 * GUARD + i] == 0x5a);
}

static void disturb_qp(struct vb_segment_qp *qp)
{
	uint8_t *bytes = (uint8_t *)qp;
	uint32_t random = pair_random(b);

	switch (random % 12) {
	case 0:
		qp->consumed += pair_random(b) % 4;
		break;
	case 1:
		qp->released += pair_random(b) % 3 * 64;
		break;
	case 2:
		qp->nak = pair_random(b) % 8;
		break;
	case 3:
		qp->stalled = qp->consumed + pair_random(b) % 3;
		break;
	case 4:
		qp->word ^= UINT64_C(1) << pair_random(b) % 12;
		break;
	case 5:
		qp->taken += pair_random(b) % 3;
		break;
	case 6:
		qp->rnr_retry = (uint8_t)pair_random(b);
		qp->receive_access = pair_random(b);
		break;
	case 7:
		qp->previous = (struct vb_segment_outcome){qp->word >> 8, qp->taken, pair_random(b) % 8, pair_random(b) % 8, 0};
		break;
	case 8:
		qp->consumed = pair_random(b);
		break;
	default:
		bytes[pair_random(b) % sizeof(*qp)] = (uint8_t)pair_random(b);
	}
}

/* In the record that a will find next, if b has any there, or wherever it will look. */
static void disturb_ring(void)
{
	uint32_t at = a->local ? (uint32_t)(a->local->target.position % VB_RING_BYTES) : 0;
	uint8_t *ring = at < VB_RING_NEAR ? b->segment->qp[PAIR_QP_INDEX].near : b->segment->ring[PAIR_QP_INDEX];
	struct vb_record *record = (void *)(ring + at);

	switch (pair_random(b) % 6) {
	case 0:
		ring[at + 4 + pair_random(b) % 60] = (uint8_t)pair_random(b);
		break;
	case 1:
		record->stamp = a->local ? vb_record_stamp(a->local->target.consumed + 1) : 0;
		record->kind = (uint8_t)(pair_random(b) % 10);
		record->flags = (uint8_t)pair_random(b);
		record->pieces = (uint16_t)(pair_random(b) % 40);
		record->length = pair_random(b) % 3 ? pair_random(b) % 9000 : pair_random(b);
		break;
	case 2:
		record->length = pair_random(b);
		break;
	case 3:
		record->kind = VB_RECORD_WRAP;
		break;
	case 4:
		for (unsigned i = 0; i < 64; i++)
			ring[at + i] = (uint8_t)pair_random(b);
		record->stamp = a->local ? vb_record_stamp(a->local->target.consumed + 1) : 0;
		break;
	default:
		ring[pair_random(b) % (at < VB_RING_NEAR ? VB_RING_NEAR : VB_RING_BYTES)] = (uint8_t)pair_random(b);
	}
}

static void disturb_table(void)
{
	uint8_t *table = b->segment->table[2];

	table[8 + pair_random(b) % 32] ^= (uint8_t)(pair_random(b) % 8 == 0);
	table[4096 + pair_random(b) % (8 * 88)] = (uint8_t)pair_random(b);
}

static bool post_something(uint32_t key, unsigned round)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE_WITH_IMM,
						     IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_SEND_WITH_INV};
	enum ibv_wr_opcode opcode = opcodes[pair_random(a) % 7];
	bool atomic = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
	struct ibv_sge sge = {.addr = (uintptr_t)a->arena + GUARD, .length = atomic ? 8 : pair_random(a) % (2 * GUARD), .lkey = key};
	struct ibv_send_wr wr = {.wr_id = round, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED};

	if (atomic) {
		wr.wr.atomic.remote_addr = (uintptr_t)b->arena + GUARD;
		wr.wr.atomic.rkey = b->key;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)b->arena + GUARD;
		wr.wr.rdma.rkey = b->key;
	}
	if (opcode == IBV_WR_SEND_WITH_INV)
		wr.invalidate_rkey = pair_random(a);
	return pair_post(a, &wr) == 0;
}

static void prepare(struct process *p)
{
	memset(p->arena, 0x5a, GUARD);
	memset(p->arena + 3 * GUARD, 0x5a, GUARD);
}

/* b is honest in what it does, but its segment is written over. Only a is watched; b is not served after a while. */
static void nonsense_in_every_field(void **state)
{
	const uint64_t seed = 4711;

	(void)state;
	patient = usual;
	patient.rnr_retry = 6;
	print_message("seed %llu\n", (unsigned long long)seed);
	for (unsigned round = 0; round < ROUNDS; round++) {
		unsigned posted = 0, completed = 0;
		uint32_t key;
		struct ibv_wc wc;
		vb_time end;

		pair_open(&pair, BY_MEMORY, NULL);
		a->seed = seed + round;
		b->seed = seed + round + 1000000;
		a->shares_memory = round % 2;
		prepare(a);
		key = narrow_key(a);
		pair_connect(&pair, &patient);
		for (unsigned i = 0; i < 4; i++) {
			struct ibv_sge sge = {.addr = (uintptr_t)a->arena + GUARD, .length = 2 * GUARD, .lkey = key};

			assert_int_equal(pair_post_receive(a, &sge, 1, i), 0);
			pair_send(b, i % 2 ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM, 0, pair_random(b) % 9000, 0, i, 0);
		}
		pair_serve(b);
		for (unsigned step = 0; step < 12; step++) {
			if (step % 2 == 0)
				posted += post_something(key, round);
			for (unsigned k = pair_random(b) % 4; k > 0; k--)
				disturb_qp(&b->segment->qp[PAIR_QP_INDEX]);
			if (pair_random(b) % 2)
				disturb_ring();
			/* Its table is what b itself lives by: half of the time b is left without, and does nothing more. */
			if (round % 4 < 2 && pair_random(b) % 2)
				disturb_table();
			if (pair_random(b) % 3 == 0)
				b->segment->header.copying[pair_random(b) % VB_SEGMENT_COPIES] =
					pair_random(b) % 100 == 0 ? vb_segment_copy_word(a->qp->qpn, PAIR_TABLE, 1) : 1;
			(void)vb_local_has_work(a->local);
			pair_serve(a);
			if (round % 4 >= 2 && pair_random(b) % 4 == 0)
				pair_serve(b);
		}
		memset(b->segment->header.copying, 0, sizeof(b->segment->header.copying));
		/* Nothing changes any more: it comes to rest, and then to an end. */
		end = pair.now + VB_SECONDS(60);
		while (pair.now < end) {
			for (unsigned i = 0; pair_serve(a); i++)
				assert_true(i < 2000);
			if (vb_local_has_work(a->local))
				fail_msg("round %u: has_work for ever", round);
			pair.now = vb_time_earlier(end, vb_local_next_deadline(a->local));
		}
		while (pair_poll(&a->send_cq, &wc))
			completed++;
		/* A peer may offer the wire before anything passed; then the work is the wire's. */
		if (vb_local_path(a->local) == VB_LOCAL_TAKEN)
			assert_int_equal(completed, posted);
		check_guards(a);
		pair_close(&pair);
	}
}

/* A record that is gone when we look for a receive again: nobody waits any more, or time would stand still. */
static void a_record_that_vanishes(void **state)
{
	(void)state;
	pair_open(&pair, BY_MEMORY, NULL);
	pair_connect(&pair, &usual);
	pair_send(b, IBV_WR_SEND, 0, 8, 0, 1, 0);
	pair_settle(&pair);
	assert_true(vb_local_is_stalled(a->local));
	memset(b->segment->qp[PAIR_QP_INDEX].near, 0, 64);
	pair.now = vb_local_next_deadline(a->local);
	pair_serve(a);
	assert_false(vb_local_is_stalled(a->local));
	assert_true(vb_local_next_deadline(a->local) > pair.now);
	pair_close(&pair);
}

/* A segment that has no index for the queue pair, or one that is none: by wire, like all that is odd. */
static void a_queue_pair_without_an_index(void **state)
{
	static const uint16_t indices[] = {0, VB_SEGMENT_QPS + 1, UINT16_MAX};
	struct connection c = usual;

	(void)state;
	for (unsigned i = 0; i < sizeof(indices) / sizeof(indices[0]); i++) {
		pair_open(&pair, BY_MEMORY, NULL);
		b->segment->qp_index[PAIR_QPN_INDEX] = indices[i];
		pair_to_init(a, &c);
		pair_to_rtr(a, &c);
		assert_null(a->local);
		assert_int_equal(a->segment->qp[PAIR_QP_INDEX].offer, VB_OFFER_WIRE);
		b->segment->qp_index[PAIR_QPN_INDEX] = 1 + PAIR_QP_INDEX;
		pair_close(&pair);
	}
}

/* Numbers get indices in the order they come in. What is given back is had again after many others were given back, so
 * that however many come and go, few indices are ever used. */
static void indices_come_again(void **state)
{
	static struct vb_local_qp_indices indices;
	static const uint32_t numbers[] = {77, 3, VB_SEGMENT_QPS - 1, 3, 77};
	static const uint32_t expected[] = {1, 2, 3, 2, 1};

	(void)state;
	pair_open(&pair, BY_MEMORY, NULL);
	memset(&indices, 0, sizeof(indices));
	for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		vb_local_assign_index(b->segment, 9 << 14 | numbers[i], &indices);
		assert_int_equal(b->segment->qp_index[numbers[i]], expected[i]);
	}
	assert_int_equal(indices.made, 3);
	vb_local_release_index(b->segment, 9 << 14 | 77, &indices);
	vb_local_release_index(b->segment, 9 << 14 | 77, &indices);
	assert_int_equal(b->segment->qp_index[77], 0);
	for (uint32_t i = 0; i < 3 * VB_SEGMENT_QPS; i++) {
		uint32_t number = 100 + i * 13 % 10000, index;

		vb_local_assign_index(b->segment, number, &indices);
		index = b->segment->qp_index[number];
		if (i == VB_LOCAL_INDICES_RESTING)
			assert_int_equal(index, 1);
		else if (i < VB_LOCAL_INDICES_RESTING)
			assert_int_equal(index, 4 + i);
		vb_local_release_index(b->segment, number, &indices);
	}
	assert_int_equal(indices.made, 3 + VB_LOCAL_INDICES_RESTING);
	assert_int_equal(b->segment->qp_index[3], 2);
	pair_close(&pair);
}

/* As many as there are, and then again. */
static void all_indices(void **state)
{
	static struct vb_local_qp_indices indices;
	static bool seen[VB_SEGMENT_QPS + 1];

	(void)state;
	pair_open(&pair, BY_MEMORY, NULL);
	for (unsigned round = 0; round < 2; round++) {
		memset(seen, 0, sizeof(seen));
		for (uint32_t number = 0; number < VB_SEGMENT_QPS; number++) {
			if (number == PAIR_QPN_INDEX)
				continue;
			vb_local_assign_index(b->segment, number, &indices);
			assert_in_range(b->segment->qp_index[number], 1, VB_SEGMENT_QPS);
			assert_false(seen[b->segment->qp_index[number]]);
			seen[b->segment->qp_index[number]] = true;
		}
		for (uint32_t number = 0; number < VB_SEGMENT_QPS; number++)
			if (number != PAIR_QPN_INDEX)
				vb_local_release_index(b->segment, number, &indices);
	}
	pair_close(&pair);
}

/* Its peer is gone, and its index has another queue pair, which also says that it means us. */
static void another_queue_pair_at_the_index(void **state)
{
	struct connection c = usual;

	(void)state;
	for (unsigned gone = 0; gone < 2; gone++) {
		pair_open(&pair, BY_MEMORY, NULL);
		pair_to_init(a, &c);
		pair_to_init(b, &c);
		pair_to_rtr(a, &c);
		pair_to_rtr(b, &c);
		if (gone)
			b->segment->qp_index[PAIR_QPN_INDEX] = 0;
		pair_serve(a);
		assert_int_equal(vb_local_path(a->local), gone ? VB_LOCAL_UNDECIDED : VB_LOCAL_TAKEN);
		b->segment->qp_index[PAIR_QPN_INDEX] = 1 + PAIR_QP_INDEX;
		pair_close(&pair);
	}
}

/* Nothing was asked that could be refused. */
static void a_nak_on_a_greeting(void **state)
{
	struct connection c = usual;

	(void)state;
	pair_open(&pair, BY_MEMORY, NULL);
	pair_to_init(a, &c);
	pair_to_init(b, &c);
	pair_to_rtr(a, &c);
	pair_to_rtr(b, &c);
	pair_to_rts(a, &c);
	pair_settle(&pair);
	pair_send(a, IBV_WR_RDMA_WRITE, 0, 8, 0, 1, IBV_SEND_SIGNALED);
	pair_serve(a);
	pair_expect(&a->send_cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(a->local->initiator.produced, 1);
	b->segment->qp[PAIR_QP_INDEX].nak = VB_SEGMENT_NAK_ACCESS;
	for (unsigned i = 0; pair_serve(a); i++)
		assert_true(i < 10);
	assert_false(vb_local_has_work(a->local));
	pair_send(a, IBV_WR_RDMA_WRITE, 0, 8, 0, 2, 0);
	pair_run(&pair, pair.now + VB_SECONDS(10));
	pair_expect(&a->send_cq, 2, IBV_WC_RETRY_EXC_ERR);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nonsense_in_every_field),
		cmocka_unit_test(a_record_that_vanishes),
		cmocka_unit_test(a_nak_on_a_greeting),
		cmocka_unit_test(a_queue_pair_without_an_index),
		cmocka_unit_test(indices_come_again),
		cmocka_unit_test(all_indices),
		cmocka_unit_test(another_queue_pair_at_the_index),
	};

	return cmocka_run_group_tests_name("local/hostile", tests, NULL, NULL);
}
