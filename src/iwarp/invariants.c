/* SPDX-License-Identifier: MIT
 *
 * What holds between any two calls of the engine.
 */
#include <assert.h>

#include "iwarp/engine.h"

void vb_iwarp_check_invariants(const struct vb_qp *qp)
{
#ifdef VB_CHECK_INVARIANTS
	const struct vb_iwarp_engine *engine = vb_iwarp_engine_of(qp);
	const struct vb_iwarp_sender *sender = &engine->sender;
	const struct vb_iwarp_receiver *receiver = &engine->receiver;

	assert(!receiver->placing.entry && receiver->wanted == 0);
	if (engine->stage == VB_IWARP_OPEN || engine->stage == VB_IWARP_CLOSING) {
		assert(vb_iwarp_is_alive(qp));
		assert(sender->cursor.request - qp->send.tail <= vb_send_queue_count(&qp->send));
		assert(sender->cursor.asked - engine->reads.done <= engine->terms.ord);
		assert(engine->reads.owed_head - sender->cursor.answer <= engine->terms.ird);
		assert(receiver->phase != VB_IWARP_DEAF);
		assert((receiver->phase == VB_IWARP_WHOLE) == (receiver->fpdu != NULL));
		assert(!receiver->send_underway || receiver->has_receive);
	} else {
		assert(!vb_iwarp_is_alive(qp) && !receiver->has_receive && !receiver->fpdu && !receiver->stalled);
	}
	assert(!sender->kept || sender->kept_at < sender->kept_length);
#else
	(void)qp;
#endif
}
