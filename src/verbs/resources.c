/* SPDX-License-Identifier: MIT
 *
 * What an open device holds, told row by row to the process that asks (`verbena res`). The lists keep their objects: an object
 * leaves its list, under the list's lock, before anything of it is taken down. An object's own lock is held only while
 * a few numbers are copied.
 *
 * Locks: the context's (of the lists of queue pairs and of all kinds of queues and tables) or the session's (PDs, regions), inside it the
 * object's own.
 */
#include <stdio.h>
#include <string.h>

#include "progress/endpoint.h"
#include "verbs/context.h"
#include "wire/resource.h"

void vb_context_list_object(struct ibv_context *context, struct vb_list *list, struct vb_list *node, uint32_t *number)
{
	struct vb_context *own = vb_context_of(context);

	vb_lock_take(&own->session->lock);
	*number = vb_session_handle(own->session);
	vb_lock_release(&own->session->lock);
	vb_lock_take(&own->lock);
	vb_list_append(list, node);
	vb_lock_release(&own->lock);
}

void vb_context_unlist_object(struct ibv_context *context, struct vb_list *node)
{
	struct vb_context *own = vb_context_of(context);

	vb_lock_take(&own->lock);
	vb_list_remove(node);
	vb_lock_release(&own->lock);
}

static uint32_t cq_number(const struct vb_cq *cq)
{
	const struct vb_completion_queue *own = cq ? cq->owner : NULL;

	return own ? own->handle : 0;
}

static uint32_t srq_number(const struct vb_srq *srq)
{
	const struct vb_shared_receive_queue *own = srq ? srq->owner : NULL;

	return own ? own->handle : 0;
}

/* Caller holds qp->lock. */
static void describe_qp(struct vb_resource_qp *row, const struct vb_qp *qp)
{
	struct vb_transport_status status;

	vb_endpoint_query_qp(qp, &status);
	row->qpn = qp->qpn;
	row->type = qp->type;
	row->state = qp->state;
	row->pd = qp->pd ? qp->pd->handle : 0;
	row->send_cq = cq_number(qp->send_cq);
	row->receive_cq = cq_number(qp->recv_cq);
	row->srq = qp->rss ? 0 : srq_number(qp->srq);
	row->send_depth = qp->send.max_wr;
	row->send_posted = vb_send_queue_count(&qp->send);
	row->receive_depth = qp->receive.max_wr;
	row->receive_posted = vb_receive_queue_count(&qp->receive);
	row->sends_done = qp->send.tail;
	row->receives_done = qp->receive.tail;
	row->work_bytes = qp->send.bytes;
	row->received_bytes = qp->received_bytes;
	row->fault = qp->fault.fault;
	row->draining = qp->draining;
	row->through_memory = vb_endpoint_goes_through_memory(qp) ? VB_THROUGH_MEMORY :
			      vb_endpoint_goes_past_wire(qp)	  ? VB_THROUGH_MEMORY_PAST_WIRE :
								    0;
	row->send_psn = status.send;
	row->expected_psn = status.expected;
	if (qp->type == IBV_QPT_UD || qp->type == IBV_QPT_RAW_PACKET)
		return;
	row->peer_qpn = qp->attr.dest_qp_num;
	if (!vb_endpoint_addresses(qp, row->local_gid, row->peer_gid)) {
		memcpy(row->local_gid, qp->path.source, sizeof(row->local_gid));
		memcpy(row->peer_gid, qp->path.destination, sizeof(row->peer_gid));
	}
	row->path_mtu = qp->path_mtu;
	row->source_port = qp->path.source_port;
	row->msn = status.msn;
	/* Through memory UC has acknowledgements of its records, too. */
	if (!vb_qp_is_reliable(qp) && !row->through_memory)
		return;
	row->acknowledged_psn = status.acknowledged;
	row->outstanding_packets = status.outstanding;
	row->window_packets = status.window;
	row->control = status.control;
	row->rate = status.rate;
	row->outstanding_reads = status.outstanding_reads;
	row->retry_count = qp->attr.retry_cnt;
	row->retries_left = status.retries_left;
	row->rnr_retry = qp->attr.rnr_retry;
	row->rnr_retries_left = status.rnr_retries_left;
	row->round_trip = status.round_trip;
	row->retransmit_timeout = status.retransmit_timeout;
}

static void show_qps(struct vb_context *context, struct vb_resource_list *list)
{
	VB_LIST_FOR_EACH(node, &context->qps) {
		struct vb_qp *qp = vb_container_of(node, struct vb_queue_pair, node)->qp;
		struct vb_resource_qp row = {
			.interface_index = context->info.index,
			.session = context->session->number,
			.kind = context->info.kind,
		};

		vb_lock_take(&qp->lock);
		describe_qp(&row, qp);
		vb_lock_release(&qp->lock);
		vb_resource_list_add(list, VB_RESOURCE_QP, &row);
	}
}

static void show_cqs(struct vb_context *context, struct vb_resource_list *list)
{
	VB_LIST_FOR_EACH(node, &context->cqs) {
		struct vb_completion_queue *own = vb_container_of(node, struct vb_completion_queue, node);
		struct vb_resource_cq row = {
			.interface_index = context->info.index,
			.session = context->session->number,
			.number = own->handle,
			.users = vb_count_read(&own->cq.users),
			.has_channel = own->base.channel != NULL,
		};

		vb_lock_take(&own->cq.lock);
		row.capacity = own->cq.capacity;
		row.waiting = own->cq.head - own->cq.tail;
		row.armed = own->cq.armed;
		row.overrun = own->cq.overrun;
		vb_lock_release(&own->cq.lock);
		vb_resource_list_add(list, VB_RESOURCE_CQ, &row);
	}
}

static void show_srqs(struct vb_context *context, struct vb_resource_list *list)
{
	VB_LIST_FOR_EACH(node, &context->srqs) {
		struct vb_shared_receive_queue *own = vb_container_of(node, struct vb_shared_receive_queue, node);
		struct vb_resource_srq row = {
			.interface_index = context->info.index,
			.session = context->session->number,
			.number = own->handle,
			.pd = own->srq.pd->handle,
			.users = vb_count_read(&own->srq.users),
		};

		vb_lock_take(&own->srq.lock);
		row.depth = own->srq.queue.max_wr;
		row.posted = vb_receive_queue_count(&own->srq.queue);
		row.limit = own->srq.limit;
		vb_lock_release(&own->srq.lock);
		vb_resource_list_add(list, VB_RESOURCE_SRQ, &row);
	}
}

static void show_wqs(struct vb_context *context, struct vb_resource_list *list)
{
	VB_LIST_FOR_EACH(node, &context->wqs) {
		struct vb_work_queue *own = vb_container_of(node, struct vb_work_queue, node);
		struct vb_srq *receives = &own->wq.receives;
		struct vb_resource_wq row = {
			.interface_index = context->info.index,
			.session = context->session->number,
			.number = own->handle,
			.wq_num = receives->number,
			.pd = receives->pd->handle,
			.cq = cq_number(receives->cq),
			.users = vb_count_read(&receives->users),
		};

		vb_lock_take(&receives->lock);
		row.state = own->wq.state;
		row.depth = receives->queue.max_wr;
		row.posted = vb_receive_queue_count(&receives->queue);
		vb_lock_release(&receives->lock);
		vb_resource_list_add(list, VB_RESOURCE_WQ, &row);
	}
}

/* They stay as they were made. */
static void show_rwq_tables(struct vb_context *context, struct vb_resource_list *list)
{
	VB_LIST_FOR_EACH(node, &context->rwq_tables) {
		const struct vb_indirection_table *own = vb_container_of(node, struct vb_indirection_table, node);
		struct vb_resource_rwq_table row = {
			.interface_index = context->info.index,
			.session = context->session->number,
			.number = own->handle,
			.size = own->table->size,
			.queues = own->table->queues,
			.users = vb_count_read(&own->table->users),
		};

		vb_resource_list_add(list, VB_RESOURCE_RWQ_TABLE, &row);
	}
}

/* A PD is freed only under the session's lock: the one that a region names stays while we look at it. */
static void show_memory(struct vb_context *context, uint32_t interface_index, struct vb_resource_list *list)
{
	struct vb_session *session = context->session;

	vb_lock_take(&session->lock);
	VB_LIST_FOR_EACH(pd_node, &session->pds) {
		const struct vb_shared_pd *pd = vb_container_of(pd_node, struct vb_shared_pd, node);
		struct vb_resource_pd row = {
			.interface_index = interface_index,
			.session = session->number,
			.number = pd->pd.handle,
			.users = vb_count_read(&pd->pd.users),
		};

		vb_resource_list_add(list, VB_RESOURCE_PD, &row);
	}
	VB_LIST_FOR_EACH(node, &session->regions) {
		const struct vb_memory_region *region = vb_container_of(node, struct vb_memory_region, node);
		struct vb_region_info info;
		struct vb_resource_mr row = {
			.interface_index = interface_index,
			.session = session->number,
			.key = region->base.lkey,
		};

		/* Those of contexts that share the session are told by these. */
		if (region->base.context != &context->public.context ||
		    vb_region_query(session->memory, row.key, &info) != 0)
			continue;
		row.address = info.start;
		row.length = info.length;
		row.iova = info.iova;
		row.access = info.access;
		row.pd = info.pd->handle;
		vb_resource_list_add(list, VB_RESOURCE_MR, &row);
	}
	vb_lock_release(&session->lock);
}

void vb_context_show(struct vb_endpoint_watcher *watcher, struct vb_resource_list *list)
{
	struct vb_context *context = vb_container_of(watcher, struct vb_context, watcher);
	struct vb_resource_device row = {.session = context->session->number};

	vb_lock_take(&context->lock);
	row.interface_index = context->info.index;
	snprintf(row.name, sizeof(row.name), "%s", context->info.name);
	vb_resource_list_add(list, VB_RESOURCE_DEVICE, &row);
	show_qps(context, list);
	show_cqs(context, list);
	show_srqs(context, list);
	show_wqs(context, list);
	show_rwq_tables(context, list);
	vb_lock_release(&context->lock);
	show_memory(context, row.interface_index, list);
}
