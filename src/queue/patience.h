/* SPDX-License-Identifier: MIT
 *
 * How long work may go without progress. The application says a local ACK timeout and how often to try again (retry_cnt). IBA lets
 * the timer run up to four times longer than it was asked to (9.7.6.1.3), and we use all of that: our peer is a process,
 * which may be off the processor for as long as others want it, where an adapter would have acknowledged. With the usual
 * timeout 14 and retry_cnt 7 a peer may be away for 2.1 s; asked for 0.5 s, it was lost where eight programs computed on two
 * processors. Very short timeouts are taken for a millisecond each, that is 4 ms.
 */
#ifndef VB_QUEUE_PATIENCE_H
#define VB_QUEUE_PATIENCE_H

#include "queue/qp.h"
#include "wire/rnr_timer.h"

#define VB_PATIENCE_FLOOR VB_MILLISECONDS(4)
enum { VB_PATIENCE_ALLOWANCE = 4 };

/* The application's timeout, at which it is time to try again; 0: for ever (C9-140). */
static inline vb_time vb_patience_timeout(const struct vb_qp *qp)
{
	vb_time timeout = vb_local_ack_timeout(qp->attr.timeout);

	if (timeout == VB_TIME_NEVER)
		return 0;
	return timeout < VB_PATIENCE_FLOOR ? VB_PATIENCE_FLOOR : timeout;
}

/* From the last progress until the work fails; 0: for ever. */
static inline vb_time vb_patience_in_all(const struct vb_qp *qp)
{
	vb_time timeout = vb_local_ack_timeout(qp->attr.timeout);

	if (timeout == VB_TIME_NEVER)
		return 0;
	timeout *= VB_PATIENCE_ALLOWANCE;
	return (timeout < VB_PATIENCE_FLOOR ? VB_PATIENCE_FLOOR : timeout) * (qp->attr.retry_cnt + 1);
}

#endif
