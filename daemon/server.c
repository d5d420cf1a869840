/* SPDX-License-Identifier: MIT
 *
 * One loop over everything that may become readable, and one function per kind of message.
 *
 * Who may ask: a user's own daemon serves that user and root, the system's serves everybody. No client can name another
 * process's objects: a slot belongs to the connection that opened it and goes with it, whichever way the process ends.
 */
#include "daemon/server.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "daemon/adapter_service.h"
#include "daemon/segments.h"
#include "daemon/client.h"
#include "daemon/cm_service.h"
#include "daemon/dedicated.h"
#include "daemon/device_counters.h"
#include "daemon/device_table.h"
#include "daemon/inquiries.h"
#include "daemon/lanes.h"
#include "daemon/resource_queries.h"
#include "daemon/shapes.h"
#include "daemon/slots.h"
#include "daemon/subnet_client.h"
#include "daemon/users.h"
#include "io/clock.h"
#include "io/descriptor.h"
#include "io/ethernet.h"
#include "io/event.h"
#include "io/host.h"
#include "io/netlink.h"
#include "io/udp.h"
#include "wire/daemon_message.h"

#ifndef VERBENA_VERSION
#define VERBENA_VERSION "0"
#endif

/* Who connects says HELLO at once. */
#define HELLO_PATIENCE VB_SECONDS(3)
/* When the kernel was short of memory for a list. */
#define REFRESH_AGAIN VB_MILLISECONDS(50)
/* Who has looked at counters looks again, some time, and is to find more there, not less. */
#define LOOKERS_PATIENCE VB_SECONDS(600)
/* How long no client is accepted when there are no descriptors. */
#define NO_DESCRIPTORS_PAUSE VB_MILLISECONDS(100)

enum { MUCH_UNSENT = 256 * 1024, MANY_IDS = 1024, MESSAGES_AT_ONCE = 8 };

struct vb_server {
	struct vb_server_config config;
	int listener[VB_SERVER_LISTENERS], poller, netlink;
	unsigned clients;
	struct vb_list client_list;
	vb_time idle_deadline;
	vb_time looked_until;              /* counters were looked at: not to be idle before */
	struct vb_device_table devices;
	struct vb_device_counters counters;
	struct vb_slots slots;
	struct vb_udp_batch *batch;
	struct vb_cm_service *cm;
	struct vb_adapter_service *adapter;
	struct vb_adapter_watcher adapter_watcher;
	struct vb_subnet_host subnet_host;
	struct vb_resource_queries queries;
	struct vb_shapes shapes;
	uint64_t stray_packets;
	struct vb_inquiries inquiries;
	struct vb_users users;
	int reserve;                       /* a descriptor to give up when there are no more; -1: it is given up */
	vb_time listen_again;              /* the listener rests until then: there are no descriptors */
	vb_time refresh_at;                /* the interfaces could not be listed: when to try again */
	vb_time hello_deadline;            /* the first of a client that has not said HELLO */
	bool much_freed;
};

/* ---- devices ---- */

static void send_one_device(struct vb_client *client, const struct vb_daemon_device *device, uint32_t sequence)
{
	struct vb_daemon_message message;

	vb_daemon_message_begin(&message, VB_DAEMON_DEVICE, sequence);
	vb_daemon_message_set_device(&message, device);
	message.device.told = (uint64_t)vb_clock_now();
	vb_client_send(client, &message);
}

/* As each kind of device that an interface can be. */
static void send_device(struct vb_client *client, const struct vb_daemon_device *device, uint32_t sequence)
{
	struct vb_daemon_device shown;

	if (device->interface_index == VB_FABRIC_INTERFACE) {
		send_one_device(client, device, sequence);
		return;
	}
	for (unsigned kind = 0; kind < VB_INTERFACE_KINDS; kind++) {
		vb_device_table_show_as(&shown, device, (enum vb_device_kind)kind);
		send_one_device(client, &shown, sequence);
	}
}

static void send_end(struct vb_client *client, uint32_t sequence, uint32_t count)
{
	struct vb_daemon_message message;

	vb_daemon_message_begin(&message, VB_DAEMON_END, sequence);
	message.end.count = count;
	vb_client_send(client, &message);
}

static void report_change(void *context, const struct vb_daemon_device *device, bool gone)
{
	struct vb_server *server = context;

	vb_device_counters_note(&server->counters, device, gone);
	if (gone)
		vb_shapes_forget(&server->shapes, device->interface_index);
	if (server->adapter && device->interface_index != VB_FABRIC_INTERFACE)
		vb_subnet_client_register(vb_adapter_service_subnet(server->adapter)); /* its addresses may be others now */
	vb_log(VB_LOG_INFO, "%s %s", device->name, gone ? "is gone" : device->active ? "is active" : "is down");
	VB_LIST_FOR_EACH(node, &server->client_list) {
		struct vb_client *client = vb_container_of(node, struct vb_client, node);
		struct vb_daemon_message message;

		if (gone)
			vb_cm_service_device_gone(client, device->interface_index);
		if (!client->watching)
			continue;
		if (!gone) {
			send_device(client, device, 0);
			continue;
		}
		vb_daemon_message_begin(&message, VB_DAEMON_DEVICE_GONE, 0);
		message.device_gone.interface_index = device->interface_index;
		vb_client_send(client, &message);
	}
}

/* ---- InfiniBand's subnet administration ---- */

static void report_answer(void *context, const struct vb_subnet_answer *answer)
{
	(void)context;
	vb_cm_service_take_answer(answer);
}

static void take_connection_mad(void *context, vb_time now, const struct vb_path *from, const void *mad, size_t length)
{
	struct vb_server *server = context;

	vb_cm_service_take_mad(server->cm, now, from, mad, length);
}

static bool is_for_others(const uint8_t gid[16])
{
	static const uint8_t none[16];

	return memcmp(gid, none, sizeof(none)) != 0 && !vb_gid_is_loopback(gid) && !(gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80);
}

static unsigned list_addresses(void *context, uint8_t address[VB_SUBNET_ADDRESSES][16])
{
	const struct vb_server *server = context;
	unsigned count = 0;

	for (unsigned i = 0; i < server->devices.count; i++)
		for (uint32_t j = 0; j < server->devices.device[i].gid_count && count < VB_SUBNET_ADDRESSES; j++)
			if (is_for_others(server->devices.device[i].gid[j]))
				memcpy(address[count++], server->devices.device[i].gid[j], 16);
	return count;
}

static void refresh_devices(struct vb_server *server)
{
	struct vb_interface *interfaces;
	unsigned count;
	int error = vb_netlink_interfaces(&interfaces, &count);

	/* Who connects now would be told that there are no devices: once more at once, before it is tried later. */
	if (error != 0)
		error = vb_netlink_interfaces(&interfaces, &count);
	if (error != 0) {
		vb_log_limited(VB_LOG_ERROR, "cannot list the network interfaces: %s", strerror(-error));
		server->refresh_at = vb_clock_now() + REFRESH_AGAIN;
		return;
	}
	server->refresh_at = VB_TIME_NEVER;
	vb_device_table_update(&server->devices, interfaces, count, report_change, server);
	free(interfaces);
}

/* ---- slot 0 ---- */

/* Packets for slot 0 and for slots without an owner. MADs are for the connection manager; the rest is not answered: to the
 * sender a dead QP is silence. */
static void drain_bundle(struct vb_server *server, vb_time now, struct vb_port_family *family, const struct vb_udp_bundle *bundle)
{
	if (vb_cm_service_receive(server->cm, now, bundle) == 0 &&
	    !vb_inquiries_answer(&server->inquiries, &server->client_list, now, family->fd[0], bundle) &&
	    !vb_slots_is_probe(&server->slots, family, bundle->bytes, bundle->length))
		server->stray_packets++;
}

static void drain_own_socket(struct vb_server *server, struct vb_port_family *family)
{
	bool ipv6 = family == &server->slots.shared.port.family[VB_GROUP_IPV6];
	vb_time now = vb_clock_now();
	int count;

	/* More than the connection manager sends in a turn, much of which may be to ourselves. */
	for (unsigned round = 0; round < 16; round++) {
		count = vb_udp_batch_receive(server->batch, family->fd[0], ipv6);
		for (int i = 0; i < count; i++)
			drain_bundle(server, now, family, vb_udp_batch_at(server->batch, (unsigned)i));
		if (count < VB_UDP_BATCH)
			break;
	}
}

/* ---- messages ---- */

static void on_hello(struct vb_server *server, struct vb_client *client, const struct vb_daemon_message *m)
{
	struct vb_daemon_message answer;

	(void)server;
	memcpy(client->program, m->hello.program, sizeof(client->program));
	client->greeted = true;
	vb_daemon_message_begin(&answer, VB_DAEMON_WELCOME, m->header.sequence);
	answer.welcome.pid = (uint32_t)getpid();
	answer.welcome.uid = (uint32_t)geteuid();
	answer.welcome.flags = server->config.system ? VB_DAEMON_IS_SYSTEM : 0;
	memcpy(answer.welcome.version, VERBENA_VERSION, strnlen(VERBENA_VERSION, sizeof(answer.welcome.version) - 1));
	vb_client_send(client, &answer);
}

static void on_list_devices(struct vb_server *server, struct vb_client *client, const struct vb_daemon_message *m)
{
	struct vb_daemon_device adapter;
	bool has_adapter = vb_adapter_service_device(server->adapter, &adapter);

	for (unsigned i = 0; i < server->devices.count; i++)
		send_device(client, &server->devices.device[i], m->header.sequence);
	if (has_adapter)
		send_device(client, &adapter, m->header.sequence);
	send_end(client, m->header.sequence, server->devices.count * VB_INTERFACE_KINDS + has_adapter);
}

/* Asked on a connection of its own: it must be the process that has the slot. */
static void on_open_frame_port(struct vb_server *server, struct vb_client *client, const struct vb_daemon_message *m)
{
	VB_LIST_FOR_EACH(node, &server->client_list) {
		const struct vb_client *other = vb_container_of(node, struct vb_client, node);

		if (other->slot == m->frame_port.slot && other->peer.pid == client->peer.pid && other->peer.uid == client->peer.uid) {
			vb_adapter_service_open_frames(server->adapter, client, m);
			return;
		}
	}
	vb_client_refuse(client, m->header.sequence, EPERM, "this process does not have that slot");
}

static void name_device(const struct vb_server *server, uint32_t index, char *name, size_t room)
{
	struct vb_daemon_device shown;

	if (index == vb_device_index(VB_FABRIC_INTERFACE, VB_DEVICE_INFINIBAND) ? vb_adapter_service_device(server->adapter, &shown) :
										  vb_device_table_get(&server->devices, index, &shown))
		snprintf(name, room, "%s", shown.name);
	else
		name[0] = '\0';
}

/* The process and its devices. Its page is its own account of itself: any number may be in it. */
static uint32_t send_process(const struct vb_server *server, struct vb_client *client, const struct vb_client *other,
			     uint32_t sequence)
{
	struct vb_daemon_message process, device[VB_DAEMON_PAGE_DEVICES];
	uint32_t devices = 0;

	vb_daemon_message_begin(&process, VB_DAEMON_PROCESS, sequence);
	process.process.pid = (uint32_t)other->peer.pid;
	process.process.uid = other->peer.uid;
	process.process.slot = other->slot;
	memcpy(process.process.program, other->program, sizeof(process.process.program));
	if (other->page) {
		process.process.queue_pairs = __atomic_load_n(&other->page->queue_pairs, __ATOMIC_RELAXED);
		vb_counters_add(&process.process.counters, &other->page->counters);
	}
	for (; other->page && devices < VB_DAEMON_PAGE_DEVICES; devices++) {
		const struct vb_daemon_page_device *shown = &other->page->device[devices];
		struct vb_daemon_process_device *row = &device[devices].process_device;
		uint32_t interface_index = __atomic_load_n(&shown->interface_index, __ATOMIC_RELAXED);

		if (interface_index == 0)
			break;
		vb_daemon_message_begin(&device[devices], VB_DAEMON_PROCESS_DEVICE, sequence);
		row->pid = process.process.pid;
		row->interface_index = interface_index;
		name_device(server, interface_index, row->device, sizeof(row->device));
		vb_counters_add(&row->counters, &shown->counters);
		vb_counters_add(&process.process.counters, &row->counters);
	}
	vb_client_send(client, &process);
	for (uint32_t i = 0; i < devices; i++)
		vb_client_send(client, &device[i]);
	return 1 + devices;
}

static void on_list_processes(struct vb_server *server, struct vb_client *client, const struct vb_daemon_message *m)
{
	uint32_t count = 0;

	VB_LIST_FOR_EACH(node, &server->client_list) {
		const struct vb_client *other = vb_container_of(node, struct vb_client, node);

		if (other->slot != 0 && vb_resource_may_see(client, other))
			count += send_process(server, client, other, m->header.sequence);
	}
	send_end(client, m->header.sequence, count);
}

static void on_ask_counters(struct vb_server *server, struct vb_client *client, const struct vb_daemon_message *m)
{
	struct vb_daemon_message answer;
	struct vb_daemon_device device;

	if (!(vb_adapter_service_device(server->adapter, &device) && strcmp(device.name, m->ask_counters.device) == 0) &&
	    !vb_device_table_find(&server->devices, m->ask_counters.device, &device)) {
		vb_client_refuse(client, m->header.sequence, ENODEV, "there is no such device");
		return;
	}
	server->looked_until = vb_clock_now() + LOOKERS_PATIENCE;
	vb_daemon_message_begin(&answer, VB_DAEMON_COUNTERS, m->header.sequence);
	vb_device_counters_sum(&server->counters, &server->client_list, client, device.interface_index, device.kind, &answer.counters);
	if (device.kind == VB_DEVICE_INFINIBAND) {
		vb_adapter_service_figures(server->adapter, &answer.counters.port);
		answer.counters.counters.link_downed = answer.counters.port.link_downed;
	}
	vb_client_send(client, &answer);
}

/* Connections need QP1, that is the port; what is only bound, and what comes by TCP, does not. */
static void on_connection_message(struct vb_server *server, struct vb_client *client, const void *bytes, size_t length)
{
	char why[248] = "";
	int refusal = vb_cm_service_needs_port(bytes, length) ? -vb_slots_open_port(&server->slots, why, sizeof(why)) : 0;
	uint32_t qpn = vb_cm_service_claimed_qpn(bytes, length);

	if (refusal == 0 && qpn != 0 && vb_slots_is_foreign(&server->slots, client, qpn))
		refusal = EPERM;
	vb_user_limit_ids(client->user);
	vb_cm_service_message(server->cm, vb_clock_now(), client, bytes, length, refusal);
}

/* The socket is the process's alone: it goes when the process lets it go. */
static void on_join_group(struct vb_client *client, const struct vb_daemon_message *m)
{
	int fd = vb_gid_is_multicast(m->join_group.gid) ?
			 vb_udp_open_group(m->join_group.gid, m->join_group.interface_index) : -EINVAL;
	struct vb_daemon_message answer;

	if (fd < 0) {
		vb_client_refuse(client, m->header.sequence, fd, "the multicast group cannot be joined");
		return;
	}
	vb_daemon_message_begin(&answer, VB_DAEMON_GROUP, m->header.sequence);
	vb_client_send_descriptors(client, &answer, &fd, 1);
	vb_descriptor_close(fd);
}

/* Of RoCEv1. A process that holds such a socket can send any frame: it is for those that could make one by means of
 * this daemon anyhow. */
static void on_open_frames(struct vb_server *server, struct vb_client *client, const struct vb_daemon_message *m)
{
	struct vb_daemon_message answer;
	int fd = client->slot == 0 ? -EINVAL : client->peer.uid != geteuid() ? -EACCES : vb_ethernet_open(client->slot);

	if (fd < 0) {
		vb_client_refuse(client, m->header.sequence, fd,
				 fd == -EPERM  ? "RoCEv1 needs CAP_NET_RAW: give it to verbenad (setcap cap_net_raw+ep), or run all of it "
						 "where you have it (unshare -Urn)" :
				 fd == -EACCES ? "RoCEv1 is for processes of the user that runs verbenad" :
						 "no socket for RoCEv1 can be made");
		return;
	}
	vb_cm_service_use_frames(server->cm);
	vb_daemon_message_begin(&answer, VB_DAEMON_FRAMES, m->header.sequence);
	vb_client_send_descriptors(client, &answer, &fd, 1);
	vb_descriptor_close(fd);
}

static void release_slot(struct vb_server *server, struct vb_client *client)
{
	if (client->slot != 0)
		vb_resource_queries_slot_gone(&server->queries, client);
	if (client->page)
		vb_device_counters_keep(&server->counters, client->peer.uid, client->page);
	vb_slots_release(&server->slots, client);
}

static void dispatch(struct vb_server *server, struct vb_client *client, const struct vb_daemon_message *m,
		     const int *fds, unsigned descriptors)
{
	if (!client->greeted && m->header.type != VB_DAEMON_HELLO) {
		client->failed = true;
		return;
	}
	switch ((enum vb_daemon_type)m->header.type) {
	case VB_DAEMON_HELLO:
		on_hello(server, client, m);
		break;
	case VB_DAEMON_WATCH_DEVICES:
		client->watching = true;
		vb_shapes_tell(&server->shapes, client);
		on_list_devices(server, client, m);
		break;
	case VB_DAEMON_LIST_DEVICES:
		on_list_devices(server, client, m);
		break;
	case VB_DAEMON_OPEN_SLOT:
		vb_slots_open(&server->slots, client, m);
		break;
	case VB_DAEMON_ADOPT_SLOT:
		vb_slots_adopt(&server->slots, client, m, fds);
		break;
	case VB_DAEMON_CLOSE_SLOT:
		release_slot(server, client);
		send_end(client, m->header.sequence, 0);
		break;
	case VB_DAEMON_OPEN_LANE:
		vb_lanes_open(&server->slots, client, m);
		break;
	case VB_DAEMON_ADOPT_LANE:
		vb_lanes_adopt(client, m, fds);
		break;
	case VB_DAEMON_CLOSE_LANE:
		vb_lanes_close(&server->slots, client, m);
		break;
	case VB_DAEMON_OPEN_DEDICATED:
		vb_dedicated_open(client, m);
		break;
	case VB_DAEMON_PROBE_SEEN:
		vb_slots_probe_seen(&server->slots, client, m->probe_seen.lane, m->probe_seen.nonce);
		break;
	case VB_DAEMON_LIST_PROCESSES:
		on_list_processes(server, client, m);
		break;
	case VB_DAEMON_ASK_COUNTERS:
		on_ask_counters(server, client, m);
		break;
	case VB_DAEMON_LIST_RESOURCES:
		vb_resource_queries_begin(&server->queries, vb_clock_now(), &server->client_list, client,
					  m->header.sequence, m->list_resources.pid);
		break;
	case VB_DAEMON_RESOURCES:
		vb_resource_queries_answer(&server->queries, client, descriptors > 0 ? fds[0] : -1);
		break;
	case VB_DAEMON_SHOW_SEGMENT:
		vb_segments_show(client, m, fds);
		break;
	case VB_DAEMON_SET_SHAPE:
		vb_shapes_set(&server->shapes, &server->client_list, client, m);
		break;
	case VB_DAEMON_LIST_SHAPES:
		vb_shapes_list(&server->shapes, client, m->header.sequence);
		break;
	case VB_DAEMON_JOIN_GROUP:
		on_join_group(client, m);
		break;
	case VB_DAEMON_OPEN_FRAMES:
		on_open_frames(server, client, m);
		break;
	case VB_DAEMON_ASK_SEGMENT:
		vb_segments_ask(&server->client_list, &server->devices, client, m);
		break;
	case VB_DAEMON_JOIN_FABRIC:
	case VB_DAEMON_LEAVE_FABRIC:
	case VB_DAEMON_LIST_ADAPTERS:
	case VB_DAEMON_OPEN_MAD_PORT:
	case VB_DAEMON_OPEN_MAD_TAP:
	case VB_DAEMON_REGISTER_AGENT:
	case VB_DAEMON_UNREGISTER_AGENT:
		vb_adapter_service_message(server->adapter, vb_clock_now(), client, m);
		break;
	case VB_DAEMON_OPEN_FRAME_PORT:
		on_open_frame_port(server, client, m);
		break;
	default:
		client->failed = true;
		break;
	}
}

/* ---- connections ---- */

/* Peers of connections that ended a moment ago may still want an answer. The system's daemon keeps the port: who connects
 * to a host where no daemon listens is refused, and no other process takes it meanwhile. */
static void close_port_if_unused(struct vb_server *server)
{
	if (!server->config.system && server->clients == 0 && server->slots.shared.port.open &&
	    vb_cm_service_is_idle(server->cm))
		vb_slots_close_port(&server->slots);
}

static void drop_client(struct vb_server *server, struct vb_client *client)
{
	server->much_freed |= client->unsent_bytes >= MUCH_UNSENT || client->cm_ids.count >= MANY_IDS;
	release_slot(server, client);
	vb_resource_queries_client_gone(&server->queries, client);
	vb_cm_service_client_gone(server->cm, vb_clock_now(), client);
	vb_adapter_service_client_gone(server->adapter, vb_clock_now(), client);
	vb_user_give_back(client->user, VB_USER_CONNECTIONS);
	vb_client_destroy(client);
	if (--server->clients == 0) {
		close_port_if_unused(server);
		server->idle_deadline = vb_clock_now() + server->config.idle;
		if (server->idle_deadline < server->looked_until)
			server->idle_deadline = server->looked_until;
	}
}

/* What came with the message is lost, and nothing else: the process has its own, and asks again. */
static void refuse_for_descriptors(struct vb_server *server, struct vb_client *client, const struct vb_daemon_header *header)
{
	vb_log_limited(VB_LOG_WARN, "no descriptors are left for what pid %d shows", (int)client->peer.pid);
	vb_slots_turned_away(&server->slots);
	if (!client->greeted)
		client->failed = true;
	else if (header->type == VB_DAEMON_RESOURCES)
		vb_resource_queries_answer(&server->queries, client, -1);
	else
		vb_client_refuse(client, header->sequence ? header->sequence : 1, EMFILE, "verbenad has no descriptors left");
}

static void take_message(struct vb_server *server, struct vb_client *client, const struct vb_unix_message *in)
{
	const struct vb_daemon_message *message = in->bytes;
	size_t length = in->length > 0 ? (size_t)in->length : 0;
	int error = 0;

	if (in->length == -EMFILE) {
		refuse_for_descriptors(server, client, &message->header);
		return;
	}
	if (length == 0 || in->count > VB_DAEMON_MAX_FDS) {
		client->failed = true;
		return;
	}
	if (client->greeted && length >= sizeof(message->header.type) && message->header.type >= VB_DAEMON_CM_TYPES) {
		on_connection_message(server, client, message, length);
	} else if ((error = vb_daemon_message_check(message, length, in->count, VB_DAEMON_FROM_PROCESS)) == 0) {
		dispatch(server, client, message, in->fds, in->count);
	} else {
		vb_log_limited(VB_LOG_WARN, "pid %d, uid %u sent what is no message", (int)client->peer.pid,
			       (unsigned)client->peer.uid);
		if (error == -EPROTONOSUPPORT)
			vb_client_refuse(client, message->header.sequence ? message->header.sequence : 1, error,
					 "this verbenad speaks another version of the protocol: stop it, or use "
					 "libraries of the same release");
		client->failed = true;
	}
}

static void receive_messages(struct vb_server *server, struct vb_client *client)
{
	_Alignas(8) uint8_t room[MESSAGES_AT_ONCE][VB_DAEMON_MAX_MESSAGE];
	struct vb_unix_message in[MESSAGES_AT_ONCE];
	int count;

	for (unsigned i = 0; i < MESSAGES_AT_ONCE; i++) {
		memset(room[i], 0, sizeof(struct vb_daemon_header)); /* looked at where its length is not told */
		in[i] = (struct vb_unix_message){.bytes = room[i], .room = sizeof(room[i])};
	}
	count = vb_unix_receive_several(client->fd, in, MESSAGES_AT_ONCE, 0);
	/* It is there still when there is memory for it. */
	client->failed |= count < 0 && count != -EAGAIN && count != -ENOMEM && count != -ENOBUFS;
	for (int i = 0; i < count; i++) {
		if (!client->failed)
			take_message(server, client, &in[i]);
		for (unsigned j = 0; j < in[i].count; j++)
			vb_descriptor_close(in[i].fds[j]);
	}
}

static int watch_listeners(struct vb_server *server, bool watch)
{
	int error = 0;

	for (unsigned i = 0; i < VB_SERVER_LISTENERS && error == 0; i++) {
		if (server->listener[i] < 0)
			continue;
		if (watch)
			error = vb_poller_add(server->poller, server->listener[i], &server->listener[i]);
		else
			vb_poller_remove(server->poller, server->listener[i]);
	}
	return error;
}

/* No descriptor for who waits at the listener. It is told by hanging up; if not even that can be done no client is
 * accepted for a moment: the listener stays readable, and looking at it again would change nothing. */
static void turn_away(struct vb_server *server, int listener)
{
	int fd;

	vb_log_limited(VB_LOG_WARN, "no descriptors are left: a process is turned away");
	vb_slots_turned_away(&server->slots);
	if (server->reserve >= 0)
		vb_descriptor_close(server->reserve);
	fd = vb_unix_accept(listener);
	if (fd >= 0)
		vb_descriptor_close(fd);
	server->reserve = vb_descriptor_reserve();
	if (server->reserve < 0 || fd < 0) {
		(void)watch_listeners(server, false);
		server->listen_again = vb_clock_now() + NO_DESCRIPTORS_PAUSE;
	}
}

static void listen_once_more(struct vb_server *server)
{
	server->listen_again = VB_TIME_NEVER;
	if (server->reserve < 0)
		server->reserve = vb_descriptor_reserve();
	if (watch_listeners(server, true) != 0) {
		(void)watch_listeners(server, false);
		server->listen_again = vb_clock_now() + NO_DESCRIPTORS_PAUSE;
	}
}

/* Those who connected and say nothing. */
static void expire_hello(struct vb_server *server, vb_time now)
{
	server->hello_deadline = VB_TIME_NEVER;
	VB_LIST_FOR_EACH(node, &server->client_list) {
		struct vb_client *client = vb_container_of(node, struct vb_client, node);

		if (client->greeted)
			continue;
		if (now >= client->hello_deadline)
			client->failed = true;
		else
			server->hello_deadline = vb_time_earlier(server->hello_deadline, client->hello_deadline);
	}
}

static void accept_client(struct vb_server *server, int listener)
{
	int fd = vb_unix_accept(listener);
	struct vb_client *client;

	if (fd == -EMFILE || fd == -ENFILE)
		turn_away(server, listener);
	if (fd < 0)
		return;
	client = vb_client_create(fd, server->poller);
	if (!client)
		return;
	if (!server->config.system && client->peer.uid != geteuid() && client->peer.uid != 0) {
		char owner[96], text[248];

		vb_host_user_name(geteuid(), owner, sizeof(owner));
		snprintf(text, sizeof(text), "the verbenad that runs here belongs to %s and serves nobody else; for "
			 "several users start the system's: verbenad --system", owner);
		vb_client_refuse(client, 1, EACCES, text);
		vb_client_destroy(client);
		return;
	}
	client->user = vb_users_find(&server->users, client->peer.uid);
	if (!client->user || !vb_user_take(client->user, VB_USER_CONNECTIONS)) {
		vb_log_limited(VB_LOG_WARN, "uid %u has too many connections", (unsigned)client->peer.uid);
		vb_client_refuse(client, 1, EDQUOT, "this user has more connections to verbenad than others leave him");
		vb_client_destroy(client);
		return;
	}
	client->cm_ids.quota = &client->user->ids;
	client->hello_deadline = vb_clock_now() + HELLO_PATIENCE;
	server->hello_deadline = vb_time_earlier(server->hello_deadline, client->hello_deadline);
	vb_list_append(&server->client_list, &client->node);
	server->clients++;
	server->idle_deadline = VB_TIME_NEVER;
}

int vb_server_create(struct vb_server **out, const int listener[VB_SERVER_LISTENERS], const struct vb_server_config *config)
{
	struct vb_server *server = calloc(1, sizeof(*server));
	int error = 0;

	if (!server)
		return -ENOMEM;
	server->config = *config;
	memcpy(server->listener, listener, sizeof(server->listener));
	server->idle_deadline = vb_clock_now() + (config->first > config->idle ? config->first : config->idle);
	server->devices.host_seed = vb_host_seed();
	vb_list_init(&server->client_list);
	vb_resource_queries_init(&server->queries);
	vb_shapes_init(&server->shapes);
	vb_device_counters_init(&server->counters);
	vb_users_init(&server->users, vb_descriptor_limit());
	server->reserve = vb_descriptor_reserve();
	server->listen_again = server->hello_deadline = server->refresh_at = VB_TIME_NEVER;
	server->batch = vb_udp_batch_create();
	server->poller = vb_poller_open();
	server->cm = vb_cm_service_create(&server->devices, server->poller);
	server->adapter_watcher = (struct vb_adapter_watcher){.changed = report_change, .context = server};
	server->subnet_host = (struct vb_subnet_host){
		.context = server, .answered = report_answer, .connection_mad = take_connection_mad, .addresses = list_addresses};
	server->adapter =
		vb_adapter_service_create(server->poller, server->devices.host_seed, &server->adapter_watcher, &server->subnet_host);
	if (server->cm && server->adapter)
		vb_cm_service_use_adapter(server->cm, server->adapter);
	server->netlink = vb_netlink_watch();
	if (!server->batch || !server->cm || !server->adapter)
		error = -ENOMEM;
	else if (server->poller < 0)
		error = server->poller;
	else if (server->netlink < 0)
		error = server->netlink;
	vb_slots_init(&server->slots, &server->client_list, server->poller);
	if (error == 0)
		error = watch_listeners(server, true);
	if (error == 0)
		error = vb_poller_add(server->poller, server->netlink, &server->netlink);
	if (error != 0) {
		vb_server_destroy(server);
		return error;
	}
	refresh_devices(server);
	if (config->system) {
		char why[248];

		error = vb_slots_serve_users(&server->slots, config->has_trusted ? &config->trusted : NULL);
		if (error != 0) {
			vb_server_destroy(server);
			return error;
		}
		/* If it cannot be had now it is tried again when it is needed. */
		(void)vb_slots_open_port(&server->slots, why, sizeof(why));
	}
	*out = server;
	return 0;
}

static void serve(struct vb_server *server, void *tag)
{
	struct vb_port_family *family = vb_slots_own_family(&server->slots, tag);

	if (tag == &server->listener[0] || tag == &server->listener[1]) {
		accept_client(server, *(int *)tag);
	} else if (tag == &server->netlink) {
		if (vb_netlink_drain(server->netlink))
			refresh_devices(server);
	} else if (vb_slots_is_map(&server->slots, tag)) {
		vb_slot_map_check(&server->slots.map);
	} else if (family) {
		if (family->fd[0] >= 0)
			drain_own_socket(server, family);
	} else if (!vb_cm_service_serve(server->cm, tag) && !vb_adapter_service_serve(server->adapter, vb_clock_now(), tag)) {
		struct vb_client *client = tag;

		vb_client_flush(client);
		receive_messages(server, client);
	}
}

/* Clients are dropped only here, so that no tag of the same round points to one that is gone. */
static void drop_failed(struct vb_server *server)
{
	VB_LIST_FOR_EACH(node, &server->client_list) {
		struct vb_client *client = vb_container_of(node, struct vb_client, node);

		if (client->failed)
			drop_client(server, client);
	}
	vb_users_reap(&server->users);
	/* What a flood took is given back. */
	if (server->much_freed)
		malloc_trim(0);
	server->much_freed = false;
}

/* What they were told in this turn, by one system call for each. */
static void flush_clients(struct vb_server *server)
{
	VB_LIST_FOR_EACH(node, &server->client_list) {
		struct vb_client *client = vb_container_of(node, struct vb_client, node);

		if (!client->blocked && !vb_list_is_empty(&client->unsent))
			vb_client_flush(client);
	}
}

/* While we take sockets over, what goes to QP1 reaches the socket that stands first in the group: a request sent to this host
 * now would be lost, and repeated seconds later. */
static bool may_manage_connections(const struct vb_server *server)
{
	return !server->slots.shared.port.open || server->slots.shared.port.settled;
}

/* One that was started on demand, when no client is connected; but what is set must be there for the next program, and
 * its adapter may be part of a fabric. */
static bool may_end(const struct vb_server *server)
{
	return !server->config.system && server->shapes.count == 0 && vb_adapter_service_is_idle(server->adapter);
}

/* When something is due. */
static vb_time next_deadline(const struct vb_server *server)
{
	vb_time deadline = vb_slots_deadline(&server->slots);

	deadline = vb_time_earlier(deadline, vb_resource_queries_deadline(&server->queries));
	deadline = vb_time_earlier(deadline, vb_time_earlier(server->listen_again, server->hello_deadline));
	deadline = vb_time_earlier(deadline, server->refresh_at);
	if (may_manage_connections(server))
		deadline = vb_time_earlier(deadline, vb_cm_service_deadline(server->cm));
	deadline = vb_time_earlier(deadline, vb_adapter_service_deadline(server->adapter));
	if (may_end(server))
		deadline = vb_time_earlier(deadline, server->idle_deadline);
	return deadline;
}

bool vb_server_turn(struct vb_server *server, vb_time until)
{
	void *tags[64];
	unsigned count = vb_poller_wait(server->poller, tags, 64, vb_time_earlier(until, next_deadline(server)));
	vb_time now;

	for (unsigned i = 0; i < count; i++)
		serve(server, tags[i]);
	now = vb_clock_now();
	if (now >= server->listen_again)
		listen_once_more(server);
	if (now >= server->refresh_at)
		refresh_devices(server);
	if (now >= server->hello_deadline)
		expire_hello(server, now);
	/* A process that waits for an answer goes on while messages are sent to other hosts. */
	flush_clients(server);
	drop_failed(server);
	if (may_manage_connections(server))
		vb_cm_service_run(server->cm, now);
	vb_resource_queries_expire(&server->queries, now, &server->client_list);
	vb_adapter_service_run(server->adapter, now);
	close_port_if_unused(server);
	vb_slots_expire(&server->slots, now);
	flush_clients(server);
	/* A process that connects after this look finds no daemon listening, and starts the next daemon. */
	return may_end(server) && now >= server->idle_deadline && count == 0;
}

void vb_server_run(struct vb_server *server)
{
	while (!vb_server_turn(server, VB_TIME_NEVER))
		;
}

void vb_server_destroy(struct vb_server *server)
{
	/* First, for ids know the clients that own them. */
	vb_cm_service_destroy(server->cm);
	vb_adapter_service_destroy(server->adapter);
	vb_resource_queries_fini(&server->queries);
	vb_shapes_fini(&server->shapes);
	vb_device_counters_fini(&server->counters);
	VB_LIST_FOR_EACH(node, &server->client_list)
		vb_client_destroy(vb_container_of(node, struct vb_client, node));
	vb_slots_fini(&server->slots);
	if (server->netlink >= 0)
		vb_descriptor_close(server->netlink);
	if (server->poller >= 0)
		vb_descriptor_close(server->poller);
	for (unsigned i = 0; i < VB_SERVER_LISTENERS; i++)
		if (server->listener[i] >= 0)
			vb_descriptor_close(server->listener[i]);
	if (server->reserve >= 0)
		vb_descriptor_close(server->reserve);
	vb_users_fini(&server->users);
	vb_udp_batch_destroy(server->batch);
	free(server);
}
