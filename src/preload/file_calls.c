/* SPDX-License-Identifier: MIT
 *
 * The calls of the C library that name a file to look at, as a preloaded library sees them: those that name one of the
 * view (preload/paths.c) are given the view's file, all others pass. What a program does with a descriptor or a
 * directory stream afterwards is between it and the kernel, because the view's files are files; counters are filled when
 * they are opened, and when they are read again from their beginning (preload/counters.h).
 *
 * Names of all ages are here, since a program has those of the headers that it was compiled with: stat or __xstat,
 * open or __open_2 (with _FORTIFY_SOURCE), each also with 64. On the machines we are made for the types behind the
 * latter are the same.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "preload/counters.h"
#include "preload/next.h"
#include "preload/view.h"

_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "a stat is a stat64");

/* `path` becomes what is to be opened in its place. */
#define ENTER(at, path)                                                                 \
	char room[VB_PRELOAD_PATH_ROOM];                                                \
	path = vb_preload_view_path(at, path, room)

/* Not in the headers: what fortified and older programs call. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int at, const char *path, int flags);
int __openat64_2(int at, const char *path, int flags);
ssize_t __pread_chk(int fd, void *buffer, size_t size, off_t offset, size_t room);
ssize_t __pread64_chk(int fd, void *buffer, size_t size, off64_t offset, size_t room);
int __xstat(int version, const char *path, struct stat *status);
int __xstat64(int version, const char *path, struct stat64 *status);
int __lxstat(int version, const char *path, struct stat *status);
int __lxstat64(int version, const char *path, struct stat64 *status);
int __fxstatat(int version, int at, const char *path, struct stat *status, int flags);
int __fxstatat64(int version, int at, const char *path, struct stat64 *status, int flags);
ssize_t __readlink_chk(const char *path, char *buffer, size_t size, size_t room);
ssize_t __readlinkat_chk(int at, const char *path, char *buffer, size_t size, size_t room);
char *__realpath_chk(const char *path, char *resolved, size_t room);

/* ---- open ---- */

/* The mode is there only where a file may be made (open(2)). */
static mode_t mode_of(int flags, va_list arguments)
{
	return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(arguments, mode_t) : 0;
}

static int opened(int fd, const char *path, int flags)
{
	int error;

	if (fd < 0 || vb_preload_counters_fill(fd, path, flags) == 0)
		return fd;
	error = errno;
	close(fd);
	errno = error;
	return -1;
}

#define OPEN(name)                                                                      \
	PRELOAD int name(const char *path, int flags, ...)                              \
	{                                                                               \
		va_list arguments;                                                      \
		mode_t mode;                                                            \
		ENTER(AT_FDCWD, path);                                                  \
		va_start(arguments, flags);                                             \
		mode = mode_of(flags, arguments);                                       \
		va_end(arguments);                                                      \
		return opened(NEXT(name)(path, flags, mode), path, flags);              \
	}
#define OPENAT(name)                                                                    \
	PRELOAD int name(int at, const char *path, int flags, ...)                      \
	{                                                                               \
		va_list arguments;                                                      \
		mode_t mode;                                                            \
		ENTER(at, path);                                                        \
		va_start(arguments, flags);                                             \
		mode = mode_of(flags, arguments);                                       \
		va_end(arguments);                                                      \
		return opened(NEXT(name)(at, path, flags, mode), path, flags);          \
	}
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

PRELOAD int __open_2(const char *path, int flags)
{
	ENTER(AT_FDCWD, path);
	return opened(NEXT(__open_2)(path, flags), path, flags);
}

PRELOAD int __open64_2(const char *path, int flags)
{
	ENTER(AT_FDCWD, path);
	return opened(NEXT(__open64_2)(path, flags), path, flags);
}

PRELOAD int __openat_2(int at, const char *path, int flags)
{
	ENTER(at, path);
	return opened(NEXT(__openat_2)(at, path, flags), path, flags);
}

PRELOAD int __openat64_2(int at, const char *path, int flags)
{
	ENTER(at, path);
	return opened(NEXT(__openat64_2)(at, path, flags), path, flags);
}

/* Before anything was read. */
static FILE *stream(FILE *file, const char *path, const char *mode)
{
	int error;

	if (file == NULL || mode[0] != 'r' || strchr(mode, '+') != NULL || vb_preload_counters_fill(fileno(file), path, O_RDONLY) == 0)
		return file;
	error = errno;
	fclose(file);
	errno = error;
	return NULL;
}

PRELOAD FILE *fopen(const char *path, const char *mode)
{
	ENTER(AT_FDCWD, path);
	return stream(NEXT(fopen)(path, mode), path, mode);
}

PRELOAD FILE *fopen64(const char *path, const char *mode)
{
	ENTER(AT_FDCWD, path);
	return stream(NEXT(fopen64)(path, mode), path, mode);
}

/* ---- reading once more ---- */

#define SEEK(name, type)                                                                \
	PRELOAD type name(int fd, type offset, int whence)                              \
	{                                                                               \
		if (offset == 0 && whence == SEEK_SET)                                  \
			vb_preload_counters_renew(fd);                                  \
		return NEXT(name)(fd, offset, whence);                                  \
	}
#define PREAD(name, type)                                                               \
	PRELOAD ssize_t name(int fd, void *buffer, size_t size, type offset)            \
	{                                                                               \
		if (offset == 0)                                                        \
			vb_preload_counters_renew(fd);                                  \
		return NEXT(name)(fd, buffer, size, offset);                            \
	}
#define PREAD_CHECKED(name, type)                                                       \
	PRELOAD ssize_t name(int fd, void *buffer, size_t size, type offset, size_t room) \
	{                                                                               \
		if (offset == 0)                                                        \
			vb_preload_counters_renew(fd);                                  \
		return NEXT(name)(fd, buffer, size, offset, room);                      \
	}
SEEK(lseek, off_t)
SEEK(lseek64, off64_t)
PREAD(pread, off_t)
PREAD(pread64, off64_t)
PREAD_CHECKED(__pread_chk, off_t)
PREAD_CHECKED(__pread64_chk, off64_t)

/* ---- directories ---- */

PRELOAD DIR *opendir(const char *path)
{
	ENTER(AT_FDCWD, path);
	return NEXT(opendir)(path);
}

PRELOAD int scandir(const char *path, struct dirent ***list, int (*wanted)(const struct dirent *),
		    int (*order)(const struct dirent **, const struct dirent **))
{
	ENTER(AT_FDCWD, path);
	return NEXT(scandir)(path, list, wanted, order);
}

PRELOAD int scandir64(const char *path, struct dirent64 ***list, int (*wanted)(const struct dirent64 *),
		      int (*order)(const struct dirent64 **, const struct dirent64 **))
{
	ENTER(AT_FDCWD, path);
	return NEXT(scandir64)(path, list, wanted, order);
}

PRELOAD int chdir(const char *path)
{
	ENTER(AT_FDCWD, path);
	return NEXT(chdir)(path);
}

/* ---- what is there ---- */

#define STAT(name, type)                                                                \
	PRELOAD int name(const char *path, type *status)                                \
	{                                                                               \
		ENTER(AT_FDCWD, path);                                                  \
		return NEXT(name)(path, status);                                        \
	}
#define XSTAT(name, type)                                                               \
	PRELOAD int name(int version, const char *path, type *status)                   \
	{                                                                               \
		ENTER(AT_FDCWD, path);                                                  \
		return NEXT(name)(version, path, status);                               \
	}
STAT(stat, struct stat)
STAT(stat64, struct stat64)
STAT(lstat, struct stat)
STAT(lstat64, struct stat64)
XSTAT(__xstat, struct stat)
XSTAT(__xstat64, struct stat64)
XSTAT(__lxstat, struct stat)
XSTAT(__lxstat64, struct stat64)

PRELOAD int fstatat(int at, const char *path, struct stat *status, int flags)
{
	ENTER(at, path);
	return NEXT(fstatat)(at, path, status, flags);
}

PRELOAD int fstatat64(int at, const char *path, struct stat64 *status, int flags)
{
	ENTER(at, path);
	return NEXT(fstatat64)(at, path, status, flags);
}

PRELOAD int __fxstatat(int version, int at, const char *path, struct stat *status, int flags)
{
	ENTER(at, path);
	return NEXT(__fxstatat)(version, at, path, status, flags);
}

PRELOAD int __fxstatat64(int version, int at, const char *path, struct stat64 *status, int flags)
{
	ENTER(at, path);
	return NEXT(__fxstatat64)(version, at, path, status, flags);
}

PRELOAD int statx(int at, const char *path, int flags, unsigned mask, struct statx *status)
{
	ENTER(at, path);
	return NEXT(statx)(at, path, flags, mask, status);
}

PRELOAD int access(const char *path, int mode)
{
	ENTER(AT_FDCWD, path);
	return NEXT(access)(path, mode);
}

PRELOAD int eaccess(const char *path, int mode)
{
	ENTER(AT_FDCWD, path);
	return NEXT(eaccess)(path, mode);
}

PRELOAD int euidaccess(const char *path, int mode)
{
	ENTER(AT_FDCWD, path);
	return NEXT(euidaccess)(path, mode);
}

PRELOAD int faccessat(int at, const char *path, int mode, int flags)
{
	ENTER(at, path);
	return NEXT(faccessat)(at, path, mode, flags);
}

/* ls -l asks for these. */
PRELOAD ssize_t getxattr(const char *path, const char *name, void *value, size_t size)
{
	ENTER(AT_FDCWD, path);
	return NEXT(getxattr)(path, name, value, size);
}

PRELOAD ssize_t lgetxattr(const char *path, const char *name, void *value, size_t size)
{
	ENTER(AT_FDCWD, path);
	return NEXT(lgetxattr)(path, name, value, size);
}

/* ---- where links lead ---- */

PRELOAD ssize_t readlink(const char *path, char *buffer, size_t size)
{
	ENTER(AT_FDCWD, path);
	return NEXT(readlink)(path, buffer, size);
}

PRELOAD ssize_t readlinkat(int at, const char *path, char *buffer, size_t size)
{
	ENTER(at, path);
	return NEXT(readlinkat)(at, path, buffer, size);
}

PRELOAD ssize_t __readlink_chk(const char *path, char *buffer, size_t size, size_t limit)
{
	ENTER(AT_FDCWD, path);
	return NEXT(__readlink_chk)(path, buffer, size, limit);
}

PRELOAD ssize_t __readlinkat_chk(int at, const char *path, char *buffer, size_t size, size_t limit)
{
	ENTER(at, path);
	return NEXT(__readlinkat_chk)(at, path, buffer, size, limit);
}

/* Programs look for what follows a name they know (/sys/devices/...), and open what they are told. */
static char *leave(char *resolved)
{
	const char *root = vb_preload_view_root();

	if (resolved != NULL && root != NULL)
		vb_preload_path_leave(root, resolved);
	return resolved;
}

PRELOAD char *realpath(const char *path, char *resolved)
{
	ENTER(AT_FDCWD, path);
	return leave(NEXT(realpath)(path, resolved));
}

PRELOAD char *__realpath_chk(const char *path, char *resolved, size_t limit)
{
	ENTER(AT_FDCWD, path);
	return leave(NEXT(__realpath_chk)(path, resolved, limit));
}

PRELOAD char *canonicalize_file_name(const char *path)
{
	ENTER(AT_FDCWD, path);
	return leave(NEXT(canonicalize_file_name)(path));
}
