/* SPDX-License-Identifier: MIT
 *
 * TCP streams in captures: segments of two writers become one stream, however each cut it; what was sent again, came in another order, or
 * belongs to something else; MPA frames and FPDUs are found in it; and siw's captures, as tcpdump wrote them, are drawn.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/crc32c.h"
#include "capture/buffer.h"
#include "capture/frame.h"
#include "capture/ladder.h"
#include "capture/pcapng.h"
#include "capture/story.h"
#include "wire/ddp.h"
#include "wire/fpdu.h"
#include "wire/mpa_frame.h"
#include "wire/rdmap_opcode.h"

enum { ALICE = 100, BOB = 200, ALICES_QP = 0x4001, BOBS_QP = 0x8002, ALICES_PORT = 40000, BOBS_PORT = 7174, ROOM = 4096 };

static const char *folder;
static struct vb_capture_buffer file;

/* ---- making streams up ---- */

struct stream {
	uint8_t bytes[ROOM];
	size_t length;
};

static int begin(void **state)
{
	(void)state;
	memset(&file, 0, sizeof(file));
	vb_pcapng_begin(&file, 0);
	return 0;
}

static void put_frame(struct stream *stream, enum vb_mpa_kind kind, bool crc)
{
	struct vb_mpa_frame frame = {.kind = kind, .revision = 2, .enhanced = true, .crc = crc, .ird = 3, .ord = 5};

	stream->length += vb_mpa_frame_encode(&frame, stream->bytes + stream->length);
}

static void put_send(struct stream *stream, uint32_t msn, size_t payload, bool last)
{
	struct vb_ddp_header header = vb_ddp_header_of(VB_RDMAP_SEND, last);
	uint8_t *at = stream->bytes + stream->length;
	size_t ulpdu;

	header.msn = msn;
	ulpdu = vb_ddp_encode(&header, at + VB_FPDU_LENGTH_FIELD) + payload;
	memset(at + VB_FPDU_LENGTH_FIELD + ulpdu - payload, 'x', payload);
	vb_fpdu_put_length(at, (uint32_t)ulpdu);
	vb_fpdu_put_trailer(at + VB_FPDU_LENGTH_FIELD + ulpdu, (uint32_t)ulpdu, vb_crc32c(0, at, VB_FPDU_LENGTH_FIELD + ulpdu), true);
	stream->length += vb_fpdu_length((uint32_t)ulpdu);
	assert_true(stream->length <= ROOM);
}

/* A part of the stream from Alice to Bob, or back, as one of them saw it; pid 0: as tcpdump did. */
static void add(uint32_t pid, bool from_alice, const struct stream *stream, size_t at, size_t length, uint8_t flags, int64_t time)
{
	bool sent = pid == 0 || (pid == ALICE) == from_alice;
	struct vb_capture_record record = {
		.kind = VB_CAPTURE_PACKET,
		.flags = sent ? VB_CAPTURE_SENT : VB_CAPTURE_RECEIVED,
		.time = sent ? time : 0,
		.received = sent ? 0 : time,
		.pid = sent ? pid : 0,
		.receiver = sent ? 0 : pid,
		.qpn = sent ? (pid == ALICE ? ALICES_QP : BOBS_QP) : 0,
		.peer_qpn = sent ? 0 : (pid == ALICE ? ALICES_QP : BOBS_QP),
	};
	struct vb_frame_tcp segment = {
		.path = {.source = {[10] = 0xff, 0xff, 10, 0, 0, from_alice ? 1 : 2},
			 .destination = {[10] = 0xff, 0xff, 10, 0, 0, from_alice ? 2 : 1},
			 .source_port = from_alice ? ALICES_PORT : BOBS_PORT},
		.destination_port = from_alice ? BOBS_PORT : ALICES_PORT,
		.sequence = flags & VB_FRAME_TCP_SYN ? 0 : 1 + (uint32_t)at,
		.flags = flags,
	};
	uint8_t headers[VB_FRAME_TCP_HEADERS];
	size_t header_length = vb_frame_tcp_headers(headers, &segment, stream->bytes + at, length);

	if (pid != 0)
		vb_pcapng_record(&file, &record);
	vb_pcapng_packet(&file, 0, time, record.flags, headers, header_length, stream->bytes + at, length, NULL);
}

static void read_story(struct vb_story *story)
{
	char why[128];

	assert_int_equal(vb_story_read(story, file.bytes, file.used, why, sizeof(why)), 0);
}

static struct vb_ladder draw(const struct vb_story *story)
{
	const struct vb_ladder_options options = {.most = 100};
	struct vb_ladder ladder;

	assert_int_equal(vb_ladder_build(&ladder, story, &options), 0);
	return ladder;
}

static void expect(const struct vb_ladder *ladder, size_t item, const char *label)
{
	assert_true(item < ladder->items);
	assert_string_equal(ladder->item[item].label, label);
}

/* ---- tests ---- */

/* Bob reads in pieces of seven bytes what Alice sent FPDU by FPDU: an FPDU has arrived when its last byte has. */
static void test_two_writers(void **state)
{
	struct stream there = {.length = 0}, back = {.length = 0};
	size_t frame, first;
	struct vb_story story;
	struct vb_ladder ladder;

	(void)state;
	put_frame(&there, VB_MPA_REQUEST, true);
	frame = there.length;
	put_send(&there, 1, 10, true);
	first = there.length;
	put_send(&there, 2, 50, true);
	put_frame(&back, VB_MPA_REPLY, false);
	add(ALICE, true, &there, 0, 0, VB_FRAME_TCP_SYN, 1000);
	add(ALICE, true, &there, 0, frame, 0, 2000);
	add(ALICE, false, &back, 0, back.length, 0, 9000);
	add(ALICE, true, &there, frame, first - frame, 0, 10000);
	add(ALICE, true, &there, first, there.length - first, 0, 10100);
	add(ALICE, true, &there, there.length, 0, VB_FRAME_TCP_FIN, 90000);
	add(BOB, true, &there, 0, 0, VB_FRAME_TCP_SYN, 3000);
	add(BOB, true, &there, 0, frame, 0, 3000);
	add(BOB, false, &back, 0, back.length, 0, 5000);
	for (size_t at = frame; at < there.length; at += 7)
		add(BOB, true, &there, at, there.length - at < 7 ? there.length - at : 7, 0, 20000 + (int64_t)at);
	add(BOB, true, &there, there.length, 0, VB_FRAME_TCP_FIN, 95000);
	read_story(&story);
	/* Bob's halves are gone, his reply is his own. */
	assert_int_equal(story.packets, 6);
	for (size_t i = 0; i < story.packets; i++) {
		assert_int_equal(story.packet[i].note.flags, VB_CAPTURE_SENT | VB_CAPTURE_RECEIVED);
		assert_int_equal(story.packet[i].note.qpn + story.packet[i].note.peer_qpn, ALICES_QP + BOBS_QP);
	}
	ladder = draw(&story);
	assert_int_equal(ladder.lanes, 2);
	assert_int_equal(ladder.items, 5);
	expect(&ladder, 0, "MPA request, IRD 3, ORD 5, CRC");
	expect(&ladder, 1, "MPA reply, IRD 3, ORD 5");
	expect(&ladder, 2, "SEND MSN 1, 10 B");
	expect(&ladder, 3, "SEND MSN 2, 50 B");
	expect(&ladder, 4, "TCP FIN");
	assert_int_equal(ladder.item[1].from, ladder.item[0].to);
	assert_true(ladder.item[2].arrival >= 20000 + (int64_t)first - 7);
	assert_true(ladder.item[2].arrival < 20000 + (int64_t)first + 7);
	vb_ladder_free(&ladder);
	vb_story_free(&story);
}

/* Put in order and read again, nothing more is joined or lost. */
static void test_saved_twice(void **state)
{
	struct stream there = {.length = 0};
	struct vb_capture_buffer saved = {0};
	struct vb_story story, again;
	char why[128];

	(void)state;
	put_frame(&there, VB_MPA_REQUEST, false);
	put_send(&there, 1, 10, true);
	add(ALICE, true, &there, 0, there.length, 0, 1000);
	/* Bob's capture ended before all of it had come. */
	add(BOB, true, &there, 0, there.length - 5, 0, 2000);
	read_story(&story);
	assert_int_equal(story.packets, 1);
	assert_int_equal(vb_story_encode(&story, &saved), 0);
	assert_int_equal(vb_story_read(&again, saved.bytes, saved.used, why, sizeof(why)), 0);
	assert_int_equal(again.packets, 1);
	assert_int_equal(again.packet[0].length, there.length);
	assert_int_equal(again.packet[0].note.flags, VB_CAPTURE_SENT);
	vb_story_free(&again);
	vb_story_free(&story);
}

/* tcpdump: a segment comes twice, two in the wrong order, one overlaps; another connection of other people is left out. */
static void test_somebody_elses(void **state)
{
	struct stream there = {.length = 0}, other = {.length = 40, .bytes = "GET / HTTP/1.1"};
	struct vb_story story;
	struct vb_ladder ladder;

	(void)state;
	put_frame(&there, VB_MPA_REQUEST, false);
	for (uint32_t msn = 1; msn <= 4; msn++)
		put_send(&there, msn, 30, msn % 2 == 0);
	add(0, true, &there, 0, 0, VB_FRAME_TCP_SYN, 1000);
	add(0, true, &there, 0, 24, 0, 2000);
	add(0, true, &there, 0, 24, 0, 3000);
	add(0, true, &there, 60, there.length - 60, 0, 4000);
	add(0, true, &there, 24, 60, 0, 5000);
	read_story(&story);
	ladder = draw(&story);
	assert_int_equal(ladder.items, 5);
	expect(&ladder, 0, "MPA request, IRD 3, ORD 5");
	expect(&ladder, 1, "SEND MSN 3, 30 B, more to come");
	expect(&ladder, 2, "SEND MSN 4, 30 B");
	expect(&ladder, 3, "SEND MSN 1, 30 B, more to come");
	vb_ladder_free(&ladder);
	vb_story_free(&story);
	begin(NULL);
	add(0, true, &other, 0, 0, VB_FRAME_TCP_SYN, 1000);
	add(0, true, &other, 0, other.length, 0, 2000);
	read_story(&story);
	assert_int_equal(story.packets, 0);
	assert_int_equal(story.segments, 0);
	assert_int_equal(story.foreign, 2);
	vb_story_free(&story);
}

/* The same addresses and ports again: a connection of its own. */
static void test_ports_used_again(void **state)
{
	struct stream there = {.length = 0};
	struct vb_story story;
	struct vb_ladder ladder;

	(void)state;
	put_frame(&there, VB_MPA_REQUEST, false);
	put_send(&there, 1, 8, true);
	for (int64_t i = 0; i < 3; i++) {
		add(ALICE, true, &there, 0, 0, VB_FRAME_TCP_SYN, i * 100000 + 1000);
		add(ALICE, true, &there, 0, there.length, 0, i * 100000 + 2000);
		add(BOB, true, &there, 0, 0, VB_FRAME_TCP_SYN, i * 100000 + 3000);
		add(BOB, true, &there, 0, there.length, 0, i * 100000 + 4000);
		add(ALICE, true, &there, there.length, 0, VB_FRAME_TCP_RST, i * 100000 + 5000);
	}
	read_story(&story);
	ladder = draw(&story);
	assert_int_equal(ladder.items, 9);
	for (size_t i = 0; i < 3; i++) {
		expect(&ladder, 3 * i, "MPA request, IRD 3, ORD 5");
		expect(&ladder, 3 * i + 1, "SEND MSN 1, 8 B");
		expect(&ladder, 3 * i + 2, "TCP RST");
		assert_int_equal(ladder.item[3 * i + 1].arrival, (int64_t)i * 100000 + 4000);
	}
	vb_ladder_free(&ladder);
	vb_story_free(&story);
}

static void test_damaged(void **state)
{
	struct stream there = {.length = 0};
	struct vb_story story;
	struct vb_ladder ladder;

	(void)state;
	put_frame(&there, VB_MPA_REQUEST, true);
	put_send(&there, 1, 8, true);
	there.bytes[there.length - 10] ^= 1;
	put_send(&there, 2, 8, true);
	add(0, true, &there, 0, there.length, 0, 1000);
	read_story(&story);
	ladder = draw(&story);
	expect(&ladder, 1, "SEND MSN 1, 8 B (damaged)");
	expect(&ladder, 2, "SEND MSN 2, 8 B");
	vb_ladder_free(&ladder);
	vb_story_free(&story);
}

/* ---- siw ---- */

static struct vb_ladder draw_siw(struct vb_story *story, const char *name)
{
	char path[4096], why[128] = "";

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	if (vb_story_load(story, path, why, sizeof(why)) != 0)
		fail_msg("%s: %s", path, why);
	return draw(story);
}

static void test_siw_refuses(void **state)
{
	static const char *const labels[] = {
		"MPA request, IRD 4, ORD 4", "MPA reply, IRD 4, ORD 4", "READ_REQUEST MSN 1, for 64 B", "TERMINATE 0/1/00: invalid STag",
		"TCP FIN", "TCP FIN",
	};
	struct vb_story story;
	struct vb_ladder ladder = draw_siw(&story, "siw-op-badkeyr.pcap");

	(void)state;
	assert_int_equal(ladder.items, sizeof(labels) / sizeof(labels[0]));
	for (size_t i = 0; i < ladder.items; i++)
		expect(&ladder, i, labels[i]);
	assert_int_equal(ladder.item[3].style, VB_LADDER_NAK);
	vb_ladder_free(&ladder);
	vb_story_free(&story);
}

static void test_siw_rping(void **state)
{
	static const char *const labels[] = {
		"MPA request, IRD 1, ORD 1", "MPA reply, IRD 1, ORD 1", "SEND MSN 1, 16 B", "READ_REQUEST MSN 1, for 64 B",
		"READ_RESPONSE 64 B", "SEND MSN 1, 16 B", "SEND MSN 2, 16 B", "WRITE 64 B", "SEND MSN 2, 16 B",
	};
	static const unsigned from[] = {0, 1, 0, 1, 0, 1, 0, 1, 1};
	struct vb_story story;
	struct vb_ladder ladder = draw_siw(&story, "siw-rping.pcap");

	(void)state;
	for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++) {
		expect(&ladder, i, labels[i]);
		assert_int_equal(ladder.item[i].from, from[i]);
	}
	vb_ladder_free(&ladder);
	vb_story_free(&story);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_two_writers, begin), cmocka_unit_test_setup(test_saved_twice, begin),
		cmocka_unit_test_setup(test_somebody_elses, begin), cmocka_unit_test_setup(test_ports_used_again, begin),
		cmocka_unit_test_setup(test_damaged, begin), cmocka_unit_test(test_siw_refuses), cmocka_unit_test(test_siw_rping),
	};

	folder = argc > 1 ? argv[1] : ".";
	return cmocka_run_group_tests(tests, NULL, NULL);
}
