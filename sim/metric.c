/* SPDX-License-Identifier: MIT
 *
 * Figures of a run by name, what they are held against, and samples as CSV: see record.h.
 */
#include <stddef.h>
#include <string.h>

#include "sim/record.h"

enum kind { REAL, COUNT32, COUNT64 };

#define METRICS(X)                         \
	X(goodput_sum, REAL)               \
	X(utilisation, REAL)               \
	X(queue_mean, REAL)                \
	X(queue_high, REAL)                \
	X(queue_most, REAL)                \
	X(fair_after, REAL)                \
	X(share_least, REAL)               \
	X(share_most, REAL)                \
	X(share_error, REAL)               \
	X(completion_mean, REAL)           \
	X(completion_half, REAL)           \
	X(completion_high, REAL)           \
	X(delivered, REAL)                 \
	X(efficiency, REAL)                \
	X(cpu_seconds, REAL)               \
	X(flow_count, COUNT32)             \
	X(finished, COUNT32)               \
	X(failed, COUNT32)                 \
	X(stalled, COUNT32)                \
	X(stuck, COUNT32)                  \
	X(watchdog_fired, COUNT32)         \
	X(hosts, COUNT32)                  \
	X(messages, COUNT64)               \
	X(drops, COUNT64)                  \
	X(pauses, COUNT64)                 \
	X(pauses_at_hosts, COUNT64)        \
	X(marks, COUNT64)                  \
	X(packets, COUNT64)                \
	X(events, COUNT64)                 \
	X(watchdog_drops, COUNT64)

static const struct {
	const char *name;
	size_t offset;
	enum kind kind;
} table[] = {
#define X(member, kind) {#member, offsetof(struct sim_record, member), kind},
	METRICS(X)
#undef X
};

const char *const *sim_record_metrics(void)
{
	static const char *const names[] = {
#define X(member, kind) #member,
		METRICS(X)
#undef X
		NULL,
	};

	return names;
}

bool sim_record_metric(const struct sim_record *record, const char *name, double *value)
{
	if (strncmp(name, "flow:", 5) == 0) {
		for (unsigned i = 0; i < record->flow_count && i < SIM_MOST_FLOWS; i++) {
			if (strcmp(record->flow_name[i], name + 5) == 0) {
				*value = record->flow_goodput[i];
				return true;
			}
		}
		return false;
	}
	for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		const void *member = (const char *)record + table[i].offset;

		if (strcmp(table[i].name, name) != 0)
			continue;
		*value = table[i].kind == REAL ? *(const double *)member :
			 table[i].kind == COUNT32 ? *(const unsigned *)member :
						    (double)*(const uint64_t *)member;
		return true;
	}
	return false;
}

static const struct sim_record *find_record(const struct sim_experiment *experiment, struct sim_record *const *records, const char *name)
{
	for (unsigned i = 0; i < experiment->variant_count; i++)
		if (strcmp(records[i]->name, name) == 0)
			return records[i];
	return NULL;
}

int sim_must_judge(const struct sim_experiment *experiment, struct sim_record *const *records, const struct sim_must *must, double *seen)
{
	const struct sim_record *record = find_record(experiment, records, must->variant);
	const struct sim_record *than = *must->than ? find_record(experiment, records, must->than) : NULL;
	double other;

	if (!record || !sim_record_metric(record, must->metric, seen) || (*must->than && !than))
		return -1;
	if (than) {
		sim_record_metric(than, must->metric, &other);
		*seen = other != 0 ? *seen / other : *seen == 0 ? 1 : 1e9;
	}
	if (must->like > 0 && (*seen > must->like * (1 + must->within) || *seen < must->like * (1 - must->within)))
		return 0;
	return !(must->has_least && *seen < must->least) && !(must->has_most && *seen > must->most);
}

static void write_series(FILE *out, const struct sim_record *record, const char *what, const struct sim_series *series, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		for (unsigned k = 0; k < record->samples; k++)
			fprintf(out, "%s,%s,%s,%.3f,%g\n", record->name, what, series[i].name,
				(double)(k + 1) * (double)record->sample / 1000, (double)series[i].value[k]);
}

void sim_record_write_csv(FILE *out, struct sim_record *const *records, unsigned count)
{
	fprintf(out, "variant,what,of,us,value\n");
	for (unsigned i = 0; i < count; i++) {
		write_series(out, records[i], "goodput_gbps", records[i]->goodput, records[i]->flows);
		write_series(out, records[i], "rate_gbps", records[i]->rate, records[i]->flows);
		write_series(out, records[i], "queue_kb", records[i]->queue, records[i]->queues);
		write_series(out, records[i], "paused", records[i]->paused, records[i]->queues);
	}
}
