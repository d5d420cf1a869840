/* SPDX-License-Identifier: MIT
 *
 * The names, versions and numbers are those of the CUDA driver interface (cuda.h), which keeps them: a program
 * that was built years ago runs with today's library.
 *
 * Every call but the questions about pointers needs a current context, and threads have one each: it is pushed
 * before and popped after. So is the mode in which a thread is held responsible for streams that others record
 * (graphs): without it a copy here would spoil a recording there.
 */
#include "io/cuda.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

enum {
	SUCCESS = 0,
	MEMORY_TYPE_DEVICE = 2,
	STREAM_NON_BLOCKING = 1,
	CAPTURE_MODE_RELAXED = 2,

	POINTER_CONTEXT = 1,
	POINTER_MEMORY_TYPE = 2,
	POINTER_SYNC_MEMOPS = 6,
	POINTER_DEVICE_ORDINAL = 9,
	POINTER_RANGE_START = 11,
	POINTER_RANGE_SIZE = 12,
};

/* Applications poll on the last bytes. */
enum { TAIL = 8 };

#define NEEDED(X)                                                                                      \
	X(cuPointerGetAttribute, (void *value, int attribute, uint64_t pointer))                       \
	X(cuDeviceGet, (int *device, int ordinal))                                                     \
	X(cuDevicePrimaryCtxRetain, (void **context, int device))                                      \
	X(cuDevicePrimaryCtxRelease_v2, (int device))                                                  \
	X(cuCtxPushCurrent_v2, (void *context))                                                        \
	X(cuCtxPopCurrent_v2, (void **context))                                                        \
	X(cuStreamCreate, (void **stream, unsigned flags))                                             \
	X(cuStreamSynchronize, (void *stream))                                                         \
	X(cuStreamDestroy_v2, (void *stream))                                                          \
	X(cuMemcpyHtoDAsync_v2, (uint64_t to, const void *from, size_t length, void *stream))          \
	X(cuMemcpyDtoHAsync_v2, (void *to, uint64_t from, size_t length, void *stream))

/* Older drivers lack these, and what they are for. */
#define WANTED(X)                                                                                      \
	X(cuPointerSetAttribute, (const void *value, int attribute, uint64_t pointer))                 \
	X(cuThreadExchangeStreamCaptureMode, (int *mode))

struct driver {
#define MEMBER(name, arguments) int (*name) arguments;
	NEEDED(MEMBER)
	WANTED(MEMBER)
#undef MEMBER
};

struct vb_cuda_memory {
	struct driver driver;
	void *library;                   /* counted, so that it stays */
	void *context, *stream;
	int device;                      /* whose primary context was retained; -1: the context is the program's */
};

static void *find_library(void)
{
	return dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
}

static int load(struct vb_cuda_memory *memory)
{
	struct driver *driver = &memory->driver;

	memory->library = find_library();
	if (memory->library == NULL)
		return -EFAULT;
#define FIND(name, arguments) *(void **)&driver->name = dlsym(memory->library, #name);
	NEEDED(FIND)
	WANTED(FIND)
#undef FIND
#define MISSING(name, arguments) || driver->name == NULL
	return 0 NEEDED(MISSING) ? -EOPNOTSUPP : 0;
#undef MISSING
}

static bool ask(const struct driver *driver, int attribute, uint64_t pointer, void *value)
{
	return driver->cuPointerGetAttribute(value, attribute, pointer) == SUCCESS;
}

static bool is_one_allocation(const struct driver *driver, uint64_t start, size_t length)
{
	uint64_t range_start = 0;
	size_t range_size = 0;
	unsigned type = 0;

	return ask(driver, POINTER_MEMORY_TYPE, start, &type) && type == MEMORY_TYPE_DEVICE &&
	       ask(driver, POINTER_RANGE_START, start, &range_start) && ask(driver, POINTER_RANGE_SIZE, start, &range_size) &&
	       start >= range_start && start - range_start <= range_size && length <= range_size - (start - range_start);
}

/* Memory that was mapped piece by piece (cuMemMap) belongs to no context: any of its device does. */
static int find_context(struct vb_cuda_memory *memory, uint64_t start)
{
	const struct driver *driver = &memory->driver;
	int ordinal = 0;

	if (ask(driver, POINTER_CONTEXT, start, &memory->context) && memory->context != NULL)
		return 0;
	if (!ask(driver, POINTER_DEVICE_ORDINAL, start, &ordinal) || driver->cuDeviceGet(&memory->device, ordinal) != SUCCESS ||
	    driver->cuDevicePrimaryCtxRetain(&memory->context, memory->device) != SUCCESS) {
		memory->device = -1;
		return -EOPNOTSUPP;
	}
	return 0;
}

static bool enter(const struct vb_cuda_memory *memory, int *mode)
{
	*mode = CAPTURE_MODE_RELAXED;
	if (memory->driver.cuCtxPushCurrent_v2(memory->context) != SUCCESS)
		return false;
	if (memory->driver.cuThreadExchangeStreamCaptureMode != NULL)
		memory->driver.cuThreadExchangeStreamCaptureMode(mode);
	return true;
}

static void leave(const struct vb_cuda_memory *memory, int mode)
{
	void *ignored;

	if (memory->driver.cuThreadExchangeStreamCaptureMode != NULL)
		memory->driver.cuThreadExchangeStreamCaptureMode(&mode);
	memory->driver.cuCtxPopCurrent_v2(&ignored);
}

/* What the program itself copies is to be there when its call returns, as for an adapter that reads GPU memory
 * (the attribute is for that). */
static void have_copies_finish(const struct driver *driver, uint64_t start)
{
	const unsigned yes = 1;

	if (driver->cuPointerSetAttribute != NULL)
		driver->cuPointerSetAttribute(&yes, POINTER_SYNC_MEMOPS, start);
}

static int open_stream(struct vb_cuda_memory *memory)
{
	int mode, error = 0;

	if (!enter(memory, &mode))
		return -EOPNOTSUPP;
	if (memory->driver.cuStreamCreate(&memory->stream, STREAM_NON_BLOCKING) != SUCCESS)
		error = -EOPNOTSUPP;
	leave(memory, mode);
	return error;
}

static void release(struct vb_cuda_memory *memory)
{
	if (memory->device >= 0)
		memory->driver.cuDevicePrimaryCtxRelease_v2(memory->device);
	if (memory->library != NULL)
		dlclose(memory->library);
	free(memory);
}

int vb_cuda_open(uint64_t start, size_t length, struct vb_cuda_memory **out)
{
	struct vb_cuda_memory *memory = calloc(1, sizeof(*memory));
	int error;

	if (memory == NULL)
		return -ENOMEM;
	memory->device = -1;
	error = load(memory);
	if (error == 0 && !is_one_allocation(&memory->driver, start, length))
		error = -EFAULT;
	if (error == 0)
		error = find_context(memory, start);
	if (error == 0)
		error = open_stream(memory);
	if (error != 0) {
		release(memory);
		return error;
	}
	have_copies_finish(&memory->driver, start);
	*out = memory;
	return 0;
}

void vb_cuda_close(struct vb_cuda_memory *memory)
{
	int mode;

	/* A context that the program has destroyed took its streams with it. */
	if (enter(memory, &mode)) {
		memory->driver.cuStreamDestroy_v2(memory->stream);
		leave(memory, mode);
	}
	release(memory);
}

int vb_cuda_read(void *unused, void *gpu, void *to, uint64_t from, size_t length)
{
	const struct vb_cuda_memory *memory = gpu;
	bool good;
	int mode;

	(void)unused;
	if (!enter(memory, &mode))
		return -EFAULT;
	good = memory->driver.cuMemcpyDtoHAsync_v2(to, from, length, memory->stream) == SUCCESS;
	good &= memory->driver.cuStreamSynchronize(memory->stream) == SUCCESS;
	leave(memory, mode);
	return good ? 0 : -EFAULT;
}

int vb_cuda_write(void *unused, void *gpu, uint64_t to, const void *from, size_t length)
{
	const struct vb_cuda_memory *memory = gpu;
	size_t body = length > TAIL ? length - TAIL : 0;
	bool good = true;
	int mode;

	(void)unused;
	if (!enter(memory, &mode))
		return -EFAULT;
	/* In one stream copies are made one after the other. */
	if (body > 0)
		good = memory->driver.cuMemcpyHtoDAsync_v2(to, from, body, memory->stream) == SUCCESS;
	good = good && memory->driver.cuMemcpyHtoDAsync_v2(to + body, (const char *)from + body, length - body, memory->stream) == SUCCESS;
	good &= memory->driver.cuStreamSynchronize(memory->stream) == SUCCESS;
	leave(memory, mode);
	return good ? 0 : -EFAULT;
}
