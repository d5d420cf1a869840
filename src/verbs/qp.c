/* SPDX-License-Identifier: MIT
 *
 * Queue pairs: creating, changing, asking, destroying. The rules of states and attributes are in queue/; here
 * addresses are resolved, numbers are reserved, and the public object is kept in step.
 */
#include <errno.h>
#include <stdlib.h>

#include "io/cancellation.h"
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
	pthread_cond_destroy(&qp->base.cond);
	pthread_mutex_destroy(&qp->base.mutex);
	free(qp);
}

static bool is_scaled(const struct ibv_qp_init_attr_ex *attr)
{
	return (attr->comp_mask & (IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH)) != 0;
}

/* Receive side scaling. A table and a hash, and no queues: as the kernel's uverbs and mlx5 have it. */
static int check_scaled(struct ibv_context *context, const struct ibv_qp_init_attr_ex *attr, unsigned create_flags, struct vb_rss *rss)
{
	const uint32_t needed = IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
	struct vb_indirection_table *table;

	if (attr->qp_type != IBV_QPT_RAW_PACKET)
		return -EOPNOTSUPP;
	if ((attr->comp_mask & needed) != needed || attr->rwq_ind_tbl == NULL || attr->pd == NULL || attr->send_cq != NULL ||
	    attr->recv_cq != NULL || attr->srq != NULL || create_flags != 0 || (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) ||
	    attr->cap.max_send_wr != 0 || attr->cap.max_recv_wr != 0 || attr->cap.max_recv_sge != 0)
		return -EINVAL;
	table = vb_indirection_table_of(attr->rwq_ind_tbl);
	if (!vb_same_session(context, attr->pd->context) || !vb_same_session(context, attr->rwq_ind_tbl->context))
		return -EINVAL;
	if (attr->rwq_ind_tbl->ind_tbl_handle != (int)table->handle)
		return -ENOENT;
	return vb_rss_parse(rss, &attr->rx_hash_conf, table->table);
}

/* Which of the objects belong to it (A14), all of one open device. Others are ignored, as the kernel's verbs ignore them. */
static int check_owners(struct ibv_context *context, const struct ibv_qp_init_attr_ex *attr)
{
	bool has_xrcd = (attr->comp_mask & IBV_QP_INIT_ATTR_XRCD) != 0;

	if (attr->qp_type == IBV_QPT_XRC_RECV)
		return has_xrcd && attr->xrcd != NULL && vb_same_session(context, attr->xrcd->context) ? 0 : -EINVAL;
	if (attr->pd == NULL || attr->send_cq == NULL || !vb_same_session(context, attr->pd->context) ||
	    !vb_same_session(context, attr->send_cq->context))
		return -EINVAL;
	if (attr->qp_type == IBV_QPT_XRC_SEND)
		return 0;
	if (attr->recv_cq == NULL || !vb_same_session(context, attr->recv_cq->context) ||
	    (attr->srq != NULL && !vb_same_session(context, attr->srq->context)))
		return -EINVAL;
	/* One of XRC is reached by its number alone. */
	return attr->srq != NULL && vb_shared_receive_queue_of(attr->srq)->xrcd != NULL ? -EINVAL : 0;
}

/* Without those that do not count. */
static void drop_ignored(struct ibv_qp_init_attr_ex *attr)
{
	if (attr->qp_type == IBV_QPT_XRC_RECV) {
		attr->pd = NULL;
		attr->send_cq = NULL;
	}
	if (attr->qp_type == IBV_QPT_XRC_RECV || attr->qp_type == IBV_QPT_XRC_SEND) {
		attr->recv_cq = NULL;
		attr->srq = NULL;
	}
}

/* The number is reserved first and the QP published last: no packet reaches it half made. */
static int create_core(struct vb_queue_pair *qp, struct vb_session *session, const struct ibv_qp_init_attr_ex *attr,
		       unsigned create_flags, const struct vb_rss *rss)
{
	struct vb_qp_config config = {
		.type = attr->qp_type,
		.pd = attr->pd != NULL ? vb_pd_of(attr->pd) : NULL,
		.send_cq = attr->send_cq != NULL ? &vb_completion_queue_of(attr->send_cq)->cq : NULL,
		.recv_cq = attr->recv_cq != NULL ? &vb_completion_queue_of(attr->recv_cq)->cq : NULL,
		.srq = attr->srq != NULL ? &vb_shared_receive_queue_of(attr->srq)->srq : NULL,
		.xrc_domain = attr->qp_type == IBV_QPT_XRC_RECV ? &vb_xrcd_of(attr->xrcd)->shared->domain : NULL,
		.rss = rss,
		.cap = attr->cap,
		.signal_all = attr->sq_sig_all != 0,
		.create_flags = create_flags,
		.allocator = vb_allocator_of(attr->pd),
	};
	int error;

	qp->lane = vb_endpoint_choose_lane(session->endpoint, session->host.profile->kind, config.type,
					   config.send_cq != NULL ? config.send_cq->poller : NULL,
					   config.recv_cq != NULL ? config.recv_cq->poller : NULL);
	error = vb_endpoint_reserve_qpn(session->endpoint, qp->lane, &config.qpn);

	if (error != 0)
		return error;
	error = vb_qp_create(&config, &session->host,
			     vb_endpoint_transport(session->endpoint, session->host.profile->kind, config.type), qp, &qp->qp);
	if (error == 0) {
		error = vb_endpoint_prepare(session->endpoint, qp->qp);
		if (error != 0)
			vb_qp_destroy(qp->qp);
	}
	if (error != 0)
		vb_endpoint_release_qpn(session->endpoint, config.qpn);
	return error;
}

static struct vb_queue_pair *allocate_queue_pair(void)
{
	struct vb_queue_pair *qp = calloc(1, sizeof(*qp));

	if (qp == NULL)
		return NULL;
	pthread_mutex_init(&qp->base.mutex, NULL);
	pthread_cond_init(&qp->base.cond, NULL);
	vb_lock_init(&qp->posting, VB_RANK_POSTING);
	vb_list_init(&qp->multicast);
	vb_list_init(&qp->node);
	vb_list_init(&qp->handles);
	return qp;
}

/* The public object, and what it keeps. */
static void fill_public(struct vb_queue_pair *qp, struct ibv_context *context, const struct ibv_qp_init_attr_ex *attr)
{
	qp->base.context = context;
	qp->base.qp_context = attr->qp_context;
	qp->base.pd = attr->pd;
	qp->base.send_cq = attr->send_cq;
	qp->base.recv_cq = attr->recv_cq;
	qp->base.srq = attr->srq;
	qp->base.handle = qp->base.qp_num = qp->qp->qpn;
	/* As libibverbs has it, whatever the device: ibv_query_qp of an RNIC says INIT. */
	qp->base.state = IBV_QPS_RESET;
	qp->base.qp_type = attr->qp_type;
	if (attr->qp_type == IBV_QPT_XRC_RECV) {
		qp->xrcd = vb_xrcd_of(attr->xrcd);
		vb_count_up(&qp->xrcd->users);
	}
	if (attr->pd != NULL)
		vb_domain_hold(vb_domain_of(attr->pd));
	vb_context_hold(context);
}

static struct ibv_qp *create(struct ibv_context *public, const struct ibv_qp_init_attr_ex *asked, struct ibv_qp_cap *granted,
			     unsigned create_flags, bool extended)
{
	const struct vb_profile_type *type = vb_profile_type(vb_profile_of_context(public), asked->qp_type);
	struct vb_context *context = vb_context_of(public);
	struct ibv_qp_init_attr_ex attr = *asked;
	struct vb_queue_pair *qp;
	struct vb_rss rss = {0};
	int error;

	if (type == NULL)
		return vb_fail_null(-EOPNOTSUPP);
	error = is_scaled(&attr) ? check_scaled(public, &attr, create_flags, &rss) : check_owners(public, &attr);
	if (error == 0 && extended)
		error = vb_qp_ex_check_operations(type->opcodes, attr.send_ops_flags);
	if (error != 0)
		return vb_fail_null(error);
	drop_ignored(&attr);
	error = vb_quota_take(public, VB_COUNTED_QP);
	if (error != 0)
		return vb_fail_null(error);
	qp = allocate_queue_pair();
	if (qp == NULL) {
		vb_quota_give(public, VB_COUNTED_QP);
		return vb_fail_null(-ENOMEM);
	}
	error = create_core(qp, context->session, &attr, create_flags, is_scaled(&attr) ? &rss : NULL);
	if (error != 0) {
		free_queue_pair(qp);
		vb_quota_give(public, VB_COUNTED_QP);
		return vb_fail_null(error);
	}
	fill_public(qp, public, &attr);
	if (extended)
		vb_qp_ex_fill_operations(qp, attr.send_ops_flags);
	*granted = qp->qp->attr.cap;
	vb_lock_take(&context->lock);
	vb_list_append(&context->qps, &qp->node);
	vb_lock_release(&context->lock);
	vb_endpoint_publish(context->session->endpoint, qp->qp, qp->lane, context->session->counters);
	return &qp->base;
}

VB_EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	VB_UNCANCELLED;
	struct ibv_qp_init_attr_ex wide;
	struct ibv_qp *qp;

	if (pd == NULL || attr == NULL)
		return vb_fail_null(-EINVAL);
	wide = (struct ibv_qp_init_attr_ex){
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
		.qp_context = attr->qp_context,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.cap = attr->cap,
		.qp_type = attr->qp_type,
		.sq_sig_all = attr->sq_sig_all,
	};
	qp = create(pd->context, &wide, &attr->cap, 0, false);
	if (qp == NULL)
		vb_explain_refused_create_qp(pd->context, &wide);
	return qp;
}
VB_EXPORT_COMPAT(ibv_create_qp);

struct ibv_qp *vb_verbs_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	VB_UNCANCELLED;
	const uint32_t supported = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS |
				   IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_IND_TABLE |
				   IBV_QP_INIT_ATTR_RX_HASH;
	bool extended = (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
	unsigned create_flags = attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS ? attr->create_flags : 0;

	struct ibv_qp *qp;

	if ((attr->comp_mask & ~supported) != 0 || (create_flags & ~(unsigned)IBV_QP_CREATE_BLOCK_SELF_MCAST_LB) != 0) {
		errno = EOPNOTSUPP;
		vb_explain_refused_create_qp(context, attr);
		return NULL;
	}
	if (attr->qp_type != IBV_QPT_XRC_RECV &&
	    (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || attr->pd == NULL || !vb_same_session(context, attr->pd->context))) {
		vb_explain_refused("ibv_create_qp_ex", NULL, 0, EINVAL,
				   "a PD of the same open device is needed, and IBV_QP_INIT_ATTR_PD in comp_mask.", NULL);
		return vb_fail_null(-EINVAL);
	}
	qp = create(context, attr, &attr->cap, create_flags, extended);
	if (qp == NULL)
		vb_explain_refused_create_qp(context, attr);
	return qp;
}

/* `qp` becomes one more handle of the domain's queue pair of that number. False: there is none, or it is being destroyed. */
static bool join_handles(struct vb_queue_pair *qp, struct vb_xrc_domain *domain, uint32_t number)
{
	vb_mutex_lock(&domain->members);
	VB_LIST_FOR_EACH(node, &domain->qps) {
		struct vb_qp *core = vb_container_of(node, struct vb_qp, in_domain);
		struct vb_queue_pair *other;

		if (core->qpn != number)
			continue;
		vb_lock_take(&core->lock);
		other = core->owner;
		if (!other->dying) {
			qp->qp = core;
			vb_list_append(&other->handles, &qp->handles);
		}
		vb_lock_release(&core->lock);
	}
	vb_mutex_unlock(&domain->members);
	return qp->qp != NULL;
}

/* ibv_open_qp(3): the queue pair lives until the last of its handles is destroyed. */
struct ibv_qp *vb_verbs_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr)
{
	VB_UNCANCELLED;
	const uint32_t needed = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
	bool whole = attr != NULL && (attr->comp_mask & needed) == needed && attr->xrcd != NULL &&
		     attr->qp_type == IBV_QPT_XRC_RECV && vb_same_session(context, attr->xrcd->context);
	struct vb_queue_pair *qp = allocate_queue_pair();
	struct ibv_qp_init_attr_ex public = {.qp_type = IBV_QPT_XRC_RECV};

	if (qp == NULL)
		return vb_fail_null(-ENOMEM);
	if (!whole || !join_handles(qp, &vb_xrcd_of(attr->xrcd)->shared->domain, attr->qp_num)) {
		free_queue_pair(qp);
		vb_explain_refused("ibv_open_qp", NULL, 0, EINVAL, "the XRC domain has no XRC_RECV queue pair of that number.",
				   "qp_num, xrcd and qp_type must be given; the queue pair must be of the same open device.");
		return vb_fail_null(-EINVAL);
	}
	public.qp_context = attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT ? attr->qp_context : NULL;
	public.xrcd = attr->xrcd;
	fill_public(qp, context, &public);
	return &qp->base;
}

VB_EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	return qp != NULL && vb_queue_pair_of(qp)->extended ? &vb_queue_pair_of(qp)->ex : NULL;
}

/* What only the other half of an XRC connection has is passed over, not refused, as the kernel's uverbs do: programs (perftest)
 * set all that RC has. */
static int without_ignored(enum ibv_qp_type type, int attr_mask)
{
	switch (type) {
	case IBV_QPT_XRC_SEND:
		return attr_mask & ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	case IBV_QPT_XRC_RECV:
		return attr_mask & ~(IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY);
	default:
		return attr_mask;
	}
}

/* It takes frames from its creation on; its work queues have the states. So with mlx5. */
static int refuse_scaled(const char *verb, const struct ibv_qp *qp)
{
	vb_explain_refused(verb, "QP", qp->qp_num, EOPNOTSUPP, "queue pairs with an indirection table have no states to go through.",
			   "Use ibv_modify_wq for the work queues of its table.");
	return vb_fail_number(EOPNOTSUPP);
}

VB_EXPORT int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
{
	VB_UNCANCELLED;
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
	if (core->rss != NULL)
		return refuse_scaled("ibv_modify_qp", qp);
	attr_mask = without_ignored(core->type, attr_mask);
	session = vb_context_of(qp->context)->session;
	if ((attr_mask & IBV_QP_AV) && session->host.profile->connection == VB_CONNECT_CM) {
		vb_lock_take(&core->lock);
		destination = attr_mask & IBV_QP_DEST_QPN ? attr->dest_qp_num : core->attr.dest_qp_num;
		vb_lock_release(&core->lock);
		error = vb_address_resolve(qp->context, &attr->ah_attr, destination, vb_endpoint_lane(core), &path);
		if (error != 0)
			return vb_explain_refused_modify(qp, attr, attr_mask, -error, -error);
		resolved = &path;
	}
	vb_context_info(qp->context, &info);
	vb_endpoint_send_deferred(session->endpoint, core);
	if (attr_mask & IBV_QP_STATE)
		begun = vb_endpoint_begin_modify(session->endpoint, core, attr->qp_state, resolved, destination, session->table);
	error = vb_qp_modify(core, attr, attr_mask, resolved, info.active_mtu, vb_endpoint_now());
	vb_endpoint_end_modify(session->endpoint, core, begun);
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
	VB_UNCANCELLED;
	struct ibv_qp_init_attr ignored;

	(void)attr_mask; /* ibv_query_qp(3): a hint; more may be returned */
	if (qp == NULL || attr == NULL)
		return vb_fail_number(EINVAL);
	if (qp->handle != vb_queue_pair_of(qp)->qp->qpn)
		return vb_fail_number(ENOENT);
	if (vb_queue_pair_of(qp)->qp->rss != NULL)
		return refuse_scaled("ibv_query_qp", qp);
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

/* Another handle stands for the queue pair from now on. False: there is none, this was the last. */
static bool hand_on(struct vb_queue_pair *own)
{
	struct vb_qp *core = own->qp;
	struct vb_queue_pair *other;
	struct vb_context *context;
	bool listed;

	vb_lock_take(&core->lock);
	if (vb_list_is_empty(&own->handles)) {
		own->dying = true;
		vb_lock_release(&core->lock);
		return false;
	}
	other = vb_container_of(own->handles.next, struct vb_queue_pair, handles);
	vb_list_remove(&own->handles);
	if (core->owner == own)
		core->owner = other;
	vb_lock_release(&core->lock);
	context = vb_context_of(own->base.context);
	vb_lock_take(&context->lock);
	listed = !vb_list_is_empty(&own->node);
	vb_list_remove(&own->node);
	vb_lock_release(&context->lock);
	if (listed) {
		context = vb_context_of(other->base.context);
		vb_lock_take(&context->lock);
		vb_list_append(&context->qps, &other->node);
		vb_lock_release(&context->lock);
	}
	return true;
}

/* No packet reaches it any more. */
static void withdraw(struct vb_queue_pair *own)
{
	struct vb_context *context = vb_context_of(own->base.context);
	bool published;

	vb_lock_take(&context->lock);
	published = !vb_list_is_empty(&own->node);
	vb_list_remove(&own->node);
	vb_lock_release(&context->lock);
	if (published)
		vb_endpoint_withdraw(context->session->endpoint, own->qp);
}

/* ibv_destroy_qp(3): fails while attached to a multicast group. */
VB_EXPORT int ibv_destroy_qp(struct ibv_qp *qp)
{
	VB_UNCANCELLED;
	struct vb_queue_pair *own = vb_queue_pair_of(qp);
	struct vb_context *context;
	bool attached, lives_on;
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
	if (vb_count_read(&own->flows) != 0) {
		vb_explain_refused("ibv_destroy_qp", "QP", qp->qp_num, EBUSY, "flow rules give it frames.",
				   "Call ibv_destroy_flow first.");
		return vb_fail_number(EBUSY);
	}
	context = vb_context_of(qp->context);
	lives_on = hand_on(own);
	if (!lives_on)
		withdraw(own);
	reported = vb_event_queue_forget(&context->async, own, &own->events_reported);
	if (vb_watches) {
		vb_watch_acknowledged(&qp->mutex, &qp->cond, &qp->events_completed, reported, "QP",
				      "ibv_ack_async_event");
		vb_watch_forget(own);
	}
	vb_events_wait_acknowledged(&qp->mutex, &qp->cond, &qp->events_completed, reported);
	if (!lives_on) {
		vb_qp_destroy(own->qp);
		vb_quota_give(&context->public.context, VB_COUNTED_QP);
	}
	if (qp->pd != NULL)
		vb_domain_put(vb_domain_of(qp->pd));
	if (own->xrcd != NULL)
		vb_count_down(&own->xrcd->users);
	free_queue_pair(own);
	vb_context_put(&context->public.context);
	return 0;
}
VB_EXPORT_COMPAT(ibv_destroy_qp);

/* Packets are placed in order, and within a packet the last bytes become visible last (memory/place.h). */
VB_EXPORT int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	if (qp == NULL || flags != 0 || qp->qp_type == IBV_QPT_UD || qp->qp_type == IBV_QPT_RAW_PACKET)
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
