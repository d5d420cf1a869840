/* SPDX-License-Identifier: MIT
 *
 * rdma_resolve_route. The path record is filled from what is known (path.c). For a stream there is none. InfiniBand's subnet administration
 * is asked for it, by verbenad; without a subnet manager there is no route.
 */
#include <errno.h>
#include <rdma/rdma_cma.h>

#include "io/cancellation.h"
#include "rdmacm/channel.h"
#include "rdmacm/event.h"
#include "rdmacm/explain.h"
#include "rdmacm/export.h"
#include "rdmacm/link.h"
#include "rdmacm/path.h"
#include "rdmacm/result.h"

static int ask_subnet(struct vb_rdmacm_id *id, int timeout_ms)
{
	struct vb_cm_command command = {
		.verb = VB_CM_RESOLVE_ROUTE,
		.timeout_ms = timeout_ms > 0 ? (uint32_t)timeout_ms : 0,
		.path = id->route,
	};
	int error = vb_rdmacm_link_call(id, &command, NULL);

	return error == -ENETUNREACH ? vb_rdmacm_channel_tell(id, RDMA_CM_EVENT_ROUTE_ERROR, error) : error;
}

VB_EXPORT int rdma_resolve_route(struct rdma_cm_id *public_id, int timeout_ms)
{
	VB_UNCANCELLED;
	struct vb_rdmacm_id *id = vb_rdmacm_id_of(public_id);
	int error;

	if (id == NULL || vb_rdmacm_id_state(id) != VB_RDMACM_ADDRESS_RESOLVED)
		return vb_rdmacm_refuse("rdma_resolve_route", id, EINVAL, NULL);
	if (vb_rdmacm_id_is_fabric(id)) {
		error = ask_subnet(id, timeout_ms);
		return error != 0 ? vb_rdmacm_result(error) : vb_rdmacm_event_await(id);
	}
	if (!vb_rdmacm_id_is_stream(id))
		vb_rdmacm_path_fill(id);
	vb_rdmacm_id_become(id, VB_RDMACM_ROUTE_RESOLVED);
	error = vb_rdmacm_channel_tell(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	return error != 0 ? vb_rdmacm_result(error) : vb_rdmacm_event_await(id);
}
