/* SPDX-License-Identifier: MIT
 *
 * `verbena version`.
 */
#include <stdio.h>

#include "cli/command.h"
#include "cli/library.h"

static int version(int argc, char **argv)
{
	char directory[VB_CLI_PATH_MAX];

	if (argc > 1)
		return vb_cli_usage_error(&vb_cli_version, "takes no arguments", argv[1]);
	printf("verbena %s\n", VERBENA_VERSION);
	if (vb_cli_library_directory(directory) == 0)
		printf("libraries in %s\n", directory);
	return VB_CLI_DONE;
}

const struct vb_cli_command vb_cli_version = {
	.name = "version",
	.summary = "which Verbena this is, and where its libraries are",
	.usage = "Usage: verbena version\n\n"
		 "Example:\n"
		 "  verbena version\n",
	.main = version,
};
