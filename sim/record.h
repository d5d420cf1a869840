/* SPDX-License-Identifier: MIT
 *
 * What a run showed: samples over time, and figures of the whole.
 */
#ifndef VB_SIM_RECORD_H
#define VB_SIM_RECORD_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/time.h"
#include "sim/scenario.h"

enum { SIM_MOST_SERIES = 16 };

/* One line of a plot: a value for each sample. */
struct sim_series {
	char name[40];
	float *value;
};

struct sim_record {
	char name[48];                   /* of the variant */
	vb_time sample, settle, duration;
	unsigned samples;
	struct sim_series goodput[SIM_MOST_SERIES], rate[SIM_MOST_SERIES]; /* of flows, Gb/s */
	struct sim_series queue[SIM_MOST_WATCHED], paused[SIM_MOST_WATCHED]; /* KB; share of the time */
	unsigned flows, queues;

	/* Of the time from settle on, unless it says otherwise. */
	unsigned flow_count, finished, failed, stalled; /* stalled: got nothing in the last quarter of the run */
	char flow_name[SIM_MOST_FLOWS][32];
	double flow_goodput[SIM_MOST_FLOWS]; /* Gb/s, of the first so many */
	double goodput_sum, utilisation; /* Gb/s of all; of the first port watched */
	double queue_mean, queue_high, queue_most; /* KB: mean, what 90 % of samples are below, longest */
	double fair_after;               /* ms after the last flow began: each had its part within 10 % over the 10 ms that followed */
	double share_least, share_most, share_error; /* of flows: least and most of the sum; worst difference from an equal part */
	double completion_mean, completion_half, completion_high; /* us: mean, median, 99th percentile */
	double delivered;                /* MB of payload, of the whole run */
	uint64_t messages;               /* of the whole run, acknowledged */
	uint64_t drops, pauses, marks, packets, watchdog_drops;
	uint64_t pauses_at_hosts;        /* of all: told to hosts */
	unsigned stuck;                  /* queues of switches that are paused at the end and have not moved for a quarter of the run */
	unsigned watchdog_fired;
	double efficiency;               /* payload that arrived, of all bytes that hosts put on their lines; of the whole run */
	double cpu_seconds;
	uint64_t events;
	unsigned hosts;
};

/* `progress` (may be NULL) is told now and then how far the run is, 0 to 1. */
struct sim_record *sim_record_make(const struct sim_scenario *scenario, uint64_t seed, char *error, size_t room,
				   void (*progress)(void *context, const char *variant, double done), void *context);
void sim_record_free(struct sim_record *record);

/* One of the figures, or "flow:NAME". False: there is none of that name. */
bool sim_record_metric(const struct sim_record *record, const char *name, double *value);
/* Every metric's name, NULL at the end. */
const char *const *sim_record_metrics(void);

/* Has it been shown? 1: yes, 0: no, -1: there is no such variant or metric. *seen is the metric, or how many times that of `than`. */
int sim_must_judge(const struct sim_experiment *experiment, struct sim_record *const *records, const struct sim_must *must, double *seen);

/* All samples of all variants: variant, time, series, value. */
void sim_record_write_csv(FILE *out, struct sim_record *const *records, unsigned count);

#endif
