/* SPDX-License-Identifier: MIT
 *
 * Finding our libraries next to the executable, so that a build tree and an installation anywhere work
 * without configuration.
 */
#include "cli/library.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Cut the last component off. */
static bool go_up(char path[VB_CLI_PATH_MAX])
{
	char *slash = strrchr(path, '/');

	if (!slash)
		return false;
	*slash = '\0';
	return true;
}

int vb_cli_root_directory(char directory[VB_CLI_PATH_MAX])
{
	ssize_t length = readlink("/proc/self/exe", directory, VB_CLI_PATH_MAX - 1);

	if (length < 0)
		return -errno;
	directory[length] = '\0';
	return go_up(directory) && go_up(directory) ? 0 : -ENOENT;
}

int vb_cli_library_directory(char directory[VB_CLI_PATH_MAX])
{
	/* The installed place first: a PREFIX/lib may hold the distribution's libibverbs. */
	static const char *const places[] = { "lib/verbena", "lib" };
	char root[VB_CLI_PATH_MAX], candidate[VB_CLI_PATH_MAX + 64], *resolved;
	int length, error = vb_cli_root_directory(root);

	if (error)
		return error;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(candidate, sizeof(candidate), "%s/%s/libibverbs.so.1", root, places[i]);
		if (access(candidate, R_OK) != 0)
			continue;
		candidate[strlen(candidate) - strlen("/libibverbs.so.1")] = '\0';
		resolved = realpath(candidate, NULL);
		if (!resolved)
			return -errno;
		length = snprintf(directory, VB_CLI_PATH_MAX, "%s", resolved);
		free(resolved);
		return length < VB_CLI_PATH_MAX ? 0 : -ENAMETOOLONG;
	}
	return -ENOENT;
}
