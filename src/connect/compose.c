/* SPDX-License-Identifier: MIT
 *
 * Messages on their way out. Fields that say nothing over Ethernet (LIDs, EE contexts, rates) are what the kernel's
 * rdma_cm sends. Those that await an answer are kept, byte for byte, to be repeated (IBA 12.9.8.1: a repeated message
 * is identical).
 */
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <string.h>

#include "connect/connection.h"
#include "profiles/limits.h"

static uint8_t smaller(unsigned a, unsigned b)
{
	return (uint8_t)(a < b ? a : b);
}

static void keep(struct vb_connection *connection, const struct vb_cm_mad *mad)
{
	vb_cm_mad_encode(mad, connection->mad);
}

void vb_connect_repeat(struct vb_connect *connect, const struct vb_connection *connection)
{
	connect->host.send_mad(connect->host.context, &connection->path, connection->mad);
}

static void send_and_wait(struct vb_connect *connect, vb_time now, struct vb_connection *connection,
			  const struct vb_cm_mad *mad)
{
	keep(connection, mad);
	connection->retries_left = connection->max_retries;
	vb_connect_timer_set(&connect->timers, &connection->timer, now + connection->response_timeout);
	vb_connect_repeat(connect, connection);
}

static void send_once(struct vb_connect *connect, const struct vb_path *path, const struct vb_cm_mad *mad)
{
	uint8_t bytes[VB_CM_MAD_LENGTH];

	vb_cm_mad_encode(mad, bytes);
	connect->host.send_mad(connect->host.context, path, bytes);
}

/* The transaction id of an exchange we begin: answers repeat it. */
static uint64_t new_transaction(struct vb_connect *connect, const struct vb_connection *connection)
{
	return (uint64_t)connect->host.random(connect->host.context) << 32 | connection->id;
}

static void begin_transaction(struct vb_connect *connect, struct vb_connection *connection)
{
	connection->transaction = new_transaction(connect, connection);
}

static void put_private_data(uint8_t *out, const struct vb_connection *connection, const struct vb_cm_conn *conn)
{
	unsigned offset = vb_connect_private_offset(&connection->source);
	struct vb_cm_ip_header header = {
		.ip_version = connection->destination.family == AF_INET ? 4 : 6,
		.port = connection->source.port,
	};

	memcpy(header.source, connection->source.gid, 16);
	memcpy(header.destination, connection->destination.gid, 16);
	if (offset > 0)
		vb_cm_ip_header_encode(&header, out);
	memcpy(out + offset, conn->private_data, conn->private_data_length);
}

static uint16_t pkey_of(const struct vb_connection *connection)
{
	return connection->path.pkey != 0 ? connection->path.pkey : VB_DEFAULT_PKEY;
}

/* A14: XRC is a connection in one direction, asked for by the side that sends. */
static void put_transport(struct vb_cm_req *req, uint8_t qp_type)
{
	req->transport = qp_type == IBV_QPT_UC	    ? VB_CM_TRANSPORT_UC :
			 qp_type == IBV_QPT_XRC_SEND ? VB_CM_TRANSPORT_EXTENDED :
						       VB_CM_TRANSPORT_RC;
	if (qp_type == IBV_QPT_XRC_SEND)
		req->extended_transport = VB_CM_EXTENDED_XRC;
}

static void put_lids(struct vb_cm_req_path *out, const struct vb_path *path)
{
	bool has_lids = path->framing == VB_FRAMING_GLOBAL;

	out->local_lid = has_lids ? path->slid : VB_CM_PERMISSIVE_LID;
	out->remote_lid = has_lids ? path->dlid : VB_CM_PERMISSIVE_LID;
	out->service_level = path->sl;
	out->subnet_local = has_lids;
}

void vb_connect_send_req(struct vb_connect *connect, vb_time now, struct vb_connection *connection,
			 const struct vb_cm_conn *conn)
{
	struct vb_cm_mad mad = {.attribute = VB_CM_REQ, .modifier = conn->ece_options};
	struct vb_cm_req *req = &mad.req;

	begin_transaction(connect, connection);
	mad.transaction = connection->transaction;
	req->local_id = connection->id;
	req->vendor_id = conn->ece_vendor;
	req->service_id = connection->service_id;
	req->local_ca_guid = connection->device.guid;
	req->local_qpn = connection->local_qpn;
	req->starting_psn = conn->starting_psn;
	req->responder_resources = connection->responder_resources;
	req->initiator_depth = connection->initiator_depth;
	req->remote_response_timeout = req->local_response_timeout = VB_CONNECT_RESPONSE_TIMEOUT;
	put_transport(req, connection->qp_type);
	req->flow_control = conn->flow_control;
	req->retry_count = connection->retry_count;
	req->pkey = pkey_of(connection);
	req->path_mtu = connection->path_mtu;
	req->rnr_retry_count = conn->rnr_retry_count;
	req->max_cm_retries = connection->max_retries;
	req->srq = conn->srq;
	put_lids(&req->primary, &connection->path);
	memcpy(req->primary.local_gid, connection->path.source, 16);
	memcpy(req->primary.remote_gid, connection->path.destination, 16);
	req->primary.flow_label = connection->flow_label;
	req->primary.traffic_class = connection->traffic_class;
	req->primary.hop_limit = connection->path.hop_limit;
	req->primary.local_ack_timeout = connection->ack_timeout;
	put_private_data(req->private_data, connection, conn);
	send_and_wait(connect, now, connection, &mad);
}

void vb_connect_send_rep(struct vb_connect *connect, vb_time now, struct vb_connection *connection,
			 const struct vb_cm_conn *conn)
{
	struct vb_cm_mad mad = {
		.attribute = VB_CM_REP, .modifier = conn->ece_options, .transaction = connection->transaction};
	struct vb_cm_rep *rep = &mad.rep;

	rep->local_id = connection->id;
	rep->remote_id = connection->remote_id;
	rep->local_qpn = connection->local_qpn;
	rep->vendor_id_high = (uint8_t)(conn->ece_vendor >> 16);
	rep->vendor_id_middle = (uint8_t)(conn->ece_vendor >> 8);
	rep->vendor_id_low = (uint8_t)conn->ece_vendor;
	rep->starting_psn = conn->starting_psn;
	rep->responder_resources = smaller(conn->responder_resources, VB_MAX_RD_ATOMIC);
	/* IBA 12.7.30: what we ask of the peer is at most what it offered. */
	rep->initiator_depth = smaller(conn->initiator_depth, connection->responder_resources);
	rep->target_ack_delay = VB_CONNECT_TARGET_ACK_DELAY;
	rep->flow_control = conn->flow_control;
	rep->rnr_retry_count = conn->rnr_retry_count;
	rep->srq = conn->srq;
	/* A14: the receiving end of XRC is named where an end-to-end context would be, and always has shared receive queues. */
	if (connection->qp_type == IBV_QPT_XRC_RECV) {
		rep->local_eecn = rep->local_qpn;
		rep->local_qpn = 0;
		rep->srq = 1;
	}
	rep->local_ca_guid = connection->device.guid;
	memcpy(rep->private_data, conn->private_data, conn->private_data_length);
	send_and_wait(connect, now, connection, &mad);
}

/* Kept: a repeated REP says that it was lost. */
void vb_connect_send_rtu(struct vb_connect *connect, struct vb_connection *connection)
{
	struct vb_cm_mad mad = {
		.attribute = VB_CM_RTU,
		.transaction = connection->transaction,
		.rtu = {.local_id = connection->id, .remote_id = connection->remote_id},
	};

	keep(connection, &mad);
	vb_connect_repeat(connect, connection);
}

void vb_connect_send_dreq(struct vb_connect *connect, vb_time now, struct vb_connection *connection)
{
	struct vb_cm_mad mad = {
		.attribute = VB_CM_DREQ,
		.dreq = {
			.local_id = connection->id,
			.remote_id = connection->remote_id,
			.remote_qpn = connection->remote_qpn,
		},
	};

	begin_transaction(connect, connection);
	mad.transaction = connection->transaction;
	vb_connection_enter(connect, connection, VB_CONNECT_DREQ_SENT);
	send_and_wait(connect, now, connection, &mad);
}

/* A DREQ that names no QP. A peer that has the connection drops it, because the QPN is not its own (IBA 12.9.8.3.4; the
 * kernel's CM does so, too); one that has not answers with a DREP, as it answers every DREQ it knows nothing of. */
void vb_connect_send_probe(struct vb_connect *connect, vb_time now, struct vb_connection *connection)
{
	struct vb_cm_mad mad = {
		.attribute = VB_CM_DREQ,
		.dreq = {.local_id = connection->id, .remote_id = connection->remote_id, .remote_qpn = VB_CM_NO_QPN},
	};

	if (now < connection->probe_again)
		return;
	connection->probe_again = now + VB_SECONDS(1);
	connection->probe_transaction = mad.transaction = new_transaction(connect, connection);
	send_once(connect, &connection->path, &mad);
}

void vb_connect_send_drep(struct vb_connect *connect, const struct vb_connection *connection, uint64_t transaction)
{
	struct vb_cm_mad mad = {
		.attribute = VB_CM_DREP,
		.transaction = transaction,
		.drep = {.local_id = connection->id, .remote_id = connection->remote_id},
	};

	send_once(connect, &connection->path, &mad);
}

void vb_connect_send_mra(struct vb_connect *connect, const struct vb_connection *connection)
{
	struct vb_cm_mad mad = {
		.attribute = VB_CM_MRA,
		.transaction = connection->transaction,
		.mra = {
			.local_id = connection->id,
			.remote_id = connection->remote_id,
			.about = connection->state == VB_CONNECT_REP_RECEIVED ? VB_CM_ABOUT_REP : VB_CM_ABOUT_REQ,
			.service_timeout = VB_CONNECT_SERVICE_TIMEOUT,
		},
	};

	send_once(connect, &connection->path, &mad);
}

static uint8_t rejected_message(enum vb_connect_state state)
{
	switch (state) {
	case VB_CONNECT_REQ_RECEIVED: return VB_CM_ABOUT_REQ;
	case VB_CONNECT_REP_RECEIVED: return VB_CM_ABOUT_REP;
	default: return VB_CM_ABOUT_OTHER;
	}
}

void vb_connect_send_rej(struct vb_connect *connect, struct vb_connection *connection, uint16_t reason,
			 const void *private_data, unsigned length)
{
	struct vb_cm_mad mad = {
		.attribute = VB_CM_REJ,
		.transaction = connection->transaction,
		.rej = {
			.local_id = connection->id,
			.remote_id = connection->remote_id,
			.about = rejected_message(connection->state),
			.reason = reason,
		},
	};

	if (reason == VB_CM_REJECT_TIMEOUT) {
		/* The peer may know us by our GUID only (IBA table 109, additional information of a timeout). */
		struct be64 guid = be64_of(connection->device.guid);

		mad.rej.info_length = sizeof(guid);
		memcpy(mad.rej.ari, &guid, sizeof(guid));
	}
	if (length > 0)
		memcpy(mad.rej.private_data, private_data, length);
	keep(connection, &mad);
	vb_connect_repeat(connect, connection);
}

void vb_connect_send_sidr_req(struct vb_connect *connect, vb_time now, struct vb_connection *connection,
			      const struct vb_cm_conn *conn)
{
	struct vb_cm_mad mad = {
		.attribute = VB_CM_SIDR_REQ,
		.sidr_req = {.request_id = connection->id,
			     .pkey = pkey_of(connection),
			     .service_id = connection->service_id},
	};

	begin_transaction(connect, connection);
	mad.transaction = connection->transaction;
	put_private_data(mad.sidr_req.private_data, connection, conn);
	send_and_wait(connect, now, connection, &mad);
}

void vb_connect_send_sidr_rep(struct vb_connect *connect, struct vb_connection *connection, uint8_t status,
			      const struct vb_cm_conn *conn)
{
	struct vb_cm_mad mad = {
		.attribute = VB_CM_SIDR_REP,
		.transaction = connection->transaction,
		.sidr_rep = {.request_id = connection->remote_id,
			     .status = status,
			     .service_id = connection->service_id},
	};

	if (conn) {
		mad.modifier = conn->ece_options;
		mad.sidr_rep.vendor_id_high = (uint16_t)(conn->ece_vendor >> 8);
		mad.sidr_rep.vendor_id_low = (uint8_t)conn->ece_vendor;
		if (status == VB_CM_SIDR_VALID) {
			mad.sidr_rep.qpn = conn->qpn;
			mad.sidr_rep.qkey = conn->qkey;
		}
		memcpy(mad.sidr_rep.private_data, conn->private_data, conn->private_data_length);
	}
	keep(connection, &mad);
	vb_connect_repeat(connect, connection);
}

struct vb_path vb_connect_path_back(const struct vb_path *from)
{
	struct vb_path path = {
		.traffic_class = from->traffic_class & 0xfc, /* not the congestion mark it may have got on its way */
		.hop_limit = VB_CONNECT_HOP_LIMIT,
		/* Other addresses are found by the routing table; of RoCEv1's, which are all on one link, none is. */
		.interface_index = vb_connect_gid_is_link_local(from->source) || from->framing == VB_FRAMING_ETHERNET ?
					   from->interface_index : 0,
		.slid = from->dlid,
		.dlid = from->slid,
		.sl = from->sl,
		.framing = from->framing,
		.pkey = from->pkey,
	};

	memcpy(path.source, from->destination, 16);
	memcpy(path.destination, from->source, 16);
	return path;
}

void vb_connect_answer(struct vb_connect *connect, const struct vb_path *from, const struct vb_cm_mad *mad)
{
	struct vb_path path = vb_connect_path_back(from);

	send_once(connect, &path, mad);
}
