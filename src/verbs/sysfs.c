/* SPDX-License-Identifier: MIT
 *
 * Two helpers old programs use to read attribute files. Our devices have some below `verbena run`
 * (cli/view.c), and other files may be asked for.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "io/descriptor.h"
#include "verbs/export.h"
#include "verbs/objects.h"

const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

VB_EXPORT const char *ibv_get_sysfs_path(void)
{
	const char *path = secure_getenv("SYSFS_PATH");

	return path != NULL ? path : "/sys";
}

/* The length without a final newline, or -1. */
VB_EXPORT int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
	char path[IBV_SYSFS_PATH_MAX * 2];
	ssize_t length;

	if (dir == NULL || file == NULL || buf == NULL || size == 0 ||
	    snprintf(path, sizeof(path), "%s/%s", dir, file) >= (int)sizeof(path)) {
		errno = EINVAL;
		return -1;
	}
	length = vb_file_read(path, buf, size);
	if (length < 0)
		return -1;
	if (length > 0 && buf[length - 1] == '\n')
		length--;
	if ((size_t)length < size)
		buf[length] = '\0';
	return (int)length;
}
