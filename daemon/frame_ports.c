/* SPDX-License-Identifier: MIT */
#include "daemon/frame_ports.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
	size_t used;
	uint8_t gathered[VB_FRAME_PORT_MESSAGE];
};

void vb_frame_ports_init(struct vb_frame_ports *ports, int poller)
{
	*ports = (struct vb_frame_ports){.poller = poller};
	vb_list_init(&ports->ports);
}

static void drop(struct vb_frame_ports *ports, struct port *port)
{
	vb_list_remove(&port->node);
	vb_poller_remove(ports->poller, port->fd);
	vb_descriptor_close(port->fd);
	free(port);
}

void vb_frame_ports_fini(struct vb_frame_ports *ports)
{
	VB_LIST_FOR_EACH(node, &ports->ports)
		drop(ports, vb_container_of(node, struct port, node));
	free(ports->incoming);
}

int vb_frame_ports_open(struct vb_frame_ports *ports, uint32_t slot)
{
	struct port *port = malloc(sizeof(*port));
	int ends[2], error;

	if (!ports->incoming)
		ports->incoming = malloc(VB_FRAME_PORT_MESSAGE);
	error = port && ports->incoming ? vb_unix_pair(ends) : -ENOMEM;
	if (error != 0) {
		free(port);
		return error;
	}
	vb_unix_widen(ends[0]);
	vb_unix_widen(ends[1]);
	error = vb_poller_add(ports->poller, ends[0], port);
	if (error != 0) {
		vb_descriptor_close(ends[0]);
		vb_descriptor_close(ends[1]);
		free(port);
		return error;
	}
	/* At the end of the turn: the poller may have reported the former already. */
	VB_LIST_FOR_EACH(node, &ports->ports)
		if (vb_container_of(node, struct port, node)->slot == slot)
			vb_container_of(node, struct port, node)->closed = true;
	port->slot = slot;
	port->fd = ends[0];
	port->closed = false;
	port->used = 0;
	vb_list_append(&ports->ports, &port->node);
	return ends[1];
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
