/* SPDX-License-Identifier: MIT
 *
 * Packets that are kept until a missing one comes (roce/ahead.c): found by their own PSN and by no other, as they came, and no more of
 * them than there should be, whatever a peer sends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "roce/engine.h"

enum { MTU = 4096, REACH = 1024, MOST_BYTES = 1024 * 1024 };

static uint8_t payload[MTU + 1];

static void keep(struct vb_roce_ahead *ahead, uint32_t expected, uint32_t psn, uint32_t length)
{
	struct vb_roce_packet packet = {.psn = psn_of(psn), .payload = payload, .payload_length = length};

	vb_roce_ahead_keep(ahead, psn_of(expected), &packet);
}

static void found_as_they_came(void **state)
{
	/* In the middle of a shelf, and where PSNs begin again. */
	static const uint32_t expected[] = {0, 37, 0xffffff - 20};
	struct vb_roce_ahead ahead;

	(void)state;
	for (unsigned i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		const struct vb_roce_packet *found;
		uint32_t psn = expected[i] + 100;

		vb_roce_ahead_open(&ahead, MTU);
		memset(payload, 0x5a, sizeof(payload));
		keep(&ahead, expected[i], psn, MTU);
		/* The first counts: a second one would be somebody's attempt to change it. */
		memset(payload, 0xa5, sizeof(payload));
		keep(&ahead, expected[i], psn, MTU);
		assert_int_equal(ahead.count, 1);
		found = vb_roce_ahead_find(&ahead, psn_of(psn));
		assert_non_null(found);
		assert_int_equal(found->payload_length, MTU);
		for (unsigned j = 0; j < MTU; j++)
			assert_int_equal(found->payload[j], 0x5a);
		assert_null(vb_roce_ahead_find(&ahead, psn_of(psn + 1)));
		vb_roce_ahead_forget(&ahead, psn_of(psn), 1);
		assert_null(vb_roce_ahead_find(&ahead, psn_of(psn)));
		assert_int_equal(ahead.count, 0);
		vb_roce_ahead_clear(&ahead);
		assert_int_equal(ahead.bytes, 0);
	}
}

/* Places are used again and again: one that is too far ahead would be taken for one that is not. */
static void what_is_out_of_reach_is_not_kept(void **state)
{
	struct vb_roce_ahead ahead;

	(void)state;
	vb_roce_ahead_open(&ahead, 256);
	for (uint32_t distance = REACH - 64; distance < 3 * REACH; distance++) {
		keep(&ahead, 5, 5 + distance, 256);
		for (uint32_t psn = 5; psn < 5 + REACH - 64; psn++)
			assert_null(vb_roce_ahead_find(&ahead, psn_of(psn)));
	}
	/* Longer than any packet of this queue pair. */
	keep(&ahead, 5, 6, 257);
	assert_null(vb_roce_ahead_find(&ahead, psn_of(6)));
	vb_roce_ahead_clear(&ahead);
}

static void memory_is_bounded(void **state)
{
	struct vb_roce_ahead ahead;

	(void)state;
	vb_roce_ahead_open(&ahead, MTU);
	for (uint32_t psn = 1; psn < REACH; psn++) {
		keep(&ahead, 0, psn, MTU);
		assert_true(ahead.bytes <= MOST_BYTES);
	}
	assert_true(ahead.count >= 64 && ahead.count * MTU <= MOST_BYTES);
	vb_roce_ahead_clear(&ahead);
	assert_int_equal(ahead.bytes, 0);
	assert_int_equal(ahead.count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(found_as_they_came),
		cmocka_unit_test(what_is_out_of_reach_is_not_kept),
		cmocka_unit_test(memory_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
