/* SPDX-License-Identifier: MIT
 *
 * close(2), dup(2), memfd_create(2) with seals, setrlimit(2).
 */
#include "io/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LOW_DESCRIPTORS = 128 };

/* librspreload.so turns a program's sockets into rsockets, which are made of ours. */
int vb_descriptor_socket(int domain, int type, int protocol)
{
	int fd = (int)syscall(SYS_socket, domain, type, protocol);

	return fd < 0 ? fd : vb_descriptor_lift(fd);
}

/* Programs count on small numbers: select(2) ends at 1024, and traditional netcat takes nothing above 15. */
int vb_descriptor_lift(int fd)
{
	int kept = errno, above = fcntl(fd, F_DUPFD_CLOEXEC, LOW_DESCRIPTORS);

	errno = kept;
	if (above < 0)
		return fd;
	close(fd);
	return above;
}

int vb_descriptor_raise(int fd)
{
	int kept = errno, highest = LOW_DESCRIPTORS - 1, above = -1;

	if (fd < 0)
		return fd;
	while (highest > fd && fcntl(highest, F_GETFD) < 0)
		highest--;
	if (highest > fd)
		above = fcntl(fd, F_DUPFD_CLOEXEC, highest + 1);
	errno = kept;
	if (above < 0)
		return fd;
	close(fd);
	return above;
}

bool vb_descriptor_error_passes(int error)
{
	return error == -ENOMEM || error == -ENOBUFS || error == -EMFILE || error == -ENFILE || error == -ENOSPC || error == -EINTR ||
	       error == -EAGAIN;
}

void vb_descriptor_close(int fd)
{
	close(fd);
}

int vb_descriptor_duplicate(int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);

	return copy < 0 ? -errno : copy;
}

ssize_t vb_descriptor_receive(int fd, void *bytes, size_t room)
{
	ssize_t got;

	do
		got = recv(fd, bytes, room, MSG_DONTWAIT);
	while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : got;
}

void vb_descriptor_replace(int fd, int by)
{
	(void)dup3(by, fd, O_CLOEXEC);
	vb_descriptor_close(by);
}

ssize_t vb_descriptor_read_at(int fd, void *bytes, size_t room, off_t at)
{
	ssize_t length = pread(fd, bytes, room, at);

	return length < 0 ? -errno : length;
}

ssize_t vb_file_read(const char *path, void *bytes, size_t room)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length;

	if (fd < 0)
		return -1;
	length = read(fd, bytes, room);
	vb_descriptor_close(fd);
	return length;
}

int vb_descriptor_identity(int fd, struct vb_file_identity *identity)
{
	struct stat status;

	if (fstat(fd, &status) != 0)
		return -errno;
	*identity = (struct vb_file_identity){.device = status.st_dev, .inode = status.st_ino};
	return 0;
}

off_t vb_descriptor_size(int fd)
{
	off_t size = lseek(fd, 0, SEEK_END);

	return size < 0 ? -errno : size;
}

int vb_descriptor_map(int fd, off_t offset, size_t length, bool writable, void **memory)
{
	void *map = mmap(NULL, length, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd, offset);

	if (map == MAP_FAILED)
		return -errno;
	*memory = map;
	return 0;
}

size_t vb_page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

int vb_page_create(const char *name, size_t size)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING), error;

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)size) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
		return fd;
	error = -errno;
	close(fd);
	return error;
}

void *vb_page_map(int fd, size_t size, bool writable)
{
	struct stat status;
	int seals = fcntl(fd, F_GET_SEALS);
	void *page;

	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &status) != 0 || status.st_size != (off_t)size)
		return NULL;
	page = mmap(NULL, size, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
	return page == MAP_FAILED ? NULL : page;
}

int vb_page_replace(void *page, void *by, size_t size)
{
	return mremap(by, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, page) == MAP_FAILED ? -errno : 0;
}

void vb_page_unmap(void *page, size_t size)
{
	if (page)
		munmap(page, size);
}

void vb_page_forget(void *page, size_t size)
{
	(void)madvise(page, size, MADV_REMOVE);
}

int vb_page_create_filled(const char *name, const void *bytes, size_t length)
{
	int fd = vb_page_create(name, length);
	void *page;

	if (fd < 0)
		return fd;
	page = vb_page_map(fd, length, true);
	if (!page) {
		close(fd);
		return -ENOMEM;
	}
	memcpy(page, bytes, length);
	vb_page_unmap(page, length);
	return vb_descriptor_lift(fd);
}

/* Only shared memory has seals: reading it never blocks, which a file might. */
int vb_page_read(int fd, size_t most, void **bytes, size_t *length)
{
	struct stat status;
	uint8_t *copy;
	size_t done = 0;

	if (fcntl(fd, F_GET_SEALS) < 0 || fstat(fd, &status) != 0 || status.st_size < 0)
		return -EPROTO;
	if ((uint64_t)status.st_size > most)
		return -EFBIG;
	copy = malloc((size_t)status.st_size + 1);
	if (!copy)
		return -ENOMEM;
	while (done < (size_t)status.st_size) {
		ssize_t got = pread(fd, copy + done, (size_t)status.st_size - done, (off_t)done);

		if (got <= 0)
			break;
		done += (size_t)got;
	}
	*bytes = copy;
	*length = done;
	return 0;
}

void vb_descriptor_close_from(int first)
{
	if (close_range((unsigned)first, ~0U, 0) != 0)
		for (long fd = first, end = sysconf(_SC_OPEN_MAX); fd < end; fd++)
			close((int)fd);
}

/* A table that grows while several threads use it is replaced, and Linux (expand_fdtable) waits for RCU before it goes on: 11 ms each time
 * that the number of descriptors passes a power of two. With one thread it does not wait. */
void vb_descriptor_make_room(unsigned count)
{
	unsigned limit = vb_descriptor_limit();
	struct stat threads;
	int fd, highest;

	/* Of a thread each link but two: "." and that of the directory above. */
	if (stat("/proc/self/task", &threads) != 0 || threads.st_nlink != 3)
		return;
	fd = vb_descriptor_reserve();
	if (fd < 0)
		return;
	highest = fcntl(fd, F_DUPFD_CLOEXEC, (count < limit ? count : limit) - 1);
	if (highest >= 0)
		close(highest);
	close(fd);
}

void vb_descriptor_raise_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

unsigned vb_descriptor_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return 1024;
	return limit.rlim_cur < INT32_MAX ? (unsigned)limit.rlim_cur : INT32_MAX;
}

int vb_descriptor_reserve(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}
