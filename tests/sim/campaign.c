/* SPDX-License-Identifier: MIT
 *
 * Worlds by seed, in virtual time, in which everything that can go wrong does:
 *
 *   engines      queue pairs of several hosts (world_engines.c)
 *   processes    programs, the daemons' connection managers and queue pairs of several hosts (world_processes.c)
 *   daemon       verbenad with its loop, sockets and slots, and programs that outlive it (world_daemon.c)
 *   whole        hosts with verbenad itself, programs, and queue pairs whose packets come through its slots (world_processes.c, hosted.h)
 *
 *   campaign [--world engines|processes|daemon|whole] [--seeds N] [--from SEED] [--seconds S] [--length L]
 *
 * ends with "N seeds, M packets". A seed that fails is named, and --from SEED --seeds 1 plays it alone. With --length a world has L times
 * the steps.
 */
#include <getopt.h>
#include <string.h>
#include <time.h>

#include "sim/world.h"

uint64_t world_seed;
unsigned world_length = 1;
struct world_counts world_counts;

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"world", required_argument, NULL, 'w'},
		{"seeds", required_argument, NULL, 'n'},
		{"from", required_argument, NULL, 'f'},
		{"seconds", required_argument, NULL, 's'},
		{"length", required_argument, NULL, 'l'},
		{0},
	};
	uint64_t (*play)(void) = world_engines_play;
	uint64_t first = 1, seeds = 60, played = 0, packets = 0;
	double seconds = 1e9;
	struct timespec begun, now;

	for (int option; (option = getopt_long(argc, argv, "w:n:f:s:l:", options, NULL)) != -1;) {
		if (option == 'w' && strcmp(optarg, "processes") == 0)
			play = world_processes_play;
		else if (option == 'w' && strcmp(optarg, "daemon") == 0)
			play = world_daemon_play;
		else if (option == 'w' && strcmp(optarg, "whole") == 0)
			play = world_whole_play;
		else if (option == 'n')
			seeds = strtoull(optarg, NULL, 0);
		else if (option == 'f')
			first = strtoull(optarg, NULL, 0);
		else if (option == 's')
			seconds = strtod(optarg, NULL);
		else if (option == 'l')
			world_length = (unsigned)strtoul(optarg, NULL, 0);
		else if (option != 'w' || strcmp(optarg, "engines") != 0)
			return 2;
	}
	clock_gettime(CLOCK_MONOTONIC, &begun);
	do {
		world_seed = first + played++;
		packets += play();
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (played < seeds && (double)(now.tv_sec - begun.tv_sec) < seconds);
	printf("%llu seeds from %llu, %llu packets\n", (unsigned long long)played, (unsigned long long)first, (unsigned long long)packets);
	if (world_counts.operations > 0)
		printf("%llu operations completed, %llu with success\n", (unsigned long long)world_counts.operations,
		       (unsigned long long)world_counts.succeeded);
	if (world_counts.connections > 0)
		printf("%llu connections of %llu processes and %llu daemons\n", (unsigned long long)world_counts.connections,
		       (unsigned long long)world_counts.processes, (unsigned long long)world_counts.daemons);
	return 0;
}
