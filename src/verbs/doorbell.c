/* SPDX-License-Identifier: MIT
 *
 * See doorbell.h. One byte is sent per event, so that an edge-triggered epoll sees an edge for each; how many bytes lie
 * in the socket does not matter otherwise, and a full socket is as readable as can be.
 */
#include "verbs/doorbell.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

int vb_doorbell_init(struct vb_doorbell *bell)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
		return -errno;
	bell->wait_fd = pair[0];
	bell->ring_fd = pair[1];
	return 0;
}

void vb_doorbell_fini(struct vb_doorbell *bell)
{
	close(bell->wait_fd);
	close(bell->ring_fd);
}

void vb_doorbell_ring(struct vb_doorbell *bell)
{
	int saved = errno;
	char ding = 1;

	(void)send(bell->ring_fd, &ding, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	errno = saved;
}

void vb_doorbell_silence(struct vb_doorbell *bell)
{
	int saved = errno;
	char heard[256];

	while (recv(bell->wait_fd, heard, sizeof(heard), MSG_DONTWAIT) == (ssize_t)sizeof(heard))
		;
	errno = saved;
}

int vb_doorbell_wait(struct vb_doorbell *bell)
{
	char ding;
	ssize_t got = recv(bell->wait_fd, &ding, 1, MSG_PEEK);

	if (got < 0)
		return -errno;
	return got == 0 ? -EBADF : 0;    /* end of file: the channel was destroyed under our feet */
}
