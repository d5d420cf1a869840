/* SPDX-License-Identifier: MIT
 *
 * `verbena version`.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/json.h"
#include "cli/library.h"

static int version(int argc, char **argv)
{
	char directory[VB_CLI_PATH_MAX];

	bool json = argc == 2 && !strcmp(argv[1], "--json"), found = vb_cli_library_directory(directory) == 0;

	if (argc > 1 && !json)
		return vb_cli_usage_error(&vb_cli_version, "unknown argument", argv[argc > 2 && !strcmp(argv[1], "--json") ? 2 : 1]);
	if (json) {
		printf("{\"version\": \"%s\", \"libraries\": ", VERBENA_VERSION);
		if (found)
			vb_cli_json_string(stdout, directory);
		else
			printf("null");
		printf("}\n");
		return VB_CLI_DONE;
	}
	printf("verbena %s\n", VERBENA_VERSION);
	if (found)
		printf("libraries in %s\n", directory);
	return VB_CLI_DONE;
}

const struct vb_cli_command vb_cli_version = {
	.name = "version",
	.summary = "which Verbena this is, and where its libraries are",
	.usage = "Usage: verbena version [--json]\n\n"
		 "Examples:\n"
		 "  verbena version\n"
		 "  verbena version --json\n",
	.main = version,
};
