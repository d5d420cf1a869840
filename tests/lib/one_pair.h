/* SPDX-License-Identifier: MIT
 *
 * One pair, whose completion queues have a channel, in a world of its own for each test: cmocka_unit_test_setup_teardown(test, open_pair,
 * close_pair). To be included once, by the program's main file.
 */
#ifndef TESTS_LIB_ONE_PAIR_H
#define TESTS_LIB_ONE_PAIR_H

#include "lib/world.h"

#define WITH_PAIR(test) cmocka_unit_test_setup_teardown(test, open_pair, close_pair)

static struct world world;
static struct pair pair;

static struct ibv_comp_channel *open_channel(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(world.context);

	assert_non_null(channel);
	return channel;
}

static int open_pair(void **state)
{
	(void)state;
	world_open(&world, "lo");
	pair_open(&pair, &world, &(struct pair_options){.channel = open_channel()});
	return 0;
}

static int close_pair(void **state)
{
	struct ibv_comp_channel *channel = pair.options.channel;

	(void)state;
	pair_close(&pair);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
	world_close(&world);
	return 0;
}

#endif
