/* SPDX-License-Identifier: MIT
 *
 * See watch.h.
 *
 *   buffers   a checksum of what a send gathers, taken when it is posted and again when it completes
 *   CQs       how many completions can still come from what was posted, beside those that wait
 *   regions   at deregistration all queues of the context are searched for the key
 *   events    destruction that has to wait for acknowledgements says so after a while
 */
#include "verbs/watch.h"

#include <stdlib.h>
#include <time.h>

#include "base/crc.h"
#include "explain/misuse.h"
#include "memory/place.h"
#include "verbs/context.h"
#include "io/clock.h"
#include "verbs/explain_settings.h"
#include "verbs/explainer.h"
#include "verbs/public_mutex.h"

enum { LONGEST_CHECKED = 64 * 1024, CHUNK = 4096, PATIENCE_MS = 200 };

/* ---- buffers ---- */

static bool sends_memory(const struct vb_send_wqe *wqe)
{
	switch (wqe->opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_SEND_WITH_INV:
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return !wqe->is_inline && wqe->length > 0 && wqe->length <= LONGEST_CHECKED;
	default:
		return false;
	}
}

/* By the checked access, so that keys, ranges and unmapped memory are dealt with as always. */
static bool compute_sum(struct vb_qp *qp, const struct vb_send_wqe *wqe, uint32_t *sum)
{
	struct vb_fault_record ignored;
	uint8_t chunk[CHUNK];

	*sum = 0;
	for (uint32_t at = 0; at < wqe->length; at += CHUNK) {
		uint32_t length = wqe->length - at < CHUNK ? wqe->length - at : CHUNK;

		if (!vb_memory_gather(qp->host->memory, qp->pd, qp->qpn, wqe->list, wqe->sge_count, at, chunk, length,
				      &ignored))
			return false;
		*sum = vb_crc32(*sum, chunk, length);
	}
	return true;
}

static struct vb_watched_send *note_of(struct vb_qp *qp, uint32_t index)
{
	struct vb_queue_pair *own = qp->owner;

	if (!own->watched.sends)
		own->watched.sends = calloc(qp->send.mask + 1, sizeof(*own->watched.sends));
	return own->watched.sends ? &own->watched.sends[index & qp->send.mask] : NULL;
}

static void compare_sum(struct vb_qp *qp, const struct vb_send_wqe *wqe)
{
	struct vb_queue_pair *own = qp->owner;
	struct vb_watched_send *note = own->watched.sends ? note_of(qp, qp->send.tail) : NULL;
	struct vb_report report;
	uint32_t sum;

	if (!note || !note->valid || own->watched.told_buffer || !compute_sum(qp, wqe, &sum) || sum == note->sum)
		return;
	own->watched.told_buffer = true;
	vb_explain_buffer_changed(qp->qpn, wqe->wr_id, wqe->opcode, wqe->length, &report);
	vb_explainer_write(&report);
}

/* ---- completion queues ---- */

static void expect(struct vb_qp *qp, struct vb_cq *core, uint32_t more)
{
	struct vb_completion_queue *cq = core->owner;
	uint32_t expected = __atomic_add_fetch(&cq->watched.expected, more, __ATOMIC_RELAXED);
	uint32_t waiting =
		__atomic_load_n(&core->head, __ATOMIC_ACQUIRE) - __atomic_load_n(&core->tail, __ATOMIC_ACQUIRE);
	struct vb_report report;

	if (expected + waiting <= core->capacity ||
	    __atomic_exchange_n(&cq->watched.told_crowded, true, __ATOMIC_RELAXED))
		return;
	vb_explain_cq_crowded(core->capacity, waiting, expected, qp->qpn, &report);
	vb_explainer_write(&report);
}

static void expect_less(struct vb_cq *core, uint32_t less)
{
	struct vb_completion_queue *cq = core->owner;

	__atomic_sub_fetch(&cq->watched.expected, less, __ATOMIC_RELAXED);
}

void vb_watch_posting_sends(struct vb_qp *qp)
{
	struct vb_queue_pair *own = qp->owner;
	uint32_t signalled = 0;

	if (!vb_watches)
		return;
	for (uint32_t i = qp->send.head; i != qp->send.reserved; i++) {
		const struct vb_send_wqe *wqe = vb_send_queue_at(&qp->send, i);
		struct vb_watched_send *note = note_of(qp, i);

		if (note)
			note->valid = sends_memory(wqe) && compute_sum(qp, wqe, &note->sum);
		signalled += (wqe->send_flags & IBV_SEND_SIGNALED) != 0;
	}
	own->watched.signalled += signalled;
	if (signalled > 0)
		expect(qp, qp->send_cq, signalled);
}

void vb_watch_posted_receives(struct vb_qp *qp, uint32_t count)
{
	struct vb_queue_pair *own = qp->owner;

	if (!vb_watches || count == 0)
		return;
	own->watched.receives += count;
	expect(qp, qp->recv_cq, count);
}

void vb_watch_completing_send(struct vb_qp *qp, const struct vb_send_wqe *wqe, enum ibv_wc_status status, bool wanted)
{
	struct vb_queue_pair *own = qp->owner;

	(void)wanted;
	if (!vb_watches)
		return;
	if (status == IBV_WC_SUCCESS)
		compare_sum(qp, wqe);
	if ((wqe->send_flags & IBV_SEND_SIGNALED) && own->watched.signalled > 0) {
		own->watched.signalled--;
		expect_less(qp->send_cq, 1);
	}
}

void vb_watch_completing_receive(struct vb_qp *qp)
{
	struct vb_queue_pair *own = qp->owner;

	/* From a shared queue: which CQ it would come to was not known. */
	if (!vb_watches || own->watched.receives == 0)
		return;
	own->watched.receives--;
	expect_less(qp->recv_cq, 1);
}

void vb_watch_forget(struct vb_queue_pair *qp)
{
	/* XRC receivers have none of their own. */
	if (qp->watched.signalled > 0)
		expect_less(qp->qp->send_cq, qp->watched.signalled);
	if (qp->watched.receives > 0)
		expect_less(qp->qp->recv_cq, qp->watched.receives);
	qp->watched.signalled = qp->watched.receives = 0;
	qp->watched.told_late = false;
}

void vb_watch_free(struct vb_queue_pair *qp)
{
	free(qp->watched.sends);
	qp->watched.sends = NULL;
}

/* ---- regions ---- */

struct users {
	uint32_t key, count;
	uint32_t qpn; /* of the first */
	uint64_t wr_id;
	bool is_receive;
};

static void note_user(struct users *users, const struct ibv_sge *list, uint32_t count, const struct vb_qp *qp,
		      uint64_t wr_id, bool is_receive)
{
	for (uint32_t i = 0; i < count; i++) {
		if (list[i].lkey != users->key)
			continue;
		if (users->count++ == 0) {
			users->qpn = qp->qpn;
			users->wr_id = wr_id;
			users->is_receive = is_receive;
		}
		return;
	}
}

/* Caller holds qp->lock. */
static void search(struct vb_qp *qp, struct users *users)
{
	for (uint32_t i = qp->send.tail; i != qp->send.head; i++) {
		const struct vb_send_wqe *wqe = vb_send_queue_at(&qp->send, i);

		if (!wqe->is_inline)
			note_user(users, wqe->list, wqe->sge_count, qp, wqe->wr_id, false);
	}
	for (uint32_t i = qp->receive.tail; i != qp->receive.head; i++) {
		const struct vb_receive_wqe *wqe =
			(const void *)(qp->receive.slots + (size_t)(i & qp->receive.mask) * qp->receive.stride);

		note_user(users, wqe->list, wqe->sge_count, qp, wqe->wr_id, true);
	}
}

void vb_watch_deregister(const struct ibv_mr *mr)
{
	struct vb_context *context = vb_context_of(mr->context);
	struct users users = {.key = mr->lkey};
	struct vb_report report;

	vb_lock_take(&context->lock);
	VB_LIST_FOR_EACH(node, &context->qps)
	{
		struct vb_qp *qp = vb_container_of(node, struct vb_queue_pair, node)->qp;

		vb_lock_take(&qp->lock);
		search(qp, &users);
		vb_lock_release(&qp->lock);
	}
	vb_lock_release(&context->lock);
	if (users.count == 0 || __atomic_exchange_n(&context->watched_region, true, __ATOMIC_RELAXED))
		return;
	vb_explain_region_in_use(mr->lkey, (uintptr_t)mr->addr, mr->length, users.qpn, users.wr_id, users.is_receive,
				 users.count - 1, &report);
	vb_explainer_write(&report);
}

/* ---- events ---- */

void vb_watch_acknowledged(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *completed, uint32_t reported,
			   const char *object, const char *acknowledge)
{
	struct vb_report report;
	vb_time wall = vb_clock_wall() + VB_MILLISECONDS(PATIENCE_MS);
	const struct timespec until = {.tv_sec = (time_t)(wall / VB_SECONDS(1)), .tv_nsec = (long)(wall % VB_SECONDS(1))};
	uint32_t acknowledged;
	int late = 0;

	/* Another thread may be about to. */
	vb_public_lock(mutex);
	while (*completed != reported && late == 0)
		late = vb_public_wait_until(mutex, cond, &until);
	acknowledged = *completed;
	vb_public_unlock(mutex);
	if (acknowledged == reported)
		return;
	vb_explain_unacknowledged(object, acknowledge, reported, acknowledged, &report);
	vb_explainer_write(&report);
}

/* ---- fields ---- */

static void guard(struct vb_completion_queue *cq, const char *field, bool valid)
{
	struct vb_report report;

	if (valid || __atomic_exchange_n(&cq->watched.told_field, true, __ATOMIC_RELAXED))
		return;
	vb_explain_field_not_valid(field, cq->current.qpn, cq->current.wr_id, cq->current.status, &report);
	vb_explainer_write(&report);
}

static struct vb_completion_queue *queue_of(struct ibv_cq_ex *cq)
{
	return vb_completion_queue_of(ibv_cq_ex_to_cq(cq));
}

/* name, type, where it stands, and when else it says nothing */
#define FIELDS(X)                                                                                                      \
	X(opcode, enum ibv_wc_opcode, opcode, true)                                                                    \
	X(byte_len, uint32_t, byte_length, true)                                                                       \
	X(imm_data, __be32, immediate, (cq->current.wc_flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV)) != 0)              \
	X(src_qp, uint32_t, source_qpn, true)                                                                          \
	X(wc_flags, unsigned int, wc_flags, true)                                                                      \
	X(sl, uint8_t, service_level, true)

#define X(name, type, member, otherwise)                                                                               \
	static type read_##name(struct ibv_cq_ex *public)                                                              \
	{                                                                                                              \
		struct vb_completion_queue *cq = queue_of(public);                                                     \
                                                                                                                       \
		guard(cq, #name, cq->current.status == IBV_WC_SUCCESS && (otherwise));                                 \
		return cq->current.member;                                                                             \
	}
FIELDS(X)
#undef X

void vb_watch_fields(struct vb_completion_queue *cq)
{
#define X(name, type, member, otherwise) cq->ex.read_##name = read_##name;
	FIELDS(X)
#undef X
}
