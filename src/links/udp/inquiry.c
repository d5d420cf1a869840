/* SPDX-License-Identifier: MIT
 *
 * A peer asks why something failed (wire/inquiry.h). The queue pair it names says what became of it, in full only to
 * its own peer: address and QPN must be those it is connected to, and the asker must know a PSN with which one of the
 * two directions began. Others hear whether there is such a queue pair, a few at once and then one every few seconds:
 * sweeping all 2^14 numbers of a process takes the better part of a day, and two hours where lanes fix three bits of them.
 * VERBENA_EXPLAIN_PEERS=0 leaves all inquiries unanswered.
 */
#include <string.h>

#include "io/explain_output.h"
#include "io/inquiry.h"
#include "links/udp/udp_link.h"
#include "queue/qp.h"

enum { INQUIRIES_PER_SECOND = 64, UNPROVEN_AT_ONCE = 32 };
#define UNPROVEN_EVERY VB_SECONDS(4)

/* Caller holds inquiry_lock, here and below. */
static bool is_rationed(struct vb_udp_link *udp, vb_time now)
{
	if (now - udp->inquiries_since >= VB_SECONDS(1)) {
		udp->inquiries_since = now;
		udp->inquiries = 0;
	}
	return udp->inquiries++ >= INQUIRIES_PER_SECOND;
}

/* A leaky bucket: UNPROVEN_AT_ONCE deep, one leaves each UNPROVEN_EVERY. */
static bool unproven_is_rationed(struct vb_udp_link *udp, vb_time now)
{
	vb_time passed = (now - udp->unproven_since) / UNPROVEN_EVERY;

	udp->unproven -= passed < udp->unproven ? (unsigned)passed : udp->unproven;
	udp->unproven_since += passed * UNPROVEN_EVERY;
	if (udp->unproven >= UNPROVEN_AT_ONCE)
		return true;
	udp->unproven++;
	return false;
}

static uint32_t count_receives(struct vb_qp *qp)
{
	uint32_t count;

	if (!qp->srq)
		return vb_receive_queue_count(&qp->receive);
	vb_lock_take(&qp->srq->lock);
	count = vb_receive_queue_count(&qp->srq->queue);
	vb_lock_release(&qp->srq->lock);
	return count;
}

static bool is_peer(const struct vb_qp *qp, const struct vb_path *from, uint32_t asker_qpn)
{
	return qp->type != IBV_QPT_UD && qp->attr.dest_qp_num == asker_qpn &&
	       memcmp(qp->path.destination, from->source, sizeof(from->source)) == 0;
}

/* Who asks has sent and was not answered: whether packets can arrive at all hangs on this direction alone. */
static bool sends_what_is_awaited(const struct vb_qp *qp, const struct vb_inquiry *inquiry)
{
	return inquiry->send_psn == qp->attr.rq_psn;
}

static void tell_peer(struct vb_qp *qp, struct vb_inquiry_answer *answer)
{
	const struct vb_fault_record *fault = &qp->fault;
	struct vb_transport_status status;

	/* Who asks sends by wire. */
	qp->transport->query(qp, &status);
	answer->receives = count_receives(qp);
	answer->expected_psn = status.expected;
	answer->fault = fault->fault;
	answer->key = fault->key;
	answer->rights_asked = fault->rights_asked;
	answer->rights_granted = fault->rights_granted;
	answer->pd = fault->pd;
	answer->region_pd = fault->region_pd;
	answer->address = fault->address;
	answer->length = fault->length;
	answer->region_start = fault->region_start;
	answer->region_length = fault->region_length;
	answer->psn = fault->psn;
	answer->swapped_key = fault->swapped_key;
	answer->gone_for = (uint64_t)fault->gone_for;
}

static enum vb_inquiry_status status_for(const struct vb_qp *qp, const struct vb_path *from,
				    const struct vb_inquiry *inquiry)
{
	if (!qp)
		return VB_INQUIRY_NO_QP;
	if (is_peer(qp, from, inquiry->asker_qpn))
		return sends_what_is_awaited(qp, inquiry) ? VB_INQUIRY_YOUR_PEER : VB_INQUIRY_OTHER_PSN;
	return qp->state == IBV_QPS_RESET || qp->state == IBV_QPS_INIT ? VB_INQUIRY_NOT_CONNECTED :
									 VB_INQUIRY_OTHER_PEER;
}

/* True in `unproven`: and who does not prove to be a peer is told nothing of it. */
static bool is_answered(struct vb_udp_link *udp, vb_time now, bool is_peer_of_it, bool *unproven)
{
	bool answered;

	vb_lock_take(&udp->inquiry_lock);
	answered = !is_rationed(udp, now) && vb_explain_output_tells_peers();
	*unproven = answered && !is_peer_of_it && unproven_is_rationed(udp, now);
	vb_lock_release(&udp->inquiry_lock);
	return answered;
}

void vb_udp_answer_inquiry(struct vb_udp_link *udp, vb_time now, const struct vb_path *from, const struct vb_inquiry *inquiry,
			   struct vb_qp *qp)
{
	struct vb_inquiry_answer answer = {.nonce = inquiry->nonce, .qpn = inquiry->qpn, .status = status_for(qp, from, inquiry)};
	bool unproven;

	if (!is_answered(udp, now, answer.status == VB_INQUIRY_YOUR_PEER, &unproven))
		return;
	if (unproven)
		answer.status = VB_INQUIRY_NOT_TOLD;
	if (qp && answer.status != VB_INQUIRY_NOT_TOLD) {
		answer.state = qp->state;
		answer.type = qp->type;
	}
	if (answer.status == VB_INQUIRY_YOUR_PEER)
		tell_peer(qp, &answer);
	vb_inquiry_reply(udp->first.receive_fd[vb_gid_is_ipv4(from->source) ? VB_IPV4 : VB_IPV6], from, &answer);
}
