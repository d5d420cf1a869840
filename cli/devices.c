/* SPDX-License-Identifier: MIT
 *
 * `verbena devices`: one line per device, one per GID. The index in front of a GID is what programs take with -g
 * or -x, which is what people look for here.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/json.h"
#include "cli/names.h"
#include "cli/terminal.h"
#include "progress/devices.h"

static const char *state_name(enum ibv_port_state state)
{
	switch (state) {
	case IBV_PORT_ACTIVE:
		return "active";
	case IBV_PORT_DOWN:
		return "down";
	case IBV_PORT_INIT:
		return "init";
	case IBV_PORT_ARMED:
		return "armed";
	default:
		return "unknown";
	}
}

static unsigned mtu_bytes(enum ibv_mtu mtu)
{
	return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << mtu : 0;
}

static const char *gid_text(const uint8_t gid[16], char text[40])
{
	char *at = text;

	for (int i = 0; i < 16; i += 2)
		at += sprintf(at, "%s%02x%02x", i ? ":" : "", gid[i], gid[i + 1]);
	return text;
}

static void print_gids(const struct vb_device_info *device, const struct vb_cli_colours *colour)
{
	char address[INET6_ADDRSTRLEN], gid[40];
	bool any = false;

	for (uint32_t i = 0; i < device->gid_count && i < VB_MAX_GIDS; i++) {
		if (vb_cli_gid_is_zero(device->gid[i].gid))
			continue;
		any = true;
		printf("  gid %-3u RoCE v2   %-28s %s%s%s\n", i, vb_cli_gid_address(device->gid[i].gid, address),
		       colour->faint, gid_text(device->gid[i].gid, gid), colour->plain);
	}
	if (!any)
		printf("  no GID: %s has no address\n", device->interface);
}

static void print_table(const struct vb_device_info *list, unsigned count)
{
	struct vb_cli_colours colour = vb_cli_colours_get();

	if (count == 0)
		puts("No devices: this network namespace has no usable interface. Try `ip link set lo up`.");
	for (unsigned i = 0; i < count; i++) {
		const struct vb_device_info *device = &list[i];
		bool active = device->state == IBV_PORT_ACTIVE;

		printf("%s%s%s   interface %s   %s%s%s   MTU %u (interface %u)   ", colour.strong, device->name,
		       colour.plain, device->interface, active ? colour.good : colour.bad, state_name(device->state),
		       colour.plain, mtu_bytes(device->active_mtu), device->interface_mtu);
		if (device->speed_mbps)
			printf("%u Mb/s   ", device->speed_mbps);
		printf("GUID %016llx\n", (unsigned long long)device->guid);
		print_gids(device, &colour);
	}
}

static void print_json(const struct vb_device_info *list, unsigned count)
{
	char address[INET6_ADDRSTRLEN], gid[40];

	printf("[");
	for (unsigned i = 0; i < count; i++) {
		const struct vb_device_info *device = &list[i];
		const char *separator = "";

		printf("%s\n  {\"name\": ", i ? "," : "");
		vb_cli_json_string(stdout, device->name);
		printf(", \"interface\": ");
		vb_cli_json_string(stdout, device->interface);
		printf(", \"interface_index\": %u, \"state\": \"%s\", \"active_mtu\": %u, \"interface_mtu\": %u, "
		       "\"speed_mbps\": %u, \"guid\": \"%016llx\",\n   \"gids\": [",
		       device->interface_index, state_name(device->state), mtu_bytes(device->active_mtu),
		       device->interface_mtu, device->speed_mbps, (unsigned long long)device->guid);
		for (uint32_t j = 0; j < device->gid_count && j < VB_MAX_GIDS; j++) {
			if (vb_cli_gid_is_zero(device->gid[j].gid))
				continue;
			printf("%s{\"index\": %u, \"type\": \"RoCE v2\", \"gid\": \"%s\", \"address\": \"%s\"}",
			       separator, j, gid_text(device->gid[j].gid, gid),
			       vb_cli_gid_address(device->gid[j].gid, address));
			separator = ", ";
		}
		printf("]}");
	}
	printf("%s]\n", count ? "\n" : "");
}

static int devices(int argc, char **argv)
{
	struct vb_device_info *list;
	unsigned count;
	bool json = false;
	int error;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--json") != 0)
			return vb_cli_usage_error(&vb_cli_devices, "unknown argument", argv[i]);
		json = true;
	}
	error = vb_devices_list(&list, &count);
	if (error) {
		fprintf(stderr, "verbena devices: %s\n", strerror(-error));
		return VB_CLI_FAILED;
	}
	if (json)
		print_json(list, count);
	else
		print_table(list, count);
	free(list);
	return VB_CLI_DONE;
}

const struct vb_cli_command vb_cli_devices = {
	.name = "devices",
	.summary = "the RDMA devices, their interfaces, states and GIDs",
	.usage = "Usage: verbena devices [--json]\n\n"
		 "There is one device for each usable network interface, loopback included. The number after `gid` is\n"
		 "the index that programs want: -g of ibv_rc_pingpong, -x of ib_write_bw.\n\n"
		 "Examples:\n"
		 "  verbena devices\n"
		 "  verbena devices --json\n",
	.main = devices,
};
