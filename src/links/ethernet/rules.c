/* SPDX-License-Identifier: MIT
 *
 * Flow rules of this process, a table for each interface, and which frames its sockets let in for them.
 */
#include <errno.h>
#include <stdlib.h>

#include "io/ethernet.h"
#include "links/ethernet/ethernet_link.h"
#include "queue/qp.h"

static struct vb_ethernet_rules *find(const struct vb_ethernet_link *ethernet, uint32_t interface_index)
{
	VB_LIST_FOR_EACH(node, &ethernet->rules) {
		struct vb_ethernet_rules *rules = vb_container_of(node, struct vb_ethernet_rules, node);

		if (rules->interface_index == interface_index)
			return rules;
	}
	return NULL;
}

const struct vb_flow_table *vb_ethernet_table(const struct vb_ethernet_link *ethernet, uint32_t interface_index)
{
	const struct vb_ethernet_rules *rules = find(ethernet, interface_index);

	return rules ? &rules->table : NULL;
}

static struct vb_ethernet_rules *make(struct vb_ethernet_link *ethernet, uint32_t interface_index)
{
	struct vb_ethernet_rules *rules = calloc(1, sizeof(*rules));

	if (!rules)
		return NULL;
	rules->interface_index = interface_index;
	vb_flow_table_init(&rules->table);
	vb_list_append(&ethernet->rules, &rules->node);
	return rules;
}

void vb_ethernet_forget_rules(struct vb_ethernet_link *ethernet)
{
	VB_LIST_FOR_EACH(node, &ethernet->rules) {
		vb_list_remove(node);
		free(vb_container_of(node, struct vb_ethernet_rules, node));
	}
}

/* Which frames its rules may match. An adapter's steering is not bound by the addresses that the interface takes, so nor is this.
 * Caller holds progress. */
static enum vb_packet_socket_reach wanted(const struct vb_ethernet_port *port, const struct vb_flow_table *table)
{
	enum vb_packet_socket_reach reach = VB_PACKETS_NONE;
	uint8_t own[6];

	vb_ethernet_own_address(port->fd, port->interface_index, own);
	VB_LIST_FOR_EACH(node, &table->rules) {
		const struct vb_flow_rule *rule = vb_container_of(node, struct vb_flow_rule, node);

		if (rule->qp != port->qp)
			continue;
		if (!vb_flow_rule_is_for(rule, own))
			return VB_PACKETS_ALL;
		reach = VB_PACKETS_OWN;
	}
	return reach;
}

static void let_in(struct vb_ethernet_link *ethernet, struct vb_ethernet_port *port, enum vb_packet_socket_reach reach)
{
	vb_lock_take(&port->qp->lock);
	port->wanted = reach;
	vb_ethernet_port_listen(ethernet, port);
	vb_lock_release(&port->qp->lock);
}

int vb_ethernet_steer(struct vb_link *link, struct vb_qp *qp, struct vb_flow_rule *rule)
{
	struct vb_ethernet_link *ethernet = vb_ethernet_link_of(link);
	struct vb_ethernet_port *port;
	struct vb_ethernet_rules *rules;
	uint8_t own[6];

	vb_lock_take(&link->schedule->progress);
	port = vb_ethernet_port_of(ethernet, qp);
	rules = find(ethernet, port->interface_index);
	if (!rules)
		rules = make(ethernet, port->interface_index);
	if (rules) {
		rule->qp = qp;
		vb_flow_table_add(&rules->table, rule);
		port->rules++;
		/* Before it, frames came in as far as the others need. */
		vb_ethernet_own_address(port->fd, port->interface_index, own);
		if (!vb_flow_rule_is_for(rule, own))
			let_in(ethernet, port, VB_PACKETS_ALL);
		else if (port->rules == 1)
			let_in(ethernet, port, VB_PACKETS_OWN);
	}
	vb_lock_release(&link->schedule->progress);
	return rules ? 0 : -ENOMEM;
}

void vb_ethernet_unsteer(struct vb_link *link, struct vb_flow_rule *rule)
{
	struct vb_ethernet_link *ethernet = vb_ethernet_link_of(link);
	struct vb_ethernet_port *port;
	uint8_t own[6];

	vb_lock_take(&link->schedule->progress);
	port = vb_ethernet_port_of(ethernet, rule->qp);
	vb_list_remove(&rule->node);
	if (port) {
		port->rules--;
		vb_ethernet_own_address(port->fd, port->interface_index, own);
		if (port->rules == 0)
			let_in(ethernet, port, VB_PACKETS_NONE);
		else if (!vb_flow_rule_is_for(rule, own))
			let_in(ethernet, port, wanted(port, &find(ethernet, port->interface_index)->table));
	}
	vb_lock_release(&link->schedule->progress);
}
