/* SPDX-License-Identifier: MIT
 *
 * ibv_modify_qp: every check first, in functions that change nothing; then the change, in functions that cannot fail.
 */
#include <errno.h>
#include <string.h>

#include "profiles/profile.h"
#include "profiles/qp_transitions.h"
#include "queue/qp.h"
#include "queue/qp_flush.h"
#include "wire/psn.h"
#include "wire/roce_packet.h"

enum { PORT = 1, MAX_TIMEOUT = 31, MAX_RETRY = 7, MAX_RNR_TIMER = 31, QPN_MASK = 0xffffff };

struct change {
	const struct ibv_qp_attr *attr;
	int mask;
	const struct vb_path *path;
	enum ibv_mtu active_mtu;
	enum ibv_qp_state from, to;
};

static int check_transition(const struct vb_qp *qp, const struct change *change)
{
	if ((change->mask & IBV_QP_CUR_STATE) && change->attr->cur_qp_state != qp->state)
		return -EINVAL;
	return vb_qp_transition_allows(qp->host->profile->transitions, qp->type, change->from, change->to, change->mask) ? 0 : -EINVAL;
}

static int check_path(const struct vb_profile *profile, const struct change *change)
{
	const struct vb_profile_port *port = &profile->port;
	const struct ibv_qp_attr *attr = change->attr;

	if ((change->mask & IBV_QP_PORT) && attr->port_num != PORT)
		return -EINVAL;
	if ((change->mask & IBV_QP_PKEY_INDEX) && attr->pkey_index > 0 && attr->pkey_index >= port->pkey_table_length)
		return -EINVAL;
	/* Where a connection brings its path along, addresses mean nothing. */
	if ((change->mask & IBV_QP_AV) && profile->connection == VB_CONNECT_CM) {
		/* A RoCE path is a pair of GIDs (annex A17): there is none without the global route. */
		if (!change->path || attr->ah_attr.port_num != PORT ||
		    (!attr->ah_attr.is_global && (port->flags & IBV_QPF_GRH_REQUIRED)))
			return -EINVAL;
	}
	if ((change->mask & IBV_QP_PATH_MTU) &&
	    (attr->path_mtu < IBV_MTU_256 || attr->path_mtu > IBV_MTU_4096 || attr->path_mtu > change->active_mtu))
		return -EINVAL;
	if ((change->mask & IBV_QP_DEST_QPN) && attr->dest_qp_num > QPN_MASK)
		return -EINVAL;
	return 0;
}

/* Automatic path migration is not advertised (IBV_DEVICE_AUTO_PATH_MIG): the attributes are legal, the service is not
 * there. */
static int check_migration(const struct change *change)
{
	if (change->mask & IBV_QP_ALT_PATH)
		return -EOPNOTSUPP;
	if ((change->mask & IBV_QP_PATH_MIG_STATE) && change->attr->path_mig_state != IBV_MIG_MIGRATED)
		return -EOPNOTSUPP;
	return 0;
}

static int check_numbers(const struct vb_profile_limits *most, const struct change *change)
{
	const unsigned known = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			       IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |
			       IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB | IBV_ACCESS_OPTIONAL_RANGE;
	const struct ibv_qp_attr *attr = change->attr;
	int mask = change->mask;

	if ((mask & IBV_QP_ACCESS_FLAGS) && (attr->qp_access_flags & ~known))
		return -EINVAL;
	if ((mask & IBV_QP_TIMEOUT) && attr->timeout > MAX_TIMEOUT)
		return -EINVAL;
	if ((mask & IBV_QP_RETRY_CNT) && attr->retry_cnt > MAX_RETRY)
		return -EINVAL;
	if ((mask & IBV_QP_RNR_RETRY) && attr->rnr_retry > MAX_RETRY)
		return -EINVAL;
	if ((mask & IBV_QP_MIN_RNR_TIMER) && attr->min_rnr_timer > MAX_RNR_TIMER)
		return -EINVAL;
	if ((mask & IBV_QP_RATE_LIMIT) && attr->rate_limit > VB_MAX_RATE_LIMIT)
		return -EINVAL;
	if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) && attr->max_rd_atomic > most->init_rd_atomic)
		return -EINVAL;
	if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) && attr->max_dest_rd_atomic > most->rd_atomic)
		return -EINVAL;
	return 0;
}

static int check_change(const struct vb_qp *qp, const struct change *change)
{
	int rc = check_transition(qp, change);

	if (rc == 0)
		rc = check_path(qp->host->profile, change);
	if (rc == 0)
		rc = check_numbers(&qp->host->profile->limits, change);
	if (rc == 0)
		rc = check_migration(change);
	return rc;
}

static uint32_t mtu_bytes(enum ibv_mtu mtu)
{
	return 128u << mtu;
}

static uint16_t pkey_of(const struct vb_qp *qp)
{
	return qp->host->pkeys ? __atomic_load_n(&qp->host->pkeys[qp->attr.pkey_index], __ATOMIC_RELAXED) : VB_DEFAULT_PKEY;
}

void vb_qp_pkeys_changed(struct vb_qp *qp)
{
	vb_lock_take(&qp->lock);
	qp->pkey = pkey_of(qp);
	vb_lock_release(&qp->lock);
}

static void apply_path(struct vb_qp *qp, const struct change *change)
{
	const struct ibv_qp_attr *attr = change->attr;

	if (change->mask & IBV_QP_PORT)
		qp->attr.port_num = attr->port_num;
	if (change->mask & IBV_QP_PKEY_INDEX) {
		qp->attr.pkey_index = attr->pkey_index;
		qp->pkey = pkey_of(qp);
	}
	if (change->mask & IBV_QP_AV) {
		qp->attr.ah_attr = attr->ah_attr;
		if (change->path)
			qp->path = *change->path;
	}
	if (change->mask & IBV_QP_PATH_MTU) {
		qp->attr.path_mtu = attr->path_mtu;
		qp->path_mtu = mtu_bytes(attr->path_mtu);
	}
	if (change->mask & IBV_QP_DEST_QPN)
		qp->attr.dest_qp_num = attr->dest_qp_num;
	/* A datagram goes anywhere: all that bounds it is the port (IBA 9.8.3). */
	if (qp->type == IBV_QPT_UD && change->to == IBV_QPS_RTR) {
		qp->attr.path_mtu = change->active_mtu;
		qp->path_mtu = mtu_bytes(change->active_mtu);
	}
}

static void apply_numbers(struct vb_qp *qp, const struct change *change)
{
	const struct ibv_qp_attr *attr = change->attr;
	int mask = change->mask;

	if (mask & IBV_QP_ACCESS_FLAGS)
		qp->attr.qp_access_flags = attr->qp_access_flags;
	if (mask & IBV_QP_QKEY)
		qp->attr.qkey = attr->qkey;
	/* PSNs have 24 bits; programs that draw 32 random ones are served by adapters, and so here. */
	if (mask & IBV_QP_RQ_PSN)
		qp->attr.rq_psn = psn_of(attr->rq_psn).v;
	if (mask & IBV_QP_SQ_PSN)
		qp->attr.sq_psn = psn_of(attr->sq_psn).v;
	if (mask & IBV_QP_TIMEOUT)
		qp->attr.timeout = attr->timeout;
	if (mask & IBV_QP_RETRY_CNT)
		qp->attr.retry_cnt = attr->retry_cnt;
	if (mask & IBV_QP_RNR_RETRY)
		qp->attr.rnr_retry = attr->rnr_retry;
	if (mask & IBV_QP_MIN_RNR_TIMER)
		qp->attr.min_rnr_timer = attr->min_rnr_timer;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		qp->attr.max_rd_atomic = attr->max_rd_atomic;
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		qp->attr.max_dest_rd_atomic = attr->max_dest_rd_atomic;
	if (mask & IBV_QP_RATE_LIMIT)
		qp->attr.rate_limit = attr->rate_limit;
	if (mask & IBV_QP_PATH_MIG_STATE)
		qp->attr.path_mig_state = attr->path_mig_state;
}

static void forget_everything(struct vb_qp *qp)
{
	struct ibv_qp_cap cap = qp->attr.cap;

	/* First, so that none of them is polled and releases places of the queue that begins anew. */
	vb_qp_discard_completions(qp);
	if (qp->xrc_domain)
		vb_xrc_forget_srq(qp);
	qp->send.reserved = qp->send.head = qp->send.tail = 0;
	__atomic_store_n(&qp->send.released, 0, __ATOMIC_RELAXED);
	qp->receive.head = qp->receive.tail = 0;
	memset(&qp->attr, 0, sizeof(qp->attr));
	qp->attr.cap = cap;
	memset(&qp->path, 0, sizeof(qp->path));
	qp->path_mtu = qp->burst_bytes = 0;
	memset(&qp->fault, 0, sizeof(qp->fault));
	qp->draining = qp->last_wqe_event_sent = qp->communication_established = false;
}

static void apply_change(struct vb_qp *qp, const struct change *change, vb_time now)
{
	if (change->to == IBV_QPS_ERR) {
		vb_qp_enter_error(qp, now);
		return;
	}
	if (change->to == IBV_QPS_RESET)
		forget_everything(qp);
	apply_path(qp, change);
	apply_numbers(qp, change);
	qp->state = change->to;
	qp->draining = change->to == IBV_QPS_SQD && (qp->draining || change->from == IBV_QPS_RTS);
	if (change->from == IBV_QPS_RTS && change->to == IBV_QPS_SQD)
		qp->attr.en_sqd_async_notify =
			change->mask & IBV_QP_EN_SQD_ASYNC_NOTIFY ? change->attr->en_sqd_async_notify : 0;
	if (qp->transport->modified)
		qp->transport->modified(qp, change->from, change->mask, now);
}

int vb_qp_modify(struct vb_qp *qp, const struct ibv_qp_attr *attr, int attr_mask, const struct vb_path *path,
		 enum ibv_mtu active_mtu, vb_time now)
{
	struct change change = {.attr = attr, .mask = attr_mask, .path = path, .active_mtu = active_mtu};
	int rc;

	vb_lock_take(&qp->lock);
	change.from = qp->state;
	change.to = attr_mask & IBV_QP_STATE ? attr->qp_state : qp->state;
	rc = check_change(qp, &change);
	if (rc == 0 && !vb_qp_transition(qp->host->profile->transitions, qp->type, change.from, change.to)->ignored)
		apply_change(qp, &change, now);
	vb_lock_release(&qp->lock);
	return rc;
}

int vb_qp_connected(struct vb_qp *qp, vb_time now)
{
	enum ibv_qp_state from = qp->state;

	vb_lock_assert_held(&qp->lock);
	if (!vb_qp_transition(qp->host->profile->transitions, qp->type, from, IBV_QPS_RTS)->by_connection)
		return -EINVAL;
	qp->state = IBV_QPS_RTS;
	if (qp->transport->modified)
		qp->transport->modified(qp, from, IBV_QP_STATE, now);
	if (qp->host->qp_connected)
		qp->host->qp_connected(qp);
	return 0;
}
