/* SPDX-License-Identifier: MIT */
#include "markup.h"

#include <string.h>

#include "target.h"

/* How many bytes follow the first one of a character, or -1: it begins none (RFC 3629, as far as a picture needs it). */
static int following(unsigned char first)
{
	if (first < 0x80)
		return 0;
	if (first < 0xc2 || first > 0xf4)
		return -1;
	return first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
}

void markup_check_characters(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		int more = following((unsigned char)text[i]);

		FUZZ_CHECK(more >= 0);
		FUZZ_CHECK((unsigned char)text[i] >= ' ' || text[i] == '\n');
		for (; more > 0; more--)
			FUZZ_CHECK(((unsigned char)text[++i] & 0xc0) == 0x80);
	}
}

void markup_check(const char *text, size_t length)
{
	const char *open[32];
	size_t depth = 0;

	markup_check_characters(text, length);
	for (const char *at = text; (at = strchr(at, '<')) != NULL;) {
		const char *name = at + 1, *end = strchr(at, '>');

		FUZZ_CHECK(end != NULL && !memchr(name, '<', (size_t)(end - name)));
		if (*name == '/') {
			FUZZ_CHECK(depth > 0);
			depth--;
			FUZZ_CHECK(strncmp(open[depth], name + 1, (size_t)(end - name - 1)) == 0);
		} else if (*name != '!' && end[-1] != '/') {
			FUZZ_CHECK(depth < sizeof(open) / sizeof(open[0]));
			open[depth++] = name;
		}
		at = end;
	}
	FUZZ_CHECK(depth == 0);
	FUZZ_CHECK(strstr(text, "\"nan") == NULL && strstr(text, "\"-nan") == NULL && strstr(text, "\"inf") == NULL);
}
