/* SPDX-License-Identifier: MIT
 *
 * toml++ behind a C interface: see toml.h.
 */
/* In some places the parser meets what no file may hold with an assertion ("[" and a control character): here that is thrown. */
struct malformed {
};

[[noreturn]] static void refuse()
{
	throw malformed{};
}

#undef NDEBUG
#define TOML_ASSERT(holds) ((holds) ? static_cast<void>(0) : refuse())
#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "sim/toml.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

namespace {

void add(std::vector<sim_toml_entry> &entries, const std::string &path, const toml::node &node)
{
	std::ostringstream written;
	sim_toml_entry entry = {};

	if (const auto *string = node.as_string()) {
		entry.type = SIM_TOML_STRING;
		written << string->get();
	} else if (node.is_number()) {
		entry.type = SIM_TOML_NUMBER;
		entry.number = node.value<double>().value_or(0);
		written << entry.number;
	} else if (const auto *boolean = node.as_boolean()) {
		entry.type = SIM_TOML_BOOLEAN;
		entry.number = boolean->get();
		written << (boolean->get() ? "true" : "false");
	} else {
		entry.type = SIM_TOML_OTHER;
		written << "a date or time";
	}
	entry.path = strdup(path.c_str());
	entry.string = strdup(written.str().c_str());
	entry.line = node.source().begin.line;
	entries.push_back(entry);
}

void walk(std::vector<sim_toml_entry> &entries, const std::string &path, const toml::node &node)
{
	if (const auto *table = node.as_table()) {
		for (const auto &[key, value] : *table)
			walk(entries, path.empty() ? std::string(key.str()) : path + "." + std::string(key.str()), value);
	} else if (const auto *array = node.as_array()) {
		for (size_t i = 0; i < array->size(); i++)
			walk(entries, path + "[" + std::to_string(i) + "]", *array->get(i));
	} else {
		add(entries, path, node);
	}
}

/* Of the lines up to this one, can the parser say anything? */
bool can_be_parsed(std::string_view text, unsigned lines)
{
	size_t end = 0;

	for (; lines > 0 && end != std::string_view::npos; lines--)
		end = text.find('\n', end == 0 ? 0 : end + 1);
	try {
		(void)toml::parse(text.substr(0, end));
	} catch (const malformed &) {
		return false;
	}
	return true;
}

/* The first line that is malformed. */
unsigned first_malformed_line(std::string_view text)
{
	const auto lines = static_cast<unsigned>(std::count(text.begin(), text.end(), '\n')) + 1;
	unsigned line = 1;

	while (line < lines && can_be_parsed(text, line))
		line++;
	return line;
}

} // namespace

static unsigned parse(const char *text, struct sim_toml *toml, char *error, size_t room)
{
	auto parsed = toml::parse(std::string_view(text));
	std::vector<sim_toml_entry> entries;

	*toml = {};
	if (!parsed) {
		snprintf(error, room, "%s", std::string(parsed.error().description()).c_str());
		return std::max(1u, static_cast<unsigned>(parsed.error().source().begin.line));
	}
	walk(entries, "", parsed.table());
	/* Tables are sorted by key; a reader expects the order of the file. */
	std::stable_sort(entries.begin(), entries.end(), [](const auto &a, const auto &b) { return a.line < b.line; });
	toml->entry = static_cast<sim_toml_entry *>(calloc(entries.size() + 1, sizeof(sim_toml_entry)));
	if (!toml->entry)
		abort();
	toml->count = static_cast<unsigned>(entries.size());
	std::copy(entries.begin(), entries.end(), toml->entry);
	return 0;
}

extern "C" unsigned sim_toml_parse(const char *text, struct sim_toml *toml, char *error, size_t room)
{
	try {
		return parse(text, toml, error, room);
	} catch (const malformed &) {
		*toml = {};
		snprintf(error, room, "this is not TOML: a key or value begins with a character that none can begin with");
		return first_malformed_line(text);
	}
}

extern "C" void sim_toml_free(struct sim_toml *toml)
{
	for (unsigned i = 0; i < toml->count; i++) {
		free(toml->entry[i].path);
		free(toml->entry[i].string);
	}
	free(toml->entry);
	*toml = {};
}
