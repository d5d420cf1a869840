/* SPDX-License-Identifier: MIT
 *
 * See toeplitz.h.
 */
#include "wire/toeplitz.h"

#include <assert.h>

uint32_t vb_toeplitz(const uint8_t key[VB_TOEPLITZ_KEY], const uint8_t *input, size_t length)
{
	uint32_t window = (uint32_t)key[0] << 24 | (uint32_t)key[1] << 16 | (uint32_t)key[2] << 8 | key[3], hash = 0;

	assert(length <= VB_TOEPLITZ_INPUT);
	for (size_t i = 0; i < length; i++) {
		for (int bit = 7; bit >= 0; bit--) {
			hash ^= window & -(uint32_t)(input[i] >> bit & 1);
			window = window << 1 | (key[i + 4] >> bit & 1u);
		}
	}
	return hash;
}
