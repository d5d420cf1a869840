/* SPDX-License-Identifier: MIT
 *
 * Waiting for the neighbour that an address resolution needs. The link's thread looks, ever less often, until a host
 * answers for the address or the program's time is up.
 */
#ifndef VB_RDMACM_RESOLVE_H
#define VB_RDMACM_RESOLVE_H

#include <stdbool.h>

#include "base/list.h"
#include "rdmacm/id.h"

struct vb_route;

/* Is there a neighbour to wait for? If so, it has been asked, and id->resolving knows. */
bool vb_rdmacm_resolve_begin(struct vb_rdmacm_id *id, const struct vb_route *route, int timeout_ms);

/* Look at those on the list for which it is time; those that are done leave it, and are told. Caller holds the link's
 * lock. */
void vb_rdmacm_resolve_look(struct vb_list *resolving);
/* When to look next. */
vb_time vb_rdmacm_resolve_deadline(const struct vb_list *resolving);

/* rdma_resolve_addr failed after all: the id is as it was before. */
void vb_rdmacm_resolve_undo(struct vb_rdmacm_id *id);

#endif
