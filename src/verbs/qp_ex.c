/* SPDX-License-Identifier: MIT
 *
 * The ibv_wr_* builders (ibv_wr_post(3)). wr_start keeps other senders out, each operation takes a free place of
 * the send queue and the setters fill it; wr_complete checks the last one, commits all and lets them go out; any
 * error on the way is kept and makes wr_complete abort the whole list.
 */
#include <errno.h>
#include <string.h>

#include "verbs/address.h"
#include "verbs/context.h"
#include "verbs/explain.h"
#include "verbs/operations.h"

static struct vb_queue_pair *queue_pair_of(struct ibv_qp_ex *qp)
{
	return vb_queue_pair_of(&qp->qp_base);
}

static void keep_error(struct vb_queue_pair *qp, int error)
{
	if (qp->build_error == 0)
		qp->build_error = error;
}

/* An operation is whole when the next begins or the list ends. A datagram whose address was never set has no hop
 * limit. */
static void finish_current(struct vb_queue_pair *qp)
{
	if (qp->building != NULL && qp->base.qp_type == IBV_QPT_UD && qp->building->datagram.path.hop_limit == 0)
		keep_error(qp, EINVAL);
	if (qp->building != NULL && qp->build_error == 0)
		keep_error(qp, vb_qp_check_send(qp->qp, qp->building));
	qp->building = NULL;
}

static struct vb_send_wqe *begin(struct ibv_qp_ex *qp, enum ibv_wr_opcode opcode)
{
	struct vb_queue_pair *own = queue_pair_of(qp);

	finish_current(own);
	if (own->build_error != 0)
		return NULL;
	own->building = vb_send_list_add(&own->list, &own->qp->send);
	if (own->building == NULL) {
		keep_error(own, ENOMEM);
		return NULL;
	}
	own->building->wr_id = qp->wr_id;
	own->building->opcode = opcode;
	/* Inline is told by the setter here, not by the flag. */
	own->building->send_flags = qp->wr_flags & ~(unsigned)IBV_SEND_INLINE;
	return own->building;
}

/* From here to wr_complete or wr_abort the program holds `posting`. */
static void wr_start(struct ibv_qp_ex *qp) VB_UNCHECKED
{
	struct vb_queue_pair *own = queue_pair_of(qp);

	vb_lock_take(&own->posting);
	vb_send_list_begin(&own->list, &own->qp->send);
	own->building = NULL;
	own->build_error = 0;
}

static int wr_complete(struct ibv_qp_ex *qp) VB_UNCHECKED
{
	struct vb_queue_pair *own = queue_pair_of(qp);
	vb_time now = vb_endpoint_now();
	int error;

	finish_current(own);
	vb_lock_take(&own->qp->lock);
	error = own->build_error != 0 ? own->build_error : vb_qp_commit_list(own->qp, &own->list, now);
	if (error == 0) {
		if (own->qp->host->observer)
			vb_verbs_observe_sends(own->qp, own->list.first, now);
		vb_endpoint_posted(vb_context_of(qp->qp_base.context)->session->endpoint, own->qp, now);
	} else {
		vb_explain_refused("ibv_wr_complete", "QP", own->qp->qpn, error,
				   own->qp->state < IBV_QPS_RTS ? "the queue pair is not in RTS yet." :
				   error == ENOMEM ? "the send queue has no room for the whole list." :
				   "a request of the list has an opcode, a length or an element count that the queue pair "
				   "does not take.", "Nothing of the list was posted; see ibv_wr_post(3).");
	}
	vb_lock_release(&own->qp->lock);
	vb_lock_release(&own->posting);
	return vb_fail_number(error);
}

static void wr_abort(struct ibv_qp_ex *qp) VB_UNCHECKED
{
	struct vb_queue_pair *own = queue_pair_of(qp);

	own->building = NULL;
	vb_lock_release(&own->posting);
}

/* ---- operations ---- */

static void set_immediate(struct vb_send_wqe *wqe, __be32 imm_data)
{
	memcpy(&wqe->immediate, &imm_data, sizeof(wqe->immediate));
}

static void wr_send(struct ibv_qp_ex *qp)
{
	(void)begin(qp, IBV_WR_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *qp, __be32 imm_data)
{
	struct vb_send_wqe *wqe = begin(qp, IBV_WR_SEND_WITH_IMM);

	if (wqe != NULL)
		set_immediate(wqe, imm_data);
}

static void wr_send_inv(struct ibv_qp_ex *qp, uint32_t invalidate_rkey)
{
	struct vb_send_wqe *wqe = begin(qp, IBV_WR_SEND_WITH_INV);

	if (wqe != NULL)
		wqe->invalidate_rkey = invalidate_rkey;
}

static struct vb_send_wqe *begin_rdma(struct ibv_qp_ex *qp, enum ibv_wr_opcode opcode, uint32_t rkey,
				      uint64_t remote_addr)
{
	struct vb_send_wqe *wqe = begin(qp, opcode);

	if (wqe != NULL) {
		wqe->rdma.address = remote_addr;
		wqe->rdma.rkey = rkey;
	}
	return wqe;
}

static void wr_rdma_read(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr)
{
	(void)begin_rdma(qp, IBV_WR_RDMA_READ, rkey, remote_addr);
}

static void wr_rdma_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr)
{
	(void)begin_rdma(qp, IBV_WR_RDMA_WRITE, rkey, remote_addr);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, __be32 imm_data)
{
	struct vb_send_wqe *wqe = begin_rdma(qp, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, remote_addr);

	if (wqe != NULL)
		set_immediate(wqe, imm_data);
}

static void begin_atomic(struct ibv_qp_ex *qp, enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t remote_addr,
			 uint64_t compare_or_add, uint64_t swap)
{
	struct vb_send_wqe *wqe = begin(qp, opcode);

	if (wqe == NULL)
		return;
	wqe->atomic.address = remote_addr;
	wqe->atomic.rkey = rkey;
	wqe->atomic.compare_or_add = compare_or_add;
	wqe->atomic.swap = swap;
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, uint64_t compare,
			      uint64_t swap)
{
	begin_atomic(qp, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, remote_addr, compare, swap);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, uint64_t add)
{
	begin_atomic(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, remote_addr, add, 0);
}

/* The value is copied at once; no setter follows (ibv_wr_post(3)). */
static void wr_atomic_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, const void *atomic_wr)
{
	struct vb_send_wqe *wqe = begin(qp, IBV_WR_ATOMIC_WRITE);

	if (wqe == NULL)
		return;
	if (atomic_wr == NULL) {
		keep_error(queue_pair_of(qp), EINVAL);
		return;
	}
	wqe->atomic.address = remote_addr;
	wqe->atomic.rkey = rkey;
	memcpy(&wqe->atomic.swap, atomic_wr, sizeof(wqe->atomic.swap));
	wqe->length = sizeof(wqe->atomic.swap);
}

static void wr_local_inv(struct ibv_qp_ex *qp, uint32_t invalidate_rkey)
{
	struct vb_send_wqe *wqe = begin(qp, IBV_WR_LOCAL_INV);

	if (wqe != NULL)
		wqe->invalidate_rkey = invalidate_rkey;
}

static void wr_bind_mw(struct ibv_qp_ex *qp, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	struct vb_send_wqe *wqe = begin(qp, IBV_WR_BIND_MW);

	if (wqe == NULL)
		return;
	if (mw == NULL || info == NULL || (info->mr == NULL && info->length > 0)) {
		keep_error(queue_pair_of(qp), EINVAL);
		return;
	}
	wqe->bind = (struct vb_window_bind){
		.window_key = mw->rkey,
		.new_key = vb_window_key_granted(mw, rkey),
		.region_lkey = info->mr != NULL ? info->mr->lkey : 0,
		.address = info->addr,
		.length = info->length,
		.access = info->mw_access_flags,
		.qpn = qp->qp_base.qp_num,
		.pd = queue_pair_of(qp)->qp->pd,
	};
	if (mw->type == IBV_MW_TYPE_2)
		mw->rkey = wqe->bind.new_key;
}

/* ---- setters ---- */

static void wr_set_ud_addr(struct ibv_qp_ex *qp, struct ibv_ah *ah, uint32_t remote_qpn, uint32_t remote_qkey)
{
	struct vb_queue_pair *own = queue_pair_of(qp);
	struct vb_send_wqe *wqe = own->building;
	const struct vb_ah *address;

	if (wqe == NULL)
		return;
	if (ah == NULL || vb_address_handle_of(ah)->ah.pd != own->qp->pd) {
		keep_error(own, EINVAL);
		return;
	}
	address = &vb_address_handle_of(ah)->ah;
	wqe->datagram.path = address->path;
	wqe->datagram.path.source_port = vb_address_source_port(vb_context_of(qp->qp_base.context)->session->endpoint,
								vb_address_handle_of(ah), remote_qpn);
	wqe->datagram.service_level = address->service_level;
	wqe->datagram.qpn = remote_qpn;
	/* IBA C10-15: a Q_Key with the high bit set stands for the queue pair's own. */
	wqe->datagram.qkey = remote_qkey & 1u << 31 ? own->qp->attr.qkey : remote_qkey;
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *qp, uint32_t remote_srqn)
{
	struct vb_send_wqe *wqe = queue_pair_of(qp)->building;

	if (wqe != NULL)
		wqe->srqn = remote_srqn;
}

static void wr_set_sge_list(struct ibv_qp_ex *qp, size_t num_sge, const struct ibv_sge *sg_list)
{
	struct vb_queue_pair *own = queue_pair_of(qp);
	uint64_t length = 0;

	if (own->building == NULL)
		return;
	if (num_sge > own->qp->send.max_sge) {
		keep_error(own, EINVAL);
		return;
	}
	for (size_t i = 0; i < num_sge; i++) {
		own->building->list[i] = sg_list[i];
		length += sg_list[i].length;
	}
	if (length > own->qp->max_message) {
		keep_error(own, EINVAL);
		return;
	}
	own->building->is_inline = false;
	own->building->sge_count = (uint32_t)num_sge;
	own->building->length = (uint32_t)length;
}

static void wr_set_sge(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t addr, uint32_t length)
{
	const struct ibv_sge sge = {.addr = addr, .length = length, .lkey = lkey};

	wr_set_sge_list(qp, 1, &sge);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *qp, size_t num_buf, const struct ibv_data_buf *buf_list)
{
	struct vb_queue_pair *own = queue_pair_of(qp);
	struct vb_send_wqe *wqe = own->building;
	size_t length = 0;

	if (wqe == NULL)
		return;
	for (size_t i = 0; i < num_buf; i++) {
		if (buf_list[i].length > own->qp->send.max_inline - length) {
			keep_error(own, EINVAL);
			return;
		}
		if (buf_list[i].length > 0)
			memcpy(vb_send_wqe_inline(wqe) + length, buf_list[i].addr, buf_list[i].length);
		length += buf_list[i].length;
	}
	wqe->is_inline = true;
	wqe->send_flags |= IBV_SEND_INLINE;
	wqe->sge_count = 0;
	wqe->length = (uint32_t)length;
}

static void wr_set_inline_data(struct ibv_qp_ex *qp, void *addr, size_t length)
{
	const struct ibv_data_buf buffer = {.addr = addr, .length = length};

	wr_set_inline_data_list(qp, 1, &buffer);
}

/* ---- which of them a queue pair has ---- */

/* ibv_create_qp_ex(3): asking for what the transport cannot do is refused at creation. */
int vb_qp_ex_check_operations(uint32_t opcodes, uint64_t send_ops_flags)
{
	static const uint64_t operations[] = {
		[IBV_WR_RDMA_WRITE] = IBV_QP_EX_WITH_RDMA_WRITE,
		[IBV_WR_RDMA_WRITE_WITH_IMM] = IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM,
		[IBV_WR_SEND] = IBV_QP_EX_WITH_SEND,
		[IBV_WR_SEND_WITH_IMM] = IBV_QP_EX_WITH_SEND_WITH_IMM,
		[IBV_WR_RDMA_READ] = IBV_QP_EX_WITH_RDMA_READ,
		[IBV_WR_ATOMIC_CMP_AND_SWP] = IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP,
		[IBV_WR_ATOMIC_FETCH_AND_ADD] = IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
		[IBV_WR_LOCAL_INV] = IBV_QP_EX_WITH_LOCAL_INV,
		[IBV_WR_BIND_MW] = IBV_QP_EX_WITH_BIND_MW,
		[IBV_WR_SEND_WITH_INV] = IBV_QP_EX_WITH_SEND_WITH_INV,
		[IBV_WR_ATOMIC_WRITE] = IBV_QP_EX_WITH_ATOMIC_WRITE,
	};
	uint64_t can = 0;

	for (unsigned i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
		can |= opcodes & 1u << i ? operations[i] : 0;
	return (send_ops_flags & ~can) != 0 ? -EOPNOTSUPP : 0;
}

void vb_qp_ex_fill_operations(struct vb_queue_pair *qp, uint64_t send_ops_flags)
{
	struct ibv_qp_ex *ex = &qp->ex;

	qp->extended = true;
	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
	if (qp->base.qp_type == IBV_QPT_UD)
		ex->wr_set_ud_addr = wr_set_ud_addr;
	if (qp->base.qp_type == IBV_QPT_XRC_SEND)
		ex->wr_set_xrc_srqn = wr_set_xrc_srqn;
	if (send_ops_flags & IBV_QP_EX_WITH_SEND)
		ex->wr_send = wr_send;
	if (send_ops_flags & IBV_QP_EX_WITH_SEND_WITH_IMM)
		ex->wr_send_imm = wr_send_imm;
	if (send_ops_flags & IBV_QP_EX_WITH_SEND_WITH_INV)
		ex->wr_send_inv = wr_send_inv;
	if (send_ops_flags & IBV_QP_EX_WITH_RDMA_WRITE)
		ex->wr_rdma_write = wr_rdma_write;
	if (send_ops_flags & IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)
		ex->wr_rdma_write_imm = wr_rdma_write_imm;
	if (send_ops_flags & IBV_QP_EX_WITH_RDMA_READ)
		ex->wr_rdma_read = wr_rdma_read;
	if (send_ops_flags & IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP)
		ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	if (send_ops_flags & IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)
		ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
	if (send_ops_flags & IBV_QP_EX_WITH_ATOMIC_WRITE)
		ex->wr_atomic_write = wr_atomic_write;
	if (send_ops_flags & IBV_QP_EX_WITH_LOCAL_INV)
		ex->wr_local_inv = wr_local_inv;
	if (send_ops_flags & IBV_QP_EX_WITH_BIND_MW)
		ex->wr_bind_mw = wr_bind_mw;
}
