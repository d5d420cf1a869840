/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "preload/sockets/filter.h"

static bool admits(const char *text, uint16_t port)
{
	struct vb_sockets_filter filter;

	assert_true(vb_sockets_filter_parse(&filter, text));
	return vb_sockets_filter_admits(&filter, port);
}

static void ports_are_chosen(void **state)
{
	(void)state;
	assert_true(admits("all", 22));
	assert_true(admits("1", 22));
	assert_true(admits("6379", 6379));
	assert_false(admits("6379", 6380));
	assert_true(admits("6379,8000-8999", 8000));
	assert_true(admits("6379,8000-8999", 8999));
	assert_false(admits("6379,8000-8999", 9000));
	assert_false(admits("!22", 22));
	assert_true(admits("!22", 23));
	assert_false(admits("!22,80-90", 85));
	assert_true(admits("0-65535", 65535));
}

static void others_are_refused(void **state)
{
	static const char *const bad[] = {"", "!", "http", "65536", "1-", "-1", "1,", ",1", "1,,2", "1 ,2", "1-2-3",
					  "99999999999999999999"};
	struct vb_sockets_filter filter;
	char many[512] = "1";

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(vb_sockets_filter_parse(&filter, bad[i]));
	for (unsigned i = 1; i < VB_SOCKETS_RANGES; i++)
		strcat(many, ",2");
	assert_true(vb_sockets_filter_parse(&filter, many));
	strcat(many, ",2");
	assert_false(vb_sockets_filter_parse(&filter, many));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ports_are_chosen),
		cmocka_unit_test(others_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
