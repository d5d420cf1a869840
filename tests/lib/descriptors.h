/* SPDX-License-Identifier: MIT
 *
 * How many descriptors this process has open: what a test began with must be what it ends with.
 */
#ifndef TESTS_LIB_DESCRIPTORS_H
#define TESTS_LIB_DESCRIPTORS_H

#include <dirent.h>
#include <stdlib.h>

static inline unsigned count_descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	unsigned count = 0;

	if (folder == NULL)
		abort();
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

#endif
