/* SPDX-License-Identifier: MIT */
#include "daemon/adapter_service.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "daemon/adapter_device.h"
#include "daemon/client.h"
#include "daemon/frame_ports.h"
#include "daemon/mad_port.h"
#include "daemon/mad_taps.h"
#include "daemon/subnet_client.h"
#include "fabric/adapter.h"
#include "io/clock.h"
#include "io/datagram.h"
#include "io/datagram_batch.h"
#include "io/descriptor.h"
#include "io/event.h"
#include "io/random.h"
#include "wire/daemon_message.h"
#include "wire/mtu.h"

/* More than a window of segments comes at once; then others have their turn. */
enum { BATCHES_PER_TURN = 16, MADS_PER_TURN = 64 };

struct vb_adapter_service {
	int poller, fd;                    /* -1: no cable */
	struct vb_datagram_batch *batch;   /* while there is a cable */
	struct vb_datagram_queue *queue;   /* flushed at the end of a turn */
	uint64_t guid;
	uid_t owner;                       /* who joined: he and root manage the fabric from here */
	struct vb_adapter adapter;
	const struct vb_fabric_port *known; /* the adapter's, a turn ago */
	struct vb_client *waiting;         /* for the end of JOIN_FABRIC */
	uint32_t waiting_sequence;
	struct vb_list mad_ports;
	struct vb_frame_ports frame_ports;
	struct vb_mad_taps mad_taps;
	struct vb_subnet_client subnet;
	const struct vb_adapter_watcher *watcher;
	vb_time turn;                      /* when this turn began */
	uint8_t reregister;                /* how often a subnet manager asked for it */
	bool shown;                        /* watchers know of `device` */
	struct vb_daemon_device device;
};

/* ---- what the adapter asks for ---- */

static void send_datagram(void *context, const struct vb_cable_address *to, const void *head, size_t head_length, const void *body,
			  size_t body_length)
{
	struct vb_adapter_service *service = context;

	vb_datagram_queue_add(service->queue, to->gid, to->port, to->interface_index, head, head_length, body, body_length);
}

static void send_end(struct vb_client *client, uint32_t sequence, uint32_t count)
{
	struct vb_daemon_message message;

	vb_daemon_message_begin(&message, VB_DAEMON_END, sequence);
	message.end.count = count;
	vb_client_send(client, &message);
}

static void joined(void *context, int error, const char *text)
{
	struct vb_adapter_service *service = context;
	struct vb_client *client = service->waiting;

	vb_log(VB_LOG_INFO, "fabric: %s%s", error == 0 ? "joined at " : "", text);
	service->waiting = NULL;
	if (!client)
		return;
	if (error == 0)
		send_end(client, service->waiting_sequence, 0);
	else
		vb_client_refuse(client, service->waiting_sequence, error, text);
}

static void changed(void *context, unsigned what)
{
	struct vb_adapter_service *service = context;

	service->reregister += (what & VB_FABRIC_REREGISTER) != 0;
	if (what & (VB_FABRIC_STATE_CHANGED | VB_FABRIC_LID_CHANGED | VB_FABRIC_SM_CHANGED | VB_FABRIC_REREGISTER))
		vb_subnet_client_register(&service->subnet);
	if (what & (VB_FABRIC_STATE_CHANGED | VB_FABRIC_LID_CHANGED))
		vb_log(VB_LOG_INFO, "vib0: %s, lid %u", vb_fabric_port_state_name(vb_fabric_port_state(service->adapter.port)),
		       vb_fabric_port_lid(service->adapter.port));
}

/* A MAD for an agent of a process. */
static void deliver(void *context, void *owner, uint32_t agent, int status, const struct vb_mad_address *address, const void *message,
		    size_t length)
{
	const struct vb_ib_route *route = &address->route;
	struct vb_adapter_service *service = context;
	const struct vb_fabric_port *own = service->adapter.port;
	/* Of what came, the entry by which it was taken; of one's own that comes back, the entry that it went by. */
	int pkey_index = status == 0 ? vb_fabric_port_match_pkey(own, address->pkey) : vb_fabric_port_find_pkey(own, address->pkey);
	struct vb_umad header = {
		.agent = agent,
		.status = (uint32_t)status,
		.length = (uint32_t)(sizeof(header) + length),
		.qpn = be32_of(address->source_qpn),
		.qkey = be32_of(address->qkey),
		.lid = be16_of(route->slid),
		.sl = route->sl,
		.grh_present = route->has_grh,
		.hop_limit = route->hop_limit,
		.traffic_class = route->traffic_class,
		.flow_label = be32_of(route->flow_label),
		.path_bits = vb_fabric_port_path_bits(own, route->dlid),
		.pkey_index = (uint16_t)(pkey_index < 0 ? 0 : pkey_index),
	};

	if (owner == &service->subnet) {
		vb_subnet_client_deliver(&service->subnet, vb_clock_now(), agent, status, address, message, length);
		return;
	}
	/* Of one's own request that was not answered the address is where it went. */
	if (status != 0) {
		header.qpn = be32_of(address->qpn);
		header.lid = be16_of(route->dlid);
		header.path_bits = vb_fabric_port_path_bits(own, route->slid);
	}
	memcpy(header.gid, status ? route->dgid : route->sgid, sizeof(header.gid));
	vb_mad_port_deliver(owner, &header, message, length);
}

/* For a queue pair of a process. */
static void deliver_frame(void *context, const uint8_t *bytes, size_t length)
{
	struct vb_adapter_service *service = context;

	vb_frame_ports_deliver(&service->frame_ports, bytes, length);
}

static void passed(void *context, bool sent, const uint8_t *bytes, size_t length)
{
	struct vb_adapter_service *service = context;

	vb_mad_taps_tell(&service->mad_taps, vb_clock_now(), sent, bytes, length);
}

static const struct vb_adapter_host host = {
	.passed = passed,
	.send = send_datagram,
	.frame = deliver_frame,
	.joined = joined,
	.changed = changed,
	.agents = {.deliver = deliver},
};

/* ---- life ---- */

struct vb_adapter_service *vb_adapter_service_create(int poller, uint64_t host_seed, const struct vb_adapter_watcher *watcher,
						     const struct vb_subnet_host *subnet)
{
	struct vb_adapter_service *service = calloc(1, sizeof(*service));

	if (!service)
		return NULL;
	service->poller = poller;
	service->fd = -1;
	/* A GUID that is locally administered, with room for its ports. */
	service->guid = (host_seed & 0x00ffffffffffff00ull) | 0x0200000000000000ull;
	vb_list_init(&service->mad_ports);
	vb_frame_ports_init(&service->frame_ports, poller);
	vb_mad_taps_init(&service->mad_taps);
	service->watcher = watcher;
	vb_adapter_init(&service->adapter, &host, service);
	vb_subnet_client_init(&service->subnet, &service->adapter, subnet);
	return service;
}

struct vb_subnet_client *vb_adapter_service_subnet(struct vb_adapter_service *service)
{
	return &service->subnet;
}

static void drop_mad_port(struct vb_adapter_service *service, vb_time now, struct vb_mad_port *port)
{
	if (service->adapter.has_node)
		vb_agents_owner_gone(&service->adapter.agents, now, port);
	vb_mad_port_destroy(port);
}

static void close_cable(struct vb_adapter_service *service)
{
	if (service->fd < 0)
		return;
	if (service->queue)
		vb_datagram_queue_flush(service->queue);
	vb_datagram_queue_destroy(service->queue);
	vb_datagram_batch_destroy(service->batch);
	service->queue = NULL;
	service->batch = NULL;
	vb_poller_remove(service->poller, service->fd);
	vb_descriptor_close(service->fd);
	service->fd = -1;
}

/* 0 or -errno. */
static int open_cable(struct vb_adapter_service *service)
{
	int error;

	service->fd = vb_datagram_open(0);
	if (service->fd < 0)
		return service->fd;
	service->batch = vb_datagram_batch_create();
	service->queue = service->batch ? vb_datagram_queue_create(service->fd, service->batch) : NULL;
	error = service->queue ? vb_poller_add(service->poller, service->fd, &service->fd) : -ENOMEM;
	if (error != 0)
		close_cable(service);
	return error;
}

/* They are closed at the end of the turn: the poller may have reported one already. */
static void fail_mad_ports(struct vb_adapter_service *service)
{
	VB_LIST_FOR_EACH(node, &service->mad_ports)
		vb_container_of(node, struct vb_mad_port, node)->failed = true;
}

/* The device is gone, and with it every socket for its MADs. */
static void leave(struct vb_adapter_service *service, vb_time now)
{
	fail_mad_ports(service);
	vb_adapter_leave(&service->adapter, now);
	close_cable(service);
}

void vb_adapter_service_destroy(struct vb_adapter_service *service)
{
	if (!service)
		return;
	leave(service, 0);
	vb_adapter_service_run(service, 0);
	vb_frame_ports_fini(&service->frame_ports);
	vb_mad_taps_fini(&service->mad_taps);
	vb_subnet_client_fini(&service->subnet);
	vb_adapter_fini(&service->adapter);
	free(service);
}

void vb_adapter_service_client_gone(struct vb_adapter_service *service, vb_time now, struct vb_client *client)
{
	if (service->waiting == client)
		service->waiting = NULL;
	vb_subnet_client_owner_gone(&service->subnet, now, client);
	VB_LIST_FOR_EACH(node, &service->mad_ports) {
		struct vb_mad_port *port = vb_container_of(node, struct vb_mad_port, node);

		if (port->client == client)
			drop_mad_port(service, now, port);
	}
}

/* ---- messages ---- */

static bool may_manage(const struct vb_adapter_service *service, const struct vb_client *client)
{
	return client->peer.uid == 0 || client->peer.uid == service->owner;
}

/* Frames travel whole: the kernel cuts runs of datagrams for us, not datagrams that the way is too narrow for. */
static uint8_t mtu_code(const struct vb_cable_address *fabric)
{
	unsigned most = vb_datagram_path_mtu(fabric->gid, fabric->port, fabric->interface_index);

	unsigned code = vb_mtu_code(most < VB_CABLE_OVERHEAD ? 0 : most - VB_CABLE_OVERHEAD);

	return (uint8_t)(code < VB_MTU_CODE_MIN ? VB_MTU_CODE_MIN : code);
}

static void on_join(struct vb_adapter_service *service, vb_time now, struct vb_client *client, const struct vb_daemon_message *m)
{
	struct vb_cable_address fabric = {.port = (uint16_t)m->join_fabric.port, .interface_index = m->join_fabric.interface_index};
	int error;

	if (service->adapter.state != VB_ADAPTER_IDLE) {
		vb_client_refuse(client, m->header.sequence, EALREADY,
			"this host has joined a fabric already: `verbena fabric leave` first");
		return;
	}
	error = open_cable(service);
	if (error != 0) {
		vb_client_refuse(client, m->header.sequence, error, "no UDP socket for the cable can be had");
		return;
	}
	memcpy(fabric.gid, m->join_fabric.gid, sizeof(fabric.gid));
	service->owner = client->peer.uid;
	service->waiting = client;
	service->waiting_sequence = m->header.sequence;
	(void)vb_adapter_join(&service->adapter, now, &fabric, service->guid, vb_random_u64(), mtu_code(&fabric),
			      m->join_fabric.description, m->join_fabric.wanted);
}

static void on_leave(struct vb_adapter_service *service, vb_time now, struct vb_client *client, const struct vb_daemon_message *m)
{
	if (service->adapter.state == VB_ADAPTER_IDLE) {
		vb_client_refuse(client, m->header.sequence, ENOENT, "this host has not joined a fabric");
	} else if (!may_manage(service, client)) {
		vb_client_refuse(client, m->header.sequence, EPERM, "another user has joined this host to its fabric");
	} else {
		leave(service, now);
		send_end(client, m->header.sequence, 0);
	}
}

static void on_list(struct vb_adapter_service *service, struct vb_client *client, const struct vb_daemon_message *m)
{
	struct vb_daemon_message answer;

	if (service->adapter.has_node) {
		vb_daemon_message_begin(&answer, VB_DAEMON_ADAPTER, m->header.sequence);
		vb_adapter_fill(&service->adapter, &answer.adapter);
		vb_client_send(client, &answer);
	}
	send_end(client, m->header.sequence, service->adapter.has_node);
}

static struct vb_mad_port *port_of(struct vb_adapter_service *service, const struct vb_client *client)
{
	VB_LIST_FOR_EACH(node, &service->mad_ports) {
		struct vb_mad_port *port = vb_container_of(node, struct vb_mad_port, node);

		if (port->client == client)
			return port;
	}
	return NULL;
}

static void on_open(struct vb_adapter_service *service, struct vb_client *client, const struct vb_daemon_message *m)
{
	struct vb_daemon_message answer;
	struct vb_mad_port *port;
	int other, error;

	if (!service->adapter.has_node) {
		vb_client_refuse(client, m->header.sequence, ENODEV, "this host has not joined a fabric: `verbena fabric join ADDRESS`");
		return;
	}
	if (!may_manage(service, client)) {
		vb_client_refuse(client, m->header.sequence, EACCES, "another user has joined this host to its fabric");
		return;
	}
	port = port_of(service, client) ? NULL : vb_mad_port_create(client, service->poller, &other, &error);
	if (!port) {
		vb_client_refuse(client, m->header.sequence, port_of(service, client) ? EBUSY : error, "no socket for MADs can be had");
		return;
	}
	vb_list_append(&service->mad_ports, &port->node);
	vb_daemon_message_begin(&answer, VB_DAEMON_MAD_PORT, m->header.sequence);
	vb_client_send_descriptors(client, &answer, &other, 1);
	vb_descriptor_close(other);
}

/* Who may send MADs from here may see them. */
static void on_open_tap(struct vb_adapter_service *service, struct vb_client *client, const struct vb_daemon_message *m)
{
	struct vb_daemon_message answer;
	int other = !service->adapter.has_node ? -ENODEV : !may_manage(service, client) ? -EACCES : vb_mad_taps_open(&service->mad_taps);

	if (other < 0) {
		vb_client_refuse(client, m->header.sequence, other, "the MADs of this host are not shown to you");
		return;
	}
	vb_daemon_message_begin(&answer, VB_DAEMON_MAD_TAP, m->header.sequence);
	vb_client_send_descriptors(client, &answer, &other, 1);
	vb_descriptor_close(other);
}

static void on_register(struct vb_adapter_service *service, vb_time now, struct vb_client *client, const struct vb_daemon_message *m)
{
	struct vb_mad_port *port = port_of(service, client);
	struct vb_agent_registration registration = {
		.mgmt_class = m->register_agent.mgmt_class,
		.class_version = m->register_agent.class_version,
		.rmpp_version = m->register_agent.rmpp_version,
		.user_rmpp = m->register_agent.user_rmpp,
		.oui = m->register_agent.oui,
		.methods = {m->register_agent.methods[0], m->register_agent.methods[1]},
	};
	struct vb_daemon_message answer;
	int id = port ? vb_agents_register(&service->adapter.agents, now, port, &registration) : -ENODEV;

	if (id < 0) {
		vb_client_refuse(client, m->header.sequence, id, id != -EINVAL ? "no agent can be had" :
				 "another agent has this management class and method, or the registration is not sound");
		return;
	}
	vb_daemon_message_begin(&answer, VB_DAEMON_AGENT, m->header.sequence);
	answer.agent.id = (uint32_t)id;
	vb_client_send(client, &answer);
}

static void on_unregister(struct vb_adapter_service *service, vb_time now, struct vb_client *client, const struct vb_daemon_message *m)
{
	struct vb_mad_port *port = port_of(service, client);
	int error = port ? vb_agents_unregister(&service->adapter.agents, now, port, m->agent.id) : -ENODEV;

	if (error != 0)
		vb_client_refuse(client, m->header.sequence, error, "no such agent");
	else
		send_end(client, m->header.sequence, 0);
}

void vb_adapter_service_message(struct vb_adapter_service *service, vb_time now, struct vb_client *client,
	const struct vb_daemon_message *m)
{
	switch (m->header.type) {
	case VB_DAEMON_JOIN_FABRIC:
		on_join(service, now, client, m);
		break;
	case VB_DAEMON_LEAVE_FABRIC:
		on_leave(service, now, client, m);
		break;
	case VB_DAEMON_LIST_ADAPTERS:
		on_list(service, client, m);
		break;
	case VB_DAEMON_OPEN_MAD_PORT:
		on_open(service, client, m);
		break;
	case VB_DAEMON_OPEN_MAD_TAP:
		on_open_tap(service, client, m);
		break;
	case VB_DAEMON_REGISTER_AGENT:
		on_register(service, now, client, m);
		break;
	default:
		on_unregister(service, now, client, m);
		break;
	}
}

/* What processes may send from: nothing unless the port is active. */
static uint32_t source_of(const struct vb_fabric_port *port)
{
	return vb_fabric_port_state(port) != VB_PORT_ACTIVE ? 0 : VB_FRAME_SOURCE_ACTIVE | (uint32_t)vb_fabric_port_lid(port) << 3 |
								 (port->info.protect_lmc & 7);
}

static void follow(struct vb_adapter_service *service)
{
	const struct vb_adapter *adapter = &service->adapter;
	bool joined = adapter->state == VB_ADAPTER_JOINED;

	vb_frame_ports_follow(&service->frame_ports, &adapter->address, joined ? adapter->cable.key : 0,
			      joined ? source_of(adapter->port) : 0);
}

/* Before an answer tells the port's counters: they are to count what processes do, too. */
static void collect(struct vb_adapter_service *service)
{
	if (service->adapter.has_node)
		vb_frame_ports_collect(&service->frame_ports, &service->adapter.port->counters);
}

void vb_adapter_service_open_frames(struct vb_adapter_service *service, struct vb_client *client, const struct vb_daemon_message *m)
{
	struct vb_daemon_message answer;
	int ends[VB_FRAME_PORT_DESCRIPTORS], error = -ENODEV;

	if (service->adapter.has_node)
		error = vb_frame_ports_open(&service->frame_ports, m->frame_port.slot, vb_random_u32(), ends);
	if (error != 0) {
		vb_client_refuse(client, m->header.sequence, error, "no socket for frames can be had");
		return;
	}
	vb_daemon_message_begin(&answer, VB_DAEMON_FRAME_PORT, m->header.sequence);
	vb_client_send_descriptors(client, &answer, ends, ends[VB_FRAME_PORT_UDP] < 0 ? 1 : VB_FRAME_PORT_DESCRIPTORS);
	vb_descriptor_close(ends[VB_FRAME_PORT_SOCKET]);
	/* The UDP socket is ours, too: we connect it. */
	if (ends[VB_FRAME_PORT_PAGE] >= 0)
		vb_descriptor_close(ends[VB_FRAME_PORT_PAGE]);
}

/* ---- turns ---- */

/* A frame that a queue pair of a process sends. */
static void send_frame(void *context, uint8_t *bytes, size_t length)
{
	struct vb_adapter_service *service = context;

	if (service->adapter.has_node)
		(void)vb_fabric_send_frame(service->adapter.port, service->turn, bytes, length);
}

/* A MAD that a process sends. */
static void send_mad(struct vb_adapter_service *service, vb_time now, struct vb_mad_port *port, const struct vb_umad *header,
		     const void *message, size_t length)
{
	const struct vb_fabric_port *own = service->adapter.port;
	struct vb_mad_address address = {
		.route = {
			.dlid = be16_get(header->lid),
			.slid = (uint16_t)(vb_fabric_port_lid(own) | (header->path_bits & ((1u << (own->info.protect_lmc & 7)) - 1))),
			.sl = header->sl & 0x0f,
			.has_grh = header->grh_present != 0,
			.hop_limit = header->hop_limit,
			.traffic_class = header->traffic_class,
			.flow_label = be32_get(header->flow_label) & 0xfffff,
		},
		.qpn = be32_get(header->qpn),
		.qkey = be32_get(header->qkey),
	};
	int error = -EINVAL;

	memcpy(address.route.dgid, header->gid, sizeof(header->gid));
	vb_fabric_port_gid(own, address.route.sgid);
	if (header->pkey_index < VB_FABRIC_PKEYS) {
		address.pkey = be16_get(own->pkeys[header->pkey_index]);
		error = vb_agents_send(&service->adapter.agents, now, port, header->agent, &address, message, length,
				       VB_MILLISECONDS(header->timeout_ms), header->retries);
	}
	/* What ib_umad refuses at once comes back like a request without answer. */
	if (error != 0) {
		struct vb_umad back = *header;

		vb_log_limited(VB_LOG_WARN, "a MAD of pid %d is refused: %s", (int)port->client->peer.pid, strerror(-error));
		back.status = (uint32_t)-error;
		length = length < VB_MAD_HEADER_LENGTH ? length : VB_MAD_HEADER_LENGTH;
		back.length = (uint32_t)(sizeof(back) + length);
		vb_mad_port_deliver(port, &back, message, length);
	}
}

static void serve_mad_port(struct vb_adapter_service *service, vb_time now, struct vb_mad_port *port)
{
	vb_mad_port_flush(port);
	if (!service->adapter.has_node)
		return;
	for (unsigned i = 0; i < MADS_PER_TURN; i++) {
		struct vb_umad header;
		void *message;
		size_t length;
		int error = vb_mad_port_receive(port, &header, &message, &length);

		if (error == -EAGAIN)
			return;
		if (error != 0) {
			port->failed = true;
			return;
		}
		send_mad(service, now, port, &header, message, length);
		free(message);
	}
}

static void drain_cable(struct vb_adapter_service *service, vb_time now)
{
	for (unsigned i = 0; i < BATCHES_PER_TURN; i++) {
		unsigned count = vb_datagram_batch_receive(service->batch, service->fd);

		for (unsigned j = 0; j < count; j++) {
			struct vb_datagram_bundle *bundle = vb_datagram_batch_at(service->batch, j);
			struct vb_cable_address from = {.port = bundle->port, .interface_index = bundle->interface_index};

			memcpy(from.gid, bundle->gid, sizeof(from.gid));
			for (size_t at = 0; at < bundle->length; at += bundle->segment)
				vb_adapter_receive(&service->adapter, now, &from, bundle->bytes + at,
						   bundle->length - at < bundle->segment ? bundle->length - at : bundle->segment);
		}
		/* An answer may be sent from where its question lies. */
		vb_datagram_queue_flush(service->queue);
		if (vb_datagram_batch_was_all(service->batch))
			return;
	}
}

bool vb_adapter_service_serve(struct vb_adapter_service *service, vb_time now, const void *tag)
{
	service->turn = now;
	collect(service);
	if (tag == &service->fd) {
		if (service->fd >= 0)
			drain_cable(service, now);
		return true;
	}
	VB_LIST_FOR_EACH(node, &service->mad_ports) {
		struct vb_mad_port *port = vb_container_of(node, struct vb_mad_port, node);

		if (tag == port) {
			serve_mad_port(service, now, port);
			return true;
		}
	}
	return vb_frame_ports_serve(&service->frame_ports, tag, send_frame, service);
}

vb_time vb_adapter_service_deadline(const struct vb_adapter_service *service)
{
	return vb_time_earlier(vb_time_earlier(vb_adapter_deadline(&service->adapter), vb_frame_ports_deadline(&service->frame_ports)),
			       vb_subnet_client_deadline(&service->subnet));
}

bool vb_adapter_service_device(const struct vb_adapter_service *service, struct vb_daemon_device *device)
{
	if (service->adapter.has_node)
		vb_adapter_fill_device(&service->adapter, service->reregister, device);
	return service->adapter.has_node;
}

void vb_adapter_service_figures(struct vb_adapter_service *service, struct vb_port_figures *figures)
{
	const struct vb_fabric_counters *told;

	*figures = (struct vb_port_figures){0};
	if (!service->adapter.has_node)
		return;
	collect(service);
	told = &service->adapter.port->counters;
	*figures = (struct vb_port_figures){
		.port_xmit_data = told->transmit_data,
		.port_rcv_data = told->receive_data,
		.port_xmit_packets = told->transmit_packets,
		.port_rcv_packets = told->receive_packets,
		.port_xmit_discards = told->transmit_discards,
		.link_downed = told->link_downed,
		.unicast_xmit_packets = told->unicast_transmit,
		.unicast_rcv_packets = told->unicast_receive,
		.multicast_xmit_packets = told->multicast_transmit,
		.multicast_rcv_packets = told->multicast_receive,
		.port_rcv_errors = told->receive_errors,
		.port_rcv_switch_relay_errors = told->relay_errors,
		.port_xmit_constraint_errors = told->transmit_constraints,
		.port_rcv_constraint_errors = told->receive_constraints,
		.VL15_dropped = told->vl15_dropped,
		.port_xmit_wait = told->transmit_wait,
	};
}

/* Tell the clients that watch devices what has become of it since the last turn. */
static void tell_changes(struct vb_adapter_service *service)
{
	struct vb_daemon_device device;
	bool there = vb_adapter_service_device(service, &device);

	if (there ? service->shown && memcmp(&device, &service->device, sizeof(device)) == 0 : !service->shown)
		return;
	if (there)
		service->device = device;
	service->shown = there;
	service->watcher->changed(service->watcher->context, &service->device, !there);
}

void vb_adapter_service_run(struct vb_adapter_service *service, vb_time now)
{
	vb_adapter_expire(&service->adapter, now);
	if (service->adapter.state == VB_ADAPTER_IDLE)
		close_cable(service);
	/* Another node than before: its agents are gone. */
	if (service->adapter.port != service->known) {
		fail_mad_ports(service);
		vb_subnet_client_node_changed(&service->subnet, now);
	}
	service->known = service->adapter.port;
	vb_subnet_client_run(&service->subnet, now);
	VB_LIST_FOR_EACH(node, &service->mad_ports) {
		struct vb_mad_port *port = vb_container_of(node, struct vb_mad_port, node);

		if (port->failed)
			drop_mad_port(service, now, port);
	}
	vb_frame_ports_flush(&service->frame_ports);
	follow(service);
	vb_frame_ports_announce(&service->frame_ports, now, send_datagram, service);
	if (service->queue)
		vb_datagram_queue_flush(service->queue);
	tell_changes(service);
}

bool vb_adapter_service_is_idle(const struct vb_adapter_service *service)
{
	return service->adapter.state == VB_ADAPTER_IDLE;
}
