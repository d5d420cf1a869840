/* SPDX-License-Identifier: MIT
 *
 * See udp_error.h.
 */
#include "io/udp_error.h"

#include <time.h> /* before errqueue.h, which needs it */
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "io/uncancelled.h"

void vb_udp_keep_errors(int fd, bool ipv6)
{
	int on = 1;

	/* Without it no queue pair is told, and timers decide. */
	(void)setsockopt(fd, ipv6 ? IPPROTO_IPV6 : IPPROTO_IP, ipv6 ? IPV6_RECVERR : IP_RECVERR, &on, sizeof(on));
}

static void take_destination(uint8_t gid[16], const struct sockaddr_storage *from)
{
	memset(gid, 0, 16);
	if (from->ss_family == AF_INET) {
		gid[10] = gid[11] = 0xff;
		memcpy(gid + 12, &((const struct sockaddr_in *)(const void *)from)->sin_addr, 4);
	} else if (from->ss_family == AF_INET6) {
		memcpy(gid, &((const struct sockaddr_in6 *)(const void *)from)->sin6_addr, 16);
	}
}

static int errno_of(struct msghdr *message)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
		struct sock_extended_err told;

		if (!(c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVERR) &&
		    !(c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_RECVERR))
			continue;
		if (c->cmsg_len < CMSG_LEN(sizeof(told)))
			continue;
		memcpy(&told, CMSG_DATA(c), sizeof(told));
		return (int)told.ee_errno;
	}
	return 0;
}

bool vb_udp_take_error(int fd, struct vb_udp_error *error)
{
	struct sockaddr_storage from = {0};
	union {
		struct cmsghdr header;
		char room[512];
	} control;
	struct iovec span = {.iov_base = error->bytes, .iov_len = sizeof(error->bytes)};
	struct msghdr message = {
		.msg_name = &from,
		.msg_namelen = sizeof(from),
		.msg_iov = &span,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	ssize_t length = vb_call_recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT);

	if (length < 0) {
		int last;

		/* An error that there was no room for is only a number; read, or poll reports it for ever. */
		(void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &last, &(socklen_t){sizeof(last)});
		return false;
	}
	error->length = (size_t)length;
	error->error = errno_of(&message);
	take_destination(error->destination, &from);
	return true;
}
