/* SPDX-License-Identifier: MIT
 *
 * A subcommand of `verbena`: one row of the table in main.c, one file each.
 *
 * Exit codes, the same for all of them:
 *   0    done
 *   1    failed; the reason is on stderr
 *   2    wrong usage
 *   126  `run` found the command but could not start it
 *   127  `run` did not find the command
 */
#ifndef VB_CLI_COMMAND_H
#define VB_CLI_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	VB_CLI_DONE = 0,
	VB_CLI_FAILED = 1,
	VB_CLI_USAGE = 2,
	VB_CLI_CANNOT_START = 126,
	VB_CLI_NOT_FOUND = 127,
};

struct vb_cli_command {
	const char *name;
	const char *summary;             /* one line, for the overview */
	const char *usage;               /* the whole text of --help */
	int (*main)(int argc, char **argv); /* argv[0] is the subcommand's name */
};

/* The table: NULL past its end, NULL for an unknown name. */
const struct vb_cli_command *vb_cli_command_at(size_t index);
const struct vb_cli_command *vb_cli_command_find(const char *name);

extern const struct vb_cli_command vb_cli_run, vb_cli_devices, vb_cli_status, vb_cli_lab, vb_cli_help, vb_cli_version;

extern const struct vb_cli_command vb_cli_capture, vb_cli_ladder;
extern const struct vb_cli_command vb_cli_fabric;

extern const struct vb_cli_command vb_cli_res, vb_cli_stat, vb_cli_top, vb_cli_doctor, vb_cli_demo, vb_cli_web, vb_cli_shape;

/* Replace this process by the command, with our libraries first on the loader's path; returns only when that fails. */
int vb_cli_run_command(char **command, int count);

/* Complains (argument may be NULL) and points to --help. Returns VB_CLI_USAGE. */
int vb_cli_usage_error(const struct vb_cli_command *command, const char *problem, const char *argument);

/* The text of --help, with the documents it names where they are. */
void vb_cli_usage_print(const struct vb_cli_command *command);

/* A process id as an argument. */
bool vb_cli_parse_pid(const char *text, uint32_t *pid);

#endif
