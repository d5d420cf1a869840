/* SPDX-License-Identifier: MIT
 *
 * rdma_create_id, for other calls.
 */
#ifndef VB_RDMACM_ID_CALLS_H
#define VB_RDMACM_ID_CALLS_H

#include "rdmacm/id.h"

/* rdma_create_id with the type of QP said. 0 or -1 with errno. */
int vb_rdmacm_id_create(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
			enum rdma_port_space port_space, enum ibv_qp_type qp_type);

#endif
