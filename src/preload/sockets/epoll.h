/* SPDX-License-Identifier: MIT
 *
 * epoll sets with connections in them.
 *
 * The program's set is the kernel's and holds all descriptors that are no connections of ours. For connections there
 * is a second set of the kernel's, the inner set, which is itself in the program's; so one epoll_wait sleeps on
 * everything. In the inner set are, edge triggered, each connection's TCP socket and its rsocket's completions, and an
 * eventfd, wake_fd, for changes that no descriptor tells of. All they say is "look again"; what a connection has to
 * report is computed (readiness.c), and level, edge and one-shot are our own affair.
 *
 * Each registration is either in the list `hot`, to be looked at by the next epoll_wait, or was looked at and found to
 * have nothing to report after its completions were armed. So nothing is missed. Connections that go by RDMA stay hot
 * until a thread is about to sleep: as long as there is traffic no completion raises an event, and no thread is woken
 * by one.
 */
#ifndef VB_PRELOAD_SOCKETS_EPOLL_H
#define VB_PRELOAD_SOCKETS_EPOLL_H

#include <signal.h>
#include <stdbool.h>
#include <sys/epoll.h>

#include "base/time.h"

struct vb_connection;

/* As epoll_ctl(2) for a descriptor that is a connection: 0 or -errno. */
int vb_sockets_epoll_control(int epoll, int operation, int fd, struct vb_connection *connection,
			     const struct epoll_event *event);
/* Is this descriptor one of the connections in it? */
bool vb_sockets_epoll_has(int epoll, int fd);
/* Are there, or were there, connections in it? */
bool vb_sockets_epoll_concerns(int epoll);
/* As epoll_pwait(2), with -errno. */
int vb_sockets_epoll_wait(int epoll, struct epoll_event *events, int room, vb_time deadline, const sigset_t *mask);

/* A descriptor is about to be closed: it may be a set, or a connection in sets. */
void vb_sockets_epoll_forget(int fd);
/* The kernel has it in a set. Such a socket is not made an rsocket when it connects: it would have to leave that
 * set. */
void vb_sockets_epoll_note(int fd);
bool vb_sockets_epoll_is_noted(int fd);

#endif
