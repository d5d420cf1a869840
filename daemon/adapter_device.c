/* SPDX-License-Identifier: MIT */
#include "daemon/adapter_device.h"

#include <string.h>

#include "fabric/adapter.h"
#include "profiles/profile.h"
#include "wire/daemon_message.h"
#include "wire/mtu.h"

void vb_adapter_fill(const struct vb_adapter *adapter, struct vb_daemon_adapter *out)
{
	const struct vb_fabric_port *port = adapter->port;
	const struct vb_fabric_node *node = port->node;
	const struct vb_port_info *info = &port->info;

	memcpy(out->name, "vib0", sizeof("vib0"));
	memcpy(out->where, adapter->where, sizeof(out->where));
	memcpy(out->description, node->description, sizeof(out->description) - 1);
	out->system_guid = node->system_guid;
	out->node_guid = node->guid;
	out->port_guid = port->guids[0];
	out->gid_prefix = be64_get(info->gid_prefix);
	out->vendor = node->vendor;
	out->device = node->device;
	out->revision = node->revision;
	out->ports = node->ports;
	out->port = port->number;
	out->lid = vb_fabric_port_lid(port);
	out->lmc = info->protect_lmc & 7;
	out->sm_lid = be16_get(info->sm_lid);
	out->sm_sl = info->mtu_sm_sl & 0x0f;
	out->state = vb_fabric_port_state(port);
	out->physical = info->physical_default >> 4;
	out->width = info->width_active;
	out->speed = info->speed_active_enabled >> 4;
	out->extended = info->ext_active_supported >> 4;
	out->mtu = info->mtu_sm_sl >> 4;
	out->capabilities = be32_get(info->capabilities);
	for (unsigned i = 0; i < VB_FABRIC_PKEYS; i++)
		out->pkeys[i] = be16_get(port->pkeys[i]);
}

/* From the bits of PortInfo (IBA 14.2.5.6) to the one code that ibv_port_attr has. */
static uint8_t speed_code(const struct vb_port_info *info)
{
	uint8_t extended = info->ext_active_supported >> 4;

	return extended ? (uint8_t)(extended << 4) : info->speed_active_enabled >> 4;
}

void vb_adapter_fill_device(const struct vb_adapter *adapter, uint8_t reregister, struct vb_daemon_device *out)
{
	const struct vb_fabric_port *port = adapter->port;
	const struct vb_port_info *info = &port->info;
	uint32_t mtu = info->mtu_sm_sl >> 4;

	*out = (struct vb_daemon_device){
		.name = "vib0",
		.interface = "fabric",
		.interface_index = VB_FABRIC_INTERFACE,
		.kind = VB_DEVICE_INFINIBAND,
		.active_mtu = vb_mtu_bytes(mtu) ? mtu : VB_MTU_CODE_MIN,
		.guid = port->node->guid,
		.active = vb_fabric_port_state(port) == VB_PORT_ACTIVE,
		.gid_count = 1,
		.subnet = {
			.lid = vb_fabric_port_lid(port),
			.sm_lid = be16_get(info->sm_lid),
			.lmc = info->protect_lmc & 7,
			.sm_sl = info->mtu_sm_sl & 0x0f,
			.state = (uint8_t)vb_fabric_port_state(port),
			.physical = info->physical_default >> 4,
			.width = info->width_active,
			.speed = speed_code(info),
			.reregister = reregister,
			.capabilities = be32_get(info->capabilities),
		},
	};
	/* The subnet manager may set more than the cable carries whole: longer frames pass in fragments, and slowly. */
	out->interface_mtu = vb_mtu_bytes(out->active_mtu < adapter->mtu ? out->active_mtu : adapter->mtu);
	vb_fabric_port_gid(port, out->gid[0]);
	for (unsigned i = 0; i < VB_DAEMON_ADAPTER_PKEYS; i++)
		out->subnet.pkeys[i] = be16_get(port->pkeys[i]);
}
