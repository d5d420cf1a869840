/* SPDX-License-Identifier: MIT
 *
 * An input that is read as a program: each step takes as many bytes as it needs, and zeros when they are used up.
 */
#ifndef VB_TESTS_FUZZ_INPUT_H
#define VB_TESTS_FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>

struct fuzz_input {
	const uint8_t *bytes;
	size_t left;
};

/* A number of so many bytes, the first of them the highest. */
static inline uint32_t fuzz_take(struct fuzz_input *input, unsigned bytes)
{
	uint32_t value = 0;

	for (; bytes > 0 && input->left > 0; bytes--, input->left--)
		value = value << 8 | *input->bytes++;
	return value;
}

#endif
