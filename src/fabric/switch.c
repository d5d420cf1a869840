/* SPDX-License-Identifier: MIT */
#include "fabric/switch.h"

int vb_switch_unicast(const struct vb_fabric_node *node, uint16_t dlid)
{
	uint8_t port;

	if (vb_fabric_port_has_lid(&node->port[0], dlid))
		return VB_SWITCH_SELF;
	if (dlid == 0 || dlid >= VB_FABRIC_LIDS || dlid > be16_get(node->switch_info.linear_top))
		return VB_SWITCH_DROP;
	port = node->linear[dlid];
	return port <= node->ports ? port : VB_SWITCH_DROP;
}

bool vb_switch_is_member(const struct vb_fabric_node *node, uint16_t mlid, uint8_t port)
{
	unsigned group = (unsigned)mlid - VB_MULTICAST_LID;

	return mlid >= VB_MULTICAST_LID && group < VB_FABRIC_GROUPS &&
	       (be16_get(node->multicast[group][port / 16]) >> port % 16 & 1) != 0;
}
