/* SPDX-License-Identifier: MIT
 *
 * A program may name a counter by its whole path, or by its last part alone from a directory that it has gone to (cd, grep -r). So it is
 * the opened file that is looked at: whether it is one of the view's, after a first look at its name, which is all that other files
 * cost.
 *
 * What the program gets is a memory file of its own, with one line as the kernel writes it, whose name says what it is: a descriptor that
 * is read once more, from the beginning, leads back to the counter. Which descriptors to look at is remembered, so that other
 * files cost a look at a bit. (A stream of the C library that is rewound reads its buffer again, of the kernel's files too.)
 */
#include "preload/counters.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "io/daemon_client.h"
#include "preload/view.h"

static const struct figure {
	const char *directory, *name;
	size_t offset;                     /* in struct vb_daemon_counters */
} figures[] = {
#define X(name) {"hw_counters", #name, offsetof(struct vb_daemon_counters, counters.name)},
	VB_COUNTERS(X)
#undef X
#define X(name) {"counters", #name, offsetof(struct vb_daemon_counters, port.name)},
	VB_PORT_FIGURES_OF_ALL(X)
	VB_PORT_FIGURES_OF_SUBNETS(X)
#undef X
};

/* Of a memory file, before device, directory and counter. */
#define MARK "verbena:"

enum { FIGURES = sizeof(figures) / sizeof(figures[0]) };

/* Descriptors that were counters when they were opened. One that is beyond stays as it is. */
enum { REMEMBERED = 1024 };
static uint64_t handed_out[REMEMBERED / 64];

static bool is_name_of_counter(const char *name)
{
	for (unsigned i = 0; i < FIGURES; i++)
		if (figures[i].name[0] == name[0] && strcmp(figures[i].name, name) == 0)
			return true;
	return false;
}

/* Where an open descriptor leads. By system calls: the C library's functions are what we stand in for. */
static bool find_path(int fd, char path[VB_PRELOAD_PATH_ROOM])
{
	char name[64];
	long length;

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	length = syscall(SYS_readlinkat, AT_FDCWD, name, path, VB_PRELOAD_PATH_ROOM - 1);
	if (length <= 0)
		return false;
	path[length] = '\0';
	return true;
}

/* The view's own path may lead over links. */
static bool find_root(char path[VB_PRELOAD_PATH_ROOM])
{
	const char *root = vb_preload_view_root();
	int fd = root != NULL ? (int)syscall(SYS_openat, AT_FDCWD, root, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	bool found = fd >= 0 && find_path(fd, path);

	if (fd >= 0)
		syscall(SYS_close, fd);
	return found;
}

/* DEVICE, `between`, DIRECTORY/NAME. NULL: it is no counter. */
static const struct figure *parse(const char *path, const char *between, char device[64])
{
	const char *end = strstr(path, between), *name;

	if (end == NULL || end == path || end - path >= 64 || memchr(path, '/', (size_t)(end - path)) != NULL)
		return NULL;
	memset(device, 0, 64);
	memcpy(device, path, (size_t)(end - path));
	name = end + strlen(between);
	for (unsigned i = 0; i < FIGURES; i++) {
		size_t length = strlen(figures[i].directory);

		if (strncmp(name, figures[i].directory, length) == 0 && name[length] == '/' &&
		    strcmp(name + length + 1, figures[i].name) == 0)
			return &figures[i];
	}
	return NULL;
}

/* Which counter is it, and of which device? NULL: it is not of the view. */
static const struct figure *find_in_view(int fd, char device[64])
{
	static const char devices[] = "/sys/devices/virtual/infiniband/";
	char path[VB_PRELOAD_PATH_ROOM], root[VB_PRELOAD_PATH_ROOM];
	size_t length;

	if (!find_path(fd, path) || !find_root(root))
		return NULL;
	length = strlen(root);
	if (strncmp(path, root, length) != 0 || strncmp(path + length, devices, sizeof(devices) - 1) != 0)
		return NULL;
	return parse(path + length + sizeof(devices) - 1, "/ports/1/", device);
}

/* NULL: it is no memory file of ours, or not any more. */
static const struct figure *find_again(int fd, char device[64])
{
	static const char before[] = "/memfd:" MARK, behind[] = " (deleted)";
	char path[VB_PRELOAD_PATH_ROOM];
	size_t length;

	if (!find_path(fd, path) || strncmp(path, before, sizeof(before) - 1) != 0)
		return NULL;
	length = strlen(path);
	if (length > sizeof(behind) && strcmp(path + length - (sizeof(behind) - 1), behind) == 0)
		path[length - (sizeof(behind) - 1)] = '\0';
	return parse(path + sizeof(before) - 1, "/", device);
}

static bool take(void *context, const struct vb_daemon_message *message, const int *fds, unsigned count)
{
	(void)fds;
	(void)count;
	if (message->header.type == VB_DAEMON_COUNTERS)
		memcpy(context, &message->counters, sizeof(message->counters));
	return true;
}

/* 0 or -errno. */
static int ask(const char device[64], struct vb_daemon_counters *told)
{
	struct vb_daemon_client daemon;
	struct vb_daemon_message request;
	int error = vb_daemon_client_connect(&daemon, true);

	if (error != 0)
		return error;
	vb_daemon_message_begin(&request, VB_DAEMON_ASK_COUNTERS, 0);
	memcpy(request.ask_counters.device, device, sizeof(request.ask_counters.device));
	error = vb_daemon_client_try(&daemon, &request, take, told);
	vb_daemon_client_close(&daemon);
	return error;
}

/* The figure into a memory file. 0 or -errno. */
static int write_figure(int file, const struct figure *figure, const char device[64])
{
	struct vb_daemon_counters told = {0};
	int error = ask(device, &told), length;
	uint64_t value;
	char line[24];

	if (error != 0)
		return error;
	memcpy(&value, (const char *)&told + figure->offset, sizeof(value));
	length = snprintf(line, sizeof(line), "%llu\n", (unsigned long long)value);
	/* A new daemon's figure may be shorter. */
	if (pwrite(file, line, (size_t)length, 0) != length || ftruncate(file, length) != 0)
		return -EIO;
	return 0;
}

static void remember(int fd)
{
	if (fd < REMEMBERED)
		__atomic_fetch_or(&handed_out[fd / 64], UINT64_C(1) << fd % 64, __ATOMIC_RELAXED);
}

/* In place of the empty file. 0 or -errno. */
static int show(int fd, const struct figure *figure, const char device[64])
{
	char name[160];
	int flags = fcntl(fd, F_GETFD), file, error;

	snprintf(name, sizeof(name), MARK "%s/%s/%s", device, figure->directory, figure->name);
	file = memfd_create(name, MFD_CLOEXEC);
	if (file < 0)
		return -errno;
	error = write_figure(file, figure, device);
	if (error == 0 && (flags < 0 || syscall(SYS_dup3, file, fd, flags & FD_CLOEXEC ? O_CLOEXEC : 0) < 0))
		error = -EIO;
	syscall(SYS_close, file);
	if (error == 0)
		remember(fd);
	return error;
}

/* Apart: it needs more stack than other files do. */
__attribute__((noinline)) static int fill(int fd)
{
	int kept = errno, error;
	char device[64];
	const struct figure *figure = find_in_view(fd, device);

	error = figure != NULL ? show(fd, figure, device) : 0;
	errno = error == 0 ? kept : error == -ENODEV ? ENODEV : EIO;
	return error == 0 ? 0 : -1;
}

int vb_preload_counters_fill(int fd, const char *path, int flags)
{
	const char *slash;

	if (vb_preload_view_root() == NULL || (flags & O_ACCMODE) != O_RDONLY || (flags & O_PATH))
		return 0;
	slash = strrchr(path, '/');
	return is_name_of_counter(slash != NULL ? slash + 1 : path) ? fill(fd) : 0;
}

__attribute__((noinline)) static void renew(int fd)
{
	int kept = errno;
	char device[64];
	const struct figure *figure = find_again(fd, device);

	if (figure == NULL) /* it was closed, and the number is another file's */
		__atomic_fetch_and(&handed_out[fd / 64], ~(UINT64_C(1) << fd % 64), __ATOMIC_RELAXED);
	else if (write_figure(fd, figure, device) != 0)
		(void)ftruncate(fd, 0);
	errno = kept;
}

void vb_preload_counters_renew(int fd)
{
	if (fd >= 0 && fd < REMEMBERED && (__atomic_load_n(&handed_out[fd / 64], __ATOMIC_RELAXED) >> fd % 64 & 1))
		renew(fd);
}
