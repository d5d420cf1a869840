/* SPDX-License-Identifier: MIT
 *
 * `verbena devices --json`: an array of devices, in each an array of GIDs.
 */
#include "cli/devices.h"

#include "cli/json.h"
#include "cli/names.h"
#include "cli/profile.h"
#include "profiles/profile.h"

void vb_cli_devices_print_json(FILE *out, const struct vb_device_info *list, unsigned count)
{
	const struct vb_adapter *adapter = vb_cli_profile_chosen();
	char address[INET6_ADDRSTRLEN], gid[40];

	fprintf(out, "[");
	for (unsigned i = 0; i < count; i++) {
		const struct vb_device_info *device = &list[i];
		const char *separator = "";

		fprintf(out, "%s\n  {\"name\": ", i ? "," : "");
		vb_cli_json_string(out, device->name);
		fprintf(out, ", \"transport\": \"%s\", \"interface\": ", vb_profile_of(device->kind)->name);
		vb_cli_json_string(out, device->interface);
		fprintf(out, ", \"interface_index\": %u, \"state\": \"%s\", \"active_mtu\": %u, \"interface_mtu\": %u, "
		       "\"speed_mbps\": %u, \"guid\": \"%016llx\", \"profile\": \"%s\",\n   \"gids\": [",
		       device->interface_index, vb_cli_port_state_name(device->state), vb_cli_mtu_bytes(device->active_mtu),
		       device->interface_mtu, device->speed_mbps, (unsigned long long)device->guid,
		       adapter && vb_adapter_suits(adapter, device->kind) ? adapter->name : vb_profile_of(device->kind)->name);
		for (uint32_t j = 0; j < device->gid_count && j < VB_MAX_GIDS; j++) {
			if (vb_cli_gid_is_zero(device->gid[j].gid))
				continue;
			if (vb_profile_of(device->kind)->gid_layout != VB_GIDS_ADDRESSES) {
				fprintf(out, "%s{\"address\": \"%s\"}", separator, vb_cli_gid_address(device->gid[j].gid, address));
				separator = ", ";
				continue;
			}
			fprintf(out, "%s{\"index\": %u, \"type\": \"RoCE v2\", \"gid\": \"%s\", \"address\": \"%s\"}",
			       separator, j, vb_cli_gid_text(device->gid[j].gid, gid),
			       vb_cli_gid_address(device->gid[j].gid, address));
			separator = ", ";
		}
		fprintf(out, "]}");
	}
	fprintf(out, "%s]\n", count ? "\n" : "");
}
