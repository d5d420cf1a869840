/* SPDX-License-Identifier: MIT
 *
 * An explanation under construction: sentences for people, named evidence for programs. Rendered as a paragraph or as
 * one JSON object on a line. Of fixed size and without allocation, because it is made where things have gone wrong.
 */
#ifndef VB_EXPLAIN_REPORT_H
#define VB_EXPLAIN_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { VB_REPORT_FIELDS = 48, VB_REPORT_VALUE = 96, VB_REPORT_SENTENCES = 640, VB_REPORT_ROOM = 8192 };

/* In the order in which they are told. */
enum vb_report_part {
	VB_REPORT_WHAT,                  /* what was attempted and how it ended, one line */
	VB_REPORT_CAUSE,                 /* which check failed, with its numbers */
	VB_REPORT_FLUSH,                 /* what went down with it */
	VB_REPORT_FIX,                   /* what usually helps */
	VB_REPORT_PARTS
};

struct vb_report_field {
	const char *name;
	bool is_number;
	char value[VB_REPORT_VALUE];
};

struct vb_report {
	const char *kind;                /* completion, flush, verb, event, connection, misuse */
	char part[VB_REPORT_PARTS][VB_REPORT_SENTENCES];
	unsigned fields;
	struct vb_report_field field[VB_REPORT_FIELDS];
};

void vb_report_begin(struct vb_report *report, const char *kind);
/* Append to a part; what does not fit is cut. */
void vb_report_say(struct vb_report *report, enum vb_report_part part, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Evidence. Numbers are decimal in JSON; keys, QPNs, PSNs and addresses hexadecimal strings. */
void vb_report_number(struct vb_report *report, const char *name, uint64_t value);
void vb_report_hex(struct vb_report *report, const char *name, uint64_t value, int digits);
void vb_report_word(struct vb_report *report, const char *name, const char *value);

/* Length of the text, newline included. */
size_t vb_report_render(const struct vb_report *report, bool json, int pid, char *out, size_t room);

#endif
