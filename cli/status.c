/* SPDX-License-Identifier: MIT
 *
 * `verbena status`: is there a daemon in this network namespace, whose is it, and whom does it serve. Asking never
 * starts one: that none runs is an answer, not an error.
 */
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/json.h"
#include "cli/terminal.h"
#include "progress/daemon_client.h"

struct processes {
	struct vb_daemon_process *row;
	unsigned count;
	bool out_of_memory;
};

static bool take_process(void *context, const struct vb_daemon_message *message, const int *fds, unsigned count)
{
	struct processes *processes = context;
	struct vb_daemon_process *larger;

	(void)fds;
	(void)count;
	if (message->header.type != VB_DAEMON_PROCESS)
		return true;
	larger = realloc(processes->row, (processes->count + 1) * sizeof(*larger));
	if (!larger) {
		processes->out_of_memory = true;
		return false;
	}
	processes->row = larger;
	larger[processes->count++] = message->process;
	return true;
}

/* Everybody but us, who are connected only to ask. */
static int list_processes(struct vb_daemon_client *client, struct processes *processes)
{
	struct vb_daemon_message request;
	unsigned kept = 0;
	int error;

	vb_daemon_message_begin(&request, VB_DAEMON_LIST_PROCESSES, 0);
	error = vb_daemon_client_request(client, &request, NULL, 0, take_process, processes);
	if (error == 0 && processes->out_of_memory)
		error = -ENOMEM;
	for (unsigned i = 0; i < processes->count; i++)
		if (processes->row[i].pid != (uint32_t)getpid())
			processes->row[kept++] = processes->row[i];
	processes->count = kept;
	return error;
}

static const char *user_name(uint32_t uid, char text[32])
{
	const struct passwd *entry = getpwuid(uid);

	if (entry)
		snprintf(text, 32, "%s", entry->pw_name);
	else
		snprintf(text, 32, "uid %u", uid);
	return text;
}

static void print_table(const struct vb_daemon_client *daemon, const struct processes *processes)
{
	struct vb_cli_colours colour = vb_cli_colours_get();
	char user[32];

	printf("%sverbenad%s %s, pid %u, of %s%s\n", colour.strong, colour.plain, daemon->version, daemon->pid,
	       user_name(daemon->uid, user), daemon->is_system ? ", for all users" : "");
	if (processes->count == 0) {
		puts("No process uses it.");
		return;
	}
	printf("\n%8s  %-15s  %-12s  %4s  %8s  %12s  %12s  %10s\n", "PID", "PROGRAM", "USER", "SLOT", "QPS", "PACKETS OUT",
	       "PACKETS IN", "RETRIES");
	for (unsigned i = 0; i < processes->count; i++) {
		const struct vb_daemon_process *row = &processes->row[i];

		printf("%8u  %-15.16s  %-12s  %4u  %8u  %12llu  %12llu  %10llu\n", row->pid, row->program,
		       user_name(row->uid, user), row->slot, row->queue_pairs,
		       (unsigned long long)row->counters.sent_pkts, (unsigned long long)row->counters.rcvd_pkts,
		       (unsigned long long)row->counters.completer_retry_err);
	}
}

static void print_counters(const struct vb_counters *counters)
{
	const char *separator = "";

#define X(name)                                                                                \
	printf("%s\"" #name "\": %llu", separator, (unsigned long long)counters->name);        \
	separator = ", ";
	VB_COUNTERS(X)
#undef X
}

static void print_json(const struct vb_daemon_client *daemon, const struct processes *processes)
{
	printf("{\"daemon\": {\"version\": ");
	vb_cli_json_string(stdout, daemon->version);
	printf(", \"pid\": %u, \"uid\": %u, \"system\": %s},\n \"processes\": [", daemon->pid, daemon->uid,
	       daemon->is_system ? "true" : "false");
	for (unsigned i = 0; i < processes->count; i++) {
		const struct vb_daemon_process *row = &processes->row[i];
		char program[sizeof(row->program) + 1];

		snprintf(program, sizeof(program), "%.*s", (int)sizeof(row->program), row->program);
		printf("%s\n  {\"pid\": %u, \"uid\": %u, \"slot\": %u, \"queue_pairs\": %u, \"program\": ", i ? "," : "", row->pid,
		       row->uid, row->slot, row->queue_pairs);
		vb_cli_json_string(stdout, program);
		printf(",\n   \"counters\": {");
		print_counters(&row->counters);
		printf("}}");
	}
	printf("%s]}\n", processes->count ? "\n" : "");
}

static int status(int argc, char **argv)
{
	struct processes processes = { 0 };
	struct vb_daemon_client client;
	bool json = false;
	int error;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--json") != 0)
			return vb_cli_usage_error(&vb_cli_status, "unknown argument", argv[i]);
		json = true;
	}
	error = vb_daemon_client_connect(&client, false);
	if (error == -ECONNREFUSED || error == -ECONNRESET) {
		puts(json ? "{\"daemon\": null, \"processes\": []}"
			  : "No verbenad runs in this network namespace. The first program that opens a device starts one.");
		return VB_CLI_DONE;
	}
	if (error == 0) {
		error = list_processes(&client, &processes);
		vb_daemon_client_close(&client);
	}
	if (error) {
		fprintf(stderr, "verbena status: %s\n", strerror(-error));
		free(processes.row);
		return VB_CLI_FAILED;
	}
	if (json)
		print_json(&client, &processes);
	else
		print_table(&client, &processes);
	free(processes.row);
	return VB_CLI_DONE;
}

const struct vb_cli_command vb_cli_status = {
	.name = "status",
	.summary = "the daemon of this network namespace and the processes it serves",
	.usage = "Usage: verbena status [--json]\n\n"
		 "Tells which verbenad runs here and which processes use it: their queue pairs, packets sent and received, and\n"
		 "retransmissions. --json has every counter. Starts no daemon; that none runs is no error.\n\n"
		 "Examples:\n"
		 "  verbena status\n"
		 "  verbena status --json\n",
	.main = status,
};
