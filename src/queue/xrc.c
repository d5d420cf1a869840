/* SPDX-License-Identifier: MIT
 *
 * Which SRQs an XRC domain has, and how one leaves while packets that name it arrive: first no packet finds it any
 * more, then every queue pair of the domain forgets it, each under its own lock.
 */
#include "queue/xrc.h"

#include "queue/qp.h"

void vb_xrc_domain_init(struct vb_xrc_domain *domain)
{
	vb_lock_init(&domain->lock, VB_RANK_XRC_SRQS);
	vb_mutex_init(&domain->members, VB_RANK_XRC_QPS);
	vb_list_init(&domain->srqs);
	vb_list_init(&domain->qps);
	domain->users = 0;
	domain->handle = 0;
}

void vb_xrc_domain_fini(struct vb_xrc_domain *domain)
{
	vb_mutex_fini(&domain->members);
}

void vb_xrc_add_srq(struct vb_xrc_domain *domain, struct vb_srq *srq, struct vb_cq *cq, uint32_t number)
{
	srq->xrc_domain = domain;
	srq->cq = cq;
	srq->number = number;
	__atomic_fetch_add(&cq->users, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&domain->users, 1, __ATOMIC_RELAXED);
	vb_lock_take(&domain->lock);
	vb_list_append(&domain->srqs, &srq->in_domain);
	vb_lock_release(&domain->lock);
}

static void use(struct vb_qp *qp, struct vb_srq *srq)
{
	qp->srq = srq;
	qp->pd = qp->receive_pd = srq ? srq->pd : NULL;
	/* Who polls that CQ looks at it without the lock (links/memory/serve.c). */
	__atomic_store_n(&qp->recv_cq, srq ? srq->cq : NULL, __ATOMIC_RELAXED);
}

void vb_xrc_remove_srq(struct vb_srq *srq)
{
	struct vb_xrc_domain *domain = srq->xrc_domain;

	vb_lock_take(&domain->lock);
	vb_list_remove(&srq->in_domain);
	vb_lock_release(&domain->lock);
	vb_mutex_lock(&domain->members);
	VB_LIST_FOR_EACH(node, &domain->qps) {
		struct vb_qp *qp = vb_container_of(node, struct vb_qp, in_domain);

		vb_lock_take(&qp->lock);
		qp->transport->srq_gone(qp, srq);
		if (qp->srq == srq)
			use(qp, NULL);
		vb_lock_release(&qp->lock);
	}
	vb_mutex_unlock(&domain->members);
	__atomic_fetch_sub(&srq->cq->users, 1, __ATOMIC_RELAXED);
	__atomic_fetch_sub(&domain->users, 1, __ATOMIC_RELEASE);
}

void vb_xrc_add_qp(struct vb_xrc_domain *domain, struct vb_qp *qp)
{
	__atomic_fetch_add(&domain->users, 1, __ATOMIC_RELAXED);
	vb_mutex_lock(&domain->members);
	vb_list_append(&domain->qps, &qp->in_domain);
	vb_mutex_unlock(&domain->members);
}

void vb_xrc_remove_qp(struct vb_qp *qp)
{
	struct vb_xrc_domain *domain = qp->xrc_domain;

	vb_mutex_lock(&domain->members);
	vb_list_remove(&qp->in_domain);
	vb_mutex_unlock(&domain->members);
	__atomic_fetch_sub(&domain->users, 1, __ATOMIC_RELEASE);
}

bool vb_xrc_choose_srq(struct vb_qp *qp, uint32_t number)
{
	struct vb_xrc_domain *domain = qp->xrc_domain;
	struct vb_srq *found = NULL;

	vb_lock_assert_held(&qp->lock);
	vb_lock_take(&domain->lock);
	VB_LIST_FOR_EACH(node, &domain->srqs) {
		struct vb_srq *srq = vb_container_of(node, struct vb_srq, in_domain);

		if (srq->number == number)
			found = srq;
	}
	vb_lock_release(&domain->lock);
	if (found)
		use(qp, found);
	return found != NULL;
}

void vb_xrc_forget_srq(struct vb_qp *qp)
{
	use(qp, NULL);
}
