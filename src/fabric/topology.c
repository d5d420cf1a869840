/* SPDX-License-Identifier: MIT
 *
 * A reader of lines: words are found by a cursor that never leaves its line. Cables are noted while reading, for the
 * nodes they name may come later, and joined at the end.
 */
#include "fabric/topology.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/links.h"

enum { MOST_NODES = 20000, VENDOR = 0x5642, DEVICE_SWITCH = 1, DEVICE_ADAPTER = 2, ENHANCED_PORT_0 = 0x08 };

#define GENERATED_GUID 0x0256420000000000ull

static const struct vb_link_rate usual_rate = {.width = 2, .speed = 4};

static const struct { const char *name; struct vb_link_rate rate; } rates[] = {
#define WIDTH(name, bit)                                                                                    \
	{name "SDR", {bit, 1, 0}}, {name "DDR", {bit, 2, 0}}, {name "QDR", {bit, 4, 0}}, {name "FDR", {bit, 4, 1}}, \
	{name "EDR", {bit, 4, 2}}, {name "HDR", {bit, 4, 4}}, {name "NDR", {bit, 4, 8}}
	WIDTH("1x", 1), WIDTH("4x", 2), WIDTH("8x", 4), WIDTH("12x", 8), WIDTH("2x", 16),
#undef WIDTH
};

struct cable {
	struct cable *next;
	struct vb_fabric_node *node;
	uint8_t port, other_port;
	char other[VB_FABRIC_NAME];
	struct vb_link_rate rate;
	uint64_t guid, other_guid;         /* 0: not told */
	unsigned line;
};

/* What stands before a node. */
struct attributes {
	uint64_t vendor, device, system_guid, guid;
	bool has_vendor, has_device;
};

struct reader {
	struct vb_fabric *fabric;
	const char *at, *end;              /* of this line */
	unsigned line;
	struct attributes attributes;
	struct vb_fabric_node *node;       /* whose cables are read */
	struct cable *cables, **last;
	struct vb_topology_error *error;
};

/* ---- words ---- */

static int fail(struct reader *reader, const char *word, size_t length, const char *what)
{
	struct vb_topology_error *error = reader->error;

	error->line = reader->line;
	if (length >= sizeof(error->word))
		length = sizeof(error->word) - 1;
	memcpy(error->word, word, length);
	error->word[length] = '\0';
	/* It goes to a terminal. */
	for (size_t i = 0; i < length; i++)
		if ((unsigned char)error->word[i] < ' ' || (unsigned char)error->word[i] >= 0x7f)
			error->word[i] = '?';
	snprintf(error->what, sizeof(error->what), "%s", what);
	return -EINVAL;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static void skip_blanks(struct reader *reader)
{
	while (reader->at < reader->end && is_blank(*reader->at))
		reader->at++;
}

/* From here to the next blank. */
static size_t word_length(const struct reader *reader)
{
	const char *at = reader->at;

	while (at < reader->end && !is_blank(*at) && *at != '#')
		at++;
	return (size_t)(at - reader->at);
}

static int fail_here(struct reader *reader, const char *what)
{
	return fail(reader, reader->at, word_length(reader), what);
}

/* The same of the word that began there. */
static int fail_at(struct reader *reader, const char *word, const char *what)
{
	reader->at = word;
	return fail_here(reader, what);
}

static bool take(struct reader *reader, char c)
{
	if (reader->at == reader->end || *reader->at != c)
		return false;
	reader->at++;
	return true;
}

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : 99;
}

/* Digits of that base, at least one, no more than fit. */
static bool take_number(struct reader *reader, int base, uint64_t most, uint64_t *out)
{
	const char *start = reader->at;
	uint64_t value = 0;

	if (base == 16 && reader->end - reader->at > 2 && reader->at[0] == '0' && (reader->at[1] | 0x20) == 'x')
		reader->at += 2, start = reader->at;
	while (reader->at < reader->end && digit_of(*reader->at) < base) {
		uint64_t digit = (uint64_t)digit_of(*reader->at);

		if (value > (most - digit) / (uint64_t)base)
			return false;
		value = value * (uint64_t)base + digit;
		reader->at++;
	}
	*out = value;
	return reader->at > start;
}

/* "name" */
static bool take_quoted(struct reader *reader, char out[VB_FABRIC_NAME])
{
	size_t length = 0;

	if (!take(reader, '"'))
		return false;
	while (reader->at < reader->end && *reader->at != '"') {
		if (length + 1 < VB_FABRIC_NAME)
			out[length++] = *reader->at;
		reader->at++;
	}
	out[length] = '\0';
	return take(reader, '"');
}

static bool word_is(const struct reader *reader, const char *name)
{
	return word_length(reader) == strlen(name) && memcmp(reader->at, name, strlen(name)) == 0;
}

/* ---- lines ---- */

static const struct { const char *name; size_t value; size_t flag; } attribute_names[] = {
	{"vendid", offsetof(struct attributes, vendor), offsetof(struct attributes, has_vendor)},
	{"devid", offsetof(struct attributes, device), offsetof(struct attributes, has_device)},
	{"sysimgguid", offsetof(struct attributes, system_guid), 0},
	{"switchguid", offsetof(struct attributes, guid), 0},
	{"caguid", offsetof(struct attributes, guid), 0},
	{"hcaguid", offsetof(struct attributes, guid), 0},
};

/* name=0x...(...), known or not: real files have more of them. */
static int read_attribute(struct reader *reader)
{
	const char *word = reader->at, *equals = memchr(word, '=', word_length(reader));
	size_t length = (size_t)(equals - word);

	for (size_t i = 0; i < sizeof(attribute_names) / sizeof(attribute_names[0]); i++) {
		uint64_t value;

		if (strlen(attribute_names[i].name) != length || memcmp(reader->at, attribute_names[i].name, length) != 0)
			continue;
		reader->at = equals + 1;
		if (!take_number(reader, 16, UINT64_MAX, &value))
			return fail_at(reader, word, "not a hexadecimal number");
		*(uint64_t *)(void *)((char *)&reader->attributes + attribute_names[i].value) = value;
		if (attribute_names[i].flag)
			*((char *)&reader->attributes + attribute_names[i].flag) = 1;
		break;
	}
	reader->at += word_length(reader);
	return 0;
}

/* The digits of "S-0008f10400411f56". */
static uint64_t guid_of_name(const char *id)
{
	const char *digits = strrchr(id, '-');
	char *end;
	uint64_t value;

	if (!digits || strlen(digits + 1) < 8 || strlen(digits + 1) > 16)
		return 0;
	value = strtoull(digits + 1, &end, 16);
	return *end ? 0 : value;
}

/* The first quoted text of a comment. */
static bool find_description(const struct reader *reader, char out[VB_FABRIC_NAME])
{
	struct reader look = *reader;

	look.at = memchr(reader->at, '"', (size_t)(reader->end - reader->at));
	return look.at && take_quoted(&look, out);
}

static bool comment_says(const struct reader *reader, const char *text)
{
	return memmem(reader->at, (size_t)(reader->end - reader->at), text, strlen(text)) != NULL;
}

/* A subnet manager would take two such nodes for one. */
static bool has_guid(const struct vb_fabric *fabric, uint64_t guid)
{
	for (const struct vb_fabric_node *node = fabric->first; node; node = node->next)
		if (node->guid == guid)
			return true;
	return false;
}

static int read_node(struct reader *reader, enum vb_node_type type)
{
	const struct attributes *attributes = &reader->attributes;
	char id[VB_FABRIC_NAME], description[VB_FABRIC_NAME];
	struct vb_fabric_node_config config = {.type = type, .rate = usual_rate, .revision = 1, .id = id, .description = description};
	const char *word;
	uint64_t ports;

	reader->at += word_length(reader);
	skip_blanks(reader);
	word = reader->at;
	if (!take_number(reader, 10, VB_FABRIC_MAX_PORTS, &ports) || ports == 0)
		return fail_at(reader, word, "not a number of ports (1 .. 254)");
	skip_blanks(reader);
	word = reader->at;
	if (!take_quoted(reader, id) || id[0] == '\0')
		return fail_at(reader, word, "a name in quotation marks is missing");
	if (vb_fabric_find(reader->fabric, id))
		return fail(reader, id, strlen(id), "a node of this name was there before");
	if (reader->fabric->nodes >= MOST_NODES)
		return fail(reader, id, strlen(id), "too many nodes");
	config.ports = (uint8_t)ports;
	config.system_guid = attributes->system_guid;
	config.guid = attributes->guid ? attributes->guid : guid_of_name(id);
	if (config.guid == 0)
		config.guid = GENERATED_GUID + ((uint64_t)reader->fabric->nodes << 8);
	if (has_guid(reader->fabric, config.guid))
		return fail(reader, id, strlen(id), "another node has its GUID");
	config.vendor = attributes->has_vendor ? (uint32_t)attributes->vendor : VENDOR;
	config.device = attributes->has_device ? (uint32_t)attributes->device : type == VB_NODE_SWITCH ? DEVICE_SWITCH : DEVICE_ADAPTER;
	if (!find_description(reader, description))
		memcpy(description, id, sizeof(id));
	reader->node = vb_fabric_node_create(&config);
	if (!reader->node)
		return -ENOMEM;
	if (type == VB_NODE_SWITCH && comment_says(reader, "enhanced port 0"))
		reader->node->switch_info.flags |= ENHANCED_PORT_0;
	vb_fabric_add(reader->fabric, reader->node);
	reader->attributes = (struct attributes){0};
	reader->at = reader->end;
	return 0;
}

/* The word of a comment that is a rate. */
static struct vb_link_rate find_rate(struct reader look)
{
	while (look.at < look.end) {
		skip_blanks(&look);
		for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++)
			if (word_is(&look, rates[i].name))
				return rates[i].rate;
		look.at += word_length(&look);
		if (look.at < look.end)
			look.at++;
	}
	return usual_rate;
}

/* [port] and perhaps (guid). */
static int take_port(struct reader *reader, const char *what, uint8_t *port, uint64_t *guid)
{
	const char *word = reader->at;
	uint64_t number;

	if (!take(reader, '[') || !take_number(reader, 10, VB_FABRIC_MAX_PORTS, &number) || !take(reader, ']') || number == 0)
		return fail_at(reader, word, what);
	*port = (uint8_t)number;
	word = reader->at;
	if (take(reader, '(') && (!take_number(reader, 16, UINT64_MAX, guid) || !take(reader, ')')))
		return fail_at(reader, word, "not a GUID in parentheses");
	return 0;
}

static int read_cable(struct reader *reader)
{
	struct cable cable = {.node = reader->node, .line = reader->line}, *kept;
	const char *word;
	int error;

	if (!reader->node)
		return fail_here(reader, "a port without a node before it");
	error = take_port(reader, "not a port number in brackets", &cable.port, &cable.guid);
	if (error != 0)
		return error;
	if (cable.port > reader->node->ports)
		return fail(reader, reader->node->id, strlen(reader->node->id), "the node has no such port");
	skip_blanks(reader);
	word = reader->at;
	if (!take_quoted(reader, cable.other))
		return fail_at(reader, word, "the other end's name in quotation marks is missing");
	error = take_port(reader, "the other end's port in brackets is missing", &cable.other_port, &cable.other_guid);
	if (error != 0)
		return error;
	skip_blanks(reader);
	if (reader->at < reader->end && *reader->at != '#')
		return fail_here(reader, "what is this?");
	cable.rate = find_rate(*reader);
	kept = malloc(sizeof(*kept));
	if (!kept)
		return -ENOMEM;
	*kept = cable;
	*reader->last = kept;
	reader->last = &kept->next;
	return 0;
}

static int read_line(struct reader *reader)
{
	skip_blanks(reader);
	if (reader->at == reader->end || *reader->at == '#')
		return 0;
	if (*reader->at == '[')
		return read_cable(reader);
	if (word_is(reader, "Switch"))
		return read_node(reader, VB_NODE_SWITCH);
	if (word_is(reader, "Ca") || word_is(reader, "Hca"))
		return read_node(reader, VB_NODE_CA);
	while (reader->at < reader->end && *reader->at != '#') {
		int error;

		if (!memchr(reader->at, '=', word_length(reader)))
			return fail_here(reader, "neither a node (Switch, Ca, Hca) nor a port nor name=value");
		error = read_attribute(reader);
		if (error != 0)
			return error;
		skip_blanks(reader);
	}
	return 0;
}

/* ---- cables ---- */

static int join(struct reader *reader, const struct cable *cable, vb_time now)
{
	struct vb_fabric_node *other = vb_fabric_find(reader->fabric, cable->other);
	struct vb_fabric_port *here = &cable->node->port[cable->port], *there;

	reader->line = cable->line;
	if (!other)
		return fail(reader, cable->other, strlen(cable->other), "no node of this name is in the file");
	if (cable->other_port > other->ports)
		return fail(reader, cable->other, strlen(cable->other), "the node has no such port");
	there = &other->port[cable->other_port];
	if (here == there)
		return fail(reader, cable->other, strlen(cable->other), "a port cannot be joined to itself");
	if (cable->guid && cable->node->type != VB_NODE_SWITCH)
		here->guids[0] = cable->guid;
	if (cable->other_guid && other->type != VB_NODE_SWITCH)
		there->guids[0] = cable->other_guid;
	if (here->peer == there)
		return 0;
	if (here->peer || there->peer)
		return fail(reader, here->peer ? cable->node->id : other->id, strlen(here->peer ? cable->node->id : other->id),
			    "this port has another cable already");
	vb_fabric_port_set_rate(here, &cable->rate);
	vb_fabric_port_set_rate(there, &cable->rate);
	vb_fabric_join(here, there, now);
	return 0;
}

int vb_topology_read(struct vb_fabric *fabric, const char *text, size_t length, vb_time now, struct vb_topology_error *error)
{
	struct reader reader = {.fabric = fabric, .error = error, .last = &reader.cables};
	const char *end = text + length;
	int result = 0;

	*error = (struct vb_topology_error){0};
	for (const char *at = text; at < end && result == 0; at = reader.end + 1) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));

		reader.at = at;
		reader.end = newline ? newline : end;
		reader.line++;
		result = read_line(&reader);
	}
	for (struct cable *cable = reader.cables, *next; cable; cable = next) {
		next = cable->next;
		if (result == 0)
			result = join(&reader, cable, now);
		free(cable);
	}
	if (result == 0 && fabric->nodes == 0)
		result = fail(&reader, "", 0, "there is no node in this file");
	return result;
}

const char *vb_topology_rate_name(const struct vb_link_rate *rate)
{
	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++)
		if (rates[i].rate.width == rate->width && rates[i].rate.speed == rate->speed && rates[i].rate.extended == rate->extended)
			return rates[i].name;
	return NULL;
}
