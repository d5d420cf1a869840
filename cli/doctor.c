/* SPDX-License-Identifier: MIT
 *
 * `verbena doctor`: checks this machine, and for what is not well says what to do. Looks only: starts no daemon, opens
 * nothing that others use, changes nothing.
 */
#include "cli/doctor.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/json.h"
#include "cli/shown.h"
#include "cli/terminal.h"

enum { FINDING = 1024 };                   /* the most that a finding, or a line of advice, may have */

struct vb_cli_report {
	bool json;
	unsigned rows, warnings, failures;
	struct vb_cli_colours colour;
};

static const char *const words[] = { [VB_CLI_OK] = "ok", [VB_CLI_WARN] = "warn", [VB_CLI_FAIL] = "fail" };

static void print_row(const struct vb_cli_report *report, const char *check, enum vb_cli_verdict verdict,
		      const char *found, const char *advice)
{
	const struct vb_cli_colours *colour = &report->colour;
	const char *paint = verdict == VB_CLI_OK ? colour->good : verdict == VB_CLI_WARN ? colour->strong : colour->bad;
	char shown[2][VB_CLI_SHOWN_ROOM(FINDING)], part[FINDING];

	/* Names of interfaces, and paths. */
	printf("%s%-4s%s  %-16s  %s\n", paint, words[verdict], colour->plain, vb_cli_shown(check, shown[0], sizeof(shown[0])),
	       vb_cli_shown(found, shown[1], sizeof(shown[1])));
	/* Advice may have several lines: all of them stand under the finding. */
	for (const char *line = advice; line && *line; line += strcspn(line, "\n"), line += *line == '\n') {
		snprintf(part, sizeof(part), "%.*s", (int)strcspn(line, "\n"), line);
		printf("%24s%s%s%s\n", "", colour->faint, vb_cli_shown(part, shown[0], sizeof(shown[0])), colour->plain);
	}
}

static void print_json_row(const struct vb_cli_report *report, const char *check, enum vb_cli_verdict verdict,
			   const char *found, const char *advice)
{
	printf("%s\n  {\"check\": ", report->rows ? "," : "");
	vb_cli_json_string(stdout, check);
	printf(", \"verdict\": \"%s\", \"found\": ", words[verdict]);
	vb_cli_json_string(stdout, found);
	printf(", \"advice\": ");
	if (advice)
		vb_cli_json_string(stdout, advice);
	else
		printf("null");
	printf("}");
}

void vb_cli_report_add(struct vb_cli_report *report, const char *check, enum vb_cli_verdict verdict, const char *advice,
		       const char *found, ...)
{
	char text[FINDING];
	va_list arguments;

	va_start(arguments, found);
	vsnprintf(text, sizeof(text), found, arguments);
	va_end(arguments);
	if (report->json)
		print_json_row(report, check, verdict, text, advice);
	else
		print_row(report, check, verdict, text, advice);
	report->rows++;
	report->warnings += verdict == VB_CLI_WARN;
	report->failures += verdict == VB_CLI_FAIL;
}

static void print_summary(const struct vb_cli_report *report)
{
	if (report->failures)
		printf("\n%u of %u checks failed: programs will not run as they should until that is mended.\n",
		       report->failures, report->rows);
	else if (report->warnings)
		printf("\nVerbena works here; %u thing%s could be better.\n", report->warnings,
		       report->warnings == 1 ? "" : "s");
	else
		printf("\nAll is well.\n");
}

static int doctor(int argc, char **argv)
{
	struct vb_cli_report report = { .colour = vb_cli_colours_get() };
	const char *peer = NULL;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--json"))
			report.json = true;
		else if (!strcmp(argv[i], "--peer") && i + 1 < argc)
			peer = argv[++i];
		else
			return vb_cli_usage_error(&vb_cli_doctor, "unknown argument, or its value is missing", argv[i]);
	}
	if (peer && !vb_cli_doctor_peer_parse(peer))
		return vb_cli_usage_error(&vb_cli_doctor, "a peer is an IPv4 or IPv6 address, not", peer);
	if (report.json)
		printf("[");
	if (peer) {
		vb_cli_doctor_peer(&report, peer);
	} else {
		vb_cli_doctor_setup(&report);
		vb_cli_doctor_machine(&report);
	}
	if (report.json)
		printf("\n]\n");
	else
		print_summary(&report);
	return report.failures ? VB_CLI_FAILED : VB_CLI_DONE;
}

const struct vb_cli_command vb_cli_doctor = {
	.name = "doctor",
	.summary = "check this machine, and say what to do about what is not well",
	.usage = "Usage: verbena doctor [--peer ADDRESS] [--json]\n\n"
		 "Checks Verbena's own files, the daemon and UDP port 4791, other RDMA stacks, the network\n"
		 "interfaces and their MTUs, socket buffers, what the kernel offers, and which RDMA programs of\n"
		 "the distribution are installed. Each check is ok, warn (works, but slower or less) or fail, with\n"
		 "what to do about it. Changes nothing.\n\n"
		 "  --peer ADDRESS  look at the way to another host instead: route, MTU, UDP port 4791 there and back,\n"
		 "                  and the version there. Sends pings, a question and a connection request that is refused.\n\n"
		 "Exit codes: 0 nothing failed (there may be warnings), 1 a check failed.\n\n"
		 "Examples:\n"
		 "  verbena doctor\n"
		 "  verbena doctor --peer 192.0.2.1\n"
		 "  verbena doctor --json | jq '.[] | select(.verdict != \"ok\")'\n",
	.main = doctor,
};
