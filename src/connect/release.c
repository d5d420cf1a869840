/* SPDX-License-Identifier: MIT
 *
 * A process lets go of an id, or ends: the peer is told what the state of the connection demands, and the id lives on without
 * an owner where it must still answer (IBA 12.9.8.4).
 */
#include "connect/connection.h"

static void forget_owner(struct vb_connection *connection)
{
	if (!connection->owner)
		return;
	vb_list_remove(&connection->owner_node);
	connection->owner->count--;
	connection->owner = NULL;
}

void vb_connection_release(struct vb_connect *connect, vb_time now, struct vb_connection *connection)
{
	forget_owner(connection);
	vb_connection_leave_backlog(connect, connection);
	vb_connect_ports_release(&connect->ports, &connection->binding);
	switch (connection->state) {
	case VB_CONNECT_REQ_SENT:
	case VB_CONNECT_MRA_REQ_RECEIVED:
		/* The peer may be about to answer; IBA 12.6.7.2: "timeout" says that this side waits no more. */
		vb_connect_send_rej(connect, connection, VB_CM_REJECT_TIMEOUT, NULL, 0);
		break;
	case VB_CONNECT_REP_SENT:
	case VB_CONNECT_MRA_REP_RECEIVED:
		/* A peer that has the REP waits for nothing more: a REJ that is lost would not be missed, a DREQ is repeated. */
		vb_connect_send_rej(connect, connection, VB_CM_REJECT_CONSUMER, NULL, 0);
		vb_connect_send_dreq(connect, now, connection);
		return;
	case VB_CONNECT_REQ_RECEIVED:
	case VB_CONNECT_REP_RECEIVED:
		vb_connect_send_rej(connect, connection, VB_CM_REJECT_CONSUMER, NULL, 0);
		break;
	case VB_CONNECT_SIDR_REQ_RECEIVED:
		vb_connect_send_sidr_rep(connect, connection, VB_CM_SIDR_REJECTED, NULL);
		break;
	case VB_CONNECT_ESTABLISHED:
		vb_connect_send_dreq(connect, now, connection);
		return;
	case VB_CONNECT_DREQ_RECEIVED:
		vb_connect_send_drep(connect, connection, connection->transaction);
		vb_connection_enter_timewait(connect, now, connection);
		return;
	case VB_CONNECT_DREQ_SENT:
	case VB_CONNECT_TIMEWAIT:
		return;
	case VB_CONNECT_REJECTED:
	case VB_CONNECT_SIDR_ANSWERED:
		break;
	default:
		vb_connection_free(connect, connection);
		return;
	}
	vb_connection_enter_rejected(connect, now, connection);
}

void vb_connect_owner_gone(struct vb_connect *connect, vb_time now, struct vb_connect_owner *owner)
{
	while (!vb_list_is_empty(&owner->ids))
		vb_connection_release(connect, now, vb_container_of(owner->ids.next, struct vb_connection, owner_node));
}
