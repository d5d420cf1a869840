/* SPDX-License-Identifier: MIT
 *
 * Between the verbs and the explanations: what a session's queues report, and what a verb that says no hands over. All
 * of it does nothing unless VERBENA_EXPLAIN (or, for misuse, VERBENA_WATCH) is set.
 */
#ifndef VB_VERBS_EXPLAIN_H
#define VB_VERBS_EXPLAIN_H

#include "verbs/explain_settings.h"
#include "verbs/objects.h"

/* What the session's queues are to report to, or NULL. */
const struct vb_queue_watch *vb_explain_choose_watch(void);

/* Completions were polled: if one failed, wait until its explanation is out. */
void vb_explain_polled(struct vb_endpoint *endpoint, const struct ibv_wc *wc, int count);

/* Refusals; `error` is a positive errno. errno stays as it is, but for the first, which sets it and returns it. */
int vb_explain_refused_modify(struct ibv_qp *qp, const struct ibv_qp_attr *attr, int attr_mask, int path_error,
			      int error);
/* Caller holds the queue pair's lock. */
void vb_explain_refused_send(const struct vb_qp *qp, const struct ibv_send_wr *wr, int error);
void vb_explain_refused_receive(const struct vb_qp *qp, const struct ibv_recv_wr *wr, int error);
void vb_explain_refused_create_qp(struct ibv_context *context, const struct ibv_qp_init_attr_ex *attr); /* errno says why */
void vb_explain_refused_register(struct ibv_context *context, const void *address, size_t length, unsigned access); /* the same */
void vb_explain_refused(const char *verb, const char *object, uint64_t number, int error, const char *cause,
			const char *fix);

/* Datagrams dropped on the way to it: the total, where it was more than the one that was told. */
void vb_explain_drops_in_all(const struct vb_queue_pair *qp);

/* An asynchronous event that no failure explains. `capacity`: of the CQ, else 0. */
void vb_explain_raised(struct ibv_context *context, enum ibv_event_type event, uint32_t capacity);

#endif
