/* SPDX-License-Identifier: MIT */
#include "daemon/frame_ports.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "io/datagram.h"
#include "io/descriptor.h"
#include "io/event.h"
#include "io/unix_socket.h"
#include "wire/daemon_message.h"
#include "wire/roce_packet.h"

/* Then others have their turn. */
enum { MESSAGES_PER_TURN = 16 };

struct port {
	struct vb_list node;
	uint32_t slot;
	int fd;
	bool closed;                       /* by the process */
	int udp;                           /* our duplicate of its socket, -1: none */
	bool connected;                    /* the socket, to ports->fabric */
	struct vb_frame_page *page;        /* NULL: none */
	struct vb_frame_page known;        /* as it was last collected */
	uint32_t key;
	size_t used;
	uint8_t gathered[VB_FRAME_PORT_MESSAGE];
};

void vb_frame_ports_init(struct vb_frame_ports *ports, int poller)
{
	*ports = (struct vb_frame_ports){.poller = poller};
	vb_list_init(&ports->ports);
}

static void collect(struct port *port, struct vb_fabric_counters *counters);

static void drop(struct vb_frame_ports *ports, struct port *port)
{
	collect(port, &ports->gone);
	vb_list_remove(&port->node);
	vb_poller_remove(ports->poller, port->fd);
	vb_descriptor_close(port->fd);
	if (port->udp >= 0)
		vb_descriptor_close(port->udp);
	if (port->page)
		vb_page_unmap(port->page, VB_FRAME_PAGE);
	free(port);
}

void vb_frame_ports_fini(struct vb_frame_ports *ports)
{
	VB_LIST_FOR_EACH(node, &ports->ports)
		drop(ports, vb_container_of(node, struct port, node));
	free(ports->incoming);
}

/* ---- past us ---- */

static void write_page(const struct vb_frame_ports *ports, struct port *port)
{
	if (!port->page)
		return;
	__atomic_store_n(&port->page->key, port->key, __ATOMIC_RELAXED);
	__atomic_store_n(&port->page->source, ports->source, __ATOMIC_RELAXED);
	__atomic_store_n(&port->page->generation, ports->generation, __ATOMIC_RELAXED);
}

/* One that cannot be is not announced: the process goes by us. */
static void connect_port(const struct vb_frame_ports *ports, struct port *port)
{
	port->connected = port->udp >= 0 && ports->generation != 0 &&
			  vb_datagram_connect(port->udp, ports->fabric.gid, ports->fabric.port, ports->fabric.interface_index) == 0;
}

/* The page and the UDP socket; without them everything goes by us. */
static void open_direct(struct port *port, int ends[VB_FRAME_PORT_DESCRIPTORS])
{
	int page = vb_page_create("verbena-frames", VB_FRAME_PAGE);

	port->page = page >= 0 ? vb_page_map(page, VB_FRAME_PAGE, true) : NULL;
	port->udp = port->page ? vb_datagram_open(0) : -1;
	if (port->udp < 0) {
		if (port->page)
			vb_page_unmap(port->page, VB_FRAME_PAGE);
		if (page >= 0)
			vb_descriptor_close(page);
		port->page = NULL;
		return;
	}
	ends[VB_FRAME_PORT_UDP] = port->udp;
	ends[VB_FRAME_PORT_PAGE] = page;
}

void vb_frame_ports_follow(struct vb_frame_ports *ports, const struct vb_cable_address *fabric, uint32_t cable_key, uint32_t source)
{
	bool moved = cable_key != ports->cable_key || memcmp(fabric, &ports->fabric, sizeof(*fabric)) != 0;

	if (!moved && source == ports->source)
		return;
	ports->source = source;
	if (moved) {
		ports->fabric = *fabric;
		ports->cable_key = cable_key;
		ports->generations += cable_key != 0;
		ports->generation = cable_key != 0 ? ports->generations : 0;
		ports->next_announcement = 0;
	}
	VB_LIST_FOR_EACH(node, &ports->ports) {
		struct port *port = vb_container_of(node, struct port, node);

		if (moved)
			connect_port(ports, port);
		write_page(ports, port);
	}
}

vb_time vb_frame_ports_deadline(const struct vb_frame_ports *ports)
{
	return ports->generation != 0 && !vb_list_is_empty(&ports->ports) ? ports->next_announcement : VB_TIME_NEVER;
}

void vb_frame_ports_announce(struct vb_frame_ports *ports, vb_time now, vb_frame_ports_send *send, void *context)
{
	if (now < vb_frame_ports_deadline(ports))
		return;
	ports->next_announcement = now + VB_CABLE_INTERVAL;
	VB_LIST_FOR_EACH(node, &ports->ports) {
		struct port *port = vb_container_of(node, struct port, node);
		union vb_cable_message message;
		uint8_t gid[16];
		uint16_t number;

		if (port->closed || !port->connected || vb_datagram_own_address(port->udp, gid, &number) != 0)
			continue;
		vb_cable_begin(&message, VB_CABLE_SLOT, ports->cable_key);
		message.slot.header.slot = be16_of((uint16_t)port->slot);
		message.slot.slot_key = be32_of(port->key);
		message.slot.generation = be32_of(ports->generation);
		memcpy(message.slot.gid, gid, sizeof(gid));
		message.slot.port = be16_of(number);
		/* Not from its own socket, which the process may connect to itself: it would read the cable's key. */
		send(context, &ports->fabric, &message, sizeof(message.slot), NULL, 0);
	}
}

/* What the process has added. Numbers that go back are nonsense, and count as none. */
static uint64_t more(const uint64_t *now, uint64_t *before)
{
	uint64_t value = __atomic_load_n(now, __ATOMIC_RELAXED), grown = value > *before ? value - *before : 0;

	*before = value;
	return grown;
}

static void collect(struct port *port, struct vb_fabric_counters *counters)
{
	uint64_t packets;

	if (!port->page)
		return;
	packets = more(&port->page->transmit_packets, &port->known.transmit_packets);
	counters->transmit_packets += packets;
	counters->unicast_transmit += packets;
	counters->transmit_data += more(&port->page->transmit_data, &port->known.transmit_data);
	packets = more(&port->page->receive_packets, &port->known.receive_packets);
	counters->receive_packets += packets;
	counters->unicast_receive += packets;
	counters->receive_data += more(&port->page->receive_data, &port->known.receive_data);
	counters->transmit_discards += more(&port->page->transmit_discards, &port->known.transmit_discards);
	counters->receive_errors += more(&port->page->receive_errors, &port->known.receive_errors);
}

void vb_frame_ports_collect(struct vb_frame_ports *ports, struct vb_fabric_counters *counters)
{
#define COUNTER(name) counters->name += ports->gone.name;
	VB_FABRIC_COUNTERS(COUNTER)
#undef COUNTER
	ports->gone = (struct vb_fabric_counters){0};
	VB_LIST_FOR_EACH(node, &ports->ports)
		collect(vb_container_of(node, struct port, node), counters);
}

/* ---- opening ---- */

int vb_frame_ports_open(struct vb_frame_ports *ports, uint32_t slot, uint32_t key, int ends[VB_FRAME_PORT_DESCRIPTORS])
{
	struct port *port = calloc(1, sizeof(*port));
	int pair[2], error;

	if (!ports->incoming)
		ports->incoming = malloc(VB_FRAME_PORT_MESSAGE);
	error = port && ports->incoming ? vb_unix_pair(pair) : -ENOMEM;
	if (error != 0) {
		free(port);
		return error;
	}
	vb_unix_widen(pair[0]);
	vb_unix_widen(pair[1]);
	error = vb_poller_add(ports->poller, pair[0], port);
	if (error != 0) {
		vb_descriptor_close(pair[0]);
		vb_descriptor_close(pair[1]);
		free(port);
		return error;
	}
	/* At the end of the turn: the poller may have reported the former already. */
	VB_LIST_FOR_EACH(node, &ports->ports)
		if (vb_container_of(node, struct port, node)->slot == slot)
			vb_container_of(node, struct port, node)->closed = true;
	port->slot = slot;
	port->key = key;
	port->fd = pair[0];
	ends[VB_FRAME_PORT_SOCKET] = pair[1];
	ends[VB_FRAME_PORT_UDP] = ends[VB_FRAME_PORT_PAGE] = -1;
	open_direct(port, ends);
	connect_port(ports, port);
	write_page(ports, port);
	ports->next_announcement = 0;
	vb_list_append(&ports->ports, &port->node);
	return 0;
}

/* ---- to processes ---- */

static void send_gathered(struct vb_frame_ports *ports, struct port *port)
{
	int error = port->used == 0 ? 0 : vb_unix_send(port->fd, port->gathered, port->used, NULL, 0, false);

	port->used = 0;
	ports->lost += error != 0;
	if (error == -EPIPE || error == -ECONNRESET)
		port->closed = true;
}

static void gather(struct vb_frame_ports *ports, struct port *port, const uint8_t *frame, size_t length)
{
	if (port->used + length > sizeof(port->gathered))
		send_gathered(ports, port);
	memcpy(port->gathered + port->used, frame, length);
	port->used += length;
}

void vb_frame_ports_deliver(struct vb_frame_ports *ports, const uint8_t *bytes, size_t length)
{
	struct vb_ib_frame frame;
	uint32_t qpn;

	if (!vb_ib_frame_decode(&frame, bytes, length))
		return;
	qpn = vb_bth_destination_qpn(frame.bth);
	VB_LIST_FOR_EACH(node, &ports->ports) {
		struct port *port = vb_container_of(node, struct port, node);

		if (!port->closed && (qpn == VB_MULTICAST_QPN || qpn >> VB_DAEMON_INDEX_BITS == port->slot))
			gather(ports, port, bytes, length);
	}
}

void vb_frame_ports_flush(struct vb_frame_ports *ports)
{
	VB_LIST_FOR_EACH(node, &ports->ports) {
		struct port *port = vb_container_of(node, struct port, node);

		send_gathered(ports, port);
		if (port->closed)
			drop(ports, port);
	}
}

/* ---- from processes ---- */

static void take_message(struct vb_frame_ports *ports, size_t length, vb_frame_ports_take *take, void *context)
{
	size_t own;

	for (uint8_t *at = ports->incoming; (own = vb_frame_port_next(at, length)) > 0; at += own, length -= own)
		take(context, at, own);
}

bool vb_frame_ports_serve(struct vb_frame_ports *ports, const void *tag, vb_frame_ports_take *take, void *context)
{
	VB_LIST_FOR_EACH(node, &ports->ports) {
		struct port *port = vb_container_of(node, struct port, node);

		if (tag != port)
			continue;
		for (unsigned i = 0; i < MESSAGES_PER_TURN && !port->closed; i++) {
			ssize_t length = vb_descriptor_receive(port->fd, ports->incoming, VB_FRAME_PORT_MESSAGE);

			if (length == -EAGAIN)
				break;
			if (length <= 0)
				port->closed = true;
			else
				take_message(ports, (size_t)length, take, context);
		}
		return true;
	}
	return false;
}
