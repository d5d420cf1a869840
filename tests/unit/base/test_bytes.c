/* SPDX-License-Identifier: MIT
 *
 * Big-endian fields, lists and times: the header-only parts of the base room.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/counters.h"
#include "base/list.h"
#include "base/time.h"

static void fields_stand_in_network_order(void **state)
{
	struct be16 two = be16_of(0x0102);
	struct be24 three = be24_of(0xff010203);
	struct be32 four = be32_of(0x01020384);
	struct be64 eight = be64_of(0x81020304050607f8);

	(void)state;
	assert_memory_equal(&two, "\x01\x02", 2);
	assert_memory_equal(&three, "\x01\x02\x03", 3);
	assert_memory_equal(&four, "\x01\x02\x03\x84", 4);
	assert_memory_equal(&eight, "\x81\x02\x03\x04\x05\x06\x07\xf8", 8);
	assert_int_equal(sizeof(two) + sizeof(three) + sizeof(four) + sizeof(eight), 17);
	assert_int_equal(_Alignof(struct be64), 1);
}

static void fields_come_back(void **state)
{
	static const uint64_t values[] = {0, 1, 0x7f, 0x80, 0xff, 0xffff, 0x8000, 0x800000, 0xffffff,
					  0x80000000, 0xffffffff, 0x0123456789abcdef, 0x8000000000000000, UINT64_MAX};

	(void)state;
	for (unsigned i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		assert_int_equal(be16_get(be16_of((uint16_t)values[i])), (uint16_t)values[i]);
		assert_int_equal(be24_get(be24_of((uint32_t)values[i])), values[i] & 0xffffff);
		assert_int_equal(be32_get(be32_of((uint32_t)values[i])), (uint32_t)values[i]);
		assert_true(be64_get(be64_of(values[i])) == values[i]);
	}
}

struct item {
	int number;
	struct vb_list node;
};

static void list_keeps_order_and_survives_removal(void **state)
{
	struct vb_list head;
	struct item items[5];
	int seen = 0, order[5];

	(void)state;
	vb_list_init(&head);
	assert_true(vb_list_is_empty(&head));
	for (int i = 0; i < 5; i++) {
		items[i].number = i;
		vb_list_append(&head, &items[i].node);
	}
	VB_LIST_FOR_EACH(node, &head) {
		struct item *item = vb_container_of(node, struct item, node);

		order[seen++] = item->number;
		if (item->number % 2)
			vb_list_remove(node);
	}
	assert_int_equal(seen, 5);
	for (int i = 0; i < 5; i++)
		assert_int_equal(order[i], i);
	vb_list_remove(&items[1].node); /* twice is harmless */
	seen = 0;
	VB_LIST_FOR_EACH(node, &head)
		seen++;
	assert_int_equal(seen, 3);
	vb_list_remove(&items[0].node);
	vb_list_remove(&items[2].node);
	vb_list_remove(&items[4].node);
	assert_true(vb_list_is_empty(&head));
}

static void times_are_nanoseconds(void **state)
{
	(void)state;
	assert_true(VB_MICROSECONDS(4) == VB_NANOSECONDS(4000));
	assert_true(VB_SECONDS(9) == VB_MILLISECONDS(9000));
	assert_true(VB_SECONDS(1000000000) == INT64_C(1000000000000000000));
	assert_true(vb_time_earlier(VB_TIME_NEVER, 5) == 5);
	assert_true(vb_time_earlier(-1, 5) == -1);
}

static void counters_count(void **state)
{
	struct vb_counters counters = {0};

	(void)state;
	VB_COUNT(&counters, sent_pkts);
	VB_COUNT_MANY(&counters, sent_pkts, 41);
	VB_COUNT(&counters, icrc_error);
	assert_true(counters.sent_pkts == 42 && counters.icrc_error == 1 && counters.rcvd_pkts == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fields_stand_in_network_order),
		cmocka_unit_test(fields_come_back),
		cmocka_unit_test(list_keeps_order_and_survives_removal),
		cmocka_unit_test(times_are_nanoseconds),
		cmocka_unit_test(counters_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
