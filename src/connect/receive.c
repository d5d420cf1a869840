/* SPDX-License-Identifier: MIT
 *
 * A MAD comes in: decode, find the id it is about, ask THE table (states.c), react. Peers are hostile: a message counts
 * only if both communication ids fit and it came from the address that the connection was made with; else it finds
 * none (UNKNOWN).
 */
#include <infiniband/verbs.h>
#include <string.h>
#include <sys/socket.h>

#include "base/log.h"
#include "connect/connection.h"
#include "profiles/limits.h"

struct arrival {
	vb_time now;
	const struct vb_path *from;
	const struct vb_cm_mad *mad;
};

static uint8_t smaller(unsigned a, unsigned b)
{
	return (uint8_t)(a < b ? a : b);
}

/* ---- whom is it for? */

static bool came_from_peer(const struct vb_connection *connection, const struct arrival *arrival)
{
	return memcmp(connection->path.destination, arrival->from->source, 16) == 0 &&
	       memcmp(connection->path.source, arrival->from->destination, 16) == 0;
}

/* The peer's id is checked once it is known; the first answer to our REQ tells it. */
static struct vb_connection *find_by_ids(struct vb_connect *connect, const struct arrival *arrival, uint32_t ours,
					 uint32_t theirs)
{
	struct vb_connection *connection = vb_connection_find(connect, ours);

	if (!connection || vb_connection_is_sidr(connection) || !came_from_peer(connection, arrival))
		return NULL;
	if (connection->remote_id != 0 && theirs != connection->remote_id)
		return NULL;
	return connection;
}

/* A peer that gave up before our answer came does not know our id: it names itself and its GUID (IBA table 109, reason
 * 4). */
static struct vb_connection *find_rejected(struct vb_connect *connect, const struct arrival *arrival)
{
	const struct vb_cm_rej *rej = &arrival->mad->rej;
	struct be64 guid;

	if (rej->remote_id != 0)
		return find_by_ids(connect, arrival, rej->remote_id, rej->local_id);
	if (rej->reason != VB_CM_REJECT_TIMEOUT || rej->info_length < sizeof(guid))
		return NULL;
	memcpy(&guid, rej->ari, sizeof(guid));
	return vb_connection_find_remote(connect, false, rej->local_id, be64_get(guid), arrival->from->source);
}

static struct vb_connection *find_sidr(struct vb_connect *connect, const struct arrival *arrival)
{
	struct vb_connection *connection = vb_connection_find(connect, arrival->mad->sidr_rep.request_id);

	return connection && vb_connection_is_sidr(connection) && came_from_peer(connection, arrival) ? connection
												      : NULL;
}

static struct vb_connection *find_addressee(struct vb_connect *connect, const struct arrival *arrival)
{
	const struct vb_cm_mad *mad = arrival->mad;

	switch (mad->attribute) {
	case VB_CM_REQ:
		return vb_connection_find_remote(connect, false, mad->req.local_id, mad->req.local_ca_guid,
						 arrival->from->source);
	case VB_CM_SIDR_REQ:
		return vb_connection_find_remote(connect, true, mad->sidr_req.request_id, 0, arrival->from->source);
	case VB_CM_SIDR_REP:
		return find_sidr(connect, arrival);
	case VB_CM_REJ:
		return find_rejected(connect, arrival);
	case VB_CM_MRA:
		return find_by_ids(connect, arrival, mad->mra.remote_id, mad->mra.local_id);
	case VB_CM_REP:
		return find_by_ids(connect, arrival, mad->rep.remote_id, mad->rep.local_id);
	case VB_CM_RTU:
		return find_by_ids(connect, arrival, mad->rtu.remote_id, mad->rtu.local_id);
	case VB_CM_DREQ:
		return find_by_ids(connect, arrival, mad->dreq.remote_id, mad->dreq.local_id);
	case VB_CM_DREP:
		return find_by_ids(connect, arrival, mad->drep.remote_id, mad->drep.local_id);
	case VB_CM_LAP:
		return find_by_ids(connect, arrival, mad->lap.remote_id, mad->lap.local_id);
	default:
		return NULL;
	}
}

/* ---- requests */

static void refuse_request(struct vb_connect *connect, const struct arrival *arrival, uint16_t reason)
{
	struct vb_cm_mad answer = {
		.attribute = VB_CM_REJ,
		.transaction = arrival->mad->transaction,
		.rej = {.remote_id = arrival->mad->req.local_id, .about = VB_CM_ABOUT_REQ, .reason = reason},
	};

	vb_log_limited(VB_LOG_INFO, "cm: refused request for service %#llx, reason %u",
		       (unsigned long long)arrival->mad->req.service_id, reason);
	vb_connect_answer(connect, arrival->from, &answer);
}

/* IBA 12.9.8.3.1: a QP that has a connection here already asks for one: the old connection is half open, the peer
 * forgot it. One that is on its way out does no harm.
 *
 * Any user of the peer's host can write such a request and name any QP of that host, so it is no proof. The peer's
 * connection manager is asked, and the old connection ends only if it says that it knows it no more (TAKE_FORGOTTEN).
 */
static bool connection_is_stale(struct vb_connect *connect, const struct arrival *arrival, uint32_t qpn, uint64_t guid,
				const struct vb_connection *except)
{
	struct vb_connection *old = qpn ? vb_connection_find_qpn(connect, qpn, guid, arrival->from->source) : NULL;

	if (!old || old == except)
		return false;
	switch (old->state) {
	case VB_CONNECT_ESTABLISHED:
		vb_connect_send_probe(connect, arrival->now, old);
		return true;
	case VB_CONNECT_REQ_RECEIVED:
	case VB_CONNECT_REP_RECEIVED:
	case VB_CONNECT_REP_SENT:
	case VB_CONNECT_MRA_REP_RECEIVED:
		return true;
	default:
		return false;
	}
}

/* Is that the address it came to? A listener on 127.0.0.1 is not to be reached from outside. Over InfiniBand it came to
 * a GID, and any other address of this host will do. */
static bool came_to(const struct vb_connect *connect, const struct arrival *arrival, const uint8_t address[16])
{
	struct vb_connect_device device;

	if (arrival->from->framing != VB_FRAMING_GLOBAL)
		return memcmp(address, arrival->from->destination, 16) == 0;
	return (!vb_gid_is_loopback(address) || memcmp(arrival->from->source, arrival->from->destination, 16) == 0) &&
	       connect->host.find_device(connect->host.context, address, arrival->from->interface_index, &device);
}

/* The addresses of a request, from its rdma_cm header. */
static bool addresses_are_sound(const struct vb_connect *connect, const struct arrival *arrival, const uint8_t *private_data,
				uint64_t service_id, struct vb_cm_address *ours, struct vb_cm_address *theirs)
{
	struct vb_cm_ip_header header;

	if (vb_cm_ip_header_decode(&header, private_data) != 0 ||
	    !came_to(connect, arrival, header.destination))
		return false;
	memset(ours, 0, sizeof(*ours));
	memset(theirs, 0, sizeof(*theirs));
	memcpy(ours->gid, header.destination, 16);
	memcpy(theirs->gid, header.source, 16);
	ours->family = theirs->family = header.ip_version == 4 ? AF_INET : AF_INET6;
	ours->port = vb_cm_service_port(service_id);
	theirs->port = header.port;
	if (vb_connect_gid_is_link_local(header.destination))
		ours->scope = theirs->scope = arrival->from->interface_index;
	return true;
}

static struct vb_connection *find_listener(struct vb_connect *connect, uint64_t service_id,
					   const struct vb_cm_address *ours)
{
	struct vb_connect_binding *binding =
		vb_connect_ports_listener(&connect->ports, vb_cm_service_port_space(service_id), ours);

	return binding ? vb_container_of(binding, struct vb_connection, binding) : NULL;
}

/* A request by InfiniBand that tells no IP addresses (AF_IB), or that no listener wants by them: it came from a GID to a GID. */
static void take_native_addresses(const struct arrival *arrival, uint64_t service_id, uint16_t pkey, struct vb_cm_address *ours,
				  struct vb_cm_address *theirs)
{
	*ours = *theirs = (struct vb_cm_address){.family = VB_CM_AF_IB, .pkey = pkey};
	memcpy(ours->gid, arrival->from->destination, 16);
	memcpy(theirs->gid, arrival->from->source, 16);
	ours->service_id = service_id;
	ours->port = vb_cm_service_port(service_id);
}

/* Who listens for the request, and by which addresses: as the kernel's, IP addresses first. NULL: none. */
static struct vb_connection *find_addressed(struct vb_connect *connect, const struct arrival *arrival, const uint8_t *private_data,
					    uint64_t service_id, uint16_t pkey, struct vb_cm_address *ours,
					    struct vb_cm_address *theirs)
{
	struct vb_connection *listener = NULL;

	if (addresses_are_sound(connect, arrival, private_data, service_id, ours, theirs))
		listener = find_listener(connect, service_id, ours);
	if (!listener && arrival->from->framing == VB_FRAMING_GLOBAL) {
		take_native_addresses(arrival, service_id, pkey, ours, theirs);
		listener = find_listener(connect, service_id, ours);
	}
	return listener;
}

/* A new id for a request, in the listener's process. NULL: *reason says why not. */
static struct vb_connection *admit_child(struct vb_connect *connect, const struct arrival *arrival,
					 struct vb_connection *listener, uint16_t *reason)
{
	struct vb_connection *child;

	*reason = VB_CM_REJECT_CONSUMER; /* what a full backlog looks like with the kernel's rdma_cm */
	if (listener->waiting >= listener->backlog)
		return NULL;
	*reason = VB_CM_REJECT_NO_RESOURCES;
	if (vb_connection_create(connect, listener->owner, 0, &child) != 0)
		return NULL;
	if (!connect->host.find_device(connect->host.context, arrival->from->destination,
				       arrival->from->interface_index, &child->device)) {
		vb_connection_free(connect, child);
		return NULL;
	}
	child->port_space = listener->port_space;
	child->qp_type = listener->qp_type;
	child->path = vb_connect_path_back(arrival->from);
	child->transaction = arrival->mad->transaction;
	child->listener_id = listener->id;
	listener->waiting++;
	return child;
}

static uint8_t qp_type_of(const struct vb_cm_req *req)
{
	switch (req->transport) {
	case VB_CM_TRANSPORT_RC: return IBV_QPT_RC;
	case VB_CM_TRANSPORT_UC: return IBV_QPT_UC;
	case VB_CM_TRANSPORT_EXTENDED: return req->extended_transport == VB_CM_EXTENDED_XRC ? IBV_QPT_XRC_RECV : 0;
	default: return 0;
	}
}

static void remember_request(struct vb_connect *connect, struct vb_connection *child, const struct vb_cm_req *req)
{
	child->service_id = req->service_id;
	child->remote_id = req->local_id;
	child->remote_guid = req->local_ca_guid;
	child->remote_qpn = req->local_qpn;
	child->responder_resources = smaller(req->responder_resources, VB_MAX_RD_ATOMIC);
	child->initiator_depth = smaller(req->initiator_depth, VB_MAX_RD_ATOMIC);
	child->ack_timeout = req->primary.local_ack_timeout;
	child->path_mtu = req->path_mtu;
	child->retry_count = req->retry_count;
	child->traffic_class = req->primary.traffic_class;
	child->flow_label = req->primary.flow_label;
	child->max_retries = req->max_cm_retries;
	child->response_timeout =
		vb_connect_exponent(req->local_response_timeout, VB_CONNECT_TIMEOUT_LEAST, VB_CONNECT_TIMEOUT_MOST);
	vb_connection_key_remote(connect, child);
	if (child->remote_qpn)
		vb_connection_key_qpn(connect, child);
}

/* Turned round: what they will issue at once is what we must have resources for. */
static void tell_request(struct vb_connect *connect, const struct vb_connection *child, uint32_t listener_id,
			 const struct vb_cm_mad *mad)
{
	const struct vb_cm_req *req = &mad->req;
	unsigned offset = vb_connect_private_offset(&child->source);
	struct vb_cm_event event;

	vb_connect_event_begin(&event, child, VB_CM_EVENT_CONNECT_REQUEST, 0);
	event.listen_id = listener_id;
	event.conn.qpn = req->local_qpn;
	event.conn.starting_psn = req->starting_psn;
	event.conn.responder_resources = child->initiator_depth;
	event.conn.initiator_depth = child->responder_resources;
	event.conn.flow_control = req->flow_control;
	event.conn.retry_count = req->retry_count;
	event.conn.rnr_retry_count = req->rnr_retry_count;
	event.conn.srq = req->srq;
	event.conn.path_mtu = req->path_mtu;
	event.conn.ack_timeout = req->primary.local_ack_timeout;
	event.conn.traffic_class = req->primary.traffic_class;
	event.conn.hop_limit = req->primary.hop_limit;
	event.conn.flow_label = req->primary.flow_label;
	event.conn.ece_vendor = req->vendor_id;
	event.conn.ece_options = mad->modifier;
	vb_connect_event_private(&event, req->private_data + offset, VB_CM_REQ_PRIVATE - offset);
	vb_connect_event_send(connect, child, &event);
}

static void admit(struct vb_connect *connect, struct vb_connection *unused, const struct arrival *arrival)
{
	const struct vb_cm_req *req = &arrival->mad->req;
	struct vb_cm_address ours, theirs;
	struct vb_connection *listener, *child;
	uint16_t reason;

	(void)unused;
	if (req->local_id == 0)
		return;
	listener = find_addressed(connect, arrival, req->private_data, req->service_id, req->pkey, &ours, &theirs);
	if (!listener || vb_connection_is_sidr(listener)) {
		refuse_request(connect, arrival, VB_CM_REJECT_INVALID_SERVICE_ID);
		return;
	}
	if (qp_type_of(req) != listener->qp_type) {
		refuse_request(connect, arrival, VB_CM_REJECT_INVALID_SERVICE_TYPE);
		return;
	}
	if (connection_is_stale(connect, arrival, req->local_qpn, req->local_ca_guid, NULL)) {
		refuse_request(connect, arrival, VB_CM_REJECT_STALE);
		return;
	}
	child = admit_child(connect, arrival, listener, &reason);
	if (!child) {
		refuse_request(connect, arrival, reason);
		return;
	}
	child->source = ours;
	child->destination = theirs;
	if (child->path.framing == VB_FRAMING_GLOBAL)
		child->path.pkey = req->pkey;
	remember_request(connect, child, req);
	vb_connection_enter(connect, child, VB_CONNECT_REQ_RECEIVED);
	tell_request(connect, child, listener->id, arrival->mad);
}

static void ask_patience(struct vb_connect *connect, struct vb_connection *connection, const struct arrival *arrival)
{
	(void)arrival;
	vb_connect_send_mra(connect, connection);
}

static void repeat_answer(struct vb_connect *connect, struct vb_connection *connection, const struct arrival *arrival)
{
	/* The RTU was said by the daemon before us, if it was. */
	if (connection->state == VB_CONNECT_ESTABLISHED && connection->is_adopted) {
		connection->transaction = arrival->mad->transaction;
		vb_connect_send_rtu(connect, connection);
		return;
	}
	/* An established passive side was never sent a REP and owes no RTU. */
	if (connection->state == VB_CONNECT_ESTABLISHED && !connection->is_active)
		return;
	vb_connect_repeat(connect, connection);
}

static void refuse_stale(struct vb_connect *connect, struct vb_connection *connection, const struct arrival *arrival)
{
	(void)connection;
	refuse_request(connect, arrival, VB_CM_REJECT_STALE);
}

/* ---- answers */

static void refuse_reply(struct vb_connect *connect, struct vb_connection *connection, const struct arrival *arrival)
{
	struct vb_cm_mad answer = {
		.attribute = VB_CM_REJ,
		.transaction = arrival->mad->transaction,
		.rej = {
			.local_id = arrival->mad->rep.remote_id,
			.remote_id = arrival->mad->rep.local_id,
			.about = VB_CM_ABOUT_REP,
			.reason = VB_CM_REJECT_INVALID_ID,
		},
	};

	(void)connection;
	vb_connect_answer(connect, arrival->from, &answer);
}

static uint8_t larger(uint8_t a, uint8_t b)
{
	return a > b ? a : b;
}

/* A14: that of an XRC_RECV queue pair stands where an end-to-end context would. */
static uint32_t replied_qpn(const struct vb_connection *connection, const struct vb_cm_rep *rep)
{
	return connection->qp_type == IBV_QPT_XRC_SEND ? rep->local_eecn : rep->local_qpn;
}

static void tell_reply(struct vb_connect *connect, const struct vb_connection *connection, const struct vb_cm_mad *mad)
{
	const struct vb_cm_rep *rep = &mad->rep;
	struct vb_cm_event event;

	vb_connect_event_begin(&event, connection, VB_CM_EVENT_CONNECT_RESPONSE, 0);
	event.conn.qpn = replied_qpn(connection, rep);
	event.conn.starting_psn = rep->starting_psn;
	event.conn.qkey = rep->local_qkey;
	/* We issue no more than we said we would nor than they can take; what they will issue they know best. */
	event.conn.initiator_depth = smaller(rep->responder_resources, connection->initiator_depth);
	event.conn.responder_resources = smaller(rep->initiator_depth, VB_MAX_RD_ATOMIC);
	event.conn.flow_control = rep->flow_control;
	event.conn.rnr_retry_count = rep->rnr_retry_count;
	event.conn.retry_count = connection->retry_count;
	event.conn.srq = rep->srq;
	event.conn.path_mtu = connection->path_mtu;
	event.conn.ack_timeout = connection->ack_timeout;
	event.conn.traffic_class = connection->traffic_class;
	event.conn.hop_limit = connection->path.hop_limit;
	event.conn.flow_label = connection->flow_label;
	event.conn.ece_vendor =
		(uint32_t)rep->vendor_id_high << 16 | (uint32_t)rep->vendor_id_middle << 8 | rep->vendor_id_low;
	event.conn.ece_options = mad->modifier;
	vb_connect_event_private(&event, rep->private_data, VB_CM_REP_PRIVATE);
	vb_connect_event_send(connect, connection, &event);
}

static void take_reply(struct vb_connect *connect, struct vb_connection *connection, const struct arrival *arrival)
{
	const struct vb_cm_rep *rep = &arrival->mad->rep;

	if (rep->local_id == 0)
		return;
	connection->remote_id = rep->local_id;
	connection->remote_guid = rep->local_ca_guid;
	connection->remote_qpn = replied_qpn(connection, rep);
	connection->transaction = arrival->mad->transaction;
	/* IBA 12.7.34: an ack may take the way there and back and what the target needs. */
	connection->ack_timeout = larger(connection->ack_timeout, rep->target_ack_delay);
	vb_connect_timer_cancel(&connect->timers, &connection->timer);
	if (connection_is_stale(connect, arrival, rep->local_qpn, rep->local_ca_guid, connection)) {
		vb_connection_enter(connect, connection, VB_CONNECT_REP_RECEIVED);
		vb_connect_send_rej(connect, connection, VB_CM_REJECT_STALE, NULL, 0);
		vb_connection_enter(connect, connection, VB_CONNECT_CLOSED);
		vb_connect_tell(connect, connection, VB_CM_EVENT_REJECTED, VB_CM_REJECT_STALE);
		return;
	}
	if (connection->remote_qpn)
		vb_connection_key_qpn(connect, connection);
	vb_connection_enter(connect, connection, VB_CONNECT_REP_RECEIVED);
	tell_reply(connect, connection, arrival->mad);
}

static void take_ready(struct vb_connect *connect, struct vb_connection *connection, const struct arrival *arrival)
{
	struct vb_cm_event event;

	vb_connect_timer_cancel(&connect->timers, &connection->timer);
	vb_connection_enter(connect, connection, VB_CONNECT_ESTABLISHED);
	vb_connect_event_begin(&event, connection, VB_CM_EVENT_ESTABLISHED, 0);
	vb_connect_event_private(&event, arrival->mad->rtu.private_data, VB_CM_RTU_PRIVATE);
	vb_connect_event_send(connect, connection, &event);
}

static void be_patient(struct vb_connect *connect, struct vb_connection *connection, const struct arrival *arrival)
{
	const struct vb_cm_mra *mra = &arrival->mad->mra;
	bool asked = connection->state == VB_CONNECT_REQ_SENT || connection->state == VB_CONNECT_MRA_REQ_RECEIVED;

	if (mra->about != (asked ? VB_CM_ABOUT_REQ : VB_CM_ABOUT_REP))
		return;
	vb_connection_enter(connect, connection, asked ? VB_CONNECT_MRA_REQ_RECEIVED : VB_CONNECT_MRA_REP_RECEIVED);
	vb_connect_timer_set(&connect->timers, &connection->timer,
			     arrival->now + vb_connect_exponent(mra->service_timeout, VB_CONNECT_TIMEOUT_LEAST,
								VB_CONNECT_TIMEOUT_MOST) +
				     2 * vb_connect_exponent(VB_CONNECT_PACKET_LIFE, 0, VB_CONNECT_TIMEOUT_MOST));
}

static void take_reject(struct vb_connect *connect, struct vb_connection *connection, const struct arrival *arrival)
{
	const struct vb_cm_rej *rej = &arrival->mad->rej;
	bool had_connection =
		connection->state == VB_CONNECT_REP_RECEIVED || connection->state == VB_CONNECT_ESTABLISHED;
	struct vb_cm_event event;

	vb_connect_event_begin(&event, connection, VB_CM_EVENT_REJECTED, rej->reason);
	vb_connect_event_private(&event, rej->private_data, VB_CM_REJ_PRIVATE);
	if (had_connection)
		vb_connection_enter_timewait(connect, arrival->now, connection);
	else
		vb_connection_enter(connect, connection, VB_CONNECT_CLOSED);
	vb_connect_event_send(connect, connection, &event);
}

/* ---- the end */

/* Ours is not known of a connection taken over from another daemon. A peer that names no QP only asks whether we know the
 * connection: silence says yes. */
static bool names_our_qp(const struct vb_connection *connection, const struct vb_cm_dreq *dreq)
{
	return dreq->remote_qpn != VB_CM_NO_QPN &&
	       (connection->local_qpn == 0 || connection->local_qpn == dreq->remote_qpn);
}

static void take_disconnect(struct vb_connect *connect, struct vb_connection *connection, const struct arrival *arrival)
{
	if (!names_our_qp(connection, &arrival->mad->dreq))
		return;
	connection->transaction = arrival->mad->transaction;
	vb_connect_timer_cancel(&connect->timers, &connection->timer);
	vb_connection_enter(connect, connection, VB_CONNECT_DREQ_RECEIVED);
	vb_connect_tell(connect, connection, VB_CM_EVENT_DISCONNECTED, 0);
}

static void end(struct vb_connect *connect, struct vb_connection *connection, const struct arrival *arrival)
{
	vb_connection_enter_timewait(connect, arrival->now, connection);
	vb_connect_tell(connect, connection, VB_CM_EVENT_DISCONNECTED, 0);
}

static void take_forgotten(struct vb_connect *connect, struct vb_connection *connection, const struct arrival *arrival)
{
	if (connection->probe_transaction != 0 && arrival->mad->transaction == connection->probe_transaction)
		end(connect, connection, arrival);
}

static void cross_disconnect(struct vb_connect *connect, struct vb_connection *connection,
			     const struct arrival *arrival)
{
	if (!names_our_qp(connection, &arrival->mad->dreq))
		return;
	vb_connect_send_drep(connect, connection, arrival->mad->transaction);
	end(connect, connection, arrival);
}

static void confirm_disconnect(struct vb_connect *connect, struct vb_connection *connection,
			       const struct arrival *arrival)
{
	struct vb_cm_mad answer = {
		.attribute = VB_CM_DREP,
		.transaction = arrival->mad->transaction,
		.drep = {.local_id = arrival->mad->dreq.remote_id, .remote_id = arrival->mad->dreq.local_id},
	};

	(void)connection;
	vb_connect_answer(connect, arrival->from, &answer);
}

static void refuse_path(struct vb_connect *connect, struct vb_connection *connection, const struct arrival *arrival)
{
	struct vb_cm_mad answer = {
		.attribute = VB_CM_APR,
		.transaction = arrival->mad->transaction,
		.apr = {
			.local_id = arrival->mad->lap.remote_id,
			.remote_id = arrival->mad->lap.local_id,
			.status = connection ? VB_CM_APR_NOT_SUPPORTED : VB_CM_APR_INVALID_ID,
		},
	};

	vb_connect_answer(connect, arrival->from, &answer);
}

/* ---- datagram services */

static void refuse_sidr(struct vb_connect *connect, const struct arrival *arrival, uint8_t status)
{
	struct vb_cm_mad answer = {
		.attribute = VB_CM_SIDR_REP,
		.transaction = arrival->mad->transaction,
		.sidr_rep = {
			.request_id = arrival->mad->sidr_req.request_id,
			.status = status,
			.service_id = arrival->mad->sidr_req.service_id,
		},
	};

	vb_connect_answer(connect, arrival->from, &answer);
}

static void admit_sidr(struct vb_connect *connect, struct vb_connection *unused, const struct arrival *arrival)
{
	const struct vb_cm_sidr_req *req = &arrival->mad->sidr_req;
	struct vb_cm_address ours, theirs;
	struct vb_connection *listener, *child;
	struct vb_cm_event event;
	unsigned offset;
	uint16_t reason;

	(void)unused;
	if (req->request_id == 0)
		return;
	listener = find_addressed(connect, arrival, req->private_data, req->service_id, req->pkey, &ours, &theirs);
	if (!listener || !vb_connection_is_sidr(listener)) {
		refuse_sidr(connect, arrival, VB_CM_SIDR_NO_SERVICE);
		return;
	}
	child = admit_child(connect, arrival, listener, &reason);
	if (!child) {
		refuse_sidr(connect, arrival, VB_CM_SIDR_REJECTED);
		return;
	}
	child->source = ours;
	child->destination = theirs;
	if (child->path.framing == VB_FRAMING_GLOBAL)
		child->path.pkey = req->pkey;
	child->service_id = req->service_id;
	child->remote_id = req->request_id;
	vb_connection_key_remote(connect, child);
	vb_connection_enter(connect, child, VB_CONNECT_SIDR_REQ_RECEIVED);
	vb_connect_event_begin(&event, child, VB_CM_EVENT_CONNECT_REQUEST, 0);
	event.listen_id = listener->id;
	event.conn.path_mtu = child->device.active_mtu;
	offset = vb_connect_private_offset(&ours);
	vb_connect_event_private(&event, req->private_data + offset, VB_CM_SIDR_REQ_PRIVATE - offset);
	vb_connect_event_send(connect, child, &event);
}

static void take_sidr_reply(struct vb_connect *connect, struct vb_connection *connection, const struct arrival *arrival)
{
	const struct vb_cm_sidr_rep *rep = &arrival->mad->sidr_rep;
	bool accepted = rep->status == VB_CM_SIDR_VALID;
	struct vb_cm_event event;

	vb_connection_enter(connect, connection, VB_CONNECT_CLOSED);
	vb_connect_event_begin(&event, connection, accepted ? VB_CM_EVENT_ESTABLISHED : VB_CM_EVENT_UNREACHABLE,
			       rep->status);
	if (accepted) {
		event.conn.qpn = rep->qpn;
		event.conn.qkey = rep->qkey;
		event.conn.path_mtu = connection->path_mtu;
		event.conn.traffic_class = connection->traffic_class;
		event.conn.hop_limit = connection->path.hop_limit;
		event.conn.flow_label = connection->flow_label;
		event.conn.ece_vendor = (uint32_t)rep->vendor_id_high << 8 | rep->vendor_id_low;
		event.conn.ece_options = arrival->mad->modifier;
	}
	vb_connect_event_private(&event, rep->private_data, VB_CM_SIDR_REP_PRIVATE);
	vb_connect_event_send(connect, connection, &event);
}

/* ---- */

typedef void reaction_function(struct vb_connect *connect, struct vb_connection *connection,
			       const struct arrival *arrival);

static reaction_function *const functions[VB_CONNECT_REACTION_COUNT] = {
	[VB_CONNECT_DO_ADMIT] = admit,
	[VB_CONNECT_DO_ASK_PATIENCE] = ask_patience,
	[VB_CONNECT_DO_REPEAT] = repeat_answer,
	[VB_CONNECT_DO_REFUSE_STALE] = refuse_stale,
	[VB_CONNECT_DO_TAKE_REPLY] = take_reply,
	[VB_CONNECT_DO_REFUSE_REPLY] = refuse_reply,
	[VB_CONNECT_DO_TAKE_READY] = take_ready,
	[VB_CONNECT_DO_BE_PATIENT] = be_patient,
	[VB_CONNECT_DO_TAKE_REJECT] = take_reject,
	[VB_CONNECT_DO_TAKE_DISCONNECT] = take_disconnect,
	[VB_CONNECT_DO_CROSS_DISCONNECT] = cross_disconnect,
	[VB_CONNECT_DO_CONFIRM_DISCONNECT] = confirm_disconnect,
	[VB_CONNECT_DO_END] = end,
	[VB_CONNECT_DO_TAKE_FORGOTTEN] = take_forgotten,
	[VB_CONNECT_DO_REFUSE_PATH] = refuse_path,
	[VB_CONNECT_DO_ADMIT_SIDR] = admit_sidr,
	[VB_CONNECT_DO_TAKE_SIDR_REPLY] = take_sidr_reply,
};

/* What is not known may be another daemon's connection, of which its process is about to tell. A peer repeats a REP or a DREQ; the
 * answer that it is unknown would end the connection at one side. */
static bool may_be_adopted(const struct vb_connect *connect, const struct arrival *arrival)
{
	return arrival->now < connect->adoption_until && (arrival->mad->attribute == VB_CM_REP || arrival->mad->attribute == VB_CM_DREQ);
}

void vb_connect_receive(struct vb_connect *connect, vb_time now, const struct vb_path *from, const void *bytes,
			size_t length)
{
	struct vb_cm_mad mad;
	struct arrival arrival = {.now = now, .from = from, .mad = &mad};
	struct vb_connection *connection;
	enum vb_connect_reaction reaction;

	if (vb_cm_mad_decode(&mad, bytes, length) != 0 || vb_gid_is_multicast(from->source))
		return;
	connection = find_addressee(connect, &arrival);
	if (!connection && may_be_adopted(connect, &arrival))
		return;
	reaction = vb_connect_reaction(mad.attribute, connection ? connection->state : VB_CONNECT_UNKNOWN);
	vb_log(VB_LOG_DEBUG, "cm %08x: %s in %s: %s", connection ? connection->id : 0,
	       vb_cm_attribute_name(mad.attribute),
	       vb_connect_state_name(connection ? connection->state : VB_CONNECT_UNKNOWN),
	       vb_connect_reaction_name(reaction));
	if (functions[reaction])
		functions[reaction](connect, connection, &arrival);
}
