/* SPDX-License-Identifier: MIT
 *
 * What the queues of a session ask of libibverbs: where events go, where addresses come from. Called with queue locks
 * held; everything here only notes and wakes.
 */
#include "queue/observer.h"
#include "verbs/channel.h"
#include "verbs/context.h"
#include "verbs/event_queue.h"
#include "verbs/explain.h"

static void completion_event(struct vb_cq *cq)
{
	vb_channel_announce(cq->owner);
}

static void completion_deadline(struct vb_cq *cq, vb_time when)
{
	struct vb_completion_queue *own = cq->owner;

	vb_endpoint_cq_deadline(vb_context_of(own->base.context)->session->endpoint, cq, when);
}

static void qp_event(struct vb_qp *qp, enum ibv_event_type type)
{
	struct vb_queue_pair *first = qp->owner, *own = first;
	struct ibv_async_event event = {.event_type = type};

	if (qp->host->observer)
		qp->host->observer->event(qp->host->observer, qp->qpn, type);
	/* Every handle hears of it (ibv_open_qp); mostly there is one. */
	do {
		event.element.qp = &own->base;
		vb_event_queue_add(&vb_context_of(own->base.context)->async, &event, own, &own->events_reported);
		own = vb_container_of(own->handles.next, struct vb_queue_pair, handles);
	} while (own != first);
}

/* The public state follows. Of these devices a queue pair has one handle. */
static void qp_connected(struct vb_qp *qp)
{
	((struct vb_queue_pair *)qp->owner)->base.state = IBV_QPS_RTS;
}

static void cq_event(struct vb_cq *cq, enum ibv_event_type type)
{
	struct vb_completion_queue *own = cq->owner;
	struct ibv_async_event event = {.event_type = type};

	vb_explain_raised(own->base.context, type, cq->capacity);
	event.element.cq = &own->base;
	vb_event_queue_add(&vb_context_of(own->base.context)->async, &event, own, &own->async_events_reported);
}

static void srq_event(struct vb_srq *srq, enum ibv_event_type type)
{
	struct vb_shared_receive_queue *own = srq->owner;
	struct ibv_async_event event = {.event_type = type};

	vb_explain_raised(own->base.context, type, 0);
	event.element.srq = &own->base;
	vb_event_queue_add(&vb_context_of(own->base.context)->async, &event, own, &own->events_reported);
}

static void wq_event(struct vb_wq *wq, enum ibv_event_type type)
{
	struct vb_work_queue *own = wq->receives.owner;
	struct ibv_async_event event = {.event_type = type};

	event.element.wq = &own->base;
	vb_event_queue_add(&vb_context_of(own->base.context)->async, &event, own, &own->events_reported);
}

static const struct vb_ah *address_of(struct ibv_ah *ah)
{
	return ah == NULL ? NULL : &vb_address_handle_of(ah)->ah;
}

static uint16_t source_port(const struct vb_queue_host *host, const struct vb_path *path, uint32_t destination_qpn)
{
	const struct vb_session *session = vb_container_of(host, struct vb_session, host);

	return vb_endpoint_source_port(session->endpoint, path, destination_qpn, 0);
}

static void fill_host(struct vb_session *session)
{
	session->host = (struct vb_queue_host){
		.completion_event = completion_event,
		.completion_deadline = completion_deadline,
		.qp_event = qp_event,
		.cq_event = cq_event,
		.srq_event = srq_event,
		.wq_event = wq_event,
		.qp_connected = qp_connected,
		.address_of = address_of,
		.random = vb_endpoint_random,
		.source_port = source_port,
		.share = vb_endpoint_share(session->endpoint),
		.profile = &session->profile,
		.device = session->device,
		.interface_index = session->interface_index,
		.memory = session->memory,
		.counters = session->counters,
		.watch = vb_explain_choose_watch(),
		.observer = vb_endpoint_observer(session->endpoint),
		.pkeys = session->profile.addressing == VB_ADDRESS_LID ? session->pkeys : NULL,
		.lmc = session->profile.addressing == VB_ADDRESS_LID ? &session->lmc : NULL,
	};
}

int vb_session_open(const struct vb_device *device, struct vb_session **out)
{
	int error = vb_session_create(device, out);

	if (error == 0)
		fill_host(*out);
	return error;
}
