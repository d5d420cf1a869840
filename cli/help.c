/* SPDX-License-Identifier: MIT
 *
 * `verbena help [COMMAND]`.
 */
#include <stdio.h>

#include "cli/command.h"
#include "cli/suggest.h"

static void print_overview(void)
{
	const struct vb_cli_command *command;

	puts("verbena: RDMA for any Linux machine, without RDMA hardware, kernel module or root\n\n"
	     "Usage: verbena COMMAND [ARGUMENTS]\n");
	for (size_t i = 0; (command = vb_cli_command_at(i)); i++)
		printf("  %-10s %s\n", command->name, command->summary);
	puts("\n`verbena COMMAND --help` explains one of them, with examples.\n\n"
	     "Exit codes: 0 done, 1 failed, 2 wrong usage; `run` adds 126 (cannot start) and 127 (no such command).");
}

static int help(int argc, char **argv)
{
	const struct vb_cli_command *command;
	char near[VB_CLI_WORD_ROOM];

	if (argc > 2)
		return vb_cli_usage_error(&vb_cli_help, "one command at most", NULL);
	if (argc == 1) {
		print_overview();
		return VB_CLI_DONE;
	}
	command = vb_cli_command_find(argv[1]);
	if (!command) {
		bool is_near = vb_cli_suggest_command(argv[1], near);

		fprintf(stderr, "verbena help: there is no command `%s`.%s%s%s `verbena help` lists them.\n", argv[1],
			is_near ? " Did you mean `" : "", is_near ? near : "", is_near ? "`?" : "");
		return VB_CLI_USAGE;
	}
	vb_cli_usage_print(command);
	return VB_CLI_DONE;
}

const struct vb_cli_command vb_cli_help = {
	.name = "help",
	.summary = "this overview, or the explanation of one command",
	.usage = "Usage: verbena help [COMMAND]\n\n"
		 "Examples:\n"
		 "  verbena help\n"
		 "  verbena help run\n",
	.main = help,
};
