/* SPDX-License-Identifier: MIT
 *
 * The UDP socket of a datagram rsocket, and what is made when the rsocket is first used.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "rdmacm/rsocket/datagram.h"
#include "rdmacm/rsocket/service.h"

/* Not socket(3): under librspreload that name makes rsockets. Nor lifted: it is a number for the program. */
int vb_rdatagram_open_udp(int domain)
{
	return (int)syscall(SYS_socket, domain, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP);
}

static int allocate_send_slots(struct vb_rsocket *rs)
{
	struct vb_rdatagram *datagram = rs->datagram;

	datagram->receive_slots = rs->sizes.receive_buffer / VB_RDATAGRAM_SLOT;
	if (datagram->receive_slots > rs->sizes.receive_queue)
		datagram->receive_slots = rs->sizes.receive_queue;
	datagram->send_slots = rs->sizes.send_buffer / VB_RDATAGRAM_SLOT;
	if (datagram->send_slots > rs->sizes.send_queue)
		datagram->send_slots = rs->sizes.send_queue;
	if (posix_memalign((void **)&datagram->send_bytes, 4096,
			   (size_t)datagram->send_slots * VB_RDATAGRAM_SLOT) != 0) {
		datagram->send_bytes = NULL;
		return -ENOMEM;
	}
	datagram->free_slots = calloc(datagram->send_slots, sizeof(*datagram->free_slots));
	if (datagram->free_slots == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < datagram->send_slots; i++)
		datagram->free_slots[datagram->send_free++] = i;
	return 0;
}

/* The port in our headers is the UDP socket's, so it must have one. */
static int bind_udp_socket(struct vb_rsocket *rs)
{
	union vb_rsocket_address local;
	socklen_t length = sizeof(local);

	if (getsockname(rs->fd, &local.any, &length) != 0)
		return -errno;
	if ((local.any.sa_family == AF_INET ? local.v4.sin_port : local.v6.sin6_port) != 0)
		return 0;
	memset(&local, 0, sizeof(local));
	local.any.sa_family = (sa_family_t)rs->domain;
	return bind(rs->fd, &local.any, vb_rsocket_address_length(rs->domain)) == 0 ? 0 : -errno;
}

int vb_rdatagram_start(struct vb_rsocket *rs)
{
	int error = 0;

	if (rs->datagram->started)
		return 0;
	if (rs->datagram->send_bytes == NULL)
		error = allocate_send_slots(rs);
	if (error == 0)
		error = bind_udp_socket(rs);
	if (error == 0)
		error = vb_rsocket_service_add(rs);
	rs->datagram->started = error == 0;
	return error;
}
