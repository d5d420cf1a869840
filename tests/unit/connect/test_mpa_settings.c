/* SPDX-License-Identifier: MIT
 *
 * VERBENA_IWARP: every word, and words that are none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "connect/mpa_settings.h"

static struct vb_mpa_settings settings;
static char why[32];

static bool parse(const char *text)
{
	why[0] = '\0';
	return vb_mpa_settings_parse(&settings, text, why, sizeof(why));
}

static void nothing_said_is_the_default(void **state)
{
	static const char *const nothing[] = {NULL, "", ",", ",,"};

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		assert_true(parse(nothing[i]));
		assert_int_equal(settings.crc, VB_MPA_AUTO);
		assert_int_equal(settings.large, VB_MPA_AUTO);
		assert_false(settings.peer_to_peer);
		assert_int_equal(settings.first_ms, 100);
		assert_int_equal(settings.last_ms, 100);
		assert_false(settings.extensions);
	}
}

static void every_word_counts(void **state)
{
	(void)state;
	assert_true(parse("crc=on,fpdu=large,p2p=on,first=7,last=9,extensions=on"));
	assert_int_equal(settings.crc, VB_MPA_ON);
	assert_int_equal(settings.large, VB_MPA_ON);
	assert_true(settings.peer_to_peer);
	assert_int_equal(settings.first_ms, 7);
	assert_int_equal(settings.last_ms, 9);
	assert_true(settings.extensions);
	assert_true(parse("crc=off,fpdu=segment,p2p=off,first=strict"));
	assert_int_equal(settings.crc, VB_MPA_OFF);
	assert_int_equal(settings.large, VB_MPA_OFF);
	assert_false(settings.peer_to_peer);
	assert_int_equal(settings.first_ms, -1);
	assert_true(parse("crc=on,crc=auto,fpdu=auto,first=0"));
	assert_int_equal(settings.crc, VB_MPA_AUTO);
	assert_int_equal(settings.first_ms, 0);
}

static void what_is_not_understood_is_named(void **state)
{
	static const char *const wrong[] = {"crc", "crc=", "crc=yes", "fpdu=on", "p2p=auto", "first=", "first=-1", "first=1s",
					    "first=60001", "first=99999999999999999999",
					    "last=strict", "last=60001", "extensions", "extensions=auto", "=on"};

	(void)state;
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_false(parse(wrong[i]));
		assert_string_equal(why, wrong[i]);
		assert_int_equal(settings.first_ms, 100);
	}
	/* The others count. */
	assert_false(parse("crc=on,nonsense,p2p=on"));
	assert_string_equal(why, "nonsense");
	assert_int_equal(settings.crc, VB_MPA_ON);
	assert_true(settings.peer_to_peer);
	assert_false(parse("a-word-that-is-longer-than-any-that-could-be-understood-in-this-place=on"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_said_is_the_default),
		cmocka_unit_test(every_word_counts),
		cmocka_unit_test(what_is_not_understood_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
