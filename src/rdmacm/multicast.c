/* SPDX-License-Identifier: MIT
 *
 * rdma_join_multicast and its kin. RoCE groups are IP groups: no permission is asked, the join is told to
 * routers by IGMP/MLD when the queue pair is attached. An IPv4 group a.b.c.d is the GID ::ffff:a.b.c.d (RoCE annex
 * A17, as the kernel does for RoCEv2), an IPv6 group is its own GID. Members of a group meet on QP number 0xffffff
 * with the Q_Key of their port space.
 *
 * InfiniBand's groups are the subnet manager's: verbenad joins for the host, and the event comes when that has its LID.
 */
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>

#include "io/cancellation.h"
#include "rdmacm/address.h"
#include "rdmacm/bind.h"
#include "rdmacm/event.h"
#include "rdmacm/explain.h"
#include "rdmacm/export.h"
#include "rdmacm/link.h"
#include "rdmacm/multicast_group.h"
#include "rdmacm/result.h"

enum { SUBNET_PATIENCE_MS = 4000 };

static int announce(struct vb_rdmacm_group *group)
{
	struct vb_rdmacm_id *id = group->id;
	struct vb_rdmacm_event *event = calloc(1, sizeof(*event));

	if (event == NULL)
		return -ENOMEM;
	event->owner = id;
	event->group = group;
	event->event.id = &id->id;
	event->event.event = RDMA_CM_EVENT_MULTICAST_JOIN;
	vb_mutex_lock(&id->lock);
	group->unacked++;
	vb_list_append(&id->groups, &group->node);
	vb_rdmacm_channel_put(vb_rdmacm_channel_of(id->id.channel), event);
	vb_mutex_unlock(&id->lock);
	return 0;
}

/* RFC 4391, 4: ff12, a signature, the P_Key, and of the IP group what fits. The signature is rdma_cm's own (the
 * kernel's cma_set_mgid), so that its groups are not IPoIB's. */
static void map_to_mgid(const struct vb_cm_address *address, uint8_t mgid[16])
{
	static const uint8_t four[6] = {0xff, 0x12, 0x40, 0x01, 0xff, 0xff}, six[6] = {0xff, 0x12, 0x60, 0x01, 0xff, 0xff};

	if (vb_cm_address_is_native(address)) {
		memcpy(mgid, address->gid, 16);
		return;
	}
	memset(mgid, 0, 16);
	memcpy(mgid, address->family == AF_INET ? four : six, sizeof(four));
	if (address->family == AF_INET) {
		memcpy(mgid + 12, address->gid + 12, 4);
		mgid[12] &= 0x0f;
	} else {
		memcpy(mgid + 6, address->gid + 6, 10);
	}
}

/* In front of the others of the id from now on. 0 or -errno: then it is not. */
static int join_by_subnet(struct vb_rdmacm_group *group, const struct vb_cm_address *address)
{
	static uint64_t cookies;
	struct vb_cm_command command = {.verb = VB_CM_JOIN, .timeout_ms = SUBNET_PATIENCE_MS};
	struct vb_rdmacm_id *id = group->id;
	int error;

	map_to_mgid(address, group->gid.raw);
	group->cookie = command.remote_cookie = __atomic_add_fetch(&cookies, 1, __ATOMIC_RELAXED);
	memcpy(command.path.destination, group->gid.raw, 16);
	command.path.pkey = id->source.pkey;
	command.conn.qkey = RDMA_UDP_QKEY;
	vb_mutex_lock(&id->lock);
	vb_list_append(&id->groups, &group->node);
	vb_mutex_unlock(&id->lock);
	error = vb_rdmacm_link_call(id, &command, NULL);
	if (error != 0) {
		vb_mutex_lock(&id->lock);
		vb_list_remove(&group->node);
		vb_mutex_unlock(&id->lock);
	}
	return error;
}

static int join(struct rdma_cm_id *public_id, const struct sockaddr *addr, uint32_t flags, void *context)
{
	struct vb_rdmacm_id *id = vb_rdmacm_id_of(public_id);
	struct vb_cm_address address;
	struct vb_rdmacm_group *group;
	int error;

	if (id == NULL)
		return vb_rdmacm_fail(EINVAL);
	error = vb_rdmacm_address_from(&address, addr);
	if (error != 0)
		return vb_rdmacm_outcome("rdma_join_multicast", id, error);
	vb_rdmacm_bind_need_device(id);
	/* Bound to a device by rdma_bind_addr or rdma_resolve_addr; only datagrams are multicast. */
	if (id->device == NULL || !vb_rdmacm_id_is_datagram(id) || !vb_gid_is_multicast(address.gid))
		return vb_rdmacm_refuse_address("rdma_join_multicast", id, &address, EINVAL,
						id->device == NULL ?
						"the id is not bound to a device: call rdma_bind_addr with an address of "
						"this host, or rdma_resolve_addr, first." :
						!vb_rdmacm_id_is_datagram(id) ?
						"only ids of RDMA_PS_UDP and RDMA_PS_IPOIB can join." :
						"it is no multicast address.");
	if (vb_cm_address_is_native(&address) && !vb_rdmacm_id_is_fabric(id))
		return vb_rdmacm_refuse_address("rdma_join_multicast", id, &address, EINVAL,
						"groups of AF_IB are InfiniBand's, and the id is bound to another device.");
	group = calloc(1, sizeof(*group));
	if (group == NULL)
		return vb_rdmacm_fail(ENOMEM);
	group->id = id;
	group->flags = flags;
	group->context = context;
	group->address_length = vb_rdmacm_address_length(addr);
	memcpy(&group->address, addr, group->address_length);
	memcpy(group->gid.raw, address.gid, 16);
	error = vb_rdmacm_id_is_fabric(id) ? join_by_subnet(group, &address) : announce(group);
	if (error != 0) {
		free(group);
		return vb_rdmacm_result(error);
	}
	return vb_rdmacm_event_await(id);
}

VB_EXPORT int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
	VB_UNCANCELLED;
	return join(id, addr, RDMA_MC_JOIN_FLAG_FULLMEMBER, context);
}

VB_EXPORT int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *mc_join_attr, void *context)
{
	VB_UNCANCELLED;
	const uint32_t both = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;

	if (mc_join_attr == NULL)
		return vb_rdmacm_fail(EINVAL);
	if (mc_join_attr->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED)
		return vb_rdmacm_fail(ENOTSUP);
	if ((mc_join_attr->comp_mask & both) != both || mc_join_attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return vb_rdmacm_fail(EINVAL);
	return join(id, mc_join_attr->addr, mc_join_attr->join_flags, context);
}

/* Unlinked from id->groups; no other thread finds it any more. */
static void leave(struct vb_rdmacm_group *group)
{
	struct vb_rdmacm_id *id = group->id;
	struct vb_cm_command command = {.verb = VB_CM_LEAVE};
	struct vb_list dropped;

	/* Its event may still be queued: taken out, unlike the id's others. */
	vb_list_init(&dropped);
	vb_mutex_lock(&id->lock);
	vb_rdmacm_channel_remove(vb_rdmacm_channel_of(id->id.channel), id, &dropped);
	VB_LIST_FOR_EACH(node, &dropped) {
		struct vb_rdmacm_event *event = vb_container_of(node, struct vb_rdmacm_event, node);

		vb_list_remove(node);
		if (event->group == group) {
			group->unacked--;
			free(event);
		} else {
			vb_rdmacm_channel_put(vb_rdmacm_channel_of(id->id.channel), event);
		}
	}
	while (group->unacked != 0)
		vb_mutex_wait(&id->lock, &id->acked);
	vb_mutex_unlock(&id->lock);
	if (group->attached && id->id.qp != NULL)
		ibv_detach_mcast(id->id.qp, &group->gid, group->lid);
	if (vb_rdmacm_id_is_fabric(id)) {
		memcpy(command.path.destination, group->gid.raw, 16);
		(void)vb_rdmacm_link_call(id, &command, NULL);
	}
	free(group);
}

VB_EXPORT int rdma_leave_multicast(struct rdma_cm_id *public_id, struct sockaddr *addr)
{
	VB_UNCANCELLED;
	struct vb_rdmacm_id *id = vb_rdmacm_id_of(public_id);
	struct vb_rdmacm_group *found = NULL;
	socklen_t length = vb_rdmacm_address_length(addr);

	if (id == NULL || length == 0)
		return vb_rdmacm_fail(EINVAL);
	vb_mutex_lock(&id->lock);
	VB_LIST_FOR_EACH(node, &id->groups) {
		struct vb_rdmacm_group *group = vb_container_of(node, struct vb_rdmacm_group, node);

		if (found == NULL && group->address_length == length && memcmp(&group->address, addr, length) == 0) {
			found = group;
			vb_list_remove(node);
		}
	}
	vb_mutex_unlock(&id->lock);
	if (found == NULL)
		return vb_rdmacm_refuse("rdma_leave_multicast", id, EADDRNOTAVAIL, "the id has not joined this group.");
	leave(found);
	return 0;
}
