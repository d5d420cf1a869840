/* SPDX-License-Identifier: MIT
 *
 * The engine as a whole: made, unmade, and the steps between states that messages, commands and timers share.
 */
#include "connect/connect.h"

#include <stdlib.h>

#include "base/log.h"
#include "connect/connection.h"

struct vb_connect *vb_connect_create(const struct vb_connect_host *host)
{
	struct vb_connect *connect = calloc(1, sizeof(*connect));

	if (!connect)
		return NULL;
	connect->host = *host;
	connect->secret = host->random(host->context);
	vb_connect_ports_init(&connect->ports);
	return connect;
}

void vb_connect_destroy(struct vb_connect *connect)
{
	if (!connect)
		return;
	for (uint32_t i = 0; i < connect->buckets; i++) {
		while (connect->by_id[i])
			vb_connection_free(connect, connect->by_id[i]);
	}
	vb_connect_timers_fini(&connect->timers);
	free(connect->by_id);
	free(connect);
}

void vb_connect_await_adoption(struct vb_connect *connect, vb_time until)
{
	connect->adoption_until = until;
}

void vb_connect_owner_init(struct vb_connect_owner *owner)
{
	vb_list_init(&owner->ids);
	owner->count = 0;
	owner->quota = NULL;
}

vb_time vb_connect_exponent(unsigned exponent, unsigned least, unsigned most)
{
	exponent = exponent < least ? least : exponent > most ? most : exponent;
	return VB_NANOSECONDS(4096) << exponent;
}

void vb_connection_enter(struct vb_connect *connect, struct vb_connection *connection, enum vb_connect_state state)
{
	vb_log(VB_LOG_DEBUG, "cm %08x: %s -> %s", connection->id, vb_connect_state_name(connection->state),
	       vb_connect_state_name(state));
	connection->state = state;
	if (state == VB_CONNECT_CLOSED) {
		/* Nothing the peer says is for it any more. */
		vb_connect_timer_cancel(&connect->timers, &connection->timer);
		vb_connection_unkey(connect, connection);
	}
}

/* IBA 12.9.8.4: until packets of the old connection have died, its ids do not name a new one. */
void vb_connection_enter_timewait(struct vb_connect *connect, vb_time now, struct vb_connection *connection)
{
	vb_connection_enter(connect, connection, VB_CONNECT_TIMEWAIT);
	vb_connect_timer_set(
		&connect->timers, &connection->timer,
		now + vb_connect_exponent(connection->ack_timeout, VB_CONNECT_TIMEOUT_LEAST, VB_CONNECT_TIMEWAIT_MOST));
}

void vb_connection_leave_backlog(struct vb_connect *connect, struct vb_connection *connection)
{
	struct vb_connection *listener;

	if (connection->listener_id == 0)
		return;
	listener = vb_connection_find(connect, connection->listener_id);
	connection->listener_id = 0;
	if (listener && listener->waiting > 0)
		listener->waiting--;
}

/* How long we are ready to repeat a refusal: the peer asks again after its response timeout and two packet lives; twice
 * that. */
static vb_time linger(void)
{
	return 2 * (vb_connect_exponent(VB_CONNECT_RESPONSE_TIMEOUT, 0, VB_CONNECT_TIMEOUT_MOST) +
		    2 * vb_connect_exponent(VB_CONNECT_PACKET_LIFE, 0, VB_CONNECT_TIMEOUT_MOST));
}

void vb_connection_enter_rejected(struct vb_connect *connect, vb_time now, struct vb_connection *connection)
{
	vb_connection_enter(connect, connection,
			    vb_connection_is_sidr(connection) ? VB_CONNECT_SIDR_ANSWERED : VB_CONNECT_REJECTED);
	vb_connect_timer_set(&connect->timers, &connection->timer, now + linger());
}

vb_time vb_connect_next_deadline(const struct vb_connect *connect)
{
	const struct vb_connect_timer *first = vb_connect_timers_first(&connect->timers);

	return first ? first->when : VB_TIME_NEVER;
}

struct vb_connect_owner *vb_connect_owner_of(struct vb_connect *connect, uint32_t id)
{
	const struct vb_connection *connection = vb_connection_find(connect, id);

	return connection ? connection->owner : NULL;
}

unsigned vb_connect_count(const struct vb_connect *connect)
{
	return connect->count;
}

unsigned vb_connect_bound_count(const struct vb_connect *connect)
{
	return connect->ports.count;
}
