/* SPDX-License-Identifier: MIT
 *
 * `verbena lab`: exercises in RDMA programming. lab.c hands them out, lab_check.c grades them, lab_process.c runs the
 * programs that takes; lab_file.c, lab_echo.c and lab_store.c are the exercises.
 */
#ifndef VB_CLI_LAB_H
#define VB_CLI_LAB_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "cli/library.h"

/* What `lab start` writes; generated from examples/. The last one has no name. */
struct vb_cli_lab_file {
	const char *name;
	const unsigned char *bytes;
	size_t length;
};
extern const struct vb_cli_lab_file vb_cli_lab_file_files[], vb_cli_lab_expert_files[], vb_cli_lab_echo_files[],
	vb_cli_lab_store_files[];

struct vb_cli_lab_check;
struct vb_cli_lab_blame;

struct vb_cli_lab_exercise {
	const char *name;                        /* as in `LAB = name` of its Makefile */
	const char *summary;
	const char *todo;                        /* what is the student's */
	const struct vb_cli_lab_file *files;
	const char *program;                     /* the student's; make builds it */
	const char *partner;                     /* the program it talks to: ours, from these files */
	const struct vb_cli_lab_file *partner_files;
	const char *const *steps;                /* in the order in which they are judged; the first is that it compiles */
	int step_count;
	const struct vb_cli_lab_blame *blames;
	/* All steps but the first. 0, also when one fails; -errno when grading is not possible. */
	int (*grade)(struct vb_cli_lab_check *check);
};
extern const struct vb_cli_lab_exercise vb_cli_lab_file, vb_cli_lab_expert, vb_cli_lab_echo, vb_cli_lab_store;

/* NULL past the end; NULL for an unknown name. */
const struct vb_cli_lab_exercise *vb_cli_lab_at(size_t index);
const struct vb_cli_lab_exercise *vb_cli_lab_find(const char *name);

/* Writes one of its files into a folder. 0 or -errno. */
int vb_cli_lab_write(const char *folder, const struct vb_cli_lab_file *file);

/* Grades the exercise in a folder. Returns an exit code of command.h. */
int vb_cli_lab_grade(const char *folder, bool json);

/* A program under way. Its output, stdout and stderr together, goes into a file. */
struct vb_cli_lab_process {
	pid_t pid;
	bool ended, killed;              /* killed: by us, who had waited long enough */
	int code;                        /* exit code, 128 + signal */
	char output[VB_CLI_PATH_MAX];
};

/* The signal by which we were asked to stop, or 0: every wait ends at once then. */
extern volatile sig_atomic_t vb_cli_lab_interrupted;

/* Starts argv in a folder (NULL: this one), against our libraries. Its explanations go to that file, as JSON (NULL:
 * nowhere). 0 or -errno. */
int vb_cli_lab_start(struct vb_cli_lab_process *process, const char *folder, const char *output, const char *explanations,
		     char *const argv[]);
/* Waits until it ends, or has printed this text (NULL: until it ends), for so many seconds at most. Did it? */
bool vb_cli_lab_wait(struct vb_cli_lab_process *process, const char *text, double seconds);
/* Ends it if it still runs. */
void vb_cli_lab_kill(struct vb_cli_lab_process *process);
/* All it has printed so far; never NULL. Caller frees. */
char *vb_cli_lab_output(const struct vb_cli_lab_process *process);
/* A whole file as text; never NULL. Caller frees. */
char *vb_cli_lab_text(const char *path);

#endif
