/* SPDX-License-Identifier: MIT
 *
 * Why work failed: from the evidence that the queues, the engine and perhaps the peer left behind to a report.
 */
#ifndef VB_EXPLAIN_FAILURE_H
#define VB_EXPLAIN_FAILURE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "explain/report.h"
#include "memory/fault.h"
#include "queue/watch.h"
#include "wire/inquiry.h"

/* All that is known of a failure; copied, so that it can be looked at after the queue pair has moved on. */
struct vb_explain_failure {
	enum vb_failure_kind kind;
	enum ibv_wc_status status;
	struct vb_fault_record fault;
	bool has_opcode;
	enum ibv_wr_opcode opcode;       /* of the send work at fault */
	uint64_t wr_id;
	uint32_t qpn, peer_qpn, pd;
	uint32_t sq_psn, rq_psn;         /* where it began */
	enum ibv_qp_type type;
	enum ibv_qp_state state;         /* when it happened */
	bool has_peer;
	uint8_t peer[16];                /* GID */
	uint8_t source[16];              /* ours, as the peer knows it */
	uint8_t stray_source[16];        /* packets of the peer's QPN came from there instead; zeros: none */
	uint32_t next_psn;               /* RC: behind the last one sent */
	uint8_t timeout, retry_cnt, rnr_retry;
	uint32_t cq_capacity;            /* OVERRUN */
	uint32_t inline_limit, mtu;
	bool has_event;
	enum ibv_event_type event;
	uint32_t flushed_sends, flushed_receives;
	enum vb_inquiry_reach reach;
	struct vb_inquiry_answer far;    /* with VB_REACH_ANSWERED */
};

/* Would it help to ask the peer? */
bool vb_explain_failure_wants_peer(const struct vb_explain_failure *failure);

void vb_explain_failure(const struct vb_explain_failure *failure, struct vb_report *report);

#endif
