/* SPDX-License-Identifier: MIT
 *
 * A frame's way: vb_fabric_receive -> carry -> (directed route | unicast | multicast | here) -> leave.
 *
 * A train (fabric.h) takes the same way as one frame would. It is never of VL 15 nor for a group, so only what leaves, what is counted and
 * what has arrived looks at how many there are.
 */
#include "fabric/fabric.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/directed_route.h"
#include "fabric/links.h"
#include "fabric/sma.h"
#include "fabric/switch.h"
#include "fabric/traps.h"

/* Each frame that comes in may be copied to all ports of a switch, and again by its neighbours. */
enum { MOST_WAITING = 4096 };

struct waiting {
	struct vb_list node;
	struct vb_fabric_port *at;         /* where it comes in */
	bool from_self;                    /* its node has sent it to itself: by no cable */
	unsigned hops;
	size_t length;
	uint8_t bytes[];
};

struct passage {
	struct vb_fabric *fabric;
	vb_time now;
	unsigned hops;
	uint8_t *bytes;
	size_t length;
	size_t stride;                     /* of a train */
	unsigned count;                    /* frames; more than one: a train */
	struct vb_ib_frame frame;          /* the first */
};

void vb_fabric_init(struct vb_fabric *fabric, const struct vb_fabric_host *host, void *context)
{
	*fabric = (struct vb_fabric){.host = host, .host_context = context};
	vb_list_init(&fabric->waiting);
}

void vb_fabric_fini(struct vb_fabric *fabric)
{
	while (fabric->first) {
		struct vb_fabric_node *node = fabric->first;

		fabric->first = node->next;
		vb_fabric_node_destroy(node);
	}
	VB_LIST_FOR_EACH(node, &fabric->waiting)
		free(vb_container_of(node, struct waiting, node));
}

void vb_fabric_add(struct vb_fabric *fabric, struct vb_fabric_node *node)
{
	node->fabric = fabric;
	if (fabric->last)
		fabric->last->next = node;
	else
		fabric->first = node;
	fabric->last = node;
	fabric->nodes++;
}

struct vb_fabric_node *vb_fabric_find(const struct vb_fabric *fabric, const char *id)
{
	for (struct vb_fabric_node *node = fabric->first; node; node = node->next)
		if (strcmp(node->id, id) == 0)
			return node;
	return NULL;
}

/* ---- cables ---- */

void vb_fabric_join(struct vb_fabric_port *a, struct vb_fabric_port *b, vb_time now)
{
	a->peer = b;
	b->peer = a;
	vb_fabric_link_update(a, now);
}

void vb_fabric_attach(struct vb_fabric_port *port, void *cable, vb_time now)
{
	port->cable = cable;
	port->cable_is_alive = false;
	vb_fabric_link_update(port, now);
}

void vb_fabric_detach(struct vb_fabric_port *port, vb_time now)
{
	port->cable = NULL;
	port->cable_is_alive = false;
	vb_fabric_link_update(port, now);
}

void vb_fabric_cable_is(struct vb_fabric_port *port, bool alive, vb_time now)
{
	port->cable_is_alive = alive;
	vb_fabric_link_update(port, now);
}

void vb_fabric_cut(struct vb_fabric_port *port, bool cut, vb_time now)
{
	port->cut = cut;
	if (port->peer)
		port->peer->cut = cut;
	vb_fabric_link_update(port, now);
}

/* ---- counting ---- */

/* So many frames of one length. */
static void count_transmit(struct vb_fabric_port *port, size_t length, unsigned count, bool multicast)
{
	port->counters.transmit_data += count * (length / 4);
	port->counters.transmit_packets += count;
	if (multicast)
		port->counters.multicast_transmit += count;
	else
		port->counters.unicast_transmit += count;
}

static void count_receive(struct vb_fabric_port *port, size_t length, unsigned count, bool multicast)
{
	port->counters.receive_data += count * (length / 4);
	port->counters.receive_packets += count;
	if (multicast)
		port->counters.multicast_receive += count;
	else
		port->counters.unicast_receive += count;
}

static bool is_multicast(uint16_t dlid)
{
	return dlid >= VB_MULTICAST_LID && dlid != VB_PERMISSIVE_LID;
}

/* Out of a port SMPs pass as soon as there is a link, other packets when it is active (IBA 7.2.7). */
static bool port_carries(const struct vb_fabric_port *port, const struct vb_ib_frame *frame)
{
	enum vb_port_state state = vb_fabric_port_state(port);

	return frame->route.vl == VB_IB_MANAGEMENT_VL ? state >= VB_PORT_INIT : state == VB_PORT_ACTIVE;
}

/* Into a port other packets pass when it is armed, too: they make it active, for the port that sent them is (IBA 7.2.7). A subnet
 * manager's word comes to the two ends of a cable one after the other. */
static bool port_takes(struct vb_fabric_port *port, const struct vb_ib_frame *frame, vb_time now)
{
	if (frame->route.vl != VB_IB_MANAGEMENT_VL && vb_fabric_port_state(port) == VB_PORT_ARMED)
		vb_fabric_port_set_state(port, VB_PORT_ACTIVE, now);
	return port_carries(port, frame);
}

/* ---- one step ---- */

/* By the port's cable. How many frames have left. */
static unsigned transmit(const struct passage *passage, struct vb_fabric_port *port)
{
	const struct vb_fabric *fabric = passage->fabric;
	struct vb_fabric_train train = {
		.bytes = passage->bytes, .length = passage->length, .stride = passage->stride, .count = passage->count};
	unsigned sent = 0;

	if (passage->count > 1 && fabric->host->transmit_train)
		return fabric->host->transmit_train(fabric->host_context, port, &train) ? passage->count : 0;
	for (unsigned i = 0; i < passage->count; i++)
		sent += fabric->host->transmit(fabric->host_context, port, passage->bytes + i * passage->stride, passage->length);
	return sent;
}

/* Leave by a port. Returns the port at the other end, if that is in this process. */
static struct vb_fabric_port *leave(struct passage *passage, struct vb_fabric_port *port)
{
	bool multicast = is_multicast(passage->frame.route.dlid);
	unsigned sent = 0;

	if (port_carries(port, &passage->frame))
		sent = port->peer ? passage->count : transmit(passage, port);
	port->counters.transmit_discards += passage->count - sent;
	if (sent == 0)
		return NULL;
	count_transmit(port, passage->length, sent, multicast);
	if (port->peer)
		count_receive(port->peer, passage->length, sent, multicast);
	return port->peer;
}

static bool keep_for_later(struct vb_fabric *fabric, struct vb_fabric_port *at, unsigned hops, bool from_self, const uint8_t *bytes,
			   size_t length)
{
	struct waiting *waiting = fabric->waiting_count < MOST_WAITING ? malloc(sizeof(*waiting) + length) : NULL;

	if (!waiting) {
		fabric->dropped++;
		return false;
	}
	*waiting = (struct waiting){.at = at, .from_self = from_self, .hops = hops, .length = length};
	memcpy(waiting->bytes, bytes, length);
	vb_list_append(&fabric->waiting, &waiting->node);
	fabric->waiting_count++;
	return true;
}

void vb_fabric_answer(struct vb_fabric_port *port, vb_time now, const struct vb_mad_address *request, const struct vb_mad *mad)
{
	const struct vb_fabric_port *base = vb_fabric_port_base(port);
	struct vb_mad_address back = *request;
	int own = vb_mad_is_smp(mad) ? -1 : vb_fabric_port_match_pkey(base, request->pkey);

	back.route.dlid = request->route.slid;
	back.route.slid = request->route.dlid;
	memcpy(back.route.sgid, request->route.dgid, 16);
	memcpy(back.route.dgid, request->route.sgid, 16);
	back.qpn = request->source_qpn;
	back.source_qpn = request->qpn;
	/* Of the same partition, and the member that this port is of it. */
	if (own >= 0)
		back.pkey = be16_get(base->pkeys[own]);
	(void)vb_fabric_send_mad(port, now, &back, mad);
}

/* Is a MAD for QP1 in a partition of the port's? QP0 has none. */
static bool is_in_partition(struct vb_fabric_port *port, const struct vb_mad_address *address)
{
	struct be16 *violations = &port->info.pkey_violations;

	if (vb_fabric_port_match_pkey(port, address->pkey) >= 0)
		return true;
	if (be16_get(*violations) != UINT16_MAX)
		*violations = be16_of((uint16_t)(be16_get(*violations) + 1));
	return false;
}

/* A MAD for this node, come in by `port` (port 0: from the switch itself). */
static void consume_mad(struct vb_fabric_port *port, vb_time now, const struct vb_mad_address *address, struct vb_mad *mad)
{
	struct vb_fabric_node *node = port->node;

	if (!vb_mad_is_smp(mad) && !is_in_partition(vb_fabric_port_base(port), address))
		return;
	if (vb_mad_is_smp(mad)) {
		switch (vb_sma_receive(port, now, mad)) {
		case VB_SMA_ANSWERED:
			vb_fabric_answer(port, now, address, mad);
			return;
		case VB_SMA_DROPPED:
			return;
		case VB_SMA_FOR_SM:
			break;
		}
	} else if (mad->mgmt_class == VB_MAD_PERFORMANCE && !vb_mad_is_response(mad)) {
		vb_fabric_counters_answer(node, port->number, mad);
		vb_fabric_answer(port, now, address, mad);
		return;
	}
	if (node->consumer)
		node->consumer->mad(node->consumer_context, now, port, address, mad);
}

static void consume_frame(struct passage *passage, struct vb_fabric_port *port)
{
	struct vb_fabric_node *node = port->node;
	struct vb_mad_address address;
	struct vb_mad mad;

	if (vb_mad_frame_decode(&address, &mad, &passage->frame, passage->bytes, passage->length))
		consume_mad(port, passage->now, &address, &mad);
	else if (node->consumer && node->consumer->frame && passage->frame.route.vl != VB_IB_MANAGEMENT_VL)
		node->consumer->frame(node->consumer_context, passage->now, port, passage->bytes, passage->length);
	else
		passage->fabric->dropped++;
}

static void consume(struct passage *passage, struct vb_fabric_port *port)
{
	struct passage one = *passage;

	consume_frame(passage, port);
	one.count = 1;
	for (unsigned i = 1; i < passage->count; i++) {
		one.bytes += passage->stride;
		if (vb_ib_frame_decode(&one.frame, one.bytes, one.length))
			consume_frame(&one, port);
	}
}

static void copy_to_group(struct passage *passage, struct vb_fabric_port *port)
{
	struct vb_fabric_node *node = port->node;

	for (unsigned i = 1; i <= node->ports; i++) {
		struct vb_fabric_port *next;

		if (i == port->number || !vb_switch_is_member(node, passage->frame.route.dlid, (uint8_t)i))
			continue;
		next = leave(passage, &node->port[i]);
		if (next)
			(void)keep_for_later(passage->fabric, next, passage->hops + 1, false, passage->bytes, passage->length);
	}
}

/* By the LID. Returns where it comes in next, or NULL. */
static struct vb_fabric_port *step_by_lid(struct passage *passage, struct vb_fabric_port *port)
{
	struct vb_fabric_node *node = port->node;
	int out;

	if (is_multicast(passage->frame.route.dlid)) {
		copy_to_group(passage, port);
		return NULL;
	}
	out = vb_switch_unicast(node, passage->frame.route.dlid);
	if (out == VB_SWITCH_SELF) {
		consume(passage, port);
		return NULL;
	}
	/* Back where it came from would be a loop of one hop; IBA 18.2.4.3.1 has it dropped. */
	if (out == VB_SWITCH_DROP || out == port->number) {
		port->counters.relay_errors += passage->count;
		return NULL;
	}
	return leave(passage, &node->port[out]);
}

/* Write what has become of an SMP back into the frame. */
static void rewrite(struct passage *passage, const struct vb_mad_address *address, const struct vb_mad *mad)
{
	passage->length = vb_mad_frame_encode(address, mad, passage->bytes);
	(void)vb_ib_frame_decode(&passage->frame, passage->bytes, passage->length);
}

static struct vb_fabric_port *step_by_path(struct passage *passage, struct vb_fabric_port *port, struct vb_mad_address *address,
					   struct vb_mad *mad)
{
	struct vb_fabric_node *node = port->node;
	struct vb_route_decision decision = vb_directed_route_receive(node, port->number, mad);

	switch (decision.step) {
	case VB_ROUTE_HERE:
		consume_mad(port, passage->now, address, mad);
		return NULL;
	case VB_ROUTE_PORT:
		address->route.dlid = address->route.slid = VB_PERMISSIVE_LID;
		rewrite(passage, address, mad);
		return leave(passage, &node->port[decision.port]);
	case VB_ROUTE_LID:
		address->route.dlid = decision.lid;
		address->route.slid = vb_fabric_port_lid(&node->port[0]);
		rewrite(passage, address, mad);
		return step_by_lid(passage, &node->port[0]);
	case VB_ROUTE_DROP:
		break;
	}
	port->counters.receive_errors++;
	return NULL;
}

/* A frame comes in by `port`. */
static struct vb_fabric_port *step(struct passage *passage, struct vb_fabric_port *port)
{
	const struct vb_ib_route *route = &passage->frame.route;
	bool is_switch = port->node->type == VB_NODE_SWITCH;
	struct vb_mad_address address;
	struct vb_mad mad;

	/* Not the packet's fault: PortRcvErrors are of those that are damaged or malformed (IBA 16.1.3.5). */
	if (!port_takes(port, &passage->frame, passage->now)) {
		passage->fabric->dropped += passage->count;
		return NULL;
	}
	if (route->vl == VB_IB_MANAGEMENT_VL && (route->dlid == VB_PERMISSIVE_LID || !is_switch ||
						 vb_fabric_port_has_lid(&port->node->port[0], route->dlid)) &&
	    vb_mad_frame_decode(&address, &mad, &passage->frame, passage->bytes, passage->length) &&
	    mad.mgmt_class == VB_MAD_SMP_DIRECTED)
		return step_by_path(passage, port, &address, &mad);
	if (is_switch)
		return step_by_lid(passage, port);
	/* An adapter takes what is for it. QP0 is reached by the permissive LID too: a port may have none yet. */
	if (is_multicast(route->dlid) || vb_fabric_port_has_lid(port, route->dlid) ||
	    (route->dlid == VB_PERMISSIVE_LID && route->vl == VB_IB_MANAGEMENT_VL))
		consume(passage, port);
	else
		port->counters.receive_errors += passage->count;
	return NULL;
}

static void carry(struct passage *passage, struct vb_fabric_port *port)
{
	while (port) {
		if (passage->hops++ > VB_FABRIC_MAX_HOPS) {
			port->counters.relay_errors += passage->count;
			return;
		}
		port = step(passage, port);
	}
}

/* What a node sends to itself passes whatever the state of its port is. */
static void take_from_self(struct passage *passage, struct vb_fabric_port *port)
{
	struct vb_mad_address address;
	struct vb_mad mad;

	if (!vb_mad_frame_decode(&address, &mad, &passage->frame, passage->bytes, passage->length))
		return;
	if (mad.mgmt_class != VB_MAD_SMP_DIRECTED || vb_directed_route_receive(port->node, port->number, &mad).step == VB_ROUTE_HERE)
		consume_mad(port, passage->now, &address, &mad);
}

void vb_fabric_run(struct vb_fabric *fabric, vb_time now)
{
	while (!vb_list_is_empty(&fabric->waiting)) {
		struct waiting *waiting = vb_container_of(fabric->waiting.next, struct waiting, node);
		struct passage passage = {
			.fabric = fabric,
			.now = now,
			.hops = waiting->hops,
			.bytes = waiting->bytes,
			.length = waiting->length,
			.count = 1,
		};

		vb_list_remove(&waiting->node);
		fabric->waiting_count--;
		if (!vb_ib_frame_decode(&passage.frame, passage.bytes, passage.length))
			fabric->dropped++;
		else if (waiting->from_self)
			take_from_self(&passage, waiting->at);
		else
			carry(&passage, waiting->at);
		free(waiting);
	}
}

void vb_fabric_receive(struct vb_fabric *fabric, vb_time now, struct vb_fabric_port *port, uint8_t *bytes, size_t length)
{
	struct passage passage = {.fabric = fabric, .now = now, .bytes = bytes, .length = length, .count = 1};

	if (!vb_ib_frame_decode(&passage.frame, bytes, length)) {
		port->counters.receive_errors++;
		return;
	}
	count_receive(port, length, 1, is_multicast(passage.frame.route.dlid));
	carry(&passage, port);
	vb_fabric_run(fabric, now);
}

void vb_fabric_receive_train(struct vb_fabric *fabric, vb_time now, struct vb_fabric_port *port, const struct vb_fabric_train *train)
{
	struct passage passage = {.fabric = fabric, .now = now, .bytes = train->bytes, .length = train->length, .stride = train->stride,
				  .count = train->count};

	/* Management, and what is copied, frame by frame. */
	if (!vb_ib_frame_decode(&passage.frame, train->bytes, train->length) || passage.frame.route.vl == VB_IB_MANAGEMENT_VL ||
	    passage.frame.route.dlid >= VB_MULTICAST_LID) {
		for (unsigned i = 0; i < train->count; i++)
			vb_fabric_receive(fabric, now, port, train->bytes + i * train->stride, train->length);
		return;
	}
	count_receive(port, train->length, train->count, false);
	carry(&passage, port);
	vb_fabric_run(fabric, now);
}

/* ---- sending ---- */

/* What the node sends to itself takes no cable. */
static int send_to_self(struct vb_fabric_port *port, const struct vb_mad_address *address, const struct vb_mad *mad)
{
	uint8_t bytes[VB_IB_MAD_FRAME];
	size_t length = vb_mad_frame_encode(address, mad, bytes);

	return keep_for_later(port->node->fabric, port, 0, true, bytes, length) ? 0 : -ENOBUFS;
}

/* By that port of the node, from the node itself. */
static int send_by_port(struct vb_fabric_port *port, vb_time now, const struct vb_mad_address *address, const struct vb_mad *mad)
{
	struct vb_fabric *fabric = port->node->fabric;
	uint8_t bytes[VB_IB_MAD_FRAME];
	struct passage passage = {.fabric = fabric, .now = now, .bytes = bytes, .count = 1};
	struct vb_fabric_port *next;

	passage.length = vb_mad_frame_encode(address, mad, bytes);
	(void)vb_ib_frame_decode(&passage.frame, bytes, passage.length);
	next = leave(&passage, port);
	return !next || keep_for_later(fabric, next, 0, false, bytes, passage.length) ? 0 : -ENOBUFS;
}

static int send_by_lid(struct vb_fabric_port *port, vb_time now, struct vb_mad_address *address, const struct vb_mad *mad)
{
	struct vb_fabric_node *node = port->node;
	struct vb_fabric_port *base = vb_fabric_port_base(port);
	int out;

	/* Of several LIDs the sender has chosen one, or an answer comes from the one that was asked (IBA 13.5.4). */
	if (!vb_fabric_port_has_lid(base, address->route.slid))
		address->route.slid = vb_fabric_port_lid(base);
	if (vb_fabric_port_has_lid(base, address->route.dlid))
		return send_to_self(port, address, mad);
	if (node->type != VB_NODE_SWITCH)
		return send_by_port(port, now, address, mad);
	out = vb_switch_unicast(node, address->route.dlid);
	return out > 0 ? send_by_port(&node->port[out], now, address, mad) : -ENETUNREACH;
}

int vb_fabric_send_mad(struct vb_fabric_port *port, vb_time now, const struct vb_mad_address *wanted, const struct vb_mad *message)
{
	struct vb_mad_address address = *wanted;
	struct vb_route_decision decision;
	struct vb_mad mad = *message;

	address.route.vl = vb_mad_is_smp(&mad) ? VB_IB_MANAGEMENT_VL : 0;
	if (mad.mgmt_class != VB_MAD_SMP_DIRECTED)
		return send_by_lid(port, now, &address, &mad);
	decision = vb_directed_route_send(port->node, &mad);
	switch (decision.step) {
	case VB_ROUTE_HERE:
		return send_to_self(port, &address, &mad);
	case VB_ROUTE_PORT:
		address.route.dlid = address.route.slid = VB_PERMISSIVE_LID;
		return send_by_port(&port->node->port[decision.port], now, &address, &mad);
	case VB_ROUTE_LID:
		if (decision.lid != 0)
			address.route.dlid = decision.lid;
		return send_by_lid(port, now, &address, &mad);
	case VB_ROUTE_DROP:
		break;
	}
	return -ENETUNREACH;
}

bool vb_fabric_send_frame(struct vb_fabric_port *port, vb_time now, uint8_t *bytes, size_t length)
{
	struct vb_fabric *fabric = port->node->fabric;
	struct passage passage = {.fabric = fabric, .now = now, .bytes = bytes, .length = length, .count = 1};
	const struct vb_ib_route *route = &passage.frame.route;
	struct vb_fabric_port *next;
	bool own, group;

	if (!vb_ib_frame_decode(&passage.frame, bytes, length) || route->vl == VB_IB_MANAGEMENT_VL ||
	    !vb_fabric_port_has_lid(port, route->slid) || !port_carries(port, &passage.frame)) {
		port->counters.transmit_discards++;
		return false;
	}
	own = vb_fabric_port_has_lid(port, route->dlid);
	group = is_multicast(route->dlid);
	next = own ? NULL : leave(&passage, port);
	if (next)
		(void)keep_for_later(fabric, next, 0, false, bytes, length);
	if (own || group)
		consume(&passage, port);
	return true;
}

/* ---- time ---- */

vb_time vb_fabric_deadline(const struct vb_fabric *fabric)
{
	vb_time deadline = VB_TIME_NEVER;

	for (const struct vb_fabric_node *node = fabric->first; fabric->traps > 0 && node; node = node->next)
		if (node->trap.number != 0)
			deadline = vb_time_earlier(deadline, node->trap.deadline);
	return deadline;
}

void vb_fabric_expire(struct vb_fabric *fabric, vb_time now)
{
	struct vb_mad_address address;
	struct vb_fabric_port *port;
	struct vb_mad mad;

	for (struct vb_fabric_node *node = fabric->first; fabric->traps > 0 && node; node = node->next) {
		port = vb_fabric_trap_take(node, now, &address, &mad);
		/* Lost is lost: it is sent again. */
		if (port)
			(void)vb_fabric_send_mad(port, now, &address, &mad);
	}
	vb_fabric_run(fabric, now);
}
