/* SPDX-License-Identifier: MIT
 *
 * What a node is before any subnet manager has come: IBA 14.2.5, power-on values.
 */
#include "fabric/node.h"

#include <stdlib.h>
#include <string.h>

#include "wire/roce_packet.h"

enum {
	MTU_4096 = 5,
	NO_PORT = 0xff,                    /* in a linear table: no way */
	LOCAL_PHYSICAL_ERRORS = 8,
	RESPONSE_TIME = 17,                /* 4.096 us << 17: half a second */
	ENHANCED_PORT_0 = 0,
	DEFAULT_LIFE = 18,
};

#define ADAPTER_CAPABILITIES                                                                                                  \
	(VB_PORT_CAP_TRAP | VB_PORT_CAP_SL_MAPPING | VB_PORT_CAP_SYSTEM_GUID | VB_PORT_CAP_CM | VB_PORT_CAP_VENDOR_CLASS | \
	 VB_PORT_CAP_CAPABILITY_NOTICE | VB_PORT_CAP_CLIENT_REREGISTER)
#define SWITCH_CAPABILITIES (VB_PORT_CAP_TRAP | VB_PORT_CAP_SL_MAPPING | VB_PORT_CAP_SYSTEM_GUID | VB_PORT_CAP_CLIENT_REREGISTER)

/* All widths and speeds up to the best. */
static uint8_t up_to(uint8_t best)
{
	return (uint8_t)(best | (best - 1));
}

void vb_fabric_port_set_rate(struct vb_fabric_port *port, const struct vb_link_rate *rate)
{
	struct vb_port_info *info = &port->info, *base = &vb_fabric_port_base(port)->info;

	port->rate = *rate;
	/* 1x and 4x are all that cables of today have: 8x and 12x add a bit each. */
	info->width_supported = info->width_enabled = rate->width <= 2 ? up_to(rate->width) : (uint8_t)(3 | rate->width);
	info->width_active = rate->width;
	info->speed_state = (uint8_t)(up_to(rate->speed) << 4 | (info->speed_state & 0x0f));
	info->speed_active_enabled = (uint8_t)(rate->speed << 4 | up_to(rate->speed));
	if (rate->extended) {
		info->ext_active_supported = (uint8_t)(rate->extended << 4 | up_to(rate->extended));
		info->ext_enabled = up_to(rate->extended);
		/* Of a switch it is port 0 that says so, for all. */
		base->capabilities = be32_of(be32_get(base->capabilities) | VB_PORT_CAP_EXTENDED_SPEEDS);
	}
}

static void init_port(struct vb_fabric_node *node, uint8_t number, const struct vb_link_rate *rate)
{
	struct vb_fabric_port *port = &node->port[number];
	struct vb_port_info *info = &port->info;
	bool adapter = node->type != VB_NODE_SWITCH, is_base = adapter || number == 0;
	uint32_t capabilities = adapter ? ADAPTER_CAPABILITIES : SWITCH_CAPABILITIES;

	port->node = node;
	port->number = number;
	port->guids[0] = adapter ? node->guid + number : node->guid;
	if (is_base) {
		info->gid_prefix = be64_of(VB_GID_PREFIX);
		info->capabilities = be32_of(capabilities);
		info->guid_cap = VB_FABRIC_GUIDS;
		info->response_time = RESPONSE_TIME;
	}
	info->speed_state = VB_PORT_DOWN;
	vb_fabric_port_set_rate(port, rate);
	info->local_port = number;
	info->physical_default = VB_PHYSICAL_POLLING << 4 | VB_PHYSICAL_POLLING;
	info->mtu_sm_sl = MTU_4096 << 4;
	info->vl_cap_init = 4 << 4; /* VL0..7 */
	info->vl_high_cap = info->vl_low_cap = 32;
	info->init_reply_mtu_cap = MTU_4096;
	info->vls_enforcement = 4 << 4;
	info->error_thresholds = LOCAL_PHYSICAL_ERRORS << 4 | LOCAL_PHYSICAL_ERRORS;
	port->pkeys[0] = be16_of(0xffff);
	/* Port 0 of a switch is joined to it for good. */
	if (!adapter && number == 0) {
		info->speed_state = (uint8_t)((info->speed_state & 0xf0) | VB_PORT_ACTIVE);
		info->physical_default = VB_PHYSICAL_LINK_UP << 4 | VB_PHYSICAL_POLLING;
	}
}

static bool init_switch(struct vb_fabric_node *node)
{
	size_t pairs = ((size_t)node->ports + 1) * ((size_t)node->ports + 1);

	node->linear = malloc(VB_FABRIC_LIDS);
	node->multicast = calloc(VB_FABRIC_GROUPS, sizeof(*node->multicast));
	node->sl_to_vl = calloc(pairs, 8);
	if (!node->linear || !node->multicast || !node->sl_to_vl)
		return false;
	memset(node->linear, NO_PORT, VB_FABRIC_LIDS);
	node->switch_info = (struct vb_switch_info){
		.linear_cap = be16_of(VB_FABRIC_LIDS),
		.multicast_cap = be16_of(VB_FABRIC_GROUPS),
		.life_state = DEFAULT_LIFE << 3,
		.partition_cap = be16_of(VB_FABRIC_PKEYS),
		.flags = ENHANCED_PORT_0,
	};
	return true;
}

static void copy_text(char *to, const char *from)
{
	size_t length = strnlen(from, VB_FABRIC_NAME);

	memset(to, 0, VB_FABRIC_NAME);
	memcpy(to, from, length);
}

struct vb_fabric_node *vb_fabric_node_create(const struct vb_fabric_node_config *config)
{
	struct vb_fabric_node *node = calloc(1, sizeof(*node));

	if (!node)
		return NULL;
	node->type = config->type;
	node->ports = config->ports;
	node->system_guid = config->system_guid ? config->system_guid : config->guid;
	node->guid = config->guid;
	node->vendor = config->vendor;
	node->device = config->device;
	node->revision = config->revision;
	copy_text(node->description, config->description ? config->description : "");
	copy_text(node->id, config->id ? config->id : "");
	node->id[VB_FABRIC_NAME - 1] = '\0';
	node->port = calloc((size_t)config->ports + 1, sizeof(*node->port));
	if (node->port && config->type == VB_NODE_SWITCH && !init_switch(node)) {
		vb_fabric_node_destroy(node);
		return NULL;
	}
	if (node->port && config->type != VB_NODE_SWITCH)
		node->sl_to_vl = calloc((size_t)config->ports + 1, 8);
	if (!node->port || !node->sl_to_vl) {
		vb_fabric_node_destroy(node);
		return NULL;
	}
	for (unsigned i = 0; i <= config->ports; i++)
		init_port(node, (uint8_t)i, &config->rate);
	return node;
}

void vb_fabric_node_destroy(struct vb_fabric_node *node)
{
	free(node->port);
	free(node->linear);
	free(node->multicast);
	free(node->sl_to_vl);
	free(node);
}

bool vb_fabric_port_has_lid(const struct vb_fabric_port *port, uint16_t lid)
{
	uint16_t own = vb_fabric_port_lid(port);

	return own != 0 && lid != 0 && lid >> (port->info.protect_lmc & 7) == own >> (port->info.protect_lmc & 7);
}

uint8_t vb_fabric_port_path_bits(const struct vb_fabric_port *port, uint16_t lid)
{
	return vb_fabric_port_has_lid(port, lid) ? (uint8_t)(lid & ((1u << (port->info.protect_lmc & 7)) - 1)) : 0;
}

int vb_fabric_port_find_pkey(const struct vb_fabric_port *port, uint16_t pkey)
{
	enum { PARTITION = 0x7fff };

	for (unsigned i = 0; (pkey & PARTITION) != 0 && i < VB_FABRIC_PKEYS; i++)
		if (((be16_get(port->pkeys[i]) ^ pkey) & PARTITION) == 0)
			return (int)i;
	return -1;
}

int vb_fabric_port_match_pkey(const struct vb_fabric_port *port, uint16_t pkey)
{
	for (unsigned i = 0; i < VB_FABRIC_PKEYS; i++)
		if (vb_pkeys_match(be16_get(port->pkeys[i]), pkey))
			return (int)i;
	return -1;
}

const char *vb_fabric_port_state_name(enum vb_port_state state)
{
	static const char *const names[] = {"NOP", "DOWN", "INIT", "ARMED", "ACTIVE"};

	return (unsigned)state < sizeof(names) / sizeof(names[0]) ? names[state] : "?";
}

uint8_t *vb_fabric_node_sl_to_vl(struct vb_fabric_node *node, uint8_t in, uint8_t out)
{
	size_t row = node->type == VB_NODE_SWITCH ? (size_t)in * ((size_t)node->ports + 1) + out : out;

	return node->sl_to_vl + 8 * row;
}
