/* SPDX-License-Identifier: MIT */
#include "io/datagram.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/descriptor.h"

enum { WANTED_BUFFER = 4 * 1024 * 1024 };

union address {
	struct sockaddr any;
	struct sockaddr_in four;
	struct sockaddr_in6 six;
};

static int family_of(int fd)
{
	union address own;
	socklen_t length = sizeof(own);

	return getsockname(fd, &own.any, &length) == 0 ? own.any.sa_family : AF_UNSPEC;
}

static int open_family(int family, uint16_t port)
{
	union address own = {.six = {.sin6_family = (sa_family_t)family, .sin6_port = htons(port)}};
	int fd = vb_descriptor_socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_UDP), off = 0,
		buffer = WANTED_BUFFER, error;

	if (fd < 0)
		return -errno;
	if (family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof(buffer)) != 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer));
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof(buffer)) != 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer));
	if (bind(fd, &own.any, family == AF_INET6 ? sizeof(own.six) : sizeof(own.four)) != 0) {
		error = -errno;
		close(fd);
		return error;
	}
	return fd;
}

int vb_datagram_open(uint16_t port)
{
	int fd = open_family(AF_INET6, port);

	return fd == -EADDRINUSE || fd >= 0 ? fd : open_family(AF_INET, port);
}

static bool is_ipv4(const uint8_t gid[16])
{
	static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};

	return memcmp(gid, prefix, sizeof(prefix)) == 0;
}

int vb_datagram_send(int fd, const uint8_t gid[16], uint16_t port, uint32_t interface_index, const void *head, size_t head_length,
		     const void *body, size_t body_length)
{
	union address to = {.six = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_scope_id = interface_index}};
	struct iovec parts[2] = {{.iov_base = (void *)(uintptr_t)head, .iov_len = head_length},
				 {.iov_base = (void *)(uintptr_t)body, .iov_len = body_length}};
	struct msghdr message = {.msg_name = &to, .msg_namelen = sizeof(to.six), .msg_iov = parts, .msg_iovlen = body_length ? 2 : 1};

	memcpy(&to.six.sin6_addr, gid, 16);
	if (is_ipv4(gid) && family_of(fd) == AF_INET) {
		to.four = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
		memcpy(&to.four.sin_addr, gid + 12, 4);
		message.msg_namelen = sizeof(to.four);
	}
	return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 ? 0 : -errno;
}

static void gid_of(const union address *address, uint8_t gid[16], uint32_t *interface_index)
{
	*interface_index = 0;
	if (address->any.sa_family == AF_INET) {
		memset(gid, 0, 10);
		gid[10] = gid[11] = 0xff;
		memcpy(gid + 12, &address->four.sin_addr, 4);
		return;
	}
	memcpy(gid, &address->six.sin6_addr, 16);
	if (IN6_IS_ADDR_LINKLOCAL(&address->six.sin6_addr))
		*interface_index = address->six.sin6_scope_id;
}

ssize_t vb_datagram_receive(int fd, void *bytes, size_t room, uint8_t gid[16], uint16_t *port, uint32_t *interface_index)
{
	union address from = {.any.sa_family = AF_UNSPEC};
	socklen_t from_length = sizeof(from);
	ssize_t length = recvfrom(fd, bytes, room, MSG_DONTWAIT, &from.any, &from_length);

	if (length < 0)
		return -errno;
	gid_of(&from, gid, interface_index);
	*port = ntohs(from.any.sa_family == AF_INET ? from.four.sin_port : from.six.sin6_port);
	return length;
}

/* Where the port begins in "host:port" or "[address]:port"; NULL: there is none. */
static const char *find_port(const char *text)
{
	const char *colon = strrchr(text, ':');

	if (!colon || (text[0] == '[' ? colon[-1] != ']' : strchr(text, ':') != colon))
		return NULL;
	return colon + 1;
}

int vb_datagram_resolve(const char *text, uint8_t gid[16], uint16_t *port, uint32_t *interface_index)
{
	const char *service = find_port(text);
	struct addrinfo hints = {.ai_socktype = SOCK_DGRAM, .ai_family = AF_UNSPEC}, *found;
	char host[256];
	size_t length = service ? (size_t)(service - 1 - text) : strlen(text);

	if (service) {
		char *end;
		unsigned long value = strtoul(service, &end, 10);

		if (*service < '0' || *service > '9' || *end || value == 0 || value > 0xffff)
			return -EINVAL;
		*port = (uint16_t)value;
	}
	if (length >= 2 && text[0] == '[' && text[length - 1] == ']') {
		text++;
		length -= 2;
	}
	if (length == 0 || length >= sizeof(host))
		return -ENOENT;
	memcpy(host, text, length);
	host[length] = '\0';
	if (getaddrinfo(host, NULL, &hints, &found) != 0)
		return -ENOENT;
	gid_of((const union address *)(const void *)found->ai_addr, gid, interface_index);
	freeaddrinfo(found);
	return 0;
}
