/* SPDX-License-Identifier: MIT
 *
 * Patterns of flows: see workload.h.
 */
#include "sim/workload.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/flow.h"
#include "sim/sim.h"

static const struct sim_sizes known[] = {
	/* Web search, as measured for DCTCP (SIGCOMM 2010) and used by most papers since. */
	{"websearch",
	 {{0, 0}, {10e3, 150000}, {20e3, 200000}, {30e3, 300000}, {50e3, 400000}, {80e3, 530000}, {200e3, 600000}, {1e6, 700000},
	  {2e6, 800000}, {5e6, 900000}, {10e6, 970000}, {30e6, 1000000}},
	 12},
	/* Half of them one packet, one in seven 200 KB to 3 MB: the heavy tail of IRN (SIGCOMM 2018). */
	{"heavy", {{32, 0}, {1000, 500000}, {200e3, 850000}, {3e6, 1000000}}, 4},
};

const struct sim_sizes *sim_sizes_find(const char *name)
{
	for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(known[i].name, name) == 0)
			return &known[i];
	return NULL;
}

double sim_sizes_mean(const struct sim_sizes *sizes)
{
	double mean = 0;

	for (unsigned i = 1; i < sizes->count; i++)
		mean += (sizes->point[i].share - sizes->point[i - 1].share) / 1e6 * (sizes->point[i].bytes + sizes->point[i - 1].bytes) / 2;
	return mean;
}

static uint64_t draw_size(struct sim *sim, const struct sim_sizes *sizes)
{
	uint32_t share = sim_below(sim, 1000000);
	unsigned i = 1;
	double into;

	while (sizes->point[i].share <= share)
		i++;
	into = (double)(share - sizes->point[i - 1].share) / (sizes->point[i].share - sizes->point[i - 1].share);
	into = sizes->point[i - 1].bytes + into * (sizes->point[i].bytes - sizes->point[i - 1].bytes);
	return into < 1 ? 1 : (uint64_t)into;
}

static void add(const struct sim_workload *workload, struct sim_flows *flows, unsigned from, unsigned to, vb_time starts, uint64_t size)
{
	struct sim_flow flow = {.from = from, .to = to, .starts = starts, .size = size, .message = workload->message};

	snprintf(flow.name, sizeof(flow.name), "%u to %u", from, to);
	sim_flows_add(flows, &flow);
}

/* Others than itself, each once: a cycle through a shuffled list. */
static void permute(const struct sim_workload *workload, struct sim_flows *flows)
{
	struct sim *sim = flows->sim;
	unsigned count = sim->host_count, *order = calloc(count, sizeof(*order));

	assert(order);
	for (unsigned i = 0; i < count; i++)
		order[i] = i;
	for (unsigned i = count; i > 1; i--) {
		unsigned other = sim_below(sim, i), kept = order[i - 1];

		order[i - 1] = order[other];
		order[other] = kept;
	}
	for (unsigned i = 0; i < count; i++)
		add(workload, flows, order[i], order[(i + 1) % count], workload->from, workload->size);
	free(order);
}

static void poisson(const struct sim_workload *workload, struct sim_flows *flows, uint64_t line_rate)
{
	struct sim *sim = flows->sim;
	double mean = workload->sizes ? sim_sizes_mean(workload->sizes) : (double)workload->size;
	double between = mean * 8e9 / (workload->load * (double)line_rate);

	for (unsigned from = 0; from < sim->host_count; from++) {
		double at = (double)workload->from;

		for (;;) {
			unsigned to = sim_below(sim, sim->host_count - 1);

			at -= between * log((sim_random(sim) + 1.0) / 4294967297.0);
			if (at >= (double)workload->until)
				break;
			add(workload, flows, from, to + (to >= from), (vb_time)at,
			    workload->sizes ? draw_size(sim, workload->sizes) : workload->size);
		}
	}
}

void sim_workload_make(const struct sim_workload *workload, struct sim_flows *flows, uint64_t line_rate)
{
	unsigned hosts = flows->sim->host_count;

	switch (workload->pattern) {
	case SIM_PATTERN_NONE:
		break;
	case SIM_PATTERN_INCAST:
		for (unsigned i = 1; i <= workload->senders && i < hosts; i++)
			add(workload, flows, i, 0, workload->from, workload->size);
		break;
	case SIM_PATTERN_PERMUTATION:
		permute(workload, flows);
		break;
	case SIM_PATTERN_ALL_TO_ALL:
		for (unsigned i = 0; i < hosts; i++)
			for (unsigned k = 0; k < hosts; k++)
				if (i != k)
					add(workload, flows, i, k, workload->from, workload->size);
		break;
	case SIM_PATTERN_POISSON:
		poisson(workload, flows, line_rate);
		break;
	}
}
