/* SPDX-License-Identifier: MIT */
#include "io/datagram.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/descriptor.h"

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

enum { WANTED_BUFFER = 4 * 1024 * 1024, LEAST_MTU = 576 };

int vb_datagram_family(int fd)
{
	union vb_datagram_address own;
	socklen_t length = sizeof(own);

	return getsockname(fd, &own.any, &length) == 0 ? own.any.sa_family : AF_UNSPEC;
}

static int open_family(int family, uint16_t port)
{
	union vb_datagram_address own = {.six = {.sin6_family = (sa_family_t)family, .sin6_port = htons(port)}};
	int fd = vb_descriptor_socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_UDP), off = 0,
		on = 1, buffer = WANTED_BUFFER, error;

	if (fd < 0)
		return -errno;
	if (family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof(buffer)) != 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer));
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof(buffer)) != 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer));
	(void)setsockopt(fd, IPPROTO_UDP, UDP_GRO, &on, sizeof(on));
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

socklen_t vb_datagram_write_address(int family, union vb_datagram_address *to, const uint8_t gid[16], uint16_t port,
				    uint32_t interface_index)
{
	if (is_ipv4(gid) && family == AF_INET) {
		to->four = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
		memcpy(&to->four.sin_addr, gid + 12, 4);
		return sizeof(to->four);
	}
	to->six = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_scope_id = interface_index};
	memcpy(&to->six.sin6_addr, gid, 16);
	return sizeof(to->six);
}

int vb_datagram_connect(int fd, const uint8_t gid[16], uint16_t port, uint32_t interface_index)
{
	union vb_datagram_address to;
	socklen_t length = vb_datagram_write_address(vb_datagram_family(fd), &to, gid, port, interface_index);

	/* Else the local address stays the one that was chosen for the former. A port that the kernel chose changes, too. */
	(void)connect(fd, &(struct sockaddr){.sa_family = AF_UNSPEC}, sizeof(struct sockaddr));
	return connect(fd, &to.any, length) == 0 ? 0 : -errno;
}

unsigned vb_datagram_path_mtu(const uint8_t gid[16], uint16_t port, uint32_t interface_index)
{
	union vb_datagram_address to;
	int family = is_ipv4(gid) ? AF_INET : AF_INET6, fd = vb_descriptor_socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0), mtu = 0;
	socklen_t length = vb_datagram_write_address(family, &to, gid, port, interface_index), size = sizeof(mtu);

	if (fd < 0)
		return LEAST_MTU;
	if (connect(fd, &to.any, length) != 0 || getsockopt(fd, family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6,
							    family == AF_INET ? IP_MTU : IPV6_MTU, &mtu, &size) != 0)
		mtu = LEAST_MTU;
	vb_descriptor_close(fd);
	return mtu < LEAST_MTU ? LEAST_MTU : (unsigned)mtu;
}

static void gid_of(const union vb_datagram_address *address, uint8_t gid[16], uint32_t *interface_index)
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

void vb_datagram_read_address(const union vb_datagram_address *from, uint8_t gid[16], uint16_t *port, uint32_t *interface_index)
{
	gid_of(from, gid, interface_index);
	*port = ntohs(from->any.sa_family == AF_INET ? from->four.sin_port : from->six.sin6_port);
}

int vb_datagram_own_address(int fd, uint8_t gid[16], uint16_t *port)
{
	union vb_datagram_address own;
	socklen_t length = sizeof(own);
	uint32_t interface_index;

	if (getsockname(fd, &own.any, &length) != 0)
		return -errno;
	vb_datagram_read_address(&own, gid, port, &interface_index);
	return 0;
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
	gid_of((const union vb_datagram_address *)(const void *)found->ai_addr, gid, interface_index);
	freeaddrinfo(found);
	return 0;
}
