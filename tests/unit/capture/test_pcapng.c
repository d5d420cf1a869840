/* SPDX-License-Identifier: MIT
 *
 * The file format: what is written is read back; a file cut at any byte, or with any byte changed, is read to a fault
 * or to an end, and never past its bounds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "capture/buffer.h"
#include "capture/frame.h"
#include "capture/pcapng.h"

#define CLOCK INT64_C(1700000000123456789)

static void fill(struct vb_capture_buffer *buffer)
{
	struct vb_capture_record record = {.kind = VB_CAPTURE_POST_SEND, .time = CLOCK, .pid = 42, .wr_id = 7, .text = "name"};

	vb_pcapng_begin(buffer, CLOCK);
	vb_pcapng_record(buffer, &record);
	record.kind = VB_CAPTURE_PACKET;
	vb_pcapng_record(buffer, &record);
	vb_pcapng_packet(buffer, 0, CLOCK + 1, VB_CAPTURE_SENT, (const uint8_t *)"head", 4, (const uint8_t *)"remainder", 9,
			 "a comment");
	vb_pcapng_packet(buffer, 0, CLOCK + 2, VB_CAPTURE_RECEIVED, (const uint8_t *)"x", 1, NULL, 0, NULL);
}

static void test_round_trip(void **state)
{
	struct vb_capture_buffer buffer = {0};
	struct vb_pcapng_reader reader;
	struct vb_pcapng_item item;
	int64_t clock = 0;

	(void)state;
	fill(&buffer);
	assert_false(buffer.failed);
	assert_int_equal(buffer.used % 4, 0);
	assert_true(vb_pcapng_is_ours(buffer.bytes, buffer.used, &clock));
	assert_true(clock == CLOCK);
	vb_pcapng_read(&reader, buffer.bytes, buffer.used);
	assert_int_equal(vb_pcapng_next(&reader, &item), VB_PCAPNG_RECORD);
	assert_int_equal(item.record.kind, VB_CAPTURE_POST_SEND);
	assert_int_equal(item.record.wr_id, 7);
	assert_string_equal(item.record.text, "name");
	assert_int_equal(vb_pcapng_next(&reader, &item), VB_PCAPNG_RECORD);
	assert_int_equal(vb_pcapng_next(&reader, &item), VB_PCAPNG_PACKET);
	assert_true(item.time == CLOCK + 1);
	assert_int_equal(item.link_type, VB_FRAME_RAW);
	assert_int_equal(item.length, 13);
	assert_memory_equal(item.frame, "headremainder", 13);
	assert_false(item.cut);
	assert_int_equal(vb_pcapng_next(&reader, &item), VB_PCAPNG_PACKET);
	assert_int_equal(item.length, 1);
	assert_int_equal(vb_pcapng_next(&reader, &item), VB_PCAPNG_END);
	vb_capture_buffer_free(&buffer);
}

/* Reads everything; returns how it ended. */
static enum vb_pcapng_item_kind read_all(const uint8_t *bytes, size_t length, const char **fault)
{
	/* A copy of exactly that length, so that a sanitizer sees a step beyond. */
	uint8_t *copy = malloc(length ? length : 1);
	struct vb_pcapng_reader reader;
	struct vb_pcapng_item item;
	enum vb_pcapng_item_kind kind;
	volatile uint8_t last;
	int64_t clock;

	memcpy(copy, bytes, length);
	(void)vb_pcapng_is_ours(copy, length, &clock);
	vb_pcapng_read(&reader, copy, length);
	while ((kind = vb_pcapng_next(&reader, &item)) == VB_PCAPNG_PACKET || kind == VB_PCAPNG_RECORD)
		if (kind == VB_PCAPNG_PACKET && item.length > 0)
			last = item.frame[item.length - 1];
	(void)last;
	*fault = reader.fault;
	free(copy);
	return kind;
}

static void test_cut(void **state)
{
	struct vb_capture_buffer buffer = {0};
	const char *fault;
	unsigned ends = 0;

	(void)state;
	fill(&buffer);
	for (size_t length = 0; length <= buffer.used; length++) {
		enum vb_pcapng_item_kind kind = read_all(buffer.bytes, length, &fault);

		ends += kind == VB_PCAPNG_END;
		if (kind == VB_PCAPNG_FAULT)
			assert_non_null(fault);
	}
	assert_int_equal(ends, 6); /* only where a block ends: section, interface, two records, two packets */
	vb_capture_buffer_free(&buffer);
}

static void test_damaged(void **state)
{
	struct vb_capture_buffer buffer = {0};
	const char *fault;
	unsigned faults = 0;

	(void)state;
	fill(&buffer);
	for (size_t at = 0; at < buffer.used; at++)
		for (unsigned bit = 0; bit < 8; bit++) {
			buffer.bytes[at] ^= (uint8_t)(1u << bit);
			faults += read_all(buffer.bytes, buffer.used, &fault) == VB_PCAPNG_FAULT;
			buffer.bytes[at] ^= (uint8_t)(1u << bit);
		}
	assert_true(faults > 100);
	vb_capture_buffer_free(&buffer);
}

static void test_strangers(void **state)
{
	static const uint8_t text[] = "This is no capture at all, is it?";
	const char *fault;

	(void)state;
	assert_int_equal(read_all(text, sizeof(text), &fault), VB_PCAPNG_FAULT);
	assert_string_equal(fault, "it is neither a pcapng nor a pcap file");
	assert_int_equal(read_all(text, 0, &fault), VB_PCAPNG_FAULT);
	assert_string_equal(fault, "it is empty");
}

/* The other byte order, microseconds: as a big-endian machine's dumpcap writes. */
static void test_other_order(void **state)
{
	static const uint8_t file[] = {
		0x0a, 0x0d, 0x0d, 0x0a, 0, 0, 0, 28, 0x1a, 0x2b, 0x3c, 0x4d, 0, 1, 0, 0,
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 28,
		0, 0, 0, 1, 0, 0, 0, 20, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 20,
		0, 0, 0, 6, 0, 0, 0, 36, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 2, 0, 0, 0, 9, 'a', 'b', 0, 0,
		0, 0, 0, 36,
	};
	struct vb_pcapng_reader reader;
	struct vb_pcapng_item item;

	(void)state;
	vb_pcapng_read(&reader, file, sizeof(file));
	assert_int_equal(vb_pcapng_next(&reader, &item), VB_PCAPNG_PACKET);
	assert_int_equal(item.time, 5000);
	assert_int_equal(item.link_type, VB_FRAME_ETHERNET);
	assert_int_equal(item.length, 2);
	assert_true(item.cut);
	assert_int_equal(vb_pcapng_next(&reader, &item), VB_PCAPNG_END);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip), cmocka_unit_test(test_cut), cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_strangers), cmocka_unit_test(test_other_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
