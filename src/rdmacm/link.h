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

/* CONNECT or ACCEPT, said after vb_rdmacm_link_intend, of an id that is CONNECTING or ACCEPTED and keeps the command: does not wait. If the
 * daemon refuses it, RDMA_CM_EVENT_CONNECT_ERROR tells why; one that is replaced hears it again by adoption. Waits all the same where
 * verbenad must be started, and for the first CONNECT. 0 or -errno. */
int vb_rdmacm_link_request(struct vb_rdmacm_id *id, struct vb_cm_command *command);

/* CONNECT, likewise, when its turn has come (turns.h): if it has to wait for that, all that the daemon says against it is an event.
 * `waits`: for the daemon's answer, if its turn is now. 0 or -errno. */
int vb_rdmacm_link_connect(struct vb_rdmacm_id *id, struct vb_cm_command *command, bool waits);

/* Say it without waiting for anything. */
void vb_rdmacm_link_say(struct vb_rdmacm_id *id, struct vb_cm_command *command);

/* The program has taken this id's request: it does not count for the backlog any more. The daemon is told with the answer, or when it is
 * worth a message. */
void vb_rdmacm_link_fetched(struct vb_rdmacm_id *id);

/* The id is RESOLVING: the link's thread waits for its neighbour from now on. 0 or -errno: it will not. */
int vb_rdmacm_link_resolve(struct vb_rdmacm_id *id);

/* DESTROY: no event of this id arrives any more when this returns. Never fails: without a daemon there is nothing
 * to destroy. */
void vb_rdmacm_link_destroy(struct vb_rdmacm_id *id);

#endif
