/* SPDX-License-Identifier: MIT
 *
 * `verbena lab check`: which step of the exercise works, and why the next does not.
 *
 * The student's program is built as his Makefile says, and talks to a partner we build ourselves from the files we handed
 * out, in a folder that is removed afterwards. What the two programs print, and what the library explains of the
 * student's, is the evidence; steps are judged in order, and the first that fails ends the grading.
 */
#include "cli/lab_check.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/json.h"
#include "cli/shown.h"
#include "cli/terminal.h"

enum { BUILDING = 120 };                                                    /* seconds */

static void remember_interrupt(int number)
{
	vb_cli_lab_interrupted = number;
}

/* ---- Conversations ---- */

int vb_cli_lab_start_partner(const struct vb_cli_lab_check *check, struct vb_cli_lab_process *partner, const char *output,
			     char *const arguments[])
{
	char path[128], program[128], *argv[16] = { program };

	snprintf(program, sizeof(program), "%s/%s", check->own, arguments[0]);
	snprintf(path, sizeof(path), "%s/%s", check->own, output);
	for (size_t i = 1; i < sizeof(argv) / sizeof(argv[0]) - 1 && arguments[i]; i++)
		argv[i] = arguments[i];
	return vb_cli_lab_start(partner, NULL, path, NULL, argv);
}

static const char *explanations(const struct vb_cli_lab_check *check, char path[128])
{
	snprintf(path, 128, "%s/explained", check->own);
	return path;
}

int vb_cli_lab_start_student(const struct vb_cli_lab_check *check, struct vb_cli_lab_talk *talk, char *const arguments[])
{
	char output[128], explained[128], program[VB_CLI_PATH_MAX + 16], *argv[32] = { program };

	snprintf(program, sizeof(program), "%s/%s", check->folder, arguments[0]);
	snprintf(output, sizeof(output), "%s/student.out", check->own);
	for (size_t i = 1; i < sizeof(argv) / sizeof(argv[0]) - 1 && arguments[i]; i++)
		argv[i] = arguments[i];
	unlink(explanations(check, explained));
	return vb_cli_lab_start(&talk->student, NULL, output, explained, argv);
}

void vb_cli_lab_wait_for_student(const struct vb_cli_lab_check *check, struct vb_cli_lab_talk *talk, int seconds)
{
	char path[128], *explained;
	bool hopeless = false;

	talk->hung = true;
	for (int half_seconds = 0; talk->hung && half_seconds < 2 * seconds && !vb_cli_lab_interrupted; half_seconds++) {
		talk->hung = !vb_cli_lab_wait(&talk->student, NULL, 0.5);
		if (hopeless)
			break;
		explained = vb_cli_lab_text(explanations(check, path));
		hopeless = strstr(explained, "unacknowledged_events") != NULL;
		free(explained);
	}
	vb_cli_lab_kill(&talk->student);
}

void vb_cli_lab_collect(const struct vb_cli_lab_check *check, struct vb_cli_lab_talk *talk)
{
	char path[128];

	vb_cli_lab_kill(&talk->student);
	vb_cli_lab_kill(&talk->partner);
	talk->student_said = vb_cli_lab_output(&talk->student);
	talk->partner_said = vb_cli_lab_output(&talk->partner);
	talk->explained = vb_cli_lab_text(explanations(check, path));
}

void vb_cli_lab_forget(struct vb_cli_lab_talk *talk)
{
	free(talk->student_said);
	free(talk->partner_said);
	free(talk->explained);
	*talk = (struct vb_cli_lab_talk){ 0 };
}

int vb_cli_lab_cannot(const struct vb_cli_lab_check *check, struct vb_cli_lab_talk *talk, int error)
{
	vb_cli_lab_collect(check, talk);
	if (!vb_cli_lab_interrupted) {
		fprintf(stderr, "verbena lab: the %s does not work here: %s\n", check->exercise->partner, strerror(-error));
		vb_cli_show_lines(stderr, talk->partner_said);
	}
	return error;
}

/* ---- Building ---- */

static int build_partner(const struct vb_cli_lab_check *check)
{
	struct vb_cli_lab_process compiler;
	char output[128], *said;
	int error = 0;

	for (const struct vb_cli_lab_file *file = check->exercise->partner_files; !error && file->name; file++)
		error = vb_cli_lab_write(check->own, file);
	snprintf(output, sizeof(output), "%s/cc.out", check->own);
	if (!error)
		error = vb_cli_lab_start(&compiler, check->own, output, NULL,
					 (char *[]){ "make", "-s", (char *)check->exercise->partner, NULL });
	if (error) {
		fprintf(stderr, "verbena lab: %s: %s\n", check->own, strerror(-error));
		return error;
	}
	vb_cli_lab_wait(&compiler, NULL, BUILDING);
	vb_cli_lab_kill(&compiler);
	if (compiler.code == 0)
		return 0;
	said = vb_cli_lab_output(&compiler);
	vb_cli_show_lines(stderr, said);
	fprintf(stderr, "verbena lab: the %s cannot be built here. Debian has what it needs in make, gcc, "
			"libibverbs-dev, librdmacm-dev and libssl-dev.\n", check->exercise->partner);
	free(said);
	return -ENOEXEC;
}

static bool compiles(struct vb_cli_lab_check *check)
{
	struct vb_cli_lab_process make;
	char output[128], *said, *problem;

	snprintf(output, sizeof(output), "%s/make.out", check->own);
	if (vb_cli_lab_start(&make, check->folder, output, NULL, (char *[]){ "make", "-s", (char *)check->exercise->program, NULL }))
		return vb_cli_lab_fails(check, "make could not be started.");
	vb_cli_lab_wait(&make, NULL, BUILDING);
	vb_cli_lab_kill(&make);
	if (make.code == 0)
		return true;
	said = vb_cli_lab_output(&make);
	problem = strstr(said, "error");
	/* The whole line: file and line number are before the word. */
	while (problem && problem > said && problem[-1] != '\n')
		problem--;
	vb_cli_lab_fails(check, "make %s fails: %.*s", check->exercise->program, problem ? (int)strcspn(problem, "\n") : (int)strlen(said),
	      problem ? problem : said);
	free(said);
	return false;
}

/* ---- The grading ---- */

/* 0, also when a step fails; -errno when grading is not possible. */
static int grade(struct vb_cli_lab_check *check)
{
	int error = build_partner(check);

	if (error || !vb_cli_lab_pass(check, compiles(check)))
		return error;
	return check->exercise->grade(check);
}

/* The exercise in a folder: its Makefile says `LAB = name`. One without is as old as the file lab. */
static const struct vb_cli_lab_exercise *recognise(const char *folder)
{
	char path[VB_CLI_PATH_MAX + 16], shown[2][VB_CLI_SHOWN_ROOM(256)], *text, *name;
	const struct vb_cli_lab_exercise *exercise = &vb_cli_lab_file;

	snprintf(path, sizeof(path), "%s/Makefile", folder);
	text = vb_cli_lab_text(path);
	name = vb_cli_lab_line(text, "LAB = ");
	if (name && !(exercise = vb_cli_lab_find(name)))
		fprintf(stderr, "verbena lab: %s says LAB = %s, and there is no such exercise\n",
			vb_cli_shown(path, shown[0], sizeof(shown[0])), vb_cli_shown(name, shown[1], sizeof(shown[1])));
	free(name);
	free(text);
	return exercise;
}

static void print_report(const struct vb_cli_lab_check *check)
{
	struct vb_cli_colours colour = vb_cli_colours_get();
	char why[VB_CLI_SHOWN_ROOM(sizeof(check->why))];

	for (int step = 0; step < check->exercise->step_count; step++) {
		if (step < check->passed)
			printf("%s ok %s  %s\n", colour.good, colour.plain, check->exercise->steps[step]);
		else if (step == check->passed)
			printf("%sFAIL%s  %s\n      %s\n", colour.bad, colour.plain, check->exercise->steps[step],
			       vb_cli_shown(check->why, why, sizeof(why)));
		else
			printf("%s  -   %s%s\n", colour.faint, check->exercise->steps[step], colour.plain);
	}
	if (check->passed == check->exercise->step_count)
		printf("\n%sAll %d steps work.%s\n", colour.strong, check->exercise->step_count, colour.plain);
	else
		printf("\n%d of %d steps work. Next: %s.\n", check->passed, check->exercise->step_count,
		       check->exercise->steps[check->passed]);
}

static void print_json(const struct vb_cli_lab_check *check)
{
	printf("{\"passed\": %d, \"steps\": [", check->passed);
	for (int step = 0; step < check->exercise->step_count; step++) {
		printf("%s\n  {\"step\": ", step ? "," : "");
		vb_cli_json_string(stdout, check->exercise->steps[step]);
		printf(", \"result\": \"%s\"",
		       step < check->passed ? "ok" : step == check->passed ? "failed" : "untried");
		if (step == check->passed) {
			printf(", \"why\": ");
			vb_cli_json_string(stdout, check->why);
		}
		printf("}");
	}
	puts("]}");
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *where)
{
	(void)status;
	(void)kind;
	(void)where;
	return remove(path);
}

int vb_cli_lab_grade(const char *folder, bool json)
{
	struct vb_cli_lab_check check = { .own = "/tmp/verbena-lab-XXXXXX" };
	unsigned chance[2];
	char secret[16];
	int error;

	if (!realpath(folder, check.folder)) {
		fprintf(stderr, "verbena lab: %s: %s\n", folder, strerror(errno));
		return VB_CLI_FAILED;
	}
	if (!(check.exercise = recognise(check.folder)))
		return VB_CLI_FAILED;
	if (!mkdtemp(check.own)) {
		fprintf(stderr, "verbena lab: %s: %s\n", check.own, strerror(errno));
		return VB_CLI_FAILED;
	}
	/* An ID and a secret that no program could have known, so that a key cannot be had without asking. */
	while (getrandom(&chance, sizeof(chance), 0) != sizeof(chance))
		continue;
	snprintf(check.identity, sizeof(check.identity), "student-%u", chance[0]);
	snprintf(secret, sizeof(secret), "%u", chance[1]);
	setenv("LAB_SECRET", secret, 1);
	snprintf(check.port, sizeof(check.port), "%d", 20000 + (int)getpid() % 20000);
	signal(SIGINT, remember_interrupt);
	signal(SIGTERM, remember_interrupt);
	error = grade(&check);
	nftw(check.own, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	if (vb_cli_lab_interrupted)
		return 128 + vb_cli_lab_interrupted;
	if (error)
		return VB_CLI_FAILED;
	if (json)
		print_json(&check);
	else
		print_report(&check);
	return check.passed == check.exercise->step_count ? VB_CLI_DONE : VB_CLI_FAILED;
}
