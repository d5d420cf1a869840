/* SPDX-License-Identifier: MIT */
#include "cli/fabric_picture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "cli/json.h"

enum { NODE = 104, HEIGHT = 44, ROW = 150, MARGIN = 28, SMALL = 16, HEAD = 52 };
/* With more links than that, numbers at their ends would lie over each other; with more adapters, names do not fit. */
enum { FEW_LINKS = 40, FEW_ADAPTERS = 40 };

/* ---- Reading ---- */

/* The words of a line, ended by zeros from now on. Returns how many there were. */
static unsigned split(char *line, char *word[8])
{
	unsigned count = 0;

	while (count < 8) {
		word[count++] = line;
		line = strchr(line, '\t');
		if (!line)
			break;
		*line++ = '\0';
	}
	return count;
}

static bool node_number(const struct vb_cli_fabric_list *list, const char *name, unsigned *number)
{
	for (*number = 0; *number < list->node_count; ++*number)
		if (!strcmp(list->nodes[*number].name, name))
			return true;
	return false;
}

/* Words that go into markup as they are. The owner of the fabric's socket may be another user. */
static bool is_plain(const char *word, size_t room)
{
	size_t length = strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-");

	return length < room && word[length] == '\0';
}

static int read_node(struct vb_cli_fabric_list *list, char *word[8])
{
	struct vb_cli_fabric_node *more = realloc(list->nodes, (list->node_count + 1) * sizeof(*more));
	struct vb_cli_fabric_node *node;

	if (!more)
		return -ENOMEM;
	list->nodes = more;
	if (!is_plain(word[2], sizeof(more->type)))
		return -EPROTO;
	node = &more[list->node_count++];
	*node = (struct vb_cli_fabric_node){ .lid = (unsigned)strtoul(word[3], NULL, 10), .ports = (unsigned)strtoul(word[4], NULL, 10) };
	snprintf(node->name, sizeof(node->name), "%s", word[1]);
	snprintf(node->type, sizeof(node->type), "%s", word[2]);
	snprintf(node->description, sizeof(node->description), "%s", word[5]);
	return 0;
}

static int read_link(struct vb_cli_fabric_list *list, char *word[8])
{
	struct vb_cli_fabric_link *more = realloc(list->links, (list->link_count + 1) * sizeof(*more));
	struct vb_cli_fabric_link *link;

	if (!more)
		return -ENOMEM;
	list->links = more;
	link = &more[list->link_count];
	*link = (struct vb_cli_fabric_link){ .port = { (unsigned)strtoul(word[2], NULL, 10), (unsigned)strtoul(word[6], NULL, 10) } };
	if (!node_number(list, word[1], &link->node[0]) || !node_number(list, word[5], &link->node[1]) ||
	    !is_plain(word[3], sizeof(link->state)) || !is_plain(word[4], sizeof(link->rate)))
		return -EPROTO;
	snprintf(link->state, sizeof(link->state), "%s", word[3]);
	snprintf(link->rate, sizeof(link->rate), "%s", word[4]);
	list->link_count++;
	return 0;
}

int vb_cli_fabric_list_read(struct vb_cli_fabric_list *list, const char *text)
{
	char *copy = strdup(text), *word[8], *rest = copy, *line;
	int error = copy ? 0 : -ENOMEM;
	unsigned count;

	*list = (struct vb_cli_fabric_list){ 0 };
	while (!error && (line = strsep(&rest, "\n"))) {
		if (!*line)
			continue;
		count = split(line, word);
		if (count == 6 && !strcmp(word[0], "node"))
			error = read_node(list, word);
		else if (count == 7 && !strcmp(word[0], "link"))
			error = read_link(list, word);
		else
			error = -EPROTO;
	}
	free(copy);
	return error;
}

void vb_cli_fabric_list_free(struct vb_cli_fabric_list *list)
{
	free(list->nodes);
	free(list->links);
}

void vb_cli_fabric_list_json(const struct vb_cli_fabric_list *list, FILE *out)
{
	fprintf(out, "{\"nodes\": [");
	for (unsigned i = 0; i < list->node_count; i++) {
		const struct vb_cli_fabric_node *node = &list->nodes[i];

		fprintf(out, "%s\n  {\"name\": ", i ? "," : "");
		vb_cli_json_string(out, node->name);
		fprintf(out, ", \"type\": \"%s\", \"lid\": %u, \"ports\": %u, \"description\": ", node->type, node->lid, node->ports);
		vb_cli_json_string(out, node->description);
		fprintf(out, "}");
	}
	fprintf(out, "],\n \"links\": [");
	for (unsigned i = 0; i < list->link_count; i++) {
		const struct vb_cli_fabric_link *link = &list->links[i];

		fprintf(out, "%s\n  {\"state\": \"%s\", \"rate\": \"%s\"", i ? "," : "", link->state, link->rate);
		for (int end = 0; end < 2; end++) {
			fprintf(out, ", \"%s\": ", end ? "to" : "from");
			vb_cli_json_string(out, list->nodes[link->node[end]].name);
			fprintf(out, ", \"%s_port\": %u", end ? "to" : "from", link->port[end]);
		}
		fprintf(out, "}");
	}
	fprintf(out, "]}\n");
}

/* ---- Where everything stands ---- */

/* Levels are distances from the nearest adapter; a switch that none leads to stands with those that have some. */
static unsigned set_levels(struct vb_cli_fabric_list *list)
{
	unsigned highest = 1;

	for (unsigned i = 0; i < list->node_count; i++)
		list->nodes[i].level = strcmp(list->nodes[i].type, "switch") ? 0 : list->node_count + 1;
	for (bool changed = true; changed;) {
		changed = false;
		for (unsigned i = 0; i < list->link_count; i++)
			for (int end = 0; end < 2; end++) {
				const struct vb_cli_fabric_node *near = &list->nodes[list->links[i].node[end]];
				struct vb_cli_fabric_node *far = &list->nodes[list->links[i].node[!end]];

				if (far->level > near->level + 1) {
					far->level = near->level + 1;
					changed = true;
				}
			}
	}
	for (unsigned i = 0; i < list->node_count; i++) {
		if (list->nodes[i].level > list->node_count)
			list->nodes[i].level = 1;
		if (list->nodes[i].level > highest)
			highest = list->nodes[i].level;
	}
	return highest;
}

/* For qsort, which takes no context. */
static const struct vb_cli_fabric_list *sorted;

static int by_order(const void *a, const void *b)
{
	const struct vb_cli_fabric_node *left = &sorted->nodes[*(const unsigned *)a], *right = &sorted->nodes[*(const unsigned *)b];

	if (left->order != right->order)
		return left->order < right->order ? -1 : 1;
	return *(const unsigned *)a < *(const unsigned *)b ? -1 : 1;
}

/* The nodes of a level, in their order, evenly across the width. */
static void place_row(struct vb_cli_fabric_list *list, unsigned level, unsigned highest, double width)
{
	unsigned *row = calloc(list->node_count + 1, sizeof(*row)), count = 0;

	for (unsigned i = 0; row && i < list->node_count; i++)
		if (list->nodes[i].level == level)
			row[count++] = i;
	sorted = list;
	if (row)
		qsort(row, count, sizeof(*row), by_order);
	for (unsigned i = 0; i < count; i++) {
		list->nodes[row[i]].x = MARGIN + (i + 0.5) * width / count;
		list->nodes[row[i]].y = MARGIN + 40 + (highest - level) * (double)ROW;
	}
	free(row);
}

/* A node wants to stand in the middle of its neighbours of that level. */
static void order_by_neighbours(struct vb_cli_fabric_list *list, unsigned level, unsigned neighbours)
{
	for (unsigned i = 0; i < list->node_count; i++) {
		double sum = 0;
		unsigned count = 0;

		if (list->nodes[i].level != level)
			continue;
		for (unsigned j = 0; j < list->link_count; j++)
			for (int end = 0; end < 2; end++) {
				const struct vb_cli_fabric_link *link = &list->links[j];

				if (link->node[end] == i && list->nodes[link->node[!end]].level == neighbours) {
					sum += list->nodes[link->node[!end]].x + link->port[!end] / 1000.0;
					count++;
				}
			}
		list->nodes[i].order = count ? sum / count : list->nodes[i].x;
	}
}

static double place(struct vb_cli_fabric_list *list, unsigned highest, bool small)
{
	double width = 3 * NODE;

	for (unsigned level = 0; level <= highest; level++) {
		double wanted = 0;

		for (unsigned i = 0; i < list->node_count; i++)
			if (list->nodes[i].level == level)
				wanted += level == 0 && small ? SMALL + 4 : NODE + 20;
		if (wanted > width)
			width = wanted;
	}
	for (unsigned i = 0; i < list->node_count; i++)
		list->nodes[i].order = i;
	for (unsigned level = 0; level <= highest; level++)
		place_row(list, level, highest, width);
	/* Adapters stand beneath their switches, in the order of their ports. */
	order_by_neighbours(list, 0, 1);
	place_row(list, 0, highest, width);
	for (unsigned level = 1; level <= highest; level++) {
		order_by_neighbours(list, level, level - 1);
		place_row(list, level, highest, width);
	}
	order_by_neighbours(list, 0, 1);
	place_row(list, 0, highest, width);
	return width;
}

/* ---- Drawing ---- */

static void put_text(FILE *out, const char *text)
{
	size_t length;

	for (; *text; text += length ? length : 1) {
		length = vb_utf8_length(text);
		if (*text == '<' || *text == '>' || *text == '&' || *text == '"')
			fprintf(out, "&#%d;", *text);
		else if (length > 0)
			fwrite(text, 1, length, out);
		else
			fputc('?', out);
	}
}

static const char *colour_of(const char *state)
{
	return !strcmp(state, "ACTIVE") ? "#2a9d5c" : !strcmp(state, "CUT") ? "#c62828" : !strcmp(state, "DOWN") ? "#b0b0b0" : "#d98c00";
}

static void draw_link(FILE *out, const struct vb_cli_fabric_list *list, const struct vb_cli_fabric_link *link, bool labelled)
{
	const struct vb_cli_fabric_node *a = &list->nodes[link->node[0]], *b = &list->nodes[link->node[1]];
	double x[2] = { a->x, b->x }, y[2] = { a->y, b->y };
	/* Words stand where links of one switch to its adapters are apart; those between switches out of the way of
	 * links within a row. */
	double near = a->level && b->level ? 0.45 : b->level ? 0.26 : 0.74;

	fprintf(out, "<g class=\"link\"><title>");
	put_text(out, a->name);
	fprintf(out, "[%u] - ", link->port[0]);
	put_text(out, b->name);
	fprintf(out, "[%u] %s %s</title>", link->port[1], link->state, link->rate);
	/* Two of one row are joined above it. */
	if (a->level == b->level)
		fprintf(out, "<path d=\"M%.1f %.1f Q%.1f %.1f %.1f %.1f\" fill=\"none\"", x[0], y[0], (x[0] + x[1]) / 2,
			y[0] - 0.6 * ROW, x[1], y[1]);
	else
		fprintf(out, "<path d=\"M%.1f %.1f L%.1f %.1f\" fill=\"none\"", x[0], y[0], x[1], y[1]);
	fprintf(out, " stroke=\"%s\" stroke-width=\"2\"%s/>", colour_of(link->state),
		strcmp(link->state, "CUT") ? "" : " stroke-dasharray=\"5 5\"");
	if (labelled && a->level != b->level)
		fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"small\">%u: %s %s</text>", x[0] + near * (x[1] - x[0]) + 4,
			y[0] + near * (y[1] - y[0]), link->port[0], link->state, link->rate);
	else if (labelled)
		fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"small middle\">%u: %s %s :%u</text>", (x[0] + x[1]) / 2,
			y[0] - 0.33 * ROW, link->port[0], link->state, link->rate, link->port[1]);
	fprintf(out, "</g>\n");
}

static void draw_node(FILE *out, const struct vb_cli_fabric_node *node, bool small)
{
	double width = small && node->level == 0 ? SMALL : NODE, height = small && node->level == 0 ? SMALL : HEIGHT;
	bool named = node->level == 0 && *node->description && strlen(node->description) <= 15;
	const char *fill = node->level ? "#e3ecf7" : strcmp(node->type, "host") ? "#f3f3f3" : "#fdf1d8";

	fprintf(out, "<g class=\"%s\"><title>", node->type);
	put_text(out, node->name);
	fprintf(out, " \"");
	put_text(out, node->description);
	fprintf(out, "\" lid %u, %s, %u ports</title>", node->lid, node->type, node->ports);
	fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.0f\" height=\"%.0f\" rx=\"4\" fill=\"%s\" stroke=\"#5a6b7d\"/>",
		node->x - width / 2, node->y - height / 2, width, height, fill);
	if (width == NODE) {
		fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"middle\">", node->x, node->y - 3);
		put_text(out, named ? node->description : node->name);
		fprintf(out, "</text><text x=\"%.1f\" y=\"%.1f\" class=\"small middle\">lid %u, %s</text>", node->x, node->y + 13,
			node->lid, node->type);
	}
	fprintf(out, "</g>\n");
}

/* Room for the words above, and for links that join two of the highest row above it. Returns the height of the whole. */
static double make_room(struct vb_cli_fabric_list *list, unsigned highest)
{
	double top = 0, bottom = 0, wanted = HEAD + HEIGHT / 2;

	for (unsigned i = 0; i < list->link_count; i++) {
		const struct vb_cli_fabric_link *link = &list->links[i];

		if (list->nodes[link->node[0]].level == highest && list->nodes[link->node[1]].level == highest)
			wanted = HEAD + 0.4 * ROW;
	}
	for (unsigned i = 0; i < list->node_count; i++)
		if (i == 0 || list->nodes[i].y < top)
			top = list->nodes[i].y;
	for (unsigned i = 0; i < list->node_count; i++) {
		list->nodes[i].y += wanted - top;
		if (list->nodes[i].y > bottom)
			bottom = list->nodes[i].y;
	}
	return bottom + HEIGHT / 2 + MARGIN;
}

void vb_cli_fabric_list_svg(struct vb_cli_fabric_list *list, FILE *out)
{
	static const char *const states[] = { "ACTIVE", "INIT", "DOWN", "CUT" };
	unsigned highest = set_levels(list), switches = 0, hosts = 0, ghosts;
	double width, height;
	bool small;

	for (unsigned i = 0; i < list->node_count; i++) {
		switches += list->nodes[i].level > 0;
		hosts += !strcmp(list->nodes[i].type, "host");
	}
	ghosts = list->node_count - switches - hosts;
	small = hosts + ghosts > FEW_ADAPTERS;
	width = place(list, highest, small) + 2 * MARGIN;
	height = make_room(list, highest);
	fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" font-size=\"12\">\n"
		     "<style>.small{font-size:9px;fill:#44505c}.middle{text-anchor:middle}</style>\n"
		     "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n"
		     "<text x=\"%d\" y=\"20\">%u switch%s, %u host%s, %u ghost%s, %u link%s</text>\n", width, height, MARGIN, switches,
		switches == 1 ? "" : "es", hosts, hosts == 1 ? "" : "s", ghosts, ghosts == 1 ? "" : "s", list->link_count,
		list->link_count == 1 ? "" : "s");
	for (unsigned i = 0; i < 4; i++)
		fprintf(out, "<text x=\"%u\" y=\"36\" class=\"small\" style=\"fill:%s\">%s</text>\n", MARGIN + i * 50,
			colour_of(states[i]), states[i]);
	for (unsigned i = 0; i < list->link_count; i++)
		draw_link(out, list, &list->links[i], list->link_count <= FEW_LINKS);
	for (unsigned i = 0; i < list->node_count; i++)
		draw_node(out, &list->nodes[i], small);
	fprintf(out, "</svg>\n");
}
