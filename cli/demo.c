/* SPDX-License-Identifier: MIT
 *
 * `verbena demo`: the demo that `make demo` runs, in a build tree and in an installation alike.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/library.h"

/* Where the demo is, seen from the directory that holds bin/. */
static const char *const places[] = { "share/verbena/demo", "../scripts/demo" };

static int demo(int argc, char **argv)
{
	char root[VB_CLI_PATH_MAX], script[VB_CLI_PATH_MAX + 32];
	int error;

	if (argc > 1)
		return vb_cli_usage_error(&vb_cli_demo, "takes no arguments", argv[1]);
	error = vb_cli_root_directory(root);
	if (error) {
		fprintf(stderr, "verbena demo: where am I? %s\n", strerror(-error));
		return VB_CLI_FAILED;
	}
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(script, sizeof(script), "%s/%s", root, places[i]);
		if (access(script, R_OK) != 0)
			continue;
		execlp("python3", "python3", script, root, (char *)NULL);
		fprintf(stderr,
			"verbena demo: python3: %s\n"
			"The demo is written in Python; on Debian and Ubuntu: apt-get install python3\n",
			strerror(errno));
		return errno == ENOENT ? VB_CLI_NOT_FOUND : VB_CLI_CANNOT_START;
	}
	fprintf(stderr, "verbena demo: the demo is in neither %s/%s nor %s/%s\n", root, places[0], root, places[1]);
	return VB_CLI_FAILED;
}

const struct vb_cli_command vb_cli_demo = {
	.name = "demo",
	.summary = "see RDMA between two processes of this machine, in a few seconds",
	.usage = "Usage: verbena demo\n\n"
		 "Runs ibv_rc_pingpong and ib_write_bw, as the distribution built them, between two processes of\n"
		 "this machine, and shows what they did and with which library. Needs the packages ibverbs-utils,\n"
		 "perftest and python3.\n\n"
		 "Example:\n"
		 "  verbena demo\n",
	.main = demo,
};
