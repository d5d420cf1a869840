/* SPDX-License-Identifier: MIT
 *
 * Who speaks first. RFC 5044 7.1.2, rule 4: a responder sends no FPDU before it has received one, since the initiator may not be in
 * streaming mode before. Linux's siw breaks the rule as responder and relies on it as initiator.
 *
 *   We initiate. A zero-length WRITE goes first, unless another ready-to-receive message was agreed on (RFC 6581 9). It opens the gate of
 *   a responder that obeys the rule. siw may miss the first FPDU behind its reply until more bytes come, so it is repeated until
 *   something came: a zero-length WRITE more does nothing.
 *   We respond. Our own FPDUs wait for the peer's first, but not for ever: a peer's program may be waiting for us to speak first. siw may
 *   miss these, too, if they come while it makes our reply into a connection, and its program then waits for ever; so zero-length WRITEs
 *   follow them until something came.
 *   Both are ours, as each has seen by the other's frame. Neither gate nor greeting: what comes behind the reply lies in the socket until
 *   the queue pair has it, and so nothing is lost. A greeting for each cost a message and a switch to the responder's engine thread, a
 *   quarter of what it takes to connect. Where a ready-to-receive message was agreed on it is sent: its arrival is the responder's event.
 *   Either. What comes first need not be an answer: programs speak of their own accord (rsockets of rdma-core begin with a grant), and
 *   what we sent before may still lie unnoticed. But who speaks listens by then (siw takes the socket over before its program hears of
 *   the connection), so one zero-length WRITE more is enough.
 */
#include "iwarp/engine.h"

/* After the beginning. */
static const vb_time repeat_at[] = {VB_MILLISECONDS(50), VB_MILLISECONDS(200), VB_SECONDS(1)};
enum { REPEATS = sizeof(repeat_at) / sizeof(repeat_at[0]) };

static vb_time first_repeat(const struct vb_iwarp_engine *engine, vb_time now)
{
	return engine->terms.attentive ? VB_TIME_NEVER : now + repeat_at[0];
}

static bool is_needless(const struct vb_iwarp_engine *engine)
{
	return engine->terms.attentive && engine->terms.ready == VB_IWARP_READY_NONE;
}

void vb_iwarp_first_begin(struct vb_iwarp_engine *engine, vb_time now)
{
	struct vb_iwarp_first *first = &engine->first;

	*first = (struct vb_iwarp_first){.began = now, .request = engine->sender.cursor.request};
	if (is_needless(engine)) {
		first->at = VB_TIME_NEVER;
	} else if (engine->terms.initiator) {
		first->owed = 1;
		first->at = first_repeat(engine, now);
	} else {
		first->holds_back = true;
		first->at = engine->terms.hold == VB_TIME_NEVER ? VB_TIME_NEVER : now + engine->terms.hold;
	}
}

/* More than greetings. Of what is taken in part more follows by itself. */
static bool has_spoken(const struct vb_iwarp_engine *engine)
{
	return engine->sender.cursor.request != engine->first.request;
}

void vb_iwarp_first_heard(struct vb_iwarp_engine *engine)
{
	struct vb_iwarp_first *first = &engine->first;

	first->holds_back = false;
	first->at = VB_TIME_NEVER;
	if (!engine->terms.attentive && has_spoken(engine) && engine->sender.cursor.greetings == first->owed)
		first->owed++;
}

vb_time vb_iwarp_first_deadline(const struct vb_iwarp_engine *engine)
{
	return engine->first.at;
}

void vb_iwarp_first_expire(struct vb_iwarp_engine *engine, vb_time now)
{
	struct vb_iwarp_first *first = &engine->first;

	if (now < first->at)
		return;
	if (first->holds_back) {
		first->holds_back = false;
		first->began = now;
		first->at = first_repeat(engine, now);
		return;
	}
	/* What the socket has not taken yet need not be repeated, nor what was never said. */
	if (engine->sender.cursor.greetings == first->owed && (engine->terms.initiator || has_spoken(engine)))
		first->owed++;
	first->repeats++;
	first->at = first->repeats < REPEATS ? first->began + repeat_at[first->repeats] : VB_TIME_NEVER;
}
