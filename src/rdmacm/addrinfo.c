/* SPDX-License-Identifier: MIT
 *
 * rdma_getaddrinfo: the C library's getaddrinfo, with queue pair types for socket types and port spaces for
 * protocols. One result; where the host has several addresses, the resolver's first choice.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <infiniband/ib.h>
#include <netdb.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>

#include "io/cancellation.h"
#include "rdmacm/export.h"
#include "rdmacm/id.h"
#include "rdmacm/result.h"
#include "wire/cm_mad.h"
#include "wire/roce_packet.h"

/* The node is a GID, written as IPv6 addresses are. AF_IB without these flags: names stand for IP addresses, as with rdma-core where no
 * ibacm runs. */
static bool wants_gid(const struct rdma_addrinfo *hints)
{
	return hints->ai_family == AF_IB && (hints->ai_flags & RAI_FAMILY) && (hints->ai_flags & RAI_NUMERICHOST);
}

static void translate_hints(const struct rdma_addrinfo *hints, struct addrinfo *to)
{
	memset(to, 0, sizeof(*to));
	if (hints->ai_flags & RAI_PASSIVE)
		to->ai_flags |= AI_PASSIVE;
	if (hints->ai_flags & RAI_NUMERICHOST)
		to->ai_flags |= AI_NUMERICHOST;
	if (hints->ai_family == AF_INET || hints->ai_family == AF_INET6)
		to->ai_family = hints->ai_family;
	else if (wants_gid(hints))
		to->ai_family = AF_INET6;

	if (hints->ai_qp_type == IBV_QPT_UD)
		to->ai_socktype = SOCK_DGRAM;
	else if (hints->ai_qp_type != 0)
		to->ai_socktype = SOCK_STREAM;

	if (hints->ai_port_space == RDMA_PS_TCP)
		to->ai_protocol = IPPROTO_TCP;
	else if (hints->ai_port_space == RDMA_PS_UDP || hints->ai_port_space == RDMA_PS_IPOIB)
		to->ai_protocol = IPPROTO_UDP;
	else if (hints->ai_port_space == RDMA_PS_IB && to->ai_socktype != 0)
		to->ai_protocol = to->ai_socktype == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP;
}

static int copy_address(struct sockaddr **to, socklen_t *length, const struct sockaddr *from, socklen_t from_length)
{
	*to = malloc(from_length);
	if (*to == NULL)
		return -ENOMEM;
	memcpy(*to, from, from_length);
	*length = from_length;
	return 0;
}

static int make_native(struct sockaddr **to, socklen_t *length, const struct sockaddr *from, int port_space)
{
	const struct sockaddr_in6 *in6 = (const void *)from;
	struct sockaddr_ib sib = {
		.sib_family = AF_IB,
		.sib_pkey = htons(VB_DEFAULT_PKEY),
		.sib_flowinfo = in6->sin6_flowinfo,
		.sib_sid = htobe64(vb_cm_service_id((uint32_t)port_space, ntohs(in6->sin6_port))),
		.sib_sid_mask = htobe64(RDMA_IB_IP_PS_MASK | (in6->sin6_port != 0 ? RDMA_IB_IP_PORT_MASK : 0)),
		.sib_scope_id = in6->sin6_scope_id,
	};

	memcpy(&sib.sib_addr, &in6->sin6_addr, 16);
	return copy_address(to, length, (const struct sockaddr *)(const void *)&sib, sizeof(sib));
}

static int translate_result(const struct addrinfo *found, const struct rdma_addrinfo *hints, struct rdma_addrinfo *result)
{
	bool passive = hints->ai_flags & RAI_PASSIVE;
	char **name = passive ? &result->ai_src_canonname : &result->ai_dst_canonname;

	result->ai_flags = passive ? RAI_PASSIVE : 0;
	result->ai_family = wants_gid(hints) ? AF_IB : found->ai_family;
	result->ai_qp_type = hints->ai_qp_type != 0 ? hints->ai_qp_type :
			     found->ai_socktype == SOCK_DGRAM ? IBV_QPT_UD : IBV_QPT_RC;
	result->ai_port_space = hints->ai_port_space != 0 ? hints->ai_port_space :
				found->ai_protocol == IPPROTO_UDP ? RDMA_PS_UDP : RDMA_PS_TCP;
	if (found->ai_canonname != NULL) {
		*name = strdup(found->ai_canonname);
		if (*name == NULL)
			return -ENOMEM;
	}
	if (wants_gid(hints))
		return passive ? make_native(&result->ai_src_addr, &result->ai_src_len, found->ai_addr, result->ai_port_space) :
				 make_native(&result->ai_dst_addr, &result->ai_dst_len, found->ai_addr, result->ai_port_space);
	return passive ? copy_address(&result->ai_src_addr, &result->ai_src_len, found->ai_addr, found->ai_addrlen) :
			 copy_address(&result->ai_dst_addr, &result->ai_dst_len, found->ai_addr, found->ai_addrlen);
}

/* 0, -errno, or one of the resolver's EAI_ numbers (which are negative too: hence the pointer). */
static int resolve(const char *node, const char *service, const struct rdma_addrinfo *hints, struct rdma_addrinfo *result,
		   int *resolver_error)
{
	struct addrinfo wanted, *found;
	int error;

	translate_hints(hints, &wanted);
	*resolver_error = getaddrinfo(node, service, &wanted, &found);
	if (*resolver_error != 0)
		return 0;
	error = translate_result(found, hints, result);
	freeaddrinfo(found);
	return error;
}

VB_EXPORT int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints, struct rdma_addrinfo **res)
{
	VB_UNCANCELLED;
	static const struct rdma_addrinfo no_hints;
	struct rdma_addrinfo *result;
	int error = 0, resolver_error = 0;

	if (res == NULL || (node == NULL && service == NULL && hints == NULL))
		return vb_rdmacm_fail(EINVAL);
	result = calloc(1, sizeof(*result));
	if (result == NULL)
		return vb_rdmacm_fail(ENOMEM);
	if (hints == NULL)
		hints = &no_hints;
	if (node != NULL || service != NULL) {
		error = resolve(node, service, hints, result, &resolver_error);
	} else {
		result->ai_flags = hints->ai_flags;
		result->ai_family = hints->ai_family;
		result->ai_qp_type = hints->ai_qp_type;
		result->ai_port_space = hints->ai_port_space;
		if (hints->ai_dst_len != 0)
			error = copy_address(&result->ai_dst_addr, &result->ai_dst_len, hints->ai_dst_addr, hints->ai_dst_len);
	}
	if (error == 0 && resolver_error == 0 && result->ai_src_len == 0 && hints->ai_src_len != 0)
		error = copy_address(&result->ai_src_addr, &result->ai_src_len, hints->ai_src_addr, hints->ai_src_len);
	if (error != 0 || resolver_error != 0) {
		rdma_freeaddrinfo(result);
		return resolver_error != 0 ? resolver_error : vb_rdmacm_result(error);
	}
	*res = result;
	return 0;
}

VB_EXPORT void rdma_freeaddrinfo(struct rdma_addrinfo *res)
{
	VB_UNCANCELLED;
	while (res != NULL) {
		struct rdma_addrinfo *next = res->ai_next;

		free(res->ai_connect);
		free(res->ai_route);
		free(res->ai_src_canonname);
		free(res->ai_dst_canonname);
		free(res->ai_src_addr);
		free(res->ai_dst_addr);
		free(res);
		res = next;
	}
}
