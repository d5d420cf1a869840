/* SPDX-License-Identifier: MIT
 *
 * Through the door (wire/stream_door.h): handing streams to libibverbs, and hearing how they go.
 */
#ifndef VB_RDMACM_DOOR_H
#define VB_RDMACM_DOOR_H

#include <infiniband/verbs.h>
#include <stdint.h>

#include "wire/stream_door.h"

/* The descriptor to wait on for reports; libibverbs' own. -ENOSYS: this libibverbs takes no streams.
 * `show` is called from now on. */
int vb_rdmacm_door_open(struct ibv_context *context, vb_door_show_ids *show);
/* The queue pair goes on with that socket, which is libibverbs' if this succeeds. 0 or -errno. */
int vb_rdmacm_door_adopt(struct ibv_context *context, uint32_t qpn, int fd, const struct vb_door_terms *terms, uint64_t cookie);
/* Its stream ends when what was posted is sent. 0 or -errno: -EINVAL it has none. */
int vb_rdmacm_door_close(struct ibv_context *context, uint32_t qpn);
/* At most VB_DOOR_REPORTS of them. How many. */
unsigned vb_rdmacm_door_report(struct ibv_context *context, struct vb_door_report *reports);

#endif
