/* SPDX-License-Identifier: MIT
 *
 * Rings of datagrams (local/datagrams.h): what is put in comes out, once and in order, however often the ring goes round; a full one takes
 * nothing until it is empty again, and both ends know what went by wire meanwhile; what a process shows that cannot be is not believed; and
 * a process that dies in the middle of a datagram is in nobody's way.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "local/datagrams.h"

enum { WRITER = 3, READER = 7, RING = 5, SEGMENT = 1000 };

struct bed {
	struct vb_segment *writers, *readers;
	struct vb_datagram_writer writer;
	struct vb_datagram_reader reader;
	struct vb_datagram_run run;
	uint8_t bytes[VB_DATAGRAM_RUN];
};

static const struct vb_path path = {.source = {[15] = 1}, .destination = {[15] = 2}, .source_port = 50000, .traffic_class = 4};

static struct vb_segment *make_segment(uint64_t id)
{
	struct vb_segment *segment = mmap(NULL, sizeof(*segment), PROT_READ | PROT_WRITE,
					  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_true(segment != MAP_FAILED);
	segment->header.id = id;
	return segment;
}

static void open_writer(struct bed *bed)
{
	vb_datagram_writer_open(&bed->writer, bed->writers, WRITER, RING, bed->readers, bed->readers->header.id, READER);
}

static void open_reader(struct bed *bed)
{
	vb_datagram_reader_open(&bed->reader, bed->readers, READER, bed->writers, bed->writers->header.id, WRITER);
}

static int make(void **state)
{
	struct bed *bed = calloc(1, sizeof(*bed));

	bed->writers = make_segment(111);
	bed->readers = make_segment(222);
	open_writer(bed);
	open_reader(bed);
	*state = bed;
	return 0;
}

static int unmake(void **state)
{
	struct bed *bed = *state;

	munmap(bed->writers, sizeof(*bed->writers));
	munmap(bed->readers, sizeof(*bed->readers));
	free(bed);
	return 0;
}

static void fill(struct bed *bed, uint32_t number, uint32_t length)
{
	for (uint32_t i = 0; i < length; i++)
		bed->bytes[i] = (uint8_t)(number * 31 + i);
}

static bool put(struct bed *bed, uint32_t number, uint32_t length)
{
	fill(bed, number, length);
	return vb_datagram_put(&bed->writer, &path, bed->bytes, length, length < SEGMENT ? length : SEGMENT);
}

/* Sockets are read whenever that is asked for. */
static void expect(struct bed *bed, uint32_t number, uint32_t length)
{
	assert_true(vb_datagram_reader_has_work(&bed->reader));
	vb_datagram_reader_clears(&bed->reader);
	assert_true(vb_datagram_take(&bed->reader, &bed->run));
	fill(bed, number, length);
	assert_int_equal(bed->run.length, length);
	assert_int_equal(bed->run.segment, length < SEGMENT ? length : SEGMENT);
	assert_memory_equal(bed->run.bytes, bed->bytes, length);
	assert_true(vb_path_equal(&bed->run.path, &path));
}

static void expect_nothing(struct bed *bed)
{
	assert_false(vb_datagram_reader_has_work(&bed->reader));
	assert_false(vb_datagram_take(&bed->reader, &bed->run));
}

/* Of every length that ends differently, many times round. */
static void what_is_put_in_comes_out(void **state)
{
	static const uint32_t lengths[] = {1, 40, 55, 56, 57, 120, 1000, 4124, 64999, VB_DATAGRAM_RUN};
	struct bed *bed = *state;

	expect_nothing(bed);
	for (uint32_t i = 0; i < 400; i++) {
		uint32_t a = lengths[i % 10], b = lengths[i * 7 % 10];

		assert_true(put(bed, i, a));
		assert_true(put(bed, i + 1, b));
		expect(bed, i, a);
		expect(bed, i + 1, b);
		expect_nothing(bed);
	}
}

/* In between it takes as many as there is room for. */
static void a_full_ring_takes_nothing(void **state)
{
	struct bed *bed = *state;
	uint32_t in = 0, out = 0;

	for (unsigned round = 0; round < 20; round++) {
		while (put(bed, in, 4124))
			in++;
		vb_datagram_sent_by_wire(&bed->writer);
		assert_in_range(in - out, VB_DATAGRAM_RING / 4224 - 2, VB_DATAGRAM_RING / 4224);
		while (out < in)
			expect(bed, out++, 4124);
		for (unsigned i = 0; i < 50 + round; i++)
			assert_true(put(bed, in++, 4124));
		for (unsigned i = 0; i < 10 + round; i++)
			expect(bed, out++, 4124);
	}
	while (out < in)
		expect(bed, out++, 4124);
	expect_nothing(bed);
	assert_false(vb_datagram_put(&bed->writer, &path, bed->bytes, VB_DATAGRAM_RUN + 1, SEGMENT));
	assert_false(vb_datagram_put(&bed->writer, &path, bed->bytes, 0, SEGMENT));
}

/* What does not fit goes by wire, and all that follows it, until the ring is empty and the last of it was sent. */
static void a_detour_lasts_until_the_ring_is_empty(void **state)
{
	struct bed *bed = *state;
	uint32_t in = 0, out = 0;

	assert_false(vb_datagram_reader_is_bypassed(&bed->reader));
	while (put(bed, in, 4124))
		in++;
	assert_true(vb_datagram_reader_is_bypassed(&bed->reader));
	while (out + 1 < in)
		expect(bed, out++, 4124);
	assert_false(put(bed, in, 1));
	vb_datagram_sent_by_wire(&bed->writer);
	assert_true(vb_datagram_reader_is_bypassed(&bed->reader));
	expect(bed, out++, 4124);
	/* Nothing is left that could be passed by; but the first is not sent yet. */
	assert_false(vb_datagram_reader_is_bypassed(&bed->reader));
	assert_false(put(bed, in, 1));
	vb_datagram_sent_by_wire(&bed->writer);
	assert_false(put(bed, in, 1));
	vb_datagram_sent_by_wire(&bed->writer);
	vb_datagram_sent_by_wire(&bed->writer);
	assert_true(put(bed, in, 1));
	assert_false(vb_datagram_reader_is_bypassed(&bed->reader));
	expect(bed, in, 1);
}

static void expect_behind_the_wire(struct bed *bed, uint32_t number, uint32_t length)
{
	assert_true(vb_datagram_reader_has_work(&bed->reader));
	assert_false(vb_datagram_take(&bed->reader, &bed->run));
	assert_true(vb_datagram_reader_clears(&bed->reader));
	assert_false(vb_datagram_reader_clears(&bed->reader));
	expect(bed, number, length);
}

/* The first of all, the first after a detour, and the first after something went by wire for another reason. Also at the beginning of the
 * ring, where a record without bytes stands before it. */
static void what_went_by_wire_is_taken_first(void **state)
{
	struct bed *bed = *state;
	uint32_t in = 0, out = 0;

	assert_true(put(bed, in++, 100));
	assert_true(put(bed, in++, 100));
	expect_behind_the_wire(bed, out++, 100);
	assert_false(vb_datagram_reader_clears(&bed->reader));
	expect(bed, out++, 100);
	for (unsigned round = 0; round < 300; round++) {
		while (put(bed, in, 60000))
			in++;
		vb_datagram_sent_by_wire(&bed->writer);
		while (out < in)
			expect(bed, out++, 60000);
		assert_true(put(bed, in++, 1 + round * 200));
		assert_true(put(bed, in++, 100));
		expect_behind_the_wire(bed, out++, 1 + round * 200);
		assert_false(vb_datagram_reader_clears(&bed->reader));
		expect(bed, out++, 100);
	}
	vb_datagram_goes_by_wire(&bed->writer);
	assert_true(put(bed, in, 100));
	expect_behind_the_wire(bed, out, 100);
	assert_false(vb_datagram_reader_clears(&bed->reader));
}

static void who_is_not_attended_to_knows_it(void **state)
{
	struct bed *bed = *state;

	assert_true(vb_datagram_writer_is_attended(&bed->writer));
	bed->readers->datagrams[WRITER].attends = 112;
	assert_false(vb_datagram_writer_is_attended(&bed->writer));
}

/* The slot has another process: what lies in the ring is not for it. One that has read the same id goes on. */
static void another_process_gets_an_empty_ring(void **state)
{
	struct bed *bed = *state;

	for (uint32_t i = 0; i < 5; i++)
		assert_true(put(bed, i, 100));
	expect(bed, 0, 100);
	open_writer(bed);
	expect(bed, 1, 100);
	bed->readers->header.id = 333;
	open_reader(bed);
	expect_nothing(bed);
	open_writer(bed);
	expect_nothing(bed);
	assert_true(put(bed, 9, 200));
	expect(bed, 9, 200);
	expect_nothing(bed);
}

/* Everything stands there but the stamp. */
static void a_datagram_that_was_not_finished_is_none(void **state)
{
	struct bed *bed = *state;
	uint32_t *stamp = (uint32_t *)(void *)bed->writers->datagram_ring[RING];

	assert_true(put(bed, 1, 100));
	*stamp = 0;
	expect_nothing(bed);
}

static void nonsense_is_not_followed(void **state)
{
	static const uint64_t lengths[] = {VB_DATAGRAM_RUN + 1, UINT32_MAX, 100, 100};
	static const uint64_t segments[] = {SEGMENT, SEGMENT, 0, 101};
	struct bed *bed = *state;

	for (unsigned i = 0; i < 4; i++) {
		uint64_t *words = (uint64_t *)(void *)bed->writers->datagram_ring[RING];

		open_reader(bed);
		words[0] = lengths[i] << 32 | vb_record_stamp(1);
		words[1] = segments[i];
		assert_false(vb_datagram_take(&bed->reader, &bed->run));
		/* Nor looked at again. */
		expect_nothing(bed);
	}
}

/* A record that would go over the end, and one after another that says "at the beginning". */
static void the_end_of_the_ring_is_the_end(void **state)
{
	struct bed *bed = *state;
	uint8_t *ring = bed->writers->datagram_ring[RING];
	uint64_t *last = (uint64_t *)(void *)(ring + VB_DATAGRAM_RING - VB_RECORD_ALIGN), *first = (uint64_t *)(void *)ring;

	bed->reader.position = VB_DATAGRAM_RING - VB_RECORD_ALIGN;
	last[0] = UINT64_C(1000) << 32 | vb_record_stamp(1);
	last[1] = 1000;
	assert_false(vb_datagram_take(&bed->reader, &bed->run));
	open_reader(bed);
	first[0] = vb_record_stamp(1);
	assert_false(vb_datagram_take(&bed->reader, &bed->run));
	expect_nothing(bed);
}

static void room_that_cannot_be_is_none(void **state)
{
	struct bed *bed = *state;
	uint32_t in = 0;

	while (put(bed, in, 4124))
		in++;
	bed->readers->datagrams[WRITER].released = bed->writer.head + VB_RECORD_ALIGN;
	assert_false(put(bed, in, 4124));
	bed->readers->datagrams[WRITER].released = bed->writer.head - 1;
	assert_false(put(bed, in, 4124));
	for (unsigned i = 0; i < 3; i++)
		vb_datagram_sent_by_wire(&bed->writer);
	bed->readers->datagrams[WRITER].released = bed->writer.head;
	assert_true(put(bed, in, 4124));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_put_in_comes_out, make, unmake),
		cmocka_unit_test_setup_teardown(a_full_ring_takes_nothing, make, unmake),
		cmocka_unit_test_setup_teardown(a_detour_lasts_until_the_ring_is_empty, make, unmake),
		cmocka_unit_test_setup_teardown(what_went_by_wire_is_taken_first, make, unmake),
		cmocka_unit_test_setup_teardown(who_is_not_attended_to_knows_it, make, unmake),
		cmocka_unit_test_setup_teardown(another_process_gets_an_empty_ring, make, unmake),
		cmocka_unit_test_setup_teardown(a_datagram_that_was_not_finished_is_none, make, unmake),
		cmocka_unit_test_setup_teardown(nonsense_is_not_followed, make, unmake),
		cmocka_unit_test_setup_teardown(the_end_of_the_ring_is_the_end, make, unmake),
		cmocka_unit_test_setup_teardown(room_that_cannot_be_is_none, make, unmake),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
