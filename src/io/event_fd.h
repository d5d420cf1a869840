/* SPDX-License-Identifier: MIT
 *
 * The descriptor an application polls for events that are kept in our memory: readable exactly while some wait.
 *
 * A socket pair rather than an eventfd, because a blocking getter must sleep in a call that (a) obeys the O_NONBLOCK
 * the application sets on its end, (b) is restarted after a signal when the application asked for that, and (c) takes
 * nothing away, so that two getters and a destroyer cannot race for the count: recv(MSG_PEEK) does all three. A getter that sleeps on
 * something else as well does so in ppoll, and asks for (a) and (b) itself.
 */
#ifndef VB_IO_EVENT_FD_H
#define VB_IO_EVENT_FD_H

#include <stdbool.h>

struct vb_event_fd {
	int wait_fd;                     /* the application's end */
	int ring_fd;
};

int vb_event_fd_init(struct vb_event_fd *event_fd); /* 0 or -errno */
void vb_event_fd_fini(struct vb_event_fd *event_fd);

/* Both under the lock of the queue they announce. */
void vb_event_fd_raise(struct vb_event_fd *event_fd);
void vb_event_fd_clear(struct vb_event_fd *event_fd);

/* Sleep until it rings: 0, or -errno (-EAGAIN: the application's end is non-blocking; -EINTR). Caller holds no lock. */
int vb_event_fd_wait(struct vb_event_fd *event_fd);
/* The same, or until `other` can be read. 1: it can, and nothing rings. 0 also: a signal came after which calls are to be restarted. Not
 * for one that is non-blocking. */
int vb_event_fd_wait_beside(const struct vb_event_fd *event_fd, int other);
bool vb_event_fd_blocks(const struct vb_event_fd *event_fd);

#endif
