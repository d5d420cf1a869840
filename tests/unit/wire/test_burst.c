/* SPDX-License-Identifier: MIT
 *
 * Bursts: which packets join a run, what they look like when the run is cut up again, and that the limits hold.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/burst.h"
#include "wire/icrc.h"

enum { SEED = 31337 };

static uint32_t random_state;
static struct vb_burst burst;
static uint8_t memory[70000];

static uint32_t next_random(void)
{
	random_state = random_state * 1664525u + 1013904223u;
	return random_state >> 8;
}

static struct vb_path path_to(uint8_t last)
{
	return (struct vb_path){
		.source = {[10] = 0xff, 0xff, 192, 0, 2, 1},
		.destination = {[10] = 0xff, 0xff, 192, 0, 2, last},
		.source_port = 0xc001,
		.hop_limit = 64,
	};
}

static struct vb_roce_packet packet_of(uint8_t opcode, uint32_t qpn, uint32_t psn)
{
	return (struct vb_roce_packet){.opcode = opcode, .op = vb_roce_opcode(opcode), .pkey = 0xffff,
				       .destination_qpn = qpn, .psn = psn_of(psn), .pad = 3 /* must be overwritten */};
}

static void append(const struct vb_path *path, uint8_t opcode, uint32_t qpn, uint32_t psn, size_t payload)
{
	struct vb_roce_packet packet = packet_of(opcode, qpn, psn);
	struct iovec span = {memory, payload};

	assert_true(vb_burst_has_room(&burst, payload));
	vb_burst_append(&burst, path, &packet, &span, 1);
}

static void assert_runs(unsigned count, const uint32_t *packets)
{
	assert_int_equal(burst.runs, count);
	for (unsigned i = 0; i < count; i++)
		assert_int_equal(burst.run[i].packets, packets[i]);
}

/* Everything that must hold of any burst: the runs lie in the arena one after another, sizes add up, limits hold, and each packet decodes
 * with its index as the identification. */
static void check_burst(void)
{
	const uint8_t *free_from = burst.arena;
	uint32_t packets = 0;

	assert_true(burst.runs <= VB_BURST_RUNS);
	assert_true(burst.arena_used <= VB_BURST_ARENA);
	for (uint32_t r = 0; r < burst.runs; r++) {
		const struct vb_burst_run *run = &burst.run[r];
		size_t flat = 0;

		assert_true(run->data >= free_from && run->data + run->bytes <= burst.arena + burst.arena_used);
		free_from = run->data + run->bytes;
		assert_true(run->packets >= 1 && run->packets <= VB_BURST_RUN_PACKETS);
		assert_true(run->bytes <= VB_BURST_RUN_BYTES || run->packets == 1);
		for (uint32_t p = 0; p < run->packets; p++) {
			static uint8_t out[66000];
			struct vb_roce_packet packet;
			size_t length = vb_burst_flatten(&burst, r, p, out, sizeof(out));
			uint32_t crc = vb_icrc_headers(vb_icrc_begin(&run->path, (uint16_t)p, length), out, length - 4);
			uint8_t icrc[4];

			if (p + 1 < run->packets)
				assert_int_equal(length, run->segment_size);
			else
				assert_true(length <= run->segment_size);
			vb_icrc_store(crc, icrc);
			assert_memory_equal(out + length - 4, icrc, 4);
			assert_int_equal(vb_roce_packet_decode(&packet, out, length, &run->path, true, (uint16_t)p),
					 VB_PACKET_OK);
			assert_int_equal(packet.destination_qpn >> 14, run->slot);
			flat += length;
		}
		assert_int_equal(flat, run->bytes);
		packets += run->packets;
	}
	assert_int_equal(packets, burst.packets);
}

static void starts_empty(void **state)
{
	(void)state;
	memset(&burst, 0xee, sizeof(burst));
	vb_burst_reset(&burst);
	assert_true(vb_burst_is_empty(&burst));
	assert_true(vb_burst_has_room(&burst, 0));
	assert_true(vb_burst_has_room(&burst, 4096));
	check_burst();
}

static void equal_sizes_make_one_run(void **state)
{
	struct vb_path path = path_to(2);

	(void)state;
	vb_burst_reset(&burst);
	for (uint32_t i = 0; i < 10; i++)
		append(&path, 0x01, 17, i, 1024);
	assert_runs(1, (uint32_t[]){10});
	assert_int_equal(burst.run[0].segment_size, 12 + 1024 + 4);
	assert_false(burst.run[0].closed);
	check_burst();
}

static void a_shorter_packet_ends_the_run(void **state)
{
	struct vb_path path = path_to(2);

	(void)state;
	vb_burst_reset(&burst);
	append(&path, 0x01, 17, 0, 1024);
	append(&path, 0x01, 17, 1, 1024);
	append(&path, 0x02, 17, 2, 1000);
	assert_true(burst.run[0].closed);
	append(&path, 0x04, 17, 3, 1000);
	append(&path, 0x04, 17, 4, 1000);
	append(&path, 0x04, 17, 5, 1024); /* longer than the segment size */
	append(&path, 0x04, 17, 6, 0);
	append(&path, 0x04, 17, 7, 0);
	assert_runs(4, (uint32_t[]){3, 2, 2, 1});
	check_burst();
}

/* Sizes are of the datagram: a longer header with less payload may be the same size, and padding evens out. */
static void it_is_the_datagram_that_counts(void **state)
{
	struct vb_path path = path_to(2);

	(void)state;
	vb_burst_reset(&burst);
	append(&path, 0x0a, 17, 0, 1000); /* 28 bytes of headers */
	append(&path, 0x04, 17, 1, 1016); /* 12 */
	append(&path, 0x04, 17, 2, 1013); /* pad 3 */
	assert_runs(1, (uint32_t[]){3});
	assert_false(burst.run[0].closed);
	check_burst();
}

static void queue_pairs_of_one_process_share_a_run(void **state)
{
	struct vb_path path = path_to(2);

	(void)state;
	vb_burst_reset(&burst);
	for (uint32_t i = 0; i < 10; i++)
		append(&path, 0x11, 5 << 14 | i * 1000, i, 0);
	append(&path, 0x11, 6 << 14, 10, 0);
	assert_runs(2, (uint32_t[]){10, 1});
	check_burst();
}

static void any_difference_of_path_or_process_starts_a_run(void **state)
{
	struct vb_path paths[9];

	(void)state;
	for (unsigned i = 0; i < 9; i++)
		paths[i] = path_to(2);
	paths[1].source[12] ^= 1;
	paths[2].destination[15] ^= 1;
	paths[3].source_port ^= 1;
	paths[4].traffic_class ^= 1;
	paths[5].hop_limit ^= 1;
	paths[6].flow_label ^= 1;
	paths[7].interface_index ^= 1;
	for (unsigned i = 1; i < 9; i++) {
		vb_burst_reset(&burst);
		append(&paths[0], 0x04, 17, 0, 600);
		append(&paths[i], 0x04, i == 8 ? 1 << 14 | 17 : 17, 1, 600);
		append(&paths[0], 0x04, 17, 2, 600); /* not with the first any more: order is kept */
		append(&paths[0], 0x04, 17, 3, 600);
		assert_runs(3, (uint32_t[]){1, 1, 2});
		check_burst();
	}
}

static void a_run_has_64_packets_and_65000_bytes(void **state)
{
	struct vb_path path = path_to(2);

	(void)state;
	vb_burst_reset(&burst);
	for (uint32_t i = 0; i < 130; i++)
		append(&path, 0x04, 17, i, 256);
	assert_runs(3, (uint32_t[]){64, 64, 2});
	check_burst();

	vb_burst_reset(&burst);
	for (uint32_t i = 0; i < 17; i++)
		append(&path, 0x04, 17, i, 4096);
	assert_runs(2, (uint32_t[]){15, 2}); /* 15 * 4112 = 61,680 */
	check_burst();
}

/* What is sent later is what was there when the packet was made. */
static void payload_is_a_snapshot(void **state)
{
	struct vb_path path = path_to(2);
	uint8_t out[8192];

	(void)state;
	for (size_t length = 1; length <= 4096; length *= 4) {
		vb_burst_reset(&burst);
		memset(memory, 1, length);
		append(&path, 0x04, 17, 0, length);
		memset(memory, 2, length);
		vb_burst_flatten(&burst, 0, 0, out, sizeof(out));
		for (size_t i = 0; i < length; i++)
			assert_int_equal(out[12 + i], 1);
		check_burst();
	}
}

/* Many at once are what the same packets make one by one, byte for byte, and in the same runs; whatever run is open before. */
static void many_are_like_single_packets(void **state)
{
	static const size_t sizes[] = {256, 512, 1024, 2048, 4096};
	static struct vb_burst singly;
	struct vb_path path = path_to(2);

	(void)state;
	for (unsigned i = 0; i < sizeof(memory); i++)
		memory[i] = (uint8_t)next_random();
	for (unsigned round = 0; round < 400; round++) {
		size_t each = sizes[next_random() % 5];
		uint32_t count = 1 + next_random() % (uint32_t)(65536 / each), before = next_random() % 4, appended;
		/* A series of WRITEs, or of responses, or what is between first and last. */
		static const uint8_t opcodes[] = {0x0a, 0x10, 0x07, 0x07};
		uint8_t opcode = opcodes[next_random() % 4];
		struct vb_roce_packet packet = packet_of(opcode, 17, 0xfffff0);
		bool asks = next_random() % 2;

		packet.ack_request = asks;
		packet.reth = (struct vb_roce_reth){UINT64_MAX - 5 * 256 + 1, 0x1234567, (uint32_t)each};
		packet.aeth.syndrome = 0x1f;
		packet.aeth.msn = 0xabcdef;
		vb_burst_reset(&burst);
		if (before > 0) /* nothing, a longer one, an equal one, a short one */
			append(&path, before == 1 ? 0x06 : 0x07, 17, 0xffffef, before == 3 ? each - 4 : each);
		singly = burst;
		for (uint32_t r = 0; r < singly.runs; r++)
			singly.run[r].data = singly.arena + (burst.run[r].data - burst.arena);
		appended = vb_burst_append_many(&burst, &path, &packet, memory, each, count);
		assert_int_equal(appended, count);
		check_burst();
		for (uint32_t i = 0; i < count; i++) {
			struct vb_roce_packet one = packet_of(opcode, 17, 0xfffff0 + i);

			one.reth = (struct vb_roce_reth){packet.reth.address + i * each, 0x1234567, (uint32_t)each};
			one.aeth = packet.aeth;
			one.ack_request = asks && i + 1 == count;
			vb_burst_append(&singly, &path, &one, &(struct iovec){memory + i * each, each}, 1);
		}
		assert_int_equal(burst.runs, singly.runs);
		for (uint32_t r = 0; r < burst.runs; r++) {
			assert_int_equal(burst.run[r].packets, singly.run[r].packets);
			assert_int_equal(burst.run[r].bytes, singly.run[r].bytes);
			assert_memory_equal(burst.run[r].data, singly.run[r].data, burst.run[r].bytes);
		}
	}
}

/* More than a burst can hold: it says how many, and none of them asks for what only the last may ask. */
static void many_end_where_the_burst_does(void **state)
{
	struct vb_path path = path_to(2);
	struct vb_roce_packet packet = packet_of(0x07, 17, 0), back;
	uint32_t appended;
	uint8_t out[2048];

	(void)state;
	packet.ack_request = true;
	vb_burst_reset(&burst);
	appended = vb_burst_append_many(&burst, &path, &packet, memory, 256, 64);
	assert_int_equal(appended, 64);
	while (vb_burst_has_room(&burst, 4096))
		append(&path, 0x04, 18, 0, 4096);
	assert_true(vb_burst_has_room(&burst, 256));
	appended = vb_burst_append_many(&burst, &path, &packet, memory, 256, 200);
	assert_true(appended >= 1 && appended < 200);
	assert_false(vb_burst_has_room(&burst, 256));
	check_burst();
	vb_burst_flatten(&burst, burst.runs - 1, burst.run[burst.runs - 1].packets - 1, out, sizeof(out));
	assert_int_equal(vb_roce_packet_decode(&back, out, 272, &path, false, 0), VB_PACKET_OK);
	assert_int_equal(back.psn.v, appended - 1);
	assert_false(back.ack_request);
	assert_int_equal(vb_burst_append_many(&burst, &path, &packet, memory, 256, 1), 0);
}

/* How many more of the size join what is there; and when the next should wait for another burst. */
static void room_in_the_run(void **state)
{
	struct vb_path path = path_to(2);

	(void)state;
	vb_burst_reset(&burst);
	assert_int_equal(vb_burst_run_room(&burst, 1024), 0);
	assert_false(vb_burst_has_enough(&burst, 1024));
	append(&path, 0x07, 17, 0, 1024);
	assert_int_equal(vb_burst_run_room(&burst, 1024), 61); /* 62 * 1040 = 64,480 */
	assert_int_equal(vb_burst_run_room(&burst, 1000), 1);
	assert_int_equal(vb_burst_run_room(&burst, 1028), 0);
	append(&path, 0x07, 17, 1, 1000);
	assert_int_equal(vb_burst_run_room(&burst, 1000), 0);
	vb_burst_reset(&burst);
	for (uint32_t i = 0; i < 62; i++) {
		assert_false(vb_burst_has_enough(&burst, 1024));
		append(&path, 0x07, 17, i, 1024);
	}
	assert_true(vb_burst_has_enough(&burst, 1024));
	vb_burst_reset(&burst);
	for (uint32_t i = 0; i < 64; i++)
		append(&path, 0x04, 17, i, 64);
	assert_int_equal(vb_burst_run_room(&burst, 64), 0);
	assert_false(vb_burst_has_enough(&burst, 64));
}

static void payload_of_many_spans(void **state)
{
	struct vb_path path = path_to(2);

	(void)state;
	for (unsigned i = 0; i < sizeof(memory); i++)
		memory[i] = (uint8_t)next_random();
	for (size_t each = 0; each < 60; each++) {
		struct vb_roce_packet packet = packet_of(0x04, 17, 0), back;
		struct iovec spans[30];
		uint8_t expected[30 * 64], out[8192];
		size_t length = 0, size;

		for (unsigned i = 0; i < 30; i++) {
			size_t odd = i % 3 == 0 ? 0 : each + i % 2;

			spans[i] = (struct iovec){odd ? memory + 1000 * i + i : NULL, odd};
			if (odd)
				memcpy(expected + length, spans[i].iov_base, odd);
			length += odd;
		}
		vb_burst_reset(&burst);
		assert_true(vb_burst_has_room(&burst, length));
		vb_burst_append(&burst, &path, &packet, spans, 30);
		size = vb_burst_flatten(&burst, 0, 0, out, sizeof(out));
		assert_int_equal(vb_roce_packet_decode(&back, out, size, &path, true, 0), VB_PACKET_OK);
		assert_int_equal(back.payload_length, length);
		assert_int_equal(packet.pad, -length & 3);
		assert_memory_equal(back.payload, expected, length);
		check_burst();
	}
}

static void no_spans_no_payload(void **state)
{
	struct vb_path path = path_to(2);
	struct vb_roce_packet packet = packet_of(0x04, 17, 0);

	(void)state;
	vb_burst_reset(&burst);
	vb_burst_append(&burst, &path, &packet, NULL, 0);
	assert_int_equal(burst.run[0].bytes, 16);
	check_burst();
}

/* Random packets until has_room says no; then again. Nothing may overflow, whatever the mix. */
static void random_bursts_hold_their_limits(void **state)
{
	static uint32_t out_of_room[2];

	(void)state;
	for (int round = 0; round < 300; round++) {
		uint32_t style = next_random() % 5, psn = 0;

		vb_burst_reset(&burst);
		for (;;) {
			struct vb_path path = path_to((uint8_t)(style == 0 ? next_random() % 2 : 9));
			static const uint8_t opcodes[] = {0x04, 0x0a, 0x0b, 0x0d, 0x17, 0x64};
			uint8_t opcode = opcodes[style == 2 ? 0 : next_random() % 6];
			struct vb_roce_packet packet = packet_of(opcode, style == 1 ? next_random() % 3 : 7, psn++);
			unsigned count = style == 3 ? next_random() % 31 : 1;
			size_t left = next_random() % 3 ? 1024 : next_random() % 4097;
			struct iovec spans[31];

			if (style == 4)
				left = 0;
			if (!vb_burst_has_room(&burst, count > 0 ? left : 0))
				break;
			for (unsigned i = 0; i < count; i++) {
				size_t length = i + 1 == count ? left : left / count;

				spans[i] = (struct iovec){memory + 5000 * (i % 13), length};
				left -= length;
			}
			vb_burst_append(&burst, &path, &packet, spans, count);
		}
		check_burst();
		out_of_room[0] += burst.runs == VB_BURST_RUNS;
		out_of_room[1] += burst.arena_used > VB_BURST_ARENA - 5000;
	}
	/* The test is worth something only if each limit was met. */
	print_message("ended by runs %u, arena %u\n", out_of_room[0], out_of_room[1]);
	assert_true(out_of_room[0] && out_of_room[1]);
}

static void has_room_is_never_fooled(void **state)
{
	(void)state;
	vb_burst_reset(&burst);
	assert_false(vb_burst_has_room(&burst, VB_BURST_ARENA));
	assert_false(vb_burst_has_room(&burst, SIZE_MAX));
	burst.runs = VB_BURST_RUNS;
	assert_false(vb_burst_has_room(&burst, 0));
}

/* What is left decodes at its new place, in the old order, with the payload it had. */
static void lost_packets_leave_the_run(void **state)
{
	enum { PACKETS = 20, SIZE = 1024, REST = 100 };
	struct vb_path path = path_to(2), other = path_to(3);
	uint64_t lost[] = {1, UINT64_C(1) << (PACKETS - 1), 0x2a408, (UINT64_C(1) << (PACKETS - 1)) - 1};

	(void)state;
	for (unsigned round = 0; round < sizeof(lost) / sizeof(lost[0]); round++) {
		uint32_t left = 0;

		vb_burst_reset(&burst);
		append(&other, 0x06, 16, 0, SIZE);
		for (uint32_t i = 0; i < PACKETS; i++) {
			memset(memory, (int)i, SIZE);
			append(&path, 0x07, 17, 1 + i, i + 1 < PACKETS ? SIZE : REST);
		}
		append(&other, 0x06, 18, 1 + PACKETS, SIZE);
		assert_runs(3, (const uint32_t[]){1, PACKETS, 1});
		assert_true(vb_burst_remove(&burst, 1, lost[round]));
		assert_int_equal(burst.runs, 3);
		check_burst();
		for (uint32_t i = 0; i < PACKETS; i++) {
			struct vb_roce_packet packet;
			size_t length;
			const uint8_t *bytes;

			if (lost[round] >> i & 1)
				continue;
			bytes = vb_burst_packet(&burst, 1, left, &length);
			assert_int_equal(vb_roce_packet_decode(&packet, bytes, length, &path, true, (uint16_t)left),
					 VB_PACKET_OK);
			assert_int_equal(packet.psn.v, 1 + i);
			assert_int_equal(packet.payload_length, i + 1 < PACKETS ? SIZE : REST);
			for (uint32_t b = 0; b < packet.payload_length; b++)
				assert_int_equal(packet.payload[b], i);
			left++;
		}
		assert_int_equal(burst.run[1].packets, left);
		assert_int_equal(burst.packets, left + 2);
	}
}

static void a_run_that_is_lost_leaves_the_burst(void **state)
{
	(void)state;
	vb_burst_reset(&burst);
	for (uint32_t i = 0; i < 3; i++) {
		struct vb_path path = path_to((uint8_t)(2 + i));

		append(&path, 0x0a, 17, i, 256);
	}
	assert_false(vb_burst_remove(&burst, 1, 1));
	assert_runs(2, (const uint32_t[]){1, 1});
	assert_int_equal(burst.run[1].path.destination[15], 4);
	check_burst();
	assert_false(vb_burst_remove(&burst, 1, 1));
	assert_false(vb_burst_remove(&burst, 0, 1));
	assert_true(vb_burst_is_empty(&burst));
}

struct taken {
	struct vb_burst_sink sink;
	unsigned count;
	uint8_t headers[8][VB_ROCE_MAX_HEADER];
	size_t header_length[8], payload[8];
};

static void take(struct vb_burst_sink *sink, const struct vb_path *path, const uint8_t *headers, size_t header_length,
		 size_t payload)
{
	struct taken *taken = (struct taken *)(void *)sink;

	assert_true(taken->count < 8);
	assert_int_equal(path->hop_limit, 64);
	memcpy(taken->headers[taken->count], headers, header_length);
	taken->header_length[taken->count] = header_length;
	taken->payload[taken->count++] = payload;
}

/* A sink gets the headers that the arena would hold, and no more packets than it wants. */
static void a_sink_takes_headers(void **state)
{
	struct taken taken = {.sink = {.take = take, .room = 6}};
	struct vb_roce_packet first = packet_of(0x06, 17, 100), middle = packet_of(0x07, 17, 101), only = packet_of(0x0a, 17, 104);
	struct vb_path path = path_to(2);
	struct iovec span = {memory, 1024};
	uint8_t out[2048];

	(void)state;
	only.reth = (struct vb_roce_reth){1 << 20, 2, 1024};
	first.ack_request = middle.ack_request = true;
	vb_burst_reset_to(&burst, &taken.sink);
	vb_burst_append(&burst, &path, &first, &span, 1);
	assert_int_equal(vb_burst_append_many(&burst, &path, &middle, memory, 1024, 3), 3);
	assert_true(vb_burst_has_room(&burst, 4096));
	assert_int_equal(vb_burst_append_many(&burst, &path, &only, memory, 1024, 3), 2);
	assert_false(vb_burst_has_room(&burst, 0));
	assert_true(vb_burst_has_enough(&burst, 1024));
	assert_int_equal(taken.count, 6);
	vb_burst_reset(&burst);
	assert_true(vb_burst_has_room(&burst, 4096));
	vb_burst_append(&burst, &path, &first, &span, 1);
	vb_burst_append_many(&burst, &path, &middle, memory, 1024, 3);
	vb_burst_append_many(&burst, &path, &only, memory, 1024, 2);
	taken.count = 0;
	for (unsigned r = 0; r < burst.runs; r++) {
		for (unsigned i = 0; i < burst.run[r].packets; i++, taken.count++) {
			assert_int_equal(taken.payload[taken.count], 1024);
			vb_burst_flatten(&burst, r, i, out, sizeof(out));
			assert_memory_equal(out, taken.headers[taken.count], taken.header_length[taken.count]);
		}
	}
	assert_int_equal(taken.count, 6);
}

/* ---- identifications ---- */

static uint16_t next_id;
static bool counts;

static bool tell_next(const struct vb_burst_numbers *numbers, const struct vb_path *path, uint16_t *id)
{
	(void)numbers;
	*id = next_id;
	return counts && path->destination[15] == 2;
}

static void assert_ids(uint32_t run, uint16_t first)
{
	const struct vb_path *path = &burst.run[run].path;

	assert_int_equal(burst.run[run].first_id, first);
	for (uint32_t i = 0; i < burst.run[run].packets; i++) {
		size_t length;
		const uint8_t *packet = vb_burst_packet(&burst, run, i, &length);
		uint8_t expected[4];

		vb_icrc_store(vb_icrc_headers(vb_icrc_begin(path, (uint16_t)(first + i), length), packet, length - 4), expected);
		assert_memory_equal(packet + length - 4, expected, 4);
	}
}

static void runs_begin_where_they_are_told(void **state)
{
	static const struct vb_burst_numbers numbers = {tell_next};
	struct vb_path counted = path_to(2), other = path_to(3);
	struct vb_roce_packet many = packet_of(0x01, 5, 10);

	(void)state;
	counts = true;
	next_id = 0xfffe;
	vb_burst_reset(&burst);
	burst.numbers = &numbers;
	append(&counted, 0x00, 5, 1, 1000);
	append(&counted, 0x01, 5, 2, 1000);
	append(&counted, 0x02, 5, 3, 10);
	/* The next on the same path follows, */
	append(&counted, 0x00, 5, 4, 100);
	assert_int_equal(vb_burst_append_many(&burst, &counted, &many, memory, 200, 7), 7);
	/* others have numbers of their own. */
	append(&other, 0x00, 5, 4, 100);
	append(&other, 0x00, 5, 4, 100);
	append(&counted, 0x00, 5, 5, 100);
	assert_int_equal(burst.runs, 5);
	assert_ids(0, 0xfffe);
	assert_ids(1, 0xffff);
	assert_ids(2, 0);
	assert_ids(3, 0);
	assert_ids(4, 0xfffe);
	/* It turned out otherwise. */
	vb_burst_renumber(&burst, 4, 1);
	vb_burst_renumber(&burst, 2, 0xfff0);
	vb_burst_renumber(&burst, 0, 0);
	assert_ids(4, 1);
	assert_ids(2, 0xfff0);
	assert_ids(0, 0);
	assert_true(vb_burst_remove(&burst, 2, 0x5));
	assert_ids(2, 0xfff0);
	/* What was told before is forgotten. */
	counts = false;
	vb_burst_reset(&burst);
	append(&counted, 0x00, 5, 1, 1000);
	assert_ids(0, 0);
	vb_burst_reset(&burst);
	burst.numbers = &numbers;
	append(&counted, 0x00, 5, 1, 1000);
	assert_ids(0, 0);
	vb_burst_reset(&burst);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(starts_empty),
		cmocka_unit_test(equal_sizes_make_one_run),
		cmocka_unit_test(a_shorter_packet_ends_the_run),
		cmocka_unit_test(it_is_the_datagram_that_counts),
		cmocka_unit_test(queue_pairs_of_one_process_share_a_run),
		cmocka_unit_test(any_difference_of_path_or_process_starts_a_run),
		cmocka_unit_test(a_run_has_64_packets_and_65000_bytes),
		cmocka_unit_test(payload_is_a_snapshot),
		cmocka_unit_test(many_are_like_single_packets),
		cmocka_unit_test(many_end_where_the_burst_does),
		cmocka_unit_test(room_in_the_run),
		cmocka_unit_test(payload_of_many_spans),
		cmocka_unit_test(no_spans_no_payload),
		cmocka_unit_test(random_bursts_hold_their_limits),
		cmocka_unit_test(has_room_is_never_fooled),
		cmocka_unit_test(lost_packets_leave_the_run),
		cmocka_unit_test(a_run_that_is_lost_leaves_the_burst),
		cmocka_unit_test(a_sink_takes_headers),
		cmocka_unit_test(runs_begin_where_they_are_told),
	};

	random_state = SEED;
	print_message("seed %d\n", SEED);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
