/* SPDX-License-Identifier: MIT
 *
 * getrandom(2). Not buffered: a buffer would be shared with a forked child, and the data path draws no numbers.
 */
#include "io/random.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

void vb_random_bytes(void *out, size_t length)
{
	uint8_t *at = out;

	while (length > 0) {
		ssize_t got = getrandom(at, length, 0);

		if (got < 0 && errno == EINTR)
			continue;
		/* Only a kernel without getrandom fails here, and guessable keys would be worse than stopping. */
		if (got <= 0)
			abort();
		at += got;
		length -= (size_t)got;
	}
}

uint32_t vb_random_u32(void)
{
	uint32_t v;

	vb_random_bytes(&v, sizeof(v));
	return v;
}

uint64_t vb_random_u64(void)
{
	uint64_t v;

	vb_random_bytes(&v, sizeof(v));
	return v;
}
