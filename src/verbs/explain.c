/* SPDX-License-Identifier: MIT
 *
 * Gathering the evidence. Failures arrive with the queue pair's lock held and are copied out; refusals come from the
 * verb that refused, in the application's thread.
 */
#include "verbs/explain.h"

#include <errno.h>
#include <string.h>

#include "explain/misuse.h"
#include "explain/refusal.h"
#include "io/explain_output.h"
#include "progress/endpoint.h"
#include "verbs/context.h"
#include "verbs/explainer.h"
#include "verbs/watch.h"

static const struct vb_path *path_of(const struct vb_qp *qp, const struct vb_failure *failure)
{
	static const uint8_t unset[16];
	const struct vb_path *path = &qp->path;

	if (qp->type == IBV_QPT_UD)
		path = failure->wqe ? &failure->wqe->datagram.path : NULL;
	return path && memcmp(path->destination, unset, sizeof(unset)) != 0 ? path : NULL;
}

static void gather(const struct vb_qp *qp, const struct vb_failure *failure, struct vb_explain_failure *out)
{
	const struct vb_path *path = path_of(qp, failure);
	struct vb_transport_status status;

	*out = (struct vb_explain_failure){
		.kind = failure->kind,
		.status = failure->status,
		.fault = *failure->why,
		.has_opcode = failure->wqe != NULL,
		.opcode = failure->wqe ? failure->wqe->opcode : IBV_WR_SEND,
		.wr_id = failure->wqe     ? failure->wqe->wr_id
			 : failure->taken ? failure->taken->wr_id
					  : failure->why->wr_id,
		.qpn = qp->qpn,
		.peer_qpn = qp->type == IBV_QPT_UD ? failure->why->peer_qpn : qp->attr.dest_qp_num,
		.sq_psn = qp->attr.sq_psn,
		.rq_psn = qp->attr.rq_psn,
		.pd = qp->pd ? qp->pd->handle : 0,
		.type = qp->type,
		.state = qp->state,
		.timeout = qp->attr.timeout,
		.retry_cnt = qp->attr.retry_cnt,
		.rnr_retry = qp->attr.rnr_retry,
		.mtu = qp->path_mtu,
		.has_event = failure->has_event,
		.event = failure->event,
		.flushed_sends = failure->flushed_sends,
		.flushed_receives = failure->flushed_receives,
		.cq_capacity = qp->send_cq && (qp->send_cq->overrun || !qp->recv_cq) ? qp->send_cq->capacity :
			       qp->recv_cq                                        ? qp->recv_cq->capacity :
											   0,
	};
	memcpy(out->stray_source, qp->stray_source, sizeof(out->stray_source));
	if (vb_qp_is_reliable(qp)) {
		vb_endpoint_query_qp(qp, &status);
		out->next_psn = (status.acknowledged + status.outstanding) & 0xffffff;
	}
	if (path) {
		out->has_peer = true;
		memcpy(out->peer, path->destination, sizeof(out->peer));
		memcpy(out->source, path->source, sizeof(out->source));
	}
}

static void failed(struct vb_qp *qp, const struct vb_failure *failure)
{
	struct vb_queue_pair *own = qp->owner;
	struct vb_explain_failure evidence;

	if (!vb_explains)
		return;
	/* An end at which nothing was to be sent any more is no news, nor is work posted again and again after it. */
	if (failure->kind == VB_FLUSHED_BY_APPLICATION && failure->flushed_sends == 0 &&
	    (failure->flushed_receives == 0 || !vb_explain_output_tells_all()))
		return;
	if (failure->kind == VB_FLUSHED_LATE) {
		if (own->watched.told_late)
			return;
		own->watched.told_late = true;
	}
	gather(qp, failure, &evidence);
	vb_explainer_failure(&evidence, path_of(qp, failure));
}

/* The first of each cause at once, the rest counted: the sender decides how many there are. */
static void dropped(struct vb_qp *qp, const struct vb_drop *drop)
{
	struct vb_queue_pair *own = qp->owner;
	const struct vb_explain_drops drops = {
		.qpn = qp->qpn,
		.qkey = qp->attr.qkey,
		.state = qp->state,
		.cause = drop->cause,
		.drop = drop,
		.count = 1,
	};
	struct vb_report report;

	if (!vb_explains || own->watched.dropped[drop->cause]++ > 0)
		return;
	vb_explain_dropped(&drops, &report);
	vb_explainer_write(&report);
}

void vb_explain_drops_in_all(const struct vb_queue_pair *qp)
{
	struct vb_report report;

	for (unsigned cause = 0; vb_explains && cause < VB_DROP_CAUSES; cause++) {
		const struct vb_explain_drops drops = {
			.qpn = qp->base.qp_num,
			.cause = (enum vb_drop_cause)cause,
			.count = qp->watched.dropped[cause],
		};

		if (drops.count < 2)
			continue;
		vb_explain_dropped(&drops, &report);
		vb_explainer_write(&report);
	}
}

const struct vb_queue_watch *vb_explain_choose_watch(void)
{
	static const struct vb_queue_watch watch = {
		.failed = failed,
		.dropped = dropped,
		.posting_sends = vb_watch_posting_sends,
		.posted_receives = vb_watch_posted_receives,
		.completing_send = vb_watch_completing_send,
		.completing_receive = vb_watch_completing_receive,
	};

	vb_explain_settings_read();
	return vb_explains || vb_watches ? &watch : NULL;
}

void vb_explain_polled(struct vb_endpoint *endpoint, const struct ibv_wc *wc, int count)
{
	for (int i = 0; i < count; i++) {
		if (wc[i].status == IBV_WC_SUCCESS || wc[i].status == IBV_WC_WR_FLUSH_ERR)
			continue;
		vb_explainer_await(endpoint);
		return;
	}
}

/* ---- refusals ---- */

int vb_explain_refused_modify(struct ibv_qp *qp, const struct ibv_qp_attr *attr, int attr_mask, int path_error,
			      int error)
{
	struct vb_qp *core = vb_queue_pair_of(qp)->qp;
	struct vb_device_info info;
	struct vb_explain_modify modify;
	struct vb_report report;

	if (!vb_explains)
		return vb_fail_number(error);
	vb_context_info(qp->context, &info);
	modify = (struct vb_explain_modify){
		.profile = core->host->profile,
		.qpn = core->qpn,
		.type = core->type,
		.attr = attr,
		.mask = attr_mask,
		.path_error = path_error,
		.active_mtu = info.active_mtu,
		.error = error,
	};
	if ((attr_mask & IBV_QP_AV) && attr->ah_attr.grh.sgid_index < info.gid_count)
		memcpy(modify.source, info.gid[attr->ah_attr.grh.sgid_index].gid, sizeof(modify.source));
	vb_lock_take(&core->lock);
	modify.from = core->state;
	vb_lock_release(&core->lock);
	vb_explain_modify_qp(&modify, &report);
	vb_explainer_write(&report);
	return vb_fail_number(error);
}

void vb_explain_refused_send(const struct vb_qp *qp, const struct ibv_send_wr *wr, int error)
{
	struct vb_report report;

	if (!vb_explains)
		return;
	vb_explain_post_send(qp, wr, error, &report);
	vb_explainer_write(&report);
}

void vb_explain_refused_receive(const struct vb_qp *qp, const struct ibv_recv_wr *wr, int error)
{
	struct vb_report report;

	if (!vb_explains)
		return;
	vb_explain_post_receive(qp, wr, error, &report);
	vb_explainer_write(&report);
}

void vb_explain_refused_create_qp(struct ibv_context *context, const struct ibv_qp_init_attr_ex *attr)
{
	struct vb_report report;
	int error = errno;

	if (!vb_explains)
		return;
	vb_explain_create_qp(vb_profile_of_context(context), attr, error, &report);
	vb_explainer_write(&report);
	errno = error;
}

void vb_explain_refused_register(struct ibv_context *context, const void *address, size_t length, unsigned access)
{
	struct vb_report report;
	int error = errno;

	if (!vb_explains)
		return;
	vb_explain_register(vb_profile_of_context(context), "ibv_reg_mr", (uintptr_t)address, length, access, error, &report);
	vb_explainer_write(&report);
	errno = error;
}

void vb_explain_refused(const char *verb, const char *object, uint64_t number, int error, const char *cause,
			const char *fix)
{
	struct vb_report report;
	int saved_errno = errno;

	if (!vb_explains)
		return;
	vb_explain_verb(verb, object, number, error, cause, fix, &report);
	vb_explainer_write(&report);
	errno = saved_errno;
}

void vb_explain_raised(struct ibv_context *context, enum ibv_event_type event, uint32_t capacity)
{
	struct vb_report report;

	if (vb_explains && vb_explain_event(event, context->device->name, capacity, &report))
		vb_explainer_write(&report);
}
