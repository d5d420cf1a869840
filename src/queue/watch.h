/* SPDX-License-Identifier: MIT
 *
 * Looking over the queues' shoulder: the part that explains failures or watches for misuse is told here what happens to work.
 * host->watch is NULL unless a user asked for it, so that nothing is paid for it but the look at a pointer.
 *
 * All calls come with qp->lock held, before the change they speak of: the work is still in its queue.
 */
#ifndef VB_QUEUE_WATCH_H
#define VB_QUEUE_WATCH_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

struct vb_fault_record;
struct vb_qp;
struct vb_send_wqe;
struct vb_taken_receive;

enum vb_failure_kind {
	VB_FAILED_SEND,                  /* wqe completes with `status` */
	VB_FAILED_RECEIVE,               /* taken completes with `status` */
	VB_FAILED_REQUEST,               /* a request of the peer was refused; `event` tells the application */
	VB_FAILED_OVERRUN,               /* a completion found no room */
	VB_FLUSHED_BY_APPLICATION,       /* it moved the queue pair to ERR */
	VB_FLUSHED_LATE,                 /* work was posted to a queue pair that had failed before */
};

struct vb_failure {
	enum vb_failure_kind kind;
	enum ibv_wc_status status;
	const struct vb_fault_record *why;       /* FLUSHED_LATE: the first fault, as the queue pair kept it */
	const struct vb_send_wqe *wqe;           /* NULL: no send work at fault */
	const struct vb_taken_receive *taken;    /* NULL: no receive at fault */
	bool has_event;
	enum ibv_event_type event;
	uint32_t flushed_sends, flushed_receives; /* that go with it */
};

/* Why a UD queue pair dropped a datagram: neither side's application hears of it (IBA 9.8.3.2). */
enum vb_drop_cause {
	VB_DROP_QKEY,                    /* not the queue pair's */
	VB_DROP_NO_RECEIVE,
	VB_DROP_TOO_LONG,                /* for the port's MTU, or several packets */
	VB_DROP_STATE,                   /* the queue pair takes no packets yet, or any more */
	VB_DROP_CAUSES
};

struct vb_drop {
	enum vb_drop_cause cause;
	const uint8_t *source;           /* GID */
	uint32_t source_qpn, qkey, length;
	uint32_t mtu;
};

struct vb_queue_watch {
	void (*failed)(struct vb_qp *qp, const struct vb_failure *failure);
	void (*dropped)(struct vb_qp *qp, const struct vb_drop *drop);
	/* Sends between qp->send.head and qp->send.reserved are about to become work. */
	void (*posting_sends)(struct vb_qp *qp);
	/* So many receives were taken into the queue pair's own queue. */
	void (*posted_receives)(struct vb_qp *qp, uint32_t count);
	/* The oldest send completes: with a completion or, unsignalled, without. */
	void (*completing_send)(struct vb_qp *qp, const struct vb_send_wqe *wqe, enum ibv_wc_status status, bool wanted);
	/* A receive completes. */
	void (*completing_receive)(struct vb_qp *qp);
};

#endif
