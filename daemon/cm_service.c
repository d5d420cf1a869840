/* SPDX-License-Identifier: MIT
 *
 * MADs leave through a queue, a few per turn of the server's loop: a process that dies with ten thousand connections
 * makes ten thousand DREQs, and their receiver, this daemon itself when the peers are on the same host, has a
 * socket buffer for a few hundred.
 */
#include "daemon/cm_service.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/list.h"
#include "base/log.h"
#include "connect/connect.h"
#include "daemon/adapter_service.h"
#include "daemon/client.h"
#include "daemon/cm_frames.h"
#include "daemon/device_table.h"
#include "daemon/subnet_client.h"
#include "io/clock.h"
#include "io/descriptor.h"
#include "io/event.h"
#include "io/random.h"
#include "io/udp.h"
#include "io/udp_error.h"
#include "wire/burst.h"
#include "wire/cm_command.h"
#include "wire/cm_mad.h"
#include "wire/device_kind.h"
#include "wire/roce_packet.h"

enum {
	MADS_PER_TURN = 64,
	MOST_QUEUED = 65536,               /* what is more is lost, as on a wire; timers repeat it */
	FIRST_SOURCE_PORT = 0xc000,        /* rxe and adapters send from 0xc000 up */
	SOURCE_PORTS = 0x4000,
	PORT_ATTEMPTS = 64,
	LEAST_PATIENCE_MS = 100,           /* with a subnet manager that answers in less than one */
	FRAME_ATTEMPTS = 50,
};

/* Between two attempts to send a frame while the peer's Ethernet address is asked for. */
#define FRAME_INTERVAL VB_MILLISECONDS(20)

struct outgoing {
	struct vb_list node;
	struct vb_path path;
	struct vb_client *for_client;      /* who captures it, or NULL */
	bool lost;                         /* on purpose: everything is done but sending */
	unsigned attempts;                 /* of a frame */
	uint8_t mad[VB_CM_MAD_LENGTH];
};

/* A process that wants to see what happens when its messages are lost. */
struct drop_filter {
	struct vb_list node;
	struct vb_client *client;
	uint8_t left[VB_CM_ATTRIBUTE_END - VB_CM_REQ];
};

struct sender {
	int fd;                            /* -1: not opened yet */
	uint16_t port;
};

struct vb_cm_service {
	struct vb_connect *connect;
	const struct vb_device_table *devices;
	struct vb_adapter_service *adapter; /* of InfiniBand; NULL: none */
	int poller;
	struct sender sender[2];           /* IPv4, IPv6; tags of the poller */
	struct vb_cm_frames *frames;       /* a tag, too */
	bool speaks_frames;                /* a process of this host does, or did */
	bool connects;                     /* one makes connections, or waits for them, or did */
	struct vb_burst *burst;
	uint32_t psn;
	struct vb_list queue;
	unsigned queued;
	struct vb_list addressless;        /* frames that wait for their Ethernet address */
	vb_time next_attempt;              /* with them; never: there are none */
	struct vb_client *speaking;        /* whose message is being carried out */
	struct vb_connect_owner *told;     /* who was last sent an event */
	unsigned capture_clients;          /* none, and nothing of it is done */
	struct vb_list drop_filters;
};

/* ---- what the engine asks of us ---- */

static struct vb_client *client_of(struct vb_connect_owner *owner)
{
	return owner ? vb_container_of(owner, struct vb_client, cm_ids) : NULL;
}

/* The id that stands at that place of the message: the sender's communication id in every one but SIDR's, then the
 * receiver's (IBA 12.6). */
static uint32_t id_at(const uint8_t *mad, size_t place)
{
	struct be32 id;

	memcpy(&id, mad + VB_CM_MAD_HEADER_LENGTH + place, sizeof(id));
	return be32_get(id);
}

/* Whose message it is. */
static struct vb_client *find_client(struct vb_cm_service *service, uint32_t id, struct vb_client *otherwise)
{
	struct vb_client *client = client_of(vb_connect_owner_of(service->connect, id));

	return client ? client : otherwise;
}

/* The same, if that process captures. */
static struct vb_client *find_capture_client(struct vb_cm_service *service, uint32_t id, struct vb_client *otherwise)
{
	struct vb_client *client = find_client(service, id, otherwise);

	return client && client->told_packets ? client : NULL;
}

static struct drop_filter *find_drop_filter(struct vb_cm_service *service, const struct vb_client *client)
{
	VB_LIST_FOR_EACH(node, &service->drop_filters) {
		struct drop_filter *filter = vb_container_of(node, struct drop_filter, node);

		if (filter->client == client)
			return filter;
	}
	return NULL;
}

/* Is it one of those that the process it is sent for wants lost? */
static bool is_to_be_lost(struct vb_cm_service *service, const uint8_t mad[VB_CM_MAD_LENGTH])
{
	struct drop_filter *filter = find_drop_filter(service, find_client(service, id_at(mad, 0), service->speaking));
	unsigned attribute = (unsigned)mad[16] << 8 | mad[17]; /* IBA 13.4.2 */

	if (!filter || attribute < VB_CM_REQ || attribute >= VB_CM_ATTRIBUTE_END ||
	    filter->left[attribute - VB_CM_REQ] == 0)
		return false;
	filter->left[attribute - VB_CM_REQ]--;
	return true;
}

static void take_losses(struct vb_cm_service *service, struct vb_client *client, const struct vb_cm_command *command)
{
	struct drop_filter *filter = find_drop_filter(service, client);

	if (!filter) {
		filter = calloc(1, sizeof(*filter));
		if (!filter)
			return;
		filter->client = client;
		vb_list_append(&service->drop_filters, &filter->node);
	}
	memcpy(filter->left, command->conn.private_data, sizeof(filter->left));
}

static void tell_packet(struct vb_cm_service *service, struct vb_client *client, unsigned sent, const struct vb_path *path,
			const uint8_t *datagram, size_t length)
{
	struct vb_cm_trace trace = {.type = VB_CM_TRACE, .sent = sent, .time = vb_clock_now(), .path = *path};

	if (length > sizeof(trace.datagram))
		return;
	trace.length = (uint32_t)length;
	memcpy(trace.datagram, datagram, length);
	if (path->framing == VB_FRAMING_ETHERNET)
		vb_cm_frames_addresses(service->frames, path, sent, trace.destination_mac, trace.source_mac);
	vb_client_send_bytes(client, &trace, sizeof(trace));
}

static bool has_gid(const struct vb_daemon_device *device, const uint8_t gid[16])
{
	for (uint32_t i = 0; i < device->gid_count; i++)
		if (memcmp(device->gid[i], gid, 16) == 0)
			return true;
	return false;
}

/* By frames, if it can be: an interface does not hear its own. Where it cannot, by UDP. */
static struct vb_path choose_path(const struct vb_cm_service *service, const struct vb_path *wanted)
{
	struct vb_path path = *wanted;
	bool is_own = false, is_link_local = path.destination[0] == 0xfe && (path.destination[1] & 0xc0) == 0x80;

	for (unsigned i = 0; path.framing == VB_FRAMING_ETHERNET && i < service->devices->count; i++)
		is_own |= has_gid(&service->devices->device[i], path.destination);
	if (path.framing == VB_FRAMING_ETHERNET && (is_own || !vb_cm_frames_are_open(service->frames))) {
		path.framing = VB_FRAMING_UDP;
		path.interface_index = is_link_local ? path.interface_index : 0;
	}
	return path;
}

static void queue_mad(void *context, const struct vb_path *path, const uint8_t mad[VB_CM_MAD_LENGTH])
{
	struct vb_cm_service *service = context;
	struct outgoing *outgoing = service->queued < MOST_QUEUED ? malloc(sizeof(*outgoing)) : NULL;

	if (!outgoing) {
		vb_log_limited(VB_LOG_WARN, "a connection management message was dropped: %u wait to be sent",
			       service->queued);
		return;
	}
	outgoing->path = choose_path(service, path);
	outgoing->attempts = 0;
	memcpy(outgoing->mad, mad, VB_CM_MAD_LENGTH);
	outgoing->for_client = service->capture_clients > 0 ? find_capture_client(service, id_at(mad, 0), service->speaking) : NULL;
	outgoing->lost = !vb_list_is_empty(&service->drop_filters) && is_to_be_lost(service, mad);
	vb_list_append(&service->queue, &outgoing->node);
	service->queued++;
}

static void send_event(void *context, struct vb_connect_owner *owner, const struct vb_cm_event *event)
{
	struct vb_cm_service *service = context;

	service->told = owner;
	vb_client_send_bytes(vb_container_of(owner, struct vb_client, cm_ids), event, sizeof(*event));
}

static uint32_t draw_random(void *context)
{
	(void)context;
	return vb_random_u32();
}

/* All of 127.0.0.0/8 is this host's. */
static void loopback_to_listed(uint8_t gid[16])
{
	static const uint8_t listed[4] = {127, 0, 0, 1};

	if (vb_gid_is_ipv4(gid) && gid[12] == 127)
		memcpy(gid + 12, listed, sizeof(listed));
}

/* The InfiniBand adapter, by its GID, or for any address of this host where it is the one that is meant. */
static bool find_adapter(const struct vb_cm_service *service, const uint8_t gid[16], bool is_ours, uint32_t interface_index,
			 struct vb_connect_device *out)
{
	struct vb_daemon_device adapter;

	if (interface_index != VB_FABRIC_INTERFACE || !service->adapter || !vb_adapter_service_device(service->adapter, &adapter) ||
	    !(is_ours || has_gid(&adapter, gid)))
		return false;
	*out = (struct vb_connect_device){
		.interface_index = VB_FABRIC_INTERFACE,
		.guid = adapter.guid,
		.active_mtu = (uint8_t)adapter.active_mtu,
	};
	return true;
}

/* A packet to one's own address comes in through the loopback interface whatever interface has the address, so the
 * interface is only a preference. */
static bool find_device(void *context, const uint8_t wanted[16], uint32_t interface_index,
			struct vb_connect_device *out)
{
	const struct vb_cm_service *service = context;
	const struct vb_daemon_device *found = NULL;
	uint8_t gid[16];

	memcpy(gid, wanted, sizeof(gid));
	loopback_to_listed(gid);
	for (unsigned i = 0; i < service->devices->count; i++) {
		const struct vb_daemon_device *device = &service->devices->device[i];

		if (!has_gid(device, gid))
			continue;
		if (!found || device->interface_index == interface_index)
			found = device;
	}
	if (find_adapter(service, gid, found != NULL, interface_index, out))
		return true;
	if (!found)
		return false;
	*out = (struct vb_connect_device){
		.interface_index = found->interface_index,
		.guid = found->guid,
		.active_mtu = (uint8_t)found->active_mtu,
	};
	return true;
}

/* ---- the wire ---- */

/* The source port is ours alone, so that no other packets share the flow. */
static int open_sender(struct vb_cm_service *service, struct sender *sender, bool ipv6)
{
	if (sender->fd >= 0)
		return sender->fd;
	for (unsigned i = 0; sender->fd < 0 && i < PORT_ATTEMPTS; i++) {
		sender->port = (uint16_t)(FIRST_SOURCE_PORT + vb_random_u32() % SOURCE_PORTS);
		sender->fd = vb_udp_open_sender(ipv6, sender->port);
	}
	if (sender->fd >= 0 && vb_poller_add_for_errors(service->poller, sender->fd, sender) == 0)
		vb_udp_keep_errors(sender->fd, ipv6);
	return sender->fd;
}

/* The network says that messages could not be delivered, and quotes them. */
static void take_errors(struct vb_cm_service *service, const struct sender *sender)
{
	struct vb_udp_error error;
	size_t before = VB_BTH_LENGTH + VB_DETH_LENGTH;

	for (unsigned i = 0; i < MADS_PER_TURN && vb_udp_take_error(sender->fd, &error); i++)
		if (error.length >= before + VB_CM_MAD_LENGTH)
			vb_connect_undelivered(service->connect, error.destination, error.bytes + before,
					       VB_CM_MAD_LENGTH, error.error);
}

/* A capture has it from verbenad's adapter, as all MADs that pass there (daemon/mad_taps.h). */
static void transmit_by_adapter(struct vb_cm_service *service, const struct outgoing *outgoing)
{
	if (!outgoing->lost && service->adapter)
		vb_subnet_client_send(vb_adapter_service_subnet(service->adapter), vb_clock_now(), &outgoing->path, outgoing->mad);
}

/* As the last packet of the burst. */
static void compose(struct vb_cm_service *service, struct outgoing *outgoing)
{
	struct iovec span = {.iov_base = outgoing->mad, .iov_len = VB_CM_MAD_LENGTH};
	struct vb_roce_packet packet;

	vb_cm_packet_describe(&packet, service->psn++);
	vb_burst_append(service->burst, &outgoing->path, &packet, &span, 1);
}

static void tell_sent(struct vb_cm_service *service, const struct outgoing *outgoing)
{
	uint8_t datagram[sizeof(((struct vb_cm_trace *)0)->datagram)];
	size_t length;

	if (!outgoing->for_client)
		return;
	length = vb_burst_flatten(service->burst, 0, 0, datagram, sizeof(datagram));
	tell_packet(service, outgoing->for_client, outgoing->lost ? 2 : 1, &outgoing->path, datagram, length);
}

/* What the burst holds, all of it by one socket: messages to one host are one run, for which the kernel is asked once. */
static void send_burst(struct vb_cm_service *service)
{
	int error = 0;

	for (uint32_t i = 0; i < service->burst->runs; i++) {
		const struct sender *sender = &service->sender[!vb_path_is_ipv4(&service->burst->run[i].path)];
		uint32_t lost;

		error = vb_udp_send_run(sender->fd, service->burst, i, &lost);
		/* A socket that keeps errors also says the last one to the next sender, whatever it was about. */
		if (error < 0)
			error = vb_udp_send_run(sender->fd, service->burst, i, &lost);
		if (error < 0)
			vb_log_limited(VB_LOG_INFO, "cannot send a connection management message: %s", strerror(-error));
	}
	vb_burst_reset(service->burst);
}

/* False: not before the peer's Ethernet address is known. Without a host that has it, the message is lost. */
static bool transmit_frame(struct vb_cm_service *service, struct outgoing *outgoing)
{
	bool later;

	send_burst(service);
	compose(service, outgoing);
	later = !outgoing->lost && !vb_cm_frames_send(service->frames, service->burst) && ++outgoing->attempts < FRAME_ATTEMPTS;
	if (!later)
		tell_sent(service, outgoing);
	vb_burst_reset(service->burst);
	return !later;
}

/* Into the burst; one that is captured, or lost on purpose, goes alone. */
static void transmit(struct vb_cm_service *service, struct outgoing *outgoing)
{
	bool ipv6 = !vb_path_is_ipv4(&outgoing->path), alone = outgoing->for_client || outgoing->lost;
	struct sender *sender = &service->sender[ipv6];
	int error = open_sender(service, sender, ipv6);

	if (error < 0) {
		vb_log_limited(VB_LOG_INFO, "cannot send a connection management message: %s", strerror(-error));
		return;
	}
	if (alone || !vb_burst_has_room(service->burst, VB_CM_MAD_LENGTH))
		send_burst(service);
	outgoing->path.source_port = sender->port;
	compose(service, outgoing);
	if (!alone)
		return;
	tell_sent(service, outgoing);
	if (outgoing->lost)
		vb_burst_reset(service->burst);
	send_burst(service);
}

static void wait_for_address(struct vb_cm_service *service, struct outgoing *outgoing)
{
	if (vb_list_is_empty(&service->addressless))
		service->next_attempt = vb_clock_now() + FRAME_INTERVAL;
	vb_list_append(&service->addressless, &outgoing->node);
}

static void try_again(struct vb_cm_service *service, vb_time now)
{
	if (now < service->next_attempt)
		return;
	service->next_attempt = VB_TIME_NEVER;
	VB_LIST_FOR_EACH(node, &service->addressless) {
		vb_list_remove(node);
		vb_list_append(&service->queue, node);
		service->queued++;
	}
}

static void flush(struct vb_cm_service *service)
{
	for (unsigned i = 0; i < MADS_PER_TURN && !vb_list_is_empty(&service->queue); i++) {
		struct outgoing *outgoing = vb_container_of(service->queue.next, struct outgoing, node);

		vb_list_remove(&outgoing->node);
		service->queued--;
		if (outgoing->path.framing == VB_FRAMING_ETHERNET && !transmit_frame(service, outgoing)) {
			wait_for_address(service, outgoing);
			continue;
		}
		if (outgoing->path.framing == VB_FRAMING_UDP)
			transmit(service, outgoing);
		else if (outgoing->path.framing == VB_FRAMING_GLOBAL)
			transmit_by_adapter(service, outgoing);
		free(outgoing);
	}
	send_burst(service);
}

unsigned vb_cm_service_receive(struct vb_cm_service *service, vb_time now, const struct vb_udp_bundle *bundle)
{
	unsigned taken = 0;
	uint16_t index = 0;

	for (size_t at = 0; at < bundle->length; at += bundle->stride, index++) {
		size_t rest = bundle->length - at, length = rest < bundle->segment ? rest : bundle->segment;
		struct vb_roce_packet packet;
		struct vb_client *client;

		if (vb_roce_packet_decode(&packet, bundle->bytes + at, length, &bundle->from, true, index) !=
			    VB_PACKET_OK ||
		    !vb_cm_packet_is_mad(&packet))
			continue;
		/* Who it is for is known before, by the id it names, or only after, by the event it makes. */
		client = service->capture_clients > 0 ? find_capture_client(service, id_at(packet.payload, 4), NULL) : NULL;
		if (client)
			tell_packet(service, client, 0, &bundle->from, bundle->bytes + at, length);
		service->told = NULL;
		vb_connect_receive(service->connect, now, &bundle->from, packet.payload, packet.payload_length);
		if (service->capture_clients > 0 && !client && service->told && client_of(service->told)->told_packets)
			tell_packet(service, client_of(service->told), 0, &bundle->from, bundle->bytes + at, length);
		taken++;
	}
	return taken;
}

/* ---- RoCEv1 ---- */

/* Not for processes that exchange numbers of queue pairs by themselves: each of their frames would be offered to our socket, too. */
static void open_frames_if_needed(struct vb_cm_service *service)
{
	int error = service->speaks_frames && service->connects ? vb_cm_frames_open(service->frames) : 0;

	if (error != 0)
		vb_log_limited(VB_LOG_WARN, "connections by RoCEv1 are made by UDP: no socket for frames: %s", strerror(-error));
}

void vb_cm_service_use_frames(struct vb_cm_service *service)
{
	service->speaks_frames = true;
	open_frames_if_needed(service);
}

static void take_frames(struct vb_cm_service *service)
{
	unsigned count = vb_cm_frames_receive(service->frames);

	for (unsigned i = 0; i < count; i++)
		(void)vb_cm_service_receive(service, vb_clock_now(), vb_cm_frames_at(service->frames, i));
}

bool vb_cm_service_serve(struct vb_cm_service *service, const void *tag)
{
	if (tag == service->frames) {
		take_frames(service);
		return true;
	}
	for (unsigned i = 0; i < 2; i++) {
		if (tag != &service->sender[i])
			continue;
		take_errors(service, tag);
		return true;
	}
	return false;
}

/* ---- InfiniBand ---- */

void vb_cm_service_use_adapter(struct vb_cm_service *service, struct vb_adapter_service *adapter)
{
	service->adapter = adapter;
}

void vb_cm_service_take_mad(struct vb_cm_service *service, vb_time now, const struct vb_path *from, const void *mad, size_t length)
{
	vb_connect_receive(service->connect, now, from, mad, length);
}

void vb_cm_service_take_answer(const struct vb_subnet_answer *answer)
{
	static const uint32_t kinds[][2] = {
		[VB_SUBNET_ADDRESS] = {VB_CM_EVENT_ADDR_RESOLVED, VB_CM_EVENT_ADDR_ERROR},
		[VB_SUBNET_PATH] = {VB_CM_EVENT_ROUTE_RESOLVED, VB_CM_EVENT_ROUTE_ERROR},
		[VB_SUBNET_GROUP] = {VB_CM_EVENT_MULTICAST_JOIN, VB_CM_EVENT_MULTICAST_ERROR},
	};
	struct vb_cm_event event = {
		.type = VB_CM_EVENT,
		.kind = kinds[answer->question][answer->error != 0],
		.id = answer->id,
		.status = answer->error,
		.interface_index = VB_FABRIC_INTERFACE,
		.remote_cookie = answer->cookie,
		.conn = {.path_mtu = answer->mtu, .ack_timeout = answer->lifetime, .qkey = answer->qkey},
		.path = answer->path,
	};

	vb_client_send_bytes(answer->owner, &event, sizeof(event));
}

static bool is_for_subnet(const struct vb_cm_command *command)
{
	return command->verb == VB_CM_RESOLVE_ADDRESS || command->verb == VB_CM_RESOLVE_ROUTE || command->verb == VB_CM_JOIN ||
	       command->verb == VB_CM_LEAVE;
}

/* Of an id of the process's own. 0 or an errno. */
static int ask_subnet(struct vb_cm_service *service, vb_time now, struct vb_client *client, const struct vb_cm_command *command)
{
	struct vb_subnet_client *subnet = service->adapter ? vb_adapter_service_subnet(service->adapter) : NULL;
	struct vb_subnet_request request = {
		.question = command->verb == VB_CM_RESOLVE_ROUTE ? VB_SUBNET_PATH : command->verb == VB_CM_JOIN ? VB_SUBNET_GROUP :
													       VB_SUBNET_ADDRESS,
		.owner = client,
		.id = command->id,
		.pkey = command->path.pkey,
		.qkey = command->conn.qkey,
		.cookie = command->remote_cookie,
		.patience = VB_MILLISECONDS(command->timeout_ms < LEAST_PATIENCE_MS ? LEAST_PATIENCE_MS : command->timeout_ms),
	};

	if (client_of(vb_connect_owner_of(service->connect, command->id)) != client)
		return ENOENT;
	if (!subnet)
		return ENETUNREACH;
	if (command->verb == VB_CM_LEAVE) {
		vb_subnet_client_leave(subnet, now, client, command->id, command->path.destination);
		return 0;
	}
	if (command->verb == VB_CM_JOIN && command->path.destination[0] != 0xff)
		return EINVAL;
	memcpy(request.to, command->verb == VB_CM_RESOLVE_ADDRESS ? command->destination.gid : command->path.destination, 16);
	return -vb_subnet_client_ask(subnet, now, &request);
}

/* ---- processes ---- */

static const struct vb_cm_command *as_command(const void *bytes, size_t length)
{
	const struct vb_cm_command *command = bytes;

	return length == sizeof(*command) && command->type == VB_CM_COMMAND ? command : NULL;
}

uint32_t vb_cm_service_claimed_qpn(const void *bytes, size_t length)
{
	const struct vb_cm_command *command = as_command(bytes, length);

	return command && (command->verb == VB_CM_CONNECT || command->verb == VB_CM_ACCEPT) ? command->conn.qpn : 0;
}

bool vb_cm_service_needs_port(const void *bytes, size_t length)
{
	const struct vb_cm_command *command = as_command(bytes, length);

	if (!command || command->by_stream)
		return false;
	return command->verb == VB_CM_CONNECT || command->verb == VB_CM_LISTEN ||
	       (command->verb == VB_CM_ADOPT && command->state != VB_CM_ADOPTED_BOUND);
}

void vb_cm_service_message(struct vb_cm_service *service, vb_time now, struct vb_client *client, const void *bytes,
			   size_t length, int refusal)
{
	const struct vb_cm_command *command = as_command(bytes, length);
	struct vb_cm_reply reply;

	if (!command) {
		client->failed = true;
		return;
	}
	client->connects = true;
	if (command->verb == VB_CM_TELL_PACKETS) {
		service->capture_clients += !client->told_packets;
		client->told_packets = true;
		return;
	}
	if (command->verb == VB_CM_LOSE) {
		take_losses(service, client, command);
		return;
	}
	service->speaking = client;
	if (vb_cm_service_needs_port(bytes, length)) {
		service->connects = true;
		/* On all addresses: it has opened no device yet, and asked for no socket. Others' processes get none. */
		service->speaks_frames = service->speaks_frames || (command->by_frames && client->peer.uid == geteuid());
		open_frames_if_needed(service);
	}
	if (command->verb == VB_CM_DESTROY && service->adapter)
		vb_subnet_client_leave(vb_adapter_service_subnet(service->adapter), now, client, command->id, NULL);
	if (is_for_subnet(command))
		reply = (struct vb_cm_reply){.type = VB_CM_REPLY,
					     .error = ask_subnet(service, now, client, command),
					     .serial = command->serial,
					     .id = command->id};
	else if (refusal)
		reply = (struct vb_cm_reply){.type = VB_CM_REPLY, .error = refusal, .serial = command->serial, .id = command->id};
	else
		vb_connect_command(service->connect, now, &client->cm_ids, command, &reply);
	service->speaking = NULL;
	if (command->serial != 0 && !(command->only_refusals && reply.error == 0))
		vb_client_send_bytes(client, &reply, sizeof(reply));
}

void vb_cm_service_device_gone(struct vb_client *client, uint32_t interface_index)
{
	struct vb_cm_event event = {
		.type = VB_CM_EVENT, .kind = VB_CM_EVENT_DEVICE_REMOVAL, .interface_index = interface_index};

	/* Not by its ids: those of iWARP's requests are not known here. */
	if (client->connects)
		vb_client_send_bytes(client, &event, sizeof(event));
}

static void forget_capture_client(struct vb_list *list, const struct vb_client *client)
{
	VB_LIST_FOR_EACH(node, list) {
		struct outgoing *outgoing = vb_container_of(node, struct outgoing, node);

		if (outgoing->for_client == client)
			outgoing->for_client = NULL;
	}
}

void vb_cm_service_client_gone(struct vb_cm_service *service, vb_time now, struct vb_client *client)
{
	struct drop_filter *filter;

	vb_connect_owner_gone(service->connect, now, &client->cm_ids);
	filter = find_drop_filter(service, client);
	if (filter) {
		vb_list_remove(&filter->node);
		free(filter);
	}
	if (!client->told_packets)
		return;
	service->capture_clients--;
	forget_capture_client(&service->queue, client);
	forget_capture_client(&service->addressless, client);
}

/* ---- the service as a whole ---- */

void vb_cm_service_run(struct vb_cm_service *service, vb_time now)
{
	vb_connect_expire(service->connect, now);
	try_again(service, now);
	flush(service);
}

vb_time vb_cm_service_deadline(const struct vb_cm_service *service)
{
	return service->queued > 0 ? 0 : vb_time_earlier(service->next_attempt, vb_connect_next_deadline(service->connect));
}

bool vb_cm_service_is_idle(const struct vb_cm_service *service)
{
	return service->queued == 0 && vb_list_is_empty(&service->addressless) && vb_connect_count(service->connect) == 0;
}

struct vb_cm_service *vb_cm_service_create(const struct vb_device_table *devices, int poller)
{
	struct vb_cm_service *service = calloc(1, sizeof(*service));
	struct vb_connect_host host = {
		.context = service,
		.send_mad = queue_mad,
		.event = send_event,
		.random = draw_random,
		.find_device = find_device,
	};

	if (!service)
		return NULL;
	vb_list_init(&service->queue);
	vb_list_init(&service->addressless);
	vb_list_init(&service->drop_filters);
	service->next_attempt = VB_TIME_NEVER;
	service->devices = devices;
	service->poller = poller;
	service->sender[0].fd = service->sender[1].fd = -1;
	service->psn = vb_random_u32();
	service->frames = vb_cm_frames_create(poller);
	service->burst = malloc(sizeof(*service->burst));
	if (service->burst)
		vb_burst_reset(service->burst);
	service->connect = vb_connect_create(&host);
	if (!service->frames || !service->burst || !service->connect) {
		vb_cm_service_destroy(service);
		return NULL;
	}
	vb_connect_await_adoption(service->connect, vb_clock_now() + VB_CONNECT_ADOPTION);
	return service;
}

void vb_cm_service_destroy(struct vb_cm_service *service)
{
	if (!service)
		return;
	VB_LIST_FOR_EACH(node, &service->queue)
		free(vb_container_of(node, struct outgoing, node));
	VB_LIST_FOR_EACH(node, &service->addressless)
		free(vb_container_of(node, struct outgoing, node));
	VB_LIST_FOR_EACH(node, &service->drop_filters)
		free(vb_container_of(node, struct drop_filter, node));
	for (unsigned i = 0; i < 2; i++)
		if (service->sender[i].fd >= 0)
			vb_descriptor_close(service->sender[i].fd);
	vb_cm_frames_destroy(service->frames);
	vb_connect_destroy(service->connect);
	free(service->burst);
	free(service);
}
