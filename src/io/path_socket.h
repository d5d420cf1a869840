/* SPDX-License-Identifier: MIT
 *
 * Datagram sockets between the two ends of a path, for questions: to a peer (inquiry.h) and to the link (neighbour.h). Packets of RDMA
 * leave by others (udp.h).
 */
#ifndef VB_IO_PATH_SOCKET_H
#define VB_IO_PATH_SOCKET_H

#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>

#include "wire/path.h"

union vb_path_address {
	struct sockaddr any;
	struct sockaddr_in four;
	struct sockaddr_in6 six;
};

/* Returns its length. `scope` is the interface that a link-local address belongs to. */
socklen_t vb_path_address_set(union vb_path_address *out, const uint8_t gid[16], uint16_t port, uint32_t scope);

/* A socket from the path's source, if it has one, to its destination; -1 with errno. */
int vb_path_socket_open(const struct vb_path *path, int protocol, uint16_t port);

#endif
