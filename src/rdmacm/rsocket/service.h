/* SPDX-License-Identifier: MIT
 *
 * The thread behind the scenes: connections are accepted and made, and disconnects noticed, while the program does
 * something else; datagram peers learn each other's queue pairs; idle connections are kept alive.
 */
#ifndef VB_RDMACM_RSOCKET_SERVICE_H
#define VB_RDMACM_RSOCKET_SERVICE_H

struct vb_rsocket;

/* From now on rs->kind->attend runs whenever rs->event_fd is readable. Caller holds rs->lock or is alone with rs. 0
 * or -errno. */
int vb_rsocket_service_add(struct vb_rsocket *rs);
void vb_rsocket_service_remove(struct vb_rsocket *rs);
/* rs->fd has changed. */
void vb_rsocket_service_rename(struct vb_rsocket *rs);

/* Touch the connection of `fd` every so many seconds; 0: no more. 0 or -errno. */
int vb_rsocket_service_keep_alive(int fd, unsigned seconds);

#endif
