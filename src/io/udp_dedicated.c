/* SPDX-License-Identifier: MIT
 *
 * A receiver of one flow: connected to the peer's address and port, so that the kernel finds it before it has looked up a route, and
 * without the group's program.
 *
 * It must take nothing of others on the way there, nor may their packets get lost. Of a member of the group they may, when it leaves that
 * by connecting: a packet that the kernel is finding a socket for in this moment goes to the one that leaves, or to another's, if it has
 * seen the socket before and asks for its group afterwards, or goes on from it in the list into which that has moved. So it is none. It is
 * a socket of both IP versions, which the kernel joins with none of one version. For packets of IPv4 it prefers sockets of IPv4
 * (net/ipv4/udp.c: compute_score); for packets of IPv6 it takes the first of those that suit equally, and this one is the last in their
 * list, where it puts every socket of AF_INET6 that shares its port (udp_lib_get_port). Members of the port's groups are
 * there while verbenad is, so this one is never looked at before it is connected.
 *
 * Connecting gives it the address that the kernel would send to the peer from.
 */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/udp.h"

enum { DISCARD = 9 };

/* 0 or -errno. */
static int read_own(int fd, struct sockaddr_in6 *own)
{
	socklen_t length = sizeof(*own);

	return getsockname(fd, (struct sockaddr *)own, &length) == 0 ? 0 : -errno;
}

static int connect_to(int fd, const struct vb_path *flow)
{
	struct sockaddr_in6 peer = {.sin6_family = AF_INET6, .sin6_port = htons(flow->source_port)}, own;
	int error = vb_udp_ask_for_headers(fd, !vb_path_is_ipv4(flow));

	memcpy(&peer.sin6_addr, flow->source, sizeof(peer.sin6_addr));
	if (error == 0 && connect(fd, (struct sockaddr *)&peer, sizeof(peer)) != 0)
		error = -errno;
	if (error == 0)
		error = read_own(fd, &own);
	if (error == 0 && memcmp(&own.sin6_addr, flow->destination, sizeof(own.sin6_addr)) != 0)
		error = -EADDRNOTAVAIL;
	return error;
}

int vb_udp_open_dedicated(const struct vb_path *flow, uint16_t port)
{
	int fd = vb_udp_open_beside(port), error;

	if (fd < 0)
		return fd;
	error = connect_to(fd, flow);
	if (error == 0)
		return fd;
	close(fd);
	return error;
}

/* Disconnected it would be one of the port again, in no group, and would take what is another's. From a port below 1024 of this very host
 * nothing comes. */
int vb_udp_leave_flow(int fd)
{
	struct sockaddr_in6 own;
	int error = read_own(fd, &own);

	if (error != 0)
		return error;
	own.sin6_port = htons(DISCARD);
	return connect(fd, (struct sockaddr *)&own, sizeof(own)) == 0 ? 0 : -errno;
}
