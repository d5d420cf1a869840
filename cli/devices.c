/* SPDX-License-Identifier: MIT
 *
 * `verbena devices`: one line per device, one per GID. The index in front of a GID is what programs take with -g
 * or -x, which is what people look for here.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/devices.h"
#include "cli/names.h"
#include "cli/profile.h"
#include "cli/shown.h"
#include "cli/terminal.h"
#include "profiles/profile.h"

static void print_gids(const struct vb_device_info *device, const struct vb_cli_colours *colour)
{
	bool has_addresses = vb_profile_of(device->kind)->gid_layout == VB_GIDS_ADDRESSES;
	char address[INET6_ADDRSTRLEN], gid[40], interface[VB_CLI_SHOWN_ROOM(sizeof(device->interface))];
	bool any = false;

	for (uint32_t i = 0; i < device->gid_count && i < VB_MAX_GIDS; i++) {
		if (vb_cli_gid_is_zero(device->gid[i].gid))
			continue;
		any = true;
		if (!has_addresses) {
			printf("  address %s\n", vb_cli_gid_address(device->gid[i].gid, address));
			continue;
		}
		printf("  gid %-3u RoCE v2   %-28s %s%s%s\n", i, vb_cli_gid_address(device->gid[i].gid, address),
		       colour->faint, vb_cli_gid_text(device->gid[i].gid, gid), colour->plain);
	}
	if (!any)
		printf("  no GID: %s has no address\n", vb_cli_shown(device->interface, interface, sizeof(interface)));
}

static void print_table(const struct vb_device_info *list, unsigned count)
{
	const struct vb_adapter *adapter = vb_cli_profile_chosen();
	struct vb_cli_colours colour = vb_cli_colours_get();
	char name[VB_CLI_SHOWN_ROOM(sizeof(list->name))], interface[VB_CLI_SHOWN_ROOM(sizeof(list->interface))];

	if (count == 0)
		puts("No devices: this network namespace has no usable interface. Try `ip link set lo up`.");
	for (unsigned i = 0; i < count; i++) {
		const struct vb_device_info *device = &list[i];
		bool active = device->state == IBV_PORT_ACTIVE;

		printf("%s%s%s   interface %s   %s%s%s   MTU %u (interface %u)   ", colour.strong,
		       vb_cli_shown(device->name, name, sizeof(name)), colour.plain,
		       vb_cli_shown(device->interface, interface, sizeof(interface)), active ? colour.good : colour.bad,
		       vb_cli_port_state_name(device->state), colour.plain, vb_cli_mtu_bytes(device->active_mtu), device->interface_mtu);
		if (device->speed_mbps)
			printf("%u Mb/s   ", device->speed_mbps);
		printf("GUID %016llx\n", (unsigned long long)device->guid);
		if (adapter)
			printf("  profile %s: %s%s\n", adapter->name, adapter->describes,
			       vb_adapter_suits(adapter, device->kind) ? "" : "; not a device of this kind, programs do not see it");
		print_gids(device, &colour);
	}
}

static int devices(int argc, char **argv)
{
	struct vb_device_info *list;
	unsigned count;
	bool json = false, all = false;
	int error;

	if (argc == 2 && !strcmp(argv[1], "--profiles")) {
		vb_cli_profiles_print();
		return VB_CLI_DONE;
	}
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--json"))
			json = true;
		else if (!strcmp(argv[i], "--all"))
			all = true;
		else
			return vb_cli_usage_error(&vb_cli_devices, "unknown argument", argv[i]);
	}
	error = vb_devices_list(&list, &count);
	if (error) {
		fprintf(stderr, "verbena devices: %s\n", strerror(-error));
		return VB_CLI_FAILED;
	}
	if (!all)
		count = vb_devices_choose(list, count, getenv("VERBENA_TRANSPORT"), NULL);
	if (json)
		vb_cli_devices_print_json(stdout, list, count);
	else
		print_table(list, count);
	free(list);
	return VB_CLI_DONE;
}

const struct vb_cli_command vb_cli_devices = {
	.name = "devices",
	.summary = "the RDMA devices, their interfaces, states and GIDs",
	.usage = "Usage: verbena devices [--all] [--json] | --profiles\n\n"
		 "There is one device for each usable network interface, loopback included; programs that name none\n"
		 "take the first, so those whose port is down come last. The number after `gid` is the index that\n"
		 "programs want: -g of ibv_rc_pingpong, -x of ib_write_bw.\n\n"
		 "  --all       also those of kinds that programs do not see unless VERBENA_TRANSPORT names them (iwarp)\n"
		 "  --json      the same for programs\n"
		 "  --profiles  the adapters whose limits devices can be given: `verbena run --profile NAME`\n\n"
		 "Examples:\n"
		 "  verbena devices\n"
		 "  verbena devices --json\n",
	.main = devices,
};
