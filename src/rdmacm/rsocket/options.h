/* SPDX-License-Identifier: MIT
 *
 * rsetsockopt, rgetsockopt, rfcntl. Caller holds rs->lock; 0 or -errno.
 */
#ifndef VB_RDMACM_RSOCKET_OPTIONS_H
#define VB_RDMACM_RSOCKET_OPTIONS_H

#include <sys/socket.h>

struct vb_rsocket;

int vb_rsocket_option_set(struct vb_rsocket *rs, int level, int name, const void *value, socklen_t length);
int vb_rsocket_option_get(struct vb_rsocket *rs, int level, int name, void *value, socklen_t *length);
/* Also what fcntl returns. */
int vb_rsocket_control(struct vb_rsocket *rs, int command, int argument);

#endif
