/* SPDX-License-Identifier: MIT
 *
 * What the memory tests share: a seeded host, checked copies over an array that can be "unmapped", short ways to
 * register and to ask.
 */
#ifndef TESTS_UNIT_MEMORY_FIXTURE_H
#define TESTS_UNIT_MEMORY_FIXTURE_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "memory/place.h"
#include "memory/region.h"

/* A peer's view of time has no part here; randomness is one generator with a printed seed. */
struct fixture {
	uint64_t seed;
	uint64_t hole_start, hole_end;   /* checked copies touching this fail */
	unsigned checked_reads, checked_writes;
};

static inline uint32_t fixture_random(void *context)
{
	struct fixture *f = context;

	/* xorshift64*: good enough to be unlike a counter */
	f->seed ^= f->seed >> 12;
	f->seed ^= f->seed << 25;
	f->seed ^= f->seed >> 27;
	return (uint32_t)(f->seed * 0x2545f4914f6cdd1dull >> 32);
}

static inline int fixture_touches_hole(const struct fixture *f, uint64_t at, size_t length)
{
	return at < f->hole_end && at + length > f->hole_start;
}

static inline int fixture_read(void *context, void *to, uint64_t from, size_t length)
{
	struct fixture *f = context;

	f->checked_reads++;
	if (fixture_touches_hole(f, from, length))
		return -EFAULT;
	memcpy(to, (const void *)(uintptr_t)from, length);
	return 0;
}

static inline int fixture_write(void *context, uint64_t to, const void *from, size_t length)
{
	struct fixture *f = context;

	f->checked_writes++;
	if (fixture_touches_hole(f, to, length))
		return -EFAULT;
	memcpy((void *)(uintptr_t)to, from, length);
	return 0;
}

static inline struct vb_memory *fixture_memory(struct fixture *f, uint64_t seed, uint32_t max_regions)
{
	struct vb_memory_host host = {fixture_random, fixture_read, fixture_write, f};
	struct vb_memory *memory;

	memset(f, 0, sizeof(*f));
	f->seed = seed;
	memory = vb_memory_create(&host, max_regions);
	assert_non_null(memory);
	return memory;
}

static inline uint32_t fixture_register(struct vb_memory *memory, struct vb_pd *pd, void *start, uint64_t length,
					uint32_t access)
{
	struct vb_region_info info = {
		.kind = VB_REGION_MR,
		.pd = pd,
		.start = (uintptr_t)start,
		.length = length,
		.iova = (uintptr_t)start,
		.access = access,
	};
	uint32_t key = 0;

	assert_int_equal(vb_region_register(memory, &info, &key), 0);
	return key;
}

static inline struct vb_accessor fixture_remote(struct vb_pd *pd, uint32_t qpn, uint32_t key, uint32_t rights)
{
	return (struct vb_accessor){.pd = pd, .qpn = qpn, .key = key, .rights = rights, .remote = true};
}

static inline struct vb_accessor fixture_local(struct vb_pd *pd, uint32_t key, uint32_t rights)
{
	return (struct vb_accessor){.pd = pd, .qpn = 7, .key = key, .rights = rights};
}

#endif
