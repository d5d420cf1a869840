/* SPDX-License-Identifier: MIT
 *
 * A token in a stream, wherever reads cut it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "preload/sockets/token.h"

static const uint8_t token[VB_TOKEN] = "abababcdabababce";

static void check(const char *text, size_t length, size_t before, bool expected)
{
	bool found = !expected;

	assert_int_equal(vb_token_find(token, (const uint8_t *)text, length, &found), before);
	assert_int_equal(found, expected);
}

static void it_is_found_between_data(void **state)
{
	(void)state;
	check("abababcdabababce", 16, 0, true);
	check("xyzabababcdabababce", 19, 3, true);
	check("xyzabababcdabababcerest", 23, 3, true);
	/* Its own beginning before it. */
	check("ababababcdabababce", 18, 2, true);
}

static void without_it_all_is_data(void **state)
{
	(void)state;
	check("", 0, 0, false);
	check("some other bytes", 16, 16, false);
	check("abababcdabababcX", 16, 16, false);
}

static void its_beginning_is_held_back(void **state)
{
	static const char stream[] = "textabababcdabababce";

	(void)state;
	for (size_t length = 4; length < sizeof(stream) - 1; length++)
		check(stream, length, 4, false);
	check("a", 1, 0, false);
	check("cdab", 4, 2, false);
	check("ababab", 6, 0, false);
	/* The longest that could be one, not the shortest. */
	check("xabababcdab", 11, 1, false);
}

static void each_is_another(void **state)
{
	uint8_t one[VB_TOKEN], other[VB_TOKEN];

	(void)state;
	assert_true(vb_token_make(one));
	assert_true(vb_token_make(other));
	assert_memory_not_equal(one, other, sizeof(one));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_found_between_data),
		cmocka_unit_test(without_it_all_is_data),
		cmocka_unit_test(its_beginning_is_held_back),
		cmocka_unit_test(each_is_another),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
