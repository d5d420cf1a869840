/* SPDX-License-Identifier: MIT
 *
 * The record of an id: made, freed, and what it learns of its peer.
 */
#include "rdmacm/id.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "io/descriptor.h"
#include "io/random.h"
#include "rdmacm/address.h"
#include "rdmacm/channel.h"
#include "rdmacm/device.h"
#include "rdmacm/path.h"
#include "wire/device_kind.h"

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
	vb_list_init(&id->fetched_node);
	vb_rdmacm_turn_init(&id->turn);
	vb_list_init(&id->resolving.node);
	vb_list_init(&id->stream_node);
	id->bound_fd = -1;
	return id;
}

void vb_rdmacm_id_free(struct vb_rdmacm_id *id)
{
	if (id->synchronous)
		rdma_destroy_event_channel(id->id.channel);
	pthread_cond_destroy(&id->acked);
	vb_mutex_fini(&id->lock);
	free(id->kept_command);
	free(id->connect_data);
	free(id->endpoint_attr);
	if (id->bound_fd >= 0)
		vb_descriptor_close(id->bound_fd);
	free(id);
}

bool vb_rdmacm_id_is_stream(const struct vb_rdmacm_id *id)
{
	return id->device != NULL && id->device->connection == VB_CONNECT_MPA;
}

bool vb_rdmacm_id_is_fabric(const struct vb_rdmacm_id *id)
{
	return id->device != NULL && id->device->interface_index == VB_FABRIC_INTERFACE;
}

/* Caller holds id->lock. */
static void learn(struct vb_rdmacm_id *id, const struct vb_cm_event *event)
{
	id->peer = event->conn;
	if (event->remote_cookie != 0)
		id->remote_cookie = event->remote_cookie;
	id->remote_ece.vendor_id = event->conn.ece_vendor;
	id->remote_ece.options = event->conn.ece_options;
}

void vb_rdmacm_id_learn(struct vb_rdmacm_id *id, const struct vb_cm_event *event)
{
	vb_mutex_lock(&id->lock);
	learn(id, event);
	vb_mutex_unlock(&id->lock);
}

/* Caller holds id->lock. */
static void forget_command(struct vb_rdmacm_id *id)
{
	free(id->kept_command);
	id->kept_command = NULL;
}

void vb_rdmacm_id_forget_command(struct vb_rdmacm_id *id)
{
	vb_mutex_lock(&id->lock);
	forget_command(id);
	vb_mutex_unlock(&id->lock);
}

/* At once, under the lock: the thread that tells a new daemon of the id sees all of it or nothing (adopt.c). */
bool vb_rdmacm_id_answered(struct vb_rdmacm_id *id, const struct vb_cm_event *event)
{
	bool is_answered;

	vb_mutex_lock(&id->lock);
	is_answered = vb_rdmacm_id_state(id) == VB_RDMACM_CONNECTING && event->id == __atomic_load_n(&id->handle, __ATOMIC_RELAXED);
	if (is_answered) {
		forget_command(id);
		learn(id, event);
		vb_rdmacm_id_become(id, VB_RDMACM_RESPONDED);
	}
	vb_mutex_unlock(&id->lock);
	return is_answered;
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
	vb_rdmacm_id_learn(child, request);

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
	if (request->path.framing == VB_FRAMING_GLOBAL)
		vb_rdmacm_path_learn(child, &request->path);
	/* Of RoCE's versions the one that the peer speaks. */
	else
		child->route.framing = request->path.framing;
	return child;
}
