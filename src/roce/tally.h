/* SPDX-License-Identifier: MIT
 *
 * What is counted with each message. A device's counters are those of all threads: additions to one number, message by message,
 * cost two threads that have nothing else in common a fifth of their time. So a queue pair counts for itself, under its lock, and
 * adds to the device's once for all that it sends or has received together.
 */
#ifndef VB_ROCE_TALLY_H
#define VB_ROCE_TALLY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/counters.h"
#include "queue/work.h"

struct vb_roce_tally {
	uint32_t work[VB_WORK_KINDS];
	uint32_t receives, deferred;
	bool any;
};

static inline void vb_roce_tally_one(struct vb_roce_tally *tally, uint32_t *number)
{
	++*number;
	tally->any = true;
}

/* To those of the device. */
static inline void vb_roce_tally_add(struct vb_roce_tally *tally, struct vb_counters *counters)
{
	static const struct vb_roce_tally none;

	if (!tally->any)
		return;
	if (tally->work[VB_WORK_SEND] > 0)
		VB_COUNT_MANY(counters, rdma_sends, tally->work[VB_WORK_SEND]);
	if (tally->work[VB_WORK_WRITE] > 0)
		VB_COUNT_MANY(counters, rdma_writes, tally->work[VB_WORK_WRITE]);
	if (tally->work[VB_WORK_READ] > 0)
		VB_COUNT_MANY(counters, rdma_reads, tally->work[VB_WORK_READ]);
	if (tally->work[VB_WORK_ATOMIC] > 0)
		VB_COUNT_MANY(counters, rdma_atomics, tally->work[VB_WORK_ATOMIC]);
	if (tally->receives > 0)
		VB_COUNT_MANY(counters, rdma_recvs, tally->receives);
	if (tally->deferred > 0)
		VB_COUNT_MANY(counters, ack_deferred, tally->deferred);
	*tally = none;
}

#endif
