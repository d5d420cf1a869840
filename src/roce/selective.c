/* SPDX-License-Identifier: MIT
 *
 * A NAK says that a packet is missing, and an adapter then drops all that come behind it: so everything is sent again
 * from there (requester_rewind.c). A responder that keeps them (reorder.c is one) needs that packet alone, and
 * acknowledges far beyond it when it comes. Nothing on the wire tells the two apart but that acknowledgement, so it is
 * tried: at the first loss the missing packet goes alone, asks for an acknowledgement, and the others wait for it.
 *
 *   acknowledged just that packet      the peer drops: go back, now and at every loss to come
 *   acknowledged beyond it             the peer keeps
 *   NAK of the packet right behind it  the peer keeps, but more than one was lost in a row: a second time, then go back
 *
 * To a peer that keeps, new packets follow the retransmitted one at once. If that ever turns out to be wrong it is tried
 * again at the next loss. What the network loses on the way is a matter for the timers (timers.c probes).
 *
 * Where answers are lost, too, one that speaks for just that packet proves little: it may answer a repetition, while the NAK of
 * the next packet is what was lost. So that is not learned from a packet that was sent more than once, and a peer that has ever kept
 * packets is taken for one that drops them after MOST_DOUBTS such answers in succession only.
 */
#include "roce/engine.h"

enum { MOST_IN_A_ROW = 2, MOST_DOUBTS = 8 };

bool vb_roce_selective_holds(const struct vb_roce_requester *requester)
{
	return requester->selective_active && requester->selective_tells && requester->peer == VB_PEER_UNKNOWN;
}

static bool is_possible(const struct vb_roce_requester *requester)
{
	return psn_equal(requester->send, requester->high) && psn_ahead(requester->high, requester->acknowledged) > 1 &&
	       vb_roce_reads_is_idle(requester);
}

static void begin(struct vb_roce_requester *requester, bool told)
{
	requester->selective_active = requester->selective_owed = requester->selective_before = true;
	requester->selective_tells = told;
	requester->selective_again = false;
	requester->selective_psn = requester->acknowledged;
	requester->selective_high = requester->high;
}

bool vb_roce_selective_begin(struct vb_qp *qp, vb_time now)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;
	bool adjacent = requester->selective_before && psn_equal(requester->acknowledged, psn_add(requester->selective_psn, 1));

	/* Under way already: said twice. */
	if (requester->selective_active)
		return true;
	requester->lost_in_a_row = adjacent ? requester->lost_in_a_row + 1 : 1;
	if (requester->peer == VB_PEER_GO_BACK_N || requester->lost_in_a_row > MOST_IN_A_ROW || !is_possible(requester))
		return false;
	begin(requester, true);
	VB_COUNT(qp->host->counters, completer_retry_err);
	vb_roce_congestion_one_lost(&requester->congestion, requester->high);
	vb_roce_timers_sent_selectively(qp, now);
	return true;
}

void vb_roce_selective_probe(struct vb_roce_requester *requester)
{
	if (requester->selective_active)
		requester->selective_owed = requester->selective_again = true;
	else if (is_possible(requester))
		begin(requester, false);
}

void vb_roce_selective_send(struct vb_qp *qp, struct vb_burst *out)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;
	uint32_t index = qp->send.tail, number;
	struct vb_roce_packet packet;
	struct vb_send_wqe *wqe;

	requester->selective_owed = false;
	for (;; index++) {
		if (index == qp->send.head)
			return;
		wqe = vb_send_queue_at(&qp->send, index);
		number = psn_ahead(requester->selective_psn, vb_roce_note(wqe)->first_psn);
		if (wqe->started && number < vb_roce_note(wqe)->packets)
			break;
	}
	vb_roce_work_headers(qp, wqe, number, &packet);
	packet.ack_request = true;
	vb_roce_work_append(qp, wqe, number, &qp->path, &packet, out);
}

static enum vb_roce_peer learn(struct vb_roce_requester *requester, bool alone, bool positive)
{
	/* That the peer keeps packets is no longer certain. */
	if (alone && requester->peer == VB_PEER_SELECTIVE)
		return VB_PEER_UNKNOWN;
	if (!alone || !positive) {
		requester->peer_has_kept = true;
		requester->peer_doubts = 0;
		return VB_PEER_SELECTIVE;
	}
	return requester->peer_has_kept && ++requester->peer_doubts < MOST_DOUBTS ? VB_PEER_UNKNOWN : VB_PEER_GO_BACK_N;
}

/* Nearer to the longer ones than to the mean. */
static void take_sample(struct vb_roce_requester *requester, vb_time sample)
{
	vb_time difference = sample - requester->selective_trip;

	requester->selective_trip += difference > 0 ? difference / 2 : difference / 8;
}

/* An acknowledgement of the packet has come that does not speak for all that was sent before it. Is the next one missing alone? */
static bool goes_on_alone(const struct vb_roce_requester *requester, bool alone)
{
	if (!is_possible(requester))
		return false;
	/* It was sent again after a NAK, more than once; of a peer that keeps, the NAK of the next one may have been lost. */
	if (alone)
		return requester->selective_tells && requester->selective_again && requester->peer == VB_PEER_SELECTIVE;
	/* A probe has brought the answer that was lost, and not all that was sent before the probe is there. */
	return !requester->selective_tells && psn_before(requester->acknowledged, requester->selective_high);
}

void vb_roce_selective_answered(struct vb_qp *qp, vb_time now, bool positive)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;
	bool alone = psn_equal(requester->acknowledged, psn_add(requester->selective_psn, 1));

	if (!requester->selective_active || !psn_before(requester->selective_psn, requester->acknowledged))
		return;
	vb_roce_selective_end(requester);
	if (requester->selective_tells && !requester->selective_again) {
		take_sample(requester, now - requester->lost_at);
		vb_roce_timers_selective_answered(requester, now - requester->lost_at);
	}
	if (requester->selective_tells && !(alone && requester->selective_again))
		requester->peer = learn(requester, alone, positive);
	if (!positive)
		return;
	if (goes_on_alone(requester, alone)) {
		begin(requester, false);
		vb_roce_timers_sent_selectively(qp, now);
	} else if (alone) {
		vb_roce_requester_rewind(qp, now);
	}
}
