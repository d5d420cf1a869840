/* SPDX-License-Identifier: MIT
 *
 * Taking events off a channel. An event is finished in the thread that takes it: only then is the queue pair of an
 * answered connection moved to RTS, a request's id tied to its device, a joined queue pair attached (man
 * rdma_get_cm_event, rdma_join_multicast). An event that turns out to be nothing the program should see is dropped
 * and the next one taken.
 */
#include "rdmacm/event.h"

#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "io/cancellation.h"
#include "rdmacm/channel.h"
#include "rdmacm/device.h"
#include "rdmacm/discard.h"
#include "rdmacm/establish.h"
#include "rdmacm/explain.h"
#include "rdmacm/export.h"
#include "rdmacm/link.h"
#include "rdmacm/multicast_group.h"
#include "rdmacm/path.h"
#include "rdmacm/qp_attr.h"
#include "rdmacm/resolve.h"
#include "rdmacm/result.h"
#include "rdmacm/trace.h"

static void fill_connection(struct vb_rdmacm_event *event)
{
	const struct vb_cm_conn *from = &event->told.conn;
	struct rdma_conn_param *to = &event->event.param.conn;

	to->private_data = from->private_data_length != 0 ? from->private_data : NULL;
	to->private_data_len = (uint8_t)from->private_data_length;
	to->responder_resources = from->responder_resources;
	to->initiator_depth = from->initiator_depth;
	to->flow_control = from->flow_control;
	to->retry_count = from->retry_count;
	to->rnr_retry_count = from->rnr_retry_count;
	to->srq = from->srq;
	to->qp_num = from->qpn;
}

/* For datagrams: where and how to send to the peer. */
static int fill_datagram(struct vb_rdmacm_event *event, const struct vb_rdmacm_id *id)
{
	const struct vb_cm_conn *from = &event->told.conn;
	struct rdma_ud_param *to = &event->event.param.ud;

	to->private_data = from->private_data_length != 0 ? from->private_data : NULL;
	to->private_data_len = (uint8_t)from->private_data_length;
	to->qp_num = from->qpn;
	to->qkey = from->qkey;
	return vb_rdmacm_qp_attr_address(id, &to->ah_attr);
}

/* The new id was made when the request arrived; only now may it cost an open device. */
static int take_request(struct vb_rdmacm_event *event)
{
	struct vb_rdmacm_id *child = event->child;
	int error = vb_rdmacm_device_bind(child, event->told.interface_index);

	if (error != 0) {
		vb_log(VB_LOG_WARN, "a connection request came in through interface %u, which has no device: refused",
		       event->told.interface_index);
		vb_rdmacm_discard_child(child);
		event->child = NULL;
		return error;
	}
	vb_rdmacm_link_fetched(child);
	event->event.id = &child->id;
	event->event.listen_id = &event->owner->id;
	if (vb_rdmacm_id_is_datagram(child))
		(void)fill_datagram(event, child);
	else
		fill_connection(event);
	vb_rdmacm_channel_handed_out(vb_rdmacm_channel_of(event->owner->id.channel), child);
	event->child = NULL; /* the program's from here on */
	return 0;
}

static void take_response(struct vb_rdmacm_event *event, struct vb_rdmacm_id *id)
{
	id->initiator_depth = event->told.conn.initiator_depth;
	id->responder_resources = event->told.conn.responder_resources;
	fill_connection(event);
	if (id->id.qp == NULL)
		return; /* the program's own QP: CONNECT_RESPONSE, then rdma_establish */
	if (vb_rdmacm_establish(id) == 0) {
		event->event.event = RDMA_CM_EVENT_ESTABLISHED;
		return;
	}
	event->event.event = RDMA_CM_EVENT_CONNECT_ERROR;
	event->event.status = -errno;
	id->connect_failed = true;
}

/* false: a daemon that was replaced has told it, and the next has said the REP again. */
static bool take_established(struct vb_rdmacm_event *event, struct vb_rdmacm_id *id)
{
	if (vb_rdmacm_id_state(id) != VB_RDMACM_ACCEPTED && vb_rdmacm_id_state(id) != VB_RDMACM_CONNECTING)
		return false;
	vb_rdmacm_id_forget_command(id);
	if (!event->from_daemon) {
		vb_rdmacm_id_become(id, VB_RDMACM_CONNECTED);
		return true;
	}
	if (!vb_rdmacm_id_is_datagram(id)) {
		fill_connection(event);
		vb_rdmacm_id_become(id, VB_RDMACM_CONNECTED);
		return true;
	}
	vb_rdmacm_id_learn(id, &event->told);
	vb_rdmacm_id_become(id, VB_RDMACM_CONNECTED);
	event->event.status = fill_datagram(event, id);
	if (event->event.status != 0)
		event->event.event = RDMA_CM_EVENT_CONNECT_ERROR;
	return true;
}

/* What ends an id is told once: a daemon that was replaced may have said it, and so may the next, which has asked again. */
static bool is_over(const struct vb_rdmacm_id *id)
{
	return id->connect_failed || vb_rdmacm_id_state(id) == VB_RDMACM_FAILED || vb_rdmacm_id_state(id) == VB_RDMACM_DISCONNECTED;
}

/* InfiniBand: the subnet administration knows who has the address. */
static void take_address(const struct vb_rdmacm_event *event, struct vb_rdmacm_id *id)
{
	vb_rdmacm_path_learn(id, &event->told.path);
	vb_rdmacm_id_become(id, VB_RDMACM_ADDRESS_RESOLVED);
}

/* false: not for the program's eyes. */
static bool finish_event(struct vb_rdmacm_event *event)
{
	struct vb_rdmacm_id *id = event->owner;

	if (event->group != NULL)
		vb_rdmacm_multicast_take(event);
	if (event->from_daemon) {
		event->event.id = &id->id;
		event->event.event = (enum rdma_cm_event_type)event->told.kind;
		event->event.status = event->told.status;
	}
	switch (event->event.event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		return take_request(event) == 0;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		if (!vb_rdmacm_id_answered(id, &event->told))
			return false;
		take_response(event, id);
		return true;
	case RDMA_CM_EVENT_ESTABLISHED:
		return take_established(event, id);
	case RDMA_CM_EVENT_REJECTED:
		vb_rdmacm_id_forget_command(id);
		if (is_over(id))
			return false;
		/* Before the flush that follows from it. */
		vb_rdmacm_explain(&event->event, vb_rdmacm_id_is_datagram(id), false);
		vb_rdmacm_id_become(id, VB_RDMACM_FAILED);
		vb_rdmacm_qp_error(id);
		break;
	case RDMA_CM_EVENT_CONNECT_ERROR:
		/* verbenad refused to accept what it had told to be over. */
		if (is_over(id))
			return false;
		vb_rdmacm_qp_error(id);
		/* fall through */
	case RDMA_CM_EVENT_UNREACHABLE:
		vb_rdmacm_id_forget_command(id);
		if (is_over(id))
			return false;
		vb_rdmacm_id_become(id, VB_RDMACM_FAILED);
		break;
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (event->from_daemon)
			take_address(event, id);
		return true;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		if (event->from_daemon) {
			vb_rdmacm_path_take(id, &event->told);
			vb_rdmacm_id_become(id, VB_RDMACM_ROUTE_RESOLVED);
		}
		return true;
	case RDMA_CM_EVENT_ADDR_ERROR:
		if (event->from_daemon)
			vb_rdmacm_id_become(id, VB_RDMACM_BOUND);
		vb_rdmacm_resolve_undo(id);
		return true;
	case RDMA_CM_EVENT_ROUTE_ERROR:
		return true;
	case RDMA_CM_EVENT_MULTICAST_JOIN:
	case RDMA_CM_EVENT_MULTICAST_ERROR:
		return !event->from_daemon || vb_rdmacm_multicast_take_told(event);
	case RDMA_CM_EVENT_DISCONNECTED:
		if (is_over(id))
			return false;
		vb_rdmacm_id_become(id, VB_RDMACM_DISCONNECTED);
		break;
	default:
		break;
	}
	if (event->from_daemon && !vb_rdmacm_id_is_datagram(id))
		fill_connection(event);
	return true;
}

/* Is it the subnet administration's answer? An id whose address is not resolved has no device any more that would tell. */
static bool asked_subnet(const struct vb_rdmacm_event *event)
{
	return event->event.event == RDMA_CM_EVENT_ROUTE_ERROR || (event->from_daemon && event->event.event == RDMA_CM_EVENT_ADDR_ERROR);
}

VB_EXPORT int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	VB_UNCANCELLED;
	struct vb_rdmacm_event *taken;
	int error;

	if (channel == NULL || event == NULL)
		return vb_rdmacm_fail(EINVAL);
	for (;;) {
		error = vb_rdmacm_channel_take(vb_rdmacm_channel_of(channel), &taken);
		if (error != 0)
			return vb_rdmacm_result(error);
		if (finish_event(taken))
			break;
		rdma_ack_cm_event(&taken->event);
	}
	if (taken->event.event != RDMA_CM_EVENT_REJECTED)
		vb_rdmacm_explain(&taken->event, vb_rdmacm_id_is_datagram(taken->owner), asked_subnet(taken));
	*event = &taken->event;
	vb_rdmacm_trace_event(taken->event.event);
	return 0;
}

VB_EXPORT int rdma_ack_cm_event(struct rdma_cm_event *public_event)
{
	VB_UNCANCELLED;
	struct vb_rdmacm_event *event = (struct vb_rdmacm_event *)(void *)public_event;
	struct vb_rdmacm_id *owner;

	if (event == NULL)
		return vb_rdmacm_fail(EINVAL);
	owner = event->owner;
	if (event->group != NULL)
		vb_rdmacm_multicast_acknowledge(event->group);
	vb_mutex_lock(&owner->lock);
	if (__atomic_sub_fetch(&owner->unacked, 1, __ATOMIC_SEQ_CST) == 0)
		pthread_cond_broadcast(&owner->acked);
	vb_mutex_unlock(&owner->lock);
	free(event);
	return 0;
}

int vb_rdmacm_event_await(struct vb_rdmacm_id *id)
{
	struct rdma_cm_event *event;

	if (!id->synchronous)
		return 0;
	if (id->id.event != NULL) {
		rdma_ack_cm_event(id->id.event);
		id->id.event = NULL;
	}
	if (rdma_get_cm_event(id->id.channel, &event) != 0)
		return -1;
	id->id.event = event;
	if (event->event == RDMA_CM_EVENT_REJECTED)
		return vb_rdmacm_fail(ECONNREFUSED);
	if (event->event == RDMA_CM_EVENT_DEVICE_REMOVAL)
		return vb_rdmacm_fail(ENODEV);
	if (event->status != 0)
		return vb_rdmacm_fail(event->status < 0 ? -event->status : event->status);
	return 0;
}
