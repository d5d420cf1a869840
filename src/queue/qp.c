/* SPDX-License-Identifier: MIT
 *
 * Making a queue pair, asking it, and taking it down. Its state changes are in queue/qp_modify.c, work enters in
 * queue/qp_post.c and leaves in queue/qp_complete.c.
 */
#include "queue/qp.h"

#include <errno.h>
#include <stdlib.h>

#include "profiles/profile.h"
#include "queue/qp_flush.h"
#include "queue/wq.h"
#include "wire/roce_packet.h"

static bool is_xrc(enum ibv_qp_type type)
{
	return type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV;
}

/* What counts of the capabilities asked for. ibv_create_qp(3): with an SRQ those of receives are ignored. A14: XRC_SEND has no receive
 * queue, XRC_RECV no queue at all; nor has one whose frames go to work queues. */
static struct ibv_qp_cap capabilities(const struct vb_qp_config *config)
{
	struct ibv_qp_cap cap = config->cap;

	if (config->srq || config->rss || is_xrc(config->type))
		cap.max_recv_wr = cap.max_recv_sge = 0;
	if (config->rss || config->type == IBV_QPT_XRC_RECV)
		cap.max_send_wr = cap.max_send_sge = cap.max_inline_data = 0;
	return cap;
}

static bool has_owners(const struct vb_qp_config *config)
{
	if (config->rss)
		return config->pd && !config->send_cq && !config->recv_cq && !config->srq;
	switch (config->type) {
	case IBV_QPT_XRC_RECV:
		return config->xrc_domain && !config->pd && !config->send_cq && !config->recv_cq && !config->srq;
	case IBV_QPT_XRC_SEND:
		return config->pd && config->send_cq && !config->recv_cq && !config->srq;
	default:
		return config->pd && config->send_cq && config->recv_cq;
	}
}

static int check_config(const struct vb_qp_config *config, const struct vb_profile *profile)
{
	const struct vb_profile_type *type = vb_profile_type(profile, config->type);
	const struct vb_profile_limits *most = &profile->limits;
	const struct ibv_qp_cap cap = capabilities(config);

	if (!type)
		return -EOPNOTSUPP;
	if (config->create_flags & ~(unsigned)IBV_QP_CREATE_BLOCK_SELF_MCAST_LB)
		return -EOPNOTSUPP;
	if (!has_owners(config))
		return -EINVAL;
	if (cap.max_send_wr > most->qp_wr || cap.max_send_sge > most->send_sge)
		return -EINVAL;
	if (cap.max_inline_data > type->max_inline && !profile->grants_less_inline)
		return -EINVAL;
	if (profile->needs_both_queues && !is_xrc(config->type) && !config->rss &&
	    (cap.max_send_wr == 0 || (!config->srq && cap.max_recv_wr == 0)))
		return -EINVAL;
	if (cap.max_recv_wr > most->qp_wr || cap.max_recv_sge > most->recv_sge)
		return -EINVAL;
	return 0;
}

static int make_queues(struct vb_qp *qp, const struct ibv_qp_cap *cap, const struct vb_allocator *allocator)
{
	uint32_t most_inline = vb_profile_type(qp->host->profile, qp->type)->max_inline;
	uint32_t asked_inline = cap->max_inline_data < most_inline ? cap->max_inline_data : most_inline;
	int rc = vb_send_queue_init(&qp->send, cap->max_send_wr, cap->max_send_sge, asked_inline,
				    (uint32_t)qp->transport->note_size, allocator);

	/* There may be room for more, beside the list. */
	if (qp->send.max_inline > most_inline)
		qp->send.max_inline = most_inline;
	if (rc == 0)
		rc = vb_receive_queue_init(&qp->receive, cap->max_recv_wr, cap->max_recv_sge, allocator, VB_ALLOCATED_RECEIVE_QUEUE);
	return rc;
}

static void free_qp(struct vb_qp *qp)
{
	vb_send_queue_fini(&qp->send);
	vb_receive_queue_fini(&qp->receive);
	free(qp->rss);
	free(qp);
}

static void count_on_others(struct vb_qp *qp, uint32_t change)
{
	/* What it has at the moment is the SRQ's. */
	if (qp->type == IBV_QPT_XRC_RECV)
		return;
	__atomic_fetch_add(&qp->pd->users, change, __ATOMIC_RELAXED);
	/* So with a work queue's, which its table keeps. */
	if (qp->rss) {
		__atomic_fetch_add(&qp->rss->table->users, change, __ATOMIC_RELEASE);
		return;
	}
	__atomic_fetch_add(&qp->send_cq->users, change, __ATOMIC_RELAXED);
	if (qp->recv_cq)
		__atomic_fetch_add(&qp->recv_cq->users, change, __ATOMIC_RELAXED);
	if (qp->srq)
		__atomic_fetch_add(&qp->srq->users, change, __ATOMIC_RELAXED);
}

/* Nothing leads it through the states: from the beginning frames come for its work queues (mlx5 does the same). */
static int take_rss(struct vb_qp *qp, const struct vb_rss *rss)
{
	if (!rss)
		return 0;
	qp->rss = malloc(sizeof(*qp->rss));
	if (!qp->rss)
		return -ENOMEM;
	*qp->rss = *rss;
	qp->state = IBV_QPS_RTR;
	qp->srq = &rss->table->entries[0]->receives;
	qp->receive_pd = qp->srq->pd;
	qp->recv_cq = qp->srq->cq;
	return 0;
}

int vb_qp_create(const struct vb_qp_config *config, const struct vb_queue_host *host,
		 const struct vb_transport *transport, void *owner, struct vb_qp **out)
{
	const struct ibv_qp_cap cap = capabilities(config);
	struct vb_qp *qp;
	int rc = check_config(config, host->profile);

	if (rc != 0)
		return rc;
	qp = calloc(1, sizeof(*qp) + transport->engine_size);
	if (!qp)
		return -ENOMEM;
	vb_lock_init(&qp->lock, VB_RANK_QP);
	vb_list_init(&qp->active);
	vb_list_init(&qp->in_domain);
	qp->timer_armed = VB_TIME_NEVER;
	qp->qpn = config->qpn;
	qp->type = config->type;
	qp->state = host->profile->created_in;
	qp->opcodes = vb_profile_type(host->profile, config->type)->opcodes;
	qp->max_message = host->profile->port.max_message;
	qp->max_read_sge = host->profile->limits.read_sge;
	qp->signal_all = config->signal_all;
	qp->create_flags = config->create_flags;
	qp->pd = config->pd;
	qp->send_cq = config->send_cq;
	qp->recv_cq = config->recv_cq;
	qp->srq = config->srq;
	qp->receive_pd = config->srq ? config->srq->pd : config->pd;
	qp->xrc_domain = config->xrc_domain;
	qp->host = host;
	qp->pkey = VB_DEFAULT_PKEY;
	qp->transport = transport;
	qp->owner = owner;
	rc = make_queues(qp, &cap, config->allocator);
	if (rc == 0)
		rc = take_rss(qp, config->rss);
	if (rc == 0 && transport->attach)
		rc = transport->attach(qp);
	if (rc != 0) {
		free_qp(qp);
		return rc;
	}
	qp->attr.cap = (struct ibv_qp_cap){
		.max_send_wr = qp->send.max_wr,
		.max_recv_wr = qp->receive.max_wr,
		.max_send_sge = qp->send.max_sge,
		.max_recv_sge = qp->receive.max_sge,
		.max_inline_data = qp->send.max_inline,
	};
	count_on_others(qp, 1);
	if (qp->xrc_domain)
		vb_xrc_add_qp(qp->xrc_domain, qp);
	*out = qp;
	return 0;
}

void vb_qp_discard_completions(struct vb_qp *qp)
{
	/* Those of XRC receives belong to an SRQ, which lives on; others to a work queue. */
	if (qp->type == IBV_QPT_XRC_RECV || qp->rss)
		return;
	vb_cq_discard(qp->send_cq, qp->qpn);
	if (qp->recv_cq && qp->recv_cq != qp->send_cq)
		vb_cq_discard(qp->recv_cq, qp->qpn);
}

void vb_qp_destroy(struct vb_qp *qp)
{
	if (qp->xrc_domain)
		vb_xrc_remove_qp(qp);
	if (qp->transport->detach)
		qp->transport->detach(qp);
	vb_qp_discard_completions(qp);
	/* IBA 10.6.7.2.6: type 2 windows do not outlive the queue pair they are bound through. */
	if (qp->host->memory)
		vb_memory_unbind_qp(qp->host->memory, qp->qpn);
	count_on_others(qp, -1u);
	free_qp(qp);
}

void vb_qp_query(struct vb_qp *qp, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init_attr)
{
	vb_lock_take(&qp->lock);
	*attr = qp->attr;
	attr->qp_state = attr->cur_qp_state = qp->state;
	attr->sq_draining = qp->draining;
	*init_attr = (struct ibv_qp_init_attr){
		.cap = qp->attr.cap,
		.qp_type = qp->type,
		.sq_sig_all = qp->signal_all,
	};
	vb_lock_release(&qp->lock);
}
