/* SPDX-License-Identifier: MIT
 *
 * The path of a connection, as a path record.
 */
#ifndef VB_RDMACM_PATH_H
#define VB_RDMACM_PATH_H

#include <stddef.h>
#include <stdint.h>

#include <infiniband/sa.h>

#include "rdmacm/id.h"

/* From id->source, id->destination, its device and options: id->path, and the public route with it. */
void vb_rdmacm_path_fill(struct vb_rdmacm_id *id);

/* InfiniBand: LIDs, GIDs and service level are these. */
void vb_rdmacm_path_learn(struct vb_rdmacm_id *id, const struct vb_path *path);
/* All that the subnet administration said. */
void vb_rdmacm_path_take(struct vb_rdmacm_id *id, const struct vb_cm_event *event);

/* What a program has instead of asking (RDMA_OPTION_IB_PATH). 0 or -EINVAL: none of them can be used, or it leads elsewhere. */
int vb_rdmacm_path_give(struct vb_rdmacm_id *id, const struct ibv_path_data *data, size_t count);

/* Local ACK timeout exponent for the QP. */
uint8_t vb_rdmacm_path_ack_timeout(const struct vb_rdmacm_id *id);

#endif
