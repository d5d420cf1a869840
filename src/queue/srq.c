/* SPDX-License-Identifier: MIT
 *
 * Shared receive queues. The limit is one shot: when a take leaves fewer than `limit` receives the event is raised
 * and the limit disarmed, until ibv_modify_srq arms it again (IBA 10.2.9.1).
 */
#include "queue/srq.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "profiles/profile.h"

int vb_srq_init_in(struct vb_srq *srq, const struct vb_queue_host *host, void *owner, struct vb_pd *pd, struct ibv_srq_attr *attr,
		   const struct vb_allocator *allocator)
{
	int rc;

	if (host->profile->limits.srq == 0)
		return -EOPNOTSUPP;
	if (!pd || attr->max_wr < 1 || attr->max_wr > host->profile->limits.srq_wr || attr->max_sge > host->profile->limits.srq_sge)
		return -EINVAL;
	memset(srq, 0, sizeof(*srq));
	rc = vb_receive_queue_init(&srq->queue, attr->max_wr, attr->max_sge, allocator, VB_ALLOCATED_SRQ);
	if (rc != 0)
		return rc;
	vb_lock_init(&srq->lock, VB_RANK_SRQ);
	srq->pd = pd;
	srq->host = host;
	srq->owner = owner;
	__atomic_fetch_add(&pd->users, 1, __ATOMIC_RELAXED);
	attr->max_wr = srq->queue.max_wr;
	attr->max_sge = srq->queue.max_sge;
	return 0;
}

void vb_srq_fini(struct vb_srq *srq)
{
	vb_receive_queue_fini(&srq->queue);
	__atomic_fetch_sub(&srq->pd->users, 1, __ATOMIC_RELAXED);
}

int vb_srq_modify(struct vb_srq *srq, const struct ibv_srq_attr *attr, int mask)
{
	uint32_t max_wr, limit;
	int rc = 0;

	if (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
		return -EINVAL;
	vb_lock_take(&srq->lock);
	max_wr = mask & IBV_SRQ_MAX_WR ? attr->max_wr : srq->queue.max_wr;
	limit = mask & IBV_SRQ_LIMIT ? attr->srq_limit : srq->limit;
	/* ibv_modify_srq(3): all or nothing; a limit that cannot be reached is as wrong as too many receives. */
	if (max_wr > srq->host->profile->limits.srq_wr || limit > max_wr)
		rc = -EINVAL;
	else if (mask & IBV_SRQ_MAX_WR)
		rc = vb_receive_queue_resize(&srq->queue, max_wr);
	if (rc == 0)
		srq->limit = limit;
	vb_lock_release(&srq->lock);
	return rc;
}

void vb_srq_query(struct vb_srq *srq, struct ibv_srq_attr *attr)
{
	vb_lock_take(&srq->lock);
	attr->max_wr = srq->queue.max_wr;
	attr->max_sge = srq->queue.max_sge;
	attr->srq_limit = srq->limit;
	vb_lock_release(&srq->lock);
}

int vb_srq_post(struct vb_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	int rc = 0;

	vb_lock_take(&srq->lock);
	for (; wr; wr = wr->next) {
		rc = vb_receive_queue_post(&srq->queue, wr);
		if (rc != 0) {
			*bad_wr = wr;
			break;
		}
	}
	vb_lock_release(&srq->lock);
	return -rc;
}

bool vb_srq_take(struct vb_srq *srq, struct vb_taken_receive *taken)
{
	bool found;

	vb_lock_take(&srq->lock);
	found = vb_receive_queue_take(&srq->queue, taken);
	if (found && vb_receive_queue_count(&srq->queue) < srq->limit) {
		srq->limit = 0;
		srq->host->srq_event(srq, IBV_EVENT_SRQ_LIMIT_REACHED);
	}
	vb_lock_release(&srq->lock);
	return found;
}
