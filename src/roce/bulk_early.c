/* SPDX-License-Identifier: MIT
 *
 * The fast path of responses that came ahead of a missing one, in packets that are all alike (singly.c): each goes to its place in the same
 * pass that computes the ICRC, and that it came is remembered (early.c). Where one packet in a hundred is lost something is missing nearly
 * all the time, and one by one they took the requester half of its time.
 *
 * They may be placed before the ICRC is compared, for the reasons that bulk_receive.c names: what the memory of a read holds before its
 * end is undefined. One whose PSN is damaged leaves rubbish where nothing has come yet, and what belongs there is still asked for: a
 * place that is taken is left alone. Whatever else there may be about a packet goes the ordinary way.
 */
#include "roce/engine.h"
#include "roce/roce.h"
#include "wire/icrc.h"

/* The piece of a read that the last packet was of; most likely the next is as well. */
struct piece {
	const struct vb_roce_asked *asked;
	const struct vb_send_wqe *wqe;
};

static bool find_piece(struct vb_qp *qp, struct psn psn, struct piece *piece)
{
	if (piece->asked && psn_ahead(psn, piece->asked->first) < piece->asked->packets)
		return true;
	piece->asked = vb_roce_reads_find(&vb_roce_engine(qp)->requester, psn);
	piece->wqe = piece->asked && piece->asked->singly ? vb_roce_reads_element(qp, psn) : NULL;
	return piece->wqe && piece->wqe->opcode == IBV_WR_RDMA_READ;
}

/* Where a whole packet goes that came ahead. NULL: by the ordinary way. */
static uint8_t *find_place(struct vb_qp *qp, struct psn psn, struct piece *piece)
{
	struct vb_roce_engine *engine = vb_roce_engine(qp);
	const struct vb_roce_requester *requester = &engine->requester;
	uint64_t offset;

	if (!psn_before(requester->acknowledged, psn) || vb_roce_early_has(requester, psn) || !find_piece(qp, psn, piece))
		return NULL;
	offset = (uint64_t)psn_ahead(psn, vb_roce_note(piece->wqe)->first_psn) * engine->mtu;
	if (offset + engine->mtu > piece->wqe->length)
		return NULL;
	return vb_roce_hold_list(qp, &engine->placing, piece->wqe->list, piece->wqe->sge_count, offset, engine->mtu,
				 IBV_ACCESS_LOCAL_WRITE);
}

bool vb_roce_bulk_early(struct vb_qp *qp, vb_time now, const struct vb_path *from, struct vb_icrc_prefix *prefix, struct vb_roce_bulk *got)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;
	const uint8_t only = (uint8_t)vb_roce_opcode_find(vb_roce_service(qp), VB_KIND_READ_RESPONSE, VB_POSITION_ONLY, 0);
	struct piece piece = {0};
	uint32_t count = 0;
	bool ignored;

	if ((qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD) || vb_roce_reads_is_idle(requester) ||
	    psn_equal(vb_bth_psn(got->bytes), requester->acknowledged))
		return false;
	/* Requests before the oldest read are passed, and what is asked for again is told apart, by the ordinary way. */
	if (requester->asked_sent != requester->asked_head ||
	    psn_before(requester->acknowledged, vb_roce_reads_at(requester, requester->asked_tail)->first))
		return true;
	for (; count * got->stride + got->segment <= got->length; count++) {
		const uint8_t *datagram = got->bytes + count * got->stride;
		struct psn psn = vb_bth_psn(datagram);
		uint8_t *to;

		if (!vb_roce_packet_is_next(datagram, got->segment, only, qp->qpn, psn, &ignored))
			break;
		to = find_place(qp, psn, &piece);
		if (!to)
			break;
		if (!vb_icrc_copy_is_valid(prefix, from, datagram, got->segment, (uint16_t)(got->index + count),
					   VB_BTH_LENGTH + VB_AETH_LENGTH, to)) {
			got->damaged = 1;
			break;
		}
		if (!vb_roce_early_add(requester, psn))
			break;
	}
	got->taken = count;
	if (count > 0)
		vb_roce_completer_kept(qp, now, count);
	return true;
}
