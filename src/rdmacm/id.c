/* SPDX-License-Identifier: MIT
 *
 * The life of an id: create, migrate, destroy. Destroying first makes the daemon forget the id, so that no event can
 * come any more, then drops the events nobody has taken, then waits for acknowledgement of those that were (man
 * rdma_get_cm_event).
 */
#include "rdmacm/id.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "io/clock.h"
#include "io/descriptor.h"
#include "io/explain_output.h"
#include "io/random.h"
#include "rdmacm/address.h"
#include "rdmacm/channel.h"
#include "rdmacm/connect.h"
#include "rdmacm/explain.h"
#include "rdmacm/export.h"
#include "rdmacm/link.h"
#include "rdmacm/multicast.h"
#include "rdmacm/streams.h"

int vb_rdmacm_fail(int error)
{
	errno = error;
	return -1;
}

int vb_rdmacm_result(int error)
{
	return error == 0 ? 0 : vb_rdmacm_fail(-error);
}

struct vb_rdmacm_id *vb_rdmacm_id_allocate(struct rdma_event_channel *channel, void *context, enum rdma_port_space port_space,
					   enum ibv_qp_type qp_type)
{
	struct vb_rdmacm_id *id = calloc(1, sizeof(*id));

	if (id == NULL)
		return NULL;
	id->synchronous = channel == NULL;
	if (channel == NULL) {
		channel = rdma_create_event_channel();
		if (channel == NULL) {
			free(id);
			return NULL;
		}
	}
	id->id.channel = channel;
	id->id.context = context;
	id->id.ps = port_space;
	id->id.qp_type = qp_type;
	vb_mutex_init(&id->lock, VB_RANK_CM_ID);
	pthread_cond_init(&id->acked, NULL);
	vb_list_init(&id->groups);
	vb_list_init(&id->retry_node);
	vb_list_init(&id->resolving.node);
	id->bound_fd = -1;
	return id;
}

void vb_rdmacm_id_free(struct vb_rdmacm_id *id)
{
	if (id->synchronous)
		rdma_destroy_event_channel(id->id.channel);
	pthread_cond_destroy(&id->acked);
	vb_mutex_fini(&id->lock);
	free(id->connect_command);
	free(id->connect_data);
	free(id->endpoint_attr);
	if (id->bound_fd >= 0)
		vb_descriptor_close(id->bound_fd);
	free(id);
}

int vb_rdmacm_id_create(struct rdma_event_channel *channel, struct rdma_cm_id **result, void *context,
			enum rdma_port_space port_space, enum ibv_qp_type qp_type)
{
	struct vb_cm_command command = {.verb = VB_CM_CREATE, .port_space = port_space, .qp_type = qp_type};
	struct vb_rdmacm_id *id;
	int error;

	id = vb_rdmacm_id_allocate(channel, context, port_space, qp_type);
	if (id == NULL)
		return vb_rdmacm_fail(errno != 0 ? errno : ENOMEM);
	error = vb_rdmacm_link_call(id, &command, NULL);
	if (error != 0) {
		vb_rdmacm_id_free(id);
		return vb_rdmacm_outcome("rdma_create_id", NULL, error);
	}
	*result = &id->id;
	return 0;
}

VB_EXPORT int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context, enum rdma_port_space ps)
{
	if (id == NULL)
		return vb_rdmacm_fail(EINVAL);
	switch (ps) {
	case RDMA_PS_TCP:
	case RDMA_PS_IB:
		return vb_rdmacm_id_create(channel, id, context, ps, IBV_QPT_RC);
	case RDMA_PS_UDP:
	case RDMA_PS_IPOIB:
		return vb_rdmacm_id_create(channel, id, context, ps, IBV_QPT_UD);
	default:
		return vb_rdmacm_refuse("rdma_create_id", NULL, EINVAL,
					"port spaces are RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IB and RDMA_PS_IPOIB.");
	}
}

struct vb_rdmacm_id *vb_rdmacm_id_create_child(struct vb_rdmacm_id *listener, const struct vb_cm_event *request)
{
	struct vb_rdmacm_id *child = vb_rdmacm_id_allocate(listener->synchronous ? NULL : listener->id.channel,
							   listener->id.context, listener->id.ps, listener->id.qp_type);
	struct rdma_addr *addr;

	if (child == NULL)
		return NULL;
	child->handle = request->id;
	child->state = VB_RDMACM_REQUESTED;
	child->source = request->source;
	child->destination = request->destination;
	child->traffic_class = listener->traffic_class;
	child->has_traffic_class = listener->has_traffic_class;
	child->ack_timeout = listener->ack_timeout;
	child->has_ack_timeout = listener->has_ack_timeout;
	child->starting_psn = vb_random_u32() & 0xffffff;
	child->initiator_depth = request->conn.initiator_depth;
	child->responder_resources = request->conn.responder_resources;
	child->retry_count = request->conn.retry_count;
	vb_rdmacm_connect_learn(child, request);

	addr = &child->id.route.addr;
	vb_rdmacm_address_to(&addr->src_storage, &request->source);
	vb_rdmacm_address_to(&addr->dst_storage, &request->destination);
	memcpy(addr->addr.ibaddr.sgid.raw, request->source.gid, 16);
	memcpy(addr->addr.ibaddr.dgid.raw, request->destination.gid, 16);
	addr->addr.ibaddr.pkey = htons(0xffff);

	/* The path as the peer described it. */
	memcpy(child->path.sgid.raw, request->source.gid, 16);
	memcpy(child->path.dgid.raw, request->destination.gid, 16);
	child->path.flow_label = htonl(request->conn.flow_label);
	child->path.traffic_class = listener->has_traffic_class ? listener->traffic_class : request->conn.traffic_class;
	child->path.hop_limit = request->conn.hop_limit != 0 ? request->conn.hop_limit : 64;
	child->path.mtu = request->conn.path_mtu;
	child->path.pkey = htons(0xffff);
	child->path.reversible = 1;
	child->path.numb_path = 1;
	child->id.route.path_rec = &child->path;
	child->id.route.num_paths = 1;
	return child;
}

void vb_rdmacm_id_discard_child(struct vb_rdmacm_id *child)
{
	struct vb_list dropped;

	vb_list_init(&dropped);
	vb_rdmacm_streams_forget(child);
	vb_rdmacm_link_destroy(child);
	vb_rdmacm_channel_remove(vb_rdmacm_channel_of(child->id.channel), child, &dropped);
	VB_LIST_FOR_EACH(node, &dropped)
		free(vb_container_of(node, struct vb_rdmacm_event, node));
	vb_rdmacm_id_free(child);
}

/* Events that nobody took: requests among them are refused, by forgetting their ids. */
static void drop_events(struct vb_rdmacm_id *id)
{
	struct vb_list dropped;

	vb_list_init(&dropped);
	vb_rdmacm_channel_remove(vb_rdmacm_channel_of(id->id.channel), id, &dropped);
	VB_LIST_FOR_EACH(node, &dropped) {
		struct vb_rdmacm_event *event = vb_container_of(node, struct vb_rdmacm_event, node);

		if (event->child != NULL)
			vb_rdmacm_id_discard_child(event->child);
		free(event);
	}
}

/* Another thread may be about to acknowledge: only a wait that takes long is told. */
static void tell_if_nobody_acknowledges(struct vb_rdmacm_id *id)
{
	vb_time wall = vb_clock_wall() + VB_MILLISECONDS(200);
	const struct timespec until = {.tv_sec = (time_t)(wall / VB_SECONDS(1)), .tv_nsec = (long)(wall % VB_SECONDS(1))};
	unsigned missing;
	int late = 0;

	vb_mutex_lock(&id->lock);
	while ((missing = __atomic_load_n(&id->unacked, __ATOMIC_SEQ_CST)) != 0 && late == 0)
		late = vb_mutex_wait_until(&id->lock, &id->acked, &until);
	vb_mutex_unlock(&id->lock);
	if (missing != 0)
		vb_rdmacm_explain_unacknowledged(__atomic_load_n(&id->handed_out, __ATOMIC_RELAXED), missing);
}

static void wait_for_acknowledgements(struct vb_rdmacm_id *id)
{
	if (vb_explain_output_watches())
		tell_if_nobody_acknowledges(id);
	vb_mutex_lock(&id->lock);
	while (__atomic_load_n(&id->unacked, __ATOMIC_SEQ_CST) != 0)
		vb_mutex_wait(&id->lock, &id->acked);
	vb_mutex_unlock(&id->lock);
}

VB_EXPORT int rdma_destroy_id(struct rdma_cm_id *public_id)
{
	struct vb_rdmacm_id *id = vb_rdmacm_id_of(public_id);

	if (id == NULL)
		return vb_rdmacm_fail(EINVAL);
	vb_rdmacm_channel_touched(id);
	vb_rdmacm_streams_forget(id);
	vb_rdmacm_link_destroy(id);
	drop_events(id);
	if (id->id.event != NULL)
		rdma_ack_cm_event(id->id.event);
	wait_for_acknowledgements(id);
	vb_rdmacm_multicast_leave_all(id);
	vb_rdmacm_id_free(id);
	return 0;
}

VB_EXPORT int rdma_migrate_id(struct rdma_cm_id *public_id, struct rdma_event_channel *channel)
{
	struct vb_rdmacm_id *id = vb_rdmacm_id_of(public_id);
	struct rdma_event_channel *old;
	bool synchronous = channel == NULL, was_synchronous;
	struct vb_list moved;

	if (id == NULL || (synchronous && id->synchronous))
		return vb_rdmacm_fail(EINVAL);
	vb_rdmacm_channel_touched(id);
	if (synchronous) {
		channel = rdma_create_event_channel();
		if (channel == NULL)
			return -1;
	}
	if (id->synchronous && id->id.event != NULL) {
		rdma_ack_cm_event(id->id.event);
		id->id.event = NULL;
	}
	vb_list_init(&moved);
	vb_mutex_lock(&id->lock);
	old = id->id.channel;
	was_synchronous = id->synchronous;
	vb_rdmacm_channel_remove(vb_rdmacm_channel_of(old), id, &moved);
	id->id.channel = channel;
	id->synchronous = synchronous;
	VB_LIST_FOR_EACH(node, &moved) {
		vb_list_remove(node);
		vb_rdmacm_channel_put(vb_rdmacm_channel_of(channel), vb_container_of(node, struct vb_rdmacm_event, node));
	}
	vb_mutex_unlock(&id->lock);
	wait_for_acknowledgements(id);
	if (was_synchronous)
		rdma_destroy_event_channel(old);
	return 0;
}

int vb_rdmacm_id_complete(struct vb_rdmacm_id *id)
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
