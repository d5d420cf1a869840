/* SPDX-License-Identifier: MIT
 *
 * `verbena fabric`: a software InfiniBand. This file only finds the subcommand.
 */
#include "cli/fabric.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/fabric_simulate.h"

static const struct {
	const char *name;
	int (*main)(int argc, char **argv);
} table[] = {
	{"up", vb_cli_fabric_up},
	{"join", vb_cli_fabric_join},
	{"leave", vb_cli_fabric_leave},
	{"show", vb_cli_fabric_ask},
	{"cut", vb_cli_fabric_ask},
	{"mend", vb_cli_fabric_ask},
#ifdef VB_HAVE_EXPERIMENTS
	{"simulate", vb_cli_fabric_simulate},
#endif
};

int vb_cli_fabric_usage(const char *problem, const char *argument)
{
	return vb_cli_usage_error(&vb_cli_fabric, problem, argument);
}

bool vb_cli_fabric_parse_port(const char *text, uint16_t *port)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (*text < '1' || *text > '9' || *end || value > 0xffff)
		return false;
	*port = (uint16_t)value;
	return true;
}

static int fabric(int argc, char **argv)
{
	if (argc < 2)
		return vb_cli_fabric_usage("what is to be done?", NULL);
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (!strcmp(argv[1], table[i].name))
			return table[i].main(argc - 1, argv + 1);
	return vb_cli_fabric_usage("no such subcommand", argv[1]);
}

const struct vb_cli_command vb_cli_fabric = {
	.name = "fabric",
	.summary = "a software InfiniBand: switches, cables, hosts that join",
	.usage = "Usage: verbena fabric up [FILE] [--port N]\n"
		 "       verbena fabric join [ADDRESS[:PORT]] [--as NAME]\n"
		 "       verbena fabric leave\n"
		 "       verbena fabric show [--json | --svg OUT [--every SECONDS]] [--port N]\n"
		 "       verbena fabric cut|mend NAME:PORT [--port N]\n"
		 "       verbena fabric simulate [NAME|FILE.toml] [--seed N] [--svg OUT] [--csv OUT] [--short] [--quiet]\n\n"
		 "  up     run the switches of a topology file, which is what ibnetdiscover writes, until interrupted. Adapters of the\n"
		 "         file answer as if they were there. Without a file: one switch of 36 ports\n"
		 "  join   make this host an adapter of the fabric at ADDRESS (127.0.0.1): in the place of the file's adapter NAME, of\n"
		 "         the first that no host has, or at a free port\n"
		 "  leave  pull this host's cable\n"
		 "  show   what is joined to what, with LIDs, states and rates: as text, for programs, or as a picture, which\n"
		 "         --every draws anew until interrupted\n"
		 "  cut    cut the cable at that port of that node; mend puts it back\n"
		 "  simulate  run an experiment with congestion in virtual time (docs/congestion.md) and say what it showed beside\n"
		 "         what it must show: exit code 1 if something was not shown. Without a name: list experiments\n\n"
		 "  --port N    UDP port of the fabric (14791)\n"
		 "  --as NAME   name of an adapter in the file\n"
		 "  --seed N    another run; the same seed is the same run\n"
		 "  --svg OUT   a picture; --csv OUT all samples; --short a quick run; --quiet no progress\n\n"
		 "Subnet managers and diagnostics are those of the distribution; docs/infiniband.md says more.\n\n"
		 "Examples:\n"
		 "  verbena fabric up &\n"
		 "  verbena fabric join\n"
		 "  verbena run opensm -B -f opensm.log\n"
		 "  verbena run iblinkinfo\n"
		 "  verbena fabric simulate deadlock --svg deadlock.svg\n",
	.main = fabric,
};
