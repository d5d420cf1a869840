/* SPDX-License-Identifier: MIT
 *
 * Who is where: a peer is known by its UDP address; its queue pair number comes with the first message it sends over UDP, or with its
 * answer to ours. Until then data travels over UDP itself, after a header that tells our own number.
 *
 * UDP is read whenever the program sends, receives or polls, so no thread is needed; a program that does none of these
 * has nothing to learn.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "rdmacm/address.h"
#include "rdmacm/device.h"
#include "rdmacm/id.h"
#include "rdmacm/rsocket/datagram.h"

enum { HOP_LIMIT = 64, HEADER_IPV4 = 16, HEADER_IPV6 = 28 };

/* Which of our addresses the host would send from; with the port of our UDP socket, which is bound if it was not. */
static int local_address(int udp, const struct sockaddr *to, socklen_t to_length, union vb_datagram_address *local)
{
	socklen_t length = sizeof(*local);
	in_port_t port;
	int probe, error = 0;

	memset(local, 0, sizeof(*local));
	if (getsockname(udp, &local->any, &length) != 0)
		return -errno;
	if (local->in.sin_port == 0) {
		local->any.sa_family = to->sa_family;
		if (bind(udp, &local->any, to_length) != 0)
			return -errno;
		length = sizeof(*local);
		if (getsockname(udp, &local->any, &length) != 0)
			return -errno;
	}
	port = local->in.sin_port;
	if (local->any.sa_family == AF_INET ? local->in.sin_addr.s_addr != htonl(INADDR_ANY) :
					      !IN6_IS_ADDR_UNSPECIFIED(&local->in6.sin6_addr))
		return 0;
	probe = socket(to->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (probe < 0)
		return -errno;
	length = sizeof(*local);
	if (connect(probe, to, to_length) != 0 || getsockname(probe, &local->any, &length) != 0)
		error = -errno;
	close(probe);
	local->in.sin_port = port;
	return error;
}

int vb_datagram_peer_get(struct vb_rsocket *rs, const struct sockaddr *address, socklen_t length, struct vb_datagram_peer **result)
{
	struct vb_rsocket_datagram *datagram = rs->datagram;
	union vb_datagram_address wanted = {0}, local;
	struct vb_datagram_peer *peer;
	int error;

	if (length < vb_rdmacm_address_length(address) || vb_rdmacm_address_length(address) == 0)
		return -EINVAL;
	memcpy(&wanted, address, vb_rdmacm_address_length(address));
	VB_LIST_FOR_EACH(node, &datagram->peers) {
		peer = vb_container_of(node, struct vb_datagram_peer, node);
		if (vb_datagram_address_equals(&peer->address, &wanted)) {
			*result = peer;
			return 0;
		}
	}
	error = local_address(rs->fd, &wanted.any, vb_datagram_address_length(&wanted), &local);
	if (error != 0)
		return error;
	peer = calloc(1, sizeof(*peer));
	if (peer == NULL)
		return -ENOMEM;
	peer->address = wanted;
	error = vb_datagram_qp_get(datagram, &local, &peer->qp);
	if (error != 0) {
		free(peer);
		return error;
	}
	vb_list_append(&datagram->peers, &peer->node);
	*result = peer;
	return 0;
}

void vb_datagram_peer_destroy(struct vb_datagram_peer *peer)
{
	vb_list_remove(&peer->node);
	if (peer->ah != NULL)
		ibv_destroy_ah(peer->ah);
	free(peer);
}

ssize_t vb_datagram_peer_tell(struct vb_rsocket *rs, const struct vb_datagram_peer *peer, uint8_t what, const struct iovec *iov,
			      int count)
{
	bool ipv4 = peer->address.any.sa_family == AF_INET;
	struct vb_rsocket_udp_header header = {
		.tag = be32_of(VB_RSOCKET_UDP_TAG),
		.version = ipv4 ? 4 : 6,
		.what = what,
		.length = ipv4 ? HEADER_IPV4 : HEADER_IPV6,
		.qpn = be32_of(peer->qp->id->qp->qp_num),
	};
	struct iovec parts[17] = {{.iov_base = &header, .iov_len = header.length}};
	struct msghdr message = {
		.msg_name = (void *)(uintptr_t)&peer->address,
		.msg_namelen = vb_datagram_address_length(&peer->address),
		.msg_iov = parts,
		.msg_iovlen = (size_t)count + 1,
	};
	ssize_t sent;

	if (count > 16)
		return -EMSGSIZE;
	if (ipv4)
		memcpy(header.address, &peer->address.in.sin_addr, 4);
	else
		memcpy(header.address, &peer->address.in6.sin6_addr, 16);
	if (count != 0)
		memcpy(parts + 1, iov, (size_t)count * sizeof(*iov));
	if (rs->datagram->connected == peer) {
		message.msg_name = NULL;
		message.msg_namelen = 0;
	}
	sent = sendmsg(rs->fd, &message, MSG_NOSIGNAL | (rs->nonblocking ? MSG_DONTWAIT : 0));
	return sent < 0 ? -errno : sent < header.length ? 0 : sent - header.length;
}

/* The peer's queue pair number: new, or changed because it was started anew. */
static void learn(struct vb_datagram_peer *peer, uint32_t qpn)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};
	struct vb_cm_address address;
	int index;

	if (peer->ah != NULL) {
		peer->qpn = qpn;
		return;
	}
	index = vb_rdmacm_device_gid_index(vb_rdmacm_id_of(peer->qp->id)->device, peer->qp->gid);
	if (index < 0 || vb_rdmacm_address_from(&address, &peer->address.any) != 0)
		return;
	memcpy(attr.grh.dgid.raw, address.gid, 16);
	attr.grh.sgid_index = (uint8_t)index;
	attr.grh.hop_limit = HOP_LIMIT;
	peer->ah = ibv_create_ah(peer->qp->id->pd, &attr);
	peer->qpn = qpn;
}

static bool header_is_valid(const struct vb_rsocket_udp_header *header, const union vb_datagram_address *from, size_t length)
{
	if (length < HEADER_IPV4 || be32_get(header->tag) != VB_RSOCKET_UDP_TAG || header->length > length)
		return false;
	return from->any.sa_family == AF_INET ? header->version == 4 && header->length == HEADER_IPV4 :
						header->version == 6 && header->length == HEADER_IPV6;
}

static void handle(struct vb_rsocket *rs, const uint8_t *bytes, size_t length, const union vb_datagram_address *from,
		   socklen_t from_length)
{
	struct vb_rsocket_udp_header header = {0};
	struct vb_datagram_peer *peer;

	memcpy(&header, bytes, length < sizeof(header) ? length : sizeof(header));
	if (!header_is_valid(&header, from, length) || vb_datagram_peer_get(rs, &from->any, from_length, &peer) != 0)
		return;
	learn(peer, be32_get(header.qpn) & 0xffffff);
	if (header.what == VB_RSOCKET_DATA) {
		(void)vb_datagram_peer_tell(rs, peer, VB_RSOCKET_CONTROL, NULL, 0);
		vb_datagram_deliver(rs->datagram, from, bytes + header.length, (uint32_t)(length - header.length));
	}
}

void vb_datagram_peer_listen(struct vb_rsocket *rs)
{
	uint8_t bytes[VB_DATAGRAM_SLOT + HEADER_IPV6];

	while (rs->datagram->unread_count < VB_DATAGRAM_MOST_UNREAD) {
		union vb_datagram_address from;
		socklen_t from_length = sizeof(from);
		ssize_t length;

		memset(&from, 0, sizeof(from));
		length = recvfrom(rs->fd, bytes, sizeof(bytes), MSG_DONTWAIT, &from.any, &from_length);
		if (length < 0)
			return;
		handle(rs, bytes, (size_t)length, &from, from_length);
	}
}
