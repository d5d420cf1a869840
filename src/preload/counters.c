/* SPDX-License-Identifier: MIT
 *
 * A program may name a counter by its whole path, or by its last part alone from a directory that it has gone to (cd, grep -r). So it is
 * the opened file that is looked at: whether it is one of the view's, after a first look at its name, which is all that other files
 * cost.
 *
 * What the program gets is a memory file of its own, with one line as the kernel writes it. Opening it once more gives a new figure;
 * reading it once more does not.
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

enum { FIGURES = sizeof(figures) / sizeof(figures[0]) };

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

/* Which counter is it, and of which device? NULL: it is not of the view. */
static const struct figure *find_figure(int fd, char device[64])
{
	static const char devices[] = "/sys/devices/virtual/infiniband/";
	char path[VB_PRELOAD_PATH_ROOM], root[VB_PRELOAD_PATH_ROOM], *name, *slash;
	size_t length;

	if (!find_path(fd, path) || !find_root(root))
		return NULL;
	length = strlen(root);
	if (strncmp(path, root, length) != 0 || strncmp(path + length, devices, sizeof(devices) - 1) != 0)
		return NULL;
	name = path + length + sizeof(devices) - 1;
	slash = strchr(name, '/');
	if (slash == NULL || slash - name >= 64 || strncmp(slash, "/ports/1/", 9) != 0)
		return NULL;
	memset(device, 0, 64);
	memcpy(device, name, (size_t)(slash - name));
	name = slash + 9;
	for (unsigned i = 0; i < FIGURES; i++) {
		length = strlen(figures[i].directory);
		if (strncmp(name, figures[i].directory, length) == 0 && name[length] == '/' &&
		    strcmp(name + length + 1, figures[i].name) == 0)
			return &figures[i];
	}
	return NULL;
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

/* A file of one line in place of `fd`. 0 or -errno. */
static int show(int fd, uint64_t value)
{
	int flags = fcntl(fd, F_GETFD), file = memfd_create("verbena-counter", MFD_CLOEXEC), error = 0;
	char line[24];
	int length = snprintf(line, sizeof(line), "%llu\n", (unsigned long long)value);

	if (file < 0)
		return -errno;
	if (flags < 0 || pwrite(file, line, (size_t)length, 0) != length ||
	    syscall(SYS_dup3, file, fd, flags & FD_CLOEXEC ? O_CLOEXEC : 0) < 0)
		error = -EIO;
	syscall(SYS_close, file);
	return error;
}

/* Apart: it needs more stack than other files do. */
__attribute__((noinline)) static int fill(int fd)
{
	struct vb_daemon_counters told = {0};
	const struct figure *figure;
	char device[64];
	uint64_t value;
	int kept = errno, error;

	figure = find_figure(fd, device);
	if (figure == NULL) {
		errno = kept;
		return 0;
	}
	error = ask(device, &told);
	if (error == 0) {
		memcpy(&value, (const char *)&told + figure->offset, sizeof(value));
		error = show(fd, value);
	}
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
