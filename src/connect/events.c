/* SPDX-License-Identifier: MIT
 *
 * What processes are told. Every event carries both addresses and the cookie with which a connection can be adopted by
 * the next daemon: our communication id in the high half, the peer's in the low one.
 */
#include <assert.h>
#include <string.h>

#include "connect/connection.h"

void vb_connect_event_begin(struct vb_cm_event *event, const struct vb_connection *connection,
			    enum vb_cm_event_kind kind, int status)
{
	memset(event, 0, sizeof(*event));
	event->type = VB_CM_EVENT;
	event->kind = kind;
	event->id = connection->id;
	event->status = status;
	event->interface_index = connection->device.interface_index;
	event->remote_cookie = (uint64_t)connection->id << 32 | connection->remote_id;
	event->source = connection->source;
	event->destination = connection->destination;
	event->conn.qp_type = connection->qp_type;
	event->path = connection->path;
}

/* The whole field of the message, padding and all: a MAD does not say how much of it was meant. */
void vb_connect_event_private(struct vb_cm_event *event, const void *bytes, unsigned length)
{
	assert(length <= sizeof(event->conn.private_data));
	memcpy(event->conn.private_data, bytes, length);
	event->conn.private_data_length = (uint16_t)length;
}

void vb_connect_event_send(struct vb_connect *connect, const struct vb_connection *connection,
			   const struct vb_cm_event *event)
{
	if (connection->owner)
		connect->host.event(connect->host.context, connection->owner, event);
}

void vb_connect_tell(struct vb_connect *connect, const struct vb_connection *connection, enum vb_cm_event_kind kind,
		     int status)
{
	struct vb_cm_event event;

	vb_connect_event_begin(&event, connection, kind, status);
	vb_connect_event_send(connect, connection, &event);
}
