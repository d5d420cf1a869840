/* SPDX-License-Identifier: MIT
 *
 * Socket addresses, in the three forms that the library meets: a program's, verbenad's, the id's own.
 */
#include "rdmacm/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <string.h>

#include "rdmacm/export.h"

enum { FAMILY_IB = 27 };                 /* AF_IB of the kernel */

socklen_t vb_rdmacm_address_length(const struct sockaddr *address)
{
	if (address == NULL)
		return 0;
	switch (address->sa_family) {
	case AF_INET:
		return sizeof(struct sockaddr_in);
	case AF_INET6:
		return sizeof(struct sockaddr_in6);
	default:
		return 0;
	}
}

int vb_rdmacm_address_from(struct vb_cm_address *address, const struct sockaddr *from)
{
	memset(address, 0, sizeof(*address));
	if (from == NULL)
		return -EINVAL;
	address->family = from->sa_family;
	if (from->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const void *)from;

		address->port = ntohs(in->sin_port);
		if (in->sin_addr.s_addr == htonl(INADDR_ANY))
			return 0;
		address->gid[10] = address->gid[11] = 0xff;
		memcpy(address->gid + 12, &in->sin_addr, 4);
		return 0;
	}
	if (from->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const void *)from;

		address->port = ntohs(in6->sin6_port);
		address->scope = in6->sin6_scope_id;
		memcpy(address->gid, &in6->sin6_addr, 16);
		return 0;
	}
	return from->sa_family == FAMILY_IB ? -EAFNOSUPPORT : -EINVAL;
}

void vb_rdmacm_address_to(struct sockaddr_storage *to, const struct vb_cm_address *address)
{
	memset(to, 0, sizeof(*to));
	if (address->family == AF_INET) {
		struct sockaddr_in *in = (void *)to;

		in->sin_family = AF_INET;
		in->sin_port = htons(address->port);
		memcpy(&in->sin_addr, address->gid + 12, 4);
	} else if (address->family == AF_INET6) {
		struct sockaddr_in6 *in6 = (void *)to;

		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(address->port);
		in6->sin6_scope_id = address->scope;
		memcpy(&in6->sin6_addr, address->gid, 16);
	}
}

bool vb_rdmacm_address_is_wildcard(const struct vb_cm_address *address)
{
	static const uint8_t any[16];

	return memcmp(address->gid, any, sizeof(any)) == 0;
}

static __be16 port_of(const struct sockaddr_storage *address)
{
	if (address->ss_family == AF_INET)
		return ((const struct sockaddr_in *)(const void *)address)->sin_port;
	if (address->ss_family == AF_INET6)
		return ((const struct sockaddr_in6 *)(const void *)address)->sin6_port;
	return 0;
}

VB_EXPORT __be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	return port_of(&id->route.addr.src_storage);
}

VB_EXPORT __be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
	return port_of(&id->route.addr.dst_storage);
}
