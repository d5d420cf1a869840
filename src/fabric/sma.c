/* SPDX-License-Identifier: MIT
 *
 * Handlers take a Get or a Set whose modifier fits the attribute's row, and return the status of the answer; what they leave in the SMP's
 * data is the answer. A Set that cannot be obeyed changes nothing, and the answer says what is so.
 */
#include "fabric/sma.h"

#include <string.h>

#include "fabric/fabric.h"
#include "fabric/links.h"
#include "fabric/port_info.h"
#include "fabric/traps.h"

struct request {
	struct vb_fabric_node *node;
	struct vb_fabric_port *arrival;    /* port 0 of a switch: it comes from the switch itself */
	struct vb_fabric_port *port;       /* that the modifier names */
	vb_time now;
	uint32_t modifier;
	unsigned block, part;              /* of the modifier, where the row has them */
	bool set;
	uint8_t *data;
};

typedef uint16_t handler(struct request *request);

static uint16_t node_description(struct request *request)
{
	if (request->set)
		return VB_MAD_BAD_ATTRIBUTE;
	memcpy(request->data, request->node->description, VB_FABRIC_NAME);
	return VB_MAD_OK;
}

static uint16_t node_info(struct request *request)
{
	const struct vb_fabric_node *node = request->node;
	const struct vb_fabric_port *port = node->type == VB_NODE_SWITCH ? &node->port[0] : request->arrival;
	struct vb_node_info info = {
		.base_version = VB_MAD_BASE_VERSION,
		.class_version = 1,
		.node_type = (uint8_t)node->type,
		.ports = node->ports,
		.system_guid = be64_of(node->system_guid),
		.node_guid = be64_of(node->guid),
		.port_guid = be64_of(port->guids[0]),
		.partition_cap = be16_of(VB_FABRIC_PKEYS),
		.device_id = be16_of((uint16_t)node->device),
		.revision = be32_of(node->revision),
		.local_port = request->arrival->number,
		.vendor_id = be24_of(node->vendor & 0xffffff),
	};

	if (request->set)
		return VB_MAD_BAD_ATTRIBUTE;
	memcpy(request->data, &info, sizeof(info));
	return VB_MAD_OK;
}

static uint16_t switch_info(struct request *request)
{
	struct vb_switch_info *own = &request->node->switch_info, wanted;
	uint16_t status = VB_MAD_OK;

	memcpy(&wanted, request->data, sizeof(wanted));
	if (request->set) {
		if (be16_get(wanted.linear_top) >= VB_FABRIC_LIDS || be16_get(wanted.multicast_top) == 0xffff) {
			status = VB_MAD_BAD_VALUE;
		} else {
			own->linear_top = wanted.linear_top;
			own->default_port = wanted.default_port;
			own->default_primary = wanted.default_primary;
			own->default_other = wanted.default_other;
			own->multicast_top = wanted.multicast_top;
			/* Writing one clears it (IBA 14.2.5.4). */
			if (wanted.life_state & VB_SWITCH_STATE_CHANGE)
				own->life_state &= (uint8_t)~VB_SWITCH_STATE_CHANGE;
			own->life_state = (uint8_t)((wanted.life_state & 0xf8) | (own->life_state & 0x07));
		}
	}
	memcpy(request->data, own, sizeof(*own));
	return status;
}

static uint16_t guid_info(struct request *request)
{
	struct vb_fabric_port *port = vb_fabric_port_base(request->arrival);
	uint16_t status = VB_MAD_OK;

	if (request->block != 0)
		return VB_MAD_BAD_VALUE;
	/* The first is the port's own, and stays. */
	for (unsigned i = 1; request->set && i < VB_FABRIC_GUIDS; i++) {
		struct be64 guid;

		memcpy(&guid, request->data + 8 * i, sizeof(guid));
		port->guids[i] = be64_get(guid);
	}
	for (unsigned i = 0; i < VB_FABRIC_GUIDS; i++) {
		struct be64 guid = be64_of(port->guids[i]);

		memcpy(request->data + 8 * i, &guid, sizeof(guid));
	}
	return status;
}

static uint16_t port_info(struct request *request)
{
	uint16_t status = VB_MAD_OK;

	if (request->set)
		status = vb_port_info_set(request->port, (const struct vb_port_info *)(const void *)request->data, request->now);
	memcpy(request->data, &request->port->info, sizeof(request->port->info));
	/* Which port is asked: NodeInfo and PortInfo say by which one the SMP came in. */
	((struct vb_port_info *)(void *)request->data)->local_port = request->arrival->number;
	return status;
}

static uint16_t pkey_table(struct request *request)
{
	struct vb_fabric_port *port = request->port;

	if (request->block != 0)
		return VB_MAD_BAD_VALUE;
	if (request->set && memcmp(port->pkeys, request->data, sizeof(port->pkeys)) != 0) {
		memcpy(port->pkeys, request->data, sizeof(port->pkeys));
		vb_fabric_port_tell(port, VB_FABRIC_PKEYS_CHANGED, request->now);
	}
	memcpy(request->data, port->pkeys, sizeof(port->pkeys));
	return VB_MAD_OK;
}

static uint16_t sl_to_vl(struct request *request)
{
	struct vb_fabric_node *node = request->node;
	unsigned in = request->modifier >> 8 & 0xff, out = request->modifier & 0xff;
	uint8_t *table;

	/* An adapter has one for each port, and looks at no modifier (IBA 14.2.5.8). */
	if (node->type != VB_NODE_SWITCH) {
		in = 0;
		out = request->arrival->number;
	} else if (in > node->ports || out > node->ports) {
		return VB_MAD_BAD_VALUE;
	}
	table = vb_fabric_node_sl_to_vl(node, (uint8_t)in, (uint8_t)out);
	if (request->set)
		memcpy(table, request->data, 8);
	memcpy(request->data, table, 8);
	return VB_MAD_OK;
}

static uint16_t vl_arbitration(struct request *request)
{
	uint8_t *table;

	if (request->part < 1 || request->part > 4)
		return VB_MAD_BAD_VALUE;
	/* Each half has 32 entries, which is all there are: 1 the low ones, 3 the high ones. */
	table = request->port->vl_arbitration[request->part - 1];
	if (request->set && request->part % 2 == 0)
		return VB_MAD_BAD_VALUE;
	if (request->set)
		memcpy(table, request->data, 64);
	memcpy(request->data, table, 64);
	return VB_MAD_OK;
}

static uint16_t linear_table(struct request *request)
{
	uint8_t *block;

	if (request->block >= VB_FABRIC_LIDS / 64)
		return VB_MAD_BAD_VALUE;
	block = request->node->linear + 64 * request->block;
	if (request->set)
		memcpy(block, request->data, 64);
	memcpy(request->data, block, 64);
	return VB_MAD_OK;
}

/* 32 groups, 16 ports of each. */
static uint16_t multicast_table(struct request *request)
{
	unsigned position = request->modifier >> 28, block = request->modifier & 0x1ff;

	if (block >= VB_FABRIC_GROUPS / 32 || position * 16 > request->node->ports || (request->modifier & 0x0ffffe00) != 0)
		return VB_MAD_BAD_VALUE;
	for (unsigned i = 0; i < 32; i++) {
		struct be16 *entry = &request->node->multicast[32 * block + i][position];

		if (request->set)
			memcpy(entry, request->data + 2 * i, 2);
		memcpy(request->data + 2 * i, entry, 2);
	}
	return VB_MAD_OK;
}

static handler *const handlers[VB_ATTRIBUTE_COUNT] = {
	[VB_ATTRIBUTE_NODE_DESCRIPTION] = node_description,
	[VB_ATTRIBUTE_NODE_INFO] = node_info,
	[VB_ATTRIBUTE_SWITCH_INFO] = switch_info,
	[VB_ATTRIBUTE_GUID_INFO] = guid_info,
	[VB_ATTRIBUTE_PORT_INFO] = port_info,
	[VB_ATTRIBUTE_PKEY_TABLE] = pkey_table,
	[VB_ATTRIBUTE_SL_TO_VL] = sl_to_vl,
	[VB_ATTRIBUTE_VL_ARBITRATION] = vl_arbitration,
	[VB_ATTRIBUTE_LINEAR_TABLE] = linear_table,
	[VB_ATTRIBUTE_MULTICAST_TABLE] = multicast_table,
};

/* A port's number; 0 is that of a switch, or of an adapter the one by which the SMP came. */
static bool find_port(struct request *request, unsigned number)
{
	struct vb_fabric_node *node = request->node;

	if (number > node->ports)
		return false;
	request->port = number == 0 && node->type != VB_NODE_SWITCH ? request->arrival : &node->port[number];
	return true;
}

static bool read_modifier(struct request *request, enum vb_attribute_modifier kind)
{
	uint32_t modifier = request->modifier;

	request->port = request->arrival;
	switch (kind) {
	case VB_MODIFIER_NONE:
	case VB_MODIFIER_IN_OUT_PORT:
	case VB_MODIFIER_POSITION_BLOCK:
		return true;
	case VB_MODIFIER_BLOCK:
		request->block = modifier;
		return true;
	case VB_MODIFIER_PORT:
		/* The highest bit: the manager knows of extended speeds. */
		return (modifier & 0x7fffff00) == 0 && find_port(request, modifier & 0xff);
	case VB_MODIFIER_PORT_BLOCK:
		request->block = modifier & 0xffff;
		/* An adapter has the table of the port that is asked, whatever the upper half says (IBA 14.2.5.7). */
		return find_port(request, request->node->type == VB_NODE_SWITCH ? modifier >> 16 : 0);
	case VB_MODIFIER_PART_PORT:
		request->part = modifier >> 16;
		return find_port(request, request->node->type == VB_NODE_SWITCH ? modifier & 0xffff : 0);
	}
	return false;
}

/* IBA 14.2.4: with a key set, only who knows it may Set, and by the protection level Get. */
static bool key_opens(struct request *request, const struct vb_smp *smp)
{
	struct vb_port_info *info = &vb_fabric_port_base(request->arrival)->info;
	uint64_t key = be64_get(info->m_key);
	unsigned level = info->protect_lmc >> 6;

	if (key == 0 || be64_get(smp->m_key) == key || (!request->set && level < 2))
		return true;
	if (be16_get(info->m_key_violations) != 0xffff)
		info->m_key_violations = be16_of((uint16_t)(be16_get(info->m_key_violations) + 1));
	return false;
}

enum vb_sma_answer vb_sma_receive(struct vb_fabric_port *port, vb_time now, struct vb_mad *mad)
{
	struct vb_smp *smp = (struct vb_smp *)(void *)mad;
	enum vb_attribute attribute = vb_attribute_find(mad->mgmt_class, be16_get(mad->attribute));
	struct request request = {
		.node = port->node,
		.arrival = port,
		.now = now,
		.modifier = be32_get(mad->modifier),
		.set = mad->method == VB_MAD_SET,
		.data = smp->data,
	};
	uint16_t status;

	if (mad->method == VB_MAD_TRAP_REPRESS) {
		vb_fabric_trap_end(port->node, mad);
		return VB_SMA_DROPPED;
	}
	if (vb_mad_is_response(mad) || mad->method == VB_MAD_TRAP || attribute == VB_ATTRIBUTE_SM_INFO)
		return VB_SMA_FOR_SM;
	if (mad->class_version != 1) {
		status = VB_MAD_BAD_VERSION;
	} else if (mad->method != VB_MAD_GET && mad->method != VB_MAD_SET) {
		status = VB_MAD_BAD_METHOD;
	} else if (attribute == VB_ATTRIBUTE_UNKNOWN || !handlers[attribute] ||
		   (vb_attributes[attribute].answerer == VB_ANSWERED_BY_SWITCH && port->node->type != VB_NODE_SWITCH)) {
		status = VB_MAD_BAD_ATTRIBUTE;
	} else if (!key_opens(&request, smp)) {
		return VB_SMA_DROPPED;
	} else if (!read_modifier(&request, vb_attributes[attribute].modifier)) {
		status = VB_MAD_BAD_VALUE;
	} else {
		if (!request.set)
			memset(smp->data, 0, sizeof(smp->data));
		status = handlers[attribute](&request);
	}
	vb_mad_make_response(mad, status);
	return VB_SMA_ANSWERED;
}
