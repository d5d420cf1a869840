/* SPDX-License-Identifier: MIT */
#include "fabric/counters.h"

#include <string.h>

#include "fabric/node.h"

enum { ALL_PORTS = 0xff, ALL_PORTS_CAPABILITY = 0x0100, EXTENDED_CAPABILITY = 0x0200, RESPONSE_TIME = 17 };

static uint64_t at_most(uint64_t value, uint64_t most)
{
	return value < most ? value : most;
}

/* The sum over the ports asked for; false: no such port. */
static bool collect(const struct vb_fabric_node *node, uint8_t arrival, uint8_t number, struct vb_fabric_counters *sum)
{
	unsigned first = number, last = number;

	*sum = (struct vb_fabric_counters){0};
	if (number == ALL_PORTS) {
		first = 1;
		last = node->ports;
	} else if (number == 0 && node->type != VB_NODE_SWITCH) {
		first = last = arrival;
	}
	if (last > node->ports)
		return false;
	for (unsigned i = first; i <= last; i++) {
#define COUNTER(name) sum->name += node->port[i].counters.name;
		VB_FABRIC_COUNTERS(COUNTER)
#undef COUNTER
	}
	return true;
}

/* Those of the ports for which `select` says so. */
static void clear(struct vb_fabric_node *node, uint8_t arrival, uint8_t number, const struct vb_fabric_counters *select)
{
	unsigned first = number == ALL_PORTS ? 1 : number, last = number == ALL_PORTS ? node->ports : number;

	if (number == 0 && node->type != VB_NODE_SWITCH)
		first = last = arrival;
	for (unsigned i = first; i <= last; i++) {
#define COUNTER(name)              \
	if (select->name)          \
		node->port[i].counters.name = 0;
		VB_FABRIC_COUNTERS(COUNTER)
#undef COUNTER
	}
}

/* CounterSelect of PortCounters, in the order of its bits (IBA 16.1.3.5). */
static struct vb_fabric_counters selected(unsigned bits, unsigned bits2)
{
	return (struct vb_fabric_counters){
		.link_downed = bits & 1 << 2,
		.receive_errors = bits & 1 << 3,
		.relay_errors = bits & 1 << 5,
		.transmit_discards = bits & 1 << 6,
		.transmit_constraints = bits & 1 << 7,
		.receive_constraints = bits & 1 << 8,
		.vl15_dropped = bits & 1 << 11,
		.transmit_data = bits & 1 << 12,
		.receive_data = bits & 1 << 13,
		.transmit_packets = bits & 1 << 14,
		.receive_packets = bits & 1 << 15,
		.transmit_wait = bits2 & 1,
	};
}

static struct vb_fabric_counters selected_extended(unsigned bits, uint32_t bits2)
{
	return (struct vb_fabric_counters){
		.transmit_data = bits & 1 << 0,
		.receive_data = bits & 1 << 1,
		.transmit_packets = bits & 1 << 2,
		.receive_packets = bits & 1 << 3,
		.unicast_transmit = bits & 1 << 4,
		.unicast_receive = bits & 1 << 5,
		.multicast_transmit = bits & 1 << 6,
		.multicast_receive = bits & 1 << 7,
		.link_downed = bits2 & 1 << 18,
		.receive_errors = bits2 & 1 << 19,
		.relay_errors = bits2 & 1 << 21,
		.transmit_discards = bits2 & 1 << 22,
		.transmit_constraints = bits2 & 1 << 23,
		.receive_constraints = bits2 & 1 << 24,
		.vl15_dropped = bits2 & 1 << 27,
		.transmit_wait = bits2 & 1 << 28,
	};
}

static uint16_t port_counters(struct vb_fabric_node *node, uint8_t arrival, bool set, uint8_t *data)
{
	struct vb_port_counters *told = (struct vb_port_counters *)(void *)data;
	struct vb_fabric_counters sum, select = selected(be16_get(told->select), told->select2);

	if (!collect(node, arrival, told->port, &sum))
		return VB_MAD_BAD_VALUE;
	if (set) {
		clear(node, arrival, told->port, &select);
		(void)collect(node, arrival, told->port, &sum);
	}
	*told = (struct vb_port_counters){
		.port = told->port,
		.select = told->select,
		.select2 = told->select2,
		.link_downed = (uint8_t)at_most(sum.link_downed, 0xff),
		.receive_errors = be16_of((uint16_t)at_most(sum.receive_errors, 0xffff)),
		.relay_errors = be16_of((uint16_t)at_most(sum.relay_errors, 0xffff)),
		.transmit_discards = be16_of((uint16_t)at_most(sum.transmit_discards, 0xffff)),
		.transmit_constraints = (uint8_t)at_most(sum.transmit_constraints, 0xff),
		.receive_constraints = (uint8_t)at_most(sum.receive_constraints, 0xff),
		.vl15_dropped = be16_of((uint16_t)at_most(sum.vl15_dropped, 0xffff)),
		.transmit_data = be32_of((uint32_t)at_most(sum.transmit_data, UINT32_MAX)),
		.receive_data = be32_of((uint32_t)at_most(sum.receive_data, UINT32_MAX)),
		.transmit_packets = be32_of((uint32_t)at_most(sum.transmit_packets, UINT32_MAX)),
		.receive_packets = be32_of((uint32_t)at_most(sum.receive_packets, UINT32_MAX)),
		.transmit_wait = be32_of((uint32_t)at_most(sum.transmit_wait, UINT32_MAX)),
	};
	return VB_MAD_OK;
}

static uint16_t port_counters_extended(struct vb_fabric_node *node, uint8_t arrival, bool set, uint8_t *data)
{
	struct vb_port_counters_extended *told = (struct vb_port_counters_extended *)(void *)data;
	struct vb_fabric_counters sum, select = selected_extended(be16_get(told->select), be32_get(told->select2));

	if (!collect(node, arrival, told->port, &sum))
		return VB_MAD_BAD_VALUE;
	if (set) {
		clear(node, arrival, told->port, &select);
		(void)collect(node, arrival, told->port, &sum);
	}
	*told = (struct vb_port_counters_extended){.port = told->port, .select = told->select, .select2 = told->select2};
#define COUNTER(name) told->name = be64_of(sum.name);
	VB_FABRIC_COUNTERS(COUNTER)
#undef COUNTER
	return VB_MAD_OK;
}

static uint16_t class_port_info(bool set, uint8_t *data)
{
	struct vb_class_port_info info = {
		.base_version = VB_MAD_BASE_VERSION,
		.class_version = 1,
		.capabilities = be16_of(ALL_PORTS_CAPABILITY | EXTENDED_CAPABILITY),
		.capabilities2_time = be32_of(RESPONSE_TIME),
	};

	if (set)
		return VB_MAD_BAD_ATTRIBUTE;
	memcpy(data, &info, sizeof(info));
	return VB_MAD_OK;
}

void vb_fabric_counters_answer(struct vb_fabric_node *node, uint8_t arrival, struct vb_mad *mad)
{
	uint8_t *data = (uint8_t *)mad + VB_GMP_DATA;
	bool set = mad->method == VB_MAD_SET;
	uint16_t status = VB_MAD_BAD_ATTRIBUTE;

	if (mad->class_version != 1)
		status = VB_MAD_BAD_VERSION;
	else if (mad->method != VB_MAD_GET && !set)
		status = VB_MAD_BAD_METHOD;
	else
		switch (vb_attribute_find(mad->mgmt_class, be16_get(mad->attribute))) {
		case VB_ATTRIBUTE_CLASS_PORT_INFO:
			status = class_port_info(set, data);
			break;
		case VB_ATTRIBUTE_PORT_COUNTERS:
			status = port_counters(node, arrival, set, data);
			break;
		case VB_ATTRIBUTE_PORT_COUNTERS_EXTENDED:
			status = port_counters_extended(node, arrival, set, data);
			break;
		default:
			break;
		}
	vb_mad_make_response(mad, status);
}
