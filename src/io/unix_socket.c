/* SPDX-License-Identifier: MIT
 *
 * unix(7): abstract names, SCM_RIGHTS, SO_PEERCRED.
 */
#include "io/unix_socket.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "io/clock.h"
#include "io/descriptor.h"
#include "io/event.h"

#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS 59
#endif

enum { SEND_BUFFER = 32 * 1024 };

static socklen_t make_address(struct sockaddr_un *address, const char *name)
{
	size_t length = strlen(name);

	assert(length < sizeof(address->sun_path) - 1);
	memset(address, 0, sizeof(*address));
	address->sun_family = AF_UNIX;
	if (name[0] == '/') {
		memcpy(address->sun_path, name, length);
		return sizeof(*address);
	}
	memcpy(address->sun_path + 1, name, length);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

/* A path whose owner has died is only in the way. */
static void clear_path(const char *path)
{
	int fd = vb_unix_connect(path);

	if (fd == -ECONNREFUSED)
		(void)unlink(path);
	else if (fd >= 0)
		close(fd);
}

bool vb_unix_is_listener(int fd)
{
	int domain = 0, type = 0, listens = 0, flags = fcntl(fd, F_GETFL);
	socklen_t length = sizeof(int);

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 && domain == AF_UNIX &&
	       getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_SEQPACKET &&
	       getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) == 0 && listens && flags >= 0 &&
	       fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

int vb_unix_listen(const char *name)
{
	struct sockaddr_un address;
	socklen_t length = make_address(&address, name);
	int fd = vb_descriptor_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error;

	if (fd < 0)
		return -errno;
	if (name[0] == '/')
		clear_path(name);
	/* Everybody may connect: who it is the kernel tells. */
	if (bind(fd, (struct sockaddr *)&address, length) == 0 &&
	    (name[0] != '/' || chmod(name, 0666) == 0) && listen(fd, SOMAXCONN) == 0)
		return fd;
	error = -errno;
	close(fd);
	return error;
}

int vb_unix_connect(const char *name)
{
	struct sockaddr_un address;
	socklen_t length = make_address(&address, name);
	int fd = vb_descriptor_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), error;

	if (fd < 0)
		return -errno;
	while (connect(fd, (struct sockaddr *)&address, length) != 0) {
		if (errno == EINTR)
			continue;
		error = -errno;
		close(fd);
		return error;
	}
	return fd;
}

int vb_unix_accept(int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), room = SEND_BUFFER;

	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	return fd;
}

int vb_unix_pair(int fds[2])
{
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0)
		return -errno;
	fds[0] = vb_descriptor_lift(fds[0]);
	(void)fcntl(fds[0], F_SETFL, O_NONBLOCK);
	return 0;
}

void vb_unix_widen(int fd)
{
	int wanted = 4 * 1024 * 1024;

	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &wanted, sizeof(wanted)) != 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &wanted, sizeof(wanted));
}

int vb_unix_send_parts(int fd, const struct iovec *parts, unsigned count, vb_time patience)
{
	struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)parts, .msg_iovlen = count};
	struct pollfd room = {.fd = fd, .events = POLLOUT};
	bool waited = false;

	for (;;) {
		if (sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
			return 0;
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN || waited)
			return -errno;
		waited = true;
		(void)poll(&room, 1, (int)(patience / VB_MILLISECONDS(1)));
	}
}

int vb_unix_peer(int fd, struct vb_unix_peer *peer)
{
	struct ucred credentials;
	socklen_t length = sizeof(credentials);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0)
		return -errno;
	*peer = (struct vb_unix_peer){credentials.pid, credentials.uid, credentials.gid};
	return 0;
}

bool vb_unix_peer_is_in_group(int fd, gid_t gid)
{
	struct vb_unix_peer peer;
	socklen_t length = 0;
	gid_t *groups;
	bool found;

	if (vb_unix_peer(fd, &peer) != 0)
		return false;
	/* Too short on purpose: it says how long the list is. */
	if (peer.gid == gid || (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &length) != 0 && errno != ERANGE))
		return peer.gid == gid;
	groups = malloc(length + 1);
	if (!groups)
		return false;
	found = getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &length) == 0;
	if (found) {
		size_t i = 0, count = length / sizeof(*groups);

		while (i < count && groups[i] != gid)
			i++;
		found = i < count;
	}
	free(groups);
	return found;
}

int vb_unix_send(int fd, const void *bytes, size_t length, const int *fds, unsigned count, bool wait)
{
	struct iovec span = {(void *)(uintptr_t)bytes, length};
	struct msghdr message = {.msg_iov = &span, .msg_iovlen = 1};
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(VB_UNIX_MAX_FDS * sizeof(int))];
	} control;

	assert(count <= VB_UNIX_MAX_FDS);
	if (count > 0) {
		struct cmsghdr *header;

		memset(&control, 0, sizeof(control));
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(count * sizeof(int));
		header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(header), fds, count * sizeof(int));
	}
	for (;;) {
		if (sendmsg(fd, &message, MSG_NOSIGNAL | (wait ? 0 : MSG_DONTWAIT)) >= 0)
			return 0;
		if (errno != EINTR)
			return -errno;
	}
}

static unsigned collect_descriptors(struct msghdr *message, int *fds)
{
	unsigned count = 0;

	for (struct cmsghdr *h = CMSG_FIRSTHDR(message); h; h = CMSG_NXTHDR(message, h)) {
		if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = CMSG_LEN(0); at + sizeof(int) <= h->cmsg_len && count < VB_UNIX_MAX_FDS;
		     at += sizeof(int))
			memcpy(&fds[count++], (char *)h + at, sizeof(int));
	}
	return count;
}

ssize_t vb_unix_receive(int fd, void *bytes, size_t room, int *fds, unsigned most, unsigned *count, vb_time deadline)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(VB_UNIX_MAX_FDS * sizeof(int))];
	} control;
	int received[VB_UNIX_MAX_FDS];
	unsigned descriptors;
	struct iovec span = {bytes, room};
	struct msghdr message;
	ssize_t length;

	*count = 0;
	for (;;) {
		message = (struct msghdr){
			.msg_iov = &span,
			.msg_iovlen = 1,
			.msg_control = &control,
			.msg_controllen = sizeof(control),
		};
		length = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		if (length >= 0)
			break;
		if (errno == EAGAIN && deadline > 0) {
			struct vb_wait_item item = {.fd = fd};

			vb_wait(&item, 1, deadline);
			if (item.readable || vb_clock_now() < deadline)
				continue;
			return -EAGAIN;
		}
		if (errno != EINTR)
			return errno == ECONNRESET ? 0 : -errno;
	}
	descriptors = collect_descriptors(&message, received);
	if (descriptors > most || (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
		for (unsigned i = 0; i < descriptors; i++)
			close(received[i]);
		return -EMSGSIZE;
	}
	for (unsigned i = 0; i < descriptors; i++)
		fds[i] = vb_descriptor_lift(received[i]);
	*count = descriptors;
	return length;
}
