/* SPDX-License-Identifier: MIT
 *
 * Where a long message of a stream is cut (rdmacm/rsocket/stream_cut.h), at any length, and wherever the ring ends in it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rdmacm/rsocket/stream_cut.h"
#include "wire/roce_packet.h"

enum { MOST = 9 * 4096, KEY = 77 };

static uint8_t source[MOST], target[MOST];

/* As a peer does with a WRITE: one element behind the other, from `at` on. */
static uint32_t write_pieces(const struct ibv_sge *list, int count, uint32_t at)
{
	uint32_t length = 0;

	assert_in_range(count, 1, VB_RSTREAM_PIECES);
	for (int i = 0; i < count; i++) {
		assert_int_equal(list[i].lkey, KEY);
		assert_true(list[i].length > 0 && at + length + list[i].length <= MOST);
		memcpy(target + at + length, (const void *)(uintptr_t)list[i].addr, list[i].length);
		length += list[i].length;
	}
	return length;
}

/* A message of that length whose first `before_end` bytes lie at the end of a ring of MOST bytes. */
static void check(uint32_t length, uint32_t before_end, uint32_t packet)
{
	uint64_t ring = (uintptr_t)source;
	uint32_t at = before_end == length ? 0 : MOST - before_end;
	struct ibv_sge pieces[] = {{ring + at, before_end, KEY}, {ring, length - before_end, KEY}};
	struct vb_rstream_cut cut;
	bool suits = length >= 3 * packet && length % packet <= packet - VB_IMMEDIATE_LENGTH;

	memset(target, 0, sizeof(target));
	assert_int_equal(vb_rstream_cut(&cut, pieces, before_end < length ? 2 : 1, packet), suits);
	if (!suits)
		return;
	/* Whole packets, and one that has the size of these with its immediate data. */
	assert_int_equal(write_pieces(cut.first, cut.first_count, 0), length / packet * packet);
	assert_int_equal(write_pieces(cut.last, cut.last_count, cut.last_at), packet - VB_IMMEDIATE_LENGTH);
	assert_int_equal(cut.last_at + packet - VB_IMMEDIATE_LENGTH, length);
	assert_memory_equal(target, source + at, before_end);
	assert_memory_equal(target + before_end, source, length - before_end);
}

static void all_of_it_is_written(void **state)
{
	(void)state;
	srandom(1);
	for (unsigned i = 0; i < MOST; i++)
		source[i] = (uint8_t)random();
	for (uint32_t packet = 256; packet <= 4096; packet *= 2)
		for (unsigned i = 0; i < 2000; i++) {
			uint32_t length = 1 + (uint32_t)random() % (8 * packet);

			/* Near where it makes a difference. */
			if (i % 2)
				length = (length + packet - 1) / packet * packet + (uint32_t)random() % 12 - 6;
			check(length, length, packet);
			check(length, 1 + (uint32_t)random() % length, packet);
		}
}

static void nor_where_packets_are_not_known(void **state)
{
	struct ibv_sge piece = {(uintptr_t)source, MOST, KEY};
	struct vb_rstream_cut cut;

	(void)state;
	assert_false(vb_rstream_cut(&cut, &piece, 1, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_of_it_is_written),
		cmocka_unit_test(nor_where_packets_are_not_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
