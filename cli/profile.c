/* SPDX-License-Identifier: MIT
 *
 * See profile.h.
 */
#include "cli/profile.h"

#include <stdio.h>
#include <stdlib.h>

#include "cli/command.h"
#include "cli/suggest.h"

int vb_cli_profile_choose(const char *command, const char *name)
{
	char suggestion[VB_CLI_WORD_ROOM];
	const struct vb_adapter *adapter = vb_adapter_find(name);

	/* Programs see iWARP devices only when a user asks for them, and who names such an adapter does. */
	if (adapter && !vb_adapter_suits(adapter, VB_DEVICE_ROCE) && setenv("VERBENA_TRANSPORT", "iwarp", 0))
		return VB_CLI_FAILED;
	if (adapter)
		return setenv("VERBENA_PROFILE", name, 1) ? VB_CLI_FAILED : VB_CLI_DONE;
	fprintf(stderr, "verbena %s: there is no profile `%s'.", command, name);
	if (vb_cli_suggest_profile(name, suggestion))
		fprintf(stderr, " Did you mean %s?", suggestion);
	fprintf(stderr, " `verbena devices --profiles` lists them.\n");
	return VB_CLI_USAGE;
}

/* Of the kind of device that it is put over; where there are two, RoCE. */
static void print_profile(const struct vb_adapter *adapter)
{
	static const struct {
		enum ibv_qp_type type;
		const char *name;
	} types[] = {{IBV_QPT_RC, "RC"}, {IBV_QPT_UC, "UC"}, {IBV_QPT_UD, "UD"}, {IBV_QPT_RAW_PACKET, "RAW_PACKET"},
		     {IBV_QPT_XRC_SEND, "XRC"}};
	struct vb_profile profile = *vb_profile_of(vb_adapter_suits(adapter, VB_DEVICE_ROCE) ? VB_DEVICE_ROCE : VB_DEVICE_IWARP);
	const struct vb_profile_limits *most = &profile.limits;

	vb_profile_lower(&profile, adapter);
	printf("%-13s %s (%s)\n   ", adapter->name, adapter->describes,
	       profile.transport_type == IBV_TRANSPORT_IWARP ? "iWARP" : "RoCE");
	for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (vb_profile_type(&profile, types[i].type))
			printf(" %s", types[i].name);
	printf("; max_qp %u, max_qp_wr %u, max_sge %u/%u, max_sge_rd %u, inline %u, max_cqe %u,\n    rd_atom %u/%u, %s, %s\n", most->qp,
	       most->qp_wr, most->send_sge, most->recv_sge, most->sge_rd, profile.types[IBV_QPT_RC].max_inline, most->cqe,
	       most->rd_atomic, most->init_rd_atomic, profile.atomic_cap == IBV_ATOMIC_NONE ? "no atomics" : "atomics",
	       most->srq == 0 ? "no SRQ" : "SRQ");
}

void vb_cli_profiles_print(void)
{
	const struct vb_adapter *adapter;

	for (unsigned i = 0; (adapter = vb_adapter_at(i)) != NULL; i++)
		print_profile(adapter);
}
