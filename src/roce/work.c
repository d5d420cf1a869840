/* SPDX-License-Identifier: MIT
 *
 * What every service does with a work queue element: check it, give it PSNs, make headers and payload of its
 * packets.
 *
 * A packet's payload is a snapshot, taken as the burst computes its ICRC: an application that changes a buffer under way (which
 * it must not, before the completion) changes what arrives, and not whether it does.
 */
#include <string.h>

#include "profiles/limits.h"
#include "roce/engine.h"
#include "roce/roce.h"

/* How often to see whether a peer has ended its copy through a window. */
#define LOCAL_RETRY VB_MICROSECONDS(100)

static const struct vb_roce_work work_table[] = {
	[IBV_WR_SEND] = {VB_KIND_SEND},
	[IBV_WR_SEND_WITH_IMM] = {VB_KIND_SEND, VB_HEADER_IMMEDIATE},
	[IBV_WR_SEND_WITH_INV] = {VB_KIND_SEND, VB_HEADER_IETH},
	[IBV_WR_RDMA_WRITE] = {VB_KIND_WRITE},
	[IBV_WR_RDMA_WRITE_WITH_IMM] = {VB_KIND_WRITE, VB_HEADER_IMMEDIATE},
	[IBV_WR_RDMA_READ] = {VB_KIND_READ_REQUEST},
	[IBV_WR_ATOMIC_CMP_AND_SWP] = {VB_KIND_ATOMIC_CMP_SWP},
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = {VB_KIND_ATOMIC_FETCH_ADD},
	[IBV_WR_ATOMIC_WRITE] = {VB_KIND_ATOMIC_WRITE},
};

const struct vb_roce_work *vb_roce_work(enum ibv_wr_opcode opcode)
{
	static const struct vb_roce_work none;

	if ((unsigned)opcode >= sizeof(work_table) / sizeof(work_table[0]))
		return &none;
	return &work_table[opcode];
}

void vb_roce_work_fail(struct vb_qp *qp, const struct vb_send_wqe *wqe, enum ibv_wc_status status,
		       const struct vb_fault_record *why)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;
	uint32_t index = qp->send.tail;

	while (vb_send_queue_at(&qp->send, index) != wqe)
		index++;
	vb_work_fail(&requester->failure, qp, index, status, why, requester->send.v);
}

/* Once: a later retransmission passes over what is done. */
static bool execute_local(struct vb_qp *qp, struct vb_send_wqe *wqe, vb_time now)
{
	struct vb_fault_record why = {0};
	enum vb_window_result result = vb_work_execute_local(qp, wqe, &why);

	if (result == VB_WINDOW_LATER) {
		vb_roce_engine(qp)->requester.local_retry_at = now + LOCAL_RETRY;
		return false;
	}
	if (result == VB_WINDOW_REFUSED) {
		vb_roce_work_fail(qp, wqe, IBV_WC_MW_BIND_ERR, &why);
		return false;
	}
	wqe->started = wqe->done = true;
	return true;
}

/* IBA C10-93.1.1 would have a datagram that is longer than the MTU vanish without an error, and rxe does so. A program is better
 * served by the status that is made for it. */
static uint64_t longest_message(const struct vb_qp *qp)
{
	return qp->type == IBV_QPT_UD ? vb_roce_engine_of(qp)->mtu : VB_MAX_MESSAGE;
}

const struct vb_send_wqe *vb_roce_work_of(const struct vb_qp *qp, struct psn psn)
{
	enum { SEARCHED = 4096 };
	uint32_t most = qp->send.head <= qp->send.mask ? qp->send.head : qp->send.mask + 1;

	for (uint32_t i = 1; i <= most && i <= SEARCHED; i++) {
		const struct vb_send_wqe *wqe = vb_send_queue_at(&qp->send, qp->send.head - i);
		const struct vb_roce_note *note = vb_roce_note(wqe);

		if (wqe->started && (uint32_t)psn_distance(psn, note->first_psn) < (note->packets ? note->packets : 1))
			return wqe;
	}
	return NULL;
}

static bool may_use_memory(struct vb_qp *qp, const struct vb_send_wqe *wqe, struct vb_fault_record *why)
{
	bool is_read = vb_work(wqe->opcode)->is_read;

	if (wqe->is_inline)
		return true;
	/* What is held was checked (hold.c), perhaps for the message before it, and its packets are of it. */
	if (!is_read && wqe->sge_count == 1 &&
	    vb_roce_hold_list(qp, &vb_roce_engine(qp)->sending, wqe->list, 1, 0, wqe->list->length, 0))
		return true;
	return vb_memory_check_list(qp->host->memory, qp->pd, qp->qpn, wqe->list, wqe->sge_count,
				    is_read ? IBV_ACCESS_LOCAL_WRITE : 0, why);
}

bool vb_roce_work_start(struct vb_qp *qp, struct vb_send_wqe *wqe, vb_time now)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;
	const struct vb_work *work = vb_work(wqe->opcode);
	struct vb_roce_note *note = vb_roce_note(wqe);
	struct vb_fault_record why = {0};
	enum ibv_wc_status status;

	wqe->started_at = now;
	if (!vb_work_check(qp, wqe, longest_message(qp), &status, &why)) {
		vb_roce_work_fail(qp, wqe, status, &why);
		return false;
	}
	*note = (struct vb_roce_note){.receives_through = requester->receives_started};
	if (work->kind == VB_WORK_LOCAL)
		return execute_local(qp, wqe, now);
	if (!may_use_memory(qp, wqe, &why)) {
		vb_roce_work_fail(qp, wqe, IBV_WC_LOC_PROT_ERR, &why);
		return false;
	}
	note->first_psn = requester->send;
	note->packets = work->kind == VB_WORK_ATOMIC ? 1 : vb_roce_packets(wqe->length, vb_roce_engine(qp)->mtu);
	note->series = vb_roce_series_suits(qp, wqe, note->packets, now);
	wqe->started = true;
	if (work->takes_receive)
		note->receives_through = ++requester->receives_started;
	vb_roce_tally_one(&vb_roce_engine(qp)->tally, &vb_roce_engine(qp)->tally.work[work->kind]);
	return true;
}

void vb_roce_work_headers(struct vb_qp *qp, const struct vb_send_wqe *wqe, uint32_t index,
			  struct vb_roce_packet *packet)
{
	const struct vb_roce_work *work = vb_roce_work(wqe->opcode);
	const struct vb_roce_note *note = vb_roce_note(wqe);
	uint32_t mtu = vb_roce_engine(qp)->mtu;
	enum vb_roce_position position = vb_roce_position(index == 0 || note->series, index + 1 == note->packets || note->series);
	bool end = vb_position_is_end(position);
	int opcode = vb_roce_opcode_find(vb_roce_service(qp), work->kind, position, end ? work->suffix : 0);

	vb_roce_prepare(qp, packet, opcode, psn_add(note->first_psn, index));
	/* IBA 9.2.3: only what completes a receive may ask for an event. */
	packet->solicited = end && vb_work(wqe->opcode)->takes_receive && (wqe->send_flags & IBV_SEND_SOLICITED);
	if (packet->op->headers & VB_HEADER_RETH) {
		packet->reth.address = wqe->rdma.address + (note->series ? (uint64_t)index * mtu : 0);
		packet->reth.rkey = wqe->rdma.rkey;
		packet->reth.length = note->series ? vb_roce_payload(wqe->length, mtu, index) : wqe->length;
	}
	packet->srqn = wqe->srqn;
	packet->immediate = wqe->immediate;
	packet->invalidate_rkey = wqe->invalidate_rkey;
}

/* Memory without a plain pointer to it, or in too many pieces: by way of the burst's scratch. */
static bool gather(struct vb_qp *qp, struct vb_send_wqe *wqe, uint64_t offset, uint32_t length, struct vb_burst *out,
		   struct iovec *span)
{
	struct vb_fault_record why = {0};

	*span = (struct iovec){out->scratch, length};
	if (vb_memory_gather(qp->host->memory, qp->pd, qp->qpn, wqe->list, wqe->sge_count, offset, span->iov_base,
			     length, &why))
		return true;
	vb_roce_work_fail(qp, wqe, IBV_WC_LOC_PROT_ERR, &why);
	return false;
}

enum vb_roce_progress vb_roce_work_append(struct vb_qp *qp, struct vb_send_wqe *wqe, uint32_t index,
					  const struct vb_path *path, struct vb_roce_packet *packet,
					  struct vb_burst *out)
{
	uint32_t mtu = vb_roce_engine(qp)->mtu;
	uint32_t length = vb_roce_payload(wqe->length, mtu, index);
	uint64_t offset = (uint64_t)index * mtu;
	struct vb_fault_record why = {0};
	struct vb_hold holds[VB_WORK_SPANS];
	struct iovec spans[VB_WORK_SPANS];
	int count = 0, held = 0;

	if (!vb_burst_has_room(out, length))
		return VB_PROGRESS_BURST_FULL;
	if (wqe->is_inline) {
		spans[0] = (struct iovec){vb_send_wqe_inline(wqe) + offset, length};
		count = 1;
	} else if (length > 0) {
		uint8_t *bytes = vb_roce_hold_list(qp, &vb_roce_engine(qp)->sending, wqe->list, wqe->sge_count, offset,
						   length, 0);

		if (bytes) {
			spans[0] = (struct iovec){bytes, length};
			count = 1;
		} else {
			count = held = vb_memory_gather_spans(qp->host->memory, qp->pd, qp->qpn, wqe->list, wqe->sge_count,
							      offset, length, spans, holds, VB_WORK_SPANS, &why);
		}
		if (count < 0) {
			vb_roce_work_fail(qp, wqe, IBV_WC_LOC_PROT_ERR, &why);
			return VB_PROGRESS_MUST_WAIT;
		}
		if (count == 0) {
			if (!gather(qp, wqe, offset, length, out, &spans[0]))
				return VB_PROGRESS_MUST_WAIT;
			count = 1;
		}
	}
	vb_burst_append(out, path, packet, spans, (unsigned)count);
	/* It was copied. */
	vb_memory_let_go_all(holds, (unsigned)held);
	return VB_PROGRESS_SENT;
}

VB_RARE static uint32_t append_staged(struct vb_qp *qp, const struct vb_send_wqe *wqe, uint64_t offset, uint32_t count,
				      struct vb_roce_packet *packet, struct vb_burst *out)
{
	uint32_t mtu = vb_roce_engine(qp)->mtu, most = VB_ROCE_STAGED / mtu;
	struct vb_fault_record ignored;
	uint8_t bytes[VB_ROCE_STAGED];

	if (!vb_memory_has_gpu(qp->host->memory))
		return 0;
	if (count > most) {
		count = most;
		packet->ack_request = false;
	}
	/* What is refused is refused again, one by one. */
	if (!vb_memory_gather(qp->host->memory, qp->pd, qp->qpn, wqe->list, wqe->sge_count, offset, bytes, count * mtu, &ignored))
		return 0;
	return vb_burst_append_many(out, &qp->path, packet, bytes, mtu, count);
}

uint32_t vb_roce_work_append_alike(struct vb_qp *qp, const struct vb_send_wqe *wqe, uint32_t index, uint32_t count,
				   struct vb_roce_packet *packet, struct vb_burst *out)
{
	uint32_t mtu = vb_roce_engine(qp)->mtu;
	uint64_t offset = (uint64_t)index * mtu, left = offset;
	const struct ibv_sge *element = wqe->list, *end = element + wqe->sge_count;
	const uint8_t *bytes;

	/* Those of XRC have more than a BTH before the payload. */
	if (wqe->is_inline || qp->type == IBV_QPT_XRC_SEND)
		return 0;
	while (element < end && left >= element->length)
		left -= element++->length;
	if (element == end)
		return 0;
	/* As many as lie whole in this element. */
	left = (element->length - left) / mtu;
	if (count > left) {
		count = (uint32_t)left;
		packet->ack_request = false;
	}
	if (count == 0)
		return 0;
	bytes = vb_roce_hold_list(qp, &vb_roce_engine(qp)->sending, wqe->list, wqe->sge_count, offset, count * mtu, 0);
	if (!bytes)
		return append_staged(qp, wqe, offset, count, packet, out);
	return vb_burst_append_many(out, &qp->path, packet, bytes, mtu, count);
}
