/* SPDX-License-Identifier: MIT */
#include "preload/paths.h"

#include <string.h>

/* All that a view has, and none of what the kernel has beside it: other names below /sys and /dev stay the kernel's.
 * Where a kernel has RDMA devices of its own they are hidden, as they are from the list that our libibverbs gives. */
static const char *const places[] = {
	"/sys/class/infiniband",
	"/sys/class/infiniband_verbs",
	"/sys/class/infiniband_mad",
	"/sys/devices/virtual/infiniband",
	"/sys/devices/virtual/infiniband_verbs",
	"/sys/devices/virtual/infiniband_mad",
	"/sys/devices/virtual/verbena",
	"/dev/infiniband",
};

bool vb_preload_path_may_lead_into_view(const char *path)
{
	return path != NULL && (strstr(path, "infiniband") != NULL || strstr(path, "virtual/verbena") != NULL);
}

/* Copy without repeated slashes and without "." between two of them; at the end both mean "what the link leads to".
 * The length, or 0 if it does not fit. */
static size_t squeeze(const char *path, char *out, size_t room)
{
	size_t used = 0;

	while (*path != '\0') {
		if (*path == '/' && (path[1] == '/' || (path[1] == '.' && path[2] == '/'))) {
			path += path[1] == '/' ? 1 : 2;
			continue;
		}
		if (used + 1 >= room)
			return 0;
		out[used++] = *path++;
	}
	out[used] = '\0';
	return used;
}

static bool is_place(const char *path)
{
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		size_t length = strlen(places[i]);

		if (strncmp(path, places[i], length) == 0 && (path[length] == '/' || path[length] == '\0'))
			return true;
	}
	return false;
}

bool vb_preload_path_enter(const char *root, const char *path, char room[VB_PRELOAD_PATH_ROOM])
{
	char plain[VB_PRELOAD_PATH_ROOM];
	size_t length = strlen(root), more;

	if (path[0] != '/' || (more = squeeze(path, plain, sizeof(plain))) == 0 || !is_place(plain))
		return false;
	if (length + more >= VB_PRELOAD_PATH_ROOM)
		return false;
	memcpy(room, root, length);
	memcpy(room + length, plain, more + 1);
	return true;
}

bool vb_preload_path_leave(const char *root, char *path)
{
	size_t length = strlen(root);

	if (strncmp(path, root, length) != 0 || path[length] != '/')
		return false;
	memmove(path, path + length, strlen(path + length) + 1);
	return true;
}
