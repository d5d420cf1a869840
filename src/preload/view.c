/* SPDX-License-Identifier: MIT */
#include "preload/view.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The environment is read once, before the program's own main: it may change it. */
static char root[VB_PRELOAD_PATH_ROOM];
static const char *chosen;

__attribute__((constructor)) static void choose_root(void)
{
	const char *value = secure_getenv("VERBENA_VIEW");
	size_t length = value != NULL ? strlen(value) : 0;

	if (length == 0 || length >= sizeof(root) || value[0] != '/')
		return;
	memcpy(root, value, length + 1);
	__atomic_store_n(&chosen, root, __ATOMIC_RELEASE);
}

const char *vb_preload_view_root(void)
{
	return __atomic_load_n(&chosen, __ATOMIC_ACQUIRE);
}

/* The directory that paths count from, by system calls: the C library's functions are what we stand in for. */
static bool find_directory(int at, char *out, size_t size)
{
	char name[64];
	long length;

	if (at == AT_FDCWD) {
		length = syscall(SYS_getcwd, out, size);
		return length > 0 && out[0] == '/';
	}
	snprintf(name, sizeof(name), "/proc/self/fd/%d", at);
	length = syscall(SYS_readlinkat, AT_FDCWD, name, out, size - 1);
	if (length <= 0)
		return false;
	out[length] = '\0';
	return out[0] == '/';
}

__attribute__((noinline)) static const char *enter(int at, const char *path, char room[VB_PRELOAD_PATH_ROOM])
{
	char whole[VB_PRELOAD_PATH_ROOM], directory[VB_PRELOAD_PATH_ROOM];

	if (path[0] == '/')
		return vb_preload_path_enter(root, path, room) ? room : path;
	if (!find_directory(at, directory, sizeof(directory)) ||
	    snprintf(whole, sizeof(whole), "%s/%s", directory, path) >= (int)sizeof(whole))
		return path;
	return vb_preload_path_enter(root, whole, room) ? room : path;
}

const char *vb_preload_view_path(int at, const char *path, char room[VB_PRELOAD_PATH_ROOM])
{
	int kept = errno;

	if (vb_preload_view_root() == NULL || !vb_preload_path_may_lead_into_view(path))
		return path;
	path = enter(at, path, room);
	errno = kept;
	return path;
}
