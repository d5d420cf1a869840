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

struct vb_profile;
struct vb_qp;

/* An argument of a verb, and what it may be. */
struct vb_explain_bounds {
	const char *name;
	uint64_t value, least, most;
	const struct vb_profile *profile; /* that says `most`; NULL: it is always so */
};

/* If an adapter was put over the device (profiles/adapter.h), its name: it is the one that refuses. */
void vb_explain_profile(const struct vb_profile *profile, struct vb_report *report);

/* Any verb: the first argument that is outside its bounds. If none is, `otherwise` is the cause. */
void vb_explain_arguments(const char *verb, int error, const struct vb_explain_bounds *bounds, size_t count,
			  const char *otherwise, const char *fix, struct vb_report *report);

/* ibv_create_ah and all else that takes an ibv_ah_attr. `source` is the GID that sgid_index names; zero: none. */
void vb_explain_create_ah(const char *verb, const struct ibv_ah_attr *attr, const uint8_t source[16], int error,
			  struct vb_report *report);

/* ibv_modify_qp. `path_error`: of resolving ah_attr, 0 or errno; `source` as above; active_mtu of the port. */
struct vb_explain_modify {
	const struct vb_profile *profile;
	uint32_t qpn;
	enum ibv_qp_type type;
	enum ibv_qp_state from;
	const struct ibv_qp_attr *attr;
	int mask;
	int path_error;
	uint8_t source[16];
	enum ibv_mtu active_mtu;
	int error;
};
void vb_explain_modify_qp(const struct vb_explain_modify *modify, struct vb_report *report);

/* ibv_post_send, ibv_wr_complete; caller holds qp->lock. */
void vb_explain_post_send(const struct vb_qp *qp, const struct ibv_send_wr *wr, int error, struct vb_report *report);
void vb_explain_post_receive(const struct vb_qp *qp, const struct ibv_recv_wr *wr, int error, struct vb_report *report);
/* ibv_post_srq_recv. */
void vb_explain_post_shared(uint32_t max_wr, uint32_t max_sge, const struct ibv_recv_wr *wr, int error,
			    struct vb_report *report);

void vb_explain_create_qp(const struct vb_profile *profile, const struct ibv_qp_init_attr_ex *attr, int error, struct vb_report *report);

/* ibv_reg_mr and its kin. */
void vb_explain_register(const struct vb_profile *profile, const char *verb, uint64_t address, uint64_t length, unsigned access, int error,
			 struct vb_report *report);

/* Any other: its name and one sentence. `object` and `number` name what it was called on; NULL: nothing. */
void vb_explain_verb(const char *verb, const char *object, uint64_t number, int error, const char *cause,
		     const char *fix, struct vb_report *report);

#endif
