/* SPDX-License-Identifier: MIT
 *
 * What `verbena lab check` judges by: lines that the programs print, and the explanations that the library gives of the
 * student's program (docs/explain.md). The first shows how far it came, the second why; an event that is not
 * acknowledged in the first part makes the last one hang.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/lab_check.h"

bool vb_cli_lab_fails(struct vb_cli_lab_check *check, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(check->why, sizeof(check->why), format, arguments);
	va_end(arguments);
	return false;
}

char *vb_cli_lab_line(const char *text, const char *beginning)
{
	const char *found = NULL, *at = text;

	for (; (at = strstr(at, beginning)); at += strlen(beginning))
		if (at == text || at[-1] == '\n')
			found = at + strlen(beginning);
	return found ? strndup(found, strcspn(found, "\n")) : NULL;
}

bool vb_cli_lab_says(const char *text, const char *beginning)
{
	char *line = vb_cli_lab_line(text, beginning);

	free(line);
	return line != NULL;
}

/* "sender: " */
static char *complaint_of(const char *text, const char *program)
{
	char beginning[64];

	snprintf(beginning, sizeof(beginning), "%s: ", program);
	return vb_cli_lab_line(text, beginning);
}

bool vb_cli_lab_fails_by_end(struct vb_cli_lab_check *check, const struct vb_cli_lab_talk *talk, const char *waiting)
{
	const char *program = check->exercise->program, *partner = check->exercise->partner;
	char *ours = complaint_of(talk->student_said, program), *theirs = complaint_of(talk->partner_said, partner);

	if (talk->hung)
		vb_cli_lab_fails(check, "The %s did not end within %d seconds. %s", program, VB_CLI_LAB_TALKING, waiting);
	else if (talk->student.code >= 128 && !talk->student.killed)
		vb_cli_lab_fails(check, "The %s was ended by signal %d (%s). %s", program, talk->student.code - 128,
				 strsignal(talk->student.code - 128), waiting);
	else if (ours && theirs && strstr(ours, "part ") != ours)
		vb_cli_lab_fails(check, "The %s says: %s. The %s says: %s.", program, ours, partner, theirs);
	else if (ours)
		vb_cli_lab_fails(check, "The %s says: %s. %s", program, ours, waiting);
	else if (theirs)
		vb_cli_lab_fails(check, "The %s says: %s. %s", partner, theirs, waiting);
	else if (talk->student.killed)
		vb_cli_lab_fails(check, "The %s still waits. %s", program, waiting);
	else
		vb_cli_lab_fails(check, "The %s ended with exit code %d and said nothing. %s", program, talk->student.code,
				 waiting);
	free(ours);
	free(theirs);
	return false;
}

bool vb_cli_lab_pass(struct vb_cli_lab_check *check, bool good)
{
	for (size_t length = strlen(check->why); length > 0 && check->why[length - 1] == ' '; length--)
		check->why[length - 1] = '\0';
	if (good)
		check->passed++;
	return good && !vb_cli_lab_interrupted;
}

/* ---- Explanations ---- */

/* The value of a field of one explanation, as text without its quotes, into a buffer. False: there is none. */
static bool field(const char *line, const char *name, char *value, size_t room)
{
	const char *end = line + strcspn(line, "\n"), *at;
	char key[64];
	size_t length = 0;

	snprintf(key, sizeof(key), "\"%s\":", name);
	/* In this line alone: a program may have made a million of them. */
	at = memmem(line, (size_t)(end - line), key, strlen(key));
	if (!at)
		return false;
	at += strlen(key);
	if (*at != '"') {
		length = strcspn(at, ",}\n");
		snprintf(value, room, "%.*s", (int)length, at);
		return true;
	}
	for (at++; at < end && *at != '"'; at++) {
		if (*at == '\\' && at + 1 < end)
			at++;
		if (length + 1 < room)
			value[length++] = *at;
	}
	value[length] = '\0';
	return true;
}

static bool has(const char *line, const char *name, const char *wanted)
{
	char value[128];

	return !name || (field(line, name, value, sizeof(value)) && !strcmp(value, wanted));
}

static const struct vb_cli_lab_blame *blame_for(const struct vb_cli_lab_check *check, const char *line)
{
	for (const struct vb_cli_lab_blame *blame = check->exercise->blames; blame->name; blame++)
		if (has(line, blame->name, blame->value) && has(line, blame->second_name, blame->second_value))
			return blame;
	return NULL;
}

/* Cause and fix of an explanation after what is said already. */
static void quote(struct vb_cli_lab_check *check, const char *line)
{
	char what[300] = "", cause[400] = "", fix[300] = "";
	size_t length = strlen(check->why);

	if (!field(line, "what", what, sizeof(what)) && !field(line, "cause", cause, sizeof(cause)))
		return;
	field(line, "cause", cause, sizeof(cause));
	field(line, "fix", fix, sizeof(fix));
	snprintf(check->why + length, sizeof(check->why) - length, "%sVerbena explains: %s: %s%s%s", length ? " " : "", what, cause,
		 *fix ? " " : "", fix);
}

bool vb_cli_lab_examine(struct vb_cli_lab_check *check, const struct vb_cli_lab_talk *talk, int first)
{
	const struct vb_cli_lab_blame *worst = NULL;
	const char *worst_line = NULL, *first_failure = NULL;

	for (const char *line = talk->explained; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		const struct vb_cli_lab_blame *blame = blame_for(check, line);

		if (blame && (!worst || blame->step < worst->step)) {
			worst = blame;
			worst_line = line;
		}
		if (!first_failure && !has(line, "explain", "suppressed"))
			first_failure = line;
	}
	if (worst && worst->step <= check->passed) {
		check->passed = worst->step > first ? worst->step : first;
		vb_cli_lab_fails(check, "%s", worst->words);
		quote(check, worst_line);
		return false;
	}
	if (check->passed < check->exercise->step_count && first_failure && check->why[0])
		quote(check, first_failure);
	return true;
}
