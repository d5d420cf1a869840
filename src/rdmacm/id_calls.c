/* SPDX-License-Identifier: MIT
 *
 * The life of an id: create, migrate, destroy. Destroying first makes the daemon forget the id, so that no event can
 * come any more, then drops the events that the program has not taken, then waits for acknowledgement of those that it
 * has (man rdma_get_cm_event).
 */
#include "rdmacm/id_calls.h"

#include <errno.h>
#include <stdlib.h>

#include "io/cancellation.h"
#include "io/clock.h"
#include "io/explain_output.h"
#include "rdmacm/channel.h"
#include "rdmacm/discard.h"
#include "rdmacm/explain.h"
#include "rdmacm/export.h"
#include "rdmacm/link.h"
#include "rdmacm/multicast_group.h"
#include "rdmacm/result.h"
#include "rdmacm/streams.h"

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
	VB_UNCANCELLED;
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

/* Another thread may be about to acknowledge: only a wait that takes long is told. */
static void tell_if_unacknowledged(struct vb_rdmacm_id *id)
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
		tell_if_unacknowledged(id);
	vb_mutex_lock(&id->lock);
	while (__atomic_load_n(&id->unacked, __ATOMIC_SEQ_CST) != 0)
		vb_mutex_wait(&id->lock, &id->acked);
	vb_mutex_unlock(&id->lock);
}

VB_EXPORT int rdma_destroy_id(struct rdma_cm_id *public_id)
{
	VB_UNCANCELLED;
	struct vb_rdmacm_id *id = vb_rdmacm_id_of(public_id);

	if (id == NULL)
		return vb_rdmacm_fail(EINVAL);
	vb_rdmacm_channel_touched(id);
	vb_rdmacm_streams_forget(id);
	vb_rdmacm_link_destroy(id);
	vb_rdmacm_discard_events(id);
	if (id->id.event != NULL)
		rdma_ack_cm_event(id->id.event);
	wait_for_acknowledgements(id);
	vb_rdmacm_multicast_leave_all(id);
	vb_rdmacm_id_free(id);
	return 0;
}

VB_EXPORT int rdma_migrate_id(struct rdma_cm_id *public_id, struct rdma_event_channel *channel)
{
	VB_UNCANCELLED;
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
	vb_rdmacm_streams_left(id);
	wait_for_acknowledgements(id);
	if (was_synchronous)
		rdma_destroy_event_channel(old);
	return 0;
}
