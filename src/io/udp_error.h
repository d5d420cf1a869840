/* SPDX-License-Identifier: MIT
 *
 * What the network says about datagrams that could not be delivered: ICMP errors, and neighbours that do not answer,
 * from the error queue of an unconnected socket (IP_RECVERR in ip(7)).
 */
#ifndef VB_IO_UDP_ERROR_H
#define VB_IO_UDP_ERROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { VB_UDP_QUOTED = 512 };

struct vb_udp_error {
	int error;                       /* errno: ECONNREFUSED no socket has the port, EHOSTUNREACH, ... */
	uint8_t destination[16];         /* of the datagram, as a GID */
	size_t length;                   /* of what is quoted of it */
	uint8_t bytes[VB_UDP_QUOTED];
};

/* From now on its errors are kept for vb_udp_take_error, and poll reports them. */
void vb_udp_keep_errors(int fd, bool ipv6);
/* The next; false: there is none any more. */
bool vb_udp_take_error(int fd, struct vb_udp_error *error);

#endif
