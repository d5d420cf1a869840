/* SPDX-License-Identifier: MIT
 *
 * See explain.h.
 */
#include "rdmacm/explain.h"

#include <endian.h>
#include <errno.h>
#include <infiniband/ib.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "explain/connection.h"
#include "explain/misuse.h"
#include "io/explain_output.h"
#include "io/inquiry.h"
#include "rdmacm/id.h"
#include "rdmacm/result.h"

/* The address as a GID, and its port; false: none. */
static bool take_address(const struct sockaddr *from, uint8_t gid[16], uint16_t *port, uint32_t *scope)
{
	struct sockaddr_in6 six;
	struct sockaddr_in four;
	struct sockaddr_ib native;

	if (from->sa_family == AF_INET) {
		memcpy(&four, from, sizeof(four));
		memset(gid, 0, 10);
		memset(gid + 10, 0xff, 2);
		memcpy(gid + 12, &four.sin_addr, 4);
		*port = ntohs(four.sin_port);
		return true;
	}
	if (from->sa_family == AF_IB) {
		memcpy(&native, from, sizeof(native));
		memcpy(gid, &native.sib_addr, 16);
		*port = (uint16_t)be64toh(native.sib_sid);
		return true;
	}
	if (from->sa_family != AF_INET6)
		return false;
	memcpy(&six, from, sizeof(six));
	memcpy(gid, &six.sin6_addr, 16);
	*port = ntohs(six.sin6_port);
	*scope = six.sin6_scope_id;
	return true;
}

static bool is_failure(enum rdma_cm_event_type event)
{
	switch (event) {
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_MULTICAST_ERROR:
		return true;
	default:
		return false;
	}
}

/* What the network said by itself. SILENT: nothing. */
static enum vb_inquiry_reach reach_of(int status)
{
	switch (-status) {
	case ECONNREFUSED:
		return VB_REACH_REFUSED;
	case EHOSTUNREACH:
		return VB_REACH_UNREACHABLE;
	case ENETUNREACH:
		return VB_REACH_NO_ROUTE;
	default:
		return VB_REACH_SILENT;
	}
}

void vb_rdmacm_explain(const struct rdma_cm_event *event, bool datagram, bool fabric)
{
	struct vb_explain_connection connection = {
		.event = rdma_event_str(event->event),
		.status = event->status,
		.rejected = event->event == RDMA_CM_EVENT_REJECTED,
		.datagram = datagram,
		.fabric = fabric,
	};
	struct vb_inquiry_answer ignored;
	struct vb_report report;
	struct vb_path path = {0};
	char text[VB_REPORT_ROOM];
	uint32_t scope = 0;

	if (!is_failure(event->event) || !vb_explain_output_is_on())
		return;
	connection.has_addresses = take_address(rdma_get_peer_addr(event->id), connection.destination,
						&connection.destination_port, &scope);
	if (!take_address(rdma_get_local_addr(event->id), connection.source, &connection.source_port, &scope))
		connection.source_port = 0;
	if (event->event == RDMA_CM_EVENT_UNREACHABLE && event->status < 0)
		connection.reach = reach_of(event->status);
	/* A question by UDP: of no use where there is only a GID. */
	if (connection.reach == VB_REACH_SILENT && connection.has_addresses && rdma_get_peer_addr(event->id)->sa_family != AF_IB) {
		memcpy(path.source, connection.source, sizeof(path.source));
		memcpy(path.destination, connection.destination, sizeof(path.destination));
		path.interface_index = scope;
		connection.reach = vb_inquiry_ask(&path, &(struct vb_inquiry){.qpn = 1}, &ignored);
	}
	vb_explain_connection(&connection, &report);
	vb_explain_output_write(
		text, vb_report_render(&report, vb_explain_output_is_json(), (int)getpid(), text, sizeof(text)));
}

void vb_rdmacm_explain_unacknowledged(unsigned taken, unsigned missing)
{
	struct vb_report report;
	char text[VB_REPORT_ROOM];

	vb_explain_unacknowledged("rdma_cm_id", "rdma_ack_cm_event", taken, taken - missing, &report);
	vb_explain_output_write(
		text, vb_report_render(&report, vb_explain_output_is_json(), (int)getpid(), text, sizeof(text)));
}

/* ---- calls that fail at once ---- */

static const char *const states[] = {
	[VB_RDMACM_IDLE] = "not bound",
	[VB_RDMACM_BOUND] = "bound",
	[VB_RDMACM_RESOLVING] = "still resolving its address",
	[VB_RDMACM_ADDRESS_RESOLVED] = "address resolved",
	[VB_RDMACM_ROUTE_RESOLVED] = "route resolved",
	[VB_RDMACM_LISTENING] = "listening",
	[VB_RDMACM_REQUESTED] = "requested",
	[VB_RDMACM_ACCEPTED] = "accepted",
	[VB_RDMACM_CONNECTING] = "connecting",
	[VB_RDMACM_RESPONDED] = "responded",
	[VB_RDMACM_CONNECTED] = "connected",
	[VB_RDMACM_DISCONNECTING] = "disconnecting",
	[VB_RDMACM_DISCONNECTED] = "disconnected",
	[VB_RDMACM_FAILED] = "failed",
};

#define IN(state) (1u << VB_RDMACM_##state)

/* In which states a call is possible. */
static const struct {
	const char *call;
	unsigned in;
	const char *needed, *fix;
} rules[] = {
	{"rdma_bind_addr", IN(IDLE), "not bound", "An id is bound once; make another with rdma_create_id."},
	{"rdma_resolve_addr", IN(IDLE) | IN(BOUND), "not bound or bound",
	 "It was resolved before, or has failed: make another id with rdma_create_id."},
	{"rdma_resolve_route", IN(ADDRESS_RESOLVED), "address resolved",
	 "Call rdma_resolve_addr and wait for RDMA_CM_EVENT_ADDR_RESOLVED first."},
	{"rdma_listen", IN(IDLE) | IN(BOUND), "not bound or bound", "An id that connects or listens cannot listen."},
	{"rdma_connect", IN(ROUTE_RESOLVED), "route resolved",
	 "Call rdma_resolve_route and wait for RDMA_CM_EVENT_ROUTE_RESOLVED first; after a failure make another id."},
	{"rdma_accept", IN(REQUESTED), "requested",
	 "Accept the id that came with RDMA_CM_EVENT_CONNECT_REQUEST (event->id), once, not the listening one."},
	{"rdma_reject", IN(REQUESTED) | IN(RESPONDED), "requested",
	 "Reject the id that came with RDMA_CM_EVENT_CONNECT_REQUEST (event->id), before it is accepted."},
	{"rdma_establish", IN(RESPONDED), "responded",
	 "Wait for RDMA_CM_EVENT_CONNECT_RESPONSE; it only comes to an id without a queue pair of its own."},
	{"rdma_notify", IN(ACCEPTED) | IN(CONNECTED), "accepted", NULL},
	/* Streams: of others it is taken while they connect and when they have failed as well. */
	{"rdma_disconnect", IN(ACCEPTED) | IN(RESPONDED) | IN(CONNECTED) | IN(DISCONNECTING) | IN(DISCONNECTED),
	 "connected", "There is no connection to end: just destroy the id."},
};

static void judge_state(const struct vb_rdmacm_id *id, struct vb_explain_call *call)
{
	enum vb_rdmacm_state state = vb_rdmacm_id_state(id);

	call->state = states[state];
	for (size_t i = 0; call->error == EINVAL && i < sizeof(rules) / sizeof(rules[0]); i++) {
		if (strcmp(rules[i].call, call->call) != 0 || rules[i].in & 1u << state)
			continue;
		call->needed = rules[i].needed;
		call->fix = rules[i].fix;
	}
}

int vb_rdmacm_refuse_address(const char *name, const struct vb_rdmacm_id *id, const struct vb_cm_address *address,
			     int error, const char *why)
{
	struct vb_explain_call call = {.call = name, .error = error, .why = why};
	struct vb_report report;
	char text[VB_REPORT_ROOM];

	if (!vb_explain_output_is_on())
		return vb_rdmacm_fail(error);
	if (id)
		judge_state(id, &call);
	if (address && address->family != 0) {
		call.has_address = true;
		memcpy(call.address, address->gid, sizeof(call.address));
		call.port = address->port;
	}
	vb_explain_call(&call, &report);
	vb_explain_output_write(
		text, vb_report_render(&report, vb_explain_output_is_json(), (int)getpid(), text, sizeof(text)));
	return vb_rdmacm_fail(error);
}

int vb_rdmacm_refuse(const char *call, const struct vb_rdmacm_id *id, int error, const char *why)
{
	const struct vb_cm_address *address = NULL;

	if (id)
		address = id->destination.family != 0 ? &id->destination : &id->source;
	return vb_rdmacm_refuse_address(call, id, address, error, why);
}

int vb_rdmacm_outcome(const char *call, const struct vb_rdmacm_id *id, int error)
{
	return error == 0 ? 0 : vb_rdmacm_refuse(call, id, -error, NULL);
}
