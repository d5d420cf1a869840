/* SPDX-License-Identifier: MIT
 *
 * Queue pairs: creating, changing, asking, destroying. The rules of states and attributes are in queue/; here
 * addresses are resolved, numbers are reserved, and the public object is kept in step.
 */
#include <errno.h>
#include <stdlib.h>

#include "verbs/address.h"
#include "verbs/context.h"
#include "verbs/event_queue.h"
#include "verbs/events.h"
#include "verbs/explain.h"
#include "verbs/export.h"
#include "verbs/operations.h"
#include "verbs/public_mutex.h"
#include "verbs/quota.h"
#include "verbs/watch.h"

static void free_queue_pair(struct vb_queue_pair *qp)
{
	vb_explain_drops_in_all(qp);
	vb_watch_free(qp);
	vb_lock_fini(&qp->posting);
	pthread_cond_destroy(&qp->base.cond);
	pthread_mutex_destroy(&qp->base.mutex);
	free(qp);
}

static int check_owners(struct ibv_pd *pd, const struct ibv_qp_init_attr_ex *attr)
{
	if (attr->send_cq == NULL || attr->recv_cq == NULL)
		return -EINVAL;
	if (!vb_same_session(pd->context, attr->send_cq->context) ||
	    !vb_same_session(pd->context, attr->recv_cq->context) ||
	    (attr->srq != NULL && !vb_same_session(pd->context, attr->srq->context)))
		return -EINVAL;
	return 0;
}

/* The number is reserved first and the QP published last: no packet reaches it half made. */
static int create_core(struct vb_queue_pair *qp, struct ibv_pd *pd, const struct ibv_qp_init_attr_ex *attr,
		       unsigned create_flags)
{
	struct vb_session *session = vb_context_of(pd->context)->session;
	struct vb_qp_config config = {
		.type = attr->qp_type,
		.pd = vb_pd_of(pd),
		.send_cq = &vb_completion_queue_of(attr->send_cq)->cq,
		.recv_cq = &vb_completion_queue_of(attr->recv_cq)->cq,
		.srq = attr->srq != NULL ? &vb_shared_receive_queue_of(attr->srq)->srq : NULL,
		.cap = attr->cap,
		.signal_all = attr->sq_sig_all != 0,
		.create_flags = create_flags,
	};
	int error = vb_endpoint_reserve_qpn(session->endpoint, &config.qpn);

	if (error != 0)
		return error;
	error = vb_qp_create(&config, &session->host, vb_endpoint_transport(session->endpoint, session->host.profile->kind), qp, &qp->qp);
	if (error != 0)
		vb_endpoint_release_qpn(session->endpoint, config.qpn);
	return error;
}

static struct ibv_qp *create(struct ibv_pd *pd, struct ibv_qp_init_attr_ex *attr, unsigned create_flags,
			     bool extended, uint64_t send_ops)
{
	const struct vb_profile_type *type = vb_profile_type(vb_profile_of_context(pd->context), attr->qp_type);
	struct vb_context *context = vb_context_of(pd->context);
	struct vb_queue_pair *qp;
	int error;

	if (type == NULL)
		return vb_fail_null(-EOPNOTSUPP);
	error = check_owners(pd, attr);
	if (error == 0 && extended)
		error = vb_qp_ex_check_operations(type->opcodes, send_ops);
	if (error != 0)
		return vb_fail_null(error);
	error = vb_quota_take(pd->context, VB_COUNTED_QP);
	if (error != 0)
		return vb_fail_null(error);
	qp = calloc(1, sizeof(*qp));
	if (qp == NULL) {
		vb_quota_give(pd->context, VB_COUNTED_QP);
		return vb_fail_null(-ENOMEM);
	}
	pthread_mutex_init(&qp->base.mutex, NULL);
	pthread_cond_init(&qp->base.cond, NULL);
	vb_lock_init(&qp->posting, VB_RANK_POSTING);
	vb_list_init(&qp->multicast);
	vb_list_init(&qp->node);
	error = create_core(qp, pd, attr, create_flags);
	if (error != 0) {
		free_queue_pair(qp);
		vb_quota_give(pd->context, VB_COUNTED_QP);
		return vb_fail_null(error);
	}
	qp->base.context = pd->context;
	qp->base.qp_context = attr->qp_context;
	qp->base.pd = pd;
	qp->base.send_cq = attr->send_cq;
	qp->base.recv_cq = attr->recv_cq;
	qp->base.srq = attr->srq;
	qp->base.handle = qp->base.qp_num = qp->qp->qpn;
	qp->base.state = qp->qp->state;
	qp->base.qp_type = attr->qp_type;
	if (extended)
		vb_qp_ex_fill_operations(qp, send_ops);
	attr->cap = qp->qp->attr.cap;
	vb_domain_hold(vb_domain_of(pd));
	vb_context_hold(pd->context);
	vb_lock_take(&context->lock);
	vb_list_append(&context->qps, &qp->node);
	vb_lock_release(&context->lock);
	vb_endpoint_publish(context->session->endpoint, qp->qp, context->session->counters);
	return &qp->base;
}

VB_EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex wide;
	struct ibv_qp *qp;

	if (pd == NULL || attr == NULL)
		return vb_fail_null(-EINVAL);
	wide = (struct ibv_qp_init_attr_ex){
		.qp_context = attr->qp_context,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.cap = attr->cap,
		.qp_type = attr->qp_type,
		.sq_sig_all = attr->sq_sig_all,
	};
	qp = create(pd, &wide, 0, false, 0);
	if (qp != NULL)
		attr->cap = wide.cap;
	else
		vb_explain_refused_create_qp(pd->context, &wide);
	return qp;
}
VB_EXPORT_COMPAT(ibv_create_qp);

struct ibv_qp *vb_verbs_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	const uint32_t supported = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS |
				   IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	bool extended = (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
	unsigned create_flags = attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS ? attr->create_flags : 0;

	struct ibv_qp *qp;

	if ((attr->comp_mask & ~supported) != 0 || (create_flags & ~(unsigned)IBV_QP_CREATE_BLOCK_SELF_MCAST_LB) != 0) {
		errno = EOPNOTSUPP;
		vb_explain_refused_create_qp(context, attr);
		return NULL;
	}
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || attr->pd == NULL ||
	    !vb_same_session(context, attr->pd->context)) {
		vb_explain_refused("ibv_create_qp_ex", NULL, 0, EINVAL,
				   "a PD of the same open device is needed, and IBV_QP_INIT_ATTR_PD in comp_mask.", NULL);
		return vb_fail_null(-EINVAL);
	}
	qp = create(attr->pd, attr, create_flags, extended, attr->send_ops_flags);
	if (qp == NULL)
		vb_explain_refused_create_qp(context, attr);
	return qp;
}

VB_EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	return qp != NULL && vb_queue_pair_of(qp)->extended ? &vb_queue_pair_of(qp)->ex : NULL;
}

VB_EXPORT int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
{
	struct vb_session *session;
	struct vb_qp *core;
	struct vb_device_info info;
	struct vb_path path, *resolved = NULL;
	uint32_t destination = 0;
	bool begun = false;
	int error;

	if (qp == NULL || attr == NULL)
		return vb_fail_number(EINVAL);
	core = vb_queue_pair_of(qp)->qp;
	if (qp->handle != core->qpn)
		return vb_fail_number(ENOENT);
	session = vb_context_of(qp->context)->session;
	if ((attr_mask & IBV_QP_AV) && session->host.profile->connection == VB_CONNECT_CM) {
		vb_lock_take(&core->lock);
		destination = attr_mask & IBV_QP_DEST_QPN ? attr->dest_qp_num : core->attr.dest_qp_num;
		vb_lock_release(&core->lock);
		error = vb_address_resolve(qp->context, &attr->ah_attr, destination, &path);
		if (error != 0)
			return vb_explain_refused_modify(qp, attr, attr_mask, -error, -error);
		resolved = &path;
	}
	vb_context_info(qp->context, &info);
	vb_endpoint_send_deferred(session->endpoint, core);
	if (attr_mask & IBV_QP_STATE)
		begun = vb_endpoint_begin_modify(session->endpoint, core, attr->qp_state, resolved, destination, session->table);
	error = vb_qp_modify(core, attr, attr_mask, resolved, info.active_mtu, vb_endpoint_now());
	vb_endpoint_end_modify(session->endpoint, begun);
	if (error != 0)
		return vb_explain_refused_modify(qp, attr, attr_mask, 0, -error);
	/* Leaving SQD, or a new path, may have freed work to go out. */
	vb_lock_take(&core->lock);
	if (attr_mask & IBV_QP_STATE)
		qp->state = core->state;
	if (vb_watches && core->state == IBV_QPS_RESET)
		vb_watch_forget(vb_queue_pair_of(qp));
	vb_endpoint_transmit(session->endpoint, core, vb_endpoint_now());
	vb_lock_release(&core->lock);
	return 0;
}
VB_EXPORT_COMPAT(ibv_modify_qp);

VB_EXPORT int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
			   struct ibv_qp_init_attr *init_attr)
{
	struct ibv_qp_init_attr ignored;

	(void)attr_mask; /* ibv_query_qp(3): a hint; more may be returned */
	if (qp == NULL || attr == NULL)
		return vb_fail_number(EINVAL);
	if (qp->handle != vb_queue_pair_of(qp)->qp->qpn)
		return vb_fail_number(ENOENT);
	if (init_attr == NULL)
		init_attr = &ignored;
	vb_qp_query(vb_queue_pair_of(qp)->qp, attr, init_attr);
	init_attr->qp_context = qp->qp_context;
	init_attr->send_cq = qp->send_cq;
	init_attr->recv_cq = qp->recv_cq;
	init_attr->srq = qp->srq;
	qp->state = attr->qp_state;
	return 0;
}
VB_EXPORT_COMPAT(ibv_query_qp);

/* ibv_destroy_qp(3): fails while attached to a multicast group. */
VB_EXPORT int ibv_destroy_qp(struct ibv_qp *qp)
{
	struct vb_queue_pair *own = vb_queue_pair_of(qp);
	struct vb_context *context;
	bool attached, published;
	uint32_t reported;

	if (qp == NULL)
		return vb_fail_number(EINVAL);
	if (qp->handle != own->qp->qpn)
		return vb_fail_number(ENOENT);
	vb_public_lock(&qp->mutex);
	attached = !vb_list_is_empty(&own->multicast);
	vb_public_unlock(&qp->mutex);
	if (attached) {
		vb_explain_refused("ibv_destroy_qp", "QP", qp->qp_num, EBUSY, "it is attached to a multicast group.",
				   "Call ibv_detach_mcast first.");
		return vb_fail_number(EBUSY);
	}
	context = vb_context_of(qp->context);
	vb_lock_take(&context->lock);
	published = !vb_list_is_empty(&own->node);
	vb_list_remove(&own->node);
	vb_lock_release(&context->lock);
	if (published)
		vb_endpoint_withdraw(context->session->endpoint, own->qp);
	reported = vb_event_queue_forget(&context->async, own, &own->events_reported);
	if (vb_watches) {
		vb_watch_acknowledged(&qp->mutex, &qp->cond, &qp->events_completed, reported, "QP",
				      "ibv_ack_async_event");
		vb_watch_forget(own);
	}
	vb_events_wait_acknowledged(&qp->mutex, &qp->cond, &qp->events_completed, reported);
	vb_qp_destroy(own->qp);
	vb_domain_put(vb_domain_of(qp->pd));
	free_queue_pair(own);
	vb_quota_give(&context->public.context, VB_COUNTED_QP);
	vb_context_put(&context->public.context);
	return 0;
}
VB_EXPORT_COMPAT(ibv_destroy_qp);

/* Packets are placed in order, and within a packet the last bytes become visible last (memory/place.h). */
VB_EXPORT int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	if (qp == NULL || flags != 0 || qp->qp_type == IBV_QPT_UD)
		return 0;
	switch (op) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_SEND_WITH_INV:
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
	case IBV_WR_RDMA_READ:
		return 1;
	default:
		return 0;
	}
}
