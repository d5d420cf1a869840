/* SPDX-License-Identifier: MIT
 *
 * Credit codes against the specification's table, typed again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "roce/engine.h"

/* IBA table 46 */
static const uint32_t table[31] = {
	0,   1,   2,   3,    4,    6,	 8,    12,   16,   24,	 32,	48,    64,    96,    128,  192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
};

static void codes_are_those_of_the_table(void **state)
{
	(void)state;
	for (uint8_t code = 0; code < 31; code++)
		assert_int_equal(vb_roce_credits_decode(code), table[code]);
}

/* Never promise more than there is. */
static void numbers_are_rounded_down(void **state)
{
	(void)state;
	for (uint32_t receives = 0; receives < 40000; receives++) {
		uint8_t code = vb_roce_credits_encode(receives);

		assert_true(code <= 30);
		assert_true(table[code] <= receives);
		assert_true(code == 30 || table[code + 1] > receives);
	}
}

static void shared_queues_say_nothing(void **state)
{
	struct vb_qp qp = {.srq = (struct vb_srq *)&qp};

	(void)state;
	assert_int_equal(vb_roce_acknowledge_syndrome(&qp), 0x1f);
	qp.srq = NULL;
	assert_int_equal(vb_roce_acknowledge_syndrome(&qp), 0);
	qp.receive.head = 100;
	assert_int_equal(vb_roce_acknowledge_syndrome(&qp), 13);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(codes_are_those_of_the_table),
		cmocka_unit_test(numbers_are_rounded_down),
		cmocka_unit_test(shared_queues_say_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
