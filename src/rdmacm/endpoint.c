/* SPDX-License-Identifier: MIT
 *
 * rdma_create_ep and rdma_get_request: an address to a ready id in one call. Endpoints are synchronous: each has its
 * own channel, and calls that end in an event wait for it.
 */
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdlib.h>
#include <string.h>

#include "io/cancellation.h"
#include "rdmacm/event.h"
#include "rdmacm/export.h"
#include "rdmacm/id.h"
#include "rdmacm/id_calls.h"
#include "rdmacm/result.h"

enum { RESOLVE_TIMEOUT_MS = 2000 };

/* Ready for rdma_listen; each request's id will get a QP with these attributes. */
static int prepare_passive(struct rdma_cm_id *id, const struct rdma_addrinfo *res, struct ibv_pd *pd,
			   const struct ibv_qp_init_attr *attr)
{
	if (rdma_bind_addr(id, res->ai_src_addr) != 0)
		return -1;
	if (pd != NULL)
		id->pd = pd;
	if (attr != NULL) {
		struct ibv_qp_init_attr *copy = malloc(sizeof(*copy));

		if (copy == NULL)
			return vb_rdmacm_fail(ENOMEM);
		*copy = *attr;
		copy->qp_type = (enum ibv_qp_type)res->ai_qp_type;
		vb_rdmacm_id_of(id)->endpoint_attr = copy;
	}
	return 0;
}

/* Ready for rdma_connect. */
static int prepare_active(struct rdma_cm_id *id, const struct rdma_addrinfo *res, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct vb_rdmacm_id *private_id = vb_rdmacm_id_of(id);

	if (rdma_resolve_addr(id, res->ai_src_addr, res->ai_dst_addr, RESOLVE_TIMEOUT_MS) != 0)
		return -1;
	if (res->ai_route_len != 0) {
		if (rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, res->ai_route, res->ai_route_len) != 0 ||
		    vb_rdmacm_event_await(private_id) != 0)
			return -1;
	} else if (rdma_resolve_route(id, RESOLVE_TIMEOUT_MS) != 0) {
		return -1;
	}
	if (attr != NULL) {
		attr->qp_type = (enum ibv_qp_type)res->ai_qp_type;
		if (rdma_create_qp(id, pd, attr) != 0)
			return -1;
	}
	if (res->ai_connect_len != 0) {
		private_id->connect_data = malloc(res->ai_connect_len);
		if (private_id->connect_data == NULL)
			return vb_rdmacm_fail(ENOMEM);
		memcpy(private_id->connect_data, res->ai_connect, res->ai_connect_len);
		private_id->connect_length = res->ai_connect_len;
	}
	return 0;
}

VB_EXPORT int rdma_create_ep(struct rdma_cm_id **id, struct rdma_addrinfo *res, struct ibv_pd *pd,
			     struct ibv_qp_init_attr *qp_init_attr)
{
	VB_UNCANCELLED;
	struct rdma_cm_id *endpoint;
	int result;

	if (id == NULL || res == NULL)
		return vb_rdmacm_fail(EINVAL);
	if (vb_rdmacm_id_create(NULL, &endpoint, NULL, (enum rdma_port_space)res->ai_port_space,
				(enum ibv_qp_type)res->ai_qp_type) != 0)
		return -1;
	result = res->ai_flags & RAI_PASSIVE ? prepare_passive(endpoint, res, pd, qp_init_attr) :
					       prepare_active(endpoint, res, pd, qp_init_attr);
	if (result != 0) {
		int error = errno;

		rdma_destroy_ep(endpoint);
		return vb_rdmacm_fail(error);
	}
	*id = endpoint;
	return 0;
}

VB_EXPORT void rdma_destroy_ep(struct rdma_cm_id *id)
{
	VB_UNCANCELLED;
	if (id->qp != NULL)
		rdma_destroy_qp(id);
	if (id->srq != NULL)
		rdma_destroy_srq(id);
	rdma_destroy_id(id);
}

/* The event must be a request, and its id must get its QP. */
static int check_request(struct rdma_cm_id *listen, struct rdma_cm_event *event)
{
	struct vb_rdmacm_id *listener = vb_rdmacm_id_of(listen);

	if (event->event == RDMA_CM_EVENT_REJECTED)
		return vb_rdmacm_fail(ECONNREFUSED);
	if (event->status != 0)
		return vb_rdmacm_fail(event->status < 0 ? -event->status : event->status);
	if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST)
		return vb_rdmacm_fail(EINVAL);
	if (listener->endpoint_attr != NULL) {
		struct ibv_qp_init_attr attr = *listener->endpoint_attr;

		return rdma_create_qp(event->id, listen->pd, &attr);
	}
	return 0;
}

VB_EXPORT int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **id)
{
	VB_UNCANCELLED;
	struct rdma_cm_event *event;

	if (listen == NULL || id == NULL || !vb_rdmacm_id_of(listen)->synchronous)
		return vb_rdmacm_fail(EINVAL);
	if (listen->event != NULL) {
		rdma_ack_cm_event(listen->event);
		listen->event = NULL;
	}
	if (rdma_get_cm_event(listen->channel, &event) != 0)
		return -1;
	if (check_request(listen, event) != 0) {
		listen->event = event;
		return -1;
	}
	*id = event->id;
	(*id)->event = event;
	return 0;
}
