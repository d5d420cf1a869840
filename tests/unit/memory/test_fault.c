/* SPDX-License-Identifier: MIT
 *
 * Every fault has a name and a sentence of its own; the first record is kept.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "memory/fault.h"

static void every_fault_has_its_own_words(void **state)
{
	(void)state;
	for (int i = 0; i < VB_FAULT_COUNT; i++) {
		assert_non_null(vb_fault_name((enum vb_fault)i));
		assert_true(strlen(vb_fault_sentence((enum vb_fault)i)) > 5);
		for (int j = 0; j < i; j++) {
			assert_string_not_equal(vb_fault_name((enum vb_fault)i), vb_fault_name((enum vb_fault)j));
			assert_string_not_equal(vb_fault_sentence((enum vb_fault)i),
						vb_fault_sentence((enum vb_fault)j));
		}
	}
	assert_string_equal(vb_fault_name(VB_FAULT_PD_MISMATCH), "PD_MISMATCH");
	assert_string_equal(vb_fault_name((enum vb_fault)VB_FAULT_COUNT), "UNKNOWN");
	assert_non_null(vb_fault_sentence((enum vb_fault)-1));
}

static void the_first_fault_is_kept(void **state)
{
	struct vb_fault_record kept = {0}, first = {.fault = VB_FAULT_RANGE, .key = 1};
	struct vb_fault_record second = {.fault = VB_FAULT_BIND};

	(void)state;
	vb_fault_keep(&kept, &first);
	vb_fault_keep(&kept, &second);
	assert_int_equal(kept.fault, VB_FAULT_RANGE);
	assert_int_equal(kept.key, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_fault_has_its_own_words),
		cmocka_unit_test(the_first_fault_is_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
