/* SPDX-License-Identifier: MIT
 *
 * Reading experiment files: a table of keys, each with what it takes and where it goes. See scenario.h.
 */
#include "sim/scenario.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/toml.h"

/* ---- numbers with units ---- */

static bool parse_unit(const char *text, const char *const *units, const double *factors, unsigned count, double *value)
{
	char *end;
	double number = strtod(text, &end);

	if (end == text || number < 0)
		return false;
	while (*end == ' ')
		end++;
	for (unsigned i = 0; i < count; i++) {
		if (strcmp(end, units[i]) == 0) {
			*value = number * factors[i];
			return true;
		}
	}
	return false;
}

bool sim_parse_rate(const char *text, double *value)
{
	static const char *const units[] = {"Mb/s", "Gb/s"};
	static const double factors[] = {1e6, 1e9};

	return parse_unit(text, units, factors, 2, value);
}

bool sim_parse_time(const char *text, double *value)
{
	static const char *const units[] = {"ns", "us", "ms", "s"};
	static const double factors[] = {1, 1e3, 1e6, 1e9};

	return parse_unit(text, units, factors, 4, value);
}

bool sim_parse_bytes(const char *text, double *value)
{
	static const char *const units[] = {"B", "KB", "MB", "GB", "KiB", "MiB"};
	static const double factors[] = {1, 1e3, 1e6, 1e9, 1024, 1048576};

	return parse_unit(text, units, factors, 6, value);
}

/* ---- keys ---- */

enum takes { TIME, RATE, BYTES, COUNT, NUMBER, YES_NO, TEXT, WORD };

/* Words that a key knows, and what each does. */
struct word {
	const char *word;
	int value;
};

#define OF(member) offsetof(struct sim_scenario, member)
#define ROOM(member) sizeof(((struct sim_scenario *)0)->member)

static const struct word kinds[] = {{"list", SIM_FABRIC_LIST}, {"fat-tree", SIM_FABRIC_FAT_TREE}, {"leaf-spine", SIM_FABRIC_LEAF_SPINE},
				    {0}};
static const struct word patterns[] = {{"none", SIM_PATTERN_NONE}, {"incast", SIM_PATTERN_INCAST}, {"permutation", SIM_PATTERN_PERMUTATION},
				       {"all-to-all", SIM_PATTERN_ALL_TO_ALL}, {"poisson", SIM_PATTERN_POISSON}, {0}};
static const struct word algorithms[] = {{"none", VB_CONTROL_WINDOW}, {"window", VB_CONTROL_WINDOW}, {"dcqcn", VB_CONTROL_DCQCN},
					 {"timely", VB_CONTROL_TIMELY}, {0}};
static const struct word parameters[] = {{"paper", 0}, {"adapter", 1}, {0}};
static const struct word schemes[] = {{"selective", VB_RECOVERY_SELECTIVE}, {"go-back-n", VB_RECOVERY_GO_BACK_N},
				      {"go-back-0", VB_RECOVERY_GO_BACK_0}, {"all-at-once", VB_RECOVERY_ALL_AT_ONCE}, {0}};
static const struct word sizes[] = {{"websearch", 0}, {"heavy", 0}, {0}};

static const struct key {
	const char *path;
	enum takes takes;
	size_t offset, size;             /* of the member: an integer of that size, a double, a bool, or an array of char */
	const struct word *words;
} keys[] = {
	{"seed", COUNT, OF(seed), 8},
	{"duration", TIME, OF(duration), 8},
	{"sample", TIME, OF(sample), 8},
	{"settle", TIME, OF(settle), 8},
	{"hosts.count", COUNT, OF(hosts), 4},
	{"hosts.rate", RATE, OF(host_line.rate), 8},
	{"hosts.delay", TIME, OF(host_line.delay), 8},
	{"fabric.kind", WORD, OF(kind), 4, kinds},
	{"fabric.k", COUNT, OF(k), 4},
	{"fabric.leaves", COUNT, OF(leaves), 4},
	{"fabric.spines", COUNT, OF(spines), 4},
	{"fabric.hosts_each", COUNT, OF(hosts_each), 4},
	{"fabric.rate", RATE, OF(line.rate), 8},
	{"fabric.delay", TIME, OF(line.delay), 8},
	{"switch[].name", TEXT, OF(at[0].name), ROOM(at[0].name)},
	{"switch[].hosts", TEXT, OF(at[0].hosts), ROOM(at[0].hosts)},
	{"switch[].tier", COUNT, OF(at[0].tier), 4},
	{"link[].from", TEXT, OF(link[0].from), ROOM(link[0].from)},
	{"link[].to", TEXT, OF(link[0].to), ROOM(link[0].to)},
	{"link[].rate", RATE, OF(link[0].line.rate), 8},
	{"link[].delay", TIME, OF(link[0].line.delay), 8},
	{"route[].at", TEXT, OF(route[0].at), ROOM(route[0].at)},
	{"route[].by", TEXT, OF(route[0].by), ROOM(route[0].by)},
	{"route[].to", COUNT, OF(route[0].to), 4},
	{"buffer.size", BYTES, OF(settings.buffer), 8},
	{"buffer.reserve", BYTES, OF(settings.reserve), 4},
	{"buffer.shift", COUNT, OF(settings.shift), 4},
	{"buffer.resume", BYTES, OF(settings.resume), 4},
	{"ecn.on", YES_NO, OF(marks), 1},
	{"ecn.kmin", BYTES, OF(settings.kmin), 8},
	{"ecn.kmax", BYTES, OF(settings.kmax), 8},
	{"ecn.pmax", NUMBER, OF(settings.pmax), 8},
	{"pfc.on", YES_NO, OF(settings.pfc), 1},
	{"pfc.poll", TIME, OF(settings.watchdog_poll), 8},
	{"pfc.detect", TIME, OF(settings.watchdog_detect), 8},
	{"pfc.restore", TIME, OF(settings.watchdog_restore), 8},
	{"control.algorithm", WORD, 0, 0, algorithms},
	{"control.parameters", WORD, 0, 0, parameters},
	{"control.window", BYTES, OF(policy.window), 4},
	{"control.cnp_interval", TIME, OF(policy.cnp_interval), 8},
	{"control.gain", NUMBER, OF(said.gain), 8},
	{"control.alpha_period", TIME, OF(said.alpha_period), 8},
	{"control.cut_interval", TIME, OF(said.cut_interval), 8},
	{"control.timer", TIME, OF(said.timer), 8},
	{"control.byte_counter", BYTES, OF(said.byte_counter), 8},
	{"control.recovery_steps", COUNT, OF(said.recovery_steps), 8},
	{"control.additive", RATE, OF(said.additive), 8},
	{"control.hyper", RATE, OF(said.hyper), 8},
	{"control.minimum", RATE, OF(said.minimum), 8},
	{"recovery.scheme", WORD, OF(policy.recovery), 4, schemes},
	{"recovery.timeout", TIME, OF(policy.least_timeout), 8},
	{"loss.every", COUNT, OF(settings.loses_every), 4},
	{"storm.host", COUNT, OF(storm_host), 4},
	{"storm.at", TIME, OF(storm_at), 8},
	{"flow[].name", TEXT, OF(flow[0].name), ROOM(flow[0].name)},
	{"flow[].from", COUNT, OF(flow[0].from), 4},
	{"flow[].to", COUNT, OF(flow[0].to), 4},
	{"flow[].start", TIME, OF(flow[0].starts), 8},
	{"flow[].size", BYTES, OF(flow[0].size), 8},
	{"flow[].message", BYTES, OF(flow[0].message), 4},
	{"workload.pattern", WORD, OF(workload.pattern), 4, patterns},
	{"workload.senders", COUNT, OF(workload.senders), 4},
	{"workload.size", BYTES, OF(workload.size), 8},
	{"workload.sizes", WORD, 0, 0, sizes},
	{"workload.load", NUMBER, OF(workload.load), 8},
	{"workload.from", TIME, OF(workload.from), 8},
	{"workload.until", TIME, OF(workload.until), 8},
	{"workload.message", BYTES, OF(workload.message), 4},
	{"watch.port[]", TEXT, OF(watch[0]), ROOM(watch[0])},
};

/* Lists: how far apart their members are, how many there may be, and which are there. */
static const struct list {
	const char *prefix;
	size_t step, most, count;
} lists[] = {
	{"switch[", ROOM(at[0]), SIM_MOST_SWITCHES, OF(switch_count)},
	{"link[", ROOM(link[0]), SIM_MOST_LINKS, OF(link_count)},
	{"route[", ROOM(route[0]), SIM_MOST_ROUTES, OF(route_count)},
	{"flow[", ROOM(flow[0]), SIM_MOST_FLOWS, OF(flow_count)},
	{"watch.port[", ROOM(watch[0]), SIM_MOST_WATCHED, OF(watch_count)},
};

struct reader {
	char *error;
	size_t room;
};

static bool complain(struct reader *reader, unsigned line, const char *format, ...) __attribute__((format(printf, 3, 4)));

static bool complain(struct reader *reader, unsigned line, const char *format, ...)
{
	int length = snprintf(reader->error, reader->room, "line %u: ", line);
	va_list list;

	va_start(list, format);
	vsnprintf(reader->error + length, reader->room - (size_t)length, format, list);
	va_end(list);
	return false;
}

/* The path without its index: "flow[3].from" is "flow[].from", 3. */
static void strip_index(const char *path, char *out, size_t room, unsigned *index)
{
	const char *open = strchr(path, '['), *close = open ? strchr(open, ']') : NULL;

	*index = close ? (unsigned)strtoul(open + 1, NULL, 10) : 0;
	if (close)
		snprintf(out, room, "%.*s[]%s", (int)(open - path), path, close + 1);
	else
		snprintf(out, room, "%s", path);
}

static void store_integer(void *to, size_t size, double value)
{
	if (size == 8)
		*(uint64_t *)to = (uint64_t)value;
	else
		*(uint32_t *)to = (uint32_t)value;
}

static bool expect_word(struct reader *reader, const struct sim_toml_entry *entry, const struct word *words, int *value)
{
	char known[200] = "";

	for (unsigned i = 0; words[i].word; i++) {
		if (entry->type == SIM_TOML_STRING && strcmp(entry->string, words[i].word) == 0) {
			*value = words[i].value;
			return true;
		}
		snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s\"%s\"", i ? ", " : "", words[i].word);
	}
	return complain(reader, entry->line, "%s = %s: expected one of %s", entry->path, entry->string, known);
}

static bool set_word(struct reader *reader, struct sim_scenario *scenario, const struct key *key, const struct sim_toml_entry *entry)
{
	int value = 0;

	if (!expect_word(reader, entry, key->words, &value))
		return false;
	if (key->size != 0)
		*(int *)(void *)((char *)scenario + key->offset) = value;
	else if (key->words == algorithms)
		scenario->policy.algorithm = &vb_roce_algorithms[value];
	else if (key->words == parameters)
		scenario->policy.dcqcn = value ? &vb_dcqcn_adapter : &vb_dcqcn_paper;
	else
		scenario->workload.sizes = sim_sizes_find(entry->string);
	return true;
}

static bool set_number(struct reader *reader, void *to, const struct key *key, const struct sim_toml_entry *entry)
{
	static const struct {
		const char *expected;
		bool (*parse)(const char *text, double *value);
	} units[] = {
		[TIME] = {"a time, as in \"10us\" (ns, us, ms, s)", sim_parse_time},
		[RATE] = {"a rate, as in \"40Gb/s\" (Mb/s, Gb/s)", sim_parse_rate},
		[BYTES] = {"a size, as in \"200KB\" (B, KB, MB, GB, KiB, MiB)", sim_parse_bytes},
		[COUNT] = {"a whole number, 0 or more", NULL},
		[NUMBER] = {"a number", NULL},
	};
	double value = entry->number, limit = key->size == 8 ? 9e18 : 4294967295.0;

	if (units[key->takes].parse ? entry->type != SIM_TOML_STRING || !units[key->takes].parse(entry->string, &value) :
				      entry->type != SIM_TOML_NUMBER)
		return complain(reader, entry->line, "%s = %s: expected %s", entry->path, entry->string, units[key->takes].expected);
	if (key->takes == NUMBER) {
		*(double *)to = value;
		return true;
	}
	if (value < 0 || value > limit || (key->takes == COUNT && value != (double)(uint64_t)value))
		return complain(reader, entry->line, "%s = %s: expected %s", entry->path, entry->string, units[key->takes].expected);
	store_integer(to, key->size, value);
	return true;
}

static const struct key *find_key(const char *path)
{
	for (unsigned i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (strcmp(keys[i].path, path) == 0)
			return &keys[i];
	return NULL;
}

/* What stands beside a key that is none: the others of its table. */
static bool complain_of_key(struct reader *reader, const struct sim_toml_entry *entry, const char *path)
{
	const char *dot = strrchr(path, '.');
	size_t prefix = dot ? (size_t)(dot - path) + 1 : 0;
	char known[400] = "";

	for (unsigned i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		if (strncmp(keys[i].path, path, prefix) != 0 || strpbrk(keys[i].path + prefix, ".["))
			continue;
		snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%s", *known ? ", " : "", keys[i].path + prefix);
	}
	if (!*known)
		return complain(reader, entry->line,
				"%s: there is no such table; known are hosts, fabric, switch, link, route, buffer, ecn, pfc, control, "
				"recovery, loss, storm, flow, workload, watch, short, variant, must, plot", entry->path);
	return complain(reader, entry->line, "%s: no such key; expected %s", entry->path, known);
}

static bool apply(struct reader *reader, struct sim_scenario *scenario, const struct sim_toml_entry *entry, const char *path)
{
	char stripped[96];
	const struct key *key;
	unsigned index;
	size_t offset;

	strip_index(path, stripped, sizeof(stripped), &index);
	key = find_key(stripped);
	if (!key)
		return complain_of_key(reader, entry, stripped);
	offset = key->offset;
	for (unsigned i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		unsigned *count = (unsigned *)(void *)((char *)scenario + lists[i].count);

		if (strncmp(path, lists[i].prefix, strlen(lists[i].prefix)) != 0)
			continue;
		if (index >= lists[i].most)
			return complain(reader, entry->line, "%s: at most %zu of them", entry->path, lists[i].most);
		offset += index * lists[i].step;
		*count = *count > index ? *count : index + 1;
	}
	if (strncmp(path, "storm.", 6) == 0)
		scenario->storms = true;
	switch (key->takes) {
	case WORD:
		return set_word(reader, scenario, key, entry);
	case TEXT:
		if (entry->type != SIM_TOML_STRING || strlen(entry->string) >= key->size)
			return complain(reader, entry->line, "%s = %s: expected a string of at most %zu characters", entry->path,
					entry->string, key->size - 1);
		snprintf((char *)scenario + offset, key->size, "%s", entry->string);
		return true;
	case YES_NO:
		if (entry->type != SIM_TOML_BOOLEAN)
			return complain(reader, entry->line, "%s = %s: expected true or false", entry->path, entry->string);
		*(bool *)((char *)scenario + offset) = entry->number != 0;
		return true;
	default:
		return set_number(reader, (char *)scenario + offset, key, entry);
	}
}

/* ---- the experiment around it ---- */

static const struct sim_scenario usual = {
	.seed = 1,
	.duration = VB_MILLISECONDS(10),
	.sample = VB_MICROSECONDS(100),
	.host_line = {40000000000ull, 1000},
	.line = {40000000000ull, 1000},
	.settings = {.buffer = 12000000, .pfc = true, .reserve = 4096, .shift = 3, .resume = 3072,
		     .kmin = 5000, .kmax = 200000, .pmax = 0.01},
	.policy = {.window = 1000000},
	.said = {0, SIM_UNSAID, SIM_UNSAID, SIM_UNSAID, SIM_UNSAID, SIM_UNSAID, SIM_UNSAID, SIM_UNSAID, SIM_UNSAID},
	.workload = {.message = 1u << 20},
};

static bool set_text(struct reader *reader, const struct sim_toml_entry *entry, char *to, size_t room)
{
	if (entry->type != SIM_TOML_STRING || strlen(entry->string) >= room)
		return complain(reader, entry->line, "%s = %s: expected a string of at most %zu characters", entry->path, entry->string,
				room - 1);
	snprintf(to, room, "%s", entry->string);
	return true;
}

static bool set_must(struct reader *reader, struct sim_must *must, const struct sim_toml_entry *entry, const char *key)
{
	bool least = strncmp(key, "at_least", 8) == 0;

	must->line = entry->line;
	if (strcmp(key, "says") == 0)
		return set_text(reader, entry, must->says, sizeof(must->says));
	if (strcmp(key, "variant") == 0)
		return set_text(reader, entry, must->variant, sizeof(must->variant));
	if (strcmp(key, "metric") == 0)
		return set_text(reader, entry, must->metric, sizeof(must->metric));
	if (strcmp(key, "than") == 0)
		return set_text(reader, entry, must->than, sizeof(must->than));
	if (!least && strncmp(key, "at_most", 7) != 0 && strcmp(key, "like") != 0 && strcmp(key, "within") != 0)
		return complain(reader, entry->line,
				"%s: no such key; expected says, variant, metric, at_least, at_most, than, at_least_times, at_most_times, "
				"like, within", entry->path);
	if (entry->type != SIM_TOML_NUMBER)
		return complain(reader, entry->line, "%s = %s: expected a number", entry->path, entry->string);
	if (strcmp(key, "like") == 0 || strcmp(key, "within") == 0) {
		*(*key == 'l' ? &must->like : &must->within) = entry->number;
		return true;
	}
	*(least ? &must->has_least : &must->has_most) = true;
	*(least ? &must->least : &must->most) = entry->number;
	return true;
}

/* What is said of all variants. False: an error; *taken: it was of this kind. */
static bool apply_common(struct reader *reader, struct sim_experiment *experiment, const struct sim_toml_entry *entry, bool *taken)
{
	char stripped[96];
	unsigned index;

	*taken = true;
	strip_index(entry->path, stripped, sizeof(stripped), &index);
	if (strcmp(stripped, "name") == 0)
		return set_text(reader, entry, experiment->name, sizeof(experiment->name));
	if (strcmp(stripped, "title") == 0)
		return set_text(reader, entry, experiment->title, sizeof(experiment->title));
	if (strncmp(stripped, "must[].", 7) == 0) {
		if (index >= SIM_MOST_MUSTS)
			return complain(reader, entry->line, "at most %d of [[must]]", SIM_MOST_MUSTS);
		experiment->must_count = experiment->must_count > index ? experiment->must_count : index + 1;
		return set_must(reader, &experiment->must[index], entry, stripped + 7);
	}
	if (strcmp(stripped, "plot.rows[]") == 0 && index < SIM_MOST_PLOTS) {
		experiment->row_count = index + 1;
		return set_text(reader, entry, experiment->row[index], sizeof(experiment->row[0]));
	}
	if (strcmp(stripped, "plot.bars[]") == 0 && index < SIM_MOST_PLOTS) {
		experiment->bar_count = index + 1;
		return set_text(reader, entry, experiment->bar[index], sizeof(experiment->bar[0]));
	}
	*taken = false;
	return true;
}

static uint64_t said_or(uint64_t said, uint64_t otherwise)
{
	return said == SIM_UNSAID ? otherwise : said;
}

/* The set of numbers that the file names, with those that it says. Periods of nothing would never end. */
static void finish_dcqcn(struct sim_scenario *scenario)
{
	struct vb_dcqcn_parameters *dcqcn = &scenario->dcqcn;

	*dcqcn = scenario->policy.dcqcn ? *scenario->policy.dcqcn : vb_dcqcn_paper;
	if (scenario->said.gain > 0 && scenario->said.gain < 1)
		dcqcn->gain = (uint32_t)(scenario->said.gain * 1024 + 0.5);
	dcqcn->alpha_period = (vb_time)said_or(scenario->said.alpha_period, (uint64_t)dcqcn->alpha_period);
	dcqcn->cut_interval = (vb_time)said_or(scenario->said.cut_interval, (uint64_t)dcqcn->cut_interval);
	dcqcn->timer = (vb_time)said_or(scenario->said.timer, (uint64_t)dcqcn->timer);
	dcqcn->alpha_period += dcqcn->alpha_period == 0;
	dcqcn->timer += dcqcn->timer == 0;
	dcqcn->byte_counter = said_or(scenario->said.byte_counter, dcqcn->byte_counter);
	dcqcn->recovery_steps = (uint32_t)said_or(scenario->said.recovery_steps, dcqcn->recovery_steps);
	dcqcn->additive = said_or(scenario->said.additive, dcqcn->additive);
	dcqcn->hyper = said_or(scenario->said.hyper, dcqcn->hyper);
	dcqcn->minimum = said_or(scenario->said.minimum, dcqcn->minimum);
	scenario->policy.dcqcn = dcqcn;
}

static void finish(struct sim_scenario *scenario)
{
	if (!scenario->marks)
		scenario->settings.kmax = 0;
	if (scenario->settle == 0)
		scenario->settle = scenario->duration / 2;
	scenario->policy.line_rate = scenario->host_line.rate;
	if (!scenario->policy.algorithm)
		scenario->policy.algorithm = &vb_roce_algorithms[VB_CONTROL_WINDOW];
	finish_dcqcn(scenario);
	scenario->policy.timely = &vb_timely_default;
	for (unsigned i = 0; i < scenario->flow_count; i++) {
		struct sim_flow *flow = &scenario->flow[i];

		if (flow->message == 0)
			flow->message = 1u << 20;
		if (!*flow->name)
			snprintf(flow->name, sizeof(flow->name), "%u to %u", flow->from, flow->to);
	}
	for (unsigned i = 0; i < scenario->link_count; i++)
		if (scenario->link[i].line.rate == 0)
			scenario->link[i].line = scenario->line;
}

/* The file's own words, those of [short], those of the variant, those of its own short. */
static bool read_variant(struct reader *reader, const struct sim_toml *toml, struct sim_scenario *scenario, unsigned number, bool is_short)
{
	char prefix[24];

	snprintf(prefix, sizeof(prefix), "variant[%u].", number);
	for (unsigned pass = 0; pass < 4; pass++) {
		for (unsigned i = 0; i < toml->count; i++) {
			const struct sim_toml_entry *entry = &toml->entry[i];
			const char *path = entry->path;
			bool of_short = strncmp(path, "short.", 6) == 0, of_variant = strncmp(path, "variant[", 8) == 0;

			if (pass == 0 && (of_short || of_variant || strncmp(path, "must[", 5) == 0 || strncmp(path, "plot.", 5) == 0 ||
					  strcmp(path, "name") == 0 || strcmp(path, "title") == 0))
				continue;
			if ((pass == 1 && (!of_short || !is_short)) || (pass >= 2 && strncmp(path, prefix, strlen(prefix)) != 0))
				continue;
			path += pass == 1 ? 6 : pass >= 2 ? strlen(prefix) : 0;
			of_short = strncmp(path, "short.", 6) == 0;
			if (pass >= 2 && of_short != (pass == 3))
				continue;
			if (pass == 3 && !is_short)
				continue;
			path += pass == 3 ? 6 : 0;
			if (pass == 2 && strcmp(path, "name") == 0) {
				if (!set_text(reader, entry, scenario->name, sizeof(scenario->name)))
					return false;
			} else if (!apply(reader, scenario, entry, path)) {
				return false;
			}
		}
	}
	finish(scenario);
	return true;
}

bool sim_experiment_read(struct sim_experiment *experiment, const char *text, bool is_short, char *error, size_t room)
{
	struct reader reader = {error, room};
	struct sim_toml toml;
	char what[200];
	unsigned line = sim_toml_parse(text, &toml, what, sizeof(what));
	bool good = true, taken;

	memset(experiment, 0, sizeof(*experiment));
	if (line != 0)
		return complain(&reader, line, "%s", what);
	experiment->variant_count = 1;
	for (unsigned i = 0; i < toml.count && good; i++) {
		unsigned number;

		good = apply_common(&reader, experiment, &toml.entry[i], &taken);
		if (good && sscanf(toml.entry[i].path, "variant[%u].", &number) == 1) {
			if (number >= SIM_MOST_VARIANTS)
				good = complain(&reader, toml.entry[i].line, "at most %d of [[variant]]", SIM_MOST_VARIANTS);
			else if (number >= experiment->variant_count)
				experiment->variant_count = number + 1;
		}
	}
	for (unsigned i = 0; i < experiment->variant_count && good; i++) {
		experiment->variant[i] = usual;
		good = read_variant(&reader, &toml, &experiment->variant[i], i, is_short);
	}
	sim_toml_free(&toml);
	return good;
}
