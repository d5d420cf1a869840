/* SPDX-License-Identifier: MIT
 *
 * Socket addresses, in the three forms that the library meets: a program's, verbenad's, the id's own.
 */
#include "rdmacm/address.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <infiniband/ib.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <string.h>

#include "rdmacm/export.h"
#include "wire/roce_packet.h"

_Static_assert(VB_CM_AF_IB == AF_IB, "the kernel's number");

socklen_t vb_rdmacm_address_length(const struct sockaddr *address)
{
	if (address == NULL)
		return 0;
	switch (address->sa_family) {
	case AF_INET:
		return sizeof(struct sockaddr_in);
	case AF_INET6:
		return sizeof(struct sockaddr_in6);
	case AF_IB:
		return sizeof(struct sockaddr_ib);
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
	if (from->sa_family == AF_IB) {
		const struct sockaddr_ib *sib = (const void *)from;

		address->service_id = be64toh(sib->sib_sid);
		address->port = (uint16_t)address->service_id;
		address->scope = (uint32_t)sib->sib_scope_id;
		address->flow_info = sib->sib_flowinfo;
		/* Programs that do not care leave it out. */
		address->pkey = sib->sib_pkey != 0 ? ntohs(sib->sib_pkey) : VB_DEFAULT_PKEY;
		memcpy(address->gid, &sib->sib_addr, 16);
		return 0;
	}
	return -EINVAL;
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
	} else if (address->family == AF_IB) {
		struct sockaddr_ib *sib = (void *)to;

		sib->sib_family = AF_IB;
		sib->sib_pkey = htons(address->pkey);
		sib->sib_flowinfo = address->flow_info;
		memcpy(&sib->sib_addr, address->gid, 16);
		sib->sib_sid = htobe64(address->service_id);
		sib->sib_sid_mask = address->service_id != 0 ? UINT64_MAX : 0;
		sib->sib_scope_id = address->scope;
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
	if (address->ss_family == AF_IB)
		return htons((uint16_t)be64toh(((const struct sockaddr_ib *)(const void *)address)->sib_sid));
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
