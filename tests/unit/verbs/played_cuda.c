/* SPDX-License-Identifier: MIT
 *
 * A CUDA driver with one allocation, for test_gpu.c on machines without a GPU: the calls that the library makes,
 * as strict about contexts and streams as the real one. Its memory has an address where nothing may be read or
 * written, so that whoever does not ask the driver is ended by a signal.
 */
#include "played_cuda.h"

#include <string.h>
#include <sys/mman.h>

#define EXPORT __attribute__((visibility("default")))

enum { GOOD = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_CONTEXT = 201, INVALID_HANDLE = 400 };
enum { CONTEXT = 1, MEMORY_TYPE = 2, DEVICE_ORDINAL = 9, RANGE_START = 11, RANGE_SIZE = 12 };
enum { ORDINAL = 3, DEVICE = 103 };

static char own_context, primary_context, some_stream;
static uint64_t start;
static size_t size;
static uint8_t *bytes;
static int without_context, without_streams;
static unsigned streams, retained, copies; /* atomic */
static __thread void *current;
static __thread int capture_mode;

static int is_inside(uint64_t pointer, size_t length)
{
	return bytes && pointer >= start && pointer - start < size && length <= size - (pointer - start);
}

EXPORT int cuPointerGetAttribute(void *value, int attribute, uint64_t pointer)
{
	if (!is_inside(pointer, 1))
		return INVALID_VALUE;
	switch (attribute) {
	case CONTEXT:
		*(void **)value = without_context ? NULL : &own_context;
		return GOOD;
	case MEMORY_TYPE:
		*(unsigned *)value = 2;
		return GOOD;
	case DEVICE_ORDINAL:
		*(int *)value = ORDINAL;
		return GOOD;
	case RANGE_START:
		*(uint64_t *)value = start;
		return GOOD;
	case RANGE_SIZE:
		*(size_t *)value = size;
		return GOOD;
	default:
		return INVALID_VALUE;
	}
}

EXPORT int cuPointerSetAttribute(const void *value, int attribute, uint64_t pointer)
{
	return attribute == 6 && *(const unsigned *)value == 1 && is_inside(pointer, 1) ? GOOD : INVALID_VALUE;
}

EXPORT int cuDeviceGet(int *device, int ordinal)
{
	*device = DEVICE;
	return ordinal == ORDINAL ? GOOD : INVALID_VALUE;
}

EXPORT int cuDevicePrimaryCtxRetain(void **context, int device)
{
	if (device != DEVICE)
		return INVALID_VALUE;
	*context = &primary_context;
	__atomic_fetch_add(&retained, 1, __ATOMIC_SEQ_CST);
	return GOOD;
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int device)
{
	if (device != DEVICE)
		return INVALID_VALUE;
	__atomic_fetch_sub(&retained, 1, __ATOMIC_SEQ_CST);
	return GOOD;
}

EXPORT int cuCtxPushCurrent_v2(void *context)
{
	if (current || context != (without_context ? &primary_context : &own_context))
		return INVALID_CONTEXT;
	current = context;
	return GOOD;
}

EXPORT int cuCtxPopCurrent_v2(void **context)
{
	*context = current;
	current = NULL;
	return *context ? GOOD : INVALID_CONTEXT;
}

EXPORT int cuThreadExchangeStreamCaptureMode(int *mode)
{
	int before = capture_mode;

	capture_mode = *mode;
	*mode = before;
	return GOOD;
}

EXPORT int cuStreamCreate(void **stream, unsigned flags)
{
	if (!current || flags != 1)
		return INVALID_CONTEXT;
	if (without_streams)
		return OUT_OF_MEMORY;
	*stream = &some_stream;
	__atomic_fetch_add(&streams, 1, __ATOMIC_SEQ_CST);
	return GOOD;
}

EXPORT int cuStreamDestroy_v2(void *stream)
{
	if (!current || stream != &some_stream)
		return INVALID_HANDLE;
	__atomic_fetch_sub(&streams, 1, __ATOMIC_SEQ_CST);
	return GOOD;
}

EXPORT int cuStreamSynchronize(void *stream)
{
	return current && stream == &some_stream ? GOOD : INVALID_HANDLE;
}

static int may_copy(uint64_t pointer, size_t length, const void *stream)
{
	if (!current || capture_mode != 2 || stream != &some_stream)
		return INVALID_CONTEXT;
	__atomic_fetch_add(&copies, 1, __ATOMIC_SEQ_CST);
	return is_inside(pointer, length) ? GOOD : INVALID_VALUE;
}

EXPORT int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t length, void *stream)
{
	int result = may_copy(to, length, stream);

	if (result == GOOD)
		memcpy(bytes + (to - start), from, length);
	return result;
}

EXPORT int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t length, void *stream)
{
	int result = may_copy(from, length, stream);

	if (result == GOOD)
		memcpy(to, bytes + (from - start), length);
	return result;
}

/* ---- the test's ---- */

static uint64_t allocate(size_t length, uint8_t **view)
{
	void *place = mmap(NULL, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *behind = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (place == MAP_FAILED || behind == MAP_FAILED)
		return 0;
	start = (uint64_t)(uintptr_t)place;
	size = length;
	*view = bytes = behind;
	return start;
}

static void free_it(void)
{
	munmap((void *)(uintptr_t)start, size);
	munmap(bytes, size);
	bytes = NULL;
}

static unsigned count_streams(void)
{
	return __atomic_load_n(&streams, __ATOMIC_SEQ_CST);
}

static unsigned count_retained(void)
{
	return __atomic_load_n(&retained, __ATOMIC_SEQ_CST);
}

static unsigned count_copies(void)
{
	return __atomic_load_n(&copies, __ATOMIC_SEQ_CST);
}

static void play(int no_context, int no_stream)
{
	without_context = no_context;
	without_streams = no_stream;
}

EXPORT extern const struct played_cuda played_cuda;
const struct played_cuda played_cuda = {allocate, free_it, count_streams, count_retained, count_copies, play};
