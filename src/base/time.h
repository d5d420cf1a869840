/* SPDX-License-Identifier: MIT
 *
 * Time is a parameter. Engines never read a clock: their caller says what time it is, which
 * is what lets the simulator run an hour of retries in a millisecond.
 */
#ifndef VB_BASE_TIME_H
#define VB_BASE_TIME_H

#include <stdint.h>

/* Nanoseconds on some monotonic clock. */
typedef int64_t vb_time;

#define VB_TIME_NEVER INT64_MAX
#define VB_NANOSECONDS(n) ((vb_time)(n))
#define VB_MICROSECONDS(n) ((vb_time)(n) * 1000)
#define VB_MILLISECONDS(n) ((vb_time)(n) * 1000000)
#define VB_SECONDS(n) ((vb_time)(n) * 1000000000)

static inline vb_time vb_time_earlier(vb_time a, vb_time b)
{
	return a < b ? a : b;
}

#endif
