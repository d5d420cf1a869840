/* SPDX-License-Identifier: MIT
 *
 * What the programs that try ways to ask the kernel share: time, and ending at the first call that fails.
 */
#ifndef BENCH_IDEAS_H
#define BENCH_IDEAS_H

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static inline double seconds_of(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static inline double now(void)
{
	return seconds_of(CLOCK_MONOTONIC);
}

static inline void give_up(const char *what)
{
	fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, strerror(errno));
	exit(1);
}

static inline void want(bool good, const char *what)
{
	if (!good)
		give_up(what);
}

#endif
