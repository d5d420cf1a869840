/* SPDX-License-Identifier: MIT
 *
 * The engine's life: beginning, states, time. Bytes come in by receive.c, go out by sender.c; terminate.c and end.c end it.
 */
#include "iwarp/iwarp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "iwarp/engine.h"

static void clear(struct vb_qp *qp)
{
	struct vb_iwarp_engine *engine = vb_iwarp_engine(qp);

	vb_iwarp_receive_end(&engine->receiver);
	vb_iwarp_reads_clear(&engine->reads);
	free(engine->sender.kept);
	memset(engine, 0, sizeof(*engine));
	engine->first.at = VB_TIME_NEVER;
}

static int attach(struct vb_qp *qp)
{
	clear(qp);
	return 0;
}

static void modified(struct vb_qp *qp, enum ibv_qp_state from, int attr_mask, vb_time now)
{
	struct vb_iwarp_engine *engine = vb_iwarp_engine(qp);

	(void)attr_mask;
	switch (qp->state) {
	case IBV_QPS_RESET:
		clear(qp);
		break;
	case IBV_QPS_SQD:
		/* rdma_disconnect of rdma-core asks for it: the stream is closed in order. */
		if (from == IBV_QPS_RTS && engine->stage == VB_IWARP_OPEN)
			engine->stage = VB_IWARP_CLOSING;
		break;
	case IBV_QPS_ERR:
		vb_iwarp_entered_error(qp, now);
		break;
	default:
		break;
	}
}

const struct vb_transport vb_iwarp_transport = {
	.name = "iwarp",
	.engine_size = sizeof(struct vb_iwarp_engine),
	.attach = attach,
	.detach = clear,
	.modified = modified,
	.bypassed = vb_iwarp_bypassed,
	.query = vb_iwarp_query,
};

static bool terms_can_be(const struct vb_iwarp_terms *terms)
{
	return terms->mulpdu >= VB_MULPDU_LEAST && terms->mulpdu <= VB_MULPDU_MOST && terms->ird <= VB_MAX_RD_ATOMIC &&
	       terms->ord <= VB_MAX_RD_ATOMIC;
}

int vb_iwarp_begin(struct vb_qp *qp, vb_time now, const struct vb_iwarp_terms *terms)
{
	struct vb_iwarp_engine *engine = vb_iwarp_engine(qp);

	vb_lock_assert_held(&qp->lock);
	if (!terms_can_be(terms) || engine->stage != VB_IWARP_CLOSED || vb_qp_connected(qp, now) != 0)
		return -EINVAL;
	clear(qp);
	engine->terms = *terms;
	engine->stage = VB_IWARP_OPEN;
	qp->attr.max_rd_atomic = (uint8_t)terms->ord;
	qp->attr.max_dest_rd_atomic = (uint8_t)terms->ird;
	vb_iwarp_receive_begin(&engine->receiver);
	vb_iwarp_sender_begin(qp);
	vb_iwarp_first_begin(engine, now);
	vb_iwarp_check_invariants(qp);
	return 0;
}

bool vb_iwarp_holds_back(const struct vb_qp *qp)
{
	return vb_iwarp_engine_of(qp)->first.holds_back;
}

bool vb_iwarp_has_heard(const struct vb_qp *qp)
{
	return vb_iwarp_engine_of(qp)->receiver.heard;
}

vb_time vb_iwarp_next_deadline(const struct vb_qp *qp)
{
	const struct vb_iwarp_engine *engine = vb_iwarp_engine_of(qp);
	vb_time deadline = vb_iwarp_first_deadline(engine);

	if (!vb_iwarp_is_alive(qp))
		return VB_TIME_NEVER;
	if (engine->receiver.stalled)
		deadline = vb_time_earlier(deadline, engine->receiver.give_up_at);
	if (engine->sender.local_retry_at != 0)
		deadline = vb_time_earlier(deadline, engine->sender.local_retry_at);
	return deadline;
}

void vb_iwarp_expire(struct vb_qp *qp, vb_time now)
{
	vb_lock_assert_held(&qp->lock);
	if (!vb_iwarp_is_alive(qp))
		return;
	/* Local work is tried again by the next vb_iwarp_send. */
	vb_iwarp_first_expire(vb_iwarp_engine(qp), now);
	vb_iwarp_receive_expire(qp, now);
	vb_iwarp_check_invariants(qp);
}

void vb_iwarp_query(const struct vb_qp *qp, struct vb_transport_status *status)
{
	const struct vb_iwarp_engine *engine = vb_iwarp_engine_of(qp);
	const struct vb_iwarp_cursor *cursor = &engine->sender.cursor;

	*status = (struct vb_transport_status){
		.send = cursor->send_msn,
		.expected = engine->receiver.send_msn,
		.outstanding = vb_send_queue_count(&qp->send),
		.outstanding_reads = cursor->asked - engine->reads.done,
	};
}
