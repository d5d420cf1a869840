/* SPDX-License-Identifier: MIT
 *
 * What a process may ask of its ids: a table of verbs and the states in which each makes sense; any other state is
 * EINVAL. An id that is not the process's own does not exist for it (ENOENT).
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <string.h>
#include <sys/socket.h>

#include "connect/connection.h"
#include "profiles/limits.h"
#include "wire/device_kind.h"

struct order {
	vb_time now;
	struct vb_connect_owner *owner;
	const struct vb_cm_command *command;
	struct vb_cm_reply *reply;
};

static bool family_is_known(uint16_t family)
{
	return family == AF_INET || family == AF_INET6 || family == VB_CM_AF_IB;
}

static bool conn_is_sound(const struct vb_cm_conn *conn, unsigned private_limit)
{
	return conn->private_data_length <= private_limit && conn->qpn <= 0xffffff && conn->starting_psn <= 0xffffff &&
	       conn->ece_vendor <= 0xffffff && conn->flow_label <= 0xfffff;
}

static int choose_qp_type(uint32_t port_space, uint32_t wanted)
{
	switch (port_space) {
	case VB_CM_PS_TCP:
		return IBV_QPT_RC;
	case VB_CM_PS_UDP:
	case VB_CM_PS_IPOIB:
		return IBV_QPT_UD;
	case VB_CM_PS_IB:
		return wanted == IBV_QPT_RC || wanted == IBV_QPT_UC || wanted == IBV_QPT_UD || wanted == IBV_QPT_XRC_SEND ||
				       wanted == IBV_QPT_XRC_RECV ?
			       (int)wanted :
			       -EINVAL;
	default:
		return -EINVAL;
	}
}

static int create(struct vb_connect *connect, struct vb_connection *unused, struct order *order)
{
	int qp_type = choose_qp_type(order->command->port_space, order->command->qp_type), error;
	struct vb_connection *connection;

	(void)unused;
	if (qp_type < 0)
		return qp_type;
	error = vb_connection_create(connect, order->owner, 0, &connection);
	if (error)
		return error;
	connection->port_space = order->command->port_space;
	connection->qp_type = (uint8_t)qp_type;
	order->reply->id = connection->id;
	return 0;
}

static int destroy(struct vb_connect *connect, struct vb_connection *connection, struct order *order)
{
	vb_connection_release(connect, order->now, connection);
	return 0;
}

/* ---- ports */

static int bind_to(struct vb_connect *connect, struct vb_connection *connection, const struct vb_cm_address *address)
{
	int error;

	if (!family_is_known(address->family))
		return -EAFNOSUPPORT;
	if (!vb_connect_address_is_any(address) &&
	    !connect->host.find_device(connect->host.context, address->gid,
				       vb_cm_address_is_native(address) ? VB_FABRIC_INTERFACE : address->scope, &connection->device))
		return -EADDRNOTAVAIL;
	error = vb_connect_ports_bind(&connect->ports, &connection->binding, connection->port_space, address,
				      connect->host.random(connect->host.context));
	if (error)
		return error;
	connection->source = connection->binding.address;
	vb_connection_enter(connect, connection, VB_CONNECT_BOUND);
	return 0;
}

static int bind_id(struct vb_connect *connect, struct vb_connection *connection, struct order *order)
{
	int error;

	connection->binding.reuse = order->command->reuse_address;
	connection->binding.family_only = order->command->address_family_only;
	error = bind_to(connect, connection, &order->command->source);
	order->reply->source = connection->source;
	return error;
}

static int listen_on(struct vb_connect *connect, struct vb_connection *connection, struct order *order)
{
	static const struct vb_cm_address anywhere = {.family = AF_INET};
	uint32_t backlog = order->command->backlog;
	int error = 0;

	/* rdma_listen on an unbound id: a port of its own on every address. */
	if (connection->state == VB_CONNECT_IDLE)
		error = bind_to(connect, connection, &anywhere);
	if (!error && !order->command->by_stream)
		error = vb_connect_ports_listen(&connect->ports, &connection->binding);
	if (error)
		return error;
	connection->backlog = backlog == 0 || backlog > VB_CONNECT_BACKLOG ? VB_CONNECT_BACKLOG : backlog;
	vb_connection_enter(connect, connection, VB_CONNECT_LISTENING);
	order->reply->source = connection->source;
	return 0;
}

static int fetched(struct vb_connect *connect, struct vb_connection *connection, struct order *order)
{
	(void)order;
	vb_connection_leave_backlog(connect, connection);
	return 0;
}

/* ---- connections */

static uint8_t smaller(unsigned a, unsigned b)
{
	return (uint8_t)(a < b ? a : b);
}

static int check_peer(const struct vb_cm_command *command)
{
	if (!family_is_known(command->destination.family) || command->source.family != command->destination.family)
		return -EAFNOSUPPORT;
	if (vb_connect_address_is_any(&command->destination) || vb_gid_is_multicast(command->destination.gid))
		return -EINVAL;
	if (vb_cm_address_is_native(&command->destination) && command->path.framing != VB_FRAMING_GLOBAL)
		return -EINVAL;
	return vb_connect_address_is_any(&command->source) ? -EINVAL : 0;
}

static bool path_is_sound(const struct vb_path *path)
{
	return path->framing == VB_FRAMING_UDP || path->framing == VB_FRAMING_ETHERNET ||
	       (path->framing == VB_FRAMING_GLOBAL && path->dlid != 0 && path->sl < 16);
}

static void set_path(struct vb_connection *connection, const struct vb_cm_command *command)
{
	const struct vb_cm_address *source = &command->source, *destination = &command->destination;
	const struct vb_cm_conn *conn = &command->conn;

	if (command->path.framing == VB_FRAMING_GLOBAL) {
		connection->path = command->path;
		return;
	}
	memcpy(connection->path.source, source->gid, 16);
	memcpy(connection->path.destination, destination->gid, 16);
	connection->path.traffic_class = conn->traffic_class & 0xfc;
	connection->path.hop_limit = conn->hop_limit ? conn->hop_limit : VB_CONNECT_HOP_LIMIT;
	connection->path.framing = command->path.framing;
	if (command->path.framing == VB_FRAMING_ETHERNET)
		connection->path.interface_index = command->interface_index;
	if (vb_connect_gid_is_link_local(destination->gid))
		connection->path.interface_index = destination->scope ? destination->scope : command->interface_index;
}

/* What rdma_cm derives from the ports for lack of a better label; rxe makes a QP's UDP source port of it. */
static uint32_t default_flow_label(uint16_t source_port, uint16_t destination_port)
{
	return ((uint32_t)source_port * 31 + destination_port) & 0xfffff;
}

static void set_request(struct vb_connection *connection, const struct vb_cm_command *command)
{
	const struct vb_cm_conn *conn = &command->conn;

	memcpy(connection->source.gid, command->source.gid, 16);
	connection->source.family = command->source.family;
	connection->source.scope = command->source.scope;
	connection->destination = command->destination;
	set_path(connection, command);
	connection->is_active = true;
	connection->service_id = vb_cm_address_is_native(&command->destination) ?
					 command->destination.service_id :
					 vb_cm_service_id(connection->port_space, command->destination.port);
	connection->local_qpn = conn->qpn;
	connection->responder_resources = smaller(conn->responder_resources, VB_MAX_RD_ATOMIC);
	connection->initiator_depth = smaller(conn->initiator_depth, VB_MAX_RD_ATOMIC);
	connection->ack_timeout = conn->ack_timeout ? conn->ack_timeout & 0x1f : VB_CONNECT_ACK_TIMEOUT;
	connection->path_mtu = conn->path_mtu ? conn->path_mtu : connection->device.active_mtu;
	connection->retry_count = conn->retry_count;
	connection->traffic_class = conn->traffic_class;
	connection->flow_label = conn->flow_label ? conn->flow_label :
				 default_flow_label(connection->source.port, command->destination.port);
	connection->max_retries = VB_CONNECT_MAX_RETRIES;
	connection->response_timeout = vb_connect_exponent(VB_CONNECT_RESPONSE_TIMEOUT, 0, VB_CONNECT_TIMEOUT_MOST) +
				       2 * vb_connect_exponent(VB_CONNECT_PACKET_LIFE, 0, VB_CONNECT_TIMEOUT_MOST);
}

static int connect_to(struct vb_connect *connect, struct vb_connection *connection, struct order *order)
{
	const struct vb_cm_command *command = order->command;
	bool sidr = vb_connection_is_sidr(connection);
	unsigned limit = (sidr ? VB_CM_SIDR_REQ_PRIVATE : VB_CM_REQ_PRIVATE) - vb_connect_private_offset(&command->source);
	struct vb_connect_device device;
	int error = check_peer(command);

	if (error)
		return error;
	if (!conn_is_sound(&command->conn, limit) || command->conn.path_mtu > IBV_MTU_4096 || !path_is_sound(&command->path))
		return -EINVAL;
	if (!connect->host.find_device(connect->host.context, command->source.gid, command->interface_index, &device))
		return -EADDRNOTAVAIL;
	if (connection->state == VB_CONNECT_IDLE)
		error = bind_to(connect, connection, &command->source);
	if (error)
		return error;
	connection->device = device;
	set_request(connection, command);
	order->reply->source = connection->source;
	if (sidr) {
		vb_connection_enter(connect, connection, VB_CONNECT_SIDR_REQ_SENT);
		vb_connect_send_sidr_req(connect, order->now, connection, &command->conn);
	} else {
		vb_connection_enter(connect, connection, VB_CONNECT_REQ_SENT);
		vb_connect_send_req(connect, order->now, connection, &command->conn);
	}
	return 0;
}

static int accept_request(struct vb_connect *connect, struct vb_connection *connection, struct order *order)
{
	const struct vb_cm_conn *conn = &order->command->conn;
	bool sidr = vb_connection_is_sidr(connection);

	if (!conn_is_sound(conn, sidr ? VB_CM_SIDR_REP_PRIVATE : VB_CM_REP_PRIVATE))
		return -EINVAL;
	vb_connection_leave_backlog(connect, connection);
	connection->local_qpn = conn->qpn;
	if (sidr) {
		vb_connection_enter(connect, connection, VB_CONNECT_SIDR_ANSWERED);
		vb_connect_send_sidr_rep(connect, connection, VB_CM_SIDR_VALID, conn);
	} else {
		vb_connection_enter(connect, connection, VB_CONNECT_REP_SENT);
		vb_connect_send_rep(connect, order->now, connection, conn);
	}
	return 0;
}

static int reject(struct vb_connect *connect, struct vb_connection *connection, struct order *order)
{
	const struct vb_cm_conn *conn = &order->command->conn;
	uint32_t reason = order->command->reason ? order->command->reason : VB_CM_REJECT_CONSUMER;
	bool sidr = vb_connection_is_sidr(connection);

	if (!conn_is_sound(conn, sidr ? VB_CM_SIDR_REP_PRIVATE : VB_CM_REJ_PRIVATE) || reason > UINT16_MAX)
		return -EINVAL;
	vb_connection_leave_backlog(connect, connection);
	if (sidr) {
		vb_connection_enter(connect, connection, VB_CONNECT_SIDR_ANSWERED);
		vb_connect_send_sidr_rep(connect, connection, VB_CM_SIDR_REJECTED, conn);
		return 0;
	}
	vb_connect_send_rej(connect, connection, (uint16_t)reason, conn->private_data, conn->private_data_length);
	vb_connection_enter_rejected(connect, order->now, connection);
	return 0;
}

static int establish(struct vb_connect *connect, struct vb_connection *connection, struct order *order)
{
	(void)order;
	/* The daemon before us was asked, and died. The peer, which has had no RTU, repeats its REP. */
	if (connection->state == VB_CONNECT_ESTABLISHED)
		return connection->is_adopted ? 0 : -EINVAL;
	vb_connection_enter(connect, connection, VB_CONNECT_ESTABLISHED);
	vb_connect_send_rtu(connect, connection);
	return 0;
}

/* rdma_notify(IBV_EVENT_COMM_EST): data came before the RTU, so the peer is ready (IBA 12.9.8.5). */
static int notify(struct vb_connect *connect, struct vb_connection *connection, struct order *order)
{
	(void)order;
	if (connection->state == VB_CONNECT_ESTABLISHED)
		return -EISCONN;
	vb_connect_timer_cancel(&connect->timers, &connection->timer);
	vb_connection_enter(connect, connection, VB_CONNECT_ESTABLISHED);
	vb_connect_tell(connect, connection, VB_CM_EVENT_ESTABLISHED, 0);
	return 0;
}

/* As with the kernel's rdma_cm, disconnecting what is not (any more) connected is no error once a connection was asked
 * for. */
static int disconnect(struct vb_connect *connect, struct vb_connection *connection, struct order *order)
{
	switch (connection->state) {
	case VB_CONNECT_ESTABLISHED:
	case VB_CONNECT_REP_SENT:
	case VB_CONNECT_MRA_REP_RECEIVED:
		vb_connect_send_dreq(connect, order->now, connection);
		break;
	case VB_CONNECT_DREQ_RECEIVED:
		vb_connect_send_drep(connect, connection, connection->transaction);
		vb_connection_enter_timewait(connect, order->now, connection);
		break;
	default:
		break;
	}
	return 0;
}

/* ---- after the daemon was restarted */

/* What an event said of the peer's request, turned round again. */
static void resume_request(struct vb_connect *connect, struct vb_connection *connection, const struct vb_cm_conn *conn)
{
	connection->responder_resources = smaller(conn->initiator_depth, VB_MAX_RD_ATOMIC);
	connection->initiator_depth = smaller(conn->responder_resources, VB_MAX_RD_ATOMIC);
	vb_connection_key_remote(connect, connection); /* it may be repeated */
	vb_connection_enter(connect, connection, VB_CONNECT_REQ_RECEIVED);
}

static int adopt_connection(struct vb_connect *connect, struct order *order)
{
	const struct vb_cm_command *command = order->command;
	uint32_t id = (uint32_t)(command->remote_cookie >> 32), remote_id = (uint32_t)command->remote_cookie;
	struct vb_connect_device device;
	struct vb_connection *connection;
	int error = check_peer(command);

	if (error)
		return error;
	if (id == 0 || remote_id == 0 || !conn_is_sound(&command->conn, VB_CM_PRIVATE_DATA) || !path_is_sound(&command->path))
		return -EINVAL;
	if (!connect->host.find_device(connect->host.context, command->source.gid, command->interface_index, &device))
		return -EADDRNOTAVAIL;
	error = vb_connection_create(connect, order->owner, id, &connection);
	if (error)
		return error;
	connection->port_space = command->port_space;
	connection->qp_type = (uint8_t)choose_qp_type(command->port_space, command->qp_type);
	connection->device = device;
	set_request(connection, command);
	/* The QP is the peer's here; ours is not told, nor which side asked. */
	connection->source = command->source;
	connection->is_active = false;
	connection->is_adopted = command->state == VB_CM_ADOPTED_CONNECTED;
	connection->local_qpn = 0;
	connection->remote_id = remote_id;
	connection->remote_qpn = command->conn.qpn;
	if (command->state == VB_CM_ADOPTED_REQUESTED)
		resume_request(connect, connection, &command->conn);
	else
		vb_connection_enter(connect, connection, VB_CONNECT_ESTABLISHED);
	order->reply->id = id;
	order->reply->source = connection->source;
	return 0;
}

static int adopt(struct vb_connect *connect, struct vb_connection *unused, struct order *order)
{
	struct vb_connection *connection;
	int error, qp_type = choose_qp_type(order->command->port_space, order->command->qp_type);

	if (qp_type < 0)
		return qp_type;
	switch (order->command->state) {
	case VB_CM_ADOPTED_BOUND:
	case VB_CM_ADOPTED_LISTENING:
		break;
	case VB_CM_ADOPTED_CONNECTED:
	case VB_CM_ADOPTED_REQUESTED:
		return qp_type == IBV_QPT_UD ? -EINVAL : adopt_connection(connect, order);
	default:
		return -EINVAL;
	}
	error = create(connect, unused, order);
	if (error)
		return error;
	connection = vb_connection_find(connect, order->reply->id);
	error = bind_id(connect, connection, order);
	if (!error && order->command->state == VB_CM_ADOPTED_LISTENING)
		error = listen_on(connect, connection, order);
	if (error) {
		vb_connection_free(connect, connection);
		order->reply->id = 0;
	}
	return error;
}

/* ---- */

#define IN(state) (1u << VB_CONNECT_##state)
#define ANY_STATE (~0u)
#define NO_ID 0u

static const struct verb {
	uint32_t states;
	int (*run)(struct vb_connect *connect, struct vb_connection *connection, struct order *order);
} verbs[] = {
	[VB_CM_CREATE] = {NO_ID, create},
	[VB_CM_DESTROY] = {ANY_STATE, destroy},
	[VB_CM_BIND] = {IN(IDLE), bind_id},
	[VB_CM_LISTEN] = {IN(IDLE) | IN(BOUND), listen_on},
	[VB_CM_CONNECT] = {IN(IDLE) | IN(BOUND), connect_to},
	[VB_CM_ACCEPT] = {IN(REQ_RECEIVED) | IN(SIDR_REQ_RECEIVED), accept_request},
	[VB_CM_REJECT] = {IN(REQ_SENT) | IN(MRA_REQ_RECEIVED) | IN(REQ_RECEIVED) | IN(REP_RECEIVED) | IN(REP_SENT) |
				  IN(MRA_REP_RECEIVED) | IN(SIDR_REQ_RECEIVED), reject},
	[VB_CM_ESTABLISH] = {IN(REP_RECEIVED) | IN(ESTABLISHED), establish},
	[VB_CM_NOTIFY] = {IN(REP_SENT) | IN(MRA_REP_RECEIVED) | IN(ESTABLISHED), notify},
	[VB_CM_DISCONNECT] = {ANY_STATE & ~(IN(IDLE) | IN(BOUND) | IN(LISTENING)), disconnect},
	[VB_CM_ADOPT] = {NO_ID, adopt},
	[VB_CM_FETCHED] = {ANY_STATE, fetched},
};

_Static_assert(VB_CONNECT_STATE_COUNT <= 32, "states fit a mask");

static int carry_out(struct vb_connect *connect, struct order *order)
{
	const struct vb_cm_command *command = order->command;
	const struct verb *verb = command->verb < sizeof(verbs) / sizeof(verbs[0]) ? &verbs[command->verb] : NULL;
	struct vb_connection *connection = NULL;

	if (!verb || !verb->run)
		return -EINVAL;
	if (verb->states != NO_ID) {
		order->reply->id = command->id; /* also of a refusal: by this alone the process knows what was refused (only_refusals) */
		connection = vb_connection_find(connect, command->id);
		if (!connection || connection->owner != order->owner)
			return -ENOENT;
		if (!(verb->states & 1u << connection->state))
			return -EINVAL;
	}
	return verb->run(connect, connection, order);
}

void vb_connect_command(struct vb_connect *connect, vb_time now, struct vb_connect_owner *owner,
			const struct vb_cm_command *command, struct vb_cm_reply *reply)
{
	struct order order = {.now = now, .owner = owner, .command = command, .reply = reply};

	memset(reply, 0, sizeof(*reply));
	reply->type = VB_CM_REPLY;
	reply->serial = command->serial;
	reply->error = -carry_out(connect, &order);
}
