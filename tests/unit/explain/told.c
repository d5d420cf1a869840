/* SPDX-License-Identifier: MIT
 *
 * See told.h. The lines are flat JSON objects of strings without escapes and numbers, so looking for "name":value is
 * enough.
 */
#include "told.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "lib/patience.h"

enum { ROOM = 256 * 1024, EVIDENCE = 16 };

static char path[] = "/tmp/verbena-told-XXXXXX";
static char text[ROOM];

void told_prepare(void)
{
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	setenv("VERBENA_EXPLAIN", path, 1);
	setenv("VERBENA_EXPLAIN_FORMAT", "json", 1);
	setenv("VERBENA_EXPLAIN_ALL", "1", 1);
}

void told_remove(void)
{
	unlink(path);
}

void told_clear(void)
{
	assert_int_equal(truncate(path, 0), 0);
}

static void read_all(void)
{
	FILE *file = fopen(path, "r");
	size_t length;

	assert_non_null(file);
	length = fread(text, 1, sizeof(text) - 1, file);
	text[length] = '\0';
	fclose(file);
}

static bool holds(const char *line, size_t length, const char *name, const char *value)
{
	char wanted[256], quoted[256];

	snprintf(wanted, sizeof(wanted), "\"%s\":%s", name, value);
	snprintf(quoted, sizeof(quoted), "\"%s\":\"%s\"", name, value);
	for (const char *form = wanted; form; form = form == wanted ? quoted : NULL) {
		const char *found = memmem(line, length, form, strlen(form));

		if (found && (found[strlen(form)] == ',' || found[strlen(form)] == '}'))
			return true;
	}
	return false;
}

static bool any_line(unsigned count, const char **names, const char **values)
{
	read_all();
	for (const char *line = text; *line;) {
		size_t length = strcspn(line, "\n");
		bool all = true;

		for (unsigned i = 0; i < count && all; i++)
			all = holds(line, length, names[i], values[i]);
		if (all)
			return true;
		line += length + (line[length] == '\n');
	}
	return false;
}

void told_expect(const char *name, ...)
{
	const char *names[EVIDENCE], *values[EVIDENCE];
	unsigned count = 0;
	va_list more;

	va_start(more, name);
	for (const char *n = name; n && count < EVIDENCE; n = va_arg(more, const char *)) {
		names[count] = n;
		values[count++] = va_arg(more, const char *);
	}
	va_end(more);
	if (eventually(any_line(count, names, values)))
		return;
	for (unsigned i = 0; i < count; i++)
		print_error("wanted %s = %s\n", names[i], values[i]);
	fail_msg("not told; this was: %s", text);
}

unsigned told_count(const char *name, const char *value)
{
	unsigned count = 0;

	read_all();
	for (const char *line = text; *line;) {
		size_t length = strcspn(line, "\n");

		count += holds(line, length, name, value);
		line += length + (line[length] == '\n');
	}
	return count;
}

bool told_mentions(const char *words)
{
	read_all();
	return strstr(text, words) != NULL;
}

static char *next_buffer(void)
{
	static char buffers[16][32];
	static unsigned next;

	return buffers[next++ % 16];
}

const char *hex(uint64_t value, int digits)
{
	char *out = next_buffer();

	snprintf(out, 32, "0x%0*llx", digits, (unsigned long long)value);
	return out;
}

const char *number(uint64_t value)
{
	char *out = next_buffer();

	snprintf(out, 32, "%llu", (unsigned long long)value);
	return out;
}
