/* SPDX-License-Identifier: MIT
 *
 * MPA frames: bytes as siw sends them, every field there and back, and all that must be refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "wire/mpa_frame.h"

/* The request of siw's peer-to-peer build, and the reply to it. */
static const uint8_t siw_request[] = "MPA ID Req Frame\x10\x02\x00\x04\x80\x01\xc0\x01";
static const uint8_t siw_reply[] = "MPA ID Rep Frame\x10\x02\x00\x07\x80\x01\x80\x01" "abc";

static void siw_is_understood(void **state)
{
	struct vb_mpa_frame frame;
	uint8_t bytes[VB_MPA_MAX_FRAME];

	(void)state;
	assert_true(vb_mpa_frame_decode(&frame, VB_MPA_REQUEST, siw_request, sizeof(siw_request) - 1));
	assert_int_equal(frame.revision, 2);
	assert_true(frame.enhanced && frame.peer_to_peer && frame.rtr_write && frame.rtr_read);
	assert_false(frame.crc || frame.markers || frame.reject || frame.large || frame.rtr_send);
	assert_int_equal(frame.ird, 1);
	assert_int_equal(frame.ord, 1);
	assert_int_equal(frame.private_length, 0);
	assert_int_equal(vb_mpa_frame_encode(&frame, bytes), sizeof(siw_request) - 1);
	assert_memory_equal(bytes, siw_request, sizeof(siw_request) - 1);

	assert_true(vb_mpa_frame_decode(&frame, VB_MPA_REPLY, siw_reply, sizeof(siw_reply) - 1));
	assert_true(frame.rtr_write && !frame.rtr_read);
	assert_int_equal(frame.private_length, 3);
	assert_memory_equal(frame.private_data, "abc", 3);
	assert_int_equal(vb_mpa_frame_encode(&frame, bytes), sizeof(siw_reply) - 1);
	assert_memory_equal(bytes, siw_reply, sizeof(siw_reply) - 1);
}

/* Each bit of the fourth word, and the others, is a field of its own. */
static void every_bit_returns(void **state)
{
	(void)state;
	for (unsigned bits = 0; bits < 1u << 11; bits++) {
		struct vb_mpa_frame frame = {
			.kind = bits & 1 ? VB_MPA_REPLY : VB_MPA_REQUEST,
			.revision = 2,
			.markers = bits & 2, .crc = bits & 4, .reject = bits & 1 && bits & 8, .enhanced = bits & 16, .large = bits & 32,
			.half_close = bits & 1024,
			.peer_to_peer = bits & 16 && bits & 64, .rtr_send = bits & 16 && bits & 128,
			.rtr_write = bits & 16 && bits & 256, .rtr_read = bits & 16 && bits & 512,
			.ird = bits & 16 ? 0x2a5b : 0, .ord = bits & 16 ? 0x3fff : 0,
			.private_length = 1, .private_data = {0x77},
		}, again;
		uint8_t bytes[VB_MPA_MAX_FRAME], twice[VB_MPA_MAX_FRAME];
		size_t length = vb_mpa_frame_encode(&frame, bytes);

		assert_int_equal(length, 21 + (bits & 16 ? 4 : 0));
		assert_true(vb_mpa_frame_decode(&again, frame.kind, bytes, length));
		assert_int_equal(vb_mpa_frame_encode(&again, twice), length);
		assert_memory_equal(twice, bytes, length);
	}
}

static void the_length_is_told_as_early_as_it_is_known(void **state)
{
	(void)state;
	for (size_t there = 0; there < 20; there++)
		assert_int_equal(vb_mpa_frame_length(VB_MPA_REQUEST, siw_request, there), 20);
	for (size_t there = 20; there <= 24; there++)
		assert_int_equal(vb_mpa_frame_length(VB_MPA_REQUEST, siw_request, there), 24);
}

static void what_is_no_frame_is_refused(void **state)
{
	struct vb_mpa_frame frame;
	uint8_t bytes[VB_MPA_MAX_FRAME + 1] = {0};

	(void)state;
	/* Any wrong byte of the key, as soon as it is there. */
	for (unsigned i = 0; i < 16; i++) {
		memcpy(bytes, siw_request, 24);
		bytes[i] ^= 1;
		assert_int_equal(vb_mpa_frame_length(VB_MPA_REQUEST, bytes, i + 1), 0);
		assert_false(vb_mpa_frame_decode(&frame, VB_MPA_REQUEST, bytes, 24));
	}
	assert_int_equal(vb_mpa_frame_length(VB_MPA_REPLY, siw_request, 24), 0);
	/* Too short, too long. */
	for (size_t length = 0; length < 24; length++)
		assert_false(vb_mpa_frame_decode(&frame, VB_MPA_REQUEST, siw_request, length));
	memcpy(bytes, siw_request, 24);
	bytes[18] = 2, bytes[19] = 1; /* 513 */
	assert_int_equal(vb_mpa_frame_length(VB_MPA_REQUEST, bytes, 20), 0);
	bytes[19] = 0; /* 512 */
	assert_int_equal(vb_mpa_frame_length(VB_MPA_REQUEST, bytes, 20), 532);
	assert_true(vb_mpa_frame_decode(&frame, VB_MPA_REQUEST, bytes, 532));
	assert_int_equal(frame.private_length, 508);
	/* Enhanced, and no room for it. */
	for (uint8_t data = 0; data < 4; data++) {
		bytes[18] = 0, bytes[19] = data;
		assert_int_equal(vb_mpa_frame_length(VB_MPA_REQUEST, bytes, 20), 0);
		assert_false(vb_mpa_frame_decode(&frame, VB_MPA_REQUEST, bytes, 20u + data));
	}
	/* Revisions: 1 and 2, and enhanced ones only 2. */
	for (unsigned revision = 0; revision < 256; revision++) {
		memcpy(bytes, siw_request, 24);
		bytes[17] = (uint8_t)revision;
		assert_int_equal(vb_mpa_frame_decode(&frame, VB_MPA_REQUEST, bytes, 24), revision == 2);
		bytes[16] = 0;
		assert_int_equal(vb_mpa_frame_decode(&frame, VB_MPA_REQUEST, bytes, 24), revision == 1 || revision == 2);
	}
	/* R means nothing in a request. */
	memcpy(bytes, siw_request, 24);
	bytes[16] |= 0x20;
	assert_true(vb_mpa_frame_decode(&frame, VB_MPA_REQUEST, bytes, 24));
	assert_false(frame.reject);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(siw_is_understood),
		cmocka_unit_test(every_bit_returns),
		cmocka_unit_test(the_length_is_told_as_early_as_it_is_known),
		cmocka_unit_test(what_is_no_frame_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
