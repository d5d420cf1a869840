/* SPDX-License-Identifier: MIT
 *
 * Characters of text that comes from others: names of processes, of interfaces, of nodes, of captures.
 */
#ifndef VB_BASE_UTF8_H
#define VB_BASE_UTF8_H

#include <stddef.h>

/* The bytes of the character that begins here, or 0: it is none that a document may hold (RFC 3629; XML 1.0, 2.2), or one of the control
 * characters U+0080 to U+009F, which a document should not: terminals obey them. */
static inline size_t vb_utf8_length(const char *text)
{
	const unsigned char *at = (const unsigned char *)text;
	/* After some first bytes the second has bounds of its own: outside them it is too long a way to write the
	 * character, half of one (a surrogate), or none of Unicode. */
	unsigned char low = at[0] == 0xe0 ? 0xa0 : at[0] == 0xf0 ? 0x90 : 0x80;
	unsigned char high = at[0] == 0xed ? 0x9f : at[0] == 0xf4 ? 0x8f : 0xbf;
	size_t length = at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;

	if (at[0] < 0x80)
		return at[0] >= ' ' && at[0] != 0x7f;
	if (at[0] < 0xc2 || at[0] > 0xf4 || at[1] < low || at[1] > high || (at[0] == 0xc2 && at[1] < 0xa0))
		return 0;
	for (size_t i = 2; i < length; i++)
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	return at[0] == 0xef && at[1] == 0xbf && at[2] >= 0xbe ? 0 : length;
}

#endif
