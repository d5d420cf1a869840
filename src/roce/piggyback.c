/* SPDX-License-Identifier: MIT
 *
 * Acknowledgements that go with messages. In a conversation of short messages the acknowledgement of each leaves with the answer to it,
 * as a second packet of the same run (roce.c). That costs both kernels 0.3 us more than a lone datagram, and a second packet
 * is made, summed, found its queue pair for and checked. A peer of our own finds it in the answer instead:
 *
 *   BTH | RETH, immediate... | AETH | 0, PSN | payload, pad | ICRC
 *                             `-- what an ACKNOWLEDGE of that PSN would say
 *
 * A pattern in reserved bits of the BTH says that it is there (wire/roce_packet.c). It means what the two packets would have meant, the
 * acknowledgement first, and may be lost, doubled or late like any. NAKs, and acknowledgements of anything but SENDs and WRITEs in order,
 * never go this way.
 *
 * Other makes never see it: the peer has said in answer to a probe (flow.c) that it understands, and is asked when a few
 * acknowledgements have left beside messages. Who was not asked does not look for it.
 */
#include "roce/engine.h"

enum { ENOUGH = 32 /* acknowledgements beside messages, until it is worth while to ask what peer it is */ };

/* Not with a message that fills its packet. Who may not send WRITEs as a series
 * plays an adapter. */
bool vb_roce_piggyback_suits(struct vb_qp *qp)
{
	struct vb_roce_engine *engine = vb_roce_engine(qp);
	struct vb_roce_requester *requester = &engine->requester;

	if (!requester->series.allowed || engine->responder.ack_partial)
		return false;
	if (requester->peer_takes_piggyback)
		return vb_send_queue_at(&qp->send, requester->send_index)->length + VB_PIGGYBACK_LENGTH <= engine->mtu;
	if (!requester->peer_remembers && vb_roce_is_time_to_ask(&requester->acks_beside, ENOUGH))
		requester->peer_ask_owed = true;
	return false;
}

void vb_roce_piggyback_put(struct vb_qp *qp, struct vb_roce_packet *packet)
{
	const struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;

	packet->piggybacks = true;
	packet->aeth.syndrome = vb_roce_acknowledge_syndrome(qp);
	packet->aeth.msn = responder->msn;
	packet->acknowledged = responder->ack_psn;
}

void vb_roce_piggyback_sent(struct vb_roce_responder *responder)
{
	responder->ack_owed = responder->ack_rides = responder->ack_withheld = false;
	responder->late_at = 0;
	vb_roce_await_answered(responder);
}
