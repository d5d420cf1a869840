/* SPDX-License-Identifier: MIT
 *
 * A node of a subnet: a switch or a channel adapter, with its ports and all that a subnet manager can set on them.
 *
 * Nodes of one process are joined by pointers (`peer`), those of others by cables that the owner of the fabric knows
 * (`cable`). A switch's port 0 is the switch itself; an adapter's ports begin with 1.
 *
 * What the node answers itself are the attributes of wire/mad_attributes.h (sma.c, counters.c). All else that is sent
 * to its QP0 and QP1 goes to its consumer, if it has one: agents.h. An adapter without consumer is a ghost: it is
 * there, and no packet uses it.
 */
#ifndef VB_FABRIC_NODE_H
#define VB_FABRIC_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/time.h"
#include "fabric/counters.h"
#include "wire/ib_packet.h"
#include "wire/mad.h"
#include "wire/mad_attributes.h"

struct vb_fabric;
struct vb_fabric_node;

enum {
	VB_FABRIC_MAX_PORTS = 254,
	VB_FABRIC_PKEYS = 32,              /* PartitionCap: one block */
	VB_FABRIC_GUIDS = 8,
	VB_FABRIC_LIDS = 0xc000,           /* of the linear forwarding table */
	VB_FABRIC_GROUPS = 1024,           /* of the multicast forwarding table */
	VB_FABRIC_POSITIONS = 16,          /* of 16 ports each */
	VB_FABRIC_NAME = 64,
};

/* "4xQDR" and the like: bits of PortInfo. */
struct vb_link_rate {
	uint8_t width;                     /* 1: 1x, 2: 4x, 4: 8x, 8: 12x, 16: 2x */
	uint8_t speed;                     /* 1: SDR, 2: DDR, 4: QDR */
	uint8_t extended;                  /* 0, 1: FDR, 2: EDR, 4: HDR, 8: NDR */
};

struct vb_fabric_port {
	struct vb_fabric_node *node;
	uint8_t number;
	struct vb_fabric_port *peer;       /* NULL: nothing, or a cable */
	void *cable;                       /* of the owner; NULL: none */
	bool cut;                          /* a cable that was cut: it is there, and carries nothing */
	bool cable_is_alive;               /* the other end of `cable` is heard */
	struct vb_link_rate rate;          /* what port and cable can do */
	uint64_t guids[VB_FABRIC_GUIDS];
	struct vb_port_info info;
	struct be16 pkeys[VB_FABRIC_PKEYS];
	uint8_t vl_arbitration[4][64];
	struct vb_fabric_counters counters;
};

/* A notice that is repeated until the subnet manager represses it. */
struct vb_fabric_trap {
	uint16_t number;                   /* 0: none under way */
	uint64_t transaction;
	vb_time deadline, interval;
};

struct vb_fabric_consumer {
	/* A MAD for QP0 or QP1 that the node does not answer. */
	void (*mad)(void *context, vb_time now, struct vb_fabric_port *port, const struct vb_mad_address *address,
		    const struct vb_mad *mad);
	/* A frame for another queue pair. */
	void (*frame)(void *context, vb_time now, struct vb_fabric_port *port, const uint8_t *bytes, size_t length);
	/* State, LIDs, P_Keys or another thing that programs are told of has changed. */
	void (*changed)(void *context, vb_time now, struct vb_fabric_port *port, unsigned what);
};

enum {
	VB_FABRIC_STATE_CHANGED = 1,
	VB_FABRIC_LID_CHANGED = 2,
	VB_FABRIC_SM_CHANGED = 4,
	VB_FABRIC_PKEYS_CHANGED = 8,
	VB_FABRIC_REREGISTER = 16,
	VB_FABRIC_PREFIX_CHANGED = 32,
};

struct vb_fabric_node {
	struct vb_fabric *fabric;
	struct vb_fabric_node *next;       /* in order of creation */
	enum vb_node_type type;
	uint8_t ports;
	uint64_t system_guid, guid;
	uint32_t vendor, device, revision;
	char id[VB_FABRIC_NAME];           /* as the topology file calls it */
	char description[VB_FABRIC_NAME];  /* not necessarily ended by a zero */
	struct vb_fabric_port *port;       /* 0 .. ports; an adapter does not use 0 */
	uint8_t *sl_to_vl;                 /* eight bytes for each pair in, out (a switch) or one (an adapter) per port */
	/* Of a switch: */
	struct vb_switch_info switch_info;
	uint8_t *linear;
	struct be16 (*multicast)[VB_FABRIC_POSITIONS];
	struct vb_fabric_trap trap;
	const struct vb_fabric_consumer *consumer; /* NULL: none */
	void *consumer_context;
};

struct vb_fabric_node_config {
	enum vb_node_type type;
	uint8_t ports;
	uint64_t system_guid, guid;        /* ports of an adapter: guid + number unless set afterwards */
	uint32_t vendor, device, revision;
	const char *id, *description;
	struct vb_link_rate rate;
};

/* NULL: out of memory. It is not in any fabric yet (fabric.h). */
struct vb_fabric_node *vb_fabric_node_create(const struct vb_fabric_node_config *config);
void vb_fabric_node_destroy(struct vb_fabric_node *node);

/* What port and cable can do, and do from now on. */
void vb_fabric_port_set_rate(struct vb_fabric_port *port, const struct vb_link_rate *rate);

/* The port that has the LIDs of the node that is reached by this one: port 0 of a switch, the port itself of an adapter. */
static inline struct vb_fabric_port *vb_fabric_port_base(struct vb_fabric_port *port)
{
	return port->node->type == VB_NODE_SWITCH ? &port->node->port[0] : port;
}

/* Its first: prefix of the subnet and GUID. */
static inline void vb_fabric_port_gid(const struct vb_fabric_port *port, uint8_t gid[16])
{
	struct be64 guid = be64_of(port->guids[0]);

	memcpy(gid, &port->info.gid_prefix, 8);
	memcpy(gid + 8, &guid, 8);
}

static inline enum vb_port_state vb_fabric_port_state(const struct vb_fabric_port *port)
{
	return (enum vb_port_state)(port->info.speed_state & 0x0f);
}

static inline uint16_t vb_fabric_port_lid(const struct vb_fabric_port *port)
{
	return be16_get(port->info.lid);
}

/* Is this LID one of the port's own, LMC counted? */
bool vb_fabric_port_has_lid(const struct vb_fabric_port *port, uint16_t lid);
/* Which of its own that is: the bits that LMC leaves to the sender. 0: another's. */
uint8_t vb_fabric_port_path_bits(const struct vb_fabric_port *port, uint16_t lid);
/* Of its partitions, full or limited member, the one that this P_Key is of: the index in its table; -1: none. */
int vb_fabric_port_find_pkey(const struct vb_fabric_port *port, uint16_t pkey);
/* The index of the P_Key by which QP1 takes a packet with this one (IBA 9.6.1.1.3: any of the table's will do, but not limited with
 * limited); -1: none. */
int vb_fabric_port_match_pkey(const struct vb_fabric_port *port, uint16_t pkey);
const char *vb_fabric_port_state_name(enum vb_port_state state);

/* The sixteen VLs of a pair of ports of a switch, or of a port of an adapter. */
uint8_t *vb_fabric_node_sl_to_vl(struct vb_fabric_node *node, uint8_t in, uint8_t out);

#endif
