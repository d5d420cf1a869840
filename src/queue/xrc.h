/* SPDX-License-Identifier: MIT
 *
 * XRC domains (IBA annex A14): the shared receive queues that requests may name, and the queue pairs through which they come. An
 * XRC_RECV queue pair has no protection domain and no completion queue of its own: each request brings the number of an SRQ, whose own
 * they are for as long as the request lasts.
 *
 * An SRQ leaves its domain before it is freed, and leaving passes through the lock of every queue pair of the domain. So a queue pair that
 * has found one may use it while it holds its own lock, and keep it from one request to the next.
 */
#ifndef VB_QUEUE_XRC_H
#define VB_QUEUE_XRC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/lock.h"
#include "base/mutex.h"

struct vb_cq;
struct vb_qp;
struct vb_srq;

struct vb_xrc_domain {
	uint32_t handle;                 /* given by the owner: tells it from others of the device */
	struct vb_lock lock;             /* of srqs. Taken under a qp->lock */
	struct vb_list srqs;
	struct vb_mutex members;         /* of qps. Taken before a qp->lock */
	struct vb_list qps;
	uint32_t users;                  /* atomic: SRQs and queue pairs */
};

void vb_xrc_domain_init(struct vb_xrc_domain *domain);
void vb_xrc_domain_fini(struct vb_xrc_domain *domain);

/* An initialised SRQ becomes one of the domain, under its number. Completions of its receives go to `cq`. */
void vb_xrc_add_srq(struct vb_xrc_domain *domain, struct vb_srq *srq, struct vb_cq *cq, uint32_t number);
/* Before vb_srq_fini. Caller holds no lock. */
void vb_xrc_remove_srq(struct vb_srq *srq);

/* Of vb_qp_create and vb_qp_destroy. */
void vb_xrc_add_qp(struct vb_xrc_domain *domain, struct vb_qp *qp);
void vb_xrc_remove_qp(struct vb_qp *qp);

/* The SRQ of a request: its PD, CQ and receives are the queue pair's from now on. False: the domain has none of that number. Caller holds
 * qp->lock. */
bool vb_xrc_choose_srq(struct vb_qp *qp, uint32_t number);
/* At RESET. Caller holds qp->lock. */
void vb_xrc_forget_srq(struct vb_qp *qp);

#endif
