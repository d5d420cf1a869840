/* SPDX-License-Identifier: MIT
 *
 * poll and select on connections and anything else.
 */
#ifndef VB_PRELOAD_SOCKETS_POLL_H
#define VB_PRELOAD_SOCKETS_POLL_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/select.h>
#include <time.h>

/* Is one of them a connection of ours? */
bool vb_sockets_poll_concerns(struct pollfd *fds, nfds_t count);
bool vb_sockets_select_concerns(int count, const fd_set *const sets[3]);

/* As ppoll and pselect, with -errno. NULL: no timeout. */
int vb_sockets_poll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask);
int vb_sockets_select(int count, fd_set *sets[3], const struct timespec *timeout, const sigset_t *mask);

#endif
