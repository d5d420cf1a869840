/* SPDX-License-Identifier: MIT */
#include "fabric/directed_route.h"

static const struct vb_route_decision drop = {.step = VB_ROUTE_DROP}, here = {.step = VB_ROUTE_HERE};

static struct vb_route_decision by_port(const struct vb_fabric_node *node, uint8_t port)
{
	/* A path must not lead back into the switch. */
	if (port == 0 || port > node->ports)
		return drop;
	return (struct vb_route_decision){.step = VB_ROUTE_PORT, .port = port};
}

static struct vb_route_decision by_lid(const struct vb_fabric_node *node, uint16_t lid)
{
	return node->type == VB_NODE_SWITCH ? (struct vb_route_decision){.step = VB_ROUTE_LID, .lid = lid} : drop;
}

/* C14-9. */
static struct vb_route_decision receive_outgoing(const struct vb_fabric_node *node, uint8_t in, struct vb_mad *mad, struct vb_smp *smp)
{
	uint8_t pointer = mad->hop_pointer, count = mad->hop_count;
	bool is_switch = node->type == VB_NODE_SWITCH;

	/* The first switch behind a part by LID: here the directed part begins. From a neighbour it must have begun already. */
	if (count != 0 && pointer == 0) {
		if (!is_switch || be16_get(smp->dr_slid) == VB_PERMISSIVE_LID)
			return drop;
		mad->hop_pointer = 1;
		return by_port(node, smp->initial_path[1]);
	}
	if (pointer != 0 && pointer < count) {
		if (!is_switch)
			return drop;
		smp->return_path[pointer] = in;
		mad->hop_pointer++;
		return by_port(node, smp->initial_path[mad->hop_pointer]);
	}
	if (pointer == count) {
		if (count != 0)
			smp->return_path[pointer] = in;
		mad->hop_pointer++;
		return be16_get(smp->dr_dlid) == VB_PERMISSIVE_LID ? here : by_lid(node, be16_get(smp->dr_dlid));
	}
	/* Behind the directed part: it came by LID, and we are who that is. */
	return pointer == count + 1 ? here : drop;
}

/* C14-13. */
static struct vb_route_decision receive_returning(const struct vb_fabric_node *node, struct vb_mad *mad, const struct vb_smp *smp)
{
	uint8_t pointer = mad->hop_pointer, count = mad->hop_count;

	/* Where the directed part ended on the way out, the answer has come by LID. */
	if (count != 0 && pointer == count + 1) {
		if (node->type != VB_NODE_SWITCH)
			return drop;
		mad->hop_pointer--;
		return by_port(node, smp->return_path[mad->hop_pointer]);
	}
	if (pointer >= 2 && pointer <= count) {
		if (node->type != VB_NODE_SWITCH)
			return drop;
		mad->hop_pointer--;
		return by_port(node, smp->return_path[mad->hop_pointer]);
	}
	if (pointer == 1) {
		mad->hop_pointer--;
		return be16_get(smp->dr_slid) == VB_PERMISSIVE_LID ? here : by_lid(node, be16_get(smp->dr_slid));
	}
	return pointer == 0 ? here : drop;
}

struct vb_route_decision vb_directed_route_receive(const struct vb_fabric_node *node, uint8_t in, struct vb_mad *mad)
{
	struct vb_smp *smp = (struct vb_smp *)(void *)mad;

	if (mad->hop_count >= VB_SMP_PATH)
		return drop;
	return be16_get(mad->status) & VB_SMP_RETURNING ? receive_returning(node, mad, smp) : receive_outgoing(node, in, mad, smp);
}

struct vb_route_decision vb_directed_route_send(const struct vb_fabric_node *node, struct vb_mad *mad)
{
	struct vb_smp *smp = (struct vb_smp *)(void *)mad;

	if (mad->hop_count >= VB_SMP_PATH)
		return drop;
	if (be16_get(mad->status) & VB_SMP_RETURNING) {
		if (mad->hop_pointer != mad->hop_count + 1)
			return drop;
		/* To ourselves, or the last part was by LID: back by LID to who sent it on. */
		if (mad->hop_count == 0) {
			mad->hop_pointer = 0;
			return be16_get(smp->dr_slid) == VB_PERMISSIVE_LID ?
				       here : (struct vb_route_decision){.step = VB_ROUTE_LID, .lid = be16_get(smp->dr_slid)};
		}
		if (be16_get(smp->dr_dlid) != VB_PERMISSIVE_LID)
			return (struct vb_route_decision){.step = VB_ROUTE_LID};
		mad->hop_pointer--;
		return by_port(node, smp->return_path[mad->hop_pointer]);
	}
	if (mad->hop_pointer != 0)
		return drop;
	/* The first part is by LID: LRH.DLID says whereto. */
	if (be16_get(smp->dr_slid) != VB_PERMISSIVE_LID)
		return (struct vb_route_decision){.step = VB_ROUTE_LID};
	if (mad->hop_count == 0)
		return here;
	mad->hop_pointer = 1;
	return by_port(node, smp->initial_path[1]);
}
