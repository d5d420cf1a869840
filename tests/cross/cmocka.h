/* SPDX-License-Identifier: MIT
 *
 * As much of cmocka's interface as the unit tests of src/base and src/wire use, for machines whose cmocka Debian does
 * not install beside ours. Prints what cmocka prints; the first failed assertion ends the program.
 */
#ifndef VB_TESTS_CROSS_CMOCKA_H
#define VB_TESTS_CROSS_CMOCKA_H

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
	const char *name;
	void (*test_func)(void **state);
	int (*setup_func)(void **state);
	int (*teardown_func)(void **state);
	void *initial_state;
};

#define cmocka_unit_test(f) { #f, f, NULL, NULL, NULL }
#define cmocka_unit_test_setup_teardown(f, setup, teardown) { #f, f, setup, teardown, NULL }
#define cmocka_unit_test_prestate(f, state) { #f, f, NULL, NULL, state }
#define cmocka_run_group_tests(tests, setup, teardown) \
	run_group(tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown)
#define cmocka_run_group_tests_name(name, tests, setup, teardown) cmocka_run_group_tests(tests, setup, teardown)

static const char *running_test = "";

static inline void __attribute__((noreturn, format(printf, 3, 4))) stop_test(const char *file, int line, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fprintf(stderr, "%s:%d: ", file, line);
	vfprintf(stderr, format, arguments);
	fprintf(stderr, "\n[  FAILED  ] %s\n", running_test);
	va_end(arguments);
	exit(1);
}

static inline int run_group(const struct CMUnitTest *tests, size_t count, int (*setup)(void **), int (*teardown)(void **))
{
	void *group_state = NULL;

	if (setup && setup(&group_state) != 0)
		return 1;
	for (size_t i = 0; i < count; i++) {
		void *state = tests[i].initial_state ? tests[i].initial_state : group_state;

		running_test = tests[i].name;
		printf("[ RUN      ] %s\n", running_test);
		fflush(stdout);
		if (tests[i].setup_func && tests[i].setup_func(&state) != 0)
			stop_test(__FILE__, __LINE__, "setup failed");
		tests[i].test_func(&state);
		if (tests[i].teardown_func && tests[i].teardown_func(&state) != 0)
			stop_test(__FILE__, __LINE__, "teardown failed");
		printf("[       OK ] %s\n", running_test);
	}
	return teardown ? teardown(&group_state) : 0;
}

#define print_message printf
#define fail_msg(...) stop_test(__FILE__, __LINE__, __VA_ARGS__)
#define fail() stop_test(__FILE__, __LINE__, "fail()")
#define assert_true(c) ((c) ? (void)0 : stop_test(__FILE__, __LINE__, "not true: %s", #c))
#define assert_false(c) assert_true(!(c))
#define assert_null(p) assert_true((p) == NULL)
#define assert_non_null(p) assert_true((p) != NULL)
#define assert_ptr_equal(a, b) assert_true((const void *)(a) == (const void *)(b))
#define assert_ptr_not_equal(a, b) assert_true((const void *)(a) != (const void *)(b))
#define assert_string_equal(a, b) assert_true(strcmp(a, b) == 0)
#define assert_string_not_equal(a, b) assert_true(strcmp(a, b) != 0)
#define assert_memory_equal(a, b, n) assert_true(memcmp(a, b, n) == 0)
#define assert_memory_not_equal(a, b, n) assert_true(memcmp(a, b, n) != 0)
#define assert_in_range(v, low, high) assert_true((uint64_t)(v) >= (uint64_t)(low) && (uint64_t)(v) <= (uint64_t)(high))
#define assert_return_code(rc, error) assert_true((rc) >= 0)
#define assert_int_not_equal(a, b) assert_true((uint64_t)(a) != (uint64_t)(b))
#define assert_int_equal(a, b)                                                                              \
	do {                                                                                                \
		uint64_t left_ = (uint64_t)(a), right_ = (uint64_t)(b);                                     \
                                                                                                            \
		if (left_ != right_)                                                                        \
			stop_test(__FILE__, __LINE__, "%s is 0x%llx, %s is 0x%llx", #a, (unsigned long long)left_, #b, \
				  (unsigned long long)right_);                                              \
	} while (0)

#endif
