/* SPDX-License-Identifier: MIT
 *
 * Plain UDP sockets, for the cables of the software InfiniBand (wire/cable.h): of both IP versions at once where the
 * host has both. Addresses are GIDs, IPv4 mapped. io/datagram_batch.h sends and receives by them.
 */
#ifndef VB_IO_DATAGRAM_H
#define VB_IO_DATAGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/types.h>

union vb_datagram_address {
	struct sockaddr any;
	struct sockaddr_in four;
	struct sockaddr_in6 six;
};

/* Bound to `port`, 0: any. Non-blocking; several datagrams may be received as one (UDP_GRO). Descriptor or -errno. */
int vb_datagram_open(uint16_t port);
/* From now on it sends to that address, and receives from there alone; its own address and, unless it was opened with one, its port may
 * be others than before. 0 or -errno: then it sends nowhere. */
int vb_datagram_connect(int fd, const uint8_t gid[16], uint16_t port, uint32_t interface_index);
/* What it sends from, once it is connected. 0 or -errno. */
int vb_datagram_own_address(int fd, uint8_t gid[16], uint16_t *port);
/* How long an IP datagram on the way there may be. */
unsigned vb_datagram_path_mtu(const uint8_t gid[16], uint16_t port, uint32_t interface_index);
/* AF_INET6, or AF_INET where the host has that alone. */
int vb_datagram_family(int fd);
/* Addresses of the kernel's as GIDs and back: the length of *to. */
socklen_t vb_datagram_write_address(int family, union vb_datagram_address *to, const uint8_t gid[16], uint16_t port,
				    uint32_t interface_index);
void vb_datagram_read_address(const union vb_datagram_address *from, uint8_t gid[16], uint16_t *port, uint32_t *interface_index);
/* A host's name or address as a GID, and a port behind it if there is one ("host:port", "[address]:port"). 0 or
 * -errno: -ENOENT no such host,
 * -EINVAL not a port. */
int vb_datagram_resolve(const char *text, uint8_t gid[16], uint16_t *port, uint32_t *interface_index);

#endif
