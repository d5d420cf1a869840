/* SPDX-License-Identifier: MIT
 *
 * From what was negotiated to the attributes of a queue pair.
 */
#ifndef VB_RDMACM_QP_ATTR_H
#define VB_RDMACM_QP_ATTR_H

#include <infiniband/verbs.h>

#include "rdmacm/id.h"

/* How to address the peer. 0 or -errno: the source address has left the device. */
int vb_rdmacm_qp_attr_address(const struct vb_rdmacm_id *id, struct ibv_ah_attr *attr);

/* Move id->qp, if there is one, to the state. RDMA_MAX_RESP_RES and RDMA_MAX_INIT_DEPTH leave what was negotiated.
 * 0 or -1 with errno. */
int vb_rdmacm_qp_ready_to_receive(struct vb_rdmacm_id *id, uint8_t responder_resources);
int vb_rdmacm_qp_ready_to_send(struct vb_rdmacm_id *id, uint8_t initiator_depth);
int vb_rdmacm_qp_error(struct vb_rdmacm_id *id);

#endif
