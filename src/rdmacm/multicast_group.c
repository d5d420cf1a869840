/* SPDX-License-Identifier: MIT
 *
 * See multicast_group.h.
 */
#include "rdmacm/multicast_group.h"

#include <stdlib.h>

#include "rdmacm/device.h"

enum { MULTICAST_QPN = 0xffffff };

void vb_rdmacm_multicast_take(struct vb_rdmacm_event *event)
{
	struct vb_rdmacm_group *group = event->group;
	struct vb_rdmacm_id *id = group->id;
	struct rdma_ud_param *param = &event->event.param.ud;
	int index = vb_rdmacm_device_gid_index(id->device, id->source.gid, VB_FRAMING_UDP), error = 0;

	param->private_data = group->context; /* man rdma_join_multicast */
	param->qp_num = MULTICAST_QPN;
	param->qkey = RDMA_UDP_QKEY;
	param->ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1};
	param->ah_attr.grh.dgid = group->gid;
	param->ah_attr.grh.hop_limit = 1;
	param->ah_attr.grh.traffic_class = id->has_traffic_class ? id->traffic_class : 0;
	if (index < 0)
		error = -index;
	else
		param->ah_attr.grh.sgid_index = (uint8_t)index;
	if (error == 0 && id->id.qp != NULL && group->flags != RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER) {
		error = ibv_attach_mcast(id->id.qp, &group->gid, 0);
		group->attached = error == 0;
	}
	if (error != 0) {
		event->event.event = RDMA_CM_EVENT_MULTICAST_ERROR;
		event->event.status = -error;
	}
}

static struct vb_rdmacm_group *find_told(struct vb_rdmacm_id *id, uint64_t cookie)
{
	struct vb_rdmacm_group *found = NULL;

	vb_mutex_lock(&id->lock);
	VB_LIST_FOR_EACH(node, &id->groups) {
		struct vb_rdmacm_group *group = vb_container_of(node, struct vb_rdmacm_group, node);

		if (group->cookie == cookie && cookie != 0)
			found = group;
	}
	if (found != NULL)
		found->unacked++;
	vb_mutex_unlock(&id->lock);
	return found;
}

bool vb_rdmacm_multicast_take_told(struct vb_rdmacm_event *event)
{
	struct vb_rdmacm_id *id = event->owner;
	struct vb_rdmacm_group *group = find_told(id, event->told.remote_cookie);
	struct rdma_ud_param *param = &event->event.param.ud;
	int error = 0;

	if (group == NULL)
		return false;
	event->group = group;
	param->private_data = group->context;
	if (event->told.status != 0)
		return true;
	group->lid = event->told.path.dlid;
	param->qp_num = MULTICAST_QPN;
	param->qkey = event->told.conn.qkey;
	param->ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1, .dlid = group->lid, .sl = event->told.path.sl};
	param->ah_attr.grh.dgid = group->gid;
	param->ah_attr.grh.hop_limit = event->told.path.hop_limit;
	if (id->id.qp != NULL && group->flags != RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER) {
		error = ibv_attach_mcast(id->id.qp, &group->gid, group->lid);
		group->attached = error == 0;
	}
	if (error != 0) {
		event->event.event = RDMA_CM_EVENT_MULTICAST_ERROR;
		event->event.status = -error;
	}
	return true;
}

void vb_rdmacm_multicast_acknowledge(struct vb_rdmacm_group *group)
{
	struct vb_rdmacm_id *id = group->id;

	vb_mutex_lock(&id->lock);
	group->unacked--;
	pthread_cond_broadcast(&id->acked);
	vb_mutex_unlock(&id->lock);
}

void vb_rdmacm_multicast_leave_all(struct vb_rdmacm_id *id)
{
	/* No other thread has the id any more, and its events are gone: what is left of a QP's membership goes with
	 * the QP. */
	VB_LIST_FOR_EACH(node, &id->groups) {
		vb_list_remove(node);
		free(vb_container_of(node, struct vb_rdmacm_group, node));
	}
}
