/* SPDX-License-Identifier: MIT
 *
 * rdma_bind_addr and rdma_resolve_addr, for other calls.
 */
#ifndef VB_RDMACM_BIND_H
#define VB_RDMACM_BIND_H

#include "rdmacm/id.h"

/* An id that rdma_bind_addr left without a device though its address has one gets it now: it cannot be done without. */
void vb_rdmacm_bind_need_device(struct vb_rdmacm_id *id);

#endif
