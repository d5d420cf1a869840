/* SPDX-License-Identifier: MIT
 *
 * THE modify-QP table: which transitions exist, and which attributes each requires and allows, per QP type.
 * IBA 11.2.5.2 and table 91 (QP state transition properties); ibv_modify_qp(3).
 */
#ifndef VB_QUEUE_QP_TRANSITIONS_H
#define VB_QUEUE_QP_TRANSITIONS_H

#include <infiniband/verbs.h>
#include <stdbool.h>

struct vb_qp_transition {
	bool valid;
	int required, optional;          /* IBV_QP_* masks, without IBV_QP_STATE and IBV_QP_CUR_STATE */
};

const struct vb_qp_transition *vb_qp_transition(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to);

/* Is the mask legal for that transition? */
bool vb_qp_transition_allows(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to, int attr_mask);

/* The attributes missing from, or not allowed in, a mask: for explanations. */
int vb_qp_transition_missing(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to, int attr_mask);

#endif
