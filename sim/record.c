/* SPDX-License-Identifier: MIT
 *
 * Running a scenario and writing down what happens: see record.h.
 */
#include "sim/record.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim/nic.h"
#include "sim/port.h"
#include "sim/sim.h"

/* A run under way. */
#define FAIR_OVER VB_MILLISECONDS(10)
#define FAIR_WITHIN 0.1

struct run {
	const struct sim_scenario *scenario;
	struct sim *sim;
	struct sim_fabric *fabric;
	struct sim_flows *flows;
	struct sim_port *watched[SIM_MOST_WATCHED];
	vb_time paused_before[SIM_MOST_WATCHED];
	uint64_t before[SIM_MOST_SERIES];
	uint64_t *at_settle, *at_last_quarter; /* bytes delivered, by flow */
	uint64_t watched_at_settle;
	struct sim_record *record;
};

/* ---- building ---- */

static bool build_list(struct run *run, char *error, size_t room)
{
	const struct sim_scenario *scenario = run->scenario;

	for (unsigned i = 0; i < scenario->hosts; i++)
		sim_host_add(run->sim, false);
	for (unsigned i = 0; i < scenario->switch_count; i++) {
		struct sim_switch *made = sim_fabric_switch(run->fabric, scenario->at[i].name, scenario->at[i].tier);
		unsigned first, last;
		int found = sscanf(scenario->at[i].hosts, "%u-%u", &first, &last);

		if (found == 1)
			last = first;
		for (unsigned h = found >= 1 ? first : 1; found >= 1 && h <= last; h++) {
			if (h >= scenario->hosts || run->sim->hosts[h]->port) {
				snprintf(error, room, "switch %s: host %u is not there, or at another switch", made->name, h);
				return false;
			}
			sim_fabric_link_host(run->fabric, run->sim->hosts[h], made, scenario->host_line);
		}
	}
	for (unsigned i = 0; i < scenario->link_count; i++) {
		struct sim_switch *a = sim_fabric_find(run->fabric, scenario->link[i].from);
		struct sim_switch *b = sim_fabric_find(run->fabric, scenario->link[i].to);

		if (!a || !b || a == b) {
			snprintf(error, room, "link %s to %s: there is no such switch", scenario->link[i].from, scenario->link[i].to);
			return false;
		}
		sim_fabric_link(run->fabric, a, b, scenario->link[i].line);
	}
	for (unsigned i = 0; i < scenario->hosts; i++) {
		if (!run->sim->hosts[i]->port) {
			snprintf(error, room, "host %u is at no switch", i);
			return false;
		}
	}
	return true;
}

static bool build(struct run *run, char *error, size_t room)
{
	const struct sim_scenario *scenario = run->scenario;

	switch (scenario->kind) {
	case SIM_FABRIC_LIST:
		if (!build_list(run, error, room))
			return false;
		break;
	case SIM_FABRIC_FAT_TREE:
		if (scenario->k < 2 || scenario->k > 64 || scenario->k % 2 ||
		    scenario->hosts > scenario->k * scenario->k * scenario->k / 4) {
			snprintf(error, room, "fabric.k = %u: expected an even number from 2 to 64, and no more than k^3 / 4 hosts",
				 scenario->k);
			return false;
		}
		sim_fabric_fat_tree(run->fabric, scenario->k, scenario->hosts, scenario->host_line);
		break;
	case SIM_FABRIC_LEAF_SPINE:
		if (scenario->spines > 63) {
			snprintf(error, room, "fabric.spines = %u: at most 63", scenario->spines);
			return false;
		}
		sim_fabric_leaf_spine(run->fabric, scenario->leaves, scenario->spines, scenario->hosts_each, scenario->host_line,
				      scenario->line);
		break;
	}
	if (run->sim->host_count < 2) {
		snprintf(error, room, "there are no two hosts");
		return false;
	}
	for (unsigned i = 0; i < run->sim->host_count; i++)
		run->sim->hosts[i]->queue_host.policy = &scenario->policy;
	sim_fabric_start(run->fabric);
	return true;
}

static bool set_routes(struct run *run, char *error, size_t room)
{
	for (unsigned i = 0; i < run->scenario->route_count; i++) {
		struct sim_switch *at = sim_fabric_find(run->fabric, run->scenario->route[i].at);
		struct sim_switch *by = sim_fabric_find(run->fabric, run->scenario->route[i].by);
		unsigned to = run->scenario->route[i].to;

		if (!at || !by || to >= run->sim->host_count ||
		    !sim_fabric_set_route(run->fabric, at, run->sim->hosts[to], by)) {
			snprintf(error, room, "route at %s by %s to host %u: no such switches side by side, or no such host",
				 run->scenario->route[i].at, run->scenario->route[i].by, to);
			return false;
		}
	}
	return true;
}

/* "s0 h8" or "s0 s1": the port of the first that leads to the second. */
static bool watch(struct run *run, char *error, size_t room)
{
	for (unsigned i = 0; i < run->scenario->watch_count; i++) {
		char from[32], to[32];
		struct sim_switch *at = NULL, *other;

		if (sscanf(run->scenario->watch[i], "%31s %31s", from, to) == 2)
			at = sim_fabric_find(run->fabric, from);
		other = at ? sim_fabric_find(run->fabric, to) : NULL;
		if (other)
			run->watched[i] = sim_fabric_port_to(at, other);
		else if (at && to[0] == 'h' && strtoul(to + 1, NULL, 10) < run->sim->host_count)
			run->watched[i] = sim_fabric_port_to_host(at, run->sim->hosts[strtoul(to + 1, NULL, 10)]);
		if (!run->watched[i]) {
			snprintf(error, room, "watch.port \"%s\": expected a switch and its neighbour, as in \"s0 h8\" or \"s0 s1\"",
				 run->scenario->watch[i]);
			return false;
		}
	}
	return true;
}

static bool plan(struct run *run, char *error, size_t room)
{
	const struct sim_scenario *scenario = run->scenario;

	for (unsigned i = 0; i < scenario->flow_count; i++) {
		const struct sim_flow *flow = &scenario->flow[i];

		if (flow->from == flow->to || flow->from >= run->sim->host_count || flow->to >= run->sim->host_count) {
			snprintf(error, room, "flow %s: from host %u to host %u: expected two different ones of %u", flow->name,
				 flow->from, flow->to, run->sim->host_count);
			return false;
		}
		sim_flows_add(run->flows, flow);
	}
	sim_workload_make(&scenario->workload, run->flows, scenario->host_line.rate);
	if (run->flows->count == 0) {
		snprintf(error, room, "there is no flow: give [[flow]] or [workload]");
		return false;
	}
	if (scenario->storms && scenario->storm_host >= run->sim->host_count) {
		snprintf(error, room, "storm.host = %u: there are %u hosts", scenario->storm_host, run->sim->host_count);
		return false;
	}
	return true;
}

/* ---- samples ---- */

static struct sim_series series(const char *name, unsigned samples)
{
	struct sim_series made;

	snprintf(made.name, sizeof(made.name), "%s", name);
	made.value = calloc(samples + 1, sizeof(float));
	assert(made.value);
	return made;
}

static void prepare(struct run *run)
{
	struct sim_record *record = run->record;

	record->samples = (unsigned)(run->scenario->duration / run->scenario->sample);
	record->flows = run->flows->count < SIM_MOST_SERIES ? run->flows->count : SIM_MOST_SERIES;
	record->queues = run->scenario->watch_count;
	for (unsigned i = 0; i < record->flows; i++) {
		record->goodput[i] = series(run->flows->flow[i].name, record->samples);
		record->rate[i] = series(run->flows->flow[i].name, record->samples);
	}
	for (unsigned i = 0; i < record->queues; i++) {
		record->queue[i] = series(run->scenario->watch[i], record->samples);
		record->paused[i] = series(run->scenario->watch[i], record->samples);
	}
	run->at_settle = calloc(run->flows->count, sizeof(uint64_t));
	run->at_last_quarter = calloc(run->flows->count, sizeof(uint64_t));
	assert(run->at_settle && run->at_last_quarter);
}

static vb_time paused_so_far(const struct sim_port *port)
{
	vb_time time = port->paused_time;

	if (port->of[SIM_DATA].paused_since != 0 && sim_port_is_paused(port, SIM_DATA))
		time += port->sim->now - port->of[SIM_DATA].paused_since;
	return time;
}

static void take_sample(struct run *run, unsigned number)
{
	struct sim_record *record = run->record;
	double gigabits = 8.0 / (double)run->scenario->sample;

	for (unsigned i = 0; i < record->flows; i++) {
		uint64_t now = sim_flow_delivered(&run->flows->flow[i]);

		record->goodput[i].value[number] = (float)((double)(now - run->before[i]) * gigabits);
		record->rate[i].value[number] = (float)((double)sim_flow_rate(&run->flows->flow[i]) / 1e9);
		run->before[i] = now;
	}
	for (unsigned i = 0; i < record->queues; i++) {
		vb_time paused = paused_so_far(run->watched[i]);

		record->queue[i].value[number] = (float)run->watched[i]->of[SIM_DATA].queued / 1000;
		record->paused[i].value[number] = (float)(paused - run->paused_before[i]) / (float)run->scenario->sample;
		run->paused_before[i] = paused;
	}
}

static void note(struct run *run, uint64_t *bytes)
{
	for (unsigned i = 0; i < run->flows->count; i++)
		bytes[i] = sim_flow_delivered(&run->flows->flow[i]);
}

/* ---- figures ---- */

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double part_of(const double *sorted, unsigned count, double part)
{
	unsigned at = (unsigned)(part * count);

	return count == 0 ? 0 : sorted[at < count ? at : count - 1];
}

static void sum_flows(struct run *run)
{
	struct sim_record *record = run->record;
	double seconds = (double)(record->duration - record->settle), least = 1e18, most = 0, equal, payload = 0, lines = 0;

	record->flow_count = run->flows->count;
	record->finished = run->flows->finished;
	record->failed = run->flows->failed;
	for (unsigned i = 0; i < run->flows->count; i++) {
		struct sim_flow *flow = &run->flows->flow[i];
		uint64_t delivered = sim_flow_delivered(flow);
		double goodput = (double)(delivered - run->at_settle[i]) * 8 / seconds;

		payload += (double)delivered;
		record->messages += flow->messages;
		record->goodput_sum += goodput;
		least = goodput < least ? goodput : least;
		most = goodput > most ? goodput : most;
		record->stalled += flow->began != 0 && flow->ended == 0 && delivered == run->at_last_quarter[i];
		if (i < SIM_MOST_FLOWS) {
			snprintf(record->flow_name[i], sizeof(record->flow_name[i]), "%s", flow->name);
			record->flow_goodput[i] = goodput;
		}
	}
	record->delivered = payload / 1e6;
	equal = record->goodput_sum / record->flow_count;
	if (equal > 0) {
		record->share_least = least / record->goodput_sum;
		record->share_most = most / record->goodput_sum;
		record->share_error = (most - equal > equal - least ? most - equal : equal - least) / equal;
	}
	for (unsigned i = 0; i < run->sim->host_count; i++)
		lines += (double)run->sim->hosts[i]->port->bytes;
	record->efficiency = lines > 0 ? payload / lines : 0;
}

/* How far the flow that is farthest from an equal part is from it, over `count` samples. */
static double error_over(const struct sim_record *record, unsigned first, unsigned count)
{
	double of[SIM_MOST_SERIES] = {0}, sum = 0, worst = 0;

	for (unsigned i = 0; i < record->flows; i++) {
		for (unsigned k = 0; k < count; k++)
			of[i] += (double)record->goodput[i].value[first + k];
		sum += of[i];
	}
	for (unsigned i = 0; i < record->flows && sum > 0; i++) {
		double error = of[i] * record->flows / sum - 1;

		worst = error > worst ? error : -error > worst ? -error : worst;
	}
	return sum > 0 ? worst : 1;
}

/* Only where all flows are recorded. Never: the whole time that was left. */
static void sum_fairness(struct run *run)
{
	struct sim_record *record = run->record;
	unsigned width = (unsigned)(FAIR_OVER / record->sample), first;
	vb_time began = 0;

	if (record->flows == 0 || record->flows != run->flows->count)
		return;
	for (unsigned i = 0; i < run->flows->count; i++)
		began = run->flows->flow[i].starts > began ? run->flows->flow[i].starts : began;
	for (first = (unsigned)(began / record->sample); first + width < record->samples; first++)
		if (error_over(record, first, width) <= FAIR_WITHIN)
			break;
	record->fair_after = ((double)first * (double)record->sample - (double)began) / 1e6;
}

static void sum_completions(struct run *run)
{
	struct sim_record *record = run->record;
	double *times = calloc(run->flows->count, sizeof(double));
	unsigned count = 0;

	assert(times);
	for (unsigned i = 0; i < run->flows->count; i++) {
		const struct sim_flow *flow = &run->flows->flow[i];

		if (flow->ended == 0)
			continue;
		times[count] = (double)(flow->ended - flow->began) / 1000;
		record->completion_mean += times[count++];
	}
	if (count > 0)
		record->completion_mean /= count;
	qsort(times, count, sizeof(double), compare);
	record->completion_half = part_of(times, count, 0.5);
	record->completion_high = part_of(times, count, 0.99);
	free(times);
}

static void sum_queues(struct run *run)
{
	struct sim_record *record = run->record;
	unsigned first = (unsigned)(record->settle / record->sample), count = record->samples - first;
	double *sorted = calloc(count + 1, sizeof(double));

	assert(sorted);
	for (unsigned i = 0; i < count && record->queues > 0; i++) {
		sorted[i] = (double)record->queue[0].value[first + i];
		record->queue_mean += sorted[i] / count;
	}
	if (record->queues > 0) {
		qsort(sorted, count, sizeof(double), compare);
		record->queue_high = part_of(sorted, count, 0.9);
		record->queue_most = sorted[count - 1];
		record->utilisation = (double)(run->watched[0]->bytes - run->watched_at_settle) * 8e9 /
				      (double)(record->duration - record->settle) / (double)run->watched[0]->rate;
	}
	free(sorted);
}

static void sum_switches(struct run *run)
{
	struct sim_record *record = run->record;

	for (unsigned i = 0; i < run->fabric->switch_count; i++) {
		const struct sim_switch *at = run->fabric->switches[i];

		record->drops += at->drops;
		record->watchdog_drops += at->watchdog_drops;
		record->watchdog_fired += at->watchdog_fired;
		for (unsigned p = 0; p < at->port_count; p++) {
			const struct sim_port *port = at->ports[p];

			record->pauses += port->pauses_sent;
			record->pauses_at_hosts += port->peer->host ? port->pauses_sent : 0;
			record->marks += port->marks;
			record->stuck += sim_port_is_paused(port, SIM_DATA) && port->of[SIM_DATA].queued > 0 &&
					 run->sim->now - port->of[SIM_DATA].moved_at > record->duration / 4;
		}
	}
	record->packets = run->sim->packets_sent;
	record->events = run->sim->steps;
	record->hosts = run->sim->host_count;
}

/* ---- running ---- */

static void go(struct run *run, void (*progress)(void *, const char *, double), void *context)
{
	struct sim_record *record = run->record;
	vb_time began = run->sim->now, quarter = record->duration - record->duration / 4;
	clock_t cpu = clock();
	bool storms = run->scenario->storms;

	sim_flows_start(run->flows);
	for (unsigned i = 0; i < record->samples; i++) {
		vb_time now = (vb_time)(i + 1) * record->sample;

		if (storms && run->scenario->storm_at < now) {
			sim_run_to(run->sim, began + run->scenario->storm_at);
			sim_nic_begin_storm(run->sim->hosts[run->scenario->storm_host]);
			storms = false;
		}
		sim_run_to(run->sim, began + now);
		take_sample(run, i);
		if (now <= record->settle) {
			note(run, run->at_settle);
			run->watched_at_settle = run->watched[0] ? run->watched[0]->bytes : 0;
		}
		if (now <= quarter)
			note(run, run->at_last_quarter);
		if (progress)
			progress(context, record->name, (double)(i + 1) / record->samples);
	}
	record->cpu_seconds = (double)(clock() - cpu) / CLOCKS_PER_SEC;
}

struct sim_record *sim_record_make(const struct sim_scenario *scenario, uint64_t seed, char *error, size_t room,
				   void (*progress)(void *context, const char *variant, double done), void *context)
{
	struct run run = {.scenario = scenario, .sim = sim_create(seed ? seed : scenario->seed)};
	struct sim_record *record = calloc(1, sizeof(*record));
	bool good;

	assert(record);
	run.record = record;
	run.sim->headers_only = true;
	run.sim->work_requests = 4;
	run.fabric = sim_fabric_new(run.sim, &scenario->settings);
	run.flows = sim_flows_new(run.sim);
	snprintf(record->name, sizeof(record->name), "%s", scenario->name);
	record->sample = scenario->sample;
	record->settle = scenario->settle;
	record->duration = scenario->duration;
	good = scenario->sample > 0 && scenario->duration >= scenario->sample && scenario->settle < scenario->duration;
	if (!good)
		snprintf(error, room, "sample, settle and duration: expected settle below duration, and at least one sample");
	good = good && build(&run, error, room) && set_routes(&run, error, room) && watch(&run, error, room) && plan(&run, error, room);
	if (good) {
		prepare(&run);
		go(&run, progress, context);
		sum_flows(&run);
		sum_fairness(&run);
		sum_completions(&run);
		sum_queues(&run);
		sum_switches(&run);
	}
	free(run.at_settle);
	free(run.at_last_quarter);
	sim_flows_free(run.flows);
	sim_fabric_free(run.fabric);
	sim_destroy(run.sim);
	if (good)
		return record;
	free(record);
	return NULL;
}

void sim_record_free(struct sim_record *record)
{
	for (unsigned i = 0; i < record->flows; i++) {
		free(record->goodput[i].value);
		free(record->rate[i].value);
	}
	for (unsigned i = 0; i < record->queues; i++) {
		free(record->queue[i].value);
		free(record->paused[i].value);
	}
	free(record);
}
