/* SPDX-License-Identifier: MIT
 *
 * THE modify-QP table, one row per type and transition. The facts are those of IBA 11.2.5.2 as the operating system's
 * verbs enforce them, since that is what programs are written against:
 *
 *   RESET ──> INIT ──> RTR ──> RTS <──> SQD          any state ──> RESET
 *               ↺               ↺ ↑      ↺           any state ──> ERR
 *                                 SQE
 *
 * IBV_QP_STATE is always allowed; IBV_QP_CUR_STATE wherever a row says so by the column `cur`: on the ways into RTS,
 * where the consumer may not have noticed that the queue pair left it (IBA 11.2.5.2, "current QP state").
 */
#include "queue/qp_transitions.h"

#include <stddef.h>

enum { STATES = IBV_QPS_ERR + 1, TYPES = 3 };

#define ACCESS IBV_QP_ACCESS_FLAGS
#define ALT IBV_QP_ALT_PATH
#define CUR IBV_QP_CUR_STATE
#define DEST_RD IBV_QP_MAX_DEST_RD_ATOMIC
#define MIG IBV_QP_PATH_MIG_STATE
#define PKEY IBV_QP_PKEY_INDEX
#define QP_RD IBV_QP_MAX_QP_RD_ATOMIC
#define RNR_TIMER IBV_QP_MIN_RNR_TIMER
#define NOTIFY IBV_QP_EN_SQD_ASYNC_NOTIFY
#define Q(name) IBV_QP_##name

/* X(type, from, to, required, optional, cur) */
#define TRANSITIONS(X)												\
	X(RC, RESET, INIT, PKEY | Q(PORT) | ACCESS, 0, 0)							\
	X(RC, INIT, INIT, 0, PKEY | Q(PORT) | ACCESS, 0)							\
	X(RC, INIT, RTR, Q(AV) | Q(PATH_MTU) | Q(DEST_QPN) | Q(RQ_PSN) | DEST_RD | RNR_TIMER,			\
	  ALT | ACCESS | PKEY, 0)										\
	X(RC, RTR, RTS, Q(TIMEOUT) | Q(RETRY_CNT) | Q(RNR_RETRY) | Q(SQ_PSN) | QP_RD,				\
	  ALT | ACCESS | RNR_TIMER | MIG, CUR)									\
	X(RC, RTS, RTS, 0, ACCESS | ALT | MIG | RNR_TIMER, CUR)							\
	X(RC, RTS, SQD, 0, NOTIFY, 0)										\
	X(RC, SQD, RTS, 0, ALT | ACCESS | RNR_TIMER | MIG, CUR)							\
	X(RC, SQD, SQD, 0, Q(PORT) | Q(AV) | Q(TIMEOUT) | Q(RETRY_CNT) | Q(RNR_RETRY) | QP_RD | DEST_RD |	\
	  ALT | ACCESS | PKEY | RNR_TIMER | MIG, 0)								\
	X(RC, SQE, RTS, 0, 0, 0)										\
	X(UC, RESET, INIT, PKEY | Q(PORT) | ACCESS, 0, 0)							\
	X(UC, INIT, INIT, 0, PKEY | Q(PORT) | ACCESS, 0)							\
	X(UC, INIT, RTR, Q(AV) | Q(PATH_MTU) | Q(DEST_QPN) | Q(RQ_PSN), ALT | ACCESS | PKEY, 0)			\
	X(UC, RTR, RTS, Q(SQ_PSN), ALT | ACCESS | MIG, CUR)							\
	X(UC, RTS, RTS, 0, ACCESS | ALT | MIG, CUR)								\
	X(UC, RTS, SQD, 0, NOTIFY, 0)										\
	X(UC, SQD, RTS, 0, ALT | ACCESS | MIG, CUR)								\
	X(UC, SQD, SQD, 0, Q(AV) | ALT | ACCESS | PKEY | MIG, 0)						\
	X(UC, SQE, RTS, 0, ACCESS, CUR)										\
	X(UD, RESET, INIT, PKEY | Q(PORT) | Q(QKEY), 0, 0)							\
	X(UD, INIT, INIT, 0, PKEY | Q(PORT) | Q(QKEY), 0)							\
	X(UD, INIT, RTR, 0, PKEY | Q(QKEY), 0)									\
	X(UD, RTR, RTS, Q(SQ_PSN), Q(QKEY), CUR)								\
	X(UD, RTS, RTS, 0, Q(QKEY), CUR)									\
	X(UD, RTS, SQD, 0, NOTIFY, 0)										\
	X(UD, SQD, RTS, 0, Q(QKEY), CUR)									\
	X(UD, SQD, SQD, 0, PKEY | Q(QKEY), 0)									\
	X(UD, SQE, RTS, 0, Q(QKEY), CUR)

struct row {
	struct vb_qp_transition transition;
	int current;                     /* IBV_QP_CUR_STATE or 0 */
};

#define TYPE_INDEX(type) ((int)(type) - IBV_QPT_RC)
_Static_assert(IBV_QPT_UC == IBV_QPT_RC + 1 && IBV_QPT_UD == IBV_QPT_RC + 2, "the table is indexed by type");

static const struct row rows[TYPES][STATES][STATES] = {
#define X(type, from, to, required, optional, cur) \
	[TYPE_INDEX(IBV_QPT_##type)][IBV_QPS_##from][IBV_QPS_##to] = {{true, required, optional}, cur},
	TRANSITIONS(X)
#undef X
};

/* IBA 10.3.1: from any state. No attribute goes with it. */
static const struct row leave = {{true, 0, 0}, 0};
static const struct row never;

static const struct row *find_row(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to)
{
	if (type != IBV_QPT_RC && type != IBV_QPT_UC && type != IBV_QPT_UD)
		return &never;
	if ((unsigned)from >= STATES || (unsigned)to >= STATES)
		return &never;
	if (to == IBV_QPS_RESET || to == IBV_QPS_ERR)
		return &leave;
	return &rows[TYPE_INDEX(type)][from][to];
}

const struct vb_qp_transition *vb_qp_transition(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to)
{
	return &find_row(type, from, to)->transition;
}

int vb_qp_transition_missing(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to, int attr_mask)
{
	const struct row *row = find_row(type, from, to);
	int required = row->transition.required;
	int allowed = required | row->transition.optional | row->current | IBV_QP_STATE;

	return (required & ~attr_mask) | (attr_mask & ~allowed);
}

bool vb_qp_transition_allows(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to, int attr_mask)
{
	return find_row(type, from, to)->transition.valid && vb_qp_transition_missing(type, from, to, attr_mask) == 0;
}
