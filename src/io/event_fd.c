/* SPDX-License-Identifier: MIT
 *
 * See event_fd.h. One byte is sent per event, so that an edge-triggered epoll sees an edge for each; how many bytes lie
 * in the socket does not matter otherwise, and a full socket is as readable as can be.
 */
#include "io/event_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/signals.h"
#include "io/uncancelled.h"

/* A thread that sleeps is woken by this alone. */
enum { TRIES = 1000 };

int vb_event_fd_init(struct vb_event_fd *event_fd)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
		return -errno;
	event_fd->wait_fd = pair[0];
	event_fd->ring_fd = pair[1];
	return 0;
}

void vb_event_fd_fini(struct vb_event_fd *event_fd)
{
	close(event_fd->wait_fd);
	close(event_fd->ring_fd);
}

/* A system that has no memory for one byte has some a moment later. */
static bool ring(const struct vb_event_fd *event_fd)
{
	char ding = 1;

	return vb_call_send(event_fd->ring_fd, &ding, 1, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 ||
	       (errno != ENOBUFS && errno != ENOMEM && errno != EINTR);
}

void vb_event_fd_raise(struct vb_event_fd *event_fd)
{
	int saved = errno;

	for (unsigned i = 0; i < TRIES && !ring(event_fd); i++)
		sched_yield();
	errno = saved;
}

void vb_event_fd_clear(struct vb_event_fd *event_fd)
{
	int saved = errno;
	char heard[256];

	while (vb_call_recv(event_fd->wait_fd, heard, sizeof(heard), MSG_DONTWAIT) == (ssize_t)sizeof(heard))
		;
	errno = saved;
}

int vb_event_fd_wait(struct vb_event_fd *event_fd)
{
	char ding;
	ssize_t got = recv(event_fd->wait_fd, &ding, 1, MSG_PEEK);

	if (got < 0)
		return -errno;
	return got == 0 ? -EBADF : 0;    /* end of file: the channel was destroyed under our feet */
}

bool vb_event_fd_blocks(const struct vb_event_fd *event_fd)
{
	return (fcntl(event_fd->wait_fd, F_GETFL) & O_NONBLOCK) == 0;
}

int vb_event_fd_wait_beside(const struct vb_event_fd *event_fd, int other)
{
	struct pollfd fds[] = {{.fd = event_fd->wait_fd, .events = POLLIN}, {.fd = other, .events = POLLIN}};

	if (ppoll(fds, 2, NULL, NULL) < 0) {
		int error = errno;

		return error == EINTR && vb_signals_restart_calls() ? 0 : -error;
	}
	/* Destroyed, as above. */
	if ((fds[0].revents & (POLLHUP | POLLNVAL)) != 0)
		return -EBADF;
	return fds[0].revents == 0;
}
