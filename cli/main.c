/* SPDX-License-Identifier: MIT
 *
 * `verbena`: the command line. This file only finds the subcommand; each lives in a file of its own name.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/suggest.h"

/* In the order of the overview: what is used first stands first. */
static const struct vb_cli_command *const table[] = {
	&vb_cli_run,
	&vb_cli_demo,
	&vb_cli_devices,
	&vb_cli_status,
	&vb_cli_res,
	&vb_cli_stat,
	&vb_cli_top,
	&vb_cli_web,
	&vb_cli_shape,
	&vb_cli_doctor,
	&vb_cli_capture,
	&vb_cli_ladder,
	&vb_cli_fabric,
	&vb_cli_lab,
	&vb_cli_help,
	&vb_cli_version,
};

const struct vb_cli_command *vb_cli_command_at(size_t index)
{
	return index < sizeof(table) / sizeof(table[0]) ? table[index] : NULL;
}

const struct vb_cli_command *vb_cli_command_find(const char *name)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (!strcmp(table[i]->name, name))
			return table[i];
	return NULL;
}

int vb_cli_usage_error(const struct vb_cli_command *command, const char *problem, const char *argument)
{
	char near[VB_CLI_WORD_ROOM];
	bool has_near = argument && (argument[0] == '-' ? vb_cli_suggest_option(command, argument, near) :
							  vb_cli_suggest_word(command, argument, near));

	fprintf(stderr, "verbena %s: %s%s%s\n", command->name, problem, argument ? ": " : "", argument ? argument : "");
	if (has_near && strcmp(near, argument) != 0)
		fprintf(stderr, "Did you mean %s? ", near);
	fprintf(stderr, "Try `verbena %s --help`.\n", command->name);
	return VB_CLI_USAGE;
}

bool vb_cli_parse_pid(const char *text, uint32_t *pid)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (*text < '1' || *text > '9' || *end || value > INT32_MAX)
		return false;
	*pid = (uint32_t)value;
	return true;
}

static bool is_help_flag(const char *argument)
{
	return !strcmp(argument, "--help") || !strcmp(argument, "-h");
}

static int complain_unknown(const char *name)
{
	char near[VB_CLI_WORD_ROOM];

	fprintf(stderr, "verbena: there is no command `%s`.", name);
	if (vb_cli_suggest_command(name, near))
		fprintf(stderr, " Did you mean `%s`?", near);
	fprintf(stderr, " `verbena help` lists them.\n");
	return VB_CLI_USAGE;
}

/* What was said must have arrived: a list that ends where the disk was full is worse than none. */
static int finish(const struct vb_cli_command *command, int code)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return code;
	fprintf(stderr, "verbena %s: standard output: %s\n", command->name, strerror(errno));
	return code != VB_CLI_DONE ? code : VB_CLI_FAILED;
}

int main(int argc, char **argv)
{
	const struct vb_cli_command *command;
	const char *name = argc > 1 ? argv[1] : "help";

	if (is_help_flag(name))
		name = "help";
	else if (!strcmp(name, "--version") || !strcmp(name, "-V"))
		name = "version";
	command = vb_cli_command_find(name);
	if (!command)
		return complain_unknown(name);
	if (argc > 2 && is_help_flag(argv[2])) {
		vb_cli_usage_print(command);
		return finish(command, VB_CLI_DONE);
	}
	if (argc < 2)
		return finish(command, command->main(1, (char *[]){ "help", NULL }));
	return finish(command, command->main(argc - 1, argv + 1));
}
