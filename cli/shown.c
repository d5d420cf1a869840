/* SPDX-License-Identifier: MIT */
#include "cli/shown.h"

#include <stdbool.h>
#include <string.h>

#include "base/utf8.h"

enum { ESCAPED = 4 };                      /* \xNN */

/* U+200E, U+200F, U+2028 to U+202E, U+2066 to U+2069: directions, and separators that begin a line. */
static bool turns_direction(const char *text)
{
	const unsigned char *at = (const unsigned char *)text;

	return at[0] == 0xe2 && ((at[1] == 0x80 && (at[2] == 0x8e || at[2] == 0x8f || (at[2] >= 0xa8 && at[2] <= 0xae))) ||
				 (at[1] == 0x81 && at[2] >= 0xa6 && at[2] <= 0xa9));
}

/* The bytes of a character that may be shown as it is; 0: there is none. */
static size_t length_of(const char *text)
{
	return turns_direction(text) ? 0 : vb_utf8_length(text);
}

const char *vb_cli_shown(const char *text, char *out, size_t room)
{
	size_t used = 0;

	while (*text) {
		size_t length = length_of(text), needed = length ? length : ESCAPED;

		if (used + needed >= room)
			break;
		if (length)
			memcpy(out + used, text, length);
		else
			snprintf(out + used, room - used, "\\x%02x", (unsigned char)*text);
		used += needed;
		text += length ? length : 1;
	}
	out[used] = '\0';
	return out;
}

void vb_cli_show_lines(FILE *out, const char *text)
{
	for (size_t length; *text; text += length ? length : 1) {
		length = length_of(text);
		if (length)
			fwrite(text, 1, length, out);
		else if (*text == '\n' || *text == '\t')
			fputc(*text, out);
		else
			fprintf(out, "\\x%02x", (unsigned char)*text);
	}
}
