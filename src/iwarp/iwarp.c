/* SPDX-License-Identifier: MIT
 *
 * The engine's entry points.
 */
#include "iwarp/iwarp.h"

#include <errno.h>
#include <string.h>

#include "queue/qp.h"
#include "wire/fpdu.h"

struct vb_iwarp_engine {
	struct vb_iwarp_terms terms;
	bool begun;
};

static struct vb_iwarp_engine *engine_of(struct vb_qp *qp)
{
	return vb_qp_engine(qp);
}

static void modified(struct vb_qp *qp, enum ibv_qp_state from, int attr_mask, vb_time now)
{
	(void)from, (void)attr_mask, (void)now;
	if (qp->state == IBV_QPS_RESET)
		memset(engine_of(qp), 0, sizeof(struct vb_iwarp_engine));
}

const struct vb_transport vb_iwarp_transport = {
	.name = "iwarp",
	.engine_size = sizeof(struct vb_iwarp_engine),
	.modified = modified,
	.query = vb_iwarp_query,
};

static bool terms_can_be(const struct vb_iwarp_terms *terms)
{
	return terms->mulpdu >= VB_MULPDU_LEAST && terms->mulpdu <= VB_MULPDU_MOST && terms->ird <= VB_MAX_RD_ATOMIC &&
	       terms->ord <= VB_MAX_RD_ATOMIC;
}

int vb_iwarp_begin(struct vb_qp *qp, vb_time now, const struct vb_iwarp_terms *terms)
{
	vb_lock_assert_held(&qp->lock);
	(void)now;
	if ((qp->state != IBV_QPS_INIT && qp->state != IBV_QPS_RTR) || !terms_can_be(terms))
		return -EINVAL;
	engine_of(qp)->terms = *terms;
	engine_of(qp)->begun = true;
	qp->attr.max_rd_atomic = (uint8_t)terms->ord;
	qp->attr.max_dest_rd_atomic = (uint8_t)terms->ird;
	qp->state = IBV_QPS_RTS;
	return 0;
}

size_t vb_iwarp_take(struct vb_qp *qp, vb_time now, const void *bytes, size_t length)
{
	(void)qp, (void)now, (void)bytes;
	return length;
}

bool vb_iwarp_is_stalled(const struct vb_qp *qp)
{
	(void)qp;
	return false;
}

unsigned vb_iwarp_want(struct vb_qp *qp, struct iovec *spans, unsigned room)
{
	(void)qp, (void)spans, (void)room;
	return 0;
}

void vb_iwarp_got(struct vb_qp *qp, vb_time now, size_t length)
{
	(void)qp, (void)now, (void)length;
}

bool vb_iwarp_send(struct vb_qp *qp, vb_time now, struct vb_iwarp_out *out)
{
	(void)qp, (void)now;
	out->count = 0;
	out->bytes = 0;
	return false;
}

void vb_iwarp_sent(struct vb_qp *qp, vb_time now, struct vb_iwarp_out *out, size_t length)
{
	(void)qp, (void)now, (void)out, (void)length;
}

vb_time vb_iwarp_next_deadline(const struct vb_qp *qp)
{
	(void)qp;
	return VB_TIME_NEVER;
}

void vb_iwarp_expire(struct vb_qp *qp, vb_time now)
{
	(void)qp, (void)now;
}

bool vb_iwarp_holds_back(const struct vb_qp *qp)
{
	(void)qp;
	return false;
}

bool vb_iwarp_has_heard(const struct vb_qp *qp)
{
	(void)qp;
	return false;
}

enum vb_iwarp_wish vb_iwarp_wish(const struct vb_qp *qp)
{
	return qp->state == IBV_QPS_RTS ? VB_IWARP_CARRY_ON : VB_IWARP_ABORT;
}

void vb_iwarp_ended(struct vb_qp *qp, vb_time now, enum vb_iwarp_end how)
{
	(void)how;
	vb_qp_enter_error(qp, now);
}

void vb_iwarp_query(const struct vb_qp *qp, struct vb_transport_status *status)
{
	(void)qp;
	*status = (struct vb_transport_status){0};
}
