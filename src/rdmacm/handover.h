/* SPDX-License-Identifier: MIT
 *
 * By the private call (wire/stream_handover.h): handing streams to libibverbs, and hearing how they go.
 */
#ifndef VB_RDMACM_HANDOVER_H
#define VB_RDMACM_HANDOVER_H

#include <infiniband/verbs.h>
#include <stdint.h>

#include "wire/stream_handover.h"

/* The descriptor to wait on for reports; libibverbs' own. -ENOSYS: this libibverbs takes no streams.
 * `show` is called from now on. */
int vb_rdmacm_handover_open(struct ibv_context *context, vb_handover_show_ids *show);
/* The queue pair goes on with that socket, which is libibverbs' if this succeeds. 0 or -errno. */
int vb_rdmacm_handover_adopt(struct ibv_context *context, uint32_t qpn, int fd, const struct vb_handover_terms *terms, uint64_t cookie);
/* Its stream ends when what was posted is sent. 0 or -errno: -EINVAL it has none. */
int vb_rdmacm_handover_close(struct ibv_context *context, uint32_t qpn);
/* At most VB_HANDOVER_REPORTS of them. How many. */
unsigned vb_rdmacm_handover_report(struct ibv_context *context, struct vb_handover_report *reports);

#endif
