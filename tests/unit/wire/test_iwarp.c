/* SPDX-License-Identifier: MIT
 *
 * The layouts of iWARP as the RFCs draw them, typed here a second time: FPDU, DDP header, the bodies of RDMAP messages, the table of
 * opcodes, TERMINATE in both forms.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/crc32c.h"
#include "wire/ddp.h"
#include "wire/fpdu.h"
#include "wire/rdmap_opcode.h"
#include "wire/terminate.h"

static void fpdu_lengths(void **state)
{
	(void)state;
	/* A multiple of four, with the CRC in its last four bytes. */
	for (uint32_t ulpdu = 0; ulpdu < 1000; ulpdu++) {
		assert_int_equal(vb_fpdu_length(ulpdu) % 4, 0);
		assert_true(vb_fpdu_pad(ulpdu) <= 3);
		assert_int_equal(vb_fpdu_length(ulpdu), 2 + ulpdu + vb_fpdu_pad(ulpdu) + 4);
	}
	assert_int_equal(vb_fpdu_length(14), 20);
	assert_int_equal(vb_fpdu_length(VB_FPDU_LONGEST_ULPDU), VB_FPDU_LONGEST);
	/* RFC 5044 5.1: EMSS - (6 + 4 * ceiling(EMSS / 512) + EMSS mod 4) with markers; without them no more than this. */
	assert_int_equal(vb_fpdu_mulpdu(1448), 1442);
	assert_int_equal(vb_fpdu_mulpdu(1460), 1454);
	assert_int_equal(vb_fpdu_mulpdu(1461), 1454);
	assert_int_equal(vb_fpdu_mulpdu(0), VB_MULPDU_LEAST);
	assert_int_equal(vb_fpdu_mulpdu(129), VB_MULPDU_LEAST);
	assert_int_equal(vb_fpdu_mulpdu(UINT32_MAX), VB_MULPDU_MOST);
	for (uint32_t emss = 200; emss < 64000; emss += 7)
		assert_true(vb_fpdu_length(vb_fpdu_mulpdu(emss)) <= emss);
}

static void fpdu_trailer(void **state)
{
	uint8_t bytes[8];

	(void)state;
	assert_int_equal(vb_fpdu_put_trailer(bytes, 3, 0x12345678, false), 7);
	assert_memory_equal(bytes, "\0\0\0\0\0\0\0", 7);
	assert_int_equal(vb_fpdu_put_trailer(bytes, 14, 0x12345678, true), 4);
	assert_memory_equal(bytes, "\x78\x56\x34\x12", 4);
	assert_int_equal(vb_fpdu_get_crc(bytes), 0x12345678);
	/* The zeros are part of what is covered. */
	vb_fpdu_put_trailer(bytes, 15, vb_crc32c(0, "\0\x0f" "abc", 5), true);
	assert_int_equal(vb_fpdu_get_crc(bytes + 3), vb_crc32c(0, "\0\x0f" "abc\0\0\0", 8));
	vb_fpdu_put_length(bytes, 0xfedc);
	assert_memory_equal(bytes, "\xfe\xdc", 2);
	assert_int_equal(vb_fpdu_get_length(bytes), 0xfedc);
}

static void tagged_header(void **state)
{
	static const uint8_t expected[14] = {0xc1, 0x42, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
	struct vb_ddp_header header = vb_ddp_header_of(VB_RDMAP_READ_RESPONSE, true), again;
	uint8_t bytes[14];

	(void)state;
	header.stag = 0x01020304;
	header.offset = UINT64_C(0x05060708090a0b0c);
	assert_int_equal(vb_ddp_encode(&header, bytes), 14);
	assert_memory_equal(bytes, expected, 14);
	assert_true(vb_ddp_decode(&again, bytes, 14));
	assert_int_equal(again.offset, header.offset);
	assert_int_equal(again.stag, header.stag);
	assert_true(again.tagged && again.last);
	for (size_t length = 0; length < 14; length++)
		assert_false(vb_ddp_decode(&again, bytes, length));
}

static void untagged_header(void **state)
{
	static const uint8_t expected[18] = {0x01, 0x44, 1, 2, 3, 4, 0, 0, 0, 0, 5, 6, 7, 8, 9, 10, 11, 12};
	struct vb_ddp_header header = vb_ddp_header_of(VB_RDMAP_SEND_INVALIDATE, false), again;
	uint8_t bytes[18];

	(void)state;
	header.stag = 0x01020304;
	header.msn = 0x05060708;
	header.mo = 0x090a0b0c;
	assert_int_equal(vb_ddp_encode(&header, bytes), 18);
	assert_memory_equal(bytes, expected, 18);
	assert_true(vb_ddp_decode(&again, bytes, 18));
	assert_int_equal(again.msn, header.msn);
	assert_int_equal(again.mo, header.mo);
	assert_false(again.tagged || again.last);
	for (size_t length = 0; length < 18; length++)
		assert_false(vb_ddp_decode(&again, bytes, length));
	/* All sixteen bits of the control field come back. */
	for (uint32_t control = 0; control < 0x10000; control++) {
		bytes[0] = (uint8_t)(control >> 8 & 0x7f);
		bytes[1] = (uint8_t)control;
		assert_true(vb_ddp_decode(&again, bytes, 18));
		{
			uint8_t out[18];

			vb_ddp_encode(&again, out);
			assert_memory_equal(out, bytes, 18);
		}
	}
}

static void bodies(void **state)
{
	struct vb_rdmap_read read = {.sink_stag = 0x01020304, .sink_offset = UINT64_C(0x05060708090a0b0c), .size = 0x0d0e0f10,
				     .source_stag = 0x11121314, .source_offset = UINT64_C(0x15161718191a1b1c)}, read_again;
	struct vb_rdmap_atomic atomic = {.operation = 2, .id = 0x05060708, .stag = 0x090a0b0c, .offset = UINT64_C(0x0d0e0f1011121314),
					 .add_or_swap = UINT64_C(0x15161718191a1b1c), .add_or_swap_mask = UINT64_C(0x1d1e1f2021222324),
					 .compare = UINT64_C(0x25262728292a2b2c), .compare_mask = UINT64_C(0x2d2e2f3031323334)};
	struct vb_rdmap_atomic atomic_again;
	struct vb_rdmap_atomic_response response = {0x01020304, UINT64_C(0x05060708090a0b0c)}, response_again;
	uint8_t bytes[64], expected[64];

	(void)state;
	for (unsigned i = 0; i < sizeof(expected); i++)
		expected[i] = (uint8_t)(i + 1);
	vb_rdmap_read_encode(&read, bytes);
	assert_memory_equal(bytes, expected, VB_RDMAP_READ_LENGTH);
	vb_rdmap_read_decode(&read_again, bytes);
	assert_int_equal(read_again.source_offset, read.source_offset);
	assert_int_equal(read_again.size, read.size);
	vb_rdmap_atomic_encode(&atomic, bytes);
	assert_memory_equal(bytes, "\0\0\0\2", 4);
	assert_memory_equal(bytes + 4, expected + 4, VB_RDMAP_ATOMIC_LENGTH - 4);
	bytes[0] = 0xff; /* reserved */
	vb_rdmap_atomic_decode(&atomic_again, bytes);
	assert_int_equal(atomic_again.operation, 2);
	assert_int_equal(atomic_again.compare_mask, atomic.compare_mask);
	vb_rdmap_atomic_response_encode(&response, bytes);
	assert_memory_equal(bytes, expected, VB_RDMAP_ATOMIC_RESPONSE_LENGTH);
	vb_rdmap_atomic_response_decode(&response_again, bytes);
	assert_int_equal(response_again.original, response.original);
}

/* RFC 5040 figure 4 and RFC 7306 4.1 again. */
static void opcode_table(void **state)
{
	static const struct {
		const char *name;
		bool tagged, solicited, invalidates, payload;
		uint8_t queue, header;
	} rows[16] = {
		{"WRITE", true, false, false, true, 0, 14},
		{"READ_REQUEST", false, false, false, false, 1, 46},
		{"READ_RESPONSE", true, false, false, true, 0, 14},
		{"SEND", false, false, false, true, 0, 18},
		{"SEND_INVALIDATE", false, false, true, true, 0, 18},
		{"SEND_SOLICITED", false, true, false, true, 0, 18},
		{"SEND_SOLICITED_INVALIDATE", false, true, true, true, 0, 18},
		{"TERMINATE", false, false, false, false, 2, 22},
		{"IMMEDIATE", false, false, false, false, 0, 26},
		{"IMMEDIATE_SOLICITED", false, true, false, false, 0, 26},
		{"ATOMIC_REQUEST", false, false, false, false, 1, 70},
		{"ATOMIC_RESPONSE", false, false, false, false, 3, 30},
	};

	(void)state;
	for (uint8_t i = 0; i < 16; i++) {
		const struct vb_rdmap_opcode *op = vb_rdmap_opcode(i);

		if (!rows[i].name) {
			assert_null(op->name);
			continue;
		}
		assert_string_equal(op->name, rows[i].name);
		assert_int_equal(op->tagged, rows[i].tagged);
		assert_int_equal(op->solicited, rows[i].solicited);
		assert_int_equal(op->invalidates, rows[i].invalidates);
		assert_int_equal(op->carries_payload, rows[i].payload);
		assert_int_equal(op->queue, rows[i].queue);
		assert_int_equal(op->header_length, rows[i].header);
		assert_int_equal(op->extended, i > 7);
		assert_true(op->header_length <= VB_RDMAP_LONGEST_HEADER);
	}
	assert_int_equal(vb_rdmap_send(false, false), VB_RDMAP_SEND);
	assert_int_equal(vb_rdmap_send(false, true), VB_RDMAP_SEND_INVALIDATE);
	assert_int_equal(vb_rdmap_send(true, false), VB_RDMAP_SEND_SOLICITED);
	assert_int_equal(vb_rdmap_send(true, true), VB_RDMAP_SEND_SOLICITED_INVALIDATE);
}

static struct vb_terminate decoded(uint8_t first, uint8_t code, uint8_t bits, bool is_first)
{
	uint8_t body[VB_TERMINATE_MOST] = {first, code, bits};
	struct vb_terminate terminate;

	assert_true(vb_terminate_decode(&terminate, body, sizeof(body), is_first));
	return terminate;
}

/* Whose form it is, where bits say so and where only the code can. */
static void terminate_forms(void **state)
{
	static const struct {
		uint8_t first, code, bits;
		bool is_first, by_siw;
		uint16_t cause;
	} rows[] = {
		{0x12, 0x05, 0xc0, false, false, 0x1205}, /* DDP, untagged, too long */
		{0x21, 0x02, 0x03, false, true, 0x1202},  /* siw's */
		{0x01, 0x00, 0xe0, false, false, 0x0100}, {0x10, 0x00, 0x07, false, true, 0x0100},
		{0x11, 0x00, 0xc0, false, false, 0x1100}, {0x11, 0x00, 0x03, false, true, 0x1100},
		{0x20, 0x02, 0x00, false, false, 0x2002}, {0x20, 0x03, 0x00, false, false, 0x2003}, /* MPA: CRC, length */
		{0x20, 0x06, 0x00, true, false, 0x2006},  /* MPA, of a stream that has just begun */
		{0x20, 0x06, 0x00, false, true, 0x0206},  /* siw: unexpected opcode */
		{0x02, 0x06, 0x00, false, false, 0x0206}, {0x02, 0x02, 0x00, false, true, 0x2002}, {0x02, 0x05, 0x00, false, false, 0x0205},
		{0x00, 0xff, 0x00, false, false, 0x00ff},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct vb_terminate terminate = decoded(rows[i].first, rows[i].code, rows[i].bits, rows[i].is_first);

		assert_int_equal(terminate.by_siw, rows[i].by_siw);
		assert_int_equal(terminate.cause.v, rows[i].cause);
		assert_null(strstr(vb_terminate_layer_name(terminate.cause), "without"));
		assert_null(strstr(vb_terminate_type_name(terminate.cause), "without"));
		assert_null(strstr(vb_terminate_code_name(terminate.cause), "without"));
	}
	assert_string_equal(vb_terminate_code_name((struct vb_terminate_cause){0x9999}), "a code without a name");
	assert_string_equal(vb_terminate_type_name((struct vb_terminate_cause){0x9999}), "an error without a name");
	assert_string_equal(vb_terminate_layer_name((struct vb_terminate_cause){0x9999}), "a layer without a name");
}

static void terminate_round_trip(void **state)
{
	(void)state;
	for (unsigned variant = 0; variant < 16; variant++) {
		struct vb_terminate terminate = {.cause = vb_terminate_cause(1, 2, 5), .by_siw = variant & 1, .has_length = variant & 2,
						 .has_header = variant & 4, .has_read = variant & 8};
		struct vb_terminate again;
		uint8_t body[VB_TERMINATE_MOST];
		size_t length;

		terminate.header = vb_ddp_header_of(VB_RDMAP_READ_REQUEST, true);
		terminate.segment_length = terminate.has_length || terminate.has_header ? 0x1234 : 0;
		terminate.read.size = terminate.has_read ? 99 : 0;
		length = vb_terminate_encode(&terminate, body);
		assert_int_equal(length, 4u + (variant & 6 ? 2u : 0u) + (variant & 4 ? 18u : 0u) + (variant & 8 ? 28u : 0u));
		assert_true(vb_terminate_decode(&again, body, length, false));
		assert_int_equal(again.segment_length, terminate.segment_length);
		assert_int_equal(again.read.size, terminate.read.size);
		assert_int_equal(again.has_header, terminate.has_header);
		for (size_t cut = 0; cut < length; cut++)
			assert_false(vb_terminate_decode(&again, body, cut, false));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fpdu_lengths), cmocka_unit_test(fpdu_trailer), cmocka_unit_test(tagged_header),
		cmocka_unit_test(untagged_header), cmocka_unit_test(bodies), cmocka_unit_test(opcode_table),
		cmocka_unit_test(terminate_forms), cmocka_unit_test(terminate_round_trip),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
