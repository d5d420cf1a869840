/* SPDX-License-Identifier: MIT
 *
 * See raw.h.
 */
#include "raw/raw.h"

#include <string.h>

#include "memory/place.h"
#include "queue/flow.h"
#include "queue/qp.h"
#include "queue/work.h"

/* A thread that is woken late sends what was due meanwhile, as far as this: else the rate would fall behind the limit. */
#define CATCHES_UP VB_MILLISECONDS(1)
/* Frames that are due so soon leave together: timers are hardly finer, and each would cost more than it spaces out. */
#define QUANTUM VB_MICROSECONDS(50)

struct engine {
	vb_time due;                     /* with a rate limit: when all that was sent has had its time */
};

static void modified(struct vb_qp *qp, enum ibv_qp_state from, int attr_mask, vb_time now)
{
	struct engine *engine = vb_qp_engine(qp);

	(void)from;
	if (qp->state == IBV_QPS_RESET)
		*engine = (struct engine){0};
	/* What was sent took its time at the limit before: it is no debt at this one. */
	if ((attr_mask & IBV_QP_RATE_LIMIT) && engine->due > now)
		engine->due = now;
	/* What was posted before is sent by now, or waits for RTS: nothing is ever outstanding. */
	if (qp->state == IBV_QPS_SQD)
		vb_qp_drained(qp);
}

static void query(const struct vb_qp *qp, struct vb_transport_status *status)
{
	(void)qp;
	*status = (struct vb_transport_status){0};
}

const struct vb_transport vb_raw_transport = {
	.name = "raw",
	.engine_size = sizeof(struct engine),
	.modified = modified,
	.query = query,
};

/* ---- sending ---- */

/* Nanoseconds of so many bytes at the limit. */
static vb_time time_of(const struct vb_qp *qp, uint32_t bytes)
{
	return (vb_time)((uint64_t)bytes * 8 * 1000000 / qp->attr.rate_limit);
}

/* May a frame leave, when those before it take until `due`? */
static bool is_due(const struct vb_qp *qp, vb_time due, vb_time now)
{
	return qp->attr.rate_limit == 0 || due <= now + QUANTUM + time_of(qp, qp->burst_bytes);
}

static vb_time charge(const struct vb_qp *qp, vb_time due, uint32_t bytes, vb_time now)
{
	if (qp->attr.rate_limit == 0)
		return due;
	return (due > now - CATCHES_UP ? due : now - CATCHES_UP) + time_of(qp, bytes);
}

vb_time vb_raw_due(const struct vb_qp *qp)
{
	const struct engine *engine = (const struct engine *)(const void *)(qp + 1);

	if (qp->attr.rate_limit == 0 || qp->state != IBV_QPS_RTS || vb_send_queue_count(&qp->send) == 0)
		return VB_TIME_NEVER;
	return engine->due - time_of(qp, qp->burst_bytes);
}

/* False: it fails with *status. */
static bool gather(struct vb_qp *qp, struct vb_send_wqe *wqe, uint8_t *to, enum ibv_wc_status *status, struct vb_fault_record *why)
{
	if (!vb_work_check(qp, wqe, VB_RAW_MAX_FRAME, status, why))
		return false;
	if (wqe->is_inline) {
		memcpy(to, vb_send_wqe_inline(wqe), wqe->length);
		return true;
	}
	*status = IBV_WC_LOC_PROT_ERR;
	return vb_memory_gather(qp->host->memory, qp->pd, qp->qpn, wqe->list, wqe->sge_count, 0, to, wqe->length, why);
}

void vb_raw_fill(struct vb_qp *qp, struct vb_raw_batch *batch, vb_time now)
{
	vb_time due = ((struct engine *)vb_qp_engine(qp))->due;
	uint32_t used = 0;

	vb_lock_assert_held(&qp->lock);
	batch->frames = 0;
	for (uint32_t i = qp->send.tail; qp->state == IBV_QPS_RTS && i != qp->send.head && batch->frames < VB_RAW_FRAMES; i++) {
		struct vb_send_wqe *wqe = vb_send_queue_at(&qp->send, i);
		struct vb_fault_record why = {0};
		enum ibv_wc_status status;

		if (!is_due(qp, due, now))
			return;
		due = charge(qp, due, wqe->length, now);
		if (wqe->length <= VB_RAW_MAX_FRAME && wqe->length > VB_RAW_STAGING - used)
			return;
		if (!gather(qp, wqe, batch->bytes + used, &status, &why)) {
			/* Its turn comes when those before it are sent: completions are in order. */
			if (i == qp->send.tail) {
				vb_work_evidence(qp, wqe, &why);
				vb_qp_fail_send(qp, status, &why, now);
			}
			return;
		}
		batch->frame[batch->frames] = batch->bytes + used;
		batch->length[batch->frames++] = wqe->length;
		used += wqe->length;
	}
}

void vb_raw_sent(struct vb_qp *qp, unsigned frames, vb_time now)
{
	vb_lock_assert_held(&qp->lock);
	for (unsigned i = 0; i < frames && qp->state == IBV_QPS_RTS; i++) {
		struct engine *engine = vb_qp_engine(qp);

		engine->due = charge(qp, engine->due, vb_send_queue_at(&qp->send, qp->send.tail)->length, now);
		VB_COUNT(qp->host->counters, rdma_sends);
		vb_qp_complete_send(qp, IBV_WC_SUCCESS, VB_FAULT_NONE, now);
	}
}

void vb_raw_too_long(struct vb_qp *qp, vb_time now)
{
	struct vb_fault_record why = {.fault = VB_FAULT_LOCAL_LENGTH};

	vb_lock_assert_held(&qp->lock);
	vb_work_evidence(qp, vb_send_queue_at(&qp->send, qp->send.tail), &why);
	vb_qp_fail_send(qp, IBV_WC_LOC_LEN_ERR, &why, now);
}

/* ---- receiving ---- */

bool vb_raw_has_receive(struct vb_qp *qp)
{
	bool has;

	vb_lock_assert_held(&qp->lock);
	if (!qp->srq)
		return vb_receive_queue_count(&qp->receive) > 0;
	vb_lock_take(&qp->srq->lock);
	has = vb_receive_queue_count(&qp->srq->queue) > 0;
	vb_lock_release(&qp->srq->lock);
	return has;
}

/* The mistake is the program's, and no other frame's: as with datagrams (docs/verbs.md). */
static void complete_too_short(struct vb_qp *qp, const struct vb_taken_receive *taken, size_t length, struct vb_completion *completion)
{
	struct vb_fault_record why = {
		.fault = VB_FAULT_LOCAL_LENGTH,
		.qpn = qp->qpn,
		.wr_id = taken->wr_id,
		.length = length,
		.region_length = taken->length,
	};

	vb_qp_tell_receive_failure(qp, taken, IBV_WC_LOC_LEN_ERR, &why);
	completion->status = IBV_WC_LOC_LEN_ERR;
	completion->vendor_error = why.fault;
	vb_qp_complete_receive(qp, completion);
}

void vb_raw_receive(struct vb_qp *qp, const uint8_t *frame, size_t length, const struct vb_flow_key *key, const struct vb_flow_rule *rule,
		    vb_time now)
{
	struct vb_completion completion = {
		.status = IBV_WC_SUCCESS,
		.opcode = IBV_WC_RECV,
		.byte_length = (uint32_t)length,
		.immediate = rule->tag,
		.timestamp = now,
	};
	struct vb_fault_record why = {0};
	struct vb_taken_receive taken;

	vb_lock_assert_held(&qp->lock);
	if (qp->rss)
		vb_rss_choose(qp, key);
	completion.qpn = vb_qp_receive_number(qp);
	if ((qp->state != IBV_QPS_RTR && qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD && qp->state != IBV_QPS_SQE) ||
	    !vb_qp_take_receive(qp, &taken)) {
		VB_COUNT(qp->host->counters, dropped_pkts);
		return;
	}
	VB_COUNT(qp->host->counters, rdma_recvs);
	completion.wr_id = taken.wr_id;
	if (length > taken.length) {
		complete_too_short(qp, &taken, length, &completion);
	} else if (!vb_memory_scatter(qp->host->memory, qp->receive_pd, qp->qpn, taken.list, taken.sge_count, 0, frame, length, &why)) {
		why.qpn = qp->qpn;
		vb_qp_fail_receive(qp, &taken, IBV_WC_LOC_PROT_ERR, &why, IBV_EVENT_QP_REQ_ERR, false, now);
	} else {
		vb_qp_complete_receive(qp, &completion);
	}
}
