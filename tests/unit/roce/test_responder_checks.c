/* SPDX-License-Identifier: MIT
 *
 * Which packet may follow which, and how long each may be: every opcode against every state of a message.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "roce/engine.h"

static void sequence_of_opcodes(void **state)
{
	/* RC opcodes that continue a SEND and a WRITE, by number; all other requests are starts. */
	static const uint8_t continues_send[] = {0x01, 0x02, 0x03, 0x16};
	static const uint8_t continues_write[] = {0x07, 0x08, 0x09};

	(void)state;
	for (unsigned code = 0; code < 0x20; code++) {
		const struct vb_roce_opcode *op = vb_roce_opcode((uint8_t)code);
		bool send = false, write = false;

		if (!op->name || !op->is_request)
			continue;
		for (unsigned i = 0; i < sizeof(continues_send); i++)
			send |= continues_send[i] == code;
		for (unsigned i = 0; i < sizeof(continues_write); i++)
			write |= continues_write[i] == code;
		for (int underway = VB_UNDERWAY_NOTHING; underway <= VB_UNDERWAY_WRITE; underway++) {
			struct vb_roce_responder responder = {.underway = (enum vb_roce_underway)underway};
			bool expected = underway == VB_UNDERWAY_SEND  ? send :
					underway == VB_UNDERWAY_WRITE ? write :
									!send && !write;

			assert_int_equal(vb_roce_check_sequence(&responder, op), expected);
		}
	}
}

static bool length_is_good(uint8_t opcode, uint32_t payload, uint32_t said, uint32_t before)
{
	struct {
		struct vb_qp qp;
		struct vb_roce_engine engine;
	} *whole = calloc(1, sizeof(*whole));
	struct vb_roce_packet packet = {.opcode = opcode, .op = vb_roce_opcode(opcode), .payload_length = payload};
	struct vb_fault_record why = {0};
	bool good;

	assert_non_null(whole);
	vb_roce_engine(&whole->qp)->mtu = 1024;
	vb_roce_engine(&whole->qp)->responder.write_length = said;
	vb_roce_engine(&whole->qp)->responder.received = before;
	packet.reth.length = said;
	good = vb_roce_check_length(&whole->qp, &packet, &why);
	assert_int_equal(good, why.fault == VB_FAULT_NONE);
	free(whole);
	return good;
}

static void lengths_of_packets(void **state)
{
	(void)state;
	/* SEND: first, middle, last, only */
	assert_true(length_is_good(0x00, 1024, 0, 0));
	assert_false(length_is_good(0x00, 1023, 0, 0));
	assert_false(length_is_good(0x00, 1025, 0, 0));
	assert_true(length_is_good(0x01, 1024, 0, 0));
	assert_false(length_is_good(0x01, 0, 0, 0));
	/* IBA 9.7.2: no message is longer than 2^31 bytes, and nobody says beforehand how long a SEND will be */
	assert_true(length_is_good(0x01, 1024, 0, (1u << 31) - 1024));
	assert_false(length_is_good(0x01, 1024, 0, (1u << 31) - 1023));
	assert_false(length_is_good(0x01, 1024, 0, 1u << 31));
	assert_true(length_is_good(0x02, 1, 0, (1u << 31) - 1));
	assert_false(length_is_good(0x02, 1, 0, 1u << 31));
	assert_false(length_is_good(0x02, 1024, 0, UINT32_MAX - 1023));
	assert_true(length_is_good(0x00, 1024, 0, UINT32_MAX));
	assert_true(length_is_good(0x02, 1, 0, 0));
	assert_true(length_is_good(0x02, 1024, 0, 0));
	assert_false(length_is_good(0x02, 0, 0, 0));
	assert_false(length_is_good(0x02, 1025, 0, 0));
	assert_true(length_is_good(0x04, 0, 0, 0));
	assert_true(length_is_good(0x04, 1024, 0, 0));
	assert_false(length_is_good(0x04, 1025, 0, 0));
}

static void lengths_of_writes(void **state)
{
	(void)state;
	/* first: there must be more to come */
	assert_true(length_is_good(0x06, 1024, 1025, 0));
	assert_false(length_is_good(0x06, 1024, 1024, 0));
	assert_false(length_is_good(0x06, 1024, 100, 0));
	assert_true(length_is_good(0x06, 1024, 0x80000000, 0));
	assert_false(length_is_good(0x06, 1024, 0x80000001, 0));
	/* middle, last */
	assert_true(length_is_good(0x07, 1024, 3000, 1024));
	assert_false(length_is_good(0x07, 1024, 2048, 1024));
	assert_true(length_is_good(0x08, 976, 2000, 1024));
	assert_false(length_is_good(0x08, 975, 2000, 1024));
	assert_false(length_is_good(0x08, 977, 2000, 1024));
	/* only */
	assert_true(length_is_good(0x0a, 0, 0, 0));
	assert_true(length_is_good(0x0a, 17, 17, 0));
	assert_false(length_is_good(0x0a, 17, 18, 0));
	assert_false(length_is_good(0x0a, 17, 16, 0));
	/* reads carry nothing and may ask for 2^31 bytes */
	assert_true(length_is_good(0x0c, 0, 0x80000000, 0));
	assert_false(length_is_good(0x0c, 0, 0x80000001, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sequence_of_opcodes),
		cmocka_unit_test(lengths_of_packets),
		cmocka_unit_test(lengths_of_writes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
