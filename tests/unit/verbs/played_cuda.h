/* SPDX-License-Identifier: MIT
 *
 * libcuda.so.1, played: what test_gpu.c sees of it beyond the driver's own names. The real one is tried by
 * tests/applications/gpu/run.
 */
#ifndef TESTS_PLAYED_CUDA_H
#define TESTS_PLAYED_CUDA_H

#include <stddef.h>
#include <stdint.h>

struct played_cuda {
	/* Memory at an address that the processor cannot touch; *view is where the test looks at it. */
	uint64_t (*allocate)(size_t length, uint8_t **view);
	void (*free)(void);
	unsigned (*streams)(void);       /* that exist */
	unsigned (*retained)(void);      /* times that the primary context was retained and not released */
	unsigned (*copies)(void);
	void (*play)(int no_context, int no_stream); /* memory belongs to no context; streams cannot be had */
};

#endif
