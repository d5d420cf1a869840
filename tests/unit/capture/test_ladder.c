/* SPDX-License-Identifier: MIT
 *
 * Ladders: the parties, what was lost and sent again, folding, escaping, order of places. Stories are made up here.
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
#include "capture/ladder.h"
#include "capture/pcapng.h"
#include "capture/story.h"
#include "wire/icrc.h"

enum { ALICE = 100, BOB = 200, ALICES_QP = 0x4001, BOBS_QP = 0x8002 };
enum { SEND_FIRST = 0x00, SEND_MIDDLE = 0x01, SEND_LAST = 0x02, SEND_ONLY = 0x04, ACKNOWLEDGE = 0x11 };

static struct vb_capture_buffer file;
static uint8_t reserved_bits;            /* of the BTHs */

static int begin(void **state)
{
	(void)state;
	memset(&file, 0, sizeof(file));
	vb_pcapng_begin(&file, 0);
	return 0;
}

static void add_process(uint32_t pid, const char *name, uint32_t slot)
{
	struct vb_capture_record record = {.kind = VB_CAPTURE_PROCESS, .time = 1, .pid = pid, .slot = slot};

	snprintf(record.text, sizeof(record.text), "%s", name);
	vb_pcapng_record(&file, &record);
}

static void add_work(uint32_t kind, uint32_t pid, int64_t time, uint64_t wr_id, uint32_t status)
{
	struct vb_capture_record record = {
		.kind = kind, .flags = VB_CAPTURE_HAS_WR_ID, .time = time, .pid = pid, .wr_id = wr_id, .status = status,
		.opcode = kind == VB_CAPTURE_POST_SEND ? 2 /* IBV_WR_SEND */ : 0,
		.qpn = pid == ALICE ? ALICES_QP : BOBS_QP, .length = 64,
	};

	vb_pcapng_record(&file, &record);
}

/* received 0: nobody received it. */
static void add_packet(uint32_t pid, uint8_t opcode, uint32_t psn, int64_t sent, int64_t received, uint32_t flags,
		       uint8_t syndrome)
{
	struct vb_path path = {.source_port = 0xc000, .hop_limit = 64};
	bool from_alice = pid == ALICE;
	uint32_t to = from_alice ? BOBS_QP : ALICES_QP;
	struct vb_capture_record record = {
		.kind = VB_CAPTURE_PACKET, .flags = VB_CAPTURE_SENT | flags | (received ? VB_CAPTURE_RECEIVED : 0), .time = sent,
		.received = received, .pid = pid, .receiver = received ? (from_alice ? BOB : ALICE) : 0,
		.qpn = from_alice ? ALICES_QP : BOBS_QP, .peer_qpn = to,
	};
	uint8_t datagram[64] = {opcode, 0, 0xff, 0xff, 0, (uint8_t)(to >> 16), (uint8_t)(to >> 8), (uint8_t)to, reserved_bits,
				(uint8_t)(psn >> 16), (uint8_t)(psn >> 8), (uint8_t)psn, syndrome, 0, 0, 1};
	uint8_t headers[VB_FRAME_HEADERS];
	size_t length = opcode == ACKNOWLEDGE ? 20 : 36, header_length;

	path.source[10] = path.source[11] = path.destination[10] = path.destination[11] = 0xff;
	path.source[12] = path.destination[12] = 10;
	path.source[15] = from_alice ? 1 : 2;
	path.destination[15] = from_alice ? 2 : 1;
	header_length = vb_frame_headers(headers, &path, 0, datagram, length);
	vb_pcapng_record(&file, &record);
	vb_pcapng_packet(&file, 0, sent, record.flags, headers, header_length, datagram, length, NULL);
}

static struct vb_ladder build(struct vb_story *story, const struct vb_ladder_options *options)
{
	struct vb_ladder ladder;
	char why[128];

	assert_int_equal(vb_story_read(story, file.bytes, file.used, why, sizeof(why)), 0);
	assert_int_equal(vb_ladder_build(&ladder, story, options), 0);
	return ladder;
}

static const struct vb_ladder_item *find(const struct vb_ladder *ladder, const char *text)
{
	for (size_t i = 0; i < ladder->items; i++)
		if (strstr(ladder->item[i].label, text))
			return &ladder->item[i];
	fail_msg("nothing says `%s`", text);
	return NULL;
}

/* Not in line: gcc 12 for x86-64 then takes what the stream wrote to `text` for a pointer to `text`. */
__attribute__((noinline)) static char *draw(const struct vb_ladder *ladder, void (*how)(const struct vb_ladder *, FILE *))
{
	char *text;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	how(ladder, out);
	fclose(out);
	return text;
}

/* Between two of ours an answer acknowledges what it answers (roce/piggyback.c). */
static void test_piggyback(void **state)
{
	const struct vb_ladder_options options = {.most = 100};
	struct vb_story story;
	struct vb_ladder ladder;

	(void)state;
	add_process(ALICE, "alice", 1);
	add_process(BOB, "bob", 2);
	add_packet(ALICE, SEND_ONLY, 5, 2000, 3000, 0, 0);
	reserved_bits = 0x5a;
	add_packet(BOB, SEND_ONLY, 9, 4000, 5000, 0, 0x1f);
	reserved_bits = 0;
	ladder = build(&story, &options);
	assert_int_equal(ladder.items, 2);
	assert_non_null(find(&ladder, "SEND_ONLY PSN 0, 20 B"));
	assert_int_equal(find(&ladder, "SEND_ONLY PSN 0, 12 B, with an ACK")->style, VB_LADDER_REQUEST);
	assert_non_null(strstr(ladder.item[1].detail, "acknowledges PSN 0x000000"));
	assert_null(strstr(ladder.item[0].detail, "acknowledges"));
	vb_ladder_free(&ladder);
	vb_story_free(&story);
}

static void test_loss(void **state)
{
	const struct vb_ladder_options options = {.most = 100, .title = "a < b & \"c\""};
	struct vb_story story;
	struct vb_ladder ladder;
	char *svg;

	(void)state;
	add_process(ALICE, "alice<script>", 1);
	add_process(BOB, "bob", 2);
	add_work(VB_CAPTURE_POST_SEND, ALICE, 1000, 77, 0);
	add_packet(ALICE, SEND_FIRST, 0xfffffe, 2000, 12000, 0, 0);
	add_packet(ALICE, SEND_MIDDLE, 0xffffff, 3000, 0, VB_CAPTURE_DROPPED, 0);
	add_packet(ALICE, SEND_LAST, 0x000000, 4000, 13000, 0, 0);
	add_packet(BOB, ACKNOWLEDGE, 0xffffff, 14000, 20000, 0, 0x60);
	add_packet(ALICE, SEND_MIDDLE, 0xffffff, 21000, 30000, 0, 0);
	add_packet(ALICE, SEND_LAST, 0x000000, 22000, 31000, 0, 0);
	add_packet(BOB, ACKNOWLEDGE, 0x000000, 32000, 40000, 0, 0x1f);
	add_work(VB_CAPTURE_COMPLETION, ALICE, 41000, 77, 0);
	ladder = build(&story, &options);
	assert_int_equal(ladder.lanes, 2);
	assert_string_equal(ladder.lane[0].name, "alice<script>");
	assert_string_equal(ladder.lane[1].name, "bob");
	assert_int_equal(ladder.items, 9);
	assert_int_equal(find(&ladder, "SEND_FIRST PSN 0,")->style, VB_LADDER_REQUEST);
	/* Its receiver is known though it was never received. */
	assert_true(find(&ladder, "SEND_MIDDLE PSN 1, 20 B (lost)")->lost);
	assert_int_equal(find(&ladder, "(lost)")->to, 1);
	assert_int_equal(find(&ladder, "NAK PSN 1: PSN sequence error")->style, VB_LADDER_NAK);
	assert_int_equal(find(&ladder, "SEND_MIDDLE PSN 1, 20 B (again)")->style, VB_LADDER_AGAIN);
	assert_int_equal(find(&ladder, "SEND_LAST PSN 2, 20 B (again)")->style, VB_LADDER_AGAIN);
	assert_int_equal(find(&ladder, "ACK PSN 2")->style, VB_LADDER_RESPONSE);
	assert_int_equal(find(&ladder, "post SEND, 64 B, wr_id 77")->from, 0);
	assert_int_equal(find(&ladder, "\xe2\x9c\x93 SEND, wr_id 77")->style, VB_LADDER_DONE);
	/* Time flows down, and nothing arrives above where it was sent. */
	for (size_t i = 0; i < ladder.items; i++) {
		assert_true(ladder.item[i].arrival_y >= ladder.item[i].y);
		assert_true(i == 0 || ladder.item[i].y > ladder.item[i - 1].y);
	}
	svg = draw(&ladder, vb_ladder_svg);
	assert_non_null(strstr(svg, "a &lt; b &amp; &quot;c&quot;"));
	assert_non_null(strstr(svg, "alice&lt;script&gt;"));
	assert_null(strstr(svg, "<script"));
	assert_non_null(strstr(svg, "class=\"packet request lost\""));
	free(svg);
	svg = draw(&ladder, vb_ladder_html);
	assert_null(strstr(svg, "<script"));
	free(svg);
	vb_ladder_free(&ladder);
	vb_story_free(&story);
}

static void test_folding(void **state)
{
	const struct vb_ladder_options options = {.most = 1000};
	struct vb_story story;
	struct vb_ladder ladder;

	(void)state;
	for (unsigned i = 0; i < 500; i++)
		add_work(VB_CAPTURE_POST_RECEIVE, BOB, 100 + i, 1, 0);
	add_packet(ALICE, SEND_FIRST, 10, 2000, 8000, 0, 0);
	for (uint32_t i = 0; i < 40; i++)
		add_packet(ALICE, SEND_MIDDLE, 11 + i, 2001 + i, 8001 + i, 0, 0);
	add_packet(ALICE, SEND_LAST, 51, 3000, 9000, 0, 0);
	ladder = build(&story, &options);
	assert_int_equal(ladder.items, 4);
	assert_int_equal(find(&ladder, "500 times")->times, 500);
	assert_int_equal(find(&ladder, "40 \xc3\x97 SEND_MIDDLE PSN 1 \xe2\x80\xa6 40")->times, 40);
	vb_ladder_free(&ladder);
	vb_story_free(&story);
}

static void test_limits(void **state)
{
	const struct vb_ladder_options options = {.first = 5, .most = 10, .absolute = true};
	struct vb_story story;
	struct vb_ladder ladder;

	(void)state;
	for (uint32_t i = 0; i < 30; i++)
		add_packet(ALICE, SEND_ONLY, 0x100 + i, 1000 + i * 100, 0, 0, 0);
	ladder = build(&story, &options);
	assert_int_equal(ladder.items, 10);
	assert_int_equal(ladder.left_out, 20);
	assert_non_null(strstr(ladder.item[0].label, "SEND_ONLY PSN 0x000105"));
	/* Bob is not part of this capture. */
	assert_int_equal(ladder.lane[1].pid, 0);
	assert_string_equal(ladder.lane[1].name, "10.0.0.2");
	vb_ladder_free(&ladder);
	vb_story_free(&story);
}

static void test_nothing(void **state)
{
	const struct vb_ladder_options options = {.most = 10};
	struct vb_story story;
	struct vb_ladder ladder;
	char *svg;

	(void)state;
	ladder = build(&story, &options);
	assert_int_equal(ladder.items, 0);
	svg = draw(&ladder, vb_ladder_svg);
	assert_non_null(strstr(svg, "</svg>"));
	free(svg);
	vb_ladder_free(&ladder);
	vb_story_free(&story);
}

/* A damaged capture may hold any times: the order is still theirs, and no duration is negative. */
static void test_times(void **state)
{
	const struct vb_ladder_options options = {.most = 10};
	struct vb_story story;
	struct vb_ladder ladder;
	char *html;

	(void)state;
	add_work(VB_CAPTURE_POST_SEND, ALICE, INT64_MIN, 1, 0);
	add_packet(ALICE, SEND_ONLY, 1, INT64_MAX - 1, INT64_MAX, 0, 0);
	add_packet(ALICE, SEND_ONLY, 0, INT64_MIN + 1, INT64_MAX, 0, 0);
	add_packet(BOB, ACKNOWLEDGE, 1, INT64_MAX, INT64_MIN, 0, 0x1f);
	add_work(VB_CAPTURE_COMPLETION, ALICE, INT64_MAX, 1, 0);
	ladder = build(&story, &options);
	assert_int_equal(ladder.items, 5);
	assert_non_null(strstr(ladder.item[0].label, "post SEND"));
	assert_non_null(strstr(ladder.item[1].label, "SEND_ONLY PSN 0"));
	assert_non_null(strstr(ladder.item[2].label, "SEND_ONLY PSN 1"));
	assert_int_equal(ladder.gaps, 1);
	assert_true(ladder.gap[0].length == INT64_MAX);
	html = draw(&ladder, vb_ladder_html);
	assert_null(strstr(html, "at -"));
	assert_null(strstr(html, "+-"));
	assert_null(strstr(html, "<td>-"));
	free(html);
	vb_ladder_free(&ladder);
	vb_story_free(&story);
}

/* A program may have any name, and a long one is cut anywhere: the picture is well-formed all the same. */
/* Halves of packets find each other by a hash: with ICRCs that are right, too, it tells packets apart. */
static void test_hashes(void **state)
{
	enum { PACKETS = 1000 };
	static uint8_t datagram[PACKETS][32];
	uint32_t hash[PACKETS];
	unsigned alike = 0;

	(void)state;
	for (unsigned i = 0; i < PACKETS; i++) {
		struct vb_story_packet packet = {.path = {.source_port = 0xc000, .hop_limit = 64}, .datagram = datagram[i], .length = 32};
		uint32_t crc;

		datagram[i][10] = (uint8_t)(i >> 8);
		datagram[i][11] = (uint8_t)i;
		crc = vb_icrc_headers(vb_icrc_begin(&packet.path, 0, 32), datagram[i], 12);
		vb_icrc_store(vb_icrc_payload(crc, datagram[i] + 12, 16), datagram[i] + 28);
		hash[i] = vb_story_packet_hash(&packet);
		for (unsigned j = 0; j < i; j++)
			alike += hash[j] == hash[i];
	}
	assert_true(alike < 5);
}

static void test_names(void **state)
{
	static const struct {
		const char *name, *drawn;
	} names[] = {
		{"plain", "plain"}, {"caf\xc3\xa9 \xe2\x9c\x93 \xf0\x9f\x8c\xbf", "caf\xc3\xa9 \xe2\x9c\x93 \xf0\x9f\x8c\xbf"},
		{"cut\xc3", "cut?"}, {"cut\xe2\x9c", "cut??"}, {"\xff\x80x", "??x"},
		{"long\xc0\xaf", "long??"}, {"half\xed\xa0\x80", "half???"}, {"far\xf4\x90\x80\x80", "far????"},
		{"none\xef\xbf\xbf", "none???"}, {"bell\a", "bell?"},
	};
	const struct vb_ladder_options options = {.most = 10};

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct vb_story story;
		struct vb_ladder ladder;
		char *svg, wanted[64];

		begin(state);
		add_process(ALICE, names[i].name, 1);
		add_packet(ALICE, SEND_ONLY, 1, 10, 0, 0, 0);
		ladder = build(&story, &options);
		svg = draw(&ladder, vb_ladder_svg);
		snprintf(wanted, sizeof(wanted), ">%s<", names[i].drawn);
		assert_non_null(strstr(svg, wanted));
		free(svg);
		vb_ladder_free(&ladder);
		vb_story_free(&story);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_piggyback, begin),
		cmocka_unit_test_setup(test_loss, begin), cmocka_unit_test_setup(test_folding, begin),
		cmocka_unit_test_setup(test_limits, begin), cmocka_unit_test_setup(test_nothing, begin),
		cmocka_unit_test_setup(test_times, begin), cmocka_unit_test(test_names), cmocka_unit_test(test_hashes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
