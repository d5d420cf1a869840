/* SPDX-License-Identifier: MIT
 *
 * A fabric of one switch with two ports, S1, which hosts can join: LIDs below 64 are routed.
 */
#ifndef VB_TESTS_FABRIC_ONE_SWITCH_H
#define VB_TESTS_FABRIC_ONE_SWITCH_H

#include <string.h>

#include "fabric/hosts.h"
#include "fabric/topology.h"

static inline struct vb_fabric_node *one_switch(struct vb_fabric *fabric, struct vb_fabric_hosts *hosts,
						const struct vb_fabric_hosts_owner *owner, vb_time now)
{
	static const char topology[] = "Switch 2 \"S1\"\n";
	struct vb_topology_error error;
	struct vb_fabric_node *the_switch;

	vb_fabric_init(fabric, &vb_fabric_hosts_carrier, hosts);
	vb_fabric_hosts_init(hosts, fabric, owner, NULL);
	assert_int_equal(vb_topology_read(fabric, topology, strlen(topology), now, &error), 0);
	the_switch = vb_fabric_find(fabric, "S1");
	the_switch->switch_info.linear_top = be16_of(64);
	return the_switch;
}

#endif
