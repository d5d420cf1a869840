/* SPDX-License-Identifier: MIT
 *
 * test_sim_experiment FILE.toml: a short run of the experiment shows all that it must.
 */
#include "sim/plot.h"
#include "sim/record.h"
#include "sim/testing.h"

static const char *path;

static char *contents(void)
{
	static char text[1 << 16];
	FILE *file = fopen(path, "r");

	assert_non_null(file);
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	fclose(file);
	return text;
}

static void shows_what_it_must(void **state)
{
	static struct sim_experiment experiment;
	struct sim_record *records[SIM_MOST_VARIANTS];
	char error[400] = "", *svg = NULL, *csv = NULL;
	size_t svg_length = 0, csv_length = 0;
	FILE *out;

	(void)state;
	if (!sim_experiment_read(&experiment, contents(), true, error, sizeof(error)))
		fail_msg("%s: %s", path, error);
	assert_true(experiment.must_count > 0);
	for (unsigned i = 0; i < experiment.variant_count; i++) {
		records[i] = sim_record_make(&experiment.variant[i], 0, error, sizeof(error), NULL, NULL);
		if (!records[i])
			fail_msg("%s: %s", path, error);
		print_message("%s: %.2f s, %llu packets\n", records[i]->name, records[i]->cpu_seconds,
			      (unsigned long long)records[i]->packets);
		assert_int_equal(records[i]->failed, 0);
	}
	for (unsigned i = 0; i < experiment.must_count; i++) {
		double seen = 0;
		int shown = sim_must_judge(&experiment, records, &experiment.must[i], &seen);

		if (shown != 1)
			fail_msg("%s (%s, %s): seen %g", experiment.must[i].says, experiment.must[i].variant,
				 experiment.must[i].metric, seen);
	}
	out = open_memstream(&svg, &svg_length);
	sim_plot(out, &experiment, records);
	fclose(out);
	assert_non_null(strstr(svg, experiment.variant[0].name));
	assert_string_equal(svg + svg_length - 7, "</svg>\n");
	assert_null(strstr(svg, "nan"));
	out = open_memstream(&csv, &csv_length);
	sim_record_write_csv(out, records, experiment.variant_count);
	fclose(out);
	assert_true(csv_length > 100);
	free(svg);
	free(csv);
	for (unsigned i = 0; i < experiment.variant_count; i++)
		sim_record_free(records[i]);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shows_what_it_must),
	};

	if (argc < 2)
		return 2;
	path = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
