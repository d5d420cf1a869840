/* SPDX-License-Identifier: MIT */
#include "fabric/adapter.h"

#include <errno.h>
#include <string.h>

#define ASK_INTERVAL VB_MILLISECONDS(200)
#define ASK_PATIENCE VB_SECONDS(3)

void vb_adapter_init(struct vb_adapter *adapter, const struct vb_adapter_host *host, void *context)
{
	*adapter = (struct vb_adapter){.host = host, .context = context};
}

static void drop_node(struct vb_adapter *adapter)
{
	if (!adapter->has_node)
		return;
	vb_agents_fini(&adapter->agents);
	vb_fabric_fini(&adapter->fabric);
	adapter->has_node = false;
	adapter->port = NULL;
}

void vb_adapter_fini(struct vb_adapter *adapter)
{
	drop_node(adapter);
}

static void send_message(struct vb_adapter *adapter, const union vb_cable_message *message)
{
	enum vb_cable_kind kind = (enum vb_cable_kind)be16_get(message->header.kind);

	adapter->host->send(adapter->context, &adapter->address, message, vb_cable_length(kind), NULL, 0);
}

/* ---- the node ---- */

static bool transmit(void *context, struct vb_fabric_port *port, const uint8_t *bytes, size_t length)
{
	struct vb_adapter *adapter = context;
	struct vb_cable_header header = {.key = be32_of(adapter->cable.key), .kind = be16_of(VB_CABLE_FRAME)};

	if (!port->cable)
		return false;
	if (adapter->host->passed)
		adapter->host->passed(adapter->context, true, bytes, length);
	adapter->host->send(adapter->context, &adapter->address, &header, sizeof(header), bytes, length);
	return true;
}

static void restarted(void *context, struct vb_fabric_port *port, vb_time now)
{
	struct vb_adapter *adapter = context;

	(void)port;
	vb_cable_end_restarted(&adapter->cable, now);
}

static void changed(void *context, vb_time now, struct vb_fabric_port *port, unsigned what)
{
	struct vb_adapter *adapter = context;

	(void)now;
	(void)port;
	adapter->host->changed(adapter->context, what);
}

static void take_mad(void *context, vb_time now, struct vb_fabric_port *port, const struct vb_mad_address *address,
		     const struct vb_mad *mad)
{
	vb_agents_receive(&((struct vb_adapter *)context)->agents, now, port, address, mad);
}

static void take_frame(void *context, vb_time now, struct vb_fabric_port *port, const uint8_t *bytes, size_t length)
{
	struct vb_adapter *adapter = context;

	(void)now;
	(void)port;
	if (adapter->host->frame)
		adapter->host->frame(adapter->context, bytes, length);
}

static const struct vb_fabric_host fabric_host = {.transmit = transmit, .restarted = restarted};
static const struct vb_fabric_consumer consumer = {.mad = take_mad, .frame = take_frame, .changed = changed};

static bool is_same_node(const struct vb_adapter *adapter, const struct vb_cable_accept *accept)
{
	return adapter->has_node && adapter->port->node->guid == be64_get(accept->node_guid) &&
	       adapter->port->guids[0] == be64_get(accept->port_guid) && adapter->port->number == accept->port;
}

static bool make_node(struct vb_adapter *adapter, const struct vb_cable_accept *accept)
{
	struct vb_fabric_node_config config = {
		.type = VB_NODE_CA,
		.ports = accept->ports,
		.system_guid = be64_get(accept->system_guid),
		.guid = be64_get(accept->node_guid),
		.vendor = be32_get(accept->vendor),
		.device = be32_get(accept->device),
		.revision = be32_get(accept->revision),
		.description = accept->description,
		.rate = {.width = accept->width, .speed = accept->speed, .extended = accept->extended},
	};
	struct vb_fabric_node *node = vb_fabric_node_create(&config);

	if (!node)
		return false;
	drop_node(adapter);
	vb_fabric_init(&adapter->fabric, &fabric_host, adapter);
	vb_fabric_add(&adapter->fabric, node);
	node->consumer = &consumer;
	node->consumer_context = adapter;
	adapter->port = &node->port[accept->port];
	adapter->port->guids[0] = be64_get(accept->port_guid);
	vb_agents_init(&adapter->agents, adapter->port, &adapter->host->agents, adapter->context);
	adapter->has_node = true;
	return true;
}

/* ---- joining ---- */

static void ask(struct vb_adapter *adapter, vb_time now)
{
	union vb_cable_message message;

	vb_cable_begin(&message, VB_CABLE_JOIN, 0);
	message.join = adapter->join;
	message.join.nonce = be64_of(adapter->nonce);
	send_message(adapter, &message);
	adapter->next_ask = now + ASK_INTERVAL;
}

int vb_adapter_join(struct vb_adapter *adapter, vb_time now, const struct vb_cable_address *fabric, uint64_t guid, uint64_t nonce,
		    uint8_t mtu, const char *description, const char *wanted)
{
	union vb_cable_message message;

	if (adapter->state != VB_ADAPTER_IDLE)
		return -EALREADY;
	vb_cable_begin(&message, VB_CABLE_JOIN, 0);
	message.join.guid = be64_of(guid);
	memcpy(message.join.description, description, strnlen(description, VB_CABLE_NAME - 1));
	memcpy(message.join.wanted, wanted, strnlen(wanted, VB_CABLE_NAME - 1));
	adapter->join = message.join;
	adapter->address = *fabric;
	adapter->nonce = nonce;
	adapter->mtu = mtu;
	adapter->state = VB_ADAPTER_ASKING;
	adapter->give_up = now + ASK_PATIENCE;
	ask(adapter, now);
	return 0;
}

void vb_adapter_leave(struct vb_adapter *adapter, vb_time now)
{
	union vb_cable_message message;

	(void)now;
	if (adapter->state == VB_ADAPTER_JOINED) {
		vb_cable_begin(&message, VB_CABLE_LEAVE, adapter->cable.key);
		send_message(adapter, &message);
	}
	adapter->state = VB_ADAPTER_IDLE;
	drop_node(adapter);
}

static void on_accept(struct vb_adapter *adapter, vb_time now, const struct vb_cable_accept *accept)
{
	bool first = !adapter->has_node || adapter->give_up != VB_TIME_NEVER;

	if (!is_same_node(adapter, accept) && !make_node(adapter, accept)) {
		vb_adapter_leave(adapter, now);
		adapter->host->joined(adapter->context, -ENOMEM, "out of memory");
		return;
	}
	vb_cable_end_init(&adapter->cable, &adapter->address, be32_get(accept->header.key), adapter->port, now);
	memcpy(adapter->where, accept->where, sizeof(adapter->where));
	adapter->state = VB_ADAPTER_JOINED;
	adapter->give_up = VB_TIME_NEVER;
	if (first)
		adapter->host->joined(adapter->context, 0, adapter->where);
}

static bool address_is(const struct vb_cable_address *a, const struct vb_cable_address *b)
{
	return memcmp(a->gid, b->gid, 16) == 0 && a->port == b->port;
}

void vb_adapter_receive(struct vb_adapter *adapter, vb_time now, const struct vb_cable_address *from, uint8_t *bytes, size_t length)
{
	enum vb_cable_kind kind = vb_cable_check(bytes, length);
	union vb_cable_message message;
	struct vb_cable_header header;

	if (kind == 0 || adapter->state == VB_ADAPTER_IDLE || !address_is(from, &adapter->address))
		return;
	memcpy(&header, bytes, sizeof(header));
	if (kind == VB_CABLE_FRAME) {
		if (adapter->state != VB_ADAPTER_JOINED || be32_get(header.key) != adapter->cable.key)
			return;
		if (adapter->host->passed)
			adapter->host->passed(adapter->context, false, bytes + sizeof(header), length - sizeof(header));
		vb_fabric_receive(&adapter->fabric, now, adapter->port, bytes + sizeof(header), length - sizeof(header));
		return;
	}
	memcpy(&message, bytes, length);
	if (kind == VB_CABLE_ACCEPT && adapter->state == VB_ADAPTER_ASKING && be64_get(message.accept.nonce) == adapter->nonce) {
		on_accept(adapter, now, &message.accept);
	} else if (kind == VB_CABLE_REFUSE && adapter->state == VB_ADAPTER_ASKING && be64_get(message.refuse.nonce) == adapter->nonce) {
		bool first = adapter->give_up != VB_TIME_NEVER;

		/* One that was joined keeps trying: its place may become free. */
		if (first) {
			adapter->state = VB_ADAPTER_IDLE;
			adapter->host->joined(adapter->context, -ECONNREFUSED, message.refuse.why);
		}
	} else if (adapter->state == VB_ADAPTER_JOINED && be32_get(header.key) == adapter->cable.key) {
		if (kind == VB_CABLE_KEEP_ALIVE)
			vb_cable_end_heard(&adapter->cable, now, &message.keep_alive);
		else if (kind == VB_CABLE_LEAVE)
			adapter->cable.lost_at = now;
	}
}

/* ---- time ---- */

vb_time vb_adapter_deadline(const struct vb_adapter *adapter)
{
	vb_time deadline = VB_TIME_NEVER;

	if (adapter->state == VB_ADAPTER_ASKING)
		deadline = vb_time_earlier(adapter->next_ask, adapter->give_up);
	if (adapter->state == VB_ADAPTER_JOINED)
		deadline = vb_cable_end_deadline(&adapter->cable);
	if (adapter->state == VB_ADAPTER_JOINED && vb_cable_end_speaks(&adapter->cable))
		deadline = vb_time_earlier(deadline, adapter->cable.lost_at);
	if (adapter->has_node) {
		deadline = vb_time_earlier(deadline, vb_fabric_deadline(&adapter->fabric));
		deadline = vb_time_earlier(deadline, vb_agents_deadline(&adapter->agents));
	}
	return deadline;
}

/* The fabric is silent: the port is down, and it may be that the fabric does not know of us any more. */
static void lose_cable(struct vb_adapter *adapter, vb_time now)
{
	vb_fabric_detach(adapter->port, now);
	adapter->state = VB_ADAPTER_ASKING;
	ask(adapter, now);
}

void vb_adapter_expire(struct vb_adapter *adapter, vb_time now)
{
	union vb_cable_message message;

	if (adapter->state == VB_ADAPTER_JOINED && now >= adapter->cable.lost_at && vb_cable_end_speaks(&adapter->cable))
		lose_cable(adapter, now);
	if (adapter->state == VB_ADAPTER_JOINED && vb_cable_end_expire(&adapter->cable, now, &message))
		send_message(adapter, &message);
	if (adapter->state == VB_ADAPTER_ASKING && now >= adapter->give_up) {
		adapter->state = VB_ADAPTER_IDLE;
		adapter->host->joined(adapter->context, -ETIMEDOUT, "no fabric answers there: is `verbena fabric up` running?");
	}
	if (adapter->state == VB_ADAPTER_ASKING && now >= adapter->next_ask)
		ask(adapter, now);
	if (adapter->has_node) {
		vb_fabric_expire(&adapter->fabric, now);
		vb_agents_expire(&adapter->agents, now);
	}
}
