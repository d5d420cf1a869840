/* SPDX-License-Identifier: MIT
 *
 * What a protocol engine fills in to carry a queue pair. The queue room knows engines only through this.
 */
#ifndef VB_QUEUE_TRANSPORT_H
#define VB_QUEUE_TRANSPORT_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

#include "base/time.h"

struct vb_bypass;
struct vb_qp;
struct vb_srq;

/* How an engine stands, for `verbena res`, `top` and inquiries: every engine says it of the queue pairs that it carries. What it does not
 * have is 0. */
struct vb_transport_status {
	/* Where it is, in the engine's own count: PSNs; or, through memory, records of this connection. */
	uint32_t send, acknowledged, expected;
	uint32_t msn;
	uint32_t outstanding, window;    /* packets or records */
	uint32_t outstanding_reads;      /* and atomics */
	uint32_t retries_left, rnr_retries_left;
	vb_time round_trip, retransmit_timeout;
	uint32_t control;                /* the number of the algorithm of congestion control */
	uint64_t rate;                   /* bits a second, of congestion control; 0: it sets none */
};

struct vb_transport {
	const char *name;
	size_t engine_size;              /* bytes of engine state kept behind struct vb_qp, zeroed */
	size_t note_size;                /* bytes of its note on each send WQE (vb_send_wqe_note), a multiple of 8 */
	int (*attach)(struct vb_qp *qp);               /* at creation; 0 or -errno */
	void (*detach)(struct vb_qp *qp);              /* at destruction, and nothing of it may be used after */
	/* The state or attributes changed; qp->state is already the new one. RESET clears all engine state; the
	 * queue room flushes or clears the work queues itself, before (RESET) or after (ERR) this. Caller holds
	 * qp->lock. */
	void (*modified)(struct vb_qp *qp, enum ibv_qp_state from, int attr_mask, vb_time now);
	/* Optional. Another engine had the queue pair for a while. Nothing was sent, but work may have left the send queue
	 * (UC, lost because there was no peer). Caller holds qp->lock. */
	void (*resumed)(struct vb_qp *qp);
	/* XRC_RECV: an SRQ of its domain goes, and with it the receive in hand, if it came from there, and what is left to answer of
	 * requests that named it. Caller holds qp->lock. */
	void (*srq_gone)(struct vb_qp *qp, const struct vb_srq *srq);
	/* Optional, of engines that offer WRITEs and READs to it: there is a way past the wire to this peer's memory from now on; NULL: no
	 * more. Caller holds qp->lock. */
	void (*bypassed)(struct vb_qp *qp, struct vb_bypass *bypass);
	/* Caller holds qp->lock. */
	void (*query)(const struct vb_qp *qp, struct vb_transport_status *status);
};

#endif
