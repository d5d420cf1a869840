/* SPDX-License-Identifier: MIT
 *
 * `verbena web`: a program of its own beside this one serves the page, so that no other command loads an HTTP library.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"

static int web(int argc, char **argv)
{
	static const char program[] = "verbena-web";
	char path[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - sizeof(program));
	char *slash;

	/* verbena-web looks at values. */
	for (int i = 1; i < argc && argv[i][0] == '-' && strcmp(argv[i], "--") != 0; i += 2)
		if (strcmp(argv[i], "--port") != 0)
			return vb_cli_usage_error(&vb_cli_web, "unknown option", argv[i]);
	if (length < 0) {
		fprintf(stderr, "verbena web: /proc/self/exe: %s\n", strerror(errno));
		return VB_CLI_FAILED;
	}
	path[length] = '\0';
	slash = strrchr(path, '/');
	memcpy(slash ? slash + 1 : path, program, sizeof(program));
	execv(path, argv);
	if (errno == ENOENT)
		fprintf(stderr, "verbena web: %s is not there: Verbena was built without libmicrohttpd\n", path);
	else
		fprintf(stderr, "verbena web: %s: %s\n", path, strerror(errno));
	return VB_CLI_FAILED;
}

const struct vb_cli_command vb_cli_web = {
	.name = "web",
	.summary = "a live page of this host in your browser",
	.usage = "Usage: verbena web [--port PORT] [-- COMMAND [ARGUMENTS]]\n\n"
		 "Serves a page on the loopback address and prints where: devices, queue pairs and whom they talk to as a\n"
		 "graph, rates and round trips as plots that move, failures and explanations as they come. A click on a\n"
		 "queue pair draws its ladder, if its packets are captured: those of the COMMAND are (the first 64 MiB),\n"
		 "and those of programs that were started with `verbena capture`. You are shown your own processes, root\n"
		 "all. Only who has the address with its token can look, and nothing can be changed there.\n\n"
		 "  --port PORT    this port; without it a free one\n\n"
		 "Examples:\n"
		 "  verbena web\n"
		 "  verbena web -- sh -c 'ib_write_bw -D 30 & sleep 1; ib_write_bw -D 30 localhost'\n",
	.main = web,
};
