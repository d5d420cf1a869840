/* SPDX-License-Identifier: MIT
 *
 * See wq.h.
 */
#include "queue/wq.h"

#include <errno.h>
#include <string.h>

#include "memory/fault.h"
#include "profiles/profile.h"
#include "queue/completion_queue.h"

int vb_wq_init(struct vb_wq *wq, const struct vb_queue_host *host, void *owner, const struct vb_wq_config *config)
{
	const struct vb_profile_limits *most = &host->profile->limits;
	struct vb_srq *receives = &wq->receives;
	int rc;

	if (!config->pd || !config->cq || config->max_wr < 1 || config->max_wr > most->qp_wr || config->max_sge > most->recv_sge)
		return -EINVAL;
	memset(wq, 0, sizeof(*wq));
	rc = vb_receive_queue_init(&receives->queue, config->max_wr, config->max_sge, config->allocator, VB_ALLOCATED_RECEIVE_QUEUE);
	if (rc != 0)
		return rc;
	vb_lock_init(&receives->lock, VB_RANK_SRQ);
	receives->pd = config->pd;
	receives->cq = config->cq;
	receives->number = config->number;
	receives->host = host;
	receives->owner = owner;
	wq->state = IBV_WQS_RESET;
	__atomic_fetch_add(&config->pd->users, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&config->cq->users, 1, __ATOMIC_RELAXED);
	return 0;
}

void vb_wq_fini(struct vb_wq *wq)
{
	struct vb_srq *receives = &wq->receives;

	vb_wq_discard(wq);
	vb_receive_queue_fini(&receives->queue);
	__atomic_fetch_sub(&receives->pd->users, 1, __ATOMIC_RELAXED);
	__atomic_fetch_sub(&receives->cq->users, 1, __ATOMIC_RELAXED);
}

/* Caller holds receives->lock. What the CQ has no room for is lost, and it has said so. */
static void flush(struct vb_srq *receives, vb_time now)
{
	struct vb_taken_receive taken;

	while (vb_receive_queue_take(&receives->queue, &taken)) {
		const struct vb_completion completion = {
			.wr_id = taken.wr_id,
			.status = IBV_WC_WR_FLUSH_ERR,
			.opcode = IBV_WC_RECV,
			.vendor_error = VB_FAULT_FLUSHED,
			.qpn = receives->number,
			.timestamp = now,
		};

		(void)vb_cq_push(receives->cq, &completion);
	}
}

/* Those that mlx4 refuses: an error is left by RESET only, and there is nothing to fail in RESET. */
static bool leads_nowhere(enum ibv_wq_state from, enum ibv_wq_state to)
{
	return (from == IBV_WQS_ERR && to == IBV_WQS_RDY) || (from == IBV_WQS_RESET && to == IBV_WQS_ERR);
}

int vb_wq_modify(struct vb_wq *wq, enum ibv_wq_state to, vb_time now)
{
	struct vb_srq *receives = &wq->receives;
	int rc = 0;

	vb_lock_take(&receives->lock);
	if ((unsigned)to > IBV_WQS_ERR || leads_nowhere(wq->state, to)) {
		rc = -EINVAL;
	} else {
		wq->state = to;
		if (to == IBV_WQS_ERR)
			flush(receives, now);
		if (to == IBV_WQS_RESET)
			receives->queue.head = receives->queue.tail = 0;
	}
	vb_lock_release(&receives->lock);
	return rc;
}

enum ibv_wq_state vb_wq_state(struct vb_wq *wq)
{
	enum ibv_wq_state state;

	vb_lock_take(&wq->receives.lock);
	state = wq->state;
	vb_lock_release(&wq->receives.lock);
	return state;
}

void vb_wq_discard(struct vb_wq *wq)
{
	vb_cq_discard(wq->receives.cq, wq->receives.number);
}

int vb_wq_post(struct vb_wq *wq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr, vb_time now)
{
	struct vb_srq *receives = &wq->receives;
	int rc = 0;

	vb_lock_take(&receives->lock);
	for (; wr && rc == 0; wr = wr->next) {
		rc = wq->state == IBV_WQS_RESET ? -EINVAL : vb_receive_queue_post(&receives->queue, wr);
		if (rc != 0)
			*bad_wr = wr;
	}
	if (wq->state == IBV_WQS_ERR)
		flush(receives, now);
	vb_lock_release(&receives->lock);
	return -rc;
}

void vb_wq_fail(struct vb_wq *wq, vb_time now)
{
	struct vb_srq *receives = &wq->receives;

	vb_lock_take(&receives->lock);
	if (wq->state == IBV_WQS_RDY) {
		wq->state = IBV_WQS_ERR;
		receives->host->wq_event(wq, IBV_EVENT_WQ_FATAL);
		flush(receives, now);
	}
	vb_lock_release(&receives->lock);
}
