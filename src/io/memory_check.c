/* SPDX-License-Identifier: MIT
 *
 * Registration on an adapter pins pages, which fails with EFAULT for memory that is not there. Nothing is pinned
 * here, but a region that cannot be read (or written, where it may be) must be refused now: later, an arriving packet
 * would run into it.
 *
 * Small ranges are brought in (MADV_POPULATE_*), which is at once the check and what pinning would have done. Large
 * ones may be sparse reservations of which only a part will ever be used: their mappings are looked up instead, so
 * that they cost nothing.
 */
#include "io/memory_check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

enum { POPULATE_AT_MOST = 1 << 20 };

/* Linux 6.11 tells of one mapping without listing all (linux/fs.h: PROCMAP_QUERY): 2.2 us where the list takes 8.7, and 203 behind 600
 * mappings. */
struct mapping_query {
	uint64_t size;
	uint64_t flags;                    /* of mappings with these rights only */
	uint64_t address;                  /* the mapping that covers it */
	uint64_t start, end;               /* from here on: the answer */
	uint64_t rights, page_size, offset, inode;
	uint32_t major, minor;
	uint32_t name_size, build_id_size; /* 0: not asked for */
	uint64_t name, build_id;
};

_Static_assert(sizeof(struct mapping_query) == 104, "as the kernel has it");

#define QUERY_MAPPING _IOWR('f', 17, struct mapping_query)
enum { MAPPING_READABLE = 1, MAPPING_WRITABLE = 2 };

/* 0, -EFAULT, or another -errno: the kernel cannot tell. */
static int ask_for_mappings(uint64_t start, uint64_t end, bool writable)
{
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC), result = 0;

	if (fd < 0)
		return -errno;
	while (result == 0 && start < end) {
		struct mapping_query query = {
			.size = sizeof(query), .address = start, .flags = MAPPING_READABLE | (writable ? MAPPING_WRITABLE : 0),
		};

		if (ioctl(fd, QUERY_MAPPING, &query) != 0)
			result = errno == ENOENT ? -EFAULT : -errno;
		else
			start = query.end;
	}
	close(fd);
	return result;
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
