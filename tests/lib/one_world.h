/* SPDX-License-Identifier: MIT
 *
 * One world for all tests of a program, for cmocka_run_group_tests(tests, open_world, close_world). To be included once, by the
 * program's main file.
 */
#ifndef TESTS_LIB_ONE_WORLD_H
#define TESTS_LIB_ONE_WORLD_H

#include "lib/world.h"

static struct world world;

static int open_world(void **state)
{
	(void)state;
	world_open(&world, "lo");
	return 0;
}

static int close_world(void **state)
{
	(void)state;
	world_close(&world);
	return 0;
}

#endif
