/* SPDX-License-Identifier: MIT
 *
 * How work enters a queue pair. What can be known at once is refused at once with an errno: state, room, opcode against
 * type, lengths, alignment, address handle. Keys are looked at when the work is executed, and become completions.
 */
#include <errno.h>
#include <string.h>

#include "queue/address.h"
#include "queue/qp.h"
#include "queue/qp_flush.h"
#include "wire/flow_key.h"

enum { QPN_MASK = 0xffffff };

enum opcode_kind { KIND_NONE, KIND_SEND, KIND_WRITE, KIND_READ, KIND_ATOMIC, KIND_LOCAL };

static const uint8_t kinds[] = {
	[IBV_WR_SEND] = KIND_SEND,
	[IBV_WR_SEND_WITH_IMM] = KIND_SEND,
	[IBV_WR_SEND_WITH_INV] = KIND_SEND,
	[IBV_WR_RDMA_WRITE] = KIND_WRITE,
	[IBV_WR_RDMA_WRITE_WITH_IMM] = KIND_WRITE,
	[IBV_WR_RDMA_READ] = KIND_READ,
	[IBV_WR_ATOMIC_CMP_AND_SWP] = KIND_ATOMIC,
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = KIND_ATOMIC,
	[IBV_WR_ATOMIC_WRITE] = KIND_ATOMIC,
	[IBV_WR_LOCAL_INV] = KIND_LOCAL,
	[IBV_WR_BIND_MW] = KIND_LOCAL,
};

static enum opcode_kind kind_of(const struct vb_qp *qp, enum ibv_wr_opcode opcode)
{
	if ((unsigned)opcode >= sizeof(kinds) || !(qp->opcodes & 1u << opcode))
		return KIND_NONE;
	return kinds[opcode];
}

/* IBA 10.3.1, C10-29: not before RTS. SQD queues, SQE and ERR flush. */
static bool takes_sends(const struct vb_qp *qp)
{
	return qp->state >= IBV_QPS_RTS;
}

static struct vb_send_wqe *begin_send(struct vb_qp *qp, int *error)
{
	struct vb_send_wqe *wqe;

	vb_lock_assert_held(&qp->lock);
	if (!takes_sends(qp)) {
		*error = EINVAL;
		return NULL;
	}
	wqe = vb_send_queue_reserve(&qp->send);
	if (!wqe) {
		*error = qp->type == IBV_QPT_XRC_RECV ? EINVAL : ENOMEM;
		return NULL;
	}
	*error = 0;
	return wqe;
}

int vb_qp_check_send(struct vb_qp *qp, const struct vb_send_wqe *wqe)
{
	enum opcode_kind kind = kind_of(qp, wqe->opcode);

	if (kind == KIND_NONE || wqe->sge_count > qp->send.max_sge || wqe->length > qp->max_message)
		return EINVAL;
	if (wqe->is_inline && ((kind != KIND_SEND && kind != KIND_WRITE) || wqe->length > qp->send.max_inline))
		return EINVAL;
	if (kind == KIND_READ && wqe->sge_count > qp->max_read_sge)
		return EINVAL;
	/* IBA 9.4.5 leaves an unaligned atomic to the responder; it is always refused there, so it is refused here. */
	if (kind == KIND_ATOMIC && (wqe->length != 8 || wqe->atomic.address % 8 != 0))
		return EINVAL;
	/* Its eight bytes came with the call: a list would be one too many. */
	if (wqe->opcode == IBV_WR_ATOMIC_WRITE && wqe->sge_count != 0)
		return EINVAL;
	if (qp->type == IBV_QPT_UD && wqe->datagram.qpn > QPN_MASK)
		return EINVAL;
	/* A frame has addresses and a type, or it is none. */
	if (qp->type == IBV_QPT_RAW_PACKET && wqe->length < VB_ETHERNET_HEADER)
		return EINVAL;
	/* Not advertised (IBV_DEVICE_RAW_IP_CSUM): a frame would leave without the checksums that were asked for. */
	if (qp->type == IBV_QPT_RAW_PACKET && (wqe->send_flags & IBV_SEND_IP_CSUM))
		return EINVAL;
	if (wqe->srqn > QPN_MASK)
		return EINVAL;
	return 0;
}

/* Work for a queue pair that has failed: those who look want to say why it comes back. */
static void tell_late(struct vb_qp *qp)
{
	const struct vb_failure failure = {
		.kind = VB_FLUSHED_LATE,
		.status = IBV_WC_WR_FLUSH_ERR,
		.why = &qp->fault,
		.flushed_sends = vb_send_queue_count(&qp->send),
		.flushed_receives = vb_receive_queue_count(&qp->receive),
	};

	if (failure.flushed_sends > 0 || failure.flushed_receives > 0)
		qp->host->watch->failed(qp, &failure);
}

/* The new work stands in the ring; the thread that runs the engine next executes it. */
static void commit_sends(struct vb_qp *qp, vb_time now)
{
	vb_lock_assert_held(&qp->lock);
	if (qp->signal_all)
		for (uint32_t i = qp->send.head; i != qp->send.reserved; i++)
			vb_send_queue_at(&qp->send, i)->send_flags |= IBV_SEND_SIGNALED;
	if (qp->host->watch)
		qp->host->watch->posting_sends(qp);
	vb_send_queue_commit(&qp->send);
	if (qp->state == IBV_QPS_ERR || qp->state == IBV_QPS_SQE) {
		if (qp->host->watch)
			tell_late(qp);
		vb_qp_flush_sends(qp, now);
	}
}

int vb_qp_commit_list(struct vb_qp *qp, const struct vb_send_list *list, vb_time now)
{
	vb_lock_assert_held(&qp->lock);
	/* `head` has moved: the queue pair was reset while the list was made. */
	if (!takes_sends(qp) || qp->send.head != list->first)
		return EINVAL;
	qp->send.reserved = list->first + list->count;
	commit_sends(qp, now);
	return 0;
}

static int fill_datagram(struct vb_qp *qp, const struct ibv_send_wr *wr, struct vb_send_wqe *wqe)
{
	const struct vb_ah *ah = wr->wr.ud.ah ? qp->host->address_of(wr->wr.ud.ah) : NULL;

	if (!ah || ah->pd != qp->pd)
		return EINVAL;
	wqe->datagram.path = ah->path;
	wqe->datagram.service_level = ah->service_level;
	wqe->datagram.qpn = wr->wr.ud.remote_qpn;
	/* IBA C10-15: a Q_Key with the high bit set stands for the queue pair's own. */
	wqe->datagram.qkey = wr->wr.ud.remote_qkey & 1u << 31 ? qp->attr.qkey : wr->wr.ud.remote_qkey;
	return 0;
}

static int fill_bind(struct vb_qp *qp, const struct ibv_send_wr *wr, struct vb_send_wqe *wqe)
{
	const struct ibv_mw_bind_info *info = &wr->bind_mw.bind_info;

	if (!wr->bind_mw.mw || (!info->mr && info->length > 0))
		return EINVAL;
	wqe->bind = (struct vb_window_bind){
		.window_key = wr->bind_mw.mw->rkey,
		.new_key = vb_window_key_granted(wr->bind_mw.mw, wr->bind_mw.rkey),
		.region_lkey = info->mr ? info->mr->lkey : 0,
		.address = info->addr,
		.length = info->length,
		.access = info->mw_access_flags,
		.qpn = qp->qpn,
		.pd = qp->pd,
	};
	return 0;
}

/* What the opcode adds to the list. */
static int fill_operation(struct vb_qp *qp, const struct ibv_send_wr *wr, struct vb_send_wqe *wqe,
			  enum opcode_kind kind)
{
	switch (kind) {
	case KIND_SEND:
		return qp->type == IBV_QPT_UD ? fill_datagram(qp, wr, wqe) : 0;
	case KIND_WRITE:
	case KIND_READ:
		wqe->rdma.address = wr->wr.rdma.remote_addr;
		wqe->rdma.rkey = wr->wr.rdma.rkey;
		return 0;
	case KIND_ATOMIC:
		/* ibv_post_send(3) does not have it: a struct ibv_send_wr has no place for the value. */
		if (wr->opcode == IBV_WR_ATOMIC_WRITE)
			return EINVAL;
		wqe->atomic.address = wr->wr.atomic.remote_addr;
		wqe->atomic.compare_or_add = wr->wr.atomic.compare_add;
		wqe->atomic.swap = wr->wr.atomic.swap;
		wqe->atomic.rkey = wr->wr.atomic.rkey;
		return 0;
	default:
		return wr->opcode == IBV_WR_BIND_MW ? fill_bind(qp, wr, wqe) : 0;
	}
}

/* The list, or its bytes: the caller may reuse them at once, and their key is not looked at (ibv_post_send(3)). */
static int fill_payload(struct vb_qp *qp, const struct ibv_send_wr *wr, struct vb_send_wqe *wqe)
{
	uint64_t length = 0;

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->send.max_sge)
		return EINVAL;
	for (int i = 0; i < wr->num_sge; i++)
		length += wr->sg_list[i].length;
	if (length > qp->max_message)
		return EINVAL;
	wqe->length = (uint32_t)length;
	if (!(wr->send_flags & IBV_SEND_INLINE)) {
		wqe->sge_count = (uint32_t)wr->num_sge;
		for (int i = 0; i < wr->num_sge; i++)
			wqe->list[i] = wr->sg_list[i];
		return 0;
	}
	wqe->is_inline = true;
	if (length > qp->send.max_inline)
		return EINVAL;
	length = 0;
	for (int i = 0; i < wr->num_sge; i++) {
		const struct ibv_sge *element = &wr->sg_list[i];

		if (element->length > 0)
			memcpy(vb_send_wqe_inline(wqe) + length, (const void *)(uintptr_t)element->addr,
			       element->length);
		length += element->length;
	}
	return 0;
}

static int fill_send(struct vb_qp *qp, const struct ibv_send_wr *wr, struct vb_send_wqe *wqe)
{
	enum opcode_kind kind = kind_of(qp, wr->opcode);
	int error;

	if (kind == KIND_NONE)
		return EINVAL;
	wqe->wr_id = wr->wr_id;
	wqe->opcode = wr->opcode;
	wqe->send_flags = wr->send_flags;
	if (qp->type == IBV_QPT_XRC_SEND)
		wqe->srqn = wr->qp_type.xrc.remote_srqn;
	if (wr->opcode == IBV_WR_LOCAL_INV || wr->opcode == IBV_WR_SEND_WITH_INV)
		wqe->invalidate_rkey = wr->invalidate_rkey;
	else
		memcpy(&wqe->immediate, &wr->imm_data, sizeof(wqe->immediate));
	error = fill_operation(qp, wr, wqe, kind);
	if (error == 0 && kind != KIND_LOCAL)
		error = fill_payload(qp, wr, wqe);
	if (error == 0)
		error = vb_qp_check_send(qp, wqe);
	if (error == 0 && wr->opcode == IBV_WR_BIND_MW && wr->bind_mw.mw->type == IBV_MW_TYPE_2)
		wr->bind_mw.mw->rkey = wqe->bind.new_key;
	return error;
}

int vb_qp_post_send(struct vb_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr, vb_time now)
{
	int error = 0;

	for (; wr; wr = wr->next) {
		struct vb_send_wqe *wqe = begin_send(qp, &error);

		if (wqe) {
			error = fill_send(qp, wr, wqe);
			if (error != 0)
				qp->send.reserved--;
		}
		if (error != 0) {
			*bad_wr = wr;
			break;
		}
	}
	commit_sends(qp, now);
	return error;
}

int vb_qp_post_receive(struct vb_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr, vb_time now)
{
	uint32_t before = vb_receive_queue_count(&qp->receive);
	int error = 0;

	vb_lock_assert_held(&qp->lock);
	for (; wr && error == 0; wr = wr->next) {
		/* IBA C10-28: not in RESET; and a queue pair with a shared queue has none of its own, nor has one of XRC. */
		error = qp->state == IBV_QPS_RESET || qp->srq || qp->type >= IBV_QPT_XRC_SEND ?
				EINVAL :
				-vb_receive_queue_post(&qp->receive, wr);
		if (error != 0)
			*bad_wr = wr;
	}
	if (qp->host->watch) {
		qp->host->watch->posted_receives(qp, vb_receive_queue_count(&qp->receive) - before);
		if (qp->state == IBV_QPS_ERR)
			tell_late(qp);
	}
	if (qp->state == IBV_QPS_ERR)
		vb_qp_flush_receives(qp, now);
	return error;
}
