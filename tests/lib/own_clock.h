/* SPDX-License-Identifier: MIT
 *
 * A clock of the test's own, in place of io/clock.c: time goes by when the test says so. Included once in a program.
 */
#ifndef TESTS_LIB_OWN_CLOCK_H
#define TESTS_LIB_OWN_CLOCK_H

#include "io/clock.h"

static vb_time now = VB_SECONDS(1000);

vb_time vb_clock_now(void)
{
	return now;
}

vb_time vb_clock_coarse(void)
{
	return now;
}

vb_time vb_clock_wall(void)
{
	return now;
}

void vb_clock_sleep(vb_time duration)
{
	now += duration;
}

#endif
