/* SPDX-License-Identifier: MIT
 *
 * `verbena stat`: counters, by process and device, under the names that rxe (and mlx5, where rxe has none) uses.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/counters.h"
#include "cli/json.h"
#include "cli/names.h"
#include "cli/processes.h"
#include "cli/shown.h"
#include "cli/terminal.h"

struct options {
	bool json, all;
	uint32_t pid;                    /* 0: every process */
	const char *device;              /* NULL: every device */
};

static bool wants_process(const struct options *options, const struct vb_cli_process *row)
{
	if (options->pid != 0 && options->pid != row->process.pid)
		return false;
	for (unsigned i = 0; options->device && i < row->devices; i++)
		if (!strcmp(row->device[i].device, options->device))
			return true;
	return !options->device;
}

static bool wants_device(const struct options *options, const struct vb_daemon_process_device *device)
{
	return !options->device || !strcmp(device->device, options->device);
}

static void print_counters(const struct options *options, const char *title, const struct vb_counters *counters,
			   const struct vb_cli_colours *colour)
{
	char shown[VB_CLI_SHOWN_ROOM(64)];
	bool any = false;

	printf("  %s%s%s\n", colour->strong, vb_cli_shown(title, shown, sizeof(shown)), colour->plain);
	for (unsigned i = 0; i < VB_CLI_COUNTERS; i++) {
		uint64_t value = vb_cli_counter_value(counters, i);

		if (value == 0 && !options->all)
			continue;
		printf("    %-28s %14llu\n", vb_cli_counter_name(i), (unsigned long long)value);
		any = true;
	}
	if (!any)
		printf("    %sall zero%s\n", colour->faint, colour->plain);
}

/* What the process counted that belongs to no device of its: packets it could make nothing of. */
static void subtract(struct vb_counters *rest, const struct vb_counters *part)
{
#define X(name) rest->name = rest->name > part->name ? rest->name - part->name : 0;
	VB_COUNTERS(X)
#undef X
}

static bool is_zero(const struct vb_counters *counters)
{
	static const struct vb_counters zero;

	return !memcmp(counters, &zero, sizeof(zero));
}

static void print_table(const struct options *options, const struct vb_cli_processes *processes)
{
	struct vb_cli_colours colour = vb_cli_colours_get();
	char user[VB_CLI_USER_ROOM], program[VB_CLI_SHOWN_ROOM(sizeof(processes->row[0].program))];
	unsigned shown = 0;

	for (unsigned i = 0; i < processes->count; i++) {
		const struct vb_cli_process *row = &processes->row[i];
		struct vb_counters rest = row->process.counters;

		if (!wants_process(options, row))
			continue;
		printf("%s%s%s%s  pid %u  of %s  %u queue pair%s\n", shown++ ? "\n" : "", colour.strong,
		       vb_cli_shown(row->program, program, sizeof(program)), colour.plain, row->process.pid,
		       vb_cli_user_name(row->process.uid, user), row->process.queue_pairs, row->process.queue_pairs == 1 ? "" : "s");
		for (unsigned j = 0; j < row->devices; j++) {
			subtract(&rest, &row->device[j].counters);
			if (wants_device(options, &row->device[j]))
				print_counters(options,
					       row->device[j].device[0] ? row->device[j].device : "(device gone)",
					       &row->device[j].counters, &colour);
		}
		if (!options->device && !is_zero(&rest))
			print_counters(options, "(no queue pair's)", &rest, &colour);
	}
	if (shown == 0)
		puts(options->pid || options->device ? "No process of yours is meant by that."
						     : "No process uses Verbena here.");
}

static void print_json(const struct options *options, const struct vb_cli_processes *processes)
{
	unsigned shown = 0;

	printf("[");
	for (unsigned i = 0; i < processes->count; i++) {
		const struct vb_cli_process *row = &processes->row[i];
		const char *separator = "";

		if (!wants_process(options, row))
			continue;
		printf("%s\n  {\"pid\": %u, \"uid\": %u, \"program\": ", shown++ ? "," : "", row->process.pid,
		       row->process.uid);
		vb_cli_json_string(stdout, row->program);
		printf(", \"queue_pairs\": %u,\n   \"counters\": {", row->process.queue_pairs);
		vb_cli_json_counters(stdout, &row->process.counters);
		printf("},\n   \"devices\": [");
		for (unsigned j = 0; j < row->devices; j++) {
			if (!wants_device(options, &row->device[j]))
				continue;
			printf("%s\n    {\"device\": ", separator);
			vb_cli_json_string(stdout, row->device[j].device);
			printf(", \"interface_index\": %u,\n     \"counters\": {", row->device[j].interface_index);
			vb_cli_json_counters(stdout, &row->device[j].counters);
			printf("}}");
			separator = ",";
		}
		printf("]}");
	}
	printf("%s]\n", shown ? "\n" : "");
}

static int stat_main(int argc, char **argv)
{
	struct options options = { 0 };
	struct vb_cli_processes processes = { 0 };
	struct vb_daemon_client daemon;
	int found, error;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--json"))
			options.json = true;
		else if (!strcmp(argv[i], "--all"))
			options.all = true;
		else if (!strcmp(argv[i], "--pid") && i + 1 < argc) {
			if (!vb_cli_parse_pid(argv[++i], &options.pid))
				return vb_cli_usage_error(&vb_cli_stat, "not a process id", argv[i]);
		} else if (!strcmp(argv[i], "--device") && i + 1 < argc)
			options.device = argv[++i];
		else
			return vb_cli_usage_error(&vb_cli_stat, "unknown argument, or its value is missing", argv[i]);
	}
	found = vb_cli_daemon_find("stat", &daemon);
	if (found < 0)
		return VB_CLI_FAILED;
	if (found > 0) {
		error = vb_cli_processes_get(&daemon, &processes);
		vb_daemon_client_close(&daemon);
		if (error) {
			fprintf(stderr, "verbena stat: %s\n", strerror(-error));
			return VB_CLI_FAILED;
		}
	}
	if (options.json)
		print_json(&options, &processes);
	else
		print_table(&options, &processes);
	vb_cli_processes_free(&processes);
	return VB_CLI_DONE;
}

const struct vb_cli_command vb_cli_stat = {
	.name = "stat",
	.summary = "counters of packets, retries and errors, by process and device",
	.usage = "Usage: verbena stat [--all] [--pid PID] [--device NAME] [--json]\n\n"
		 "Shows what each process has counted on each device since it opened it, under the names that the\n"
		 "kernel's rxe uses in hw_counters (and mlx5, where rxe has none). You are shown your own\n"
		 "processes, root all.\n\n"
		 "  --all           also counters that are zero\n"
		 "  --pid PID       this process only\n"
		 "  --device NAME   this device only\n"
		 "  --json          for programs; always every counter\n\n"
		 "Counters to look at first: completer_retry_err and local_ack_timeout_err (packets were lost and\n"
		 "sent again), send_rnr_err and rcvd_rnr_err (a receiver had no receive posted),\n"
		 "out_of_seq_request (packets came in disorder), icrc_error (damaged), unknown_qp_pkts (late\n"
		 "packets for a queue pair that is gone).\n\n"
		 "Examples:\n"
		 "  verbena stat\n"
		 "  verbena stat --device roce_eth0 --all\n"
		 "  verbena stat --json | jq '.[] | {pid, program, sent: .counters.sent_pkts}'\n",
	.main = stat_main,
};
