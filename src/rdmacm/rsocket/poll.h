/* SPDX-License-Identifier: MIT
 *
 * poll and select over rsockets and ordinary descriptors together.
 */
#ifndef VB_RDMACM_RSOCKET_POLL_H
#define VB_RDMACM_RSOCKET_POLL_H

#include <poll.h>
#include <sys/select.h>
#include <sys/time.h>

/* As poll(2) and select(2); -errno instead of -1. */
int vb_rsocket_poll(struct pollfd *fds, nfds_t count, int timeout_milliseconds);
int vb_rsocket_select(int count, fd_set *readable, fd_set *writable, fd_set *exceptional,
		      const struct timeval *timeout);

#endif
