/* SPDX-License-Identifier: MIT
 *
 * What happens when an answer does not come: the message is repeated as often as was agreed (IBA 12.9.8.2: the REQ says
 * how often and how long apart), then given up. And when it cannot come, because the network says that the peer is not there.
 */
#include <errno.h>
#include <string.h>

#include "connect/connection.h"

static void give_up(struct vb_connect *connect, vb_time now, struct vb_connection *connection)
{
	switch (connection->state) {
	case VB_CONNECT_REQ_SENT:
	case VB_CONNECT_MRA_REQ_RECEIVED:
	case VB_CONNECT_REP_SENT:
	case VB_CONNECT_MRA_REP_RECEIVED:
		/* Should the peer live after all, it need not wait for its own timeout. */
		vb_connect_send_rej(connect, connection, VB_CM_REJECT_TIMEOUT, NULL, 0);
		vb_connection_enter(connect, connection, VB_CONNECT_CLOSED);
		vb_connect_tell(connect, connection, VB_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
		break;
	case VB_CONNECT_SIDR_REQ_SENT:
		vb_connection_enter(connect, connection, VB_CONNECT_CLOSED);
		vb_connect_tell(connect, connection, VB_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
		break;
	case VB_CONNECT_DREQ_SENT:
		vb_connect_tell(connect, connection, VB_CM_EVENT_DISCONNECTED, -ETIMEDOUT);
		vb_connection_enter_timewait(connect, now, connection);
		break;
	default:
		break;
	}
}

static void end_wait(struct vb_connect *connect, struct vb_connection *connection)
{
	bool was_timewait = connection->state == VB_CONNECT_TIMEWAIT;

	if (!connection->owner) {
		vb_connection_free(connect, connection);
		return;
	}
	vb_connection_enter(connect, connection, VB_CONNECT_CLOSED);
	if (was_timewait)
		vb_connect_tell(connect, connection, VB_CM_EVENT_TIMEWAIT_EXIT, 0);
}

static void expire_one(struct vb_connect *connect, vb_time now, struct vb_connection *connection)
{
	switch (connection->state) {
	case VB_CONNECT_TIMEWAIT:
	case VB_CONNECT_REJECTED:
	case VB_CONNECT_SIDR_ANSWERED:
		end_wait(connect, connection);
		return;
	default:
		break;
	}
	if (connection->retries_left == 0) {
		give_up(connect, now, connection);
		return;
	}
	connection->retries_left--;
	vb_connect_timer_set(&connect->timers, &connection->timer, now + connection->response_timeout);
	vb_connect_repeat(connect, connection);
}

void vb_connect_expire(struct vb_connect *connect, vb_time now)
{
	struct vb_connect_timer *timer;

	while ((timer = vb_connect_timers_first(&connect->timers)) && timer->when <= now) {
		vb_connect_timer_cancel(&connect->timers, timer);
		expire_one(connect, now, vb_container_of(timer, struct vb_connection, timer));
	}
}

static bool says_peer_is_unreachable(int error)
{
	return error == ECONNREFUSED || error == EHOSTUNREACH || error == ENETUNREACH;
}

/* ICMP is easily forged: the message must be quoted as it was sent, with the ids that no host off the path knows. */
void vb_connect_undelivered(struct vb_connect *connect, const uint8_t destination[16], const void *bytes, size_t length,
			    int error)
{
	struct vb_connection *connection;
	struct vb_cm_mad mad;

	if (!says_peer_is_unreachable(error) || vb_cm_mad_decode(&mad, bytes, length) != 0 ||
	    (mad.attribute != VB_CM_REQ && mad.attribute != VB_CM_SIDR_REQ))
		return;
	connection = vb_connection_find(connect, mad.attribute == VB_CM_REQ ? mad.req.local_id : mad.sidr_req.request_id);
	if (!connection || (connection->state != VB_CONNECT_REQ_SENT && connection->state != VB_CONNECT_SIDR_REQ_SENT) ||
	    memcmp(connection->path.destination, destination, 16) != 0 ||
	    memcmp(connection->mad, bytes, VB_CM_MAD_LENGTH) != 0)
		return;
	vb_connection_enter(connect, connection, VB_CONNECT_CLOSED);
	vb_connect_tell(connect, connection, VB_CM_EVENT_UNREACHABLE, -error);
}
