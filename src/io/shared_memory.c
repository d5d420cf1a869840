/* SPDX-License-Identifier: MIT
 *
 * memfd_create(2) with seals. F_SEAL_FUTURE_WRITE (Linux 5.1) leaves the mappings that exist writable and makes every later one
 * read-only: the owner maps first and seals then.
 */
#include "io/shared_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/descriptor.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL };

int vb_shared_memory_create(const char *name, size_t size, int *out, void **memory)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING), error;
	void *map = MAP_FAILED;

	if (fd < 0)
		return -errno;
	fd = vb_descriptor_lift(fd);
	if (ftruncate(fd, (off_t)size) == 0)
		map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (map == MAP_FAILED || fcntl(fd, F_ADD_SEALS, SEALS) != 0) {
		error = -errno;
		if (map != MAP_FAILED)
			munmap(map, size);
		close(fd);
		return error;
	}
	(void)madvise(map, size, MADV_DONTDUMP);
	*out = fd;
	*memory = map;
	return 0;
}

const void *vb_shared_memory_map(int fd, size_t size)
{
	struct stat status;
	int seals = fcntl(fd, F_GET_SEALS);
	void *map;

	if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &status) != 0 || status.st_size != (off_t)size)
		return NULL;
	map = mmap(NULL, size, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (map == MAP_FAILED)
		return NULL;
	(void)madvise(map, size, MADV_DONTDUMP);
	(void)madvise(map, size, MADV_DONTFORK);
	return map;
}

void vb_shared_memory_unmap(const void *memory, size_t size)
{
	if (memory)
		munmap((void *)(uintptr_t)memory, size);
}

void vb_shared_memory_abandon(void *memory, size_t size, int fd)
{
	if (memory)
		(void)mmap(memory, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, fd, 0);
}
