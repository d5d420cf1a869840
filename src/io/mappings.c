/* SPDX-License-Identifier: MIT
 *
 * Lines of /proc/PID/maps:   start-end perms offset major:minor inode path
 * and the way to a file:     /proc/PID/fd/N if one of them is that file, else its path.
 */
#include "io/mappings.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "io/descriptor.h"

int vb_mappings_open(pid_t pid)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/%ld", (long)pid);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : vb_descriptor_lift(fd);
}

struct line {
	uint64_t start, end, offset, device, inode;
	bool usable;                       /* shared, readable and writable, of a file */
	const char *path;                  /* inside the text */
};

static bool parse(char *text, struct line *line)
{
	char rights[5];
	unsigned major, minor;
	int path = 0;

	if (sscanf(text, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n", &line->start, &line->end, rights,
		   &line->offset, &major, &minor, &line->inode, &path) < 7)
		return false;
	text[strcspn(text, "\n")] = '\0';
	line->device = makedev(major, minor);
	line->usable = rights[0] == 'r' && rights[1] == 'w' && rights[3] == 's' && line->inode != 0;
	line->path = text + path;
	return true;
}

/* Calls `take` for each line, in the order of addresses, until it says that it has enough. 0 or -errno. */
static int read_lines(int process, bool (*take)(void *context, const struct line *line), void *context)
{
	int fd = openat(process, "maps", O_RDONLY | O_CLOEXEC), error = 0;
	FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
	char *text = NULL;
	size_t room = 0;
	struct line line;

	if (file == NULL) {
		error = -errno;
		if (fd >= 0)
			close(fd);
		return error;
	}
	while (errno = 0, getline(&text, &room, file) > 0)
		if (parse(text, &line) && take(context, &line))
			break;
	error = -errno;
	free(text);
	fclose(file);
	return error;
}

struct search {
	uint64_t start, end;               /* asked for */
	struct vb_mapped_stretch *found;
};

static bool continues(const struct vb_mapped_stretch *stretch, const struct line *line)
{
	return stretch->length != 0 && stretch->start + stretch->length == line->start &&
	       stretch->offset + stretch->length == line->offset && stretch->device == line->device &&
	       stretch->inode == line->inode;
}

/* Changing the rights of a part and back may leave several lines where there was one: they are one stretch if the file goes on
 * where the addresses do. */
static bool extend(void *context, const struct line *line)
{
	struct search *search = context;
	struct vb_mapped_stretch *found = search->found;

	if (line->start >= search->end && !(line->usable && continues(found, line)))
		return true;
	if (!line->usable)
		found->length = 0;
	else if (continues(found, line))
		found->length += line->end - line->start;
	else
		*found = (struct vb_mapped_stretch){.start = line->start, .length = line->end - line->start,
						    .offset = line->offset, .device = line->device, .inode = line->inode};
	/* The range began in what was just given up, or before it. */
	return line->end > search->start && (found->length == 0 || found->start > search->start);
}

int vb_mappings_find(int process, uint64_t start, uint64_t length, struct vb_mapped_stretch *stretch)
{
	struct search search = {.start = start, .end = start + length, .found = stretch};
	int error;

	memset(stretch, 0, sizeof(*stretch));
	if (length == 0 || search.end < start)
		return -ENOENT;
	error = read_lines(process, extend, &search);
	if (error != 0)
		return error;
	return stretch->start <= start && stretch->length >= search.end - stretch->start ? 0 : -ENOENT;
}

/* Without asking a server of files that may never answer. */
static bool is_the_file(int directory, const char *name, int flags, const struct vb_mapped_stretch *stretch)
{
	struct statx status;

	return statx(directory, name, flags | AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_TYPE | STATX_INO, &status) == 0 &&
	       S_ISREG(status.stx_mode) && status.stx_ino == stretch->inode &&
	       makedev(status.stx_dev_major, status.stx_dev_minor) == stretch->device;
}

/* By a name that is there now; what it leads to is looked at once more after opening. */
static int open_checked(int directory, const char *name, const struct vb_mapped_stretch *stretch)
{
	int fd;

	if (!is_the_file(directory, name, 0, stretch))
		return -ENOENT;
	fd = openat(directory, name, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -errno;
	if (is_the_file(fd, "", AT_EMPTY_PATH, stretch))
		return fd;
	close(fd);
	return -ENOENT;
}

static int open_among_descriptors(int process, const struct vb_mapped_stretch *stretch)
{
	int directory = openat(process, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd = -ENOENT;
	DIR *list = directory < 0 ? NULL : fdopendir(directory);
	struct dirent *entry;

	if (list == NULL) {
		fd = -errno;
		if (directory >= 0)
			close(directory);
		return fd;
	}
	while (fd < 0 && (entry = readdir(list)) != NULL)
		if (entry->d_name[0] != '.')
			fd = open_checked(directory, entry->d_name, stretch);
	closedir(list);
	return fd;
}

struct path_search {
	const struct vb_mapped_stretch *stretch;
	int fd;
};

static bool open_path(void *context, const struct line *line)
{
	struct path_search *search = context;

	if (line->device != search->stretch->device || line->inode != search->stretch->inode)
		return false;
	if (line->path[0] == '/')
		search->fd = open_checked(AT_FDCWD, line->path, search->stretch);
	return true;
}

static int open_file(int process, const struct vb_mapped_stretch *stretch)
{
	struct path_search search = {.stretch = stretch, .fd = open_among_descriptors(process, stretch)};

	if (search.fd < 0)
		read_lines(process, open_path, &search);
	return search.fd;
}

/* Pages that a file does not have yet are made when they are touched. Where there is a limit to them (/dev/shm has one, memfds do not)
 * that may fail, by a signal. *page: what offsets must be multiples of. */
static int check_backing(int fd, uint64_t from, uint64_t length, uint64_t *page)
{
	struct statfs system;
	struct stat status;

	if (fstatfs(fd, &system) != 0 || fstat(fd, &status) != 0)
		return -errno;
	if (system.f_type != TMPFS_MAGIC && system.f_type != HUGETLBFS_MAGIC)
		return -EMEDIUMTYPE;
	if ((uint64_t)status.st_size < from || (uint64_t)status.st_size - from < length)
		return -EAGAIN;
	if (system.f_type == TMPFS_MAGIC && system.f_blocks != 0) {
		off_t hole = lseek(fd, (off_t)from, SEEK_HOLE);

		if (hole < 0 || (uint64_t)hole - from < length)
			return -EAGAIN;
	}
	*page = system.f_type == HUGETLBFS_MAGIC ? (uint64_t)system.f_bsize : (uint64_t)sysconf(_SC_PAGESIZE);
	return 0;
}

static int map_pages(int fd, uint64_t from, uint64_t length, uint64_t page, struct vb_mapped_file *mapped)
{
	uint64_t first = from / page * page;

	mapped->length = (from + length - first + page - 1) / page * page;
	mapped->base = mmap(NULL, mapped->length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)first);
	if (mapped->base == MAP_FAILED)
		return -errno;
	madvise(mapped->base, mapped->length, MADV_DONTDUMP);
	mapped->bytes = (uint8_t *)mapped->base + (from - first);
	return 0;
}

int vb_mappings_map(int process, const struct vb_mapped_stretch *stretch, uint64_t start, uint64_t length,
		    struct vb_mapped_file *mapped)
{
	uint64_t from = stretch->offset + (start - stretch->start), page = 0;
	int fd = open_file(process, stretch), error;

	if (fd < 0)
		return fd;
	error = check_backing(fd, from, length, &page);
	if (error == 0)
		error = map_pages(fd, from, length, page, mapped);
	close(fd);
	return error;
}

void vb_mappings_unmap(const struct vb_mapped_file *mapped)
{
	munmap(mapped->base, mapped->length);
}
