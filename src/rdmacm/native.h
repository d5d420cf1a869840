/* SPDX-License-Identifier: MIT
 *
 * InfiniBand's own addresses (AF_IB, struct sockaddr_ib): a GID, a P_Key and a service id in place of an IP address and a port. There is
 * nothing to look up: the subnet administration is asked for the route alone. What the fields mean is the kernel's (cma.c).
 */
#ifndef VB_RDMACM_NATIVE_H
#define VB_RDMACM_NATIVE_H

#include "rdmacm/id.h"

/* rdma_bind_addr and rdma_resolve_addr for an address of AF_IB; the state of the id is right. -1 and errno. */
int vb_rdmacm_native_bind(struct vb_rdmacm_id *id, const struct sockaddr *address);
int vb_rdmacm_native_resolve(struct vb_rdmacm_id *id, const struct sockaddr *source, const struct sockaddr *destination);

#endif
