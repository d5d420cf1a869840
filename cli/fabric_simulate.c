/* SPDX-License-Identifier: MIT
 *
 * `verbena fabric simulate NAME|FILE.toml`: runs an experiment and says what it showed beside what it must show.
 */
#include "cli/fabric_simulate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/fabric.h"
#include "cli/shown.h"
#include "cli/terminal.h"
#include "sim/plot.h"
#include "sim/record.h"

struct options {
	const char *what, *svg, *csv;
	uint64_t seed;                   /* 0: the file's */
	bool is_short, quiet;
};

static void list(void)
{
	puts("Experiments that the program carries (or give a FILE.toml):");
	for (const struct vb_cli_experiment_file *file = vb_cli_experiment_files; file->name; file++) {
		static struct sim_experiment experiment;
		char error[400];

		if (sim_experiment_read(&experiment, file->text, true, error, sizeof(error)))
			printf("  %-10s  %s\n", file->name, experiment.title);
	}
}

static char *read_file(const char *path)
{
	FILE *file = fopen(path, "r");
	size_t length = 0, room = 1u << 16, got;
	char *text = malloc(room + 1);

	while (file && text && (got = fread(text + length, 1, room - length, file)) > 0) {
		length += got;
		if (length == room) {
			char *more = length < 1u << 24 ? realloc(text, 2 * room + 1) : NULL;

			if (!more) {
				errno = EFBIG;
				free(text);
				text = NULL;
				break;
			}
			text = more;
			room *= 2;
		}
	}
	if (file && ferror(file)) {
		free(text);
		text = NULL;
	}
	if (file)
		fclose(file);
	else {
		free(text);
		text = NULL;
	}
	if (text)
		text[length] = '\0';
	return text;
}

/* The text of a file, or of one that we carry; to be freed. NULL: told. */
static char *find(const char *what)
{
	char *text;

	for (const struct vb_cli_experiment_file *file = vb_cli_experiment_files; file->name; file++)
		if (strcmp(file->name, what) == 0)
			return strdup(file->text);
	text = read_file(what);
	if (!text)
		fprintf(stderr, "verbena fabric simulate: %s: %s. `verbena fabric simulate` lists those that the program carries.\n", what,
			strerror(errno));
	return text;
}

/* Names and titles are those of a file. */
enum { NAME = VB_CLI_SHOWN_ROOM(256) };

static void show_progress(void *context, const char *variant, double done)
{
	int *shown = context, percent = (int)(done * 100);
	char name[NAME];

	if (percent == *shown)
		return;
	*shown = percent;
	fprintf(stderr, "\r%s: %d %%%s", *variant ? vb_cli_shown(variant, name, sizeof(name)) : "running", percent,
		percent == 100 ? "\r\033[K" : "");
}

static void print_figures(const struct sim_experiment *experiment, struct sim_record *const *records)
{
	printf("%-26s %9s %6s %9s %9s %9s %8s %9s %10s %8s\n", "", "goodput", "line", "queue", "99 % done", "flows", "stalled",
	       "pauses", "drops", "CPU");
	printf("%-26s %9s %6s %9s %9s %9s %8s %9s %10s %8s\n", "variant", "Gb/s", "used", "KB", "in us", "done", "", "", "", "s");
	for (unsigned i = 0; i < experiment->variant_count; i++) {
		const struct sim_record *record = records[i];
		char flows[32], name[NAME];

		snprintf(flows, sizeof(flows), "%u/%u", record->finished, record->flow_count);
		printf("%-26s %9.2f %5.1f%% %9.1f %9.0f %9s %8u %9llu %10llu %8.2f\n",
		       vb_cli_shown(*record->name ? record->name : experiment->name, name, sizeof(name)), record->goodput_sum,
		       100 * record->utilisation, record->queue_mean, record->completion_high, flows, record->stalled,
		       (unsigned long long)record->pauses, (unsigned long long)record->drops, record->cpu_seconds);
	}
}

/* Returns how many were not shown; -1: told what is wrong with the file. */
static int print_judgement(const struct sim_experiment *experiment, struct sim_record *const *records, const char *file)
{
	struct vb_cli_colours colour = vb_cli_colours_get();
	int missing = 0;

	if (experiment->must_count > 0)
		printf("\n%-64s %-26s %12s %12s\n", "must show", "variant", "limit", "seen");
	for (unsigned i = 0; i < experiment->must_count; i++) {
		const struct sim_must *must = &experiment->must[i];
		double seen = 0;
		int shown = sim_must_judge(experiment, records, must, &seen);
		char limit[40], value[32], variant[NAME], words[NAME];

		(void)vb_cli_shown(must->variant, variant, sizeof(variant));

		if (shown < 0) {
			fprintf(stderr,
				"verbena fabric simulate: %s: line %u: [[must]] with variant \"%s\" and metric \"%s\": there is no "
				"such variant or metric. Metrics are", file, must->line, variant,
				vb_cli_shown(must->metric, words, sizeof(words)));
			for (const char *const *name = sim_record_metrics(); *name; name++)
				fprintf(stderr, " %s", *name);
			fprintf(stderr, " flow:NAME\n");
			return -1;
		}
		missing += !shown;
		snprintf(limit, sizeof(limit), "%s %.4g%s", must->has_least ? ">=" : "<=", must->has_least ? must->least : must->most,
			 *must->than ? " x" : "");
		snprintf(value, sizeof(value), "%.4g%s", seen, *must->than ? " x" : "");
		if (must->like > 0) {
			snprintf(limit, sizeof(limit), "%.4g +-%.0f%%", must->like, 100 * must->within);
			snprintf(value, sizeof(value), "%.4g %+.1f%%", seen, 100 * (seen / must->like - 1));
		}
		printf("%-64s %-26s %12s %12s  %s%s%s\n", vb_cli_shown(must->says, words, sizeof(words)), variant, limit, value,
		       shown ? colour.good : colour.bad, shown ? "shown" : "NOT SHOWN", colour.plain);
	}
	return missing;
}

static bool write_file(const char *path, const struct sim_experiment *experiment, struct sim_record *const *records, bool svg)
{
	FILE *out = fopen(path, "w");
	bool good;

	if (!out) {
		fprintf(stderr, "verbena fabric simulate: %s: %s\n", path, strerror(errno));
		return false;
	}
	if (svg)
		sim_plot(out, experiment, records);
	else
		sim_record_write_csv(out, records, experiment->variant_count);
	good = !ferror(out);
	good = fclose(out) == 0 && good;
	if (!good)
		fprintf(stderr, "verbena fabric simulate: %s: could not be written\n", path);
	return good;
}

static int run(const struct options *options, const struct sim_experiment *experiment)
{
	struct sim_record *records[SIM_MOST_VARIANTS] = {0};
	char error[400], words[VB_CLI_SHOWN_ROOM(sizeof(error))];
	int shown = -1, code = VB_CLI_DONE;
	unsigned made = 0;
	bool progress = !options->quiet && isatty(STDERR_FILENO);

	printf("%s%s\n\n", vb_cli_shown(experiment->title, words, sizeof(words)), options->is_short ? " (short run)" : "");
	for (; made < experiment->variant_count; made++) {
		records[made] = sim_record_make(&experiment->variant[made], options->seed, error, sizeof(error),
						progress ? show_progress : NULL, &shown);
		if (!records[made])
			break;
	}
	if (made < experiment->variant_count) {
		fprintf(stderr, "verbena fabric simulate: %s: %s\n", options->what, vb_cli_shown(error, words, sizeof(words)));
		code = VB_CLI_FAILED;
	} else {
		print_figures(experiment, records);
		if (print_judgement(experiment, records, options->what) != 0)
			code = VB_CLI_FAILED;
		if ((options->svg && !write_file(options->svg, experiment, records, true)) ||
		    (options->csv && !write_file(options->csv, experiment, records, false)))
			code = VB_CLI_FAILED;
	}
	while (made > 0)
		sim_record_free(records[--made]);
	return code;
}

int vb_cli_fabric_simulate(int argc, char **argv)
{
	static struct sim_experiment experiment;
	struct options options = {0};
	const char *seed = NULL;
	char error[400], words[VB_CLI_SHOWN_ROOM(sizeof(error))], *text, *end;
	bool good;

	for (int i = 1; i < argc; i++) {
		const char **value = !strcmp(argv[i], "--svg") ? &options.svg :
				     !strcmp(argv[i], "--csv") ? &options.csv :
				     !strcmp(argv[i], "--seed") ? &seed : NULL;

		if (!strcmp(argv[i], "--short"))
			options.is_short = true;
		else if (!strcmp(argv[i], "--quiet"))
			options.quiet = true;
		else if (value && i + 1 == argc)
			return vb_cli_fabric_usage("a value is missing", argv[i]);
		else if (value)
			*value = argv[++i];
		else if (argv[i][0] == '-')
			return vb_cli_fabric_usage("unknown option", argv[i]);
		else if (options.what)
			return vb_cli_fabric_usage("one experiment at a time", argv[i]);
		else
			options.what = argv[i];
	}
	if (!options.what) {
		list();
		return VB_CLI_DONE;
	}
	if (seed) {
		options.seed = strtoull(seed, &end, 10);
		if (*seed < '1' || *seed > '9' || *end)
			return vb_cli_fabric_usage("a seed is a number from 1 on", seed);
	}
	text = find(options.what);
	if (!text)
		return VB_CLI_FAILED;
	good = sim_experiment_read(&experiment, text, options.is_short, error, sizeof(error));
	free(text);
	if (!good) {
		fprintf(stderr, "verbena fabric simulate: %s: %s\n", options.what, vb_cli_shown(error, words, sizeof(words)));
		return VB_CLI_FAILED;
	}
	return run(&options, &experiment);
}
