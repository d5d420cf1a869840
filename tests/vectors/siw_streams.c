/* SPDX-License-Identifier: MIT
 *
 * See siw_streams.h.
 */
#include "siw_streams.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_LINE = 1 << 18 };

static int digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool add_line(struct siw_connection *connection, const char *line)
{
	unsigned side = line[0] == '<';
	struct siw_direction *from = &connection->from[side];
	size_t digits = strcspn(line + 2, "\n");
	uint8_t *bytes;

	if (connection->chunks == SIW_CHUNKS || digits % 2 != 0)
		return false;
	bytes = realloc(from->bytes, from->length + digits / 2 + 1);
	if (!bytes)
		return false;
	from->bytes = bytes;
	for (size_t i = 0; i < digits; i += 2) {
		int high = digit(line[2 + i]), low = digit(line[3 + i]);

		if (high < 0 || low < 0)
			return false;
		from->bytes[from->length++] = (uint8_t)(high << 4 | low);
	}
	connection->chunk[connection->chunks].side = (uint8_t)side;
	connection->chunk[connection->chunks++].end = from->length;
	return true;
}

bool siw_open(struct siw_file *file, const char *folder, const char *name)
{
	static char line[LONGEST_LINE];
	char path[512];
	bool good = true;
	FILE *in;

	memset(file, 0, sizeof(*file));
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	in = fopen(path, "r");
	if (!in)
		return false;
	while (good && fgets(line, sizeof(line), in)) {
		if (strcmp(line, "connection\n") == 0)
			good = file->connections++ < SIW_CONNECTIONS;
		else
			good = (line[0] == '>' || line[0] == '<') && line[1] == ' ' && file->connections > 0 &&
			       add_line(&file->connection[file->connections - 1], line);
	}
	fclose(in);
	return good && file->connections > 0;
}

void siw_close(struct siw_file *file)
{
	for (unsigned i = 0; i < SIW_CONNECTIONS; i++)
		for (unsigned side = 0; side < 2; side++)
			free(file->connection[i].from[side].bytes);
}

bool siw_index_open(struct siw_index *index, const char *folder)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/index.txt", folder);
	index->file = fopen(path, "r");
	return index->file;
}

bool siw_index_next(struct siw_index *index)
{
	char line[256];

	while (fgets(line, sizeof(line), index->file))
		if (line[0] != '#')
			return sscanf(line, "%127s | %u | %u", index->name, &index->connections, &index->fpdus) == 3;
	return false;
}

void siw_index_close(struct siw_index *index)
{
	fclose(index->file);
}
