/* SPDX-License-Identifier: MIT
 *
 * The daemon's number for an id -> the id. Not locked: its user (link.c) is.
 */
#ifndef VB_RDMACM_REGISTRY_H
#define VB_RDMACM_REGISTRY_H

#include "rdmacm/id.h"

struct vb_rdmacm_registry {
	struct vb_rdmacm_id **bucket;
	uint32_t size, count;            /* size: a power of two, or 0 */
};

/* 0 or -ENOMEM. */
int vb_rdmacm_registry_insert(struct vb_rdmacm_registry *registry, struct vb_rdmacm_id *id);
void vb_rdmacm_registry_remove(struct vb_rdmacm_registry *registry, struct vb_rdmacm_id *id);
struct vb_rdmacm_id *vb_rdmacm_registry_find(const struct vb_rdmacm_registry *registry, uint32_t handle);

/* Visit every id; the visitor changes nothing in the registry. */
void vb_rdmacm_registry_visit(const struct vb_rdmacm_registry *registry,
			      void (*visit)(struct vb_rdmacm_id *id, const void *context), const void *context);

/* Empty it; the ids come back as a chain through registry_next. */
struct vb_rdmacm_id *vb_rdmacm_registry_drain(struct vb_rdmacm_registry *registry);

#endif
