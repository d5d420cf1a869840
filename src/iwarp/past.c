/* SPDX-License-Identifier: MIT
 *
 * WRITEs and READs past the stream, where there is a way (queue/bypass.h). They are executed when their turn comes, and are as done as
 * local work is: nothing is sent that would move a cursor past them. Whatever is not plain success goes by the stream, from its first
 * byte, and is refused there.
 *
 * FPDUs are what is counted. A request goes past only when the peer has done with all that were made before it, answers included, and
 * when every READ and atomic before it is answered: so what a program finds in memory, and in which order, is as if it had gone by the
 * stream.
 *
 * Those that follow one another and are of one kind and key are moved at once, as a row (queue/bypass.h).
 */
#include "iwarp/engine.h"

/* Requests that follow one another without a break would keep the stream filled, and never find the peer level with it: they wait for that,
 * so often and so long at most. */
#define HOLD_FIRST VB_MICROSECONDS(100)
#define HOLD_LOOK VB_MILLISECONDS(2)
#define HOLD_MOST VB_SECONDS(1)
#define HOLD_AGAIN VB_MILLISECONDS(20)

/* One of no bytes names no memory. */
static bool could_go(const struct vb_send_wqe *wqe)
{
	return (wqe->opcode == IBV_WR_RDMA_WRITE || wqe->opcode == IBV_WR_RDMA_READ) && wqe->length > 0;
}

static void end_hold(struct vb_iwarp_sender *sender, vb_time now)
{
	if (sender->held_since != 0)
		sender->held_next = now + HOLD_AGAIN;
	sender->held_since = 0;
}

/* What is on its way is taken in without the peer's application: so it will be, soon. */
static bool hold(struct vb_iwarp_sender *sender, vb_time now)
{
	vb_time look;

	if (now < sender->held_next)
		return false;
	if (sender->held_since == 0)
		sender->held_since = now;
	if (now - sender->held_since >= HOLD_MOST) {
		end_hold(sender, now);
		return false;
	}
	look = (now - sender->held_since) / 2;
	look = look < HOLD_FIRST ? HOLD_FIRST : look > HOLD_LOOK ? HOLD_LOOK : look;
	sender->local_retry_at = now + look;
	return true;
}

/* DONE: it may go now. */
static enum vb_iwarp_past its_turn(struct vb_iwarp_engine *engine, vb_time now, const struct vb_iwarp_cursor *at,
				   const struct vb_send_wqe *wqe)
{
	uint64_t taken;

	if (!could_go(wqe) || at->request_offset != 0 || !engine->bypass || !engine->bypass->taken(engine->bypass, &taken))
		return VB_IWARP_PAST_NOT;
	if (taken == at->fpdus && at->asked == engine->reads.done) {
		end_hold(&engine->sender, now);
		return VB_IWARP_PAST_DONE;
	}
	/* Counts that cannot be are none to wait for. */
	return taken >= at->receives && taken <= at->fpdus && hold(&engine->sender, now) ? VB_IWARP_PAST_WAITS : VB_IWARP_PAST_NOT;
}

/* ---- rows ---- */

bool vb_iwarp_past_begins_row(struct vb_qp *qp, vb_time now, const struct vb_iwarp_cursor *at, const struct vb_send_wqe *wqe)
{
	struct vb_iwarp_engine *engine = vb_iwarp_engine(qp);

	return engine->bypass && !wqe->done && engine->sender.past == 0 && (int32_t)(at->request - engine->sender.alone) >= 0 &&
	       its_turn(engine, now, at, wqe) == VB_IWARP_PAST_DONE;
}

static unsigned elements_of(const struct vb_send_wqe *wqe)
{
	return wqe->is_inline ? 1 : wqe->sge_count;
}

bool vb_iwarp_past_row_takes(const struct vb_iwarp_row *row, const struct vb_send_wqe *wqe, uint32_t budget)
{
	const struct vb_send_wqe *first = row->count > 0 ? row->wqe[0] : wqe;
	uint32_t most = budget < VB_BYPASS_ROW_BYTES ? budget : VB_BYPASS_ROW_BYTES;

	return could_go(wqe) && !wqe->done && wqe->opcode == first->opcode && wqe->rdma.rkey == first->rdma.rkey &&
	       row->count < VB_BYPASS_ROW && row->elements + elements_of(wqe) <= VB_BYPASS_ROW && wqe->length <= most - row->bytes;
}

void vb_iwarp_past_row_add(struct vb_iwarp_row *row, struct vb_send_wqe *wqe)
{
	row->wqe[row->count++] = wqe;
	row->elements += elements_of(wqe);
	row->bytes += wqe->length;
}

void vb_iwarp_past_row(struct vb_qp *qp, const struct vb_iwarp_cursor *at, const struct vb_iwarp_row *row, uint32_t *budget)
{
	struct vb_iwarp_engine *engine = vb_iwarp_engine(qp);

	if (row->count < 2)
		return;
	if (!engine->bypass->move_row(engine->bypass, row->wqe, row->count)) {
		engine->sender.alone = at->request + row->count;
		return;
	}
	for (unsigned i = 0; i < row->count; i++)
		row->wqe[i]->done = true;
	*budget -= row->bytes;
	engine->sender.went_past = true;
}

/* ---- each ---- */

enum vb_iwarp_past vb_iwarp_past(struct vb_qp *qp, vb_time now, const struct vb_iwarp_cursor *at, struct vb_send_wqe *wqe,
				 uint32_t *budget)
{
	struct vb_iwarp_engine *engine = vb_iwarp_engine(qp);
	uint32_t *past = &engine->sender.past, moved;
	enum vb_iwarp_past turn = VB_IWARP_PAST_DONE;

	/* Done, and another before it is not retired yet. */
	while (!wqe->done) {
		turn = its_turn(engine, now, at, wqe);
		if (turn != VB_IWARP_PAST_DONE)
			break;
		if (*budget == 0)
			return VB_IWARP_PAST_MORE;
		if (!engine->bypass->move(engine->bypass, wqe, *past, &moved)) {
			turn = VB_IWARP_PAST_NOT;
			break;
		}
		*past += moved;
		*budget -= moved < *budget ? moved : *budget;
		if (*past < wqe->length)
			continue;
		*past = 0;
		wqe->done = true;
		engine->sender.went_past = true;
	}
	if (turn == VB_IWARP_PAST_NOT) {
		*past = 0;
		engine->introduction.wanted |= could_go(wqe);
		engine->sender.went_past &= !could_go(wqe);
	}
	return turn;
}

void vb_iwarp_bypassed(struct vb_qp *qp, struct vb_bypass *bypass)
{
	struct vb_iwarp_engine *engine = vb_iwarp_engine(qp);

	vb_lock_assert_held(&qp->lock);
	engine->bypass = bypass;
	engine->sender.past = 0;
	engine->sender.went_past = false;
	engine->sender.alone = engine->sender.cursor.request;
	if (bypass)
		bypass->took(bypass, engine->receiver.fpdus);
}

bool vb_iwarp_goes_past(const struct vb_qp *qp)
{
	const struct vb_iwarp_engine *engine = vb_iwarp_engine_of(qp);

	return engine->bypass && engine->sender.went_past && qp->send.head != qp->send.tail &&
	       could_go(vb_send_queue_at(&qp->send, qp->send.head - 1));
}

void vb_iwarp_past_took(struct vb_iwarp_engine *engine)
{
	engine->receiver.fpdus++;
	if (engine->bypass)
		engine->bypass->took(engine->bypass, engine->receiver.fpdus);
}
