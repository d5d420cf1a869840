/* SPDX-License-Identifier: MIT
 *
 * Grading an exercise: what the programs said, what Verbena said of the student's, and the judgement on a step.
 */
#ifndef VB_CLI_LAB_CHECK_H
#define VB_CLI_LAB_CHECK_H

#include "cli/lab.h"

enum { VB_CLI_LAB_STARTING = 15, VB_CLI_LAB_TALKING = 20, VB_CLI_LAB_LEAVING = 10 };     /* seconds */
enum { VB_CLI_LAB_WHY = 1000 };

struct vb_cli_lab_check {
	const struct vb_cli_lab_exercise *exercise;
	char folder[VB_CLI_PATH_MAX];        /* the student's, as an absolute path */
	char own[64];                        /* ours, removed afterwards */
	char identity[32], port[8];          /* not to be known beforehand */
	int passed;
	char why[VB_CLI_LAB_WHY];            /* of the step after those */
};

/* How a conversation between the student's program and ours went. */
struct vb_cli_lab_talk {
	struct vb_cli_lab_process student, partner;
	char *student_said, *partner_said;
	char *explained;                     /* what Verbena said of the student's program: JSON, line by line */
	bool hung;
};

/* An explanation that has this evidence (name and value twice; NULL: whatever) speaks of that step. */
struct vb_cli_lab_blame {
	const char *name, *value, *second_name, *second_value;
	int step;
	const char *words;                   /* before Verbena's own */
};

/* ---- lab_evidence.c ---- */

/* False, with the reason. */
__attribute__((format(printf, 2, 3))) bool vb_cli_lab_fails(struct vb_cli_lab_check *check, const char *format, ...);
/* The rest of the last line that begins so, or NULL. Caller frees. */
char *vb_cli_lab_line(const char *text, const char *beginning);
bool vb_cli_lab_says(const char *text, const char *beginning);
/* False: why the student's program ended early, in its own words if it has any. */
bool vb_cli_lab_fails_by_end(struct vb_cli_lab_check *check, const struct vb_cli_lab_talk *talk, const char *waiting);
/* A step is judged: is there a reason to go on with the next? */
bool vb_cli_lab_pass(struct vb_cli_lab_check *check, bool good);
/* The judgement so far in the light of what was explained: an earlier step may be the one to blame, also where all went well;
 * but none before `first`, the first that this conversation shows. Is none to blame? */
bool vb_cli_lab_examine(struct vb_cli_lab_check *check, const struct vb_cli_lab_talk *talk, int first);

/* ---- lab_check.c ---- */

/* Our program, with these arguments (the first is its name), and the student's. 0 or -errno. */
int vb_cli_lab_start_partner(const struct vb_cli_lab_check *check, struct vb_cli_lab_process *partner, const char *output,
			     char *const arguments[]);
int vb_cli_lab_start_student(const struct vb_cli_lab_check *check, struct vb_cli_lab_talk *talk, char *const arguments[]);
/* Waits until the student's program ends. One that Verbena knows to wait for ever is not waited for as long. */
void vb_cli_lab_wait_for_student(const struct vb_cli_lab_check *check, struct vb_cli_lab_talk *talk, int seconds);
/* All is over: keeps what was said. */
void vb_cli_lab_collect(const struct vb_cli_lab_check *check, struct vb_cli_lab_talk *talk);
void vb_cli_lab_forget(struct vb_cli_lab_talk *talk);
/* Not the student's fault: our program does not work here. Returns the error. */
int vb_cli_lab_cannot(const struct vb_cli_lab_check *check, struct vb_cli_lab_talk *talk, int error);

#endif
