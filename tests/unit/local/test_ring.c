/* SPDX-License-Identifier: MIT
 *
 * The ring: records of all sizes round and round, full and empty, in the order they were left, however the two ends take turns.
 */
#include <stdlib.h>

#include "pair.h"

static struct pair pair;
static struct process *const a = &pair.process[0], *const b = &pair.process[1];

enum { MESSAGES = 6000, RECEIVES = 64, SPACE = 8192 };

static uint32_t draw_length(void)
{
	switch (pair_random(a) % 6) {
	case 0:
		return pair_random(a) % 64;
	case 1:
		return 4000 + pair_random(a) % 200;
	case 2:
		return pair_random(a) % 8192;
	case 3:
		return 48;
	default:
		return pair_random(a) % 1500;
	}
}

/* The message's number stands in it, and its length follows from a table. */
static void all_sizes_in_order(void **state)
{
	const uint64_t seed = 20260101;
	uint32_t *lengths = calloc(MESSAGES, sizeof(*lengths));
	unsigned posted = 0, received = 0, completed = 0, receives = 0;
	struct ibv_wc wc;

	(void)state;
	assert_non_null(lengths);
	print_message("seed %llu\n", (unsigned long long)seed);
	pair_open(&pair, BY_MEMORY, NULL);
	a->seed = seed;
	pair_connect(&pair, &usual);
	for (unsigned steps = 0; received < MESSAGES || completed < MESSAGES; steps++) {
		assert_true(steps < 100 * MESSAGES);
		switch (pair_random(a) % 5) {
		case 0:
		case 1:
			/* A buffer belongs to its message until that is done. */
			for (unsigned n = pair_random(a) % 200; n > 0 && posted < MESSAGES && posted - completed < RECEIVES * 4; n--) {
				uint32_t at = posted % (RECEIVES * 4) * SPACE;

				lengths[posted] = draw_length();
				if (lengths[posted] < 4)
					lengths[posted] = 4;
				memset(a->arena + at, (int)(posted & 0xff), lengths[posted]);
				memcpy(a->arena + at, &posted, 4);
				assert_int_equal(pair_send(a, IBV_WR_SEND, at, lengths[posted], 0, posted, IBV_SEND_SIGNALED), 0);
				posted++;
			}
			break;
		case 2:
			for (unsigned n = pair_random(a) % 8; n > 0 && receives - received < RECEIVES; n--, receives++)
				assert_int_equal(pair_receive(b, receives % RECEIVES * SPACE, SPACE, receives), 0);
			break;
		case 3:
			pair_serve(a);
			break;
		default:
			pair_serve(b);
		}
		while (pair_poll(&b->recv_cq, &wc)) {
			const uint8_t *bytes = b->arena + received % RECEIVES * SPACE;
			uint32_t number;

			memcpy(&number, bytes, 4);
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			assert_int_equal(wc.wr_id, received);
			assert_int_equal(number, received);
			assert_int_equal(wc.byte_len, lengths[received]);
			for (uint32_t i = 4; i < wc.byte_len; i++)
				assert_int_equal(bytes[i], received & 0xff);
			received++;
		}
		while (pair_poll(&a->send_cq, &wc)) {
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			assert_int_equal(wc.wr_id, completed);
			completed++;
		}
		assert_true(completed <= received);
	}
	free(lengths);
	pair_close(&pair);
}

/* No receives: the ring fills up, nothing is lost, and it goes on where it stopped. */
static void a_full_ring_waits(void **state)
{
	struct ibv_wc wc;

	(void)state;
	for (uint32_t length = 0; length <= 4096; length += 1365) {
		pair_open(&pair, BY_MEMORY, NULL);
		pair_connect(&pair, &usual);
		for (unsigned i = 0; i < PAIR_MAX_WR; i++)
			assert_int_equal(pair_send(a, IBV_WR_SEND, 0, length, 0, i, IBV_SEND_SIGNALED), 0);
		pair_settle(&pair);
		assert_true(a->local->initiator.head - a->local->initiator.released <= VB_RING_BYTES - VB_RECORD_ALIGN);
		for (unsigned i = 0; i < PAIR_MAX_WR; i++)
			assert_int_equal(pair_receive(b, 8192, 4096, i), 0);
		pair_settle(&pair);
		for (unsigned i = 0; i < PAIR_MAX_WR; i++) {
			pair_expect(&a->send_cq, i, IBV_WC_SUCCESS);
			assert_true(pair_poll(&b->recv_cq, &wc));
			assert_int_equal(wc.byte_len, length);
		}
		pair_close(&pair);
	}
}

/* Where each message finds the ring empty the ring is short: short messages stay near, longer ones not far behind. And
 * they can be many again. */
static void lonely_records_stay_near(void **state)
{
	static const uint32_t lengths[] = {0, 8, 48, 49, 64, 176, 177, 1000, 4096};
	struct ibv_wc wc;

	(void)state;
	pair_open(&pair, BY_MEMORY, NULL);
	pair_connect(&pair, &usual);
	for (unsigned l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++) {
		uint32_t length = lengths[l], limit = length <= 176 ? VB_RING_NEAR : VB_RING_BYTES / 4;
		uint64_t before = a->local->initiator.head;

		for (unsigned i = 0; i < 100; i++) {
			memset(a->arena, (int)i, length);
			pair_receive(b, 8192, 4096, i);
			pair_send(a, IBV_WR_SEND, 0, length, 0, i, IBV_SEND_SIGNALED);
			/* One is left before it can be known that it should have turned. */
			assert_true(i < 2 || a->local->initiator.head % VB_RING_BYTES <= limit);
			pair_settle(&pair);
			pair_expect(&a->send_cq, i, IBV_WC_SUCCESS);
			assert_true(pair_poll(&b->recv_cq, &wc));
			assert_int_equal(wc.byte_len, length);
			assert_memory_equal(b->arena + 8192, a->arena, length);
		}
		assert_true(a->local->initiator.head > before);
		/* A burst, longer than what is near. */
		for (unsigned i = 0; i < 200; i++) {
			pair_receive(b, 8192, 4096, i);
			pair_send(a, IBV_WR_SEND, 0, length, 0, i, IBV_SEND_SIGNALED);
		}
		pair_settle(&pair);
		for (unsigned i = 0; i < 200; i++) {
			pair_expect(&a->send_cq, i, IBV_WC_SUCCESS);
			assert_true(pair_poll(&b->recv_cq, &wc));
			assert_int_equal(wc.wr_id, i);
		}
	}
	pair_close(&pair);
}

/* Short and long ones by turns, one at a time and some at a time. */
static void lonely_records_of_all_sizes(void **state)
{
	const uint64_t seed = 20260116;
	struct ibv_wc wc;

	(void)state;
	print_message("seed %llu\n", (unsigned long long)seed);
	pair_open(&pair, BY_MEMORY, NULL);
	a->seed = seed;
	pair_connect(&pair, &usual);
	for (unsigned round = 0; round < 5000; round++) {
		unsigned count = pair_random(a) % 8 == 0 ? 1 + pair_random(a) % 20 : 1;
		uint32_t length[20];

		for (unsigned i = 0; i < count; i++) {
			length[i] = draw_length();
			memset(a->arena + i * SPACE, (int)(round + i), length[i]);
			pair_receive(b, i * SPACE, SPACE, i);
			pair_send(a, IBV_WR_SEND, i * SPACE, length[i], 0, i, IBV_SEND_SIGNALED);
		}
		pair_settle(&pair);
		for (unsigned i = 0; i < count; i++) {
			pair_expect(&a->send_cq, i, IBV_WC_SUCCESS);
			assert_true(pair_poll(&b->recv_cq, &wc));
			assert_int_equal(wc.byte_len, length[i]);
			assert_memory_equal(b->arena + i * SPACE, a->arena + i * SPACE, length[i]);
		}
	}
	pair_close(&pair);
}

/* The count of records passes the 32 bits, and the 31, that a stamp and an element keep of it. */
static void numbers_wrap(void **state)
{
	static const uint64_t starts[] = {UINT32_MAX - 10ull, INT32_MAX - 10ull};

	(void)state;
	for (unsigned s = 0; s < 2; s++) {
		pair_open(&pair, BY_MEMORY, NULL);
		pair_connect(&pair, &usual);
		a->local->initiator.produced = a->local->initiator.consumed = a->local->initiator.ordered = starts[s];
		b->local->target.consumed = b->local->target.shown = b->segment->qp[PAIR_QP_INDEX].consumed = starts[s];
		for (unsigned i = 0; i < 30; i++) {
			pair_receive(b, 8192, 4096, i);
			pair_send(a, IBV_WR_SEND, 0, 100, 0, i, IBV_SEND_SIGNALED);
			pair_send(a, IBV_WR_RDMA_WRITE, 0, 100, 0, i, IBV_SEND_SIGNALED);
			if (i % 3 == 0)
				pair_settle(&pair);
		}
		pair_settle(&pair);
		for (unsigned i = 0; i < 30; i++) {
			pair_expect(&a->send_cq, i, IBV_WC_SUCCESS);
			pair_expect(&a->send_cq, i, IBV_WC_SUCCESS);
			pair_expect(&b->recv_cq, i, IBV_WC_SUCCESS);
		}
		pair_close(&pair);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_sizes_in_order),
		cmocka_unit_test(a_full_ring_waits),
		cmocka_unit_test(lonely_records_stay_near),
		cmocka_unit_test(lonely_records_of_all_sizes),
		cmocka_unit_test(numbers_wrap),
	};

	return cmocka_run_group_tests_name("local/ring", tests, NULL, NULL);
}
