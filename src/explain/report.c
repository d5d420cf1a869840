/* SPDX-License-Identifier: MIT
 *
 * See report.h. As a paragraph:
 *
 *   verbena[4711]: RDMA_WRITE wr_id 7 on QP 0x04a0c1 to 192.0.2.7 QP 0x0123ab failed: REM_ACCESS_ERR
 *     cause: ...
 *     flush: ...
 *     fix:   ...
 *     facts: status=REM_ACCESS_ERR wr_id=7 ...
 */
#include "explain/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const part_names[VB_REPORT_PARTS] = {"what", "cause", "flush", "fix"};

void vb_report_begin(struct vb_report *report, const char *kind)
{
	report->kind = kind;
	report->fields = 0;
	for (unsigned i = 0; i < VB_REPORT_PARTS; i++)
		report->part[i][0] = '\0';
}

/* "1 bytes" is "1 byte": sentences are written for many, and one of a thing is the exception. In place, from `text` on. */
static void make_singular(char *text)
{
	static const struct {
		const char *many, *one;
	} nouns[] = {
		{" bytes", " byte"},     {" sends", " send"},   {" receives", " receive"},   {" completions", " completion"},
		{" entries", " entry"},  {" times", " time"},   {" work requests", " work request"},
		{" events", " event"},   {" explanations", " explanation"},
	};

	for (char *at = text; (at = strchr(at, '1')) != NULL; at++) {
		if (at > text && at[-1] != ' ' && at[-1] != '(')
			continue;
		for (size_t i = 0; i < sizeof(nouns) / sizeof(nouns[0]); i++) {
			size_t many = strlen(nouns[i].many), one = strlen(nouns[i].one);

			if (strncmp(at + 1, nouns[i].many, many) != 0)
				continue;
			memcpy(at + 1, nouns[i].one, one);
			memmove(at + 1 + one, at + 1 + many, strlen(at + 1 + many) + 1);
			break;
		}
	}
}

void vb_report_say(struct vb_report *report, enum vb_report_part part, const char *format, ...)
{
	size_t used = strlen(report->part[part]);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(report->part[part] + used, VB_REPORT_SENTENCES - used, format, arguments);
	va_end(arguments);
	make_singular(report->part[part] + used);
}

static struct vb_report_field *add_field(struct vb_report *report, const char *name, bool is_number)
{
	struct vb_report_field *field;

	if (report->fields == VB_REPORT_FIELDS)
		return NULL;
	field = &report->field[report->fields++];
	field->name = name;
	field->is_number = is_number;
	return field;
}

void vb_report_number(struct vb_report *report, const char *name, uint64_t value)
{
	struct vb_report_field *field = add_field(report, name, true);

	if (field)
		snprintf(field->value, sizeof(field->value), "%llu", (unsigned long long)value);
}

void vb_report_hex(struct vb_report *report, const char *name, uint64_t value, int digits)
{
	struct vb_report_field *field = add_field(report, name, false);

	if (field)
		snprintf(field->value, sizeof(field->value), "0x%0*llx", digits, (unsigned long long)value);
}

void vb_report_word(struct vb_report *report, const char *name, const char *value)
{
	struct vb_report_field *field = add_field(report, name, false);

	if (field)
		snprintf(field->value, sizeof(field->value), "%s", value);
}

struct sink {
	char *out;
	size_t used, room; /* of room one byte is kept for the final newline */
};

static void put(struct sink *sink, char c)
{
	if (sink->used + 1 < sink->room)
		sink->out[sink->used++] = c;
}

/* Parts are put together from sentences that end in a space. */
static void end_part(struct sink *sink)
{
	while (sink->used > 0 && sink->out[sink->used - 1] == ' ')
		sink->used--;
}

static void put_text(struct sink *sink, const char *text)
{
	for (; *text; text++)
		put(sink, *text);
}

/* RFC 8259 §7. What applications hand us as names may hold anything. */
static void put_quoted(struct sink *sink, const char *text)
{
	char escape[8];

	put(sink, '"');
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\') {
			put(sink, '\\');
			put(sink, (char)c);
		} else if (c < 0x20 || c >= 0x7f) {
			snprintf(escape, sizeof(escape), "\\u%04x", c);
			put_text(sink, escape);
		} else {
			put(sink, (char)c);
		}
	}
	put(sink, '"');
}

static void render_json(const struct vb_report *report, int pid, struct sink *sink)
{
	char number[32];

	snprintf(number, sizeof(number), "%d", pid);
	put_text(sink, "{\"explain\":");
	put_quoted(sink, report->kind);
	put_text(sink, ",\"pid\":");
	put_text(sink, number);
	for (unsigned i = 0; i < report->fields; i++) {
		const struct vb_report_field *field = &report->field[i];

		put(sink, ',');
		put_quoted(sink, field->name);
		put(sink, ':');
		if (field->is_number)
			put_text(sink, field->value);
		else
			put_quoted(sink, field->value);
	}
	for (unsigned i = 0; i < VB_REPORT_PARTS; i++) {
		if (report->part[i][0] == '\0')
			continue;
		put(sink, ',');
		put_quoted(sink, part_names[i]);
		put(sink, ':');
		put_quoted(sink, report->part[i]);
		sink->used--;
		end_part(sink);
		put(sink, '"');
	}
	put(sink, '}');
}

static void render_paragraph(const struct vb_report *report, int pid, struct sink *sink)
{
	char head[48];

	snprintf(head, sizeof(head), "verbena[%d]: ", pid);
	put_text(sink, head);
	put_text(sink, report->part[VB_REPORT_WHAT]);
	for (unsigned i = VB_REPORT_WHAT + 1; i < VB_REPORT_PARTS; i++) {
		if (report->part[i][0] == '\0')
			continue;
		snprintf(head, sizeof(head), "\n  %s:%*s", part_names[i], (int)(6 - strlen(part_names[i])), "");
		put_text(sink, head);
		put_text(sink, report->part[i]);
		end_part(sink);
	}
	if (report->fields > 0)
		put_text(sink, "\n  facts:");
	for (unsigned i = 0; i < report->fields; i++) {
		put(sink, ' ');
		put_text(sink, report->field[i].name);
		put(sink, '=');
		put_text(sink, report->field[i].value);
	}
}

size_t vb_report_render(const struct vb_report *report, bool json, int pid, char *out, size_t room)
{
	struct sink sink = {.out = out, .room = room};

	if (json)
		render_json(report, pid, &sink);
	else
		render_paragraph(report, pid, &sink);
	if (sink.used < room)
		out[sink.used++] = '\n';
	return sink.used;
}
