/* SPDX-License-Identifier: MIT
 *
 * `verbena status`: is there a daemon in this network namespace, whose is it, and whom does it serve. Asking never
 * starts one: that none runs is an answer, not an error.
 */
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/counters.h"
#include "cli/json.h"
#include "cli/names.h"
#include "cli/processes.h"
#include "cli/shown.h"
#include "cli/terminal.h"

static uint64_t retries(const struct vb_counters *counters)
{
	return counters->completer_retry_err + counters->local_ack_timeout_err;
}

/* The devices a process has opened, or as many as fit. */
static const char *device_names(const struct vb_cli_process *row, char *text, size_t room)
{
	char name[VB_CLI_SHOWN_ROOM(sizeof(row->device[0].device))];
	size_t at = 0;

	snprintf(text, room, "-");
	for (unsigned i = 0; i < row->devices && at < room; i++)
		at += (size_t)snprintf(text + at, room - at, "%s%s", i ? "," : "", vb_cli_shown(row->device[i].device, name, sizeof(name)));
	return text;
}

static void print_table(const struct vb_daemon_client *daemon, const struct vb_cli_processes *processes)
{
	struct vb_cli_colours colour = vb_cli_colours_get();
	char user[VB_CLI_USER_ROOM], devices[256], shown[VB_CLI_SHOWN_ROOM(64)];

	printf("%sverbenad%s %s, pid %u, of %s%s\n", colour.strong, colour.plain,
	       vb_cli_shown(daemon->version, shown, sizeof(shown)), daemon->pid,
	       vb_cli_user_name(daemon->uid, user), daemon->is_system ? ", for all users" : "");
	if (processes->count == 0) {
		puts(daemon->is_system ? "No process of yours uses it." : "No process uses it.");
		return;
	}
	printf("\n%s%8s  %-15s  %-12s  %4s  %6s  %12s  %12s  %8s  %s%s\n", colour.faint, "PID", "PROGRAM", "USER",
	       "SLOT", "QPS", "PACKETS OUT", "PACKETS IN", "RETRIES", "DEVICES", colour.plain);
	for (unsigned i = 0; i < processes->count; i++) {
		const struct vb_cli_process *row = &processes->row[i];
		const struct vb_counters *counters = &row->process.counters;

		printf("%8u  %-15s  %-12s  %4u  %6u  %12llu  %12llu  %8llu  %s\n", row->process.pid,
		       vb_cli_shown(row->program, shown, sizeof(shown)), vb_cli_user_name(row->process.uid, user), row->process.slot,
		       row->process.queue_pairs, (unsigned long long)counters->sent_pkts, (unsigned long long)counters->rcvd_pkts,
		       (unsigned long long)retries(counters), device_names(row, devices, sizeof(devices)));
	}
}

static void print_json(const struct vb_daemon_client *daemon, const struct vb_cli_processes *processes)
{
	printf("{\"daemon\": {\"version\": ");
	vb_cli_json_string(stdout, daemon->version);
	printf(", \"pid\": %u, \"uid\": %u, \"system\": %s},\n \"processes\": [", daemon->pid, daemon->uid,
	       daemon->is_system ? "true" : "false");
	for (unsigned i = 0; i < processes->count; i++) {
		const struct vb_cli_process *row = &processes->row[i];

		printf("%s\n  {\"pid\": %u, \"uid\": %u, \"slot\": %u, \"queue_pairs\": %u, \"program\": ",
		       i ? "," : "", row->process.pid, row->process.uid, row->process.slot, row->process.queue_pairs);
		vb_cli_json_string(stdout, row->program);
		printf(", \"devices\": [");
		for (unsigned j = 0; j < row->devices; j++) {
			printf("%s", j ? ", " : "");
			vb_cli_json_string(stdout, row->device[j].device);
		}
		printf("],\n   \"counters\": {");
		vb_cli_json_counters(stdout, &row->process.counters);
		printf("}}");
	}
	printf("%s]}\n", processes->count ? "\n" : "");
}

static int status(int argc, char **argv)
{
	struct vb_cli_processes processes;
	struct vb_daemon_client daemon;
	bool json = false;
	int found, error;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--json") != 0)
			return vb_cli_usage_error(&vb_cli_status, "unknown argument", argv[i]);
		json = true;
	}
	found = vb_cli_daemon_find("status", &daemon);
	if (found < 0)
		return VB_CLI_FAILED;
	if (found == 0) {
		puts(json ? "{\"daemon\": null, \"processes\": []}"
			  : "No verbenad runs in this network namespace. The first program that opens a device starts "
			    "one.");
		return VB_CLI_DONE;
	}
	error = vb_cli_processes_get(&daemon, &processes);
	vb_daemon_client_close(&daemon);
	if (error) {
		fprintf(stderr, "verbena status: %s\n", strerror(-error));
		return VB_CLI_FAILED;
	}
	if (json)
		print_json(&daemon, &processes);
	else
		print_table(&daemon, &processes);
	vb_cli_processes_free(&processes);
	return VB_CLI_DONE;
}

const struct vb_cli_command vb_cli_status = {
	.name = "status",
	.summary = "the daemon of this network namespace and the processes it serves",
	.usage = "Usage: verbena status [--json]\n\n"
		 "Tells which verbenad runs here and which processes use it: their devices, queue pairs, packets\n"
		 "sent and received, and retransmissions. You are shown your own processes, root all. Starts no\n"
		 "daemon; that none runs is no error. `verbena res` shows what the processes hold, `verbena stat`\n"
		 "every counter.\n\n"
		 "Examples:\n"
		 "  verbena status\n"
		 "  verbena status --json\n",
	.main = status,
};
