/* SPDX-License-Identifier: MIT
 *
 * What an experiment file says: one network with its traffic, in variants that are compared, and what they must show.
 *
 *   name, title, seed, duration, sample, settle
 *   [hosts]      count, rate, delay               when switches are listed; whole networks count their own
 *   [fabric]     kind = "list" | "fat-tree" | "leaf-spine", k, leaves, spines, hosts_each, rate, delay
 *   [[switch]]   name, hosts = "0-3", tier        [[link]] from, to, rate, delay        [[route]] at, to, by
 *   [buffer]     size, reserve, shift, resume     [ecn] on, kmin, kmax, pmax            [pfc] on, poll, detect, restore
 *   [control]    algorithm, parameters, window, cnp_interval; of DCQCN besides gain, alpha_period, cut_interval, timer, byte_counter,
 *                recovery_steps, additive, hyper, minimum                               [recovery] scheme, timeout [loss] every
 *   [[flow]]     name, from, to, start, size, message                                   [storm] host, at
 *   [workload]   pattern, senders, size, sizes, load, from, until, message
 *   [watch]      port = ["s0 h8", ...]: queues to record
 *   [short]      any of these, for quick runs     [[variant]] name, and any of these; short.… for quick runs of it
 *   [[must]]     says, variant, metric, at_least, at_most, than, at_least_times, at_most_times, like, within
 *   [plot]       rows = ["goodput", "rate", "queue", "paused"], bars = ["metric: title", ...]
 */
#ifndef VB_SIM_SCENARIO_H
#define VB_SIM_SCENARIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "roce/control.h"
#include "sim/fabric.h"
#include "sim/flow.h"
#include "sim/workload.h"

enum { SIM_MOST_SWITCHES = 32, SIM_MOST_LINKS = 64, SIM_MOST_ROUTES = 64, SIM_MOST_FLOWS = 64, SIM_MOST_WATCHED = 8, SIM_MOST_VARIANTS = 8,
       SIM_MOST_MUSTS = 24, SIM_MOST_PLOTS = 6 };

#define SIM_UNSAID UINT64_MAX

enum sim_fabric_kind { SIM_FABRIC_LIST, SIM_FABRIC_FAT_TREE, SIM_FABRIC_LEAF_SPINE };

struct sim_scenario {
	char name[48];
	uint64_t seed;
	vb_time duration, sample, settle; /* settle: what is measured begins there */

	enum sim_fabric_kind kind;
	unsigned hosts, k, leaves, spines, hosts_each;
	struct sim_line host_line, line;
	struct { char name[16], hosts[32]; unsigned tier; } at[SIM_MOST_SWITCHES];
	struct { char from[16], to[16]; struct sim_line line; } link[SIM_MOST_LINKS];
	struct { char at[16], by[16]; unsigned to; } route[SIM_MOST_ROUTES];
	unsigned switch_count, link_count, route_count;

	struct sim_switch_settings settings;
	bool marks;
	struct vb_roce_policy policy;
	/* What the file says of DCQCN beside the set of numbers that it names; SIM_UNSAID: nothing. And what that makes together. */
	struct {
		double gain;             /* g, of 1 */
		uint64_t alpha_period, cut_interval, timer, byte_counter, recovery_steps, additive, hyper, minimum;
	} said;
	struct vb_dcqcn_parameters dcqcn;
	struct sim_flow flow[SIM_MOST_FLOWS];
	unsigned flow_count;
	struct sim_workload workload;
	char watch[SIM_MOST_WATCHED][32];
	unsigned watch_count;
	bool storms;
	unsigned storm_host;
	vb_time storm_at;
};

struct sim_must {
	char says[120], variant[48], metric[48], than[48];
	bool has_least, has_most;
	double least, most;              /* of the metric, or of its ratio to that of `than` */
	double like, within;             /* what another simulator says, and what share of it is near enough; 0: held against none */
	unsigned line;
};

struct sim_experiment {
	char name[32], title[160];
	struct sim_scenario variant[SIM_MOST_VARIANTS];
	unsigned variant_count;
	struct sim_must must[SIM_MOST_MUSTS];
	unsigned must_count;
	char row[SIM_MOST_PLOTS][32], bar[SIM_MOST_PLOTS][96];
	unsigned row_count, bar_count;
};

/* False: `error` says in which line, which word, and what was expected. */
bool sim_experiment_read(struct sim_experiment *experiment, const char *text, bool is_short, char *error, size_t room);

/* "40Gb/s", "1us", "200KB", as numbers. False: it is none. */
bool sim_parse_rate(const char *text, double *value);
bool sim_parse_time(const char *text, double *value);
bool sim_parse_bytes(const char *text, double *value);

#endif
