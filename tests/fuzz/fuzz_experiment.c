/* SPDX-License-Identifier: MIT
 *
 * Experiment files of any bytes (`verbena fabric simulate FILE`). What is refused is refused with a sentence; what is accepted keeps to
 * the limits of the simulator, and its first moments can be run, drawn and written, or are refused with a sentence.
 *
 * Input: one byte of options, then the file.
 */
#include <math.h>
#include <string.h>

#include "sim/plot.h"
#include "sim/record.h"
#include "sim/scenario.h"
#include "target.h"

/* As much of an experiment as is run: some packets of few hosts. */
enum { FEW_HOSTS = 64, FEW_FLOWS = 8 };

static bool ends(const char *text, size_t room)
{
	return memchr(text, '\0', room) != NULL;
}

static void check_scenario(const struct sim_scenario *scenario)
{
	FUZZ_CHECK(ends(scenario->name, sizeof(scenario->name)));
	FUZZ_CHECK(scenario->switch_count <= SIM_MOST_SWITCHES && scenario->link_count <= SIM_MOST_LINKS);
	FUZZ_CHECK(scenario->route_count <= SIM_MOST_ROUTES && scenario->flow_count <= SIM_MOST_FLOWS);
	FUZZ_CHECK(scenario->watch_count <= SIM_MOST_WATCHED);
	for (unsigned i = 0; i < scenario->switch_count; i++) {
		FUZZ_CHECK(ends(scenario->at[i].name, sizeof(scenario->at[i].name)));
		FUZZ_CHECK(ends(scenario->at[i].hosts, sizeof(scenario->at[i].hosts)));
	}
	for (unsigned i = 0; i < scenario->watch_count; i++)
		FUZZ_CHECK(ends(scenario->watch[i], sizeof(scenario->watch[i])));
}

static void check_text_of(const struct sim_record *record)
{
	struct sim_record *records[1] = {(struct sim_record *)(uintptr_t)record};
	size_t length = 0;
	char *text = NULL;
	FILE *out = open_memstream(&text, &length);

	FUZZ_CHECK(out);
	sim_record_write_csv(out, records, 1);
	FUZZ_CHECK(fclose(out) == 0);
	free(text);
	for (const char *const *name = sim_record_metrics(); *name; name++) {
		double value = 0;

		FUZZ_CHECK(sim_record_metric(record, *name, &value));
		FUZZ_CHECK(!isnan(value));
	}
}

/* The file decides what it says; how long it is run is ours. */
static void run_a_little(const struct sim_scenario *scenario)
{
	struct sim_scenario small = *scenario;
	struct sim_record *record;
	char error[400] = "";

	if (small.duration > VB_MICROSECONDS(20))
		small.duration = VB_MICROSECONDS(20);
	if (small.hosts > FEW_HOSTS || small.k > 4 || small.leaves > 8 || small.spines > 8 || small.hosts_each > 8 ||
	    small.workload.pattern != SIM_PATTERN_NONE || small.flow_count > FEW_FLOWS)
		return;
	small.settle = 0;
	small.sample = VB_MICROSECONDS(5);
	record = sim_record_make(&small, 1, error, sizeof(error), NULL, NULL);
	FUZZ_CHECK(record || error[0]);
	if (!record)
		return;
	check_text_of(record);
	sim_record_free(record);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length)
{
	static struct sim_experiment experiment;
	char error[400] = "", *text;

	if (length < 1)
		return 0;
	text = malloc(length); /* of exactly that size, for the sanitizer */
	FUZZ_CHECK(text);
	memcpy(text, input + 1, length - 1);
	text[length - 1] = '\0';
	memset(&experiment, 0, sizeof(experiment));
	if (sim_experiment_read(&experiment, text, input[0] & 1, error, sizeof(error))) {
		FUZZ_CHECK(experiment.variant_count >= 1 && experiment.variant_count <= SIM_MOST_VARIANTS);
		FUZZ_CHECK(experiment.must_count <= SIM_MOST_MUSTS && experiment.row_count <= SIM_MOST_PLOTS);
		FUZZ_CHECK(ends(experiment.title, sizeof(experiment.title)));
		for (unsigned i = 0; i < experiment.variant_count; i++)
			check_scenario(&experiment.variant[i]);
		run_a_little(&experiment.variant[0]);
	} else {
		FUZZ_CHECK(error[0] && ends(error, sizeof(error)));
	}
	free(text);
	return 0;
}
