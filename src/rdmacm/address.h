/* SPDX-License-Identifier: MIT
 *
 * Socket addresses and the form in which verbenad and the ids have them.
 */
#ifndef VB_RDMACM_ADDRESS_H
#define VB_RDMACM_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

#include "wire/cm_command.h"

/* Bytes of an address of this family, 0 for a family (or pointer) that rdma_cm does not know. */
socklen_t vb_rdmacm_address_length(const struct sockaddr *address);

/* 0 or -EINVAL. */
int vb_rdmacm_address_from(struct vb_cm_address *address, const struct sockaddr *from);
void vb_rdmacm_address_to(struct sockaddr_storage *to, const struct vb_cm_address *address);

bool vb_rdmacm_address_is_wildcard(const struct vb_cm_address *address);

#endif
