/* SPDX-License-Identifier: MIT
 *
 * The older file format: both byte orders and resolutions; a file cut at any byte, or with any byte changed, is read to
 * a fault or to an end, and never past its bounds. And all link types of tcpdump lead to the same story.
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
#include "capture/pcap.h"
#include "capture/story.h"

enum { SECONDS = 1700000000, FRACTION = 123456, DATAGRAM = 36 };

/* How this file is written. */
static bool other_order, nanoseconds;

static void put_32(struct vb_capture_buffer *file, uint32_t v)
{
	v = other_order ? __builtin_bswap32(v) : v;
	vb_capture_buffer_add(file, &v, sizeof(v));
}

static void begin(struct vb_capture_buffer *file, uint32_t link_type)
{
	uint16_t version[2] = {2, 4};

	if (other_order) {
		version[0] = __builtin_bswap16(version[0]);
		version[1] = __builtin_bswap16(version[1]);
	}
	put_32(file, nanoseconds ? 0xa1b23c4d : 0xa1b2c3d4);
	vb_capture_buffer_add(file, version, sizeof(version));
	put_32(file, 0);
	put_32(file, 0);
	put_32(file, 262144);
	put_32(file, link_type);
}

static void add(struct vb_capture_buffer *file, const uint8_t *bytes, size_t kept, size_t full)
{
	put_32(file, SECONDS);
	put_32(file, FRACTION);
	put_32(file, (uint32_t)kept);
	put_32(file, (uint32_t)full);
	vb_capture_buffer_add(file, bytes, kept);
}

static void test_both_orders(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		struct vb_capture_buffer file = {0};
		struct vb_pcap_reader reader;
		struct vb_pcapng_item item;

		other_order = i & 1;
		nanoseconds = i & 2;
		begin(&file, 0x10000000 | VB_FRAME_COOKED); /* upper bits say something else */
		add(&file, (const uint8_t *)"abc", 3, 3);
		add(&file, (const uint8_t *)"d", 1, 9);
		assert_true(vb_pcap_is_one(file.bytes, file.used));
		vb_pcap_read(&reader, file.bytes, file.used);
		assert_int_equal(vb_pcap_next(&reader, &item), VB_PCAPNG_PACKET);
		assert_true(item.time == SECONDS * INT64_C(1000000000) + FRACTION * (nanoseconds ? 1 : 1000));
		assert_int_equal(item.link_type, VB_FRAME_COOKED);
		assert_int_equal(item.length, 3);
		assert_memory_equal(item.frame, "abc", 3);
		assert_false(item.cut);
		assert_int_equal(vb_pcap_next(&reader, &item), VB_PCAPNG_PACKET);
		assert_true(item.cut);
		assert_int_equal(vb_pcap_next(&reader, &item), VB_PCAPNG_END);
		vb_capture_buffer_free(&file);
	}
	other_order = nanoseconds = false;
}

/* Reads everything; returns how it ended. */
static enum vb_pcapng_item_kind read_all(const uint8_t *bytes, size_t length, const char **fault)
{
	/* A copy of exactly that length, so that a sanitizer sees a step beyond. */
	uint8_t *copy = malloc(length ? length : 1);
	struct vb_pcap_reader reader;
	struct vb_pcapng_item item;
	enum vb_pcapng_item_kind kind;
	volatile uint8_t last;

	memcpy(copy, bytes, length);
	vb_pcap_read(&reader, copy, length);
	while ((kind = vb_pcap_next(&reader, &item)) == VB_PCAPNG_PACKET)
		if (item.length > 0)
			last = item.frame[item.length - 1];
	(void)last;
	*fault = reader.fault;
	free(copy);
	return kind;
}

static void test_cut_and_damaged(void **state)
{
	struct vb_capture_buffer file = {0};
	const char *fault;
	unsigned ends = 0, faults = 0;

	(void)state;
	begin(&file, VB_FRAME_ETHERNET);
	add(&file, (const uint8_t *)"abc", 3, 3);
	add(&file, (const uint8_t *)"defg", 4, 4);
	for (size_t length = 0; length <= file.used; length++) {
		enum vb_pcapng_item_kind kind = read_all(file.bytes, length, &fault);

		ends += kind == VB_PCAPNG_END;
		if (kind == VB_PCAPNG_FAULT)
			assert_non_null(fault);
	}
	assert_int_equal(ends, 3); /* after the header and after each packet */
	for (size_t at = 0; at < file.used; at++)
		for (unsigned bit = 0; bit < 8; bit++) {
			file.bytes[at] ^= (uint8_t)(1u << bit);
			faults += read_all(file.bytes, file.used, &fault) == VB_PCAPNG_FAULT;
			file.bytes[at] ^= (uint8_t)(1u << bit);
		}
	assert_true(faults > 50);
	vb_capture_buffer_free(&file);
}

/* Link headers as Linux writes them, before an IPv4 packet. */
static const struct {
	uint32_t type;
	size_t length;
	uint8_t bytes[24];
} links[] = {
	{VB_FRAME_ETHERNET, 14, {[12] = 0x08, 0x00}},
	{VB_FRAME_ETHERNET, 18, {[12] = 0x81, 0x00, 0, 7, 0x08, 0x00}},
	{VB_FRAME_ETHERNET, 22, {[12] = 0x88, 0xa8, 0, 7, 0x81, 0x00, 0, 8, 0x08, 0x00}},
	{VB_FRAME_RAW, 0, {0}},
	{VB_FRAME_RAW_OLD, 0, {0}},
	{VB_FRAME_IPV4, 0, {0}},
	{VB_FRAME_COOKED, 16, {0, 4, 3, 4, 0, 6, [14] = 0x08, 0x00}},
	{VB_FRAME_COOKED_2, 20, {0x08, 0x00, 0, 0, 0, 0, 0, 1, 3, 4, 4, 6}},
};

static void test_link_types(void **state)
{
	struct vb_path path = {.source_port = 0xc000, .hop_limit = 64};
	uint8_t datagram[DATAGRAM] = {0x04, 0, 0xff, 0xff, 0, 0, 0, 2}, frame[24 + VB_FRAME_HEADERS + DATAGRAM];

	(void)state;
	path.source[10] = path.source[11] = path.destination[10] = path.destination[11] = 0xff;
	path.source[12] = path.destination[12] = 10;
	for (unsigned i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
		struct vb_capture_buffer file = {0};
		struct vb_story story;
		size_t length = links[i].length;
		char why[128];

		memcpy(frame, links[i].bytes, length);
		length += vb_frame_headers(frame + length, &path, 0, datagram, sizeof(datagram));
		memcpy(frame + length, datagram, sizeof(datagram));
		length += sizeof(datagram);
		begin(&file, links[i].type);
		add(&file, frame, length, length);
		/* Cut anywhere it is none of ours, but no reason to stop. */
		for (size_t cut = 0; cut < length; cut++)
			add(&file, frame, cut, cut);
		assert_int_equal(vb_story_read(&story, file.bytes, file.used, why, sizeof(why)), 0);
		assert_int_equal(story.packets, 1);
		assert_int_equal(story.foreign, length);
		assert_true(story.packet[0].is_decoded);
		assert_int_equal(story.packet[0].packet.destination_qpn, 2);
		assert_true(vb_story_time(&story.packet[0]) == SECONDS * INT64_C(1000000000) + FRACTION * 1000);
		vb_story_free(&story);
	}
}

enum { LEFT = 1, RIGHT = 2, SEND_ONLY = 0x04, ACKNOWLEDGE = 0x11, CNP = 0x81 };

static void add_packet(struct vb_capture_buffer *file, unsigned from, uint8_t opcode, uint32_t qpn, uint32_t psn)
{
	struct vb_path path = {.source_port = 0xc000, .hop_limit = 64};
	uint8_t datagram[DATAGRAM] = {opcode, 0, 0xff, 0xff, 0, 0, (uint8_t)(qpn >> 8), (uint8_t)qpn,
				      0, 0, (uint8_t)(psn >> 8), (uint8_t)psn};
	uint8_t frame[VB_FRAME_HEADERS + DATAGRAM];
	size_t length = opcode == ACKNOWLEDGE ? 20 : opcode == CNP ? 32 : DATAGRAM, header;

	path.source[10] = path.source[11] = path.destination[10] = path.destination[11] = 0xff;
	path.source[12] = path.destination[12] = 10;
	path.source[15] = (uint8_t)from;
	path.destination[15] = (uint8_t)(LEFT + RIGHT - from);
	header = vb_frame_headers(frame, &path, 0, datagram, length);
	memcpy(frame + header, datagram, length);
	add(file, frame, header + length, header + length);
}

/* Packets of connected queue pairs name their receiver only; answers tell who is connected to whom. */
static void test_peers(void **state)
{
	static const struct {
		unsigned from;
		uint8_t opcode;
		uint32_t qpn, psn, sender;
	} packets[] = {
		{LEFT, SEND_ONLY, 0x22, 100, 0x11}, {LEFT, SEND_ONLY, 0x44, 300, 0x33}, {RIGHT, CNP, 0x11, 0, 0x22},
		{RIGHT, ACKNOWLEDGE, 0x33, 300, 0x44}, {RIGHT, ACKNOWLEDGE, 0x11, 100, 0x22}, {RIGHT, SEND_ONLY, 0x11, 700, 0x22},
		{LEFT, ACKNOWLEDGE, 0x22, 700, 0x11},
		{RIGHT, SEND_ONLY, 0x55, 100, 0},      /* never answered */
		{LEFT, ACKNOWLEDGE, 0x66, 900, 0},     /* what it answers is not in the capture */
	};
	struct vb_capture_buffer file = {0};
	struct vb_story story;
	char why[128];

	(void)state;
	begin(&file, VB_FRAME_RAW);
	for (unsigned i = 0; i < sizeof(packets) / sizeof(packets[0]); i++)
		add_packet(&file, packets[i].from, packets[i].opcode, packets[i].qpn, packets[i].psn);
	assert_int_equal(vb_story_read(&story, file.bytes, file.used, why, sizeof(why)), 0);
	assert_int_equal(story.packets, sizeof(packets) / sizeof(packets[0]));
	for (unsigned i = 0; i < sizeof(packets) / sizeof(packets[0]); i++) {
		assert_true(story.packet[i].is_decoded);
		assert_int_equal(story.packet[i].note.peer_qpn, packets[i].qpn);
		assert_int_equal(story.packet[i].note.qpn, packets[i].sender);
	}
	vb_story_free(&story);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_both_orders), cmocka_unit_test(test_cut_and_damaged), cmocka_unit_test(test_link_types),
		cmocka_unit_test(test_peers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
