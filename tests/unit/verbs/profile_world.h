/* SPDX-License-Identifier: MIT
 *
 * A device under the profile of an adapter. To be included once, by the program's main file.
 */
#ifndef TESTS_UNIT_VERBS_PROFILE_WORLD_H
#define TESTS_UNIT_VERBS_PROFILE_WORLD_H

#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/world.h"

static struct world world;

static void set_profile(const char *profile)
{
	if (profile != NULL)
		setenv("VERBENA_PROFILE", profile, 1);
	else
		unsetenv("VERBENA_PROFILE");
}

/* RoCE. NULL: as it is without one. */
static void open_as(const char *profile)
{
	set_profile(profile);
	world_open(&world, "lo");
}

/* iWARP. */
static void open_rnic_as(const char *profile)
{
	struct ibv_device **list;
	int count;

	set_profile(profile);
	setenv("VERBENA_TRANSPORT", "iwarp", 1);
	world = (struct world){0};
	list = ibv_get_device_list(&count);
	assert_non_null(list);
	for (int i = 0; i < count; i++)
		if (strcmp(ibv_get_device_name(list[i]), "iwarp_lo") == 0)
			world.context = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	assert_non_null(world.context);
	world.pd = ibv_alloc_pd(world.context);
	assert_non_null(world.pd);
	unsetenv("VERBENA_TRANSPORT");
}

#endif
