/* SPDX-License-Identifier: MIT
 *
 * Who sends what to whom: patterns that make flows.
 */
#ifndef VB_SIM_WORKLOAD_H
#define VB_SIM_WORKLOAD_H

#include <stdint.h>

#include "base/time.h"

struct sim_flows;

enum sim_pattern {
	SIM_PATTERN_NONE,
	SIM_PATTERN_INCAST,              /* `senders` hosts to host 0 at once */
	SIM_PATTERN_PERMUTATION,         /* each host to another, each receives one */
	SIM_PATTERN_ALL_TO_ALL,
	SIM_PATTERN_POISSON,             /* at random, such that each host's line is used to `load` */
};

/* Sizes: what share of flows (in a million) is no longer than that; between two points evenly. */
struct sim_sizes {
	const char *name;
	struct { double bytes; uint32_t share; } point[12];
	unsigned count;
};
/* NULL: none of that name. */
const struct sim_sizes *sim_sizes_find(const char *name);
double sim_sizes_mean(const struct sim_sizes *sizes);

struct sim_workload {
	enum sim_pattern pattern;
	unsigned senders;
	uint64_t size;                   /* of each flow; 0: for ever (not Poisson) */
	const struct sim_sizes *sizes;   /* Poisson; NULL: all of `size` */
	double load;
	vb_time from, until;             /* Poisson: when flows begin */
	uint32_t message;
};

void sim_workload_make(const struct sim_workload *workload, struct sim_flows *flows, uint64_t line_rate);

#endif
