/* SPDX-License-Identifier: MIT
 *
 * As much of cmocka's interface as the unit tests of base and wire use, for machines that have no cmocka: the cross
 * builds of tests/wire-cross.sh. The first failure ends the program.
 */
#ifndef VB_TESTS_PORTABLE_CMOCKA_H
#define VB_TESTS_PORTABLE_CMOCKA_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
	const char *name;
	void (*function)(void **state);
};

#define cmocka_unit_test(function) {#function, function}

#define print_message(...) printf(__VA_ARGS__)

#define portable_fail(...)                                                   \
	(fprintf(stderr, "%s:%d: ", __FILE__, __LINE__),                     \
	 fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), exit(1))

#define portable_check(condition) ((condition) ? (void)0 : portable_fail("%s does not hold", #condition))

#define fail_msg(...) portable_fail(__VA_ARGS__)
#define assert_true(a) portable_check(a)
#define assert_false(a) portable_check(!(a))
#define assert_null(a) portable_check((a) == NULL)
#define assert_non_null(a) portable_check((a) != NULL)
#define assert_int_equal(a, b) portable_check((unsigned long long)(a) == (unsigned long long)(b))
#define assert_int_not_equal(a, b) portable_check((unsigned long long)(a) != (unsigned long long)(b))
#define assert_ptr_equal(a, b) portable_check((const void *)(a) == (const void *)(b))
#define assert_string_equal(a, b) portable_check(strcmp(a, b) == 0)
#define assert_string_not_equal(a, b) portable_check(strcmp(a, b) != 0)
#define assert_ptr_not_equal(a, b) portable_check((const void *)(a) != (const void *)(b))
#define assert_in_range(a, low, high) portable_check((a) >= (low) && (a) <= (high))
#define assert_memory_not_equal(a, b, length) portable_check(memcmp(a, b, length) != 0)
#define assert_memory_equal(a, b, length) portable_check(memcmp(a, b, length) == 0)

#define cmocka_run_group_tests(tests, setup, teardown) portable_run(tests, sizeof(tests) / sizeof((tests)[0]))

static inline int portable_run(const struct CMUnitTest *tests, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		printf("%s\n", tests[i].name);
		tests[i].function(&(void *){NULL});
	}
	return 0;
}

#endif
