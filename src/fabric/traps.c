/* SPDX-License-Identifier: MIT */
#include "fabric/traps.h"

#include <string.h>

#include "fabric/fabric.h"

#define FIRST_INTERVAL VB_MILLISECONDS(250)
#define LONGEST_INTERVAL VB_SECONDS(16)

enum { GENERIC_URGENT = 0x80 | 1, GENERIC_INFORMATION = 0x80 | 4, PRODUCER_CA = 1, PRODUCER_SWITCH = 2 };

static struct vb_fabric_port *base_of(struct vb_fabric_node *node)
{
	return &node->port[node->type == VB_NODE_SWITCH ? 0 : 1];
}

static void fill_notice(struct vb_fabric_node *node, struct vb_notice *notice)
{
	struct vb_fabric_port *port = base_of(node);
	uint16_t lid = vb_fabric_port_lid(port);

	*notice = (struct vb_notice){
		.type = node->trap.number == VB_TRAP_LINK_STATE ? GENERIC_URGENT : GENERIC_INFORMATION,
		.producer = be24_of(node->type == VB_NODE_SWITCH ? PRODUCER_SWITCH : PRODUCER_CA),
		.trap = be16_of(node->trap.number),
		.issuer_lid = be16_of(lid),
	};
	if (node->trap.number == VB_TRAP_LINK_STATE) {
		notice->details[0] = (uint8_t)(lid >> 8);
		notice->details[1] = (uint8_t)lid;
	} else {
		notice->details[2] = (uint8_t)(lid >> 8);
		notice->details[3] = (uint8_t)lid;
		memcpy(notice->details + 6, &port->info.capabilities, 4);
	}
}

static void compose(struct vb_fabric_node *node, struct vb_mad_address *address, struct vb_mad *mad)
{
	struct vb_fabric_port *port = base_of(node);

	*mad = (struct vb_mad){
		.base_version = VB_MAD_BASE_VERSION,
		.mgmt_class = VB_MAD_SMP_LID,
		.class_version = 1,
		.method = VB_MAD_TRAP,
		.transaction = be64_of(node->trap.transaction),
		.attribute = be16_of(vb_attributes[VB_ATTRIBUTE_NOTICE].id),
	};
	*address = (struct vb_mad_address){
		.route = {.dlid = be16_get(port->info.sm_lid), .sl = port->info.mtu_sm_sl & 0x0f},
		.pkey = 0xffff,
	};
	fill_notice(node, (struct vb_notice *)(void *)((uint8_t *)mad + VB_SMP_DATA));
	((struct vb_smp *)(void *)mad)->m_key = port->info.m_key;
}

void vb_fabric_trap_begin(struct vb_fabric_node *node, uint16_t number, vb_time now)
{
	struct vb_fabric_port *port = base_of(node);

	/* There is no subnet manager to tell: the next one finds PortStateChange. */
	if (!node->fabric || be16_get(port->info.sm_lid) == 0 || vb_fabric_port_lid(port) == 0)
		return;
	node->fabric->traps += node->trap.number == 0;
	node->trap = (struct vb_fabric_trap){
		.number = number,
		.transaction = ++node->fabric->transactions,
		/* Not now: forwarding tables and states may be about to change together. */
		.deadline = now,
		.interval = FIRST_INTERVAL,
	};
}

void vb_fabric_trap_end(struct vb_fabric_node *node, const struct vb_mad *repress)
{
	if (node->trap.number == 0 || be64_get(repress->transaction) != node->trap.transaction)
		return;
	node->trap.number = 0;
	node->fabric->traps--;
}

struct vb_fabric_port *vb_fabric_trap_take(struct vb_fabric_node *node, vb_time now, struct vb_mad_address *address, struct vb_mad *mad)
{
	struct vb_fabric_trap *trap = &node->trap;

	if (trap->number == 0 || now < trap->deadline)
		return NULL;
	trap->deadline = now + trap->interval;
	if (trap->interval < LONGEST_INTERVAL)
		trap->interval *= 2;
	compose(node, address, mad);
	return base_of(node);
}
