/* SPDX-License-Identifier: MIT
 *
 * Users who ask what processes hold (LIST_RESOURCES): the question is passed on to the processes, each answer to all who
 * wait for it, and a process that does not answer in time is named as such.
 */
#ifndef VB_DAEMON_RESOURCE_QUERIES_H
#define VB_DAEMON_RESOURCE_QUERIES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/time.h"

struct vb_client;

struct vb_resource_queries {
	struct vb_list list;
};

void vb_resource_queries_init(struct vb_resource_queries *queries);
void vb_resource_queries_fini(struct vb_resource_queries *queries);

/* May that client be told about this process? Root and its own user may. */
bool vb_resource_may_see(const struct vb_client *asker, const struct vb_client *process);

/* `pid` 0: of all processes that the asker may see. */
void vb_resource_queries_begin(struct vb_resource_queries *queries, vb_time now, struct vb_list *client_list,
			       struct vb_client *asker, uint32_t sequence, uint32_t pid);
/* The process answered; fd -1: it could not. The descriptor stays the caller's. */
void vb_resource_queries_answer(struct vb_resource_queries *queries, struct vb_client *process, int fd);
/* It loses its slot, or is going to be destroyed. */
void vb_resource_queries_slot_gone(struct vb_resource_queries *queries, struct vb_client *process);
void vb_resource_queries_client_gone(struct vb_resource_queries *queries, struct vb_client *client);

vb_time vb_resource_queries_deadline(const struct vb_resource_queries *queries);
void vb_resource_queries_expire(struct vb_resource_queries *queries, vb_time now, struct vb_list *client_list);

#endif
