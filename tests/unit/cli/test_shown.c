/* SPDX-License-Identifier: MIT
 *
 * What others have written, on its way to a terminal: nothing that a terminal obeys gets there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/shown.h"

static const struct {
	const char *text, *line, *lines;
} cases[] = {
	{"", "", ""},
	{"ibv_rc_pingpong 100 %s \\x1b", "ibv_rc_pingpong 100 %s \\x1b", "ibv_rc_pingpong 100 %s \\x1b"},
	{"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x90\xa7", "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x90\xa7",
	 "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x90\xa7"},
	{"\033]0;title\a\033[2Jx", "\\x1b]0;title\\x07\\x1b[2Jx", "\\x1b]0;title\\x07\\x1b[2Jx"},
	{"over\rwritten\b\x7f\v\f", "over\\x0dwritten\\x08\\x7f\\x0b\\x0c", "over\\x0dwritten\\x08\\x7f\\x0b\\x0c"},
	{"two\n\tlines", "two\\x0a\\x09lines", "two\n\tlines"},
	/* CSI as one character of eight bits, and the same in UTF-8. */
	{"\x9b" "31m \xc2\x9b" "31m \xc2\xa0", "\\x9b31m \\xc2\\x9b31m \xc2\xa0", "\\x9b31m \\xc2\\x9b31m \xc2\xa0"},
	/* Right to left, and back; a line separator. */
	{"a\xe2\x80\xae" "b\xe2\x81\xa9 \xe2\x80\xa8.", "a\\xe2\\x80\\xaeb\\xe2\\x81\\xa9 \\xe2\\x80\\xa8.",
	 "a\\xe2\\x80\\xaeb\\xe2\\x81\\xa9 \\xe2\\x80\\xa8."},
	/* Half of a character, too long a way to write one, half of a pair. */
	{"\xe2\x82", "\\xe2\\x82", "\\xe2\\x82"},
	{"\xc0\x9b \xed\xa0\x80", "\\xc0\\x9b \\xed\\xa0\\x80", "\\xc0\\x9b \\xed\\xa0\\x80"},
};

static void is_shown(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char out[VB_CLI_SHOWN_ROOM(64)], *lines = NULL;
		size_t length = 0;
		FILE *file = open_memstream(&lines, &length);

		assert_string_equal(vb_cli_shown(cases[i].text, out, sizeof(out)), cases[i].line);
		assert_non_null(file);
		vb_cli_show_lines(file, cases[i].text);
		assert_int_equal(fclose(file), 0);
		assert_string_equal(lines, cases[i].lines);
		free(lines);
	}
}

/* Every byte, alone: what comes out is printable. */
static void any_byte(void **state)
{
	(void)state;
	for (unsigned byte = 1; byte < 256; byte++) {
		const char text[] = {(char)byte, '\0'};
		char out[VB_CLI_SHOWN_ROOM(1)];

		vb_cli_shown(text, out, sizeof(out));
		for (const char *at = out; *at; at++)
			assert_true(*at >= ' ' && *at < 0x7f);
		assert_int_equal(strlen(out), byte >= ' ' && byte < 0x7f ? 1 : 4);
	}
}

static void ends_with_its_room(void **state)
{
	char out[8];

	(void)state;
	assert_string_equal(vb_cli_shown("1234567890", out, sizeof(out)), "1234567");
	assert_string_equal(vb_cli_shown("12345\xe2\x82\xac", out, sizeof(out)), "12345");
	assert_string_equal(vb_cli_shown("123\033x", out, sizeof(out)), "123\\x1b");
	assert_string_equal(vb_cli_shown("1234\033x", out, sizeof(out)), "1234");
	assert_string_equal(vb_cli_shown("x", out, 1), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_shown),
		cmocka_unit_test(any_byte),
		cmocka_unit_test(ends_with_its_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
