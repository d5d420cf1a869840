/* SPDX-License-Identifier: MIT
 *
 * rdma_bind_addr and rdma_resolve_addr: from IP addresses to a device, a source and a port. (Addresses of AF_IB: native.c.)
 *
 * The destination's GID is its IP address (RoCEv2): the host's routing table says which source and interface to use, and
 * the device is the one of the interface that carries the source address. The next hop must answer for its address on the
 * link (resolve.c). Mistakes in the arguments come back as -1; what the routing table has against a destination, and a
 * next hop that does not answer, come as RDMA_CM_EVENT_ADDR_ERROR.
 */
#include "rdmacm/bind.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <string.h>

#include "io/cancellation.h"
#include "io/descriptor.h"
#include "io/route.h"
#include "io/tcp.h"
#include "rdmacm/address.h"
#include "rdmacm/channel.h"
#include "rdmacm/device.h"
#include "rdmacm/event.h"
#include "rdmacm/explain.h"
#include "rdmacm/export.h"
#include "rdmacm/link.h"
#include "rdmacm/native.h"
#include "rdmacm/reserve.h"
#include "rdmacm/resolve.h"
#include "rdmacm/result.h"
#include "rdmacm/streams.h"

enum { PORT_ATTEMPTS = 16 };

/* An unspecified destination means this host, as for TCP. */
static void use_loopback(struct vb_cm_address *address)
{
	if (address->family == AF_INET) {
		address->gid[10] = address->gid[11] = 0xff;
		address->gid[12] = 127;
	}
	address->gid[15] = 1;
}

/* The interface that carries `address`; scope says which where several do. */
static int find_interface(const struct vb_cm_address *address, uint32_t preferred, uint32_t *interface_index)
{
	struct vb_rdmacm_device *device;

	if (address->scope != 0)
		preferred = address->scope;
	device = vb_rdmacm_device_with_gid(address->gid, preferred);
	if (device == NULL || (address->scope != 0 && device->interface_index != preferred))
		return vb_route_interface_of(address->gid, preferred, interface_index);
	*interface_index = device->interface_index;
	return 0;
}

static int bind_device(struct vb_rdmacm_id *id, const struct vb_cm_address *address, uint32_t preferred)
{
	uint32_t interface_index;
	int error = find_interface(address, preferred, &interface_index);

	/* Where a program sees InfiniBand alone, the addresses of this host are that adapter's. */
	if (error == 0 && vb_rdmacm_device_is_fabric_alone())
		interface_index = VB_FABRIC_INTERFACE;
	if (error == 0)
		error = vb_rdmacm_device_bind(id, interface_index);
	if (error != 0)
		return error;
	memcpy(id->id.route.addr.addr.ibaddr.sgid.raw, address->gid, 16);
	if (vb_rdmacm_id_is_fabric(id))
		(void)ibv_query_gid(id->id.verbs, 1, 0, &id->id.route.addr.addr.ibaddr.sgid);
	id->id.route.addr.addr.ibaddr.pkey = htons(0xffff); /* the default partition: RoCE has no other here */
	return 0;
}

static bool is_loopback(const struct vb_cm_address *address)
{
	static const uint8_t one[16] = {[15] = 1};

	return address->family == AF_INET ? address->gid[12] == 127 : memcmp(address->gid, one, sizeof(one)) == 0;
}

void vb_rdmacm_bind_need_device(struct vb_rdmacm_id *id)
{
	if (id->device != NULL || vb_rdmacm_id_state(id) != VB_RDMACM_BOUND || !is_loopback(&id->source))
		return;
	if (!vb_cm_address_is_native(&id->source))
		(void)bind_device(id, &id->source, 0);
	else if (vb_rdmacm_device_bind(id, VB_FABRIC_INTERFACE) == 0)
		(void)ibv_query_gid(id->id.verbs, 1, 0, &id->id.route.addr.addr.ibaddr.sgid);
}

/* Reserve the port, with a TCP socket where one may be needed; its port is then the system's to choose. */
static int bind_port(struct vb_rdmacm_id *id, const struct vb_cm_address *source)
{
	int error = 0;

	for (unsigned i = 0; i < PORT_ATTEMPTS; i++) {
		struct vb_cm_address chosen = *source;
		struct vb_tcp_address local;
		int fd;

		error = vb_rdmacm_streams_bind(id, source, &fd);
		if (error != 0)
			return error;
		if (fd >= 0 && vb_tcp_local(fd, &local) == 0)
			chosen.port = local.port;
		error = vb_rdmacm_reserve_port(id, &chosen);
		if (error == 0) {
			id->bound_fd = fd;
			return 0;
		}
		if (fd >= 0)
			vb_descriptor_close(fd);
		if (error != -EADDRINUSE || source->port != 0)
			return error;
	}
	return error;
}

VB_EXPORT int rdma_bind_addr(struct rdma_cm_id *public_id, struct sockaddr *addr)
{
	VB_UNCANCELLED;
	struct vb_rdmacm_id *id = vb_rdmacm_id_of(public_id);
	struct vb_cm_address source;
	bool was_bound;
	int error;

	if (id == NULL)
		return vb_rdmacm_fail(EINVAL);
	was_bound = id->device != NULL;
	error = vb_rdmacm_address_from(&source, addr);
	if (error == 0 && vb_rdmacm_id_state(id) != VB_RDMACM_IDLE)
		error = -EINVAL;
	if (error == 0 && vb_cm_address_is_native(&source))
		return vb_rdmacm_native_bind(id, addr);
	/* The kernel takes loopback addresses for wildcards here (cma_any_addr): id->verbs stays NULL until an address is
	 * resolved or a request comes. libfabric relies on it: it takes the device of a bound id for the only one meant. */
	if (error == 0 && !vb_rdmacm_address_is_wildcard(&source) && !is_loopback(&source))
		error = bind_device(id, &source, 0);
	if (error == 0)
		error = bind_port(id, &source);
	if (error == 0)
		return 0;
	if (!was_bound)
		vb_rdmacm_device_unbind(id);
	return vb_rdmacm_refuse_address("rdma_bind_addr", id, &source, -error, NULL);
}

/* Everything the routing table has to say. On success the id is bound to a device and `source` is complete but for
 * the port. */
static int find_way(struct vb_rdmacm_id *id, struct vb_cm_address *source, const struct vb_cm_address *destination,
		    struct vb_route *route)
{
	bool chosen = !vb_rdmacm_address_is_wildcard(source);
	uint32_t scope = destination->scope != 0 ? destination->scope : source->scope;
	int error = vb_route_lookup(destination->gid, chosen ? source->gid : NULL, scope, route);

	if (error != 0)
		return error;
	if (!chosen) {
		memcpy(source->gid, route->source, 16);
		source->scope = scope;
		if (vb_rdmacm_address_is_wildcard(source))
			return -EADDRNOTAVAIL;
	}
	id->source_by_route = !chosen;
	id->device_by_route = id->device == NULL;
	return id->device != NULL ? 0 : bind_device(id, source, route->interface_index);
}

/* InfiniBand: the subnet administration knows which GID has the address. Without a subnet manager it is the route that
 * cannot be resolved: as with AF_IB. 0 or -errno. */
static int ask_subnet(struct vb_rdmacm_id *id, int timeout_ms)
{
	struct vb_cm_command command = {
		.verb = VB_CM_RESOLVE_ADDRESS,
		.destination = id->destination,
		.timeout_ms = timeout_ms > 0 ? (uint32_t)timeout_ms : 0,
	};
	int error;

	vb_rdmacm_id_become(id, VB_RDMACM_RESOLVING);
	error = vb_rdmacm_link_call(id, &command, NULL);
	if (error == 0)
		return 0;
	vb_rdmacm_id_become(id, error == -ENETUNREACH ? VB_RDMACM_ADDRESS_RESOLVED : VB_RDMACM_BOUND);
	return error == -ENETUNREACH ? vb_rdmacm_channel_tell(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0) : error;
}

/* A host answers for the address, or will be waited for. 0 or -errno. */
static int finish_resolution(struct vb_rdmacm_id *id, const struct vb_route *route, int timeout_ms)
{
	int error;

	/* Of groups there is no GID to be found: joining is what asks. */
	if (vb_rdmacm_id_is_fabric(id) && !vb_gid_is_multicast(id->destination.gid))
		return ask_subnet(id, timeout_ms);
	if (!vb_rdmacm_resolve_begin(id, route, timeout_ms)) {
		vb_rdmacm_id_become(id, VB_RDMACM_ADDRESS_RESOLVED);
		return vb_rdmacm_channel_tell(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	}
	vb_rdmacm_id_become(id, VB_RDMACM_RESOLVING);
	error = vb_rdmacm_link_resolve(id);
	if (error != 0)
		vb_rdmacm_id_become(id, VB_RDMACM_BOUND);
	return error;
}

VB_EXPORT int rdma_resolve_addr(struct rdma_cm_id *public_id, struct sockaddr *src_addr, struct sockaddr *dst_addr, int timeout_ms)
{
	VB_UNCANCELLED;
	struct vb_rdmacm_id *id = vb_rdmacm_id_of(public_id);
	struct vb_cm_address source, destination;
	enum vb_rdmacm_state state;
	struct vb_route route;
	int error;

	if (id == NULL)
		return vb_rdmacm_fail(EINVAL);
	error = vb_rdmacm_address_from(&destination, dst_addr);
	if (error != 0)
		return vb_rdmacm_refuse("rdma_resolve_addr", id, -error, NULL);
	state = vb_rdmacm_id_state(id);
	if (state == VB_RDMACM_BOUND) {
		source = id->source;
	} else if (state != VB_RDMACM_IDLE) {
		return vb_rdmacm_refuse_address("rdma_resolve_addr", id, &destination, EINVAL, NULL);
	} else if (src_addr != NULL) {
		error = vb_rdmacm_address_from(&source, src_addr);
		if (error != 0)
			return vb_rdmacm_refuse("rdma_resolve_addr", id, -error, NULL);
		/* As when it is bound to it: an address that is not ours is refused at once, not by an event. */
		if (!vb_rdmacm_address_is_wildcard(&source) && source.family == destination.family && !vb_cm_address_is_native(&source))
			error = find_interface(&source, 0, &(uint32_t){0});
		if (error != 0)
			return vb_rdmacm_refuse_address("rdma_resolve_addr", id, &source, -error, NULL);
	} else {
		source = (struct vb_cm_address){.family = destination.family};
	}
	if (source.family != destination.family)
		return vb_rdmacm_refuse_address("rdma_resolve_addr", id, &destination, EINVAL,
						"source and destination are addresses of different families.");
	if (vb_cm_address_is_native(&destination))
		return vb_rdmacm_native_resolve(id, src_addr, dst_addr);
	if (vb_rdmacm_address_is_wildcard(&destination))
		use_loopback(&destination);

	/* Explanations of what may go wrong name it. */
	vb_rdmacm_address_to(&id->id.route.addr.dst_storage, &destination);
	error = find_way(id, &source, &destination, &route);
	if (error != 0) {
		/* As the kernel's: the event's id says which address it was. */
		vb_rdmacm_address_to(&id->id.route.addr.dst_storage, &destination);
		error = vb_rdmacm_channel_tell(id, RDMA_CM_EVENT_ADDR_ERROR, error);
		return error != 0 ? vb_rdmacm_result(error) : vb_rdmacm_event_await(id);
	}
	if (state == VB_RDMACM_IDLE) {
		error = source.port != 0 ? bind_port(id, &source) : vb_rdmacm_reserve_port(id, &source);
		if (error != 0) {
			if (id->device_by_route)
				vb_rdmacm_device_unbind(id);
			return vb_rdmacm_refuse_address("rdma_resolve_addr", id, &source, -error, NULL);
		}
	} else {
		id->source = source;
		vb_rdmacm_address_to(&id->id.route.addr.src_storage, &id->source);
		if (!vb_rdmacm_id_is_fabric(id))
			memcpy(id->id.route.addr.addr.ibaddr.sgid.raw, source.gid, 16);
		id->id.route.addr.addr.ibaddr.pkey = htons(0xffff);
	}
	id->destination = destination;
	if (!vb_rdmacm_id_is_fabric(id))
		memcpy(id->id.route.addr.addr.ibaddr.dgid.raw, destination.gid, 16);
	error = finish_resolution(id, &route, timeout_ms);
	return error != 0 ? vb_rdmacm_result(error) : vb_rdmacm_event_await(id);
}
