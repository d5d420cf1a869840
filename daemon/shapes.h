/* SPDX-License-Identifier: MIT
 *
 * Devices whose packets are given a worse network, by the user who asked for it. What root sets is for everybody who has set nothing.
 */
#ifndef VB_DAEMON_SHAPES_H
#define VB_DAEMON_SHAPES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "wire/daemon_message.h"

struct vb_client;

struct vb_shapes {
	struct vb_list list;
	unsigned count;
};

void vb_shapes_init(struct vb_shapes *shapes);
void vb_shapes_fini(struct vb_shapes *shapes);

/* SET_SHAPE: kept, and told to the processes concerned. */
void vb_shapes_set(struct vb_shapes *shapes, struct vb_list *client_list, struct vb_client *asker, const struct vb_daemon_message *m);
/* LIST_SHAPES: those that the asker has set, root's too; root sees all. */
void vb_shapes_list(const struct vb_shapes *shapes, struct vb_client *asker, uint32_t sequence);
/* A process that has just begun to listen to news is told what is set for it. */
void vb_shapes_tell(const struct vb_shapes *shapes, struct vb_client *process);
/* The interface is gone: another may get its number. */
void vb_shapes_forget(struct vb_shapes *shapes, uint32_t interface_index);

#endif
