/* SPDX-License-Identifier: MIT
 *
 * Registration on an adapter pins pages, which fails with EFAULT for memory that is not there. Nothing is pinned
 * here, but a region that cannot be read (or written, where it may be) must be refused now: later, an arriving packet
 * would run into it.
 *
 * Small ranges are brought in (MADV_POPULATE_*), which is at once the check and what pinning would have done; where one follows another,
 * so are the pages behind (io/memory_ahead.h). Large ones may be sparse reservations of which only a part will ever be used: their
 * mappings are looked up instead, so that they cost nothing.
 */
#include "io/memory_check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "io/memory_ahead.h"
#include "io/own_mapping.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

enum { POPULATE_AT_MOST = 1 << 20 };

/* 0, -EFAULT, or another -errno: the kernel cannot tell. */
static int ask_for_mappings(uint64_t start, uint64_t end, bool writable)
{
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC), result = 0;

	if (fd < 0)
		return -errno;
	while (result == 0 && start < end) {
		struct vb_own_mapping mapping;

		result = vb_own_mapping_find(fd, start, writable, &mapping);
		if (result == 0)
			start = mapping.end;
	}
	close(fd);
	return result == -ENOENT ? -EFAULT : result;
}

/* /proc/self/maps is in order of address: walk it until the range is covered or a gap shows. */
static int list_mappings(uint64_t start, uint64_t end, bool writable)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512], rights[8];
	unsigned long long from, to;
	int result = -EFAULT;

	if (maps == NULL)
		return 0;        /* no /proc: nothing to be learned, and refusing would be worse */
	while (fgets(line, sizeof(line), maps) != NULL) {
		if (sscanf(line, "%llx-%llx %7s", &from, &to, rights) != 3 || to <= start)
			continue;
		if (from > start || rights[0] != 'r' || (writable && rights[1] != 'w'))
			break;
		start = to;
		if (start >= end) {
			result = 0;
			break;
		}
	}
	fclose(maps);
	return result;
}

static int look_up_mappings(uint64_t start, uint64_t end, bool writable)
{
	int result = ask_for_mappings(start, end, writable);

	return result == 0 || result == -EFAULT ? result : list_mappings(start, end, writable);
}

static int populate(uint64_t start, uint64_t end, bool writable)
{
	int advice = writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;

	while (madvise((void *)(uintptr_t)start, end - start, advice) != 0) {
		if (errno == EINTR || errno == EAGAIN)
			continue;
		return -errno;
	}
	return 0;
}

static void whole_pages(uint64_t *start, uint64_t *end)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	*start &= ~(page - 1);
	*end = (*end + page - 1) & ~(page - 1);
	if (*end < *start)       /* the last page of all: nothing of a process is there */
		*end = UINT64_MAX;
}

int vb_memory_range_check(uint64_t start, size_t length, bool writable)
{
	uint64_t end = start + length;

	whole_pages(&start, &end);
	if (end - start <= POPULATE_AT_MOST) {
		switch (populate(start, end, writable)) {
		case 0:
			if (writable)
				vb_memory_ahead_registered(start, end);
			return 0;
		case -ENOMEM:
		case -EFAULT:
		case -EHWPOISON:
			return -EFAULT;
		default:
			break;   /* EINVAL: an old kernel, a special mapping, or not allowed: the mappings tell */
		}
	}
	return look_up_mappings(start, end, writable);
}

int vb_memory_range_prefetch(uint64_t start, size_t length, bool writable)
{
	uint64_t end = start + length;

	whole_pages(&start, &end);
	switch (populate(start, end, writable)) {
	case -ENOMEM:
	case -EFAULT:
	case -EHWPOISON:
		return -EFAULT;
	case -EINVAL:
		return look_up_mappings(start, end, writable);
	default:
		return 0;
	}
}
