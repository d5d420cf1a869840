/* SPDX-License-Identifier: MIT
 *
 * The process's connection to verbenad for connection management: commands go out and wait for their reply, events
 * come in and go to the channel of their id. Opened by the first call.
 */
#ifndef VB_RDMACM_LINK_H
#define VB_RDMACM_LINK_H

#include "rdmacm/id.h"
#include "wire/cm_command.h"

/* Said before a state changes for the sake of the call that follows at once: a daemon that is replaced in between is
 * told of the state before it. */
void vb_rdmacm_link_intend(struct vb_rdmacm_id *id, uint32_t verb);

/* Say one command about `id` and wait for the answer. Fills in type, serial and id. CREATE: the id gets its handle
 * and its events from then on. reply may be NULL. 0 or -errno, the daemon's own errors included. */
int vb_rdmacm_link_call(struct vb_rdmacm_id *id, struct vb_cm_command *command, struct vb_cm_reply *reply);

/* Say it without waiting for anything. */
void vb_rdmacm_link_say(struct vb_rdmacm_id *id, struct vb_cm_command *command);

/* The id is RESOLVING: the link's thread waits for its neighbour from now on. 0 or -errno: it will not. */
int vb_rdmacm_link_resolve(struct vb_rdmacm_id *id);

/* DESTROY: no event of this id arrives any more when this returns. Never fails: without a daemon there is nothing
 * to destroy. */
void vb_rdmacm_link_destroy(struct vb_rdmacm_id *id);

#endif
