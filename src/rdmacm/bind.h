/* SPDX-License-Identifier: MIT
 *
 * rdma_bind_addr and rdma_resolve_addr, for other calls.
 */
#ifndef VB_RDMACM_BIND_H
#define VB_RDMACM_BIND_H

#include "rdmacm/id.h"

/* An id that rdma_bind_addr left without a device though its address has one gets it now: it cannot be done without. */
void vb_rdmacm_bind_need_device(struct vb_rdmacm_id *id);

/* Let the daemon reserve the port. On success the id knows its source. 0 or -errno. */
int vb_rdmacm_bind_reserve_port(struct vb_rdmacm_id *id, const struct vb_cm_address *source);

#endif
