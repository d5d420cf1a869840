/* SPDX-License-Identifier: MIT
 *
 * A receiver of one flow: connected to the peer's address and port, so that the kernel finds it before it has looked up a route, and
 * without the group's program.
 *
 * It must take nothing of others on the way there. Bound, it is the last of the group, and no program names it. Connecting takes it out of
 * the group, in which the others stay where they are, and gives it the address that the kernel would send to the peer from. A packet for
 * another socket of the group may get lost if the kernel looks for that in this very moment, as when a process ends and its sockets go.
 */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/udp.h"

static int connect_to(int fd, const struct vb_path *flow)
{
	struct sockaddr_in peer = {.sin_family = AF_INET, .sin_port = htons(flow->source_port)}, own;
	socklen_t length = sizeof(own);

	memcpy(&peer.sin_addr, flow->source + 12, 4);
	if (connect(fd, (struct sockaddr *)&peer, sizeof(peer)) != 0 || getsockname(fd, (struct sockaddr *)&own, &length) != 0)
		return -errno;
	return memcmp(&own.sin_addr, flow->destination + 12, 4) == 0 ? 0 : -EADDRNOTAVAIL;
}

int vb_udp_open_dedicated(const struct vb_path *flow, uint16_t port)
{
	int fd = vb_path_is_ipv4(flow) ? vb_udp_open_receiver(false, port) : -EAFNOSUPPORT, error;

	if (fd < 0)
		return fd;
	error = connect_to(fd, flow);
	if (error == 0)
		return fd;
	close(fd);
	return error;
}
