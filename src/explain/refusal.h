/* SPDX-License-Identifier: MIT
 *
 * Why a verb said no. Each function looks at the same things as the verb did, in the same order, and tells the first
 * that is wrong.
 */
#ifndef VB_EXPLAIN_REFUSAL_H
#define VB_EXPLAIN_REFUSAL_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

#include "explain/report.h"

struct vb_qp;

/* ibv_modify_qp. `path_error`: of resolving ah_attr, 0 or errno; active_mtu of the port. */
struct vb_explain_modify {
	uint32_t qpn;
	enum ibv_qp_type type;
	enum ibv_qp_state from;
	const struct ibv_qp_attr *attr;
	int mask;
	int path_error;
	enum ibv_mtu active_mtu;
	int error;
};
void vb_explain_modify_qp(const struct vb_explain_modify *modify, struct vb_report *report);

/* ibv_post_send, ibv_wr_complete; caller holds qp->lock. */
void vb_explain_post_send(const struct vb_qp *qp, const struct ibv_send_wr *wr, int error, struct vb_report *report);
void vb_explain_post_receive(const struct vb_qp *qp, const struct ibv_recv_wr *wr, int error, struct vb_report *report);

void vb_explain_create_qp(const struct ibv_qp_init_attr_ex *attr, int error, struct vb_report *report);

/* ibv_reg_mr. `mapped`: the range is there and may be used as asked. */
void vb_explain_register(uint64_t address, uint64_t length, unsigned access, int error, struct vb_report *report);

/* Any other: its name and one sentence. `object` and `number` name what it was called on; NULL: nothing. */
void vb_explain_verb(const char *verb, const char *object, uint64_t number, int error, const char *cause,
		     const char *fix, struct vb_report *report);

#endif
