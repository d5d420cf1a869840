/* SPDX-License-Identifier: MIT
 *
 * What a fuzz target is: libFuzzer's entry point, so that the same file runs under clang's libFuzzer and under
 * mutate.c with any compiler.
 */
#ifndef VB_TESTS_FUZZ_TARGET_H
#define VB_TESTS_FUZZ_TARGET_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length);

/* Like assert, but never compiled out. */
#define FUZZ_CHECK(condition)                                                                     \
	do {                                                                                      \
		if (!(condition)) {                                                               \
			fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
			abort();                                                                  \
		}                                                                                 \
	} while (0)

#endif
