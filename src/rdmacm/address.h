/* SPDX-License-Identifier: MIT
 *
 * Socket addresses and what rdma_cm makes of them.
 */
#ifndef VB_RDMACM_ADDRESS_H
#define VB_RDMACM_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

#include "wire/cm_command.h"

struct vb_rdmacm_id;

/* Bytes of an address of this family, 0 for a family (or pointer) that rdma_cm does not know. */
socklen_t vb_rdmacm_address_length(const struct sockaddr *address);

/* 0 or -EINVAL, -EAFNOSUPPORT (AF_IB: there is no InfiniBand here). */
int vb_rdmacm_address_from(struct vb_cm_address *address, const struct sockaddr *from);
void vb_rdmacm_address_to(struct sockaddr_storage *to, const struct vb_cm_address *address);

bool vb_rdmacm_address_is_wildcard(const struct vb_cm_address *address);

/* An id that rdma_bind_addr left without a device though its address has one gets it now: it cannot be done without. */
void vb_rdmacm_address_need_device(struct vb_rdmacm_id *id);

/* rdma_resolve_addr failed after all: the id is as it was before. */
void vb_rdmacm_address_unresolved(struct vb_rdmacm_id *id);

#endif
