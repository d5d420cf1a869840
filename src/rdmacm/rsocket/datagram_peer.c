/* SPDX-License-Identifier: MIT
 *
 * Whom a datagram rsocket knows, by address.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rdmacm/rsocket/datagram.h"

/* The address we reach `to` from: the UDP socket's, or if that is any, the one routing chooses. */
static int choose_source(struct vb_rsocket *rs, const union vb_rsocket_address *to, union vb_rsocket_address *source)
{
	socklen_t length = sizeof(*source);
	union vb_rsocket_address bound;
	int fd, error = 0;

	memset(source, 0, sizeof(*source));
	memset(&bound, 0, sizeof(bound));
	if (getsockname(rs->fd, &bound.any, &length) != 0)
		return -errno;
	*source = bound;
	if (bound.any.sa_family == AF_INET ? bound.v4.sin_addr.s_addr != htonl(INADDR_ANY) :
					     !IN6_IS_ADDR_UNSPECIFIED(&bound.v6.sin6_addr))
		return 0;
	fd = vb_rdatagram_open_udp(to->any.sa_family);
	if (fd < 0)
		return -errno;
	length = sizeof(*source);
	if (connect(fd, &to->any, vb_rsocket_address_length(to->any.sa_family)) != 0 ||
	    getsockname(fd, &source->any, &length) != 0)
		error = -errno;
	close(fd);
	/* sin_port and sin6_port lie at the same place. */
	source->v4.sin_port = bound.v4.sin_port;
	return error;
}

static struct vb_list *bucket_of(struct vb_rdatagram *datagram, const union vb_rsocket_address *address)
{
	const uint8_t *bytes = address->any.sa_family == AF_INET ? (const uint8_t *)&address->v4.sin_addr :
				address->v6.sin6_addr.s6_addr;
	size_t length = address->any.sa_family == AF_INET ? 4 : 16;
	unsigned hash = address->v4.sin_port;

	for (size_t i = 0; i < length; i++)
		hash = hash * 31 + bytes[i];
	return &datagram->buckets[(hash ^ hash >> 8) % VB_RDATAGRAM_BUCKETS];
}

static bool addresses_are_equal(const union vb_rsocket_address *a, const union vb_rsocket_address *b)
{
	if (a->any.sa_family != b->any.sa_family)
		return false;
	if (a->any.sa_family == AF_INET)
		return a->v4.sin_port == b->v4.sin_port && a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
	return a->v6.sin6_port == b->v6.sin6_port && IN6_ARE_ADDR_EQUAL(&a->v6.sin6_addr, &b->v6.sin6_addr);
}

static int create_peer(struct vb_rsocket *rs, const union vb_rsocket_address *address, struct vb_rdatagram_peer **peer)
{
	struct vb_rdatagram_endpoint *endpoint;
	union vb_rsocket_address source;
	int error;

	if (rs->datagram->peers >= VB_RDATAGRAM_PEERS_MOST)
		return -ENOBUFS;
	error = choose_source(rs, address, &source);
	if (error == 0)
		error = vb_rdatagram_endpoint_find(rs, &source, &endpoint);
	if (error != 0)
		return error;
	*peer = calloc(1, sizeof(**peer));
	if (*peer == NULL)
		return -ENOMEM;
	(*peer)->address = *address;
	(*peer)->endpoint = endpoint;
	vb_list_append(bucket_of(rs->datagram, address), &(*peer)->node);
	rs->datagram->peers++;
	return 0;
}

int vb_rdatagram_peer_find(struct vb_rsocket *rs, const union vb_rsocket_address *address,
			   struct vb_rdatagram_peer **peer)
{
	VB_LIST_FOR_EACH(node, bucket_of(rs->datagram, address)) {
		*peer = vb_container_of(node, struct vb_rdatagram_peer, node);
		if (addresses_are_equal(&(*peer)->address, address))
			return 0;
	}
	return create_peer(rs, address, peer);
}

void vb_rdatagram_peer_learn(struct vb_rdatagram_peer *peer, uint32_t queue_pair)
{
	peer->queue_pair = queue_pair;
	if (peer->ah == NULL)
		peer->ah = vb_rdatagram_endpoint_reach(peer->endpoint, &peer->address);
}
