/* SPDX-License-Identifier: MIT
 *
 * The opcode table, recomputed from a list typed independently: by opcode, the header bytes as IBA 9.4's figures add
 * them up, and one letter for each property.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "wire/roce_opcode.h"

/* f m l o: first middle last only. P: payload. Q: request. R: consumes a receive. C: completes one. */
struct expectation {
	uint8_t code;
	const char *name, *properties;
	enum vb_roce_kind kind;
	int header_length;
};

static const struct expectation list[] = {
	{0, "RC_SEND_FIRST", "fPQR", VB_KIND_SEND, 12},
	{1, "RC_SEND_MIDDLE", "mPQ", VB_KIND_SEND, 12},
	{2, "RC_SEND_LAST", "lPQC", VB_KIND_SEND, 12},
	{3, "RC_SEND_LAST_WITH_IMMEDIATE", "lPQC", VB_KIND_SEND, 16},
	{4, "RC_SEND_ONLY", "oPQRC", VB_KIND_SEND, 12},
	{5, "RC_SEND_ONLY_WITH_IMMEDIATE", "oPQRC", VB_KIND_SEND, 16},
	{6, "RC_RDMA_WRITE_FIRST", "fPQ", VB_KIND_WRITE, 28},
	{7, "RC_RDMA_WRITE_MIDDLE", "mPQ", VB_KIND_WRITE, 12},
	{8, "RC_RDMA_WRITE_LAST", "lPQ", VB_KIND_WRITE, 12},
	{9, "RC_RDMA_WRITE_LAST_WITH_IMMEDIATE", "lPQRC", VB_KIND_WRITE, 16},
	{10, "RC_RDMA_WRITE_ONLY", "oPQ", VB_KIND_WRITE, 28},
	{11, "RC_RDMA_WRITE_ONLY_WITH_IMMEDIATE", "oPQRC", VB_KIND_WRITE, 32},
	{12, "RC_RDMA_READ_REQUEST", "oQ", VB_KIND_READ_REQUEST, 28},
	{13, "RC_RDMA_READ_RESPONSE_FIRST", "fP", VB_KIND_READ_RESPONSE, 16},
	{14, "RC_RDMA_READ_RESPONSE_MIDDLE", "mP", VB_KIND_READ_RESPONSE, 12},
	{15, "RC_RDMA_READ_RESPONSE_LAST", "lP", VB_KIND_READ_RESPONSE, 16},
	{16, "RC_RDMA_READ_RESPONSE_ONLY", "oP", VB_KIND_READ_RESPONSE, 16},
	{17, "RC_ACKNOWLEDGE", "o", VB_KIND_ACKNOWLEDGE, 16},
	{18, "RC_ATOMIC_ACKNOWLEDGE", "o", VB_KIND_ATOMIC_ACKNOWLEDGE, 24},
	{19, "RC_COMPARE_SWAP", "oQ", VB_KIND_ATOMIC_CMP_SWP, 40},
	{20, "RC_FETCH_ADD", "oQ", VB_KIND_ATOMIC_FETCH_ADD, 40},
	{22, "RC_SEND_LAST_WITH_INVALIDATE", "lPQC", VB_KIND_SEND, 16},
	{23, "RC_SEND_ONLY_WITH_INVALIDATE", "oPQRC", VB_KIND_SEND, 16},
	{29, "RC_ATOMIC_WRITE", "oPQ", VB_KIND_ATOMIC_WRITE, 28},
	{32, "UC_SEND_FIRST", "fPQR", VB_KIND_SEND, 12},
	{33, "UC_SEND_MIDDLE", "mPQ", VB_KIND_SEND, 12},
	{34, "UC_SEND_LAST", "lPQC", VB_KIND_SEND, 12},
	{35, "UC_SEND_LAST_WITH_IMMEDIATE", "lPQC", VB_KIND_SEND, 16},
	{36, "UC_SEND_ONLY", "oPQRC", VB_KIND_SEND, 12},
	{37, "UC_SEND_ONLY_WITH_IMMEDIATE", "oPQRC", VB_KIND_SEND, 16},
	{38, "UC_RDMA_WRITE_FIRST", "fPQ", VB_KIND_WRITE, 28},
	{39, "UC_RDMA_WRITE_MIDDLE", "mPQ", VB_KIND_WRITE, 12},
	{40, "UC_RDMA_WRITE_LAST", "lPQ", VB_KIND_WRITE, 12},
	{41, "UC_RDMA_WRITE_LAST_WITH_IMMEDIATE", "lPQRC", VB_KIND_WRITE, 16},
	{42, "UC_RDMA_WRITE_ONLY", "oPQ", VB_KIND_WRITE, 28},
	{43, "UC_RDMA_WRITE_ONLY_WITH_IMMEDIATE", "oPQRC", VB_KIND_WRITE, 32},
	{100, "UD_SEND_ONLY", "oPQRC", VB_KIND_SEND, 20},
	{101, "UD_SEND_ONLY_WITH_IMMEDIATE", "oPQRC", VB_KIND_SEND, 24},
	{129, "CNP_NOTIFICATION", "o", VB_KIND_CNP, 28},
	{160, "XRC_SEND_FIRST", "fPQR", VB_KIND_SEND, 16},
	{161, "XRC_SEND_MIDDLE", "mPQ", VB_KIND_SEND, 16},
	{162, "XRC_SEND_LAST", "lPQC", VB_KIND_SEND, 16},
	{163, "XRC_SEND_LAST_WITH_IMMEDIATE", "lPQC", VB_KIND_SEND, 20},
	{164, "XRC_SEND_ONLY", "oPQRC", VB_KIND_SEND, 16},
	{165, "XRC_SEND_ONLY_WITH_IMMEDIATE", "oPQRC", VB_KIND_SEND, 20},
	{166, "XRC_RDMA_WRITE_FIRST", "fPQ", VB_KIND_WRITE, 32},
	{167, "XRC_RDMA_WRITE_MIDDLE", "mPQ", VB_KIND_WRITE, 16},
	{168, "XRC_RDMA_WRITE_LAST", "lPQ", VB_KIND_WRITE, 16},
	{169, "XRC_RDMA_WRITE_LAST_WITH_IMMEDIATE", "lPQRC", VB_KIND_WRITE, 20},
	{170, "XRC_RDMA_WRITE_ONLY", "oPQ", VB_KIND_WRITE, 32},
	{171, "XRC_RDMA_WRITE_ONLY_WITH_IMMEDIATE", "oPQRC", VB_KIND_WRITE, 36},
	{172, "XRC_RDMA_READ_REQUEST", "oQ", VB_KIND_READ_REQUEST, 32},
	{173, "XRC_RDMA_READ_RESPONSE_FIRST", "fP", VB_KIND_READ_RESPONSE, 16},
	{174, "XRC_RDMA_READ_RESPONSE_MIDDLE", "mP", VB_KIND_READ_RESPONSE, 12},
	{175, "XRC_RDMA_READ_RESPONSE_LAST", "lP", VB_KIND_READ_RESPONSE, 16},
	{176, "XRC_RDMA_READ_RESPONSE_ONLY", "oP", VB_KIND_READ_RESPONSE, 16},
	{177, "XRC_ACKNOWLEDGE", "o", VB_KIND_ACKNOWLEDGE, 16},
	{178, "XRC_ATOMIC_ACKNOWLEDGE", "o", VB_KIND_ATOMIC_ACKNOWLEDGE, 24},
	{179, "XRC_COMPARE_SWAP", "oQ", VB_KIND_ATOMIC_CMP_SWP, 44},
	{180, "XRC_FETCH_ADD", "oQ", VB_KIND_ATOMIC_FETCH_ADD, 44},
	{182, "XRC_SEND_LAST_WITH_INVALIDATE", "lPQC", VB_KIND_SEND, 20},
	{183, "XRC_SEND_ONLY_WITH_INVALIDATE", "oPQRC", VB_KIND_SEND, 20},
	{192, "VENDOR_FLOW_PROBE", "o", VB_KIND_FLOW_PROBE, 20},
	{193, "VENDOR_FLOW_REPORT", "o", VB_KIND_FLOW_REPORT, 16},
};

enum { DEFINED = sizeof(list) / sizeof(list[0]) };

static const struct expectation *expected(unsigned code)
{
	for (unsigned i = 0; i < DEFINED; i++)
		if (list[i].code == code)
			return &list[i];
	return NULL;
}

static void each_row_is_as_listed(void **state)
{
	static const char positions[] = "fmlo";

	(void)state;
	for (unsigned code = 0; code < 256; code++) {
		const struct vb_roce_opcode *op = vb_roce_opcode((uint8_t)code);
		const struct expectation *e = expected(code);

		assert_non_null(op);
		if (!e) {
			assert_null(op->name);
			continue;
		}
		assert_string_equal(op->name, e->name);
		assert_int_equal(op->service, code & 0xe0);
		assert_int_equal(op->kind, e->kind);
		assert_int_equal(positions[op->position], e->properties[0]);
		assert_int_equal(op->header_length, e->header_length);
		assert_int_equal(op->carries_payload, strchr(e->properties, 'P') != NULL);
		assert_int_equal(op->is_request, strchr(e->properties, 'Q') != NULL);
		assert_int_equal(op->consumes_receive, strchr(e->properties, 'R') != NULL);
		assert_int_equal(op->makes_completion, strchr(e->properties, 'C') != NULL);
	}
}

/* Which headers, said by the names: the specification's names mention every one that is optional. */
static void headers_follow_from_the_name(void **state)
{
	(void)state;
	for (unsigned i = 0; i < DEFINED; i++) {
		const char *name = list[i].name;
		const struct vb_roce_opcode *op = vb_roce_opcode(list[i].code);
		unsigned headers = 0;

		/* Ours: a probe says who asks, a report how much may be under way. */
		if (strncmp(name, "UD_", 3) == 0 || strstr(name, "FLOW_PROBE"))
			headers |= VB_HEADER_DETH;
		/* A14: in every request, and in no answer. */
		if (strncmp(name, "XRC_", 4) == 0 && strchr(list[i].properties, 'Q'))
			headers |= VB_HEADER_XRCETH;
		if (strstr(name, "WRITE_FIRST") || strstr(name, "WRITE_ONLY") || strstr(name, "READ_REQUEST") ||
		    strstr(name, "ATOMIC_WRITE"))
			headers |= VB_HEADER_RETH;
		if (strstr(name, "COMPARE_SWAP") || strstr(name, "FETCH_ADD"))
			headers |= VB_HEADER_ATOMIC_ETH;
		if (strstr(name, "ACKNOWLEDGE") || (strstr(name, "READ_RESPONSE") && !strstr(name, "MIDDLE")))
			headers |= VB_HEADER_AETH;
		if (strstr(name, "ATOMIC_ACKNOWLEDGE"))
			headers |= VB_HEADER_ATOMIC_ACK_ETH;
		if (strstr(name, "WITH_IMMEDIATE") || strstr(name, "FLOW_REPORT"))
			headers |= VB_HEADER_IMMEDIATE;
		if (strstr(name, "WITH_INVALIDATE"))
			headers |= VB_HEADER_IETH;
		if (strncmp(name, "CNP", 3) == 0)
			headers |= VB_HEADER_CNP_RESERVED;
		assert_int_equal(op->headers, headers);
	}
}

static void every_opcode_can_be_found(void **state)
{
	(void)state;
	for (unsigned i = 0; i < DEFINED; i++) {
		const struct vb_roce_opcode *op = vb_roce_opcode(list[i].code);

		assert_int_equal(vb_roce_opcode_find(op->service, op->kind, op->position,
						     op->headers & (VB_HEADER_IMMEDIATE | VB_HEADER_IETH)),
				 list[i].code);
	}
}

static void what_is_not_there_is_not_found(void **state)
{
	(void)state;
	assert_int_equal(vb_roce_opcode_find(VB_SERVICE_UC, VB_KIND_SEND, VB_POSITION_ONLY, VB_HEADER_IETH), -1);
	assert_int_equal(vb_roce_opcode_find(VB_SERVICE_UC, VB_KIND_READ_REQUEST, VB_POSITION_ONLY, 0), -1);
	assert_int_equal(vb_roce_opcode_find(VB_SERVICE_UD, VB_KIND_WRITE, VB_POSITION_ONLY, 0), -1);
	assert_int_equal(vb_roce_opcode_find(VB_SERVICE_UD, VB_KIND_SEND, VB_POSITION_FIRST, 0), -1);
	assert_int_equal(vb_roce_opcode_find(VB_SERVICE_RC, VB_KIND_SEND, VB_POSITION_FIRST, VB_HEADER_IMMEDIATE), -1);
	assert_int_equal(vb_roce_opcode_find(VB_SERVICE_RC, VB_KIND_SEND, VB_POSITION_ONLY,
					     VB_HEADER_IMMEDIATE | VB_HEADER_IETH), -1);
	assert_int_equal(vb_roce_opcode_find(VB_SERVICE_RC, VB_KIND_CNP, VB_POSITION_ONLY, 0), -1);
}

static void positions_start_and_end(void **state)
{
	(void)state;
	assert_true(vb_position_is_start(VB_POSITION_FIRST) && vb_position_is_start(VB_POSITION_ONLY));
	assert_false(vb_position_is_start(VB_POSITION_MIDDLE) || vb_position_is_start(VB_POSITION_LAST));
	assert_true(vb_position_is_end(VB_POSITION_LAST) && vb_position_is_end(VB_POSITION_ONLY));
	assert_false(vb_position_is_end(VB_POSITION_MIDDLE) || vb_position_is_end(VB_POSITION_FIRST));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_row_is_as_listed),
		cmocka_unit_test(headers_follow_from_the_name),
		cmocka_unit_test(every_opcode_can_be_found),
		cmocka_unit_test(what_is_not_there_is_not_found),
		cmocka_unit_test(positions_start_and_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
