/* SPDX-License-Identifier: MIT
 *
 * rdma_resolve_route. The path record is filled from what is known (path.c). For a stream there is none.
 */
#include <errno.h>
#include <rdma/rdma_cma.h>

#include "rdmacm/channel.h"
#include "rdmacm/event.h"
#include "rdmacm/explain.h"
#include "rdmacm/export.h"
#include "rdmacm/path.h"
#include "rdmacm/result.h"

VB_EXPORT int rdma_resolve_route(struct rdma_cm_id *public_id, int timeout_ms)
{
	struct vb_rdmacm_id *id = vb_rdmacm_id_of(public_id);
	int error;

	(void)timeout_ms;
	if (id == NULL || vb_rdmacm_id_state(id) != VB_RDMACM_ADDRESS_RESOLVED)
		return vb_rdmacm_refuse("rdma_resolve_route", id, EINVAL, NULL);
	if (!vb_rdmacm_id_is_stream(id))
		vb_rdmacm_path_fill(id);
	vb_rdmacm_id_become(id, VB_RDMACM_ROUTE_RESOLVED);
	error = vb_rdmacm_channel_tell(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	return error != 0 ? vb_rdmacm_result(error) : vb_rdmacm_event_await(id);
}
