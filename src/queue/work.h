/* SPDX-License-Identifier: MIT
 *
 * The rules of a send work request that hold whichever engine carries it: what its opcode asks for, which checks it must pass before
 * it begins, local work, and the evidence when it fails. Engines add how it is done.
 */
#ifndef VB_QUEUE_WORK_H
#define VB_QUEUE_WORK_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/counters.h"
#include "memory/fault.h"
#include "memory/region.h"
#include "queue/qp.h"

enum vb_work_kind { VB_WORK_UNKNOWN, VB_WORK_SEND, VB_WORK_WRITE, VB_WORK_READ, VB_WORK_ATOMIC, VB_WORK_LOCAL, VB_WORK_KINDS };

/* One row for each opcode. */
struct vb_work {
	enum vb_work_kind kind;
	uint32_t right;                  /* IBV_ACCESS_REMOTE_* that the peer's region must grant; 0: none is named */
	bool takes_receive;
	bool is_read;                    /* read or atomic: answered by a response, counts against max_rd_atomic */
};
const struct vb_work *vb_work(enum ibv_wr_opcode opcode);

/* A request of that kind begins. */
static inline void vb_work_count(struct vb_counters *counters, enum vb_work_kind kind)
{
	if (kind == VB_WORK_SEND)
		VB_COUNT(counters, rdma_sends);
	else if (kind == VB_WORK_WRITE)
		VB_COUNT(counters, rdma_writes);
	else if (kind == VB_WORK_READ)
		VB_COUNT(counters, rdma_reads);
	else
		VB_COUNT(counters, rdma_atomics);
}

/* May it begin? False: *status and why->fault say why not. `most`: bytes that a message may have. */
bool vb_work_check(const struct vb_qp *qp, const struct vb_send_wqe *wqe, uint64_t most, enum ibv_wc_status *status,
		   struct vb_fault_record *why);

/* LOCAL_INV and BIND_MW, executed in their place in the queue: IBA 10.8.3.3 would let local invalidation overtake, order is what
 * applications expect. LATER: a peer on this host copies through the window, so try again. REFUSED: the work fails with
 * IBV_WC_MW_BIND_ERR, the one status for all operations on memory that a work request asks for (IBA 11.6.2), as adapters report it. */
enum vb_window_result vb_work_execute_local(struct vb_qp *qp, struct vb_send_wqe *wqe, struct vb_fault_record *why);

/* Whose work it was and what it was about, beside the fault. */
void vb_work_evidence(const struct vb_qp *qp, const struct vb_send_wqe *wqe, struct vb_fault_record *why);

/* The send side failed at an element that is not the oldest: told when its turn comes, because completions are in order. */
struct vb_work_failure {
	bool waits;
	uint32_t index;                  /* of the element */
	enum ibv_wc_status status;
	struct vb_fault_record why;
};

/* Remember it; the first one stays. `psn`: where the engine is. */
void vb_work_fail(struct vb_work_failure *failure, const struct vb_qp *qp, uint32_t index, enum ibv_wc_status status,
		  const struct vb_fault_record *why, uint32_t psn);

/* Is it its turn? Then tell it. */
static inline bool vb_work_failure_is_due(const struct vb_work_failure *failure, const struct vb_qp *qp)
{
	return failure->waits && failure->index == qp->send.tail;
}
void vb_work_tell_failure(struct vb_work_failure *failure, struct vb_qp *qp, vb_time now);

#endif
