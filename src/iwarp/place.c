/* SPDX-License-Identifier: MIT
 *
 * Where the bytes of a payload go: into the memory that a WRITE names, into the receive that a SEND has taken, into the list of the READ
 * that is answered. deliver.c has checked the whole segment; each piece is checked again, because the region may have been
 * deregistered meanwhile. Where the memory has an address, the region is held for as long as a call lasts.
 */
#include "iwarp/engine.h"

/* The rest of an FPDU, as a list or as a range. */
struct target {
	struct vb_pd *pd;
	const struct ibv_sge *list;      /* NULL: a range */
	uint32_t count;
	uint64_t offset;                 /* into the list */
	uint32_t key;
	uint64_t address;
};

static struct target target_of(struct vb_qp *qp)
{
	struct vb_iwarp_engine *engine = vb_iwarp_engine(qp);
	const struct vb_iwarp_receiver *receiver = &engine->receiver;
	const struct vb_iwarp_asked *asked;
	const struct vb_send_wqe *wqe;

	switch (receiver->op->kind) {
	case VB_RDMAP_KIND_SEND:
		return (struct target){
			.pd = qp->receive_pd,
			.list = receiver->taken.list,
			.count = receiver->taken.sge_count,
			.offset = (uint64_t)receiver->send_received + receiver->placed,
		};
	case VB_RDMAP_KIND_READ_RESPONSE:
		asked = vb_iwarp_reads_oldest(engine);
		wqe = vb_send_queue_at(&qp->send, asked->element);
		return (struct target){
			.pd = qp->pd,
			.list = wqe->list,
			.count = wqe->sge_count,
			.offset = (uint64_t)asked->offset + asked->received + receiver->placed,
		};
	default:
		return (struct target){
			.pd = qp->pd,
			.key = receiver->header.stag,
			.address = receiver->header.offset + receiver->placed,
		};
	}
}

static uint8_t *hold(struct vb_qp *qp, const struct vb_accessor *who, uint64_t address, uint64_t range, uint32_t length)
{
	struct vb_hold *placing = &vb_iwarp_engine(qp)->receiver.placing;
	uint8_t *bytes = vb_hold_bytes(placing, who->key, who->rights, address, length);

	if (bytes)
		return bytes;
	return vb_memory_hold(qp->host->memory, who, address, range, placing) ? placing->bytes : NULL;
}

static uint8_t *place_in_list(struct vb_qp *qp, const struct target *target, uint32_t *length)
{
	struct vb_accessor who = {.pd = target->pd, .qpn = qp->qpn, .rights = IBV_ACCESS_LOCAL_WRITE};
	const struct ibv_sge *element = target->list, *end = element + target->count;
	uint64_t offset = target->offset, left;

	while (element < end && offset >= element->length)
		offset -= element++->length;
	if (element == end)
		return NULL;
	left = element->length - offset;
	if (*length > left)
		*length = (uint32_t)left;
	who.key = element->lkey;
	return hold(qp, &who, element->addr + offset, left, *length);
}

uint8_t *vb_iwarp_place_at(struct vb_qp *qp, uint32_t *length)
{
	struct target target = target_of(qp);
	struct vb_accessor who = {
		.pd = target.pd,
		.qpn = qp->qpn,
		.key = target.key,
		.rights = IBV_ACCESS_REMOTE_WRITE,
		.remote = true,
	};

	/* What is held open is held for regions of the queue pair's domain. */
	if (target.pd != qp->pd)
		return NULL;
	if (target.list)
		return place_in_list(qp, &target, length);
	return hold(qp, &who, target.address, vb_iwarp_engine(qp)->receiver.left, *length);
}

/* By the ordinary access: windows, on-demand memory, several elements. */
static bool place_anywhere(struct vb_qp *qp, const uint8_t *bytes, uint32_t length, struct vb_fault_record *why)
{
	struct target target = target_of(qp);
	struct vb_accessor who = {
		.pd = target.pd,
		.qpn = qp->qpn,
		.key = target.key,
		.rights = IBV_ACCESS_REMOTE_WRITE,
		.remote = true,
	};

	if (target.list)
		return vb_memory_scatter(qp->host->memory, target.pd, qp->qpn, target.list, target.count, target.offset, bytes, length,
					 why);
	return vb_memory_place(qp->host->memory, &who, target.address, bytes, length, why);
}

/* Memory that was there when the message began is there no more. */
static void refuse(struct vb_qp *qp, vb_time now, struct vb_fault_record *why)
{
	struct vb_iwarp_fall fall = {.cause = vb_iwarp_cause_of(why, false), .names_message = true};

	switch (vb_iwarp_engine(qp)->receiver.op->kind) {
	case VB_RDMAP_KIND_SEND:
		/* The receive's own memory is at fault, not the message. */
		fall.cause = vb_terminate_cause(VB_TERMINATE_RDMAP, 0, 0xff);
		fall.fails_receive = true;
		fall.status = IBV_WC_LOC_PROT_ERR;
		break;
	case VB_RDMAP_KIND_READ_RESPONSE:
		vb_iwarp_fall_local(qp);
		vb_work_evidence(qp, vb_send_queue_at(&qp->send, qp->send.tail), why);
		vb_qp_fail_send(qp, IBV_WC_LOC_PROT_ERR, why, now);
		return;
	default:
		fall.has_event = true;
		fall.event = IBV_EVENT_QP_ACCESS_ERR;
	}
	vb_iwarp_fall(qp, now, &fall, why);
}

bool vb_iwarp_place(struct vb_qp *qp, vb_time now, const uint8_t *bytes, uint32_t length)
{
	struct vb_iwarp_receiver *receiver = &vb_iwarp_engine(qp)->receiver;
	struct vb_fault_record why = {0};

	while (length > 0) {
		uint32_t piece = length;
		uint8_t *to = vb_iwarp_place_at(qp, &piece);

		if (to) {
			vb_hold_place(to, bytes, piece);
		} else {
			piece = length;
			if (!place_anywhere(qp, bytes, piece, &why)) {
				refuse(qp, now, &why);
				return false;
			}
		}
		receiver->placed += piece;
		receiver->left -= piece;
		bytes += piece;
		length -= piece;
	}
	return true;
}
