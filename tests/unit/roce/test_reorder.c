/* SPDX-License-Identifier: MIT
 *
 * Packets that are kept until a missing one comes (roce/reorder.c): found by their own PSN and by no other, as they came, and no more of
 * them than there should be, whatever a peer sends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "roce/engine.h"

enum { WRITE_MIDDLE = 0x07, MTU = 4096, REACH = 1024, MOST_BYTES = 1024 * 1024 };

static uint8_t payload[MTU + 1];

static enum vb_roce_kept keep(struct vb_roce_reorder *reorder, uint32_t expected, uint32_t psn, uint32_t length)
{
	struct vb_roce_packet packet = {.opcode = WRITE_MIDDLE, .op = vb_roce_opcode(WRITE_MIDDLE), .psn = psn_of(psn),
					.payload = payload, .payload_length = length};

	return vb_roce_reorder_keep(reorder, psn_of(expected), &packet);
}

static void found_as_they_came(void **state)
{
	/* In the middle of a block, and where PSNs begin again. */
	static const uint32_t expected[] = {0, 37, 0xffffff - 20};
	struct vb_roce_reorder reorder;

	(void)state;
	for (unsigned i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		const struct vb_roce_packet *found;
		uint32_t psn = expected[i] + 100;

		vb_roce_reorder_open(&reorder, MTU);
		memset(payload, 0x5a, sizeof(payload));
		keep(&reorder, expected[i], psn, MTU);
		/* The same once more. */
		assert_int_equal(keep(&reorder, expected[i], psn, MTU), VB_KEPT);
		assert_int_equal(reorder.count, 1);
		found = vb_roce_reorder_find(&reorder, psn_of(psn));
		assert_non_null(found);
		assert_int_equal(found->payload_length, MTU);
		for (unsigned j = 0; j < MTU; j++)
			assert_int_equal(found->payload[j], 0x5a);
		assert_null(vb_roce_reorder_find(&reorder, psn_of(psn + 1)));
		vb_roce_reorder_forget(&reorder, psn_of(psn), 1);
		assert_null(vb_roce_reorder_find(&reorder, psn_of(psn)));
		assert_int_equal(reorder.count, 0);
		vb_roce_reorder_clear(&reorder);
		assert_int_equal(reorder.bytes, 0);
	}
}

/* One of them is not the peer's: neither is there, nor what comes after them, until the PSN's turn has come. */
static void of_two_unlike_ones_none_is_kept(void **state)
{
	struct vb_roce_reorder reorder;

	(void)state;
	vb_roce_reorder_open(&reorder, MTU);
	memset(payload, 0x5a, sizeof(payload));
	assert_int_equal(keep(&reorder, 5, 100, MTU), VB_KEPT);
	assert_int_equal(keep(&reorder, 5, 101, MTU), VB_KEPT);
	payload[MTU - 1] ^= 1;
	assert_int_equal(keep(&reorder, 5, 100, MTU), VB_KEPT_DISPUTED);
	assert_null(vb_roce_reorder_find(&reorder, psn_of(100)));
	assert_int_equal(keep(&reorder, 5, 100, MTU), VB_KEPT_NOT);
	assert_null(vb_roce_reorder_find(&reorder, psn_of(100)));
	assert_non_null(vb_roce_reorder_find(&reorder, psn_of(101)));
	/* Shorter, and otherwise alike. */
	payload[MTU - 1] ^= 1;
	assert_int_equal(keep(&reorder, 5, 101, MTU - 4), VB_KEPT_DISPUTED);
	assert_null(vb_roce_reorder_find(&reorder, psn_of(101)));
	/* Something is still to be asked for. */
	assert_int_equal(reorder.count, 2);
	vb_roce_reorder_forget(&reorder, psn_of(100), 2);
	assert_int_equal(reorder.count, 0);
	/* The place's next packet is taken as it comes. */
	assert_int_equal(keep(&reorder, 5 + REACH, 100 + REACH, MTU), VB_KEPT);
	assert_non_null(vb_roce_reorder_find(&reorder, psn_of(100 + REACH)));
	vb_roce_reorder_clear(&reorder);
	assert_int_equal(reorder.bytes, 0);
}

/* Places are used again and again: one that is too far ahead would be taken for one that is not. */
static void what_is_out_of_reach_is_not_kept(void **state)
{
	struct vb_roce_reorder reorder;

	(void)state;
	vb_roce_reorder_open(&reorder, 256);
	for (uint32_t distance = REACH - 64; distance < 3 * REACH; distance++) {
		keep(&reorder, 5, 5 + distance, 256);
		for (uint32_t psn = 5; psn < 5 + REACH - 64; psn++)
			assert_null(vb_roce_reorder_find(&reorder, psn_of(psn)));
	}
	/* Longer than any packet of this queue pair. */
	keep(&reorder, 5, 6, 257);
	assert_null(vb_roce_reorder_find(&reorder, psn_of(6)));
	vb_roce_reorder_clear(&reorder);
}

static void memory_is_bounded(void **state)
{
	struct vb_roce_reorder reorder;

	(void)state;
	vb_roce_reorder_open(&reorder, MTU);
	for (uint32_t psn = 1; psn < REACH; psn++) {
		keep(&reorder, 0, psn, MTU);
		assert_true(reorder.bytes <= MOST_BYTES);
	}
	assert_true(reorder.count >= 64 && reorder.count * MTU <= MOST_BYTES);
	vb_roce_reorder_clear(&reorder);
	assert_int_equal(reorder.bytes, 0);
	assert_int_equal(reorder.count, 0);
}

/* Some packets have their payload elsewhere (roce/bulk_ahead.c): they are counted from a PSN on, up to the first that is none of them. */
static void those_in_their_places_are_counted(void **state)
{
	static const uint32_t expected[] = {0, 37, 63, 0xffffff - 20};
	struct vb_roce_reorder reorder;
	bool asked;

	(void)state;
	for (unsigned i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		vb_roce_reorder_open(&reorder, 256);
		for (uint32_t ahead = 1; ahead <= 200; ahead++) {
			struct psn psn = psn_of(expected[i] + ahead);

			if (ahead == 150) {
				assert_int_equal(keep(&reorder, expected[i], psn.v, 256), VB_KEPT);
				continue;
			}
			assert_true(vb_roce_reorder_is_free(&reorder, psn_of(expected[i]), psn));
			vb_roce_reorder_placed(&reorder, psn, ahead == 20);
			assert_false(vb_roce_reorder_is_free(&reorder, psn_of(expected[i]), psn));
			assert_null(vb_roce_reorder_find(&reorder, psn));
			assert_int_equal(keep(&reorder, expected[i], psn.v, 256), VB_KEPT_IN_PLACE);
		}
		vb_roce_reorder_dispute(&reorder, psn_of(expected[i] + 100));
		assert_int_equal(keep(&reorder, expected[i], expected[i] + 100, 256), VB_KEPT_NOT);
		assert_int_equal(vb_roce_reorder_take_placed(&reorder, psn_of(expected[i]), &asked), 0);
		assert_int_equal(vb_roce_reorder_take_placed(&reorder, psn_of(expected[i] + 1), &asked), 99);
		assert_true(asked);
		assert_int_equal(reorder.count, 101);
		vb_roce_reorder_forget(&reorder, psn_of(expected[i] + 100), 1);
		assert_int_equal(vb_roce_reorder_take_placed(&reorder, psn_of(expected[i] + 101), &asked), 49);
		assert_false(asked);
		assert_non_null(vb_roce_reorder_find(&reorder, psn_of(expected[i] + 150)));
		vb_roce_reorder_forget(&reorder, psn_of(expected[i] + 150), 10);
		assert_int_equal(vb_roce_reorder_take_placed(&reorder, psn_of(expected[i] + 160), &asked), 41);
		assert_int_equal(reorder.count, 0);
		vb_roce_reorder_clear(&reorder);
		assert_int_equal(reorder.bytes, 0);
	}
}

static void nothing_is_placed_out_of_reach(void **state)
{
	struct vb_roce_reorder reorder;

	(void)state;
	vb_roce_reorder_open(&reorder, 256);
	assert_true(vb_roce_reorder_is_free(&reorder, psn_of(5), psn_of(5 + REACH - 64)));
	assert_false(vb_roce_reorder_is_free(&reorder, psn_of(5), psn_of(5 + REACH - 63)));
	vb_roce_reorder_clear(&reorder);
	vb_roce_reorder_open(&reorder, MTU);
	for (uint32_t psn = 1; psn <= REACH - 64; psn++)
		vb_roce_reorder_is_free(&reorder, psn_of(0), psn_of(psn));
	assert_true(reorder.bytes <= MOST_BYTES);
	vb_roce_reorder_clear(&reorder);
	assert_int_equal(reorder.bytes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(found_as_they_came),
		cmocka_unit_test(of_two_unlike_ones_none_is_kept),
		cmocka_unit_test(what_is_out_of_reach_is_not_kept),
		cmocka_unit_test(memory_is_bounded),
		cmocka_unit_test(those_in_their_places_are_counted),
		cmocka_unit_test(nothing_is_placed_out_of_reach),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
