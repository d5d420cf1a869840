/* SPDX-License-Identifier: MIT
 *
 * How much memory a process has in use.
 */
#ifndef TESTS_LIB_RESIDENT_H
#define TESTS_LIB_RESIDENT_H

#include <stdio.h>
#include <unistd.h>

/* Bytes; proc: "/proc/self", or that of another process. */
static inline size_t resident_bytes(const char *proc)
{
	unsigned long total = 0, pages = 0;
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "%s/statm", proc);
	file = fopen(path, "re");
	assert_non_null(file);
	assert_int_equal(fscanf(file, "%lu %lu", &total, &pages), 2);
	fclose(file);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

#endif
