/* SPDX-License-Identifier: MIT
 *
 * The rings of a cable of memory: what is written is read, in order and whole; a full one takes no more; and whatever one side writes where
 * the other looks, the other reads nothing beyond the ring and ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "io/frame_ring.h"

struct ends {
	struct vb_frame_ring_segment *segment;
	struct vb_frame_ring_writer writer[2];
	struct vb_frame_ring_reader reader[2];
};

static int begin(void **state)
{
	struct ends *ends = calloc(1, sizeof(*ends));

	/* Of its own size: what is read beyond it AddressSanitizer sees. */
	ends->segment = calloc(1, sizeof(*ends->segment));
	for (unsigned i = 0; i < 2; i++)
		vb_frame_ring_open(ends->segment, i, &ends->writer[i], &ends->reader[i]);
	*state = ends;
	return 0;
}

static int end(void **state)
{
	struct ends *ends = *state;

	free(ends->segment);
	free(ends);
	return 0;
}

static uint8_t mark(unsigned number, size_t at)
{
	return (uint8_t)(number * 31 + at);
}

static bool put(struct vb_frame_ring_writer *writer, unsigned number, size_t length)
{
	uint8_t *to = vb_frame_ring_reserve(writer, length);

	for (size_t i = 0; to && i < length; i++)
		to[i] = mark(number, i);
	if (to)
		(void)vb_frame_ring_publish(writer, length, length);
	return to != NULL;
}

static void get(struct vb_frame_ring_reader *reader, unsigned number, size_t length)
{
	struct vb_frame_ring_record record;

	assert_int_equal(vb_frame_ring_look(reader, &record), VB_FRAME_RING_HAS_RECORD);
	assert_int_equal(record.length, length);
	assert_int_equal(record.segment, length);
	for (size_t i = 0; i < length; i++)
		assert_int_equal(record.bytes[i], mark(number, i));
	vb_frame_ring_done(reader, &record);
}

/* Many times around, at every alignment, one to three records in the ring. */
static void what_is_written_is_read(void **state)
{
	struct ends *ends = *state;
	struct vb_frame_ring_record record;

	for (unsigned side = 0; side < 2; side++) {
		unsigned read = 0;

		for (unsigned i = 0; i < 300; i++) {
			assert_true(put(&ends->writer[side], i, 1 + i * 7919 % VB_FRAME_RING_RECORD));
			while (i - read >= i % 3) {
				get(&ends->reader[!side], read, 1 + read * 7919 % VB_FRAME_RING_RECORD);
				if (read++ == i)
					break;
			}
		}
		while (read < 300) {
			get(&ends->reader[!side], read, 1 + read * 7919 % VB_FRAME_RING_RECORD);
			read++;
		}
		assert_false(vb_frame_ring_has_more(&ends->reader[!side]));
		assert_int_equal(vb_frame_ring_look(&ends->reader[!side], &record), VB_FRAME_RING_EMPTY);
	}
}

static void a_full_ring_takes_no_more(void **state)
{
	struct ends *ends = *state;
	unsigned written = 0, read = 0;

	while (put(&ends->writer[0], written, 50000))
		written++;
	assert_in_range(written, VB_FRAME_RING / 50112 - 1, VB_FRAME_RING / 50112);
	assert_false(put(&ends->writer[0], written, 50000));
	get(&ends->reader[1], read++, 50000);
	get(&ends->reader[1], read++, 50000);
	assert_true(put(&ends->writer[0], written++, 50000));
	while (read < written)
		get(&ends->reader[1], read++, 50000);
}

static void lengths_that_no_record_has(void **state)
{
	struct ends *ends = *state;

	assert_null(vb_frame_ring_reserve(&ends->writer[0], 0));
	assert_null(vb_frame_ring_reserve(&ends->writer[0], VB_FRAME_RING_RECORD + 1));
	assert_true(put(&ends->writer[0], 0, VB_FRAME_RING_RECORD));
}

/* Who sleeps is to be woken by what comes after, and sees what came before. */
static void a_sleeper_is_woken(void **state)
{
	struct ends *ends = *state;

	assert_non_null(vb_frame_ring_reserve(&ends->writer[0], 8));
	assert_false(vb_frame_ring_publish(&ends->writer[0], 8, 8));
	vb_frame_ring_sleep(&ends->reader[1]);
	assert_true(vb_frame_ring_is_asleep(&ends->reader[1]));
	assert_true(vb_frame_ring_has_more(&ends->reader[1]));
	assert_non_null(vb_frame_ring_reserve(&ends->writer[0], 8));
	assert_true(vb_frame_ring_publish(&ends->writer[0], 8, 8));
	vb_frame_ring_wake(&ends->reader[1]);
	assert_non_null(vb_frame_ring_reserve(&ends->writer[0], 8));
	assert_false(vb_frame_ring_publish(&ends->writer[0], 8, 8));
}

/* The reader says that it has given back what was never written, or nothing ever: the writer stays in what it knows to be free. */
static void a_reader_that_lies(void **state)
{
	static const uint64_t lies[] = {1, VB_FRAME_RING, UINT64_MAX, UINT64_MAX - VB_FRAME_RING, (uint64_t)1 << 63};
	struct ends *ends = *state;

	for (unsigned i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		for (unsigned j = 0; j < 100; j++) {
			ends->segment->words[0].released = lies[i];
			(void)put(&ends->writer[0], j, 1 + j * 997);
		}
	}
}

/* Records that say anything: they are refused, or lie in the ring. */
static void a_writer_that_lies(void **state)
{
	static const uint64_t lies[] = {
		0, 1, (uint64_t)1 << 32, (uint64_t)2 << 32 | 3, (uint64_t)(VB_FRAME_RING_RECORD + 1) << 32 | 1, UINT64_MAX,
		(uint64_t)UINT32_MAX << 32 | 1, (uint64_t)VB_FRAME_RING_RECORD << 32 | 1, (uint64_t)VB_FRAME_RING_RECORD << 32 | UINT32_MAX,
	};
	struct ends *ends = *state;
	struct vb_frame_ring_reader *reader = &ends->reader[1];

	for (unsigned i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		for (size_t at = 0; at < VB_FRAME_RING; at += VB_FRAME_RING_LINE) {
			uint64_t *words = (uint64_t *)(void *)(ends->segment->ring[0] + at);
			struct vb_frame_ring_record record;
			enum vb_frame_ring_look look;

			/* The same at the beginning, for what says that it is the last of the ring. */
			memcpy(ends->segment->ring[0], &(uint64_t[]){2, lies[i]}, 16);
			words[0] = 1;
			words[1] = lies[i];
			reader->number = 0;
			reader->position = at;
			look = vb_frame_ring_look(reader, &record);
			if (look != VB_FRAME_RING_HAS_RECORD)
				continue;
			assert_true(record.length > 0 && record.segment > 0 && record.segment <= record.length);
			assert_true(record.bytes >= ends->segment->ring[0]);
			assert_true(record.bytes + record.length <= ends->segment->ring[0] + VB_FRAME_RING);
			vb_frame_ring_done(reader, &record);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_written_is_read, begin, end),
		cmocka_unit_test_setup_teardown(a_full_ring_takes_no_more, begin, end),
		cmocka_unit_test_setup_teardown(lengths_that_no_record_has, begin, end),
		cmocka_unit_test_setup_teardown(a_sleeper_is_woken, begin, end),
		cmocka_unit_test_setup_teardown(a_reader_that_lies, begin, end),
		cmocka_unit_test_setup_teardown(a_writer_that_lies, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
