/* SPDX-License-Identifier: MIT
 *
 * What the worlds of campaign.c have in common.
 */
#ifndef VB_TESTS_SIM_WORLD_H
#define VB_TESTS_SIM_WORLD_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* The seed at hand, and how many times as long as usual a world lasts. */
extern uint64_t world_seed;
extern unsigned world_length;

/* What the worlds of this run had. */
struct world_counts {
	uint64_t operations, succeeded, connections, processes, daemons;
};
extern struct world_counts world_counts;

/* Of the condition that does not hold the seed is told, which plays it again. */
#define CHECK(condition)                                                                                        \
	do {                                                                                                    \
		if (!(condition)) {                                                                             \
			fprintf(stderr, "seed %llu: %s:%d: %s does not hold\n", (unsigned long long)world_seed, \
				__FILE__, __LINE__, #condition);                                                \
			abort();                                                                                \
		}                                                                                               \
	} while (0)

/* Each plays the world of world_seed and returns how many packets were sent in it. */
uint64_t world_engines_play(void);
uint64_t world_processes_play(void);
uint64_t world_daemon_play(void);
uint64_t world_whole_play(void);

#endif
