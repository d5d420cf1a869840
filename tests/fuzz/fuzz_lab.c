/* SPDX-License-Identifier: MIT
 *
 * What `verbena lab check` reads: the lines that a student's program and ours have printed, and the explanations of it, of any bytes. The
 * judgement is of a step that there is, its reason is no longer than its room, JSON of it is well-formed, and what a terminal is
 * shown of it holds nothing that a terminal obeys.
 *
 * Input: one byte that chooses how the programs ended, then the three texts, each up to a byte 1.
 */
#include <string.h>

#include "base/utf8.h"
#include "cli/json.h"
#include "cli/lab_check.h"
#include "cli/shown.h"
#include "markup.h"
#include "target.h"

enum { TEXTS = 3, STEPS = 3 };

volatile sig_atomic_t vb_cli_lab_interrupted;

static const char *const steps[STEPS] = {"it compiles", "it connects", "it writes"};
static const struct vb_cli_lab_blame blames[] = {
	{"misuse", "unacknowledged_events", "object", "rdma_cm_id", 1, "Not acknowledged."},
	{"verb", "rdma_connect", NULL, NULL, 1, ""},
	{"explain", "completion", "opcode", "RDMA_WRITE", 2, "A WRITE failed."},
	{0},
};
static const struct vb_cli_lab_exercise exercise = {
	.name = "fuzz", .program = "sender", .partner = "receiver", .steps = steps, .step_count = STEPS, .blames = blames};

/* Of exactly its size, for the sanitizer. */
static char *next_text(const uint8_t **at, const uint8_t *end)
{
	const uint8_t *stop = *at < end ? memchr(*at, 1, (size_t)(end - *at)) : NULL;
	size_t length = (size_t)((stop ? stop : end) - *at);
	char *text = malloc(length + 1);

	FUZZ_CHECK(text);
	memcpy(text, *at, length);
	text[length] = '\0';
	*at = stop ? stop + 1 : end;
	return text;
}

/* No control character, of seven bits or of eight, and no half of a character that would hide one. */
static void check_shown(const char *text)
{
	static const char lines[] = "\n\t";
	size_t length;

	for (const char *at = text; *at; at += length) {
		length = strchr(lines, *at) ? 1 : vb_utf8_length(at);
		FUZZ_CHECK(length > 0);
	}
}

static void check_reason(const struct vb_cli_lab_check *check)
{
	char shown[VB_CLI_SHOWN_ROOM(sizeof(check->why))], few[16];

	size_t length = 0;
	char *text = NULL;
	FILE *out = open_memstream(&text, &length);

	FUZZ_CHECK(out && memchr(check->why, '\0', sizeof(check->why)));
	vb_cli_json_string(out, check->why);
	FUZZ_CHECK(fclose(out) == 0);
	markup_check_characters(text, length);
	free(text);
	check_shown(vb_cli_shown(check->why, shown, sizeof(shown)));
	FUZZ_CHECK(!strchr(shown, '\n'));
	check_shown(vb_cli_shown(check->why, few, sizeof(few)));
	FUZZ_CHECK(strncmp(shown, few, strlen(few)) == 0);
	out = open_memstream(&text, &length);
	FUZZ_CHECK(out);
	vb_cli_show_lines(out, check->why);
	FUZZ_CHECK(fclose(out) == 0);
	check_shown(text);
	free(text);
}

/* A program that does nothing but fail: judged in a time that grows with the number of lines, and not with its square. */
static void check_many_lines(void)
{
	enum { LINES = 1 << 20 };
	struct vb_cli_lab_check check = {.exercise = &exercise, .passed = 1};
	struct vb_cli_lab_talk talk = {.explained = malloc(LINES + 1)};

	FUZZ_CHECK(talk.explained);
	memset(talk.explained, '\n', LINES);
	talk.explained[LINES] = '\0';
	FUZZ_CHECK(vb_cli_lab_examine(&check, &talk, 1));
	free(talk.explained);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length)
{
	struct vb_cli_lab_check check = {.exercise = &exercise};
	struct vb_cli_lab_talk talk = {0};
	const uint8_t *at = input + 1, *end = input + length;
	static bool is_begun;
	char *line;

	if (!is_begun)
		check_many_lines();
	is_begun = true;
	if (length < 1)
		return 0;
	talk.hung = input[0] & 1;
	talk.student.killed = input[0] & 2;
	talk.student.code = input[0] & 4 ? 128 + (input[0] >> 3) : input[0] >> 3;
	talk.student_said = next_text(&at, end);
	talk.partner_said = next_text(&at, end);
	talk.explained = next_text(&at, end);

	check.passed = 1 + input[0] % 2;
	line = vb_cli_lab_line(talk.student_said, "LAB = ");
	FUZZ_CHECK(!line == !vb_cli_lab_says(talk.student_said, "LAB = "));
	FUZZ_CHECK(!line || (!strchr(line, '\n') && strstr(talk.student_said, line)));
	free(line);
	FUZZ_CHECK(!vb_cli_lab_fails_by_end(&check, &talk, "The receiver waits."));
	FUZZ_CHECK(check.why[0]);
	check_reason(&check);
	FUZZ_CHECK(!vb_cli_lab_pass(&check, false));
	(void)vb_cli_lab_examine(&check, &talk, 1);
	FUZZ_CHECK(check.passed >= 1 && check.passed <= STEPS);
	check_reason(&check);

	free(talk.student_said);
	free(talk.partner_said);
	free(talk.explained);
	return 0;
}
