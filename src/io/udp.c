/* SPDX-License-Identifier: MIT
 *
 * Making sockets: udp(7), ip(7), ipv6(7), socket(7).
 */
#include "io/udp.h"

#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "io/descriptor.h"

#ifndef SO_ATTACH_REUSEPORT_CBPF
#define SO_ATTACH_REUSEPORT_CBPF 51
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif
#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif

enum { WANTED_BUFFER = 8 * 1024 * 1024 };

/* An option whose absence costs speed or comfort, not correctness. */
static void try_option(int fd, int level, int name, int value)
{
	(void)setsockopt(fd, level, name, &value, sizeof(value));
}

static int set_option(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) == 0 ? 0 : -errno;
}

/* Privileged processes may exceed net.core.rmem_max; the rest get what it grants. */
static void enlarge_buffer(int fd, int forced, int plain)
{
	if (set_option(fd, SOL_SOCKET, forced, WANTED_BUFFER) != 0)
		try_option(fd, SOL_SOCKET, plain, WANTED_BUFFER);
}

/* `gid`: to that address alone, unless it is NULL. */
static int bind_to(int fd, bool ipv6, const uint8_t *gid, uint16_t port)
{
	struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(port)};

	if (gid) {
		memcpy(&six.sin6_addr, gid, 16);
		memcpy(&four.sin_addr, gid + 12, 4);
	}
	if (ipv6)
		return bind(fd, (struct sockaddr *)&six, sizeof(six)) == 0 ? 0 : -errno;
	return bind(fd, (struct sockaddr *)&four, sizeof(four)) == 0 ? 0 : -errno;
}

/* Of IPv4, of IPv6, or of both. */
enum versions { FOUR, SIX, BOTH };

static int open_versions(enum versions versions, int flags)
{
	int fd = vb_descriptor_socket(versions == FOUR ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | flags, IPPROTO_UDP), error;

	if (fd < 0)
		return -errno;
	/* Otherwise an IPv6 socket would take the port from the IPv4 ones. */
	if (versions != FOUR && (error = set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, versions == SIX)) != 0) {
		close(fd);
		return error;
	}
	return fd;
}

static int open_socket(bool ipv6, int flags)
{
	return open_versions(ipv6 ? SIX : FOUR, flags);
}

int vb_udp_ask_for_headers(int fd, bool ipv6)
{
	int error;

	if (ipv6) {
		if ((error = set_option(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1)) != 0 ||
		    (error = set_option(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1)) != 0)
			return error;
		return set_option(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1);
	}
	if ((error = set_option(fd, IPPROTO_IP, IP_PKTINFO, 1)) != 0 ||
	    (error = set_option(fd, IPPROTO_IP, IP_RECVTOS, 1)) != 0)
		return error;
	return set_option(fd, IPPROTO_IP, IP_RECVTTL, 1);
}

/* Everything but where it is bound to and, of both versions, what packets tell. Descriptor or -errno. */
static int make_receiver(enum versions versions)
{
	int fd = open_versions(versions, SOCK_NONBLOCK), error;

	if (fd < 0)
		return fd;
	enlarge_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF);
	/* Without offload datagrams just come one by one. */
	try_option(fd, IPPROTO_UDP, UDP_GRO, 1);
	/* The kernel's rxe sends no UDP checksum, over IPv6 either (RFC 6936 allows it to a tunnel): the ICRC covers
	 * the same bytes. */
	if (versions != FOUR)
		try_option(fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, 1);
	/* Only groups this very socket has joined, not every group of the host. */
	if (versions != FOUR)
		try_option(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
	if (versions != SIX)
		try_option(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);
	error = versions == BOTH ? 0 : vb_udp_ask_for_headers(fd, versions == SIX);
	if (error != 0 || (error = set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1)) != 0) {
		close(fd);
		return error;
	}
	return fd;
}

static int open_bound(enum versions versions, uint16_t port)
{
	int fd = make_receiver(versions), error = fd < 0 ? fd : bind_to(fd, versions != FOUR, NULL, port);

	if (fd >= 0 && error != 0)
		close(fd);
	return error != 0 ? error : fd;
}

int vb_udp_open_receiver(bool ipv6, uint16_t port)
{
	return open_bound(ipv6 ? SIX : FOUR, port);
}

int vb_udp_open_beside(uint16_t port)
{
	return open_bound(BOTH, port);
}

uint32_t vb_udp_receive_buffer(int fd)
{
	socklen_t length = sizeof(int);
	int bytes = 0;

	if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, &length) != 0 || bytes < 0)
		return 0;
	return (uint32_t)bytes;
}

bool vb_udp_port_is_unused(bool ipv6, uint16_t port)
{
	int fd = open_socket(ipv6, 0);
	bool unused;

	if (fd < 0)
		return false;
	/* Without SO_REUSEPORT: it is refused if another socket is there. */
	unused = bind_to(fd, ipv6, NULL, port) == 0;
	close(fd);
	return unused;
}

/* Not bound yet. */
static int make_sender(bool ipv6)
{
	int fd = open_socket(ipv6, 0), error;
	struct timeval patience = {0, 100000};

	if (fd < 0)
		return fd;
	enlarge_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF);
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	/* Don't Fragment makes the kernel send identification 0, which the ICRC needs. */
	if (ipv6)
		error = set_option(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
	else
		error = set_option(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
	if (error != 0) {
		close(fd);
		return error;
	}
	return fd;
}

static int bind_sender(int fd, bool ipv6, const uint8_t *gid, uint16_t port)
{
	int error = bind_to(fd, ipv6, gid, port);

	if (error == 0)
		return fd;
	close(fd);
	return error;
}

int vb_udp_open_sender(bool ipv6, uint16_t port)
{
	int fd = make_sender(ipv6);

	return fd < 0 ? fd : bind_sender(fd, ipv6, NULL, port);
}

static bool is_link_local(const uint8_t gid[16])
{
	return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

int vb_udp_open_sender_of(struct vb_path *own)
{
	bool ipv6 = !vb_path_is_ipv4(own);
	int fd = make_sender(ipv6), error;

	if (fd < 0)
		return fd;
	if (set_option(fd, ipv6 ? IPPROTO_IPV6 : IPPROTO_IP, ipv6 ? IPV6_TCLASS : IP_TOS, own->traffic_class) != 0)
		own->traffic_class = 0;
	if (own->hop_limit == 0 ||
	    set_option(fd, ipv6 ? IPPROTO_IPV6 : IPPROTO_IP, ipv6 ? IPV6_UNICAST_HOPS : IP_TTL, own->hop_limit) != 0)
		own->hop_limit = 0;
	/* A link-local address needs an interface to be bound to, and others may use the socket on another. */
	error = is_link_local(own->source) ? -EADDRNOTAVAIL : bind_to(fd, ipv6, own->source, own->source_port);
	if (error == 0)
		return fd;
	if (error == -EADDRINUSE) {
		close(fd);
		return error;
	}
	memset(own->source, 0, sizeof(own->source));
	return bind_sender(fd, ipv6, NULL, own->source_port);
}

bool vb_udp_is_receiver(int fd, bool ipv6, uint16_t port)
{
	struct sockaddr_storage address;
	socklen_t length = sizeof(address);
	int protocol = 0, shared = 0;
	socklen_t protocol_length = sizeof(protocol), shared_length = sizeof(shared);

	if (getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &protocol_length) != 0 || protocol != IPPROTO_UDP ||
	    getsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &shared, &shared_length) != 0 || shared == 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &length) != 0)
		return false;
	if (ipv6) {
		const struct sockaddr_in6 *six = (const void *)&address;

		return six->sin6_family == AF_INET6 && six->sin6_port == htons(port) &&
		       IN6_IS_ADDR_UNSPECIFIED(&six->sin6_addr);
	} else {
		const struct sockaddr_in *four = (const void *)&address;

		return four->sin_family == AF_INET && four->sin_port == htons(port) &&
		       four->sin_addr.s_addr == htonl(INADDR_ANY);
	}
}

uint64_t vb_udp_cookie(int fd)
{
	uint64_t cookie = 0;
	socklen_t length = sizeof(cookie);

	return getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &length) == 0 ? cookie : 0;
}

/* The mark is a socket filter that takes every packet, its first instruction a load of the number; locked, it stays
 * (socket(7): SO_LOCK_FILTER), and the kernel refuses to attach any program through this socket. */
enum { MARK = 0x56420000, MARK_INSTRUCTIONS = 2 };

int vb_udp_mark(int fd, uint16_t number)
{
	struct sock_filter filter[MARK_INSTRUCTIONS] = {
		{.code = BPF_LD | BPF_IMM, .k = MARK | number},
		{.code = BPF_RET | BPF_K, .k = UINT32_MAX},
	};
	struct sock_fprog program = {.len = MARK_INSTRUCTIONS, .filter = filter};

	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) != 0)
		return -errno;
	return set_option(fd, SOL_SOCKET, SO_LOCK_FILTER, 1);
}

int vb_udp_read_mark(int fd, uint16_t *number)
{
	struct sock_filter filter[MARK_INSTRUCTIONS];
	int locked = 0;
	socklen_t instructions = MARK_INSTRUCTIONS, length = sizeof(locked);

	/* This option counts in instructions, not in bytes. */
	if (getsockopt(fd, SOL_SOCKET, SO_LOCK_FILTER, &locked, &length) != 0 || !locked ||
	    getsockopt(fd, SOL_SOCKET, SO_GET_FILTER, filter, &instructions) != 0 ||
	    instructions != MARK_INSTRUCTIONS || filter[0].code != (BPF_LD | BPF_IMM) || (filter[0].k & 0xffff0000u) != MARK ||
	    filter[1].code != (BPF_RET | BPF_K) || filter[1].k != UINT32_MAX)
		return -ENOENT;
	*number = (uint16_t)filter[0].k;
	return 0;
}

int vb_udp_attach_program(int fd, const struct sock_filter *program, unsigned length)
{
	struct sock_fprog attached = {
		.len = (unsigned short)length,
		.filter = (struct sock_filter *)(uintptr_t)program,
	};

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &attached, sizeof(attached)) == 0 ? 0 : -errno;
}

static socklen_t loopback_address(struct sockaddr_storage *storage, bool ipv6, uint16_t port)
{
	memset(storage, 0, sizeof(*storage));
	if (ipv6) {
		struct sockaddr_in6 *six = (void *)storage;

		*six = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(port),
					     .sin6_addr = IN6ADDR_LOOPBACK_INIT};
		return sizeof(*six);
	} else {
		struct sockaddr_in *four = (void *)storage;

		*four = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port),
					     .sin_addr = {htonl(INADDR_LOOPBACK)}};
		return sizeof(*four);
	}
}

int vb_udp_leave_group(int fd, bool ipv6)
{
	struct sockaddr_storage address;
	socklen_t length = loopback_address(&address, ipv6, 9);

	/* Connecting gives the socket a local address; it is hashed anew, and leaves the group of the wildcard ones. */
	return connect(fd, (struct sockaddr *)&address, length) == 0 ? 0 : -errno;
}

bool vb_udp_has_left_group(int fd)
{
	struct sockaddr_storage address;
	socklen_t length = sizeof(address);

	if (getsockname(fd, (struct sockaddr *)&address, &length) != 0)
		return false;
	return address.ss_family == AF_INET6 ? !IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)(const void *)&address)->sin6_addr) :
	       address.ss_family == AF_INET && ((const struct sockaddr_in *)(const void *)&address)->sin_addr.s_addr != htonl(INADDR_ANY);
}

int vb_udp_send_loopback(int fd, bool ipv6, uint16_t port, const void *bytes, size_t length)
{
	struct sockaddr_storage address;
	socklen_t address_length = loopback_address(&address, ipv6, port);

	return sendto(fd, bytes, length, MSG_DONTWAIT, (struct sockaddr *)&address, address_length) < 0 ? -errno : 0;
}

int vb_udp_join(int fd, const uint8_t gid[16], uint32_t interface_index, bool join)
{
	if (vb_gid_is_ipv4(gid)) {
		struct ip_mreqn request = {.imr_ifindex = (int)interface_index};

		memcpy(&request.imr_multiaddr, gid + 12, 4);
		return setsockopt(fd, IPPROTO_IP, join ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP, &request,
				  sizeof(request)) == 0 ? 0 : -errno;
	} else {
		struct ipv6_mreq request = {.ipv6mr_interface = interface_index};

		memcpy(&request.ipv6mr_multiaddr, gid, 16);
		return setsockopt(fd, IPPROTO_IPV6, join ? IPV6_ADD_MEMBERSHIP : IPV6_DROP_MEMBERSHIP, &request,
				  sizeof(request)) == 0 ? 0 : -errno;
	}
}

int vb_udp_open_group(const uint8_t gid[16], uint32_t interface_index)
{
	bool ipv6 = !vb_gid_is_ipv4(gid);
	struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(VB_ROCE_PORT), .sin6_scope_id = interface_index};
	int fd = make_receiver(ipv6 ? SIX : FOUR), error;

	if (fd < 0)
		return fd;
	memcpy(&six.sin6_addr, gid, 16);
	/* The kernel looks at the scope only where the address has one. */
	if (!ipv6)
		error = bind_to(fd, false, gid, VB_ROCE_PORT);
	else
		error = bind(fd, (struct sockaddr *)&six, sizeof(six)) == 0 ? 0 : -errno;
	if (error == 0)
		error = vb_udp_join(fd, gid, interface_index, true);
	if (error != 0) {
		close(fd);
		return error;
	}
	return fd;
}

uint16_t vb_udp_port(int fd)
{
	union {
		struct sockaddr any;
		struct sockaddr_in four;
		struct sockaddr_in6 six;
	} address;
	socklen_t length = sizeof(address);

	if (getsockname(fd, &address.any, &length) != 0)
		return 0;
	return ntohs(address.any.sa_family == AF_INET6 ? address.six.sin6_port : address.four.sin_port);
}

int vb_udp_open_companion(const uint8_t gid[16], uint32_t interface_index)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(VB_ROCE_PORT)};
	struct sock_filter nothing[] = {{.code = BPF_RET | BPF_K, .k = 0}};
	struct sock_fprog program = {.len = 1, .filter = nothing};
	int fd = open_socket(false, SOCK_NONBLOCK), error;

	if (fd < 0)
		return fd;
	memcpy(&address.sin_addr, gid + 12, 4);
	try_option(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);
	/* Bound to the group's address it is not one of the wildcard sockets, and has no place among them. */
	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) != 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &(int){1}, sizeof(int)) != 0 ||
	    bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
		error = -errno;
	else
		error = vb_udp_join(fd, gid, interface_index, true);
	if (error != 0) {
		close(fd);
		return error;
	}
	return fd;
}
