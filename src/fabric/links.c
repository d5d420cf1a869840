/* SPDX-License-Identifier: MIT */
#include "fabric/links.h"

#include "fabric/fabric.h"
#include "fabric/traps.h"

static bool is_disabled(const struct vb_fabric_port *port)
{
	return port->info.physical_default >> 4 == VB_PHYSICAL_DISABLED;
}

bool vb_fabric_link_is_up(const struct vb_fabric_port *port)
{
	if (port->cut || is_disabled(port))
		return false;
	if (port->peer)
		return !port->peer->cut && !is_disabled(port->peer);
	return port->cable && port->cable_is_alive;
}

void vb_fabric_port_tell(struct vb_fabric_port *port, unsigned what, vb_time now)
{
	struct vb_fabric_node *node = port->node;

	if (node->consumer && node->consumer->changed)
		node->consumer->changed(node->consumer_context, now, port, what);
	if (node->fabric && node->fabric->host && node->fabric->host->port_changed)
		node->fabric->host->port_changed(node->fabric->host_context, port);
}

void vb_fabric_port_set_state(struct vb_fabric_port *port, enum vb_port_state state, vb_time now)
{
	enum vb_port_state before = vb_fabric_port_state(port);
	uint8_t physical = state == VB_PORT_DOWN ? (is_disabled(port) ? VB_PHYSICAL_DISABLED : VB_PHYSICAL_POLLING) : VB_PHYSICAL_LINK_UP;

	port->info.speed_state = (uint8_t)((port->info.speed_state & 0xf0) | state);
	port->info.physical_default = (uint8_t)(physical << 4 | (port->info.physical_default & 0x0f));
	if (state != before)
		vb_fabric_port_tell(port, VB_FABRIC_STATE_CHANGED, now);
}

/* Down, or from down to INIT, not by a subnet manager's word: a switch says so (IBA 14.2.5.4, 14.3.7). */
static void note_change(struct vb_fabric_port *port, vb_time now)
{
	if (port->node->type != VB_NODE_SWITCH)
		return;
	port->node->switch_info.life_state |= VB_SWITCH_STATE_CHANGE;
	vb_fabric_trap_begin(port->node, VB_TRAP_LINK_STATE, now);
}

static void update_end(struct vb_fabric_port *port, bool up, vb_time now)
{
	enum vb_port_state state = vb_fabric_port_state(port);

	if (up == (state != VB_PORT_DOWN))
		return;
	if (!up)
		port->counters.link_downed++;
	vb_fabric_port_set_state(port, up ? VB_PORT_INIT : VB_PORT_DOWN, now);
	note_change(port, now);
}

void vb_fabric_link_update(struct vb_fabric_port *port, vb_time now)
{
	bool up = vb_fabric_link_is_up(port);

	update_end(port, up, now);
	if (port->peer)
		update_end(port->peer, up, now);
}

static void restart_end(struct vb_fabric_port *port, vb_time now)
{
	port->counters.link_downed++;
	vb_fabric_port_set_state(port, VB_PORT_DOWN, now);
	vb_fabric_port_set_state(port, VB_PORT_INIT, now);
	note_change(port, now);
}

void vb_fabric_link_restart(struct vb_fabric_port *port, vb_time now)
{
	if (!vb_fabric_link_is_up(port))
		return;
	restart_end(port, now);
	if (port->peer)
		restart_end(port->peer, now);
}

void vb_fabric_link_restart_both(struct vb_fabric_port *port, vb_time now)
{
	const struct vb_fabric *fabric = port->node->fabric;

	vb_fabric_link_restart(port, now);
	if (port->cable && fabric->host->restarted)
		fabric->host->restarted(fabric->host_context, port, now);
}

bool vb_fabric_port_may_become(const struct vb_fabric_port *port, unsigned state)
{
	enum vb_port_state now = vb_fabric_port_state(port);

	switch (state) {
	case VB_PORT_NO_CHANGE:
	case VB_PORT_DOWN:
		return true;
	case VB_PORT_ARMED:
		return now == VB_PORT_INIT || now == VB_PORT_ARMED;
	case VB_PORT_ACTIVE:
		return now == VB_PORT_ARMED || now == VB_PORT_ACTIVE;
	default:
		return false;
	}
}
