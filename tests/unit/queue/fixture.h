/* SPDX-License-Identifier: MIT
 *
 * A host and a transport that only take notes, and a queue pair over them.
 */
#ifndef TESTS_UNIT_QUEUE_FIXTURE_H
#define TESTS_UNIT_QUEUE_FIXTURE_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "profiles/profile.h"
#include "queue/address.h"
#include "queue/qp.h"
#include "queue/wq.h"

enum { FIXTURE_QPN = 0x17, FIXTURE_EVENTS = 32, FIXTURE_NOW = 1000 };

/* What the host and the transport were told. One world at a time. */
static struct notes {
	unsigned completion_events, deadlines;
	vb_time deadline;
	unsigned events;
	enum ibv_event_type event[FIXTURE_EVENTS];
	unsigned modified, attached, detached;
	enum ibv_qp_state modified_from, modified_to;
	int modified_mask;
	uint32_t sends_when_modified;    /* committed sends at that moment */
	int attach_result;
	struct vb_ah ah;
} notes;

static inline void note_event(enum ibv_event_type event)
{
	assert_true(notes.events < FIXTURE_EVENTS);
	notes.event[notes.events++] = event;
}

static inline void note_completion_event(struct vb_cq *cq)
{
	vb_lock_assert_held(&cq->lock);
	notes.completion_events++;
}

static inline void note_deadline(struct vb_cq *cq, vb_time when)
{
	vb_lock_assert_held(&cq->lock);
	notes.deadlines++;
	notes.deadline = when;
}

static inline void note_qp_event(struct vb_qp *qp, enum ibv_event_type event)
{
	vb_lock_assert_held(&qp->lock);
	note_event(event);
}

static inline void note_cq_event(struct vb_cq *cq, enum ibv_event_type event)
{
	vb_lock_assert_held(&cq->lock);
	note_event(event);
}

static inline void note_srq_event(struct vb_srq *srq, enum ibv_event_type event)
{
	vb_lock_assert_held(&srq->lock);
	note_event(event);
}

static inline void note_wq_event(struct vb_wq *wq, enum ibv_event_type event)
{
	vb_lock_assert_held(&wq->receives.lock);
	note_event(event);
}

/* An application's handle is any non-null pointer here; the address behind it is the one in the notes. */
static inline const struct vb_ah *note_address_of(struct ibv_ah *ah)
{
	(void)ah;
	return &notes.ah;
}

static const struct vb_queue_host fixture_host = {
	.profile = &vb_profile_roce,
	.completion_event = note_completion_event,
	.completion_deadline = note_deadline,
	.qp_event = note_qp_event,
	.cq_event = note_cq_event,
	.srq_event = note_srq_event,
	.wq_event = note_wq_event,
	.address_of = note_address_of,
};

static inline int note_attach(struct vb_qp *qp)
{
	(void)qp;
	notes.attached++;
	return notes.attach_result;
}

static inline void note_detach(struct vb_qp *qp)
{
	(void)qp;
	notes.detached++;
}

static inline void note_modified(struct vb_qp *qp, enum ibv_qp_state from, int attr_mask, vb_time now)
{
	(void)now;
	vb_lock_assert_held(&qp->lock);
	notes.modified++;
	notes.modified_from = from;
	notes.modified_to = qp->state;
	notes.modified_mask = attr_mask;
	notes.sends_when_modified = vb_send_queue_count(&qp->send);
}

static const struct vb_transport fixture_transport = {
	.name = "notes",
	.engine_size = 64,
	.attach = note_attach,
	.detach = note_detach,
	.modified = note_modified,
};

struct world {
	struct vb_pd pd, other_pd;
	struct vb_cq send_cq, recv_cq;
	struct vb_srq srq;
	struct vb_qp *qp;
};

static inline struct vb_qp_config fixture_config(struct world *w, enum ibv_qp_type type)
{
	return (struct vb_qp_config){
		.type = type,
		.pd = &w->pd,
		.send_cq = &w->send_cq,
		.recv_cq = &w->recv_cq,
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 3, .max_recv_sge = 2,
			.max_inline_data = 64},
		.qpn = FIXTURE_QPN,
	};
}

static inline void world_open(struct world *w, enum ibv_qp_type type, uint32_t cq_capacity, bool with_srq,
			      bool signal_all)
{
	struct vb_qp_config config = fixture_config(w, type);
	struct ibv_srq_attr attr = {.max_wr = 8, .max_sge = 2};

	memset(w, 0, sizeof(*w));
	memset(&notes, 0, sizeof(notes));
	notes.ah.pd = &w->pd;
	assert_int_equal(vb_cq_init(&w->send_cq, &fixture_host, NULL, cq_capacity), 0);
	assert_int_equal(vb_cq_init(&w->recv_cq, &fixture_host, NULL, cq_capacity), 0);
	assert_int_equal(vb_srq_init(&w->srq, &fixture_host, NULL, &w->pd, &attr), 0);
	config.srq = with_srq ? &w->srq : NULL;
	config.signal_all = signal_all;
	assert_int_equal(vb_qp_create(&config, &fixture_host, &fixture_transport, NULL, &w->qp), 0);
}

static inline void world_close(struct world *w)
{
	if (w->qp)
		vb_qp_destroy(w->qp);
	vb_srq_fini(&w->srq);
	vb_cq_fini(&w->send_cq);
	vb_cq_fini(&w->recv_cq);
	assert_int_equal(w->pd.users, 0);
	assert_int_equal(w->send_cq.users, 0);
	assert_int_equal(w->recv_cq.users, 0);
	assert_int_equal(w->srq.users, 0);
}

/* Every attribute with a value that is in range. */
static inline struct ibv_qp_attr good_attributes(void)
{
	return (struct ibv_qp_attr){
		.path_mtu = IBV_MTU_1024,
		.qkey = 0x11111111,
		.rq_psn = 0x1234,
		.sq_psn = 0x4321,
		.dest_qp_num = 0x99,
		.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
		.ah_attr = {.is_global = 1, .port_num = 1, .sl = 3},
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = 5,
		.min_rnr_timer = 12,
		.port_num = 1,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 6,
		.path_mig_state = IBV_MIG_MIGRATED,
	};
}

static const struct vb_path fixture_path = {.source_port = 49152, .hop_limit = 64};

static inline int step(struct vb_qp *qp, enum ibv_qp_state to, int mask)
{
	struct ibv_qp_attr attr = good_attributes();

	attr.qp_state = to;
	return vb_qp_modify(qp, &attr, IBV_QP_STATE | mask, &fixture_path, IBV_MTU_4096, FIXTURE_NOW);
}

/* By the ordinary way from RESET to `state`; SQE by failing a send is the business of tests, so it is set. */
static inline void bring_to(struct vb_qp *qp, enum ibv_qp_state state)
{
	static const int init[] = {
		[IBV_QPT_RC] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
		[IBV_QPT_UC] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
		[IBV_QPT_UD] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY,
	};
	static const int rtr[] = {
		[IBV_QPT_RC] = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
		[IBV_QPT_UC] = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
		[IBV_QPT_UD] = 0,
	};
	static const int rts[] = {
		[IBV_QPT_RC] = IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			       IBV_QP_MAX_QP_RD_ATOMIC,
		[IBV_QPT_UC] = IBV_QP_SQ_PSN,
		[IBV_QPT_UD] = IBV_QP_SQ_PSN,
	};

	assert_int_equal(step(qp, IBV_QPS_RESET, 0), 0);
	if (state == IBV_QPS_ERR) {
		assert_int_equal(step(qp, IBV_QPS_ERR, 0), 0);
		return;
	}
	if (state >= IBV_QPS_INIT)
		assert_int_equal(step(qp, IBV_QPS_INIT, init[qp->type]), 0);
	if (state >= IBV_QPS_RTR)
		assert_int_equal(step(qp, IBV_QPS_RTR, rtr[qp->type]), 0);
	if (state >= IBV_QPS_RTS)
		assert_int_equal(step(qp, IBV_QPS_RTS, rts[qp->type]), 0);
	if (state == IBV_QPS_SQD)
		assert_int_equal(step(qp, IBV_QPS_SQD, 0), 0);
	if (state == IBV_QPS_SQE)
		qp->state = IBV_QPS_SQE;
	assert_int_equal(qp->state, state);
}

static inline int post(struct vb_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = NULL;
	int error;

	vb_lock_take(&qp->lock);
	error = vb_qp_post_send(qp, wr, &bad, FIXTURE_NOW);
	vb_lock_release(&qp->lock);
	assert_int_equal(error != 0, bad != NULL);
	return error;
}

static inline int post_one(struct vb_qp *qp, enum ibv_wr_opcode opcode, uint64_t wr_id, unsigned flags)
{
	static uint8_t bytes[8];
	struct ibv_sge sge = {.addr = (uintptr_t)bytes, .length = 8, .lkey = 1};
	struct ibv_send_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = flags};

	if (qp->type == IBV_QPT_UD) {
		wr.wr.ud.ah = (struct ibv_ah *)(void *)bytes;
		wr.wr.ud.remote_qpn = 5;
	}
	return post(qp, &wr);
}

static inline int post_receive(struct vb_qp *qp, uint64_t wr_id)
{
	struct ibv_sge sge = {.addr = 0x1000, .length = 100, .lkey = 2};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;
	int error;

	vb_lock_take(&qp->lock);
	error = vb_qp_post_receive(qp, &wr, &bad, FIXTURE_NOW);
	vb_lock_release(&qp->lock);
	return error;
}

static inline void assert_completion(struct vb_cq *cq, uint64_t wr_id, enum ibv_wc_status status,
				     enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc;

	assert_int_equal(vb_cq_poll(cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
	assert_int_equal(wc.opcode, opcode);
	assert_int_equal(wc.qp_num, FIXTURE_QPN);
}

static inline void assert_empty(struct vb_cq *cq)
{
	struct ibv_wc wc;

	assert_int_equal(vb_cq_poll(cq, 1, &wc), 0);
}

#endif
