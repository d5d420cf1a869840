/* SPDX-License-Identifier: MIT
 *
 * THE modify-QP tables, one row per type and transition. The facts of InfiniBand and RoCE are those of IBA 11.2.5.2 as the
 * operating system's verbs enforce them, since that is what programs are written against:
 *
 *   RESET ──> INIT ──> RTR ──> RTS <──> SQD          any state ──> RESET
 *               ↺               ↺ ↑      ↺           any state ──> ERR
 *                                 SQE
 *
 * IBV_QP_STATE is always allowed; IBV_QP_CUR_STATE wherever a row says so by the column `cur`: on the ways into RTS,
 * where the consumer may not have noticed that the queue pair left it (IBA 11.2.5.2, "current QP state").
 *
 * Of iWARP it is what Linux's siw accepts: a connection leads to RTS, and the program's own steps are about closing it.
 */
#include "profiles/qp_transitions.h"

enum { STATES = IBV_QPS_ERR + 1, TYPES = 6 };

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
	X(UD, SQE, RTS, 0, Q(QKEY), CUR)									\
	X(RAW_PACKET, RESET, INIT, Q(PORT), 0, 0)								\
	X(RAW_PACKET, INIT, INIT, 0, 0, 0)									\
	X(RAW_PACKET, INIT, RTR, 0, 0, 0)									\
	X(RAW_PACKET, RTR, RTS, 0, Q(RATE_LIMIT), 0)								\
	X(RAW_PACKET, RTS, RTS, 0, Q(RATE_LIMIT), 0)								\
	X(RAW_PACKET, RTS, SQD, 0, 0, 0)									\
	X(RAW_PACKET, SQD, RTS, 0, 0, 0)									\
	X(RAW_PACKET, SQD, SQD, 0, 0, 0)									\
	X(RAW_PACKET, SQE, RTS, 0, 0, 0)									\
	X(XRC_SEND, RESET, INIT, PKEY | Q(PORT) | ACCESS, 0, 0)							\
	X(XRC_SEND, INIT, INIT, 0, PKEY | Q(PORT) | ACCESS, 0)							\
	X(XRC_SEND, INIT, RTR, Q(AV) | Q(PATH_MTU) | Q(DEST_QPN) | Q(RQ_PSN), ALT | ACCESS | PKEY, 0)		\
	X(XRC_SEND, RTR, RTS, Q(TIMEOUT) | Q(RETRY_CNT) | Q(RNR_RETRY) | Q(SQ_PSN) | QP_RD, ALT | ACCESS | MIG, CUR) \
	X(XRC_SEND, RTS, RTS, 0, ACCESS | ALT | MIG, CUR)							\
	X(XRC_SEND, RTS, SQD, 0, NOTIFY, 0)									\
	X(XRC_SEND, SQD, RTS, 0, ALT | ACCESS | MIG, CUR)							\
	X(XRC_SEND, SQD, SQD, 0, Q(PORT) | Q(AV) | Q(TIMEOUT) | Q(RETRY_CNT) | Q(RNR_RETRY) | QP_RD |		\
	  ALT | ACCESS | PKEY | MIG, 0)										\
	X(XRC_SEND, SQE, RTS, 0, 0, 0)										\
	X(XRC_RECV, RESET, INIT, PKEY | Q(PORT) | ACCESS, 0, 0)							\
	X(XRC_RECV, INIT, INIT, 0, PKEY | Q(PORT) | ACCESS, 0)							\
	X(XRC_RECV, INIT, RTR, Q(AV) | Q(PATH_MTU) | Q(DEST_QPN) | Q(RQ_PSN) | DEST_RD | RNR_TIMER,		\
	  ALT | ACCESS | PKEY, 0)										\
	X(XRC_RECV, RTR, RTS, Q(TIMEOUT) | Q(SQ_PSN), ALT | ACCESS | RNR_TIMER | MIG, CUR)			\
	X(XRC_RECV, RTS, RTS, 0, ACCESS | ALT | MIG | RNR_TIMER, CUR)						\
	X(XRC_RECV, RTS, SQD, 0, NOTIFY, 0)									\
	X(XRC_RECV, SQD, RTS, 0, ALT | ACCESS | RNR_TIMER | MIG, CUR)						\
	X(XRC_RECV, SQD, SQD, 0, Q(PORT) | Q(AV) | Q(TIMEOUT) | DEST_RD | ALT | ACCESS | PKEY | RNR_TIMER | MIG, 0) \
	X(XRC_RECV, SQE, RTS, 0, 0, 0)

#define ANY (IBV_QP_CUR_STATE | (((1 << 21) - 1) & ~IBV_QP_STATE)) /* all attributes that every libibverbs knows */

/* X(from, to, optional, ignored, by_connection): of RC, the only type. Required is none. To SQD: the stream is closed in order, as
 * rdma_disconnect asks for it; to ERR: at once. */
#define IWARP_TRANSITIONS(X)											\
	X(RESET, RESET, 0, false, false)									\
	X(RESET, INIT, ANY, false, false)									\
	X(RESET, ERR, ANY, false, false)									\
	X(INIT, RESET, ANY, false, false)									\
	X(INIT, INIT, ANY, false, false)									\
	X(INIT, RTR, ANY, true, false)										\
	X(INIT, RTS, 0, false, true)										\
	X(INIT, ERR, ANY, false, false)										\
	X(RTS, RTS, ANY, false, false)										\
	X(RTS, SQD, ANY, false, false)										\
	X(RTS, ERR, ANY, false, false)										\
	X(SQD, SQD, ANY, false, false)										\
	X(SQD, ERR, ANY, false, false)										\
	X(ERR, RESET, ANY, false, false)									\
	X(ERR, ERR, ANY, false, false)

/* Those between UD and raw packets have no rows. */
_Static_assert(IBV_QPT_UC == IBV_QPT_RC + 1 && IBV_QPT_UD == IBV_QPT_RC + 2 && IBV_QPT_XRC_SEND == IBV_QPT_RAW_PACKET + 1 &&
		       IBV_QPT_XRC_RECV == IBV_QPT_RAW_PACKET + 2,
	       "the tables are indexed by type");
#define TYPE_INDEX(type) ((int)(type) <= IBV_QPT_UD ? (int)(type) - IBV_QPT_RC : (int)(type) - IBV_QPT_RAW_PACKET + 3)

struct vb_transition_table {
	struct vb_qp_transition rows[TYPES][STATES][STATES];
	bool leaves_any_state;           /* to RESET and ERR the way is open from everywhere, and no attribute goes with it */
};

const struct vb_transition_table vb_transitions_iba = {
	.rows = {
#define X(type, from, to, required, optional, cur) \
		[TYPE_INDEX(IBV_QPT_##type)][IBV_QPS_##from][IBV_QPS_##to] = {true, required, optional, .current = cur},
		TRANSITIONS(X)
#undef X
	},
	.leaves_any_state = true,        /* IBA 10.3.1 */
};

const struct vb_transition_table vb_transitions_iwarp = {
	.rows = {
#define X(from, to, optional, ignored, by_connection) \
		[TYPE_INDEX(IBV_QPT_RC)][IBV_QPS_##from][IBV_QPS_##to] = {!(by_connection), 0, (optional) & ~CUR, (optional) & CUR, \
									  ignored, by_connection},
		IWARP_TRANSITIONS(X)
#undef X
	},
};

static const struct vb_qp_transition leave = {true};
static const struct vb_qp_transition never;

const struct vb_qp_transition *vb_qp_transition(const struct vb_transition_table *table, enum ibv_qp_type type, enum ibv_qp_state from,
						enum ibv_qp_state to)
{
	if (type != IBV_QPT_RC && type != IBV_QPT_UC && type != IBV_QPT_UD && type != IBV_QPT_RAW_PACKET && type != IBV_QPT_XRC_SEND &&
	    type != IBV_QPT_XRC_RECV)
		return &never;
	if ((unsigned)from >= STATES || (unsigned)to >= STATES)
		return &never;
	if (table->leaves_any_state && (to == IBV_QPS_RESET || to == IBV_QPS_ERR))
		return &leave;
	return &table->rows[TYPE_INDEX(type)][from][to];
}

int vb_qp_transition_missing(const struct vb_transition_table *table, enum ibv_qp_type type, enum ibv_qp_state from,
			     enum ibv_qp_state to, int attr_mask)
{
	const struct vb_qp_transition *row = vb_qp_transition(table, type, from, to);
	int allowed = row->required | row->optional | row->current | IBV_QP_STATE;

	return (row->required & ~attr_mask) | (attr_mask & ~allowed);
}

bool vb_qp_transition_allows(const struct vb_transition_table *table, enum ibv_qp_type type, enum ibv_qp_state from,
			     enum ibv_qp_state to, int attr_mask)
{
	return vb_qp_transition(table, type, from, to)->valid &&
	       vb_qp_transition_missing(table, type, from, to, attr_mask) == 0;
}
