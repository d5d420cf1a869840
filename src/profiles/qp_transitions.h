/* SPDX-License-Identifier: MIT
 *
 * THE modify-QP tables: which transitions exist, and which attributes each requires and allows, per QP type. A profile names one.
 * IBA 11.2.5.2 and table 91 (QP state transition properties); ibv_modify_qp(3).
 */
#ifndef VB_PROFILES_QP_TRANSITIONS_H
#define VB_PROFILES_QP_TRANSITIONS_H

#include <infiniband/verbs.h>
#include <stdbool.h>

struct vb_transition_table;

extern const struct vb_transition_table vb_transitions_iba, vb_transitions_iwarp;

struct vb_qp_transition {
	bool valid;                      /* ibv_modify_qp may ask for it */
	int required, optional;          /* IBV_QP_* masks, without IBV_QP_STATE and IBV_QP_CUR_STATE */
	int current;                     /* IBV_QP_CUR_STATE where it may be given, else 0 */
	bool ignored;                    /* it may be asked for, and nothing changes */
	bool by_connection;              /* it exists, but only a connection that was made leads there: vb_qp_connected */
};

const struct vb_qp_transition *vb_qp_transition(const struct vb_transition_table *table, enum ibv_qp_type type, enum ibv_qp_state from,
						enum ibv_qp_state to);

/* Is the mask legal for that transition? */
bool vb_qp_transition_allows(const struct vb_transition_table *table, enum ibv_qp_type type, enum ibv_qp_state from,
			     enum ibv_qp_state to, int attr_mask);

/* The attributes missing from, or not allowed in, a mask: for explanations. */
int vb_qp_transition_missing(const struct vb_transition_table *table, enum ibv_qp_type type, enum ibv_qp_state from,
			     enum ibv_qp_state to, int attr_mask);

#endif
