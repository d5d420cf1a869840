/* SPDX-License-Identifier: MIT
 *
 * Experiment files: what they say reaches the scenario, and what is wrong with one is told with its line, the word and what was expected.
 */
#include "sim/record.h"
#include "sim/testing.h"

static struct sim_experiment experiment;

static const char good[] =
	"name = 'x'\ntitle = 'X'\nduration = '2ms'\n"
	"[hosts]\ncount = 3\nrate = '25Gb/s'\n"
	"[[switch]]\nname = 's0'\nhosts = '0-1'\n"
	"[[switch]]\nname = 's1'\nhosts = '2'\n"
	"[[link]]\nfrom = 's0'\nto = 's1'\nrate = '100Gb/s'\ndelay = '2us'\n"
	"[[flow]]\nfrom = 0\nto = 2\nsize = '10KB'\n"
	"[control]\nalgorithm = 'dcqcn'\nparameters = 'adapter'\n"
	"[short]\nduration = '1ms'\n"
	"[[variant]]\nname = 'a'\n"
	"[[variant]]\nname = 'b'\ncontrol.algorithm = 'timely'\nshort.duration = '500us'\n";

static void what_is_said_arrives(void **state)
{
	char error[400];

	(void)state;
	assert_true(sim_experiment_read(&experiment, good, false, error, sizeof(error)));
	assert_int_equal(experiment.variant_count, 2);
	assert_int_equal(experiment.variant[0].duration, 2000000);
	assert_int_equal(experiment.variant[0].host_line.rate, 25000000000);
	assert_int_equal(experiment.variant[0].link[0].line.delay, 2000);
	assert_int_equal(experiment.variant[0].flow[0].size, 10000);
	assert_string_equal(experiment.variant[0].policy.algorithm->name, "dcqcn");
	assert_string_equal(experiment.variant[0].policy.dcqcn->name, "adapter");
	assert_string_equal(experiment.variant[1].policy.algorithm->name, "timely");
	assert_true(sim_experiment_read(&experiment, good, true, error, sizeof(error)));
	assert_int_equal(experiment.variant[0].duration, 1000000);
	assert_int_equal(experiment.variant[1].duration, 500000);
}

static void what_is_wrong_is_told(void **state)
{
	static const struct {
		const char *text, *told;
	} wrong[] = {
		{"duration = '2ms'\nseed = = 3\n", "line 2: "},
		{"duration = '2ms'\n[\001\n", "line 2: this is not TOML"},
		{"duration = '2 parsecs'\n", "line 1: duration = 2 parsecs: expected a time, as in \"10us\" (ns, us, ms, s)"},
		{"\n[hosts]\ncount = -1\n", "line 3: hosts.count = -1: expected a whole number, 0 or more"},
		{"[hosts]\ncount = 1.5\n", "line 2: hosts.count = 1.5: expected a whole number"},
		{"[hosts]\nrate = 40\n", "line 2: hosts.rate = 40: expected a rate, as in \"40Gb/s\""},
		{"[hosts]\ncuont = 4\n", "line 2: hosts.cuont: no such key; expected count, rate, delay"},
		{"[hots]\ncount = 4\n", "line 2: hots.count: there is no such table; known are hosts, "},
		{"durration = '2ms'\n", "line 1: durration: no such key; expected seed, duration, "},
		{"[control]\nalgorithm = 'bbr'\n",
		 "line 2: control.algorithm = bbr: expected one of \"none\", \"window\", \"dcqcn\", \"timely\""},
		{"[pfc]\non = 'yes'\n", "line 2: pfc.on = yes: expected true or false"},
		{"[[switch]]\nname = 'a name that is far too long'\n", "line 2: switch[0].name = "},
		{"[watch]\nport = ['1','2','3','4','5','6','7','8','9']\n", "line 2: watch.port[8]: at most 8 of them"},
		{"[[must]]\nsays = 'x'\nat_best = 3\n", "line 3: must[0].at_best: no such key; expected says, "},
		{"seed = 1979-05-27\n", "line 1: seed = a date or time: expected a whole number"},
	};
	char error[400];

	(void)state;
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_false(sim_experiment_read(&experiment, wrong[i].text, false, error, sizeof(error)));
		if (strncmp(error, wrong[i].told, strlen(wrong[i].told)) != 0)
			fail_msg("told: %s\nexpected: %s", error, wrong[i].told);
	}
}

/* Words that are right one by one and make no network. */
static void what_cannot_be_built_is_told(void **state)
{
	static const struct {
		const char *more, *told;
	} wrong[] = {
		{"[hosts]\ncount = 2\n[[flow]]\nfrom = 0\nto = 1\n", "host 0 is at no switch"},
		{"[hosts]\ncount = 2\n[[switch]]\nname = 's'\nhosts = '0-2'\n", "switch s: host 2 is not there"},
		{"[hosts]\ncount = 2\n[[switch]]\nname = 's'\nhosts = '0-1'\n[[flow]]\nfrom = 1\nto = 1\n",
		 "flow 1 to 1: from host 1 to host 1"},
		{"[hosts]\ncount = 2\n[[switch]]\nname = 's'\nhosts = '0-1'\n", "there is no flow"},
		{"[hosts]\ncount = 2\n[[switch]]\nname = 's'\nhosts = '0-1'\n[[link]]\nfrom = 's'\nto = 't'\n",
		 "link s to t: there is no such switch"},
		{"[hosts]\ncount = 2\n[[switch]]\nname = 's'\nhosts = '0-1'\n[watch]\nport = ['s h7']\n", "watch.port \"s h7\": expected"},
		{"[fabric]\nkind = 'fat-tree'\nk = 3\n", "fabric.k = 3: expected an even number"},
		{"settle = '1s'\n", "sample, settle and duration"},
	};
	char error[400];

	(void)state;
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_true(sim_experiment_read(&experiment, wrong[i].more, false, error, sizeof(error)));
		assert_null(sim_record_make(&experiment.variant[0], 0, error, sizeof(error), NULL, NULL));
		if (strncmp(error, wrong[i].told, strlen(wrong[i].told)) != 0)
			fail_msg("told: %s\nexpected: %s", error, wrong[i].told);
	}
}

/* The same seed twice is the same to the last sample; another is another. */
static void seeds(void **state)
{
	static const char text[] = "duration = '1ms'\nsample = '10us'\n[hosts]\ncount = 4\n[[switch]]\nname = 's'\n"
				   "hosts = '0-3'\n[ecn]\non = true\n[control]\nalgorithm = 'dcqcn'\n[workload]\n"
				   "pattern = 'poisson'\nsizes = 'heavy'\nload = 0.8\nuntil = '1ms'\n[watch]\nport = ['s h0']\n";
	struct sim_record *records[3];
	char error[400];

	(void)state;
	assert_true(sim_experiment_read(&experiment, text, false, error, sizeof(error)));
	for (unsigned i = 0; i < 3; i++) {
		records[i] = sim_record_make(&experiment.variant[0], i < 2 ? 5 : 6, error, sizeof(error), NULL, NULL);
		assert_non_null(records[i]);
	}
	assert_int_equal(records[0]->events, records[1]->events);
	assert_memory_equal(records[0]->queue[0].value, records[1]->queue[0].value, records[0]->samples * sizeof(float));
	assert_int_not_equal(records[0]->events, records[2]->events);
	for (unsigned i = 0; i < 3; i++)
		sim_record_free(records[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_said_arrives),
		cmocka_unit_test(what_is_wrong_is_told),
		cmocka_unit_test(what_cannot_be_built_is_told),
		cmocka_unit_test(seeds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
