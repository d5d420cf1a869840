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
#include "io/uncancelled.h"

#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS 59
#endif

#define CONNECT_PATIENCE VB_SECONDS(10)

/* Naps: ever longer, 40 ms in all. */
enum { SEND_BUFFER = 32 * 1024, MOST_NAPS = 12 };

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

bool vb_unix_is_deserted(const char *path)
{
	struct sockaddr_un address;
	socklen_t length = make_address(&address, path);
	/* One that listens and does not accept is no reason to wait. */
	int fd = vb_descriptor_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool deserted = fd >= 0 && connect(fd, (struct sockaddr *)&address, length) != 0 && errno == ECONNREFUSED;

	if (fd >= 0)
		close(fd);
	return deserted;
}

/* A path whose owner has died is only in the way. */
static void clear_path(const char *path)
{
	if (vb_unix_is_deserted(path))
		(void)unlink(path);
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

int vb_unix_open(void)
{
	int fd = vb_descriptor_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	return fd < 0 ? -errno : fd;
}

int vb_unix_bind(int fd, const char *name)
{
	struct sockaddr_un address;
	socklen_t length = make_address(&address, name);

	return bind(fd, (struct sockaddr *)&address, length) == 0 ? 0 : -errno;
}

int vb_unix_connect_within(const char *name, vb_time patience)
{
	struct timeval limit = {patience / VB_SECONDS(1), patience % VB_SECONDS(1) / VB_MICROSECONDS(1)}, none = {0, 0};
	struct sockaddr_un address;
	socklen_t length = make_address(&address, name);
	int fd = vb_descriptor_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), error;

	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	while (connect(fd, (struct sockaddr *)&address, length) != 0) {
		if (errno == EINTR)
			continue;
		error = -errno;
		close(fd);
		return error;
	}
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof(none));
	return fd;
}

int vb_unix_connect(const char *name)
{
	return vb_unix_connect_within(name, CONNECT_PATIENCE);
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
	struct timespec limit = {.tv_sec = patience / VB_SECONDS(1), .tv_nsec = patience % VB_SECONDS(1)};
	struct pollfd room = {.fd = fd, .events = POLLOUT};
	bool waited = false;

	for (;;) {
		if (vb_call_sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
			return 0;
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN || waited)
			return -errno;
		waited = true;
		(void)vb_call_ppoll(&room, 1, &limit);
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
	struct vb_unix_peer peer = {.gid = (gid_t)-1};
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
	for (unsigned naps = 0;;) {
		if (sendmsg(fd, &message, MSG_NOSIGNAL | (wait ? 0 : MSG_DONTWAIT)) >= 0)
			return 0;
		if (errno == EINTR)
			continue;
		if (!wait || (errno != ENOMEM && errno != ENOBUFS) || naps == MOST_NAPS)
			return -errno;
		vb_wait(NULL, 0, vb_clock_now() + (VB_MICROSECONDS(10) << naps++));
	}
}

int vb_unix_send_several(int fd, const struct iovec *messages, unsigned count)
{
	struct mmsghdr headers[VB_UNIX_BATCH] = {0};
	int sent;

	assert(count <= VB_UNIX_BATCH);
	for (unsigned i = 0; i < count; i++) {
		headers[i].msg_hdr.msg_iov = (struct iovec *)(uintptr_t)&messages[i];
		headers[i].msg_hdr.msg_iovlen = 1;
	}
	do
		sent = sendmmsg(fd, headers, count, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (sent < 0 && errno == EINTR);
	return sent < 0 ? -errno : sent;
}

union control {
	struct cmsghdr align;
	char room[CMSG_SPACE(VB_UNIX_MAX_FDS * sizeof(int))];
};

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

/* The message's length, -EMSGSIZE or -EMFILE. */
static ssize_t take_descriptors(struct msghdr *message, ssize_t length, int *fds, unsigned most, unsigned *count)
{
	int received[VB_UNIX_MAX_FDS];
	unsigned descriptors = collect_descriptors(message, received);

	*count = 0;
	if (descriptors > most || (message->msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
		for (unsigned i = 0; i < descriptors; i++)
			close(received[i]);
		/* Fewer than there is room for: this process had no descriptor for the rest (unix(7)). */
		return !(message->msg_flags & MSG_TRUNC) && descriptors < VB_UNIX_MAX_FDS && descriptors <= most ? -EMFILE : -EMSGSIZE;
	}
	for (unsigned i = 0; i < descriptors; i++)
		fds[i] = vb_descriptor_lift(received[i]);
	*count = descriptors;
	return length;
}

/* After a call that found nothing: true if it is to be tried again. */
static bool wait_for_more(int fd, vb_time deadline)
{
	struct vb_wait_item item = {.fd = fd};

	if (errno == EINTR)
		return true;
	if (errno != EAGAIN || deadline <= 0)
		return false;
	vb_wait(&item, 1, deadline);
	errno = EAGAIN;
	return item.readable || vb_clock_now() < deadline;
}

/* Who waits for ever sleeps in the call itself. */
static int flags_for(vb_time deadline)
{
	return MSG_CMSG_CLOEXEC | (deadline == VB_TIME_NEVER ? 0 : MSG_DONTWAIT);
}

ssize_t vb_unix_receive(int fd, void *bytes, size_t room, int *fds, unsigned most, unsigned *count, vb_time deadline)
{
	union control control;
	struct iovec span = {bytes, room};
	struct msghdr message;
	ssize_t length;

	*count = 0;
	do {
		message = (struct msghdr){
			.msg_iov = &span,
			.msg_iovlen = 1,
			.msg_control = &control,
			.msg_controllen = sizeof(control),
		};
		length = recvmsg(fd, &message, flags_for(deadline));
	} while (length < 0 && wait_for_more(fd, deadline));
	if (length < 0)
		return errno == ECONNRESET ? 0 : -errno;
	return take_descriptors(&message, length, fds, most, count);
}

int vb_unix_receive_several(int fd, struct vb_unix_message *messages, unsigned most, vb_time deadline)
{
	struct mmsghdr headers[VB_UNIX_BATCH];
	struct iovec spans[VB_UNIX_BATCH];
	union control control[VB_UNIX_BATCH];
	int count;

	assert(most <= VB_UNIX_BATCH);
	do {
		for (unsigned i = 0; i < most; i++) {
			spans[i] = (struct iovec){messages[i].bytes, messages[i].room};
			headers[i].msg_hdr = (struct msghdr){
				.msg_iov = &spans[i],
				.msg_iovlen = 1,
				.msg_control = &control[i],
				.msg_controllen = sizeof(control[i]),
			};
		}
		count = recvmmsg(fd, headers, most, MSG_WAITFORONE | flags_for(deadline), NULL);
	} while (count < 0 && wait_for_more(fd, deadline));
	if (count < 0 && errno == ECONNRESET) {
		messages[0].length = 0;
		messages[0].count = 0;
		return 1;
	}
	for (int i = 0; i < count; i++)
		messages[i].length = take_descriptors(&headers[i].msg_hdr, headers[i].msg_len, messages[i].fds, VB_UNIX_MAX_FDS,
						      &messages[i].count);
	return count < 0 ? -errno : count;
}
