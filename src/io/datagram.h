/* SPDX-License-Identifier: MIT
 *
 * Plain UDP sockets, for the cables of the software InfiniBand (wire/cable.h): of both IP versions at once where the
 * host has both. Addresses are GIDs, IPv4 mapped.
 */
#ifndef VB_IO_DATAGRAM_H
#define VB_IO_DATAGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Bound to `port`, 0: any. Non-blocking. Descriptor or -errno. */
int vb_datagram_open(uint16_t port);
/* One datagram of two parts. 0 or -errno. */
int vb_datagram_send(int fd, const uint8_t gid[16], uint16_t port, uint32_t interface_index, const void *head, size_t head_length,
		     const void *body, size_t body_length);
/* Length or -errno: -EAGAIN nothing is there. One that is longer than `room` is cut. */
ssize_t vb_datagram_receive(int fd, void *bytes, size_t room, uint8_t gid[16], uint16_t *port, uint32_t *interface_index);
/* A host's name or address as a GID, and a port behind it if there is one ("host:port", "[address]:port"). 0 or
 * -errno: -ENOENT no such host,
 * -EINVAL not a port. */
int vb_datagram_resolve(const char *text, uint8_t gid[16], uint16_t *port, uint32_t *interface_index);

#endif
