/* SPDX-License-Identifier: MIT
 *
 * Finding a verbenad to talk to, and telling a new one what the old one knew.
 */
#ifndef VB_RDMACM_ADOPT_H
#define VB_RDMACM_ADOPT_H

#include <stddef.h>

#include "rdmacm/registry.h"

struct vb_cm_command;

/* A connection on which the daemon has been greeted; starts one when there is none. Descriptor or -errno (message
 * logged). */
int vb_rdmacm_daemon_connect(void);

/* Tell the daemon at `fd` about every id, giving each its new handle. What the daemon says besides goes to
 * `otherwise`. Ids whose REQ is to be sent again are given to `again`, which sends none yet: the
 * listener may be one of ours. 0 or -errno: the daemon does not answer. Caller keeps everybody else from the
 * registry. */
int vb_rdmacm_adopt_all(int fd, struct vb_rdmacm_registry *registry, void (*again)(struct vb_rdmacm_id *id),
			int (*otherwise)(const void *bytes, size_t length));

/* Ask again for a connection that was refused: the old id goes, a new one with the same port sends the REQ. 0 or
 * -errno: the daemon does not answer. The id has a new handle. */
int vb_rdmacm_adopt_again(int fd, struct vb_rdmacm_id *id, int (*otherwise)(const void *bytes, size_t length));

/* What a new daemon is told of an id with a connection. */
void vb_rdmacm_adopt_describe_connection(struct vb_rdmacm_id *id, struct vb_cm_command *command);

#endif
