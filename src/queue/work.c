/* SPDX-License-Identifier: MIT
 *
 * See work.h.
 */
#include "queue/work.h"

static const struct vb_work table[] = {
	[IBV_WR_SEND] = {VB_WORK_SEND, .takes_receive = true},
	[IBV_WR_SEND_WITH_IMM] = {VB_WORK_SEND, .takes_receive = true},
	[IBV_WR_SEND_WITH_INV] = {VB_WORK_SEND, .takes_receive = true},
	[IBV_WR_RDMA_WRITE] = {VB_WORK_WRITE, IBV_ACCESS_REMOTE_WRITE},
	[IBV_WR_RDMA_WRITE_WITH_IMM] = {VB_WORK_WRITE, IBV_ACCESS_REMOTE_WRITE, .takes_receive = true},
	[IBV_WR_RDMA_READ] = {VB_WORK_READ, IBV_ACCESS_REMOTE_READ, .is_read = true},
	[IBV_WR_ATOMIC_CMP_AND_SWP] = {VB_WORK_ATOMIC, IBV_ACCESS_REMOTE_ATOMIC, .is_read = true},
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = {VB_WORK_ATOMIC, IBV_ACCESS_REMOTE_ATOMIC, .is_read = true},
	/* Answered without data, and counted as if it were (IBA A19; rxe). */
	[IBV_WR_ATOMIC_WRITE] = {VB_WORK_ATOMIC, IBV_ACCESS_REMOTE_WRITE, .is_read = true},
	[IBV_WR_LOCAL_INV] = {VB_WORK_LOCAL},
	[IBV_WR_BIND_MW] = {VB_WORK_LOCAL},
};

const struct vb_work *vb_work(enum ibv_wr_opcode opcode)
{
	static const struct vb_work unknown;

	return (unsigned)opcode < sizeof(table) / sizeof(table[0]) ? &table[opcode] : &unknown;
}

bool vb_work_check(const struct vb_qp *qp, const struct vb_send_wqe *wqe, uint64_t most, enum ibv_wc_status *status,
		   struct vb_fault_record *why)
{
	const struct vb_work *work = vb_work(wqe->opcode);

	if (work->kind == VB_WORK_UNKNOWN || (work->is_read && (!vb_qp_is_reliable(qp) || qp->attr.max_rd_atomic == 0)) ||
	    ((qp->type == IBV_QPT_UD || qp->type == IBV_QPT_RAW_PACKET) && work->kind != VB_WORK_SEND)) {
		*status = IBV_WC_LOC_QP_OP_ERR;
		why->fault = VB_FAULT_LOCAL_OPERATION;
		return false;
	}
	if (work->kind != VB_WORK_LOCAL && wqe->length > most) {
		*status = IBV_WC_LOC_LEN_ERR;
		why->fault = VB_FAULT_LOCAL_LENGTH;
		return false;
	}
	return true;
}

enum vb_window_result vb_work_execute_local(struct vb_qp *qp, struct vb_send_wqe *wqe, struct vb_fault_record *why)
{
	struct vb_memory *memory = qp->host->memory;

	return wqe->opcode == IBV_WR_BIND_MW ?
		       vb_window_bind(memory, &wqe->bind, why) :
		       vb_memory_invalidate(memory, wqe->invalidate_rkey, qp->pd, qp->qpn, false, why);
}

void vb_work_evidence(const struct vb_qp *qp, const struct vb_send_wqe *wqe, struct vb_fault_record *why)
{
	enum vb_work_kind kind = vb_work(wqe->opcode)->kind;

	why->wr_id = wqe->wr_id;
	why->opcode = wqe->opcode;
	why->qpn = qp->qpn;
	why->peer_qpn = qp->type == IBV_QPT_UD ? wqe->datagram.qpn : qp->attr.dest_qp_num;
	/* A memory fault brings its own key and range. */
	if (why->key != 0 || why->length != 0)
		return;
	why->length = wqe->length;
	if (kind == VB_WORK_ATOMIC) {
		why->key = wqe->atomic.rkey;
		why->address = wqe->atomic.address;
	} else if (kind == VB_WORK_WRITE || kind == VB_WORK_READ) {
		why->key = wqe->rdma.rkey;
		why->address = wqe->rdma.address;
	}
}

void vb_work_fail(struct vb_work_failure *failure, const struct vb_qp *qp, uint32_t index, enum ibv_wc_status status,
		  const struct vb_fault_record *why, uint32_t psn)
{
	if (failure->waits)
		return;
	failure->waits = true;
	failure->index = index;
	failure->status = status;
	failure->why = *why;
	failure->why.psn = psn;
	vb_work_evidence(qp, vb_send_queue_at(&qp->send, index), &failure->why);
}

void vb_work_tell_failure(struct vb_work_failure *failure, struct vb_qp *qp, vb_time now)
{
	struct vb_fault_record why = failure->why;

	failure->waits = false;
	why.waited = now - vb_send_queue_at(&qp->send, qp->send.tail)->started_at;
	vb_qp_fail_send(qp, failure->status, &why, now);
}
