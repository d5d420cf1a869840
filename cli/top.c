/* SPDX-License-Identifier: MIT
 *
 * `verbena top`: what moves. On a terminal a live view (top_screen.c); in a pipe, or where the terminal is not up to it,
 * one look as text.
 */
#include "cli/top.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/terminal.h"
#include "io/clock.h"
#include "io/event.h"

static void print_lines(const struct vb_cli_lines *lines)
{
	struct vb_cli_colours colour = vb_cli_colours_get();
	const char *const styles[] = {
		[VB_CLI_LINE_PLAIN] = "", [VB_CLI_LINE_TITLE] = colour.strong, [VB_CLI_LINE_HEADING] = colour.faint,
		[VB_CLI_LINE_BAD] = colour.bad,
	};

	for (unsigned i = 0; i < lines->count; i++) {
		const char *style = styles[lines->line[i].style];

		printf("%s%s%s\n", style, lines->line[i].text, *style ? colour.plain : "");
	}
	fflush(stdout);
}

const char *const vb_cli_sort_names[VB_CLI_SORTS] = {
	[VB_CLI_SORT_RATE] = "rate", [VB_CLI_SORT_RETRIES] = "retries", [VB_CLI_SORT_PID] = "pid",
	[VB_CLI_SORT_PROGRAM] = "program", [VB_CLI_SORT_PEER] = "peer",
};

/* Two samples, an interval apart. */
static int print_once(vb_time interval, enum vb_cli_sort sort, bool json)
{
	struct vb_daemon_client daemon = { .fd = -1 };
	struct vb_cli_sample older = { 0 }, newer = { 0 };
	struct vb_cli_lines lines = { 0 };
	int error = vb_cli_sample_take(&daemon, &older);

	if (error == 0 && older.has_daemon) {
		vb_wait(NULL, 0, vb_clock_now() + interval);
		error = vb_cli_sample_take(&daemon, &newer);
	}
	if (error == 0 && json)
		error = vb_cli_top_print_json(stdout, &older, older.has_daemon ? &newer : &older, sort);
	else if (error == 0)
		error = vb_cli_top_describe(&older, older.has_daemon ? &newer : &older, sort, &lines);
	if (error == 0)
		print_lines(&lines);
	else
		fprintf(stderr, "verbena top: %s\n", strerror(-error));
	vb_cli_lines_free(&lines);
	vb_cli_sample_free(&older);
	vb_cli_sample_free(&newer);
	if (daemon.fd >= 0)
		vb_daemon_client_close(&daemon);
	return error ? VB_CLI_FAILED : VB_CLI_DONE;
}

static bool parse_seconds(const char *text, vb_time *interval)
{
	char *end;
	double seconds = strtod(text, &end);

	if (end == text || *end || !(seconds >= 0.1 && seconds <= 3600))
		return false;
	*interval = (vb_time)(seconds * 1e9);
	return true;
}

static bool parse_sort(const char *text, enum vb_cli_sort *sort)
{
	for (unsigned i = 0; i < VB_CLI_SORTS; i++)
		if (!strcmp(text, vb_cli_sort_names[i])) {
			*sort = (enum vb_cli_sort)i;
			return true;
		}
	return false;
}

static int top(int argc, char **argv)
{
	vb_time interval = VB_SECONDS(1);
	enum vb_cli_sort sort = VB_CLI_SORT_RATE;
	bool once = false, json = false;
	int code;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--once"))
			once = true;
		else if (!strcmp(argv[i], "--json"))
			json = true;
		else if (!strcmp(argv[i], "--sort") && i + 1 < argc) {
			if (!parse_sort(argv[++i], &sort))
				return vb_cli_usage_error(&vb_cli_top, "there is rate, retries, pid, program and peer; not", argv[i]);
		} else if (!strcmp(argv[i], "--interval") && i + 1 < argc) {
			if (!parse_seconds(argv[++i], &interval))
				return vb_cli_usage_error(&vb_cli_top, "an interval is 0.1 to 3600 seconds", argv[i]);
		} else
			return vb_cli_usage_error(&vb_cli_top, "unknown argument, or its value is missing", argv[i]);
	}
	if (!once && !json && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)) {
		code = vb_cli_top_screen(interval, sort);
		if (code >= 0)
			return code;
	}
	return print_once(interval, sort, json);
}

const struct vb_cli_command vb_cli_top = {
	.name = "top",
	.summary = "a live view of processes, queue pairs and their rates",
	.usage = "Usage: verbena top [--interval SECONDS] [--sort KEY] [--once] [--json]\n\n"
		 "Shows the processes that use Verbena here and their queue pairs, the busiest first, with packets\n"
		 "out and in per second, retransmissions, and packets dropped, out of order or repeated. You are\n"
		 "shown your own processes, root all. A queue pair's rates are requests and answers to reads;\n"
		 "acknowledgements are not in them. WORK B/s are bytes of its own work requests (SEND, WRITE, READ) that\n"
		 "are done, RECV B/s those that came into its receives.\n\n"
		 "  --interval S   look every S seconds (0.1 to 3600; 1)\n"
		 "  --sort KEY     rate (the busiest first), retries, pid, program or peer\n"
		 "  --once         one look, as text; the same as when the output is not a terminal\n"
		 "  --json         one look, as JSON\n\n"
		 "Keys: q quits, arrows and page keys scroll, also to the right, s sorts by the next key, space\n"
		 "pauses, ? explains the columns.\n\n"
		 "Examples:\n"
		 "  verbena top\n"
		 "  verbena top --interval 0.5\n"
		 "  verbena top --once | head\n"
		 "  verbena top --sort retries\n"
		 "  verbena top --json | jq '.qps[0]'\n",
	.main = top,
};
