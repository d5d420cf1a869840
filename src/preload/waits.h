/* SPDX-License-Identifier: MIT
 *
 * Which descriptors are completion channels', or epoll sets with one in them; and how to wait for such (wire/waiting.h).
 */
#ifndef VB_PRELOAD_WAITS_H
#define VB_PRELOAD_WAITS_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>

/* The call is to go by vb_preload_wait: one of `fds` is such. */
bool vb_preload_waits_concern(struct pollfd *fds, nfds_t count);
/* As ppoll. */
int vb_preload_wait(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask);

/* A set is new, or has been given a member. */
void vb_preload_waits_new_set(int set);
void vb_preload_waits_add(int set, int fd);

#endif
