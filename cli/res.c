/* SPDX-License-Identifier: MIT
 *
 * `verbena res`: what processes hold, as `rdma resource show` tells it of adapters. The processes are asked at this
 * moment; one that is stopped cannot answer, and is named as such.
 */
#include "cli/res.h"

#include <stdio.h>
#include <string.h>

#include "cli/command.h"

static const struct {
	const char *name;
	enum vb_resource_kind kind;
} kinds[] = {
	{ "qp", VB_RESOURCE_QP },   { "cq", VB_RESOURCE_CQ }, { "mr", VB_RESOURCE_MR },
	{ "srq", VB_RESOURCE_SRQ }, { "pd", VB_RESOURCE_PD }, { "cm_id", VB_RESOURCE_CM_ID },
	{ "wq", VB_RESOURCE_WQ },   { "rwq_table", VB_RESOURCE_RWQ_TABLE },
};

static bool choose_kind(struct vb_cli_res_options *options, const char *name)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(kinds[i].name, name)) {
			options->kind[kinds[i].kind] = true;
			return true;
		}
	return false;
}

static int parse(int argc, char **argv, struct vb_cli_res_options *options)
{
	bool chosen = false;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--json"))
			options->json = true;
		else if (!strcmp(argv[i], "--pid") && i + 1 < argc) {
			if (!vb_cli_parse_pid(argv[++i], &options->pid))
				return vb_cli_usage_error(&vb_cli_res, "not a process id", argv[i]);
		} else if (!strcmp(argv[i], "--device") && i + 1 < argc)
			options->device = argv[++i];
		else if (choose_kind(options, argv[i]))
			chosen = true;
		else
			return vb_cli_usage_error(&vb_cli_res, "unknown argument, or its value is missing", argv[i]);
	}
	for (unsigned kind = 0; !chosen && kind < VB_RESOURCE_KINDS; kind++)
		options->kind[kind] = true;
	return VB_CLI_DONE;
}

static int res(int argc, char **argv)
{
	struct vb_cli_res_options options = { 0 };
	struct vb_cli_holders holders = { 0 };
	struct vb_daemon_client daemon;
	int found, error = parse(argc, argv, &options);

	if (error)
		return error;
	found = vb_cli_daemon_find("res", &daemon);
	if (found < 0)
		return VB_CLI_FAILED;
	if (found > 0) {
		error = vb_cli_holders_get(&daemon, options.pid, &holders);
		vb_daemon_client_close(&daemon);
		if (error) {
			fprintf(stderr, "verbena res: %s\n", strerror(-error));
			return VB_CLI_FAILED;
		}
	}
	if (options.json)
		vb_cli_res_print_json(stdout, &options, &holders);
	else
		vb_cli_res_print_table(&options, &holders);
	vb_cli_holders_free(&holders);
	return VB_CLI_DONE;
}

const struct vb_cli_command vb_cli_res = {
	.name = "res",
	.summary = "what processes hold: queue pairs and their peers, CQs, memory regions, CM ids",
	.usage = "Usage: verbena res [qp] [cq] [mr] [srq] [wq] [rwq_table] [pd] [cm_id] [--pid PID]\n"
		 "                   [--device NAME] [--json]\n\n"
		 "Asks the processes what they hold at this moment, and shows it by process, as `rdma resource\n"
		 "show` does for adapters. Without a kind: all of them. You are shown your own processes, root\n"
		 "all. Being asked costs a process a few microseconds of its engine thread; not being asked costs\n"
		 "it nothing.\n\n"
		 "  --pid PID       this process only\n"
		 "  --device NAME   this device only\n"
		 "  --json          for programs\n\n"
		 "Of a queue pair: its number, type and state; address and number of its peer; the PSN it sends\n"
		 "next, the oldest not acknowledged and the one it expects; work posted of the depth granted,\n"
		 "send and receive; its CQs; and why it failed, if it did.\n\n"
		 "Examples:\n"
		 "  verbena res\n"
		 "  verbena res qp --device roce_eth0\n"
		 "  verbena res mr --pid 4711\n"
		 "  verbena res qp --json | jq '.[].qps[] | select(.state != \"RTS\")'\n",
	.main = res,
};
