/* SPDX-License-Identifier: MIT */
#include "preload/sockets/token.h"

#include <string.h>
#include <sys/random.h>

size_t vb_token_find(const uint8_t token[VB_TOKEN], const uint8_t *bytes, size_t length, bool *found)
{
	const uint8_t *at = memmem(bytes, length, token, VB_TOKEN);
	size_t tail = length < VB_TOKEN - 1 ? length : VB_TOKEN - 1;

	*found = at != NULL;
	if (at != NULL)
		return (size_t)(at - bytes);
	while (tail > 0 && memcmp(bytes + length - tail, token, tail) != 0)
		tail--;
	return length - tail;
}

bool vb_token_make(uint8_t token[VB_TOKEN])
{
	static const uint8_t none[VB_TOKEN];

	return getrandom(token, VB_TOKEN, 0) == VB_TOKEN && memcmp(token, none, VB_TOKEN) != 0;
}
