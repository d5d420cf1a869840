/* SPDX-License-Identifier: MIT
 *
 * Connections: connect, listen, accept, reject, notify, disconnect (rdma_establish: establish.c). verbenad speaks the CM
 * protocol; here its outcome is turned into the states of the id and of its queue pair.
 *
 *   active    connect: REQ          passive   CONNECT_REQUEST event -> accept: QP to RTS, then REP
 *             REP: QP to RTS, RTU             RTU: ESTABLISHED
 *
 * How much private data fits (man rdma_connect, rdma_accept, rdma_reject): what a MAD has room for, less the 36 bytes
 * of IP addresses that rdma_cm puts into REQ and SIDR_REQ.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "io/cancellation.h"
#include "io/random.h"
#include "rdmacm/channel.h"
#include "rdmacm/device.h"
#include "rdmacm/event.h"
#include "rdmacm/explain.h"
#include "rdmacm/export.h"
#include "rdmacm/link.h"
#include "rdmacm/path.h"
#include "rdmacm/qp_attr.h"
#include "rdmacm/result.h"
#include "rdmacm/streams.h"

enum {
	ROOM_REQ = 56,
	ROOM_SIDR_REQ = 180,
	ROOM_ADDRESSES = 36,             /* of AF_IB there are none to be told */
	ROOM_REP = 196,
	ROOM_SIDR_REP = 136,
	ROOM_REJ = 148,

	REASON_CONSUMER = 28,            /* IBA 12.6.7.2 */
	REASON_VENDOR_OPTION = 35,

	MOST_RETRIES = 7,                /* three bits */
	/* Programs ask for as few as 3, trusting to be woken faster than a busy machine can. A TCP client's SYN
	 * would be repeated; ours is told no. So we hold more than they ask for, but not more than the kernel
	 * would (rdma_ucm.max_backlog). */
	SMALLEST_BACKLOG = 128,
	LARGEST_BACKLOG = 1024,
};

/* For explanations. */
static const char wrong_parameters[] = "responder_resources or initiator_depth are more than the device has "
				       "(ibv_query_device: max_qp_rd_atom, max_qp_init_rd_atom), or the id has no "
				       "queue pair and conn_param does not name one.";
static const char too_much_data[] = "private_data_len is more than the message has room for (rdma_connect(3)).";

static uint8_t smaller(uint8_t a, uint8_t b)
{
	return a < b ? a : b;
}

/* rdma_connect and rdma_accept refuse what the device cannot do. */
static bool parameters_are_valid(const struct vb_rdmacm_id *id, const struct rdma_conn_param *param)
{
	if (id->id.ps != RDMA_PS_TCP)
		return true;
	if (param == NULL)
		return id->id.qp != NULL;
	if (param->responder_resources != RDMA_MAX_RESP_RES && param->responder_resources > id->device->max_responder_resources)
		return false;
	return param->initiator_depth == RDMA_MAX_INIT_DEPTH || param->initiator_depth <= id->device->max_initiator_depth;
}

/* What goes into the message, private data last: the endpoint's own (rdma_getaddrinfo's ai_connect) before the
 * program's. */
static int fill_parameters(struct vb_rdmacm_id *id, const struct rdma_conn_param *param, size_t room, struct vb_cm_conn *conn)
{
	size_t length = param != NULL && param->private_data != NULL ? param->private_data_len : 0;

	if (id->connect_length > room || length > room - id->connect_length)
		return -EINVAL;
	conn->qp_type = (uint8_t)id->id.qp_type;
	conn->starting_psn = id->starting_psn;
	conn->responder_resources = id->responder_resources;
	conn->initiator_depth = id->initiator_depth;
	conn->flow_control = param != NULL ? param->flow_control != 0 : 0;
	conn->retry_count = param != NULL ? smaller(param->retry_count, MOST_RETRIES) : MOST_RETRIES;
	conn->rnr_retry_count = param != NULL ? smaller(param->rnr_retry_count, MOST_RETRIES) : MOST_RETRIES;
	if (id->id.qp != NULL) {
		conn->qpn = id->id.qp->qp_num;
		conn->srq = id->id.qp->srq != NULL;
	} else if (param != NULL) {
		conn->qpn = param->qp_num;
		conn->srq = param->srq != 0;
	}
	conn->qkey = vb_rdmacm_id_is_datagram(id) ? RDMA_UDP_QKEY : 0;
	conn->path_mtu = id->path.mtu;
	conn->ack_timeout = vb_rdmacm_path_ack_timeout(id);
	conn->traffic_class = id->path.traffic_class;
	conn->hop_limit = id->path.hop_limit;
	conn->flow_label = ntohl(id->path.flow_label);
	conn->private_data_length = (uint16_t)(id->connect_length + length);
	if (id->connect_length != 0)
		memcpy(conn->private_data, id->connect_data, id->connect_length);
	if (length != 0)
		memcpy(conn->private_data + id->connect_length, param->private_data, length);
	return 0;
}

/* ---- streams: the same calls, where the connection is not verbenad's affair ---- */

static struct vb_rdmacm_private_data data_of(const struct vb_cm_conn *conn)
{
	return (struct vb_rdmacm_private_data){conn->private_data, conn->private_data_length};
}

static int connect_stream(struct vb_rdmacm_id *id, const struct rdma_conn_param *param)
{
	struct vb_cm_conn conn = {0};
	int error = fill_parameters(id, param, VB_MPA_MAX_PRIVATE, &conn);

	if (error != 0)
		return vb_rdmacm_refuse("rdma_connect", id, -error, too_much_data);
	/* Before the call: the answer may be taken by another thread before this one is back. */
	vb_rdmacm_id_become(id, VB_RDMACM_CONNECTING);
	error = vb_rdmacm_streams_connect(id, conn.qpn, data_of(&conn));
	if (error != 0) {
		vb_rdmacm_id_become(id, VB_RDMACM_ROUTE_RESOLVED);
		return vb_rdmacm_outcome("rdma_connect", id, error);
	}
	return vb_rdmacm_event_await(id);
}

static int accept_stream(struct vb_rdmacm_id *id, const struct rdma_conn_param *param)
{
	struct vb_cm_conn conn = {0};
	int error = fill_parameters(id, param, VB_MPA_MAX_PRIVATE, &conn);

	if (error != 0)
		return vb_rdmacm_refuse("rdma_accept", id, -error, too_much_data);
	vb_rdmacm_id_become(id, VB_RDMACM_ACCEPTED);
	error = vb_rdmacm_streams_accept(id, conn.qpn, data_of(&conn));
	if (error != 0) {
		vb_rdmacm_id_become(id, VB_RDMACM_FAILED);
		vb_rdmacm_qp_error(id);
		return vb_rdmacm_outcome("rdma_accept", id, error);
	}
	return vb_rdmacm_event_await(id);
}

static int disconnect_stream(struct vb_rdmacm_id *id, enum vb_rdmacm_state state)
{
	int error;

	if (state == VB_RDMACM_DISCONNECTED)
		return 0;
	vb_rdmacm_id_become(id, VB_RDMACM_DISCONNECTING);
	error = vb_rdmacm_streams_disconnect(id);
	if (error != 0)
		return vb_rdmacm_outcome("rdma_disconnect", id, error);
	return state == VB_RDMACM_DISCONNECTING ? 0 : vb_rdmacm_event_await(id);
}

/* ---- all others ---- */

/* A new daemon is to hear it again, and one that refused it. */
static int keep_command(struct vb_rdmacm_id *id, const struct vb_cm_command *command)
{
	struct vb_cm_command *copy = malloc(sizeof(*copy));

	if (copy == NULL)
		return -ENOMEM;
	*copy = *command;
	vb_mutex_lock(&id->lock);
	id->kept_command = copy;
	vb_mutex_unlock(&id->lock);
	return 0;
}

static int send_request(struct vb_rdmacm_id *id, const struct vb_cm_command *command)
{
	struct vb_cm_command said = *command;
	int error = keep_command(id, command);

	if (error != 0)
		return error;
	/* Before the call: the answer may be taken by another thread before this one wakes. */
	vb_rdmacm_link_intend(id, said.verb);
	vb_rdmacm_id_become(id, VB_RDMACM_CONNECTING);
	/* A queue pair that the library does not know may be another process's, which the daemon refuses. */
	error = vb_rdmacm_link_connect(id, &said, id->id.qp == NULL);
	if (error != 0) {
		vb_rdmacm_id_become(id, VB_RDMACM_ROUTE_RESOLVED);
		vb_rdmacm_id_forget_command(id);
	}
	return error;
}

static size_t room_in_request(const struct vb_rdmacm_id *id)
{
	return (vb_rdmacm_id_is_datagram(id) ? ROOM_SIDR_REQ : ROOM_REQ) + (vb_cm_address_is_native(&id->destination) ? ROOM_ADDRESSES : 0);
}

VB_EXPORT int rdma_connect(struct rdma_cm_id *public_id, struct rdma_conn_param *conn_param)
{
	VB_UNCANCELLED;
	struct vb_rdmacm_id *id = vb_rdmacm_id_of(public_id);
	struct vb_cm_command command = {.verb = VB_CM_CONNECT};
	int error;

	if (id == NULL || vb_rdmacm_id_state(id) != VB_RDMACM_ROUTE_RESOLVED || !parameters_are_valid(id, conn_param))
		return vb_rdmacm_refuse("rdma_connect", id, EINVAL, wrong_parameters);
	id->initiator_depth = conn_param != NULL && conn_param->initiator_depth != RDMA_MAX_INIT_DEPTH ?
				      conn_param->initiator_depth : id->device->max_initiator_depth;
	id->responder_resources = conn_param != NULL && conn_param->responder_resources != RDMA_MAX_RESP_RES ?
					  conn_param->responder_resources : id->device->max_responder_resources;
	id->starting_psn = vb_random_u32() & 0xffffff;

	if (vb_rdmacm_id_is_stream(id))
		return connect_stream(id, conn_param);
	error = fill_parameters(id, conn_param, room_in_request(id), &command.conn);
	if (error != 0)
		return vb_rdmacm_refuse("rdma_connect", id, -error, too_much_data);
	id->retry_count = command.conn.retry_count;
	command.port_space = id->id.ps;
	command.qp_type = id->id.qp_type;
	command.source = id->source;
	command.destination = id->destination;
	command.interface_index = id->interface_index;
	if (!vb_rdmacm_id_is_fabric(id))
		id->route = (struct vb_path){.framing = (uint8_t)vb_rdmacm_device_framing(id->device, id->source.gid)};
	command.path = id->route;
	command.conn.ece_vendor = id->local_ece.vendor_id;
	command.conn.ece_options = id->local_ece.options;
	error = send_request(id, &command);
	if (error != 0)
		return vb_rdmacm_outcome("rdma_connect", id, error);
	return vb_rdmacm_event_await(id);
}

VB_EXPORT int rdma_listen(struct rdma_cm_id *public_id, int backlog)
{
	VB_UNCANCELLED;
	struct vb_rdmacm_id *id = vb_rdmacm_id_of(public_id);
	struct vb_cm_command command = {.verb = VB_CM_LISTEN}; /* backlog 0: as many as it can; we count ourselves (link.c) */
	struct sockaddr_in any = {.sin_family = AF_INET};
	int error;

	if (id == NULL)
		return vb_rdmacm_fail(EINVAL);
	/* The kernel's rdma_cm lets an unbound id listen, on a port of its choice. */
	if (vb_rdmacm_id_state(id) == VB_RDMACM_IDLE && rdma_bind_addr(public_id, (struct sockaddr *)&any) != 0)
		return -1;
	if (vb_rdmacm_id_state(id) != VB_RDMACM_BOUND)
		return vb_rdmacm_refuse("rdma_listen", id, EINVAL, NULL);
	id->backlog = backlog <= 0 || backlog > LARGEST_BACKLOG ? LARGEST_BACKLOG :
		      backlog < SMALLEST_BACKLOG ? SMALLEST_BACKLOG : (uint32_t)backlog;
	if (id->bound_fd >= 0) {
		error = vb_rdmacm_streams_listen(id);
		if (error != 0)
			return vb_rdmacm_outcome("rdma_listen", id, error);
	}
	command.by_stream = vb_rdmacm_streams_serve_alone(id);
	command.by_frames = vb_rdmacm_speaks_frames();
	command.port_space = id->id.ps;
	command.source = id->source;
	command.interface_index = id->interface_index;
	command.reuse_address = id->reuse_address;
	command.address_family_only = id->address_family_only;
	error = vb_rdmacm_link_call(id, &command, NULL);
	if (command.by_stream)
		error = 0; /* only to be shown: it listens already */
	/* On all addresses, and another program has UDP port 4791. */
	if (error == -EADDRINUSE && id->device == NULL && id->stream != NULL) {
		vb_log(VB_LOG_INFO, "port %u: connections can come by iWARP only", id->source.port);
		error = 0;
	}
	if (error == 0)
		vb_rdmacm_id_become(id, VB_RDMACM_LISTENING);
	return vb_rdmacm_outcome("rdma_listen", id, error);
}

static int say_accept(struct vb_rdmacm_id *id, struct vb_cm_command *command)
{
	bool datagram = vb_rdmacm_id_is_datagram(id);
	int error = datagram ? 0 : keep_command(id, command);

	if (error == 0) {
		vb_rdmacm_link_intend(id, command->verb);
		vb_rdmacm_id_become(id, datagram ? VB_RDMACM_CONNECTED : VB_RDMACM_ACCEPTED);
		error = !datagram && id->id.qp != NULL ? vb_rdmacm_link_request(id, command) : vb_rdmacm_link_call(id, command, NULL);
	}
	if (error != 0) {
		vb_rdmacm_id_forget_command(id);
		vb_rdmacm_id_become(id, VB_RDMACM_FAILED);
		vb_rdmacm_qp_error(id);
	}
	return vb_rdmacm_outcome("rdma_accept", id, error);
}

VB_EXPORT int rdma_accept(struct rdma_cm_id *public_id, struct rdma_conn_param *conn_param)
{
	VB_UNCANCELLED;
	struct vb_rdmacm_id *id = vb_rdmacm_id_of(public_id);
	struct vb_cm_command command = {.verb = VB_CM_ACCEPT};
	bool datagram;
	int error;

	if (id == NULL || vb_rdmacm_id_state(id) != VB_RDMACM_REQUESTED || !parameters_are_valid(id, conn_param) ||
	    (id->id.qp == NULL && conn_param == NULL))
		return vb_rdmacm_refuse("rdma_accept", id, EINVAL, wrong_parameters);
	vb_rdmacm_channel_touched(id);
	datagram = vb_rdmacm_id_is_datagram(id);
	/* What the REQ asked for is the most: the specification lets us grant less (IBA 12.7.30). */
	id->initiator_depth = conn_param == NULL || conn_param->initiator_depth == RDMA_MAX_INIT_DEPTH ?
				      smaller(id->initiator_depth, id->device->max_initiator_depth) :
				      conn_param->initiator_depth;
	id->responder_resources = conn_param == NULL || conn_param->responder_resources == RDMA_MAX_RESP_RES ?
					  smaller(id->responder_resources, id->device->max_responder_resources) :
					  conn_param->responder_resources;
	if (vb_rdmacm_id_is_stream(id))
		return accept_stream(id, conn_param);
	error = fill_parameters(id, conn_param, datagram ? ROOM_SIDR_REP : ROOM_REP, &command.conn);
	if (error != 0)
		return vb_rdmacm_refuse("rdma_accept", id, -error, too_much_data);
	command.conn.ece_vendor = id->remote_ece.vendor_id;
	command.conn.ece_options = id->local_ece.options;
	if (!datagram && (vb_rdmacm_qp_ready_to_receive(id, id->responder_resources) != 0 ||
			  vb_rdmacm_qp_ready_to_send(id, id->initiator_depth) != 0))
		return -1;
	if (say_accept(id, &command) != 0)
		return -1;
	if (!datagram)
		return vb_rdmacm_event_await(id);
	if (id->synchronous && id->id.event != NULL) {
		rdma_ack_cm_event(id->id.event);
		id->id.event = NULL;
	}
	return 0;
}

static int reject(struct rdma_cm_id *public_id, const void *private_data, uint8_t length, uint32_t reason)
{
	struct vb_rdmacm_id *id = vb_rdmacm_id_of(public_id);
	struct vb_cm_command command = {.verb = VB_CM_REJECT, .reason = reason};
	enum vb_rdmacm_state state;
	size_t room;

	if (id == NULL)
		return vb_rdmacm_fail(EINVAL);
	vb_rdmacm_channel_touched(id);
	state = vb_rdmacm_id_state(id);
	room = vb_rdmacm_id_is_stream(id) ? VB_MPA_MAX_PRIVATE : vb_rdmacm_id_is_datagram(id) ? ROOM_SIDR_REP : ROOM_REJ;
	if ((state != VB_RDMACM_REQUESTED && state != VB_RDMACM_RESPONDED) || length > room)
		return vb_rdmacm_refuse("rdma_reject", id, EINVAL, too_much_data);
	if (private_data != NULL && length != 0) {
		command.conn.private_data_length = length;
		memcpy(command.conn.private_data, private_data, length);
	}
	vb_rdmacm_id_become(id, VB_RDMACM_FAILED);
	if (vb_rdmacm_id_is_stream(id))
		return vb_rdmacm_result(vb_rdmacm_streams_reject(id, data_of(&command.conn)));
	return vb_rdmacm_result(vb_rdmacm_link_call(id, &command, NULL));
}

VB_EXPORT int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
{
	VB_UNCANCELLED;
	return reject(id, private_data, private_data_len, REASON_CONSUMER);
}

VB_EXPORT int rdma_reject_ece(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
{
	VB_UNCANCELLED;
	return reject(id, private_data, private_data_len, REASON_VENDOR_OPTION);
}

VB_EXPORT int rdma_notify(struct rdma_cm_id *public_id, enum ibv_event_type event)
{
	VB_UNCANCELLED;
	struct vb_rdmacm_id *id = vb_rdmacm_id_of(public_id);
	struct vb_cm_command command = {.verb = VB_CM_NOTIFY};

	if (id == NULL || event != IBV_EVENT_COMM_EST)
		return vb_rdmacm_fail(EINVAL);
	switch (vb_rdmacm_id_state(id)) {
	case VB_RDMACM_ACCEPTED:
		return vb_rdmacm_result(vb_rdmacm_link_call(id, &command, NULL));
	case VB_RDMACM_CONNECTED:
		return vb_rdmacm_fail(EISCONN);
	default:
		return vb_rdmacm_fail(EINVAL);
	}
}

VB_EXPORT int rdma_disconnect(struct rdma_cm_id *public_id)
{
	VB_UNCANCELLED;
	struct vb_rdmacm_id *id = vb_rdmacm_id_of(public_id);
	struct vb_cm_command command = {.verb = VB_CM_DISCONNECT};
	enum vb_rdmacm_state state;
	int error;

	if (id == NULL)
		return vb_rdmacm_fail(EINVAL);
	state = vb_rdmacm_id_state(id);
	switch (state) {
	case VB_RDMACM_ACCEPTED:
	case VB_RDMACM_RESPONDED:
	case VB_RDMACM_CONNECTED:
	case VB_RDMACM_DISCONNECTING:
	case VB_RDMACM_DISCONNECTED:
		break;
	case VB_RDMACM_CONNECTING:
	case VB_RDMACM_FAILED:
		/* As the kernel: there is nothing to say to the peer, but work that is posted is flushed. Streams have none yet. */
		if (!vb_rdmacm_id_is_stream(id))
			return vb_rdmacm_qp_error(id);
		/* fall through */
	default:
		return vb_rdmacm_refuse("rdma_disconnect", id, EINVAL, NULL);
	}
	if (vb_rdmacm_id_is_stream(id))
		return disconnect_stream(id, state);
	if (vb_rdmacm_qp_error(id) != 0)
		return -1;
	/* There is no connection to end, which the kernel does not hold against the program either. */
	if (vb_rdmacm_id_is_datagram(id))
		return 0;
	if (state != VB_RDMACM_DISCONNECTED) {
		vb_rdmacm_link_intend(id, command.verb);
		vb_rdmacm_id_become(id, VB_RDMACM_DISCONNECTING);
	}
	error = vb_rdmacm_link_call(id, &command, NULL);
	if (state == VB_RDMACM_DISCONNECTING || state == VB_RDMACM_DISCONNECTED)
		return 0; /* said twice, or after the peer: there is nothing left to go wrong */
	if (error != 0)
		return vb_rdmacm_outcome("rdma_disconnect", id, error);
	return vb_rdmacm_event_await(id);
}
