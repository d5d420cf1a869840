/* SPDX-License-Identifier: MIT
 *
 * Names of the IBVERBS_PRIVATE_ node that do something here.
 */
#ifndef VB_VERBS_PRIVATE_H
#define VB_VERBS_PRIVATE_H

#include <infiniband/verbs.h>
#include <stdint.h>

/* The words of /sys/class/infiniband/.../gid_attrs/types, as a number. */
enum { VB_SYSFS_GID_TYPE_IB_ROCE_V1, VB_SYSFS_GID_TYPE_ROCE_V2 };

/* placing.c: 0 or a positive errno. */
struct vb_placing_call;
int vb_verbs_place(const struct vb_placing_call *call);

/* sleeping.c: the same */
struct vb_sleeping_call;
int vb_verbs_sleeping(struct ibv_context *context, struct vb_sleeping_call *call);

/* mr.c: the same */
struct vb_mapped_call;
int vb_verbs_register_mapped(struct vb_mapped_call *call);

/* stream_handover.c */
int execute_ioctl(struct ibv_context *context, void *command);

int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index, uint32_t *type);

#endif
