/* SPDX-License-Identifier: MIT
 *
 * Devices of Ethernet have no such addresses: there a GID names no device (ENODEV), and an id may be bound to none in particular.
 */
#include "rdmacm/native.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <infiniband/ib.h>
#include <rdma/rdma_cma.h>
#include <string.h>

#include "rdmacm/address.h"
#include "rdmacm/channel.h"
#include "rdmacm/device.h"
#include "rdmacm/event.h"
#include "rdmacm/explain.h"
#include "rdmacm/path.h"
#include "rdmacm/reserve.h"
#include "rdmacm/result.h"
#include "wire/device_kind.h"

enum { PREFIX = 8 };                     /* bytes of a GID that name its subnet */

static const char no_device[] = "addresses of AF_IB are GIDs of InfiniBand devices, and none here has it. Join a fabric: verbena fabric "
				"join.";
static const char no_subnet[] = "this host's InfiniBand port is in another subnet or not active: without a subnet manager no port is. "
				"Start one: verbena run opensm -B -f opensm.log";
static const char no_partition[] = "the port is in no such partition (sib_pkey); the subnet manager says in which it is.";
static const char no_service[] = "sib_sid must be of the id's port space (RDMA_IB_IP_PS_TCP, _UDP or _IB), or leave it open "
				 "(sib_sid_mask).";

static bool names_no_port(const struct vb_cm_address *address)
{
	static const uint8_t one[16] = {[15] = 1};

	return vb_rdmacm_address_is_wildcard(address) || memcmp(address->gid, one, sizeof(one)) == 0;
}

/* What of the service id the mask says: the port space, if it does, must be the id's; the port, if it does not, is to be chosen. */
static int check_service(const struct vb_rdmacm_id *id, const struct sockaddr *from, struct vb_cm_address *address)
{
	const struct sockaddr_ib *sib = (const void *)from;
	uint64_t mask = be64toh(sib->sib_sid_mask), space = mask & RDMA_IB_IP_PS_MASK;

	if (id->id.ps == RDMA_PS_IPOIB || ((be64toh(sib->sib_sid) ^ (uint64_t)id->id.ps << 16) & space) != 0)
		return -EPROTONOSUPPORT;
	address->port = (uint16_t)(be64toh(sib->sib_sid) & mask);
	return 0;
}

/* Tie the id to the InfiniBand device, which has the GID; NULL: whichever it has. */
static int bind_device(struct vb_rdmacm_id *id, const uint8_t *gid)
{
	int error = vb_rdmacm_device_bind(id, VB_FABRIC_INTERFACE);

	if (error == 0 && gid && vb_rdmacm_device_gid_index(id->device, gid, VB_FRAMING_GLOBAL) < 0)
		error = -ENODEV;
	if (error != 0) {
		vb_rdmacm_device_unbind(id);
		return error == -ENOENT ? -ENODEV : error;
	}
	return 0;
}

int vb_rdmacm_native_bind(struct vb_rdmacm_id *id, const struct sockaddr *address)
{
	bool was_bound = id->device != NULL;
	struct vb_cm_address source;
	int error = vb_rdmacm_address_from(&source, address);

	if (error == 0)
		error = check_service(id, address, &source);
	if (error != 0)
		return vb_rdmacm_refuse_address("rdma_bind_addr", id, &source, -error, no_service);
	if (!names_no_port(&source))
		error = bind_device(id, source.gid);
	if (error == 0)
		error = vb_rdmacm_reserve_port(id, &source);
	if (error != 0) {
		if (!was_bound)
			vb_rdmacm_device_unbind(id);
		return vb_rdmacm_refuse_address("rdma_bind_addr", id, &source, -error, error == -ENODEV ? no_device : NULL);
	}
	memcpy(id->id.route.addr.addr.ibaddr.sgid.raw, source.gid, 16);
	id->id.route.addr.addr.ibaddr.pkey = htons(source.pkey);
	return 0;
}

/* The device by which the destination is reached; `sgid`: its own GID. NULL, or what is wrong (ENODEV). */
static const char *find_way(struct vb_rdmacm_id *id, const struct vb_cm_address *destination, union ibv_gid *sgid)
{
	struct ibv_port_attr port;

	if (id->device == NULL && bind_device(id, NULL) != 0)
		return no_device;
	if (!vb_rdmacm_id_is_fabric(id) || ibv_query_gid(id->id.verbs, 1, 0, sgid) != 0 ||
	    ibv_query_port(id->id.verbs, 1, &port) != 0)
		return no_device;
	if (vb_rdmacm_device_pkey_index(id->device, destination->pkey) < 0)
		return no_partition;
	if (names_no_port(destination) || memcmp(sgid->raw, destination->gid, 16) == 0)
		return NULL;
	return memcmp(sgid->raw, destination->gid, PREFIX) == 0 && port.state == IBV_PORT_ACTIVE ? NULL : no_subnet;
}

static int bind_source(struct vb_rdmacm_id *id, const struct sockaddr *source, const struct vb_cm_address *destination)
{
	struct sockaddr_ib any = {.sib_family = AF_IB, .sib_pkey = htons(destination->pkey)};

	if (vb_rdmacm_id_state(id) == VB_RDMACM_BOUND)
		return 0;
	return vb_rdmacm_native_bind(id, source != NULL && source->sa_family != 0 ? source : (const void *)&any);
}

int vb_rdmacm_native_resolve(struct vb_rdmacm_id *id, const struct sockaddr *source, const struct sockaddr *to)
{
	struct vb_path path = {.framing = VB_FRAMING_GLOBAL, .interface_index = VB_FABRIC_INTERFACE};
	bool was_bound = id->device != NULL;
	struct vb_cm_address destination;
	union ibv_gid sgid;
	const char *wrong;
	int error = vb_rdmacm_address_from(&destination, to);

	if (error != 0)
		return vb_rdmacm_fail(-error);
	if (bind_source(id, source, &destination) != 0)
		return -1;
	wrong = find_way(id, &destination, &sgid);
	if (wrong != NULL) {
		if (!was_bound && vb_rdmacm_address_is_wildcard(&id->source))
			vb_rdmacm_device_unbind(id);
		return vb_rdmacm_refuse_address("rdma_resolve_addr", id, &destination, ENODEV, wrong);
	}
	if (names_no_port(&destination))
		memcpy(destination.gid, sgid.raw, 16);
	memcpy(id->source.gid, sgid.raw, 16);
	vb_rdmacm_address_to(&id->id.route.addr.src_storage, &id->source);
	id->destination = destination;
	vb_rdmacm_address_to(&id->id.route.addr.dst_storage, &destination);
	memcpy(path.source, id->source.gid, 16);
	memcpy(path.destination, destination.gid, 16);
	path.pkey = id->source.pkey;
	vb_rdmacm_path_learn(id, &path);
	vb_rdmacm_id_become(id, VB_RDMACM_ADDRESS_RESOLVED);
	error = vb_rdmacm_channel_tell(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	return error != 0 ? vb_rdmacm_result(error) : vb_rdmacm_event_await(id);
}
