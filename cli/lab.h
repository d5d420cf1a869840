/* SPDX-License-Identifier: MIT
 *
 * `verbena lab`: the file lab as an exercise. lab.c hands it out, lab_check.c grades it, lab_process.c runs the
 * programs that takes.
 */
#ifndef VB_CLI_LAB_H
#define VB_CLI_LAB_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "cli/library.h"

/* What `lab start` writes; generated from examples/lab. The last one has no name. */
struct vb_cli_lab_file {
	const char *name;
	const unsigned char *bytes;
	size_t length;
};
extern const struct vb_cli_lab_file vb_cli_lab_files[];

/* Writes one of them into a folder. 0 or -errno. */
int vb_cli_lab_write(const char *folder, const struct vb_cli_lab_file *file);

/* Grades the exercise in a folder. Returns an exit code of command.h. */
int vb_cli_lab_check(const char *folder, bool json);

/* A program under way. Its output, stdout and stderr together, goes into a file. */
struct vb_cli_lab_process {
	pid_t pid;
	bool ended;
	int code;                        /* exit code, 128 + signal */
	char output[VB_CLI_PATH_MAX];
};

/* The signal by which somebody asked us to stop, or 0: every wait ends at once then. */
extern volatile sig_atomic_t vb_cli_lab_interrupted;

/* Starts argv in a folder (NULL: this one), against our libraries. 0 or -errno. */
int vb_cli_lab_start(struct vb_cli_lab_process *process, const char *folder, const char *output, char *const argv[]);
/* Waits until it ends, or has printed this text (NULL: until it ends), for so many seconds at most. Did it? */
bool vb_cli_lab_wait(struct vb_cli_lab_process *process, const char *text, double seconds);
/* Ends it if it still runs. */
void vb_cli_lab_kill(struct vb_cli_lab_process *process);
/* All it has printed so far; never NULL. Caller frees. */
char *vb_cli_lab_output(const struct vb_cli_lab_process *process);

#endif
