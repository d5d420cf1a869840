/* SPDX-License-Identifier: MIT
 *
 * See explain.h.
 */
#include "rdmacm/explain.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "explain/connection.h"
#include "io/explain_output.h"
#include "io/inquiry.h"

/* The address as a GID, and its port; false: none. */
static bool take_address(const struct sockaddr *from, uint8_t gid[16], uint16_t *port, uint32_t *scope)
{
	struct sockaddr_in6 six;
	struct sockaddr_in four;

	if (from->sa_family == AF_INET) {
		memcpy(&four, from, sizeof(four));
		memset(gid, 0, 10);
		memset(gid + 10, 0xff, 2);
		memcpy(gid + 12, &four.sin_addr, 4);
		*port = ntohs(four.sin_port);
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

void vb_rdmacm_explain(const struct rdma_cm_event *event, bool datagram)
{
	struct vb_explain_connection connection = {
		.event = rdma_event_str(event->event),
		.status = event->status,
		.rejected = event->event == RDMA_CM_EVENT_REJECTED,
		.datagram = datagram,
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
	if (event->event == RDMA_CM_EVENT_UNREACHABLE && event->status < 0 && connection.has_addresses) {
		memcpy(path.source, connection.source, sizeof(path.source));
		memcpy(path.destination, connection.destination, sizeof(path.destination));
		path.interface_index = scope;
		connection.reach = vb_inquiry_ask(&path, 1, 0, &ignored);
	}
	vb_explain_connection(&connection, &report);
	vb_explain_output_write(
		text, vb_report_render(&report, vb_explain_output_is_json(), (int)getpid(), text, sizeof(text)));
}
