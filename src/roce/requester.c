/* SPDX-License-Identifier: MIT
 *
 * The RC requester: walks the send queue and appends packets while the window, the credits and the order rules allow. A
 * lost packet moves its position back (engine.h draws it, requester_rewind.c does it); everything from there is sent
 * again, which the responder takes as new or recognises as duplicate.
 */
#include "roce/engine.h"

enum { FEW_CREDITS = 8 };

/* While the receiver is not ready, one cautious attempt at a time. */
static uint32_t window_of(const struct vb_roce_requester *requester)
{
	return requester->rnr_retries != 0 ? vb_roce_congestion_floor(&requester->congestion) :
					     requester->congestion.requests.size;
}

static bool window_allows(const struct vb_roce_requester *requester, uint32_t charge)
{
	return requester->in_flight == 0 || requester->in_flight + charge <= window_of(requester);
}

/* The window is open for less than a batch: better to wait for the next acknowledgement, which is surely under
 * way while half of the window is, than to make a system call for a few packets. Not if these few are all there is, or
 * join what is being sent. */
static bool should_wait_for_batch(const struct vb_qp *qp, const struct vb_roce_requester *requester,
				  const struct vb_burst *out)
{
	uint32_t window = window_of(requester), mtu = requester->congestion.mtu;
	uint32_t batch = vb_roce_charge(VB_BATCH_PACKETS * mtu, VB_BATCH_PACKETS);
	const struct vb_send_wqe *wqe;
	uint32_t left;

	if (requester->in_flight < window / 2 || requester->send_index == qp->send.head ||
	    vb_burst_run_room(out, mtu) > 0)
		return false;
	if (batch > window / 4)
		batch = window / 4;
	if (requester->in_flight + batch <= window)
		return false;
	wqe = vb_send_queue_at(&qp->send, requester->send_index);
	if (vb_work(wqe->opcode)->is_read)
		return false;
	if (requester->send_index + 1 != qp->send.head)
		return true;
	left = wqe->started ? vb_roce_note(wqe)->packets - psn_ahead(requester->send, vb_roce_note(wqe)->first_psn) :
			      vb_roce_packets(wqe->length, mtu);
	return left > VB_BATCH_PACKETS || requester->in_flight + vb_roce_charge(left * mtu, left) > window;
}

/* Fence: reads and atomics before it must be complete (IBA 10.8.3.3). */
static bool fence_holds(const struct vb_roce_requester *requester, const struct vb_send_wqe *wqe)
{
	return (wqe->send_flags & IBV_SEND_FENCE) && !vb_roce_reads_is_idle(requester);
}

static bool is_beyond_credits(const struct vb_roce_requester *requester, uint32_t message)
{
	return requester->credits_known && (int32_t)(message - requester->credit_limit) > 0;
}

/* Without credits, one message may still be begun when nothing is outstanding, to learn of new ones (C9-156). */
static bool credits_hold(const struct vb_roce_requester *requester, const struct vb_send_wqe *wqe)
{
	return vb_work(wqe->opcode)->takes_receive &&
	       is_beyond_credits(requester, requester->receives_started + 1) &&
	       vb_roce_requester_outstanding(requester);
}

static bool may_start(const struct vb_qp *qp, const struct vb_roce_requester *requester, const struct vb_send_wqe *wqe)
{
	/* Draining: what was begun ends, nothing begins (IBA 10.3.1.5). */
	return qp->state == IBV_QPS_RTS && !fence_holds(requester, wqe) && !credits_hold(requester, wqe);
}

/* A message beyond the credits (begun to learn of new ones, or before they were known) goes when nothing else is
 * outstanding: its first packet, and the others when that is acknowledged. */
static bool is_probe(const struct vb_roce_requester *requester, const struct vb_send_wqe *wqe, uint32_t index)
{
	return index == 0 && vb_work(wqe->opcode)->takes_receive &&
	       is_beyond_credits(requester, vb_roce_note(wqe)->receives_through);
}

static bool credits_hold_packet(const struct vb_roce_requester *requester, const struct vb_send_wqe *wqe,
				uint32_t index)
{
	return requester->probing ||
	       (is_probe(requester, wqe, index) && !psn_equal(requester->send, requester->acknowledged));
}

/* Who waits for the end of this message? The application, if it is signalled or the last there is (but late.c); and those behind it, if
 * receives run short at the other end. Otherwise a later acknowledgement does for it too: each costs both sides a system call. */
static bool end_is_waited_for(const struct vb_qp *qp, const struct vb_roce_requester *requester,
			      const struct vb_send_wqe *wqe, vb_time now)
{
	if ((wqe->send_flags & IBV_SEND_SIGNALED) ||
	    (requester->send_index + 1 == qp->send.head && !vb_roce_late_will_do(qp, wqe, now)))
		return true;
	return vb_work(wqe->opcode)->takes_receive && requester->credits_known &&
	       (int32_t)(requester->credit_limit - vb_roce_note(wqe)->receives_through) < FEW_CREDITS;
}

/* How much may be sent before an acknowledgement is asked for: it opens the window again before that is used up. */
static uint32_t step_of(const struct vb_roce_requester *requester)
{
	uint32_t window = window_of(requester);

	return window / (window >= VB_WINDOW_WIDE ? VB_ACK_REQUESTS_PER_WIDE_WINDOW : VB_ACK_REQUESTS_PER_WINDOW);
}

/* Packets that are left of the message after `index`: if the step is used up and not much is left, its end will ask. */
static bool end_is_near(const struct vb_roce_requester *requester, const struct vb_send_wqe *wqe, uint32_t index,
			uint32_t charge)
{
	uint32_t left = vb_roce_note(wqe)->packets - index - 1;

	return left > 0 && left < step_of(requester) / 2 / charge;
}

/* No packet on its way asks for an acknowledgement: the last one that the window allows must. */
static bool no_ack_requested(const struct vb_roce_requester *requester)
{
	return requester->since_ack_request >= requester->in_flight;
}

/* The last of what is sent again asks: a duplicate that does not need not be answered. */
static bool ends_repetition(const struct vb_roce_requester *requester, uint32_t count)
{
	return psn_ahead(requester->high, requester->send) == count;
}

static bool wants_acknowledgement(const struct vb_qp *qp, const struct vb_roce_requester *requester,
				  const struct vb_send_wqe *wqe, uint32_t index, uint32_t charge, vb_time now)
{
	return ends_repetition(requester, 1) ||
	       (index + 1 == vb_roce_note(wqe)->packets && end_is_waited_for(qp, requester, wqe, now)) || is_probe(requester, wqe, index) ||
	       (requester->since_ack_request + charge >= step_of(requester) && !end_is_near(requester, wqe, index, charge)) ||
	       (no_ack_requested(requester) && requester->in_flight + 2 * charge > window_of(requester));
}

/* `count` packets left, of the same charge. */
static void note_sent(struct vb_qp *qp, vb_time now, uint32_t count, uint32_t charge, bool ack_request)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;
	bool again = psn_before(requester->send, requester->high);

	if (requester->congestion.rate != 0)
		vb_roce_pace_sent(requester, now, count, charge - VB_CHARGE_OVERHEAD);
	requester->send = psn_add(requester->send, count);
	vb_roce_timers_sent(qp, now, psn_add(requester->send, VB_PSN_MASK), ack_request, again);
	requester->in_flight += count * charge;
	requester->since_ack_request = ack_request ? 0 : requester->since_ack_request + count * charge;
	if (!again)
		requester->high = requester->send;
}

/* The packets from `index` on that are neither first nor last, or those of a series but the last: all alike, so many at once, up to
 * one that asks for an acknowledgement. Returns how many went; none means nothing but that they must be tried singly. */
static uint32_t transmit_alike(struct vb_qp *qp, struct vb_send_wqe *wqe, uint32_t index, vb_time now,
			       struct vb_burst *out)
{
	struct vb_roce_engine *engine = vb_roce_engine(qp);
	struct vb_roce_requester *requester = &engine->requester;
	uint32_t window = window_of(requester), step = step_of(requester), since = requester->since_ack_request;
	uint32_t charge = vb_roce_charge(engine->mtu, 1), count = vb_roce_note(wqe)->packets - 1 - index, sent;
	uint32_t fit = window > requester->in_flight ? (window - requester->in_flight) / charge : 0;
	uint32_t asks = step > since ? (step - since + charge - 1) / charge : 1;
	uint32_t extension = vb_roce_note(wqe)->series ? VB_RETH_LENGTH : 0;
	uint32_t again = psn_ahead(requester->high, requester->send), room = vb_burst_run_room(out, extension + engine->mtu);
	struct vb_roce_packet packet;

	if (requester->probing)
		return 0;
	/* Sent for the first time or not, that makes a difference to the timers. */
	if (again > 0 && count > again)
		count = again;
	/* No more than one run if this is all there is: the sooner it is here, the sooner it is taken. */
	if (room == 0 && requester->send_index + 1 == qp->send.head)
		room = vb_burst_run_limit(extension + engine->mtu);
	/* Up to the end of a run: then it is seen whether the next is worth while. */
	if (room > 0 && count > room)
		count = room;
	if (count >= asks && !end_is_near(requester, wqe, index + asks - 1, charge))
		count = asks;
	if (count > fit)
		count = fit;
	if (count < 2)
		return 0;
	vb_roce_work_headers(qp, wqe, index, &packet);
	packet.ack_request = ends_repetition(requester, count) || (count == fit && no_ack_requested(requester)) ||
			     (count == asks && !end_is_near(requester, wqe, index + asks - 1, charge));
	sent = vb_roce_work_append_alike(qp, wqe, index, count, &packet, out);
	if (sent > 0)
		note_sent(qp, now, sent, charge, packet.ack_request && sent == count);
	return sent;
}

static enum vb_roce_progress transmit(struct vb_qp *qp, struct vb_send_wqe *wqe, vb_time now, struct vb_burst *out)
{
	struct vb_roce_engine *engine = vb_roce_engine(qp);
	struct vb_roce_requester *requester = &engine->requester;
	uint32_t index = psn_ahead(requester->send, vb_roce_note(wqe)->first_psn);
	uint32_t charge = vb_roce_charge(vb_roce_payload(wqe->length, engine->mtu, index), 1);
	enum vb_roce_progress progress;
	struct vb_roce_packet packet;

	if (requester->congestion.rate != 0 && !vb_roce_pace_allows(requester, now))
		return VB_PROGRESS_MUST_WAIT;
	if ((index > 0 || vb_roce_note(wqe)->series) && index + 1 < vb_roce_note(wqe)->packets &&
	    transmit_alike(qp, wqe, index, now, out) > 0)
		return VB_PROGRESS_SENT;
	if (!window_allows(requester, charge) || credits_hold_packet(requester, wqe, index))
		return VB_PROGRESS_MUST_WAIT;
	vb_roce_work_headers(qp, wqe, index, &packet);
	packet.ack_request = wants_acknowledgement(qp, requester, wqe, index, charge, now);
	if (engine->responder.ack_rides)
		vb_roce_piggyback_put(qp, &packet);
	progress = vb_roce_work_append(qp, wqe, index, &qp->path, &packet, out);
	if (progress != VB_PROGRESS_SENT)
		return progress;
	if (packet.piggybacks)
		vb_roce_piggyback_sent(&engine->responder);
	requester->probing = is_probe(requester, wqe, index) && vb_roce_note(wqe)->packets > 1;
	if (packet.ack_request && !(wqe->send_flags & IBV_SEND_SIGNALED) && !requester->peer_remembers)
		vb_roce_late_asked(qp, wqe);
	note_sent(qp, now, 1, charge, packet.ack_request);
	return VB_PROGRESS_SENT;
}

/* Packets of the element at send_index, or its start, or its end. */
static enum vb_roce_progress advance(struct vb_qp *qp, vb_time now, struct vb_burst *out)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;
	struct vb_send_wqe *wqe = vb_send_queue_at(&qp->send, requester->send_index);
	enum vb_roce_progress progress = VB_PROGRESS_SENT;

	if (requester->failure.waits && requester->failure.index == requester->send_index)
		return VB_PROGRESS_MUST_WAIT;
	if (!wqe->started && !may_start(qp, requester, wqe))
		return VB_PROGRESS_MUST_WAIT;
	if (!wqe->started && !vb_roce_work_start(qp, wqe, now))
		return VB_PROGRESS_MUST_WAIT;
	if (vb_roce_note(wqe)->packets > 0)
		progress = vb_work(wqe->opcode)->is_read ? vb_roce_reads_ask(qp, wqe, now, out) :
								transmit(qp, wqe, now, out);
	if (progress == VB_PROGRESS_SENT &&
	    (vb_roce_note(wqe)->packets == 0 || psn_ahead(requester->send, vb_roce_note(wqe)->first_psn) == vb_roce_note(wqe)->packets))
		requester->send_index++;
	return progress;
}

/* The oldest and the last packet sent, once more (timers.c says why). */
static void probe(struct vb_qp *qp, struct vb_burst *out)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;
	struct psn last = psn_of(requester->high.v + VB_PSN_MASK);
	uint32_t index = requester->send_index;
	struct vb_roce_packet packet;
	struct vb_send_wqe *wqe;
	uint32_t number;

	requester->probe_owed = false;
	if (!psn_equal(requester->send, requester->high) || !vb_roce_requester_outstanding(requester))
		return;
	if (requester->early.count > 0) {
		vb_roce_early_probe(requester);
		return;
	}
	vb_roce_selective_probe(requester);
	/* The element that `high` stands in, or the last before it that has packets. */
	do {
		if (index == qp->send.head)
			index--;
		wqe = vb_send_queue_at(&qp->send, index--);
	} while (!wqe->started || vb_roce_note(wqe)->packets == 0 || psn_equal(vb_roce_note(wqe)->first_psn, requester->high));
	if (vb_work(wqe->opcode)->is_read) {
		vb_roce_reads_probe(qp, wqe, out);
		return;
	}
	number = psn_ahead(last, vb_roce_note(wqe)->first_psn);
	vb_roce_work_headers(qp, wqe, number, &packet);
	packet.ack_request = true;
	vb_roce_work_append(qp, wqe, number, &qp->path, &packet, out);
}

bool vb_roce_requester_send(struct vb_qp *qp, vb_time now, struct vb_burst *out)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;
	enum vb_roce_progress progress = VB_PROGRESS_SENT;

	if (requester->probe_owed && vb_burst_has_room(out, requester->congestion.mtu))
		probe(qp, out);
	if (requester->early.ask_owed && vb_burst_has_room(out, sizeof(uint64_t)))
		vb_roce_reads_ask_missing(qp, now, out);
	if (requester->lost_ask_owed && vb_burst_has_room(out, sizeof(uint64_t)))
		vb_roce_reads_ask_lost(qp, out);
	if (requester->peer_ask_owed && vb_burst_has_room(out, 0)) {
		requester->peer_ask_owed = false;
		vb_roce_probe_peer(qp, out);
	}
	/* That is waited for: it leaves before others are made. */
	if (requester->selective_owed) {
		if (vb_burst_has_room(out, requester->congestion.mtu))
			vb_roce_selective_send(qp, out);
		if (requester->missing.came && !requester->selective_owed)
			vb_roce_missing_next(requester);
		return true;
	}
	if (requester->rnr_until != 0 || vb_roce_selective_holds(requester))
		return false;
	while (progress == VB_PROGRESS_SENT && requester->send_index != qp->send.head &&
	       !should_wait_for_batch(qp, requester, out))
		progress = vb_burst_has_enough(out, requester->congestion.mtu) ? VB_PROGRESS_BURST_FULL :
										 advance(qp, now, out);
	return progress == VB_PROGRESS_BURST_FULL || requester->early.ask_owed || requester->lost_ask_owed;
}

/* ---- one short message, alone ---- */

/* Is there nothing to be sent but the last message in the queue, and nothing that holds it back? */
static bool is_quiet(const struct vb_qp *qp, const struct vb_roce_engine *engine)
{
	const struct vb_roce_requester *requester = &engine->requester;
	const struct vb_roce_responder *responder = &engine->responder;
	unsigned waits = requester->probe_owed | requester->early.ask_owed | requester->lost_ask_owed | requester->peer_ask_owed |
			 requester->selective_owed | requester->selective_active | requester->probing | requester->failure.waits |
			 responder->nak_owed | responder->cnp_owed | responder->reports_owed | responder->ack_partial |
			 engine->answers_waited;

	return requester->send_index + 1 == qp->send.head && waits == 0 && responder->resources_owed == 0 && requester->rnr_until == 0 &&
	       requester->rnr_retries == 0 && requester->congestion.rate == 0 && psn_equal(requester->send, requester->high) &&
	       qp->state == IBV_QPS_RTS && qp->type == IBV_QPT_RC;
}

/* The acknowledgement that is owed leaves within it, or there is none. */
static bool acknowledgement_fits(const struct vb_roce_engine *engine, const struct vb_send_wqe *wqe)
{
	return !engine->responder.ack_owed ||
	       (engine->requester.series.allowed && engine->requester.peer_takes_piggyback && wqe->length > 0 &&
		wqe->length + VB_PIGGYBACK_LENGTH <= engine->mtu);
}

static bool suits_alone(const struct vb_roce_engine *engine, const struct vb_send_wqe *wqe, const struct vb_work *work)
{
	const struct vb_roce_requester *requester = &engine->requester;

	return (work->kind == VB_WORK_SEND || work->kind == VB_WORK_WRITE) && !wqe->started && !(wqe->send_flags & IBV_SEND_FENCE) &&
	       wqe->length <= engine->mtu && (wqe->is_inline || (wqe->sge_count == 1 && wqe->length > 0)) &&
	       requester->in_flight + vb_roce_charge(wqe->length, 1) <= requester->congestion.requests.size / 2 &&
	       !(work->takes_receive && is_beyond_credits(requester, requester->receives_started + 1)) && acknowledgement_fits(engine, wqe);
}

/* Where its bytes are. False: nowhere that is plain, or not to be read. */
static bool find_bytes(struct vb_qp *qp, struct vb_send_wqe *wqe, struct vb_hold *hold, struct iovec *span)
{
	struct vb_accessor who = {.pd = qp->pd, .qpn = qp->qpn, .key = wqe->list[0].lkey};
	struct vb_fault_record ignored;

	hold->entry = NULL;
	span->iov_len = wqe->length;
	if (wqe->is_inline) {
		span->iov_base = vb_send_wqe_inline(wqe);
		return true;
	}
	if (!vb_memory_span(qp->host->memory, &who, wqe->list[0].addr, wqe->length, hold, &ignored) || !hold->entry)
		return false;
	span->iov_base = hold->bytes;
	return true;
}

/* Most messages of a conversation are short, and leave one by one. By the ordinary way each is asked for some forty things that it is
 * not; the few that make a difference are looked at here together. Everything is as it would be by that way (sim/lone compares), and what
 * is not so simple takes it. */
bool vb_roce_requester_send_lone(struct vb_qp *qp, vb_time now, struct vb_burst *out)
{
	struct vb_roce_engine *engine = vb_roce_engine(qp);
	struct vb_roce_requester *requester = &engine->requester;
	struct vb_roce_packet packet;
	const struct vb_work *work;
	struct vb_send_wqe *wqe;
	struct vb_hold hold;
	struct iovec span;
	uint32_t charge;

	if (!is_quiet(qp, engine) || !vb_burst_is_empty(out) || out->sink)
		return false;
	wqe = vb_send_queue_at(&qp->send, requester->send_index);
	work = vb_work(wqe->opcode);
	if (!suits_alone(engine, wqe, work) || !find_bytes(qp, wqe, &hold, &span))
		return false;
	wqe->started_at = now;
	wqe->started = true;
	*vb_roce_note(wqe) = (struct vb_roce_note){
		.first_psn = requester->send,
		.packets = 1,
		.receives_through = requester->receives_started += work->takes_receive,
	};
	vb_roce_tally_one(&engine->tally, &engine->tally.work[work->kind]);
	charge = vb_roce_charge(wqe->length, 1);
	vb_roce_work_headers(qp, wqe, 0, &packet);
	packet.ack_request = wants_acknowledgement(qp, requester, wqe, 0, charge, now);
	if (engine->responder.ack_owed)
		vb_roce_piggyback_put(qp, &packet);
	vb_burst_append(out, &qp->path, &packet, &span, 1);
	vb_memory_let_go(&hold);
	if (packet.piggybacks)
		vb_roce_piggyback_sent(&engine->responder);
	if (packet.ack_request && !(wqe->send_flags & IBV_SEND_SIGNALED) && !requester->peer_remembers)
		vb_roce_late_asked(qp, wqe);
	note_sent(qp, now, 1, charge, packet.ack_request);
	requester->send_index++;
	return true;
}
