/* SPDX-License-Identifier: MIT
 *
 * Frames: a datagram that is wrapped comes out the same, checksums are right, the identification is found again from
 * the ICRC, and nothing that is no RoCEv2 packet is taken for one.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "capture/frame.h"
#include "wire/icrc.h"
#include "wire/roce_packet.h"

static const struct vb_path four = {
	.source = {[10] = 0xff, 0xff, 192, 0, 2, 1}, .destination = {[10] = 0xff, 0xff, 192, 0, 2, 7},
	.source_port = 0xc123, .traffic_class = 0x68, .hop_limit = 64,
};
static const struct vb_path six = {
	.source = {0xfd, 0x77, [15] = 1}, .destination = {0xfd, 0x77, [15] = 2},
	.source_port = 0xd456, .traffic_class = 0x02, .hop_limit = 63, .flow_label = 0xabcde,
};

static size_t make_datagram(uint8_t *out, const struct vb_path *path, uint16_t id, size_t payload)
{
	size_t covered = VB_BTH_LENGTH + payload;

	for (size_t i = 0; i < covered; i++)
		out[i] = (uint8_t)(i * 7 + 4);
	out[0] = 0x04; /* RC SEND_ONLY */
	out[1] = 0;
	vb_icrc_store(vb_icrc_headers(vb_icrc_begin(path, id, covered + VB_ICRC_LENGTH), out, covered), out + covered);
	return covered + VB_ICRC_LENGTH;
}

/* One's complement sum of a whole header or of pseudo header and datagram: all ones when the checksum is right. */
static uint32_t sum(uint32_t value, const uint8_t *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++)
		value += i & 1 ? bytes[i] : (uint32_t)bytes[i] << 8;
	while (value >> 16)
		value = (value & 0xffff) + (value >> 16);
	return value;
}

static size_t wrap(uint8_t *frame, const struct vb_path *path, uint16_t id, const uint8_t *datagram, size_t length)
{
	size_t header = vb_frame_headers(frame, path, id, datagram, length);

	memcpy(frame + header, datagram, length);
	return header + length;
}

static void test_round_trip(void **state)
{
	const struct vb_path *paths[] = {&four, &six};
	uint8_t datagram[256], frame[400];

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		for (size_t payload = 0; payload < 100; payload += 33) {
			size_t length = make_datagram(datagram, paths[i], 5, payload), total, got;
			const uint8_t *found;
			struct vb_path path;

			total = wrap(frame, paths[i], 5, datagram, length);
			assert_int_equal(vb_frame_parse(frame, total, VB_FRAME_RAW, &path, &found, &got), 0);
			assert_memory_equal(&path, paths[i], sizeof(path));
			assert_int_equal(got, length);
			assert_memory_equal(found, datagram, length);
			/* Cut anywhere, it is refused. */
			for (size_t cut = 0; cut < total; cut++) {
				uint8_t *copy = malloc(cut + 1);

				memcpy(copy, frame, cut);
				assert_int_equal(vb_frame_parse(copy, cut, VB_FRAME_RAW, &path, &found, &got), -EPROTO);
				free(copy);
			}
		}
	}
}

static void test_checksums(void **state)
{
	uint8_t datagram[256], frame[400];
	size_t length = make_datagram(datagram, &four, 0, 61), total = wrap(frame, &four, 0, datagram, length);

	(void)state;
	assert_int_equal(sum(0, frame, 20), 0xffff);
	assert_int_equal(sum(sum(17 + (uint32_t)(total - 20), frame + 12, 8), frame + 20, total - 20), 0xffff);
	length = make_datagram(datagram, &six, 0, 60);
	total = wrap(frame, &six, 0, datagram, length);
	assert_int_equal(sum(sum(17 + (uint32_t)(total - 40), frame + 8, 32), frame + 40, total - 40), 0xffff);
}

static void test_identification(void **state)
{
	static const uint16_t ids[] = {0, 1, 2, 63, 255, 256, 0x1234, 0xffff};
	uint8_t datagram[256];

	(void)state;
	for (unsigned i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		size_t length = make_datagram(datagram, &four, ids[i], 40);

		assert_int_equal(vb_frame_guess_id(&four, datagram, length), ids[i]);
		datagram[20] ^= 0x10;
		assert_int_equal(vb_frame_guess_id(&four, datagram, length), 0);
	}
	assert_int_equal(vb_frame_guess_id(&four, datagram, 3), 0);
	assert_int_equal(vb_frame_guess_id(&six, datagram, make_datagram(datagram, &six, 0, 8)), 0);
}

static void test_ethernet(void **state)
{
	uint8_t datagram[256], frame[400] = {[12] = 0x08, 0x00};
	size_t length = make_datagram(datagram, &four, 0, 8), got;
	size_t total = 14 + wrap(frame + 14, &four, 0, datagram, length);
	const uint8_t *found;
	struct vb_path path;

	(void)state;
	assert_int_equal(vb_frame_parse(frame, total, VB_FRAME_ETHERNET, &path, &found, &got), 0);
	assert_int_equal(got, length);
	frame[13] = 6; /* ARP */
	assert_int_equal(vb_frame_parse(frame, total, VB_FRAME_ETHERNET, &path, &found, &got), -EPROTO);
	frame[13] = 0;
	frame[14 + 22] ^= 1; /* another port */
	assert_int_equal(vb_frame_parse(frame, total, VB_FRAME_ETHERNET, &path, &found, &got), -EPROTO);
	assert_int_equal(vb_frame_parse(frame, total, 9999, &path, &found, &got), -EPROTO);
}

/* What a sniffer sees of a burst that the kernel is still to split. */
static void test_segments(void **state)
{
	static const size_t sizes[] = {16, 20, 80, 272, 1040, 4112};
	static uint8_t burst[64 << 10];

	(void)state;
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		memset(burst, 0, sizeof(burst));
		for (uint32_t number = 0; number < 5; number++) {
			uint8_t *bth = burst + number * sizes[i];
			uint32_t psn = 0xfffffe + number;

			bth[5] = 0x12;
			bth[7] = 0x34;
			bth[9] = (uint8_t)(psn >> 16);
			bth[10] = (uint8_t)(psn >> 8);
			bth[11] = (uint8_t)psn;
		}
		assert_int_equal(vb_frame_segment(burst, sizes[i]), sizes[i]);
		assert_int_equal(vb_frame_segment(burst, 2 * sizes[i]), sizes[i]);
		assert_int_equal(vb_frame_segment(burst, 4 * sizes[i] + 16), sizes[i]); /* the last one is shorter */
		burst[sizes[i] + 7]++;                                                 /* the second is somebody else's */
		assert_int_equal(vb_frame_segment(burst, 2 * sizes[i]), 2 * sizes[i]);
	}
	assert_int_equal(vb_frame_segment(burst, 0), 0);
	assert_int_equal(vb_frame_segment(burst, 3), 3);
}

/* An ERF record comes out as it went in; with extension headers, too; none that is cut or of another type. */
static void test_infiniband(void **state)
{
	const struct vb_ib_route route = {.slid = 3, .dlid = 4, .sl = 2};
	uint8_t frame[128], erf[VB_FRAME_ERF_MOST], extended[VB_FRAME_ERF_MOST + 16];
	size_t headers = vb_ib_route_encode(&route, 24, frame), length, got;
	const uint8_t *found;
	struct vb_path path;

	(void)state;
	memset(frame + headers, 0, 24);
	frame[headers] = 0x04;
	vb_ib_frame_seal(frame, headers + 24);
	length = vb_frame_erf(erf, 1500000000, frame, headers + 24);
	assert_int_equal(length, 16 + headers + 24 + 2);
	/* A second and a half, little-endian. */
	assert_memory_equal(erf, ((uint8_t[]){0, 0, 0, 0x80, 1, 0, 0, 0, 21, 0, 0, (uint8_t)length}), 12);
	assert_int_equal(vb_frame_parse(erf, length, VB_FRAME_ERF, &path, &found, &got), 0);
	assert_ptr_equal(found, erf + 16 + headers);
	assert_int_equal(got, 24);
	assert_int_equal(path.slid, 3);
	assert_int_equal(path.dlid, 4);
	assert_int_equal(vb_frame_address_to_lid(path.source), 3);
	assert_int_equal(vb_frame_address_to_lid(six.source), 0);
	memcpy(extended, erf, 16);
	extended[8] |= 0x80;
	memset(extended + 16, 0, 16);
	extended[16] = 0x80;
	memcpy(extended + 32, erf + 16, length - 16);
	assert_int_equal(vb_frame_parse(extended, length + 16, VB_FRAME_ERF, &path, &found, &got), 0);
	assert_int_equal(path.slid, 3);
	for (size_t cut = 0; cut < length; cut++) {
		uint8_t *copy = malloc(cut ? cut : 1);

		memcpy(copy, erf, cut);
		assert_int_equal(vb_frame_parse(copy, cut, VB_FRAME_ERF, &path, &found, &got), -EPROTO);
		free(copy);
	}
	for (size_t cut = 16; cut < 32; cut++)
		assert_int_equal(vb_frame_parse(extended, cut, VB_FRAME_ERF, &path, &found, &got), -EPROTO);
	erf[8] = 2;
	assert_int_equal(vb_frame_parse(erf, length, VB_FRAME_ERF, &path, &found, &got), -EPROTO);
	assert_int_equal(vb_frame_erf(erf, 0, frame, VB_IB_MAX_FRAME + 1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip), cmocka_unit_test(test_checksums),
		cmocka_unit_test(test_identification), cmocka_unit_test(test_ethernet), cmocka_unit_test(test_infiniband),
		cmocka_unit_test(test_segments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
