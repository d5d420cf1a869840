/* SPDX-License-Identifier: MIT
 *
 * rdma_set_option. Options of the address (REUSEADDR, AFONLY) must be set before it is bound, as in the kernel.
 */
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <string.h>

#include "io/cancellation.h"
#include "rdmacm/channel.h"
#include "rdmacm/explain.h"
#include "rdmacm/export.h"
#include "rdmacm/id.h"
#include "rdmacm/path.h"
#include "rdmacm/result.h"

enum { LARGEST_ACK_TIMEOUT = 31 };       /* five bits in a REQ */

static int set_flag(const struct vb_rdmacm_id *id, bool *flag, const void *value, size_t length)
{
	int given;

	if (length != sizeof(given) || vb_rdmacm_id_state(id) != VB_RDMACM_IDLE)
		return -EINVAL;
	memcpy(&given, value, sizeof(given));
	*flag = given != 0;
	return 0;
}

static int set_id_option(struct vb_rdmacm_id *id, int name, const void *value, size_t length)
{
	uint8_t given;

	switch (name) {
	case RDMA_OPTION_ID_TOS:
		if (length != sizeof(given))
			return -EINVAL;
		memcpy(&given, value, sizeof(given));
		id->traffic_class = given;
		id->has_traffic_class = true;
		if (vb_rdmacm_id_state(id) != VB_RDMACM_LISTENING)
			id->path.traffic_class = given;
		return 0;
	case RDMA_OPTION_ID_ACK_TIMEOUT:
		if (length != sizeof(given))
			return -EINVAL;
		memcpy(&given, value, sizeof(given));
		if (given > LARGEST_ACK_TIMEOUT || vb_rdmacm_id_is_datagram(id))
			return -EINVAL;
		id->ack_timeout = given;
		id->has_ack_timeout = true;
		return 0;
	case RDMA_OPTION_ID_REUSEADDR:
		return set_flag(id, &id->reuse_address, value, length);
	case RDMA_OPTION_ID_AFONLY:
		return set_flag(id, &id->address_family_only, value, length);
	default:
		return -ENOSYS;
	}
}

/* Path records from elsewhere (ibacm, or the program's own): taking one stands for rdma_resolve_route. RoCE derives its own from the
 * addresses. */
static int set_path(struct vb_rdmacm_id *id, const void *value, size_t length)
{
	int error;

	if (length == 0 || length % sizeof(struct ibv_path_data) != 0 || vb_rdmacm_id_state(id) != VB_RDMACM_ADDRESS_RESOLVED)
		return -EINVAL;
	if (vb_rdmacm_id_is_fabric(id)) {
		error = vb_rdmacm_path_give(id, value, length / sizeof(struct ibv_path_data));
		if (error != 0)
			return error;
	} else {
		vb_rdmacm_path_fill(id);
	}
	vb_rdmacm_id_become(id, VB_RDMACM_ROUTE_RESOLVED);
	return vb_rdmacm_channel_tell(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
}

VB_EXPORT int rdma_set_option(struct rdma_cm_id *public_id, int level, int optname, void *optval, size_t optlen)
{
	VB_UNCANCELLED;
	struct vb_rdmacm_id *id = vb_rdmacm_id_of(public_id);

	if (id == NULL || optval == NULL)
		return vb_rdmacm_fail(EINVAL);
	switch (level) {
	case RDMA_OPTION_ID:
		return vb_rdmacm_outcome("rdma_set_option", id, set_id_option(id, optname, optval, optlen));
	case RDMA_OPTION_IB:
		return vb_rdmacm_outcome("rdma_set_option", id,
					 optname == RDMA_OPTION_IB_PATH ? set_path(id, optval, optlen) : -ENOSYS);
	default:
		return vb_rdmacm_fail(ENOSYS);
	}
}
