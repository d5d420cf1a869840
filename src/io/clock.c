/* SPDX-License-Identifier: MIT
 *
 * The monotonic clock, read through the vDSO: no system call.
 */
#include "io/clock.h"

#include <time.h>

static vb_time read_clock(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (vb_time)t.tv_sec * 1000000000 + t.tv_nsec;
}

vb_time vb_clock_now(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

vb_time vb_clock_coarse(void)
{
	return read_clock(CLOCK_MONOTONIC_COARSE);
}
