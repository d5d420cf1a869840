/* SPDX-License-Identifier: MIT
 *
 * The engine's entry points: what concerns every packet and every state, then to the role it belongs to.
 *
 *   receive -> source, P_Key, ECN -> request:  responder.c  (UC: unreliable.c, UD: datagram.c)
 *                                 -> answer:   completer.c
 *                                 -> CNP:      congestion.c
 *                                 -> probe, report: flow.c
 *   send    -> CNP, answers (responder.c), requests (requester.c, unreliable.c, datagram.c)
 *
 * What a packet of an RC message passes: here, responder.c, responder_checks.c, memory/place.c, queue/qp_complete.c.
 */
#include "roce/roce.h"

#include <assert.h>
#include <string.h>

#include "base/inline.h"
#include "queue/patience.h"
#include "roce/engine.h"

#define ECN_MASK 0x03
#define ECN_CAPABLE 0x02
#define ECN_CONGESTION_EXPERIENCED 0x03

void vb_roce_check_invariants(struct vb_qp *qp)
{
#ifdef VB_CHECK_INVARIANTS
	const struct vb_roce_engine *engine = vb_roce_engine(qp);
	const struct vb_roce_requester *requester = &engine->requester;
	const struct vb_roce_responder *responder = &engine->responder;

	assert(!psn_before(requester->send, requester->acknowledged));
	assert(!psn_before(requester->high, requester->send));
	assert(!psn_equal(requester->send, requester->acknowledged) || requester->in_flight == 0);
	assert(requester->asked_sent - requester->asked_tail <= requester->asked_head - requester->asked_tail);
	assert(requester->asked_head - requester->asked_tail <= requester->asked_capacity);
	assert(requester->asked_sent != requester->asked_tail || requester->read_in_flight == 0);
	assert(responder->resources_owed <= responder->resource_count);
	assert(responder->resource_count <= responder->resource_capacity);
	for (uint32_t i = responder->resource_head - responder->resource_count; (int32_t)(i - responder->owed_from) < 0; i++)
		assert(responder->fatal || i == responder->resource_head || !responder->resources[i % responder->resource_capacity].owed);
	if (qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD) {
		assert(requester->send_index - qp->send.tail <= vb_send_queue_count(&qp->send));
		/* Whatever is outstanding, a clock runs for it. */
		assert(!vb_qp_is_reliable(qp) || psn_equal(requester->send, requester->acknowledged) ||
		       requester->retransmit_at != VB_TIME_NEVER);
	}
#else
	(void)qp;
#endif
}

/* ---- attach, detach, modify ---- */

static void clear(struct vb_qp *qp)
{
	struct vb_roce_engine *engine = vb_roce_engine(qp);

	vb_roce_hold_end_batch(qp);
	vb_roce_reads_clear(&engine->requester);
	vb_roce_resources_clear(&engine->responder);
	vb_roce_reorder_clear(&engine->responder.reorder);
	vb_roce_missing_close(&engine->requester);
	vb_roce_early_close(&engine->requester);
	vb_roce_flow_close(&engine->requester);
	vb_roce_flow_forget(&engine->responder);
	memset(engine, 0, sizeof(*engine));
	engine->requester.retransmit_at = engine->requester.probe_at = VB_TIME_NEVER;
}

static int attach(struct vb_qp *qp)
{
	clear(qp);
	return 0;
}

static void detach(struct vb_qp *qp)
{
	vb_roce_tally_add(&vb_roce_engine(qp)->tally, qp->host->counters);
	clear(qp);
}

const struct vb_roce_policy *vb_roce_policy_of(const struct vb_qp *qp)
{
	return qp->host->policy ? qp->host->policy : vb_roce_policy_for(qp->host->device);
}

static void open_responder(struct vb_qp *qp)
{
	struct vb_roce_engine *engine = vb_roce_engine(qp);

	engine->mtu = qp->path_mtu;
	engine->responder.tells_all = vb_roce_policy_of(qp)->recovery == VB_RECOVERY_ALL_AT_ONCE;
	engine->responder.drops_ahead = vb_roce_policy_of(qp)->recovery != VB_RECOVERY_SELECTIVE && !engine->responder.tells_all;
	engine->responder.begins_anew = vb_roce_policy_of(qp)->recovery == VB_RECOVERY_GO_BACK_0;
	engine->responder.cnp_interval = vb_roce_policy_of(qp)->cnp_interval ? vb_roce_policy_of(qp)->cnp_interval : VB_CNP_INTERVAL;
	vb_roce_reorder_open(&engine->responder.reorder, engine->mtu);
	engine->responder.expected = psn_of(qp->attr.rq_psn);
	engine->responder.ack_psn = psn_of(qp->attr.rq_psn + VB_PSN_MASK);
}

static void open_requester(struct vb_qp *qp)
{
	struct vb_roce_engine *engine = vb_roce_engine(qp);
	struct vb_roce_requester *requester = &engine->requester;
	const struct vb_roce_policy *policy = vb_roce_policy_of(qp);

	requester->acknowledged = requester->send = requester->high = psn_of(qp->attr.sq_psn);
	requester->send_index = qp->send.tail;
	vb_roce_congestion_init(&requester->congestion, engine->mtu, policy);
	/* Adapters that are played to the letter send their WRITEs in one piece, and so do links without runs. */
	vb_roce_series_open(&requester->series, qp->type == IBV_QPT_RC && policy->recovery == VB_RECOVERY_SELECTIVE &&
							qp->path.framing == VB_FRAMING_UDP);
	requester->least_timeout = policy->least_timeout ? policy->least_timeout : VB_PATIENCE_FLOOR;
	if (policy->recovery == VB_RECOVERY_ALL_AT_ONCE)
		vb_roce_missing_open(requester);
	else if (policy->recovery != VB_RECOVERY_SELECTIVE)
		requester->peer = VB_PEER_GO_BACK_N;
	/* Switches mark what says that it can be marked. */
	if (policy->algorithm->has_rate && qp->path.framing == VB_FRAMING_UDP)
		qp->path.traffic_class = (uint8_t)((qp->path.traffic_class & ~ECN_MASK) | ECN_CAPABLE);
}

/* Nothing more is sent or expected. `high` stays: after SQE the PSNs go on from there. */
static void stop_requester(struct vb_qp *qp)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;

	vb_roce_reads_clear(requester);
	vb_roce_early_forget(requester);
	requester->lost_ask_owed = false;
	requester->acknowledged = requester->send = requester->high;
	requester->in_flight = requester->since_ack_request = 0;
	requester->retransmit_at = requester->probe_at = VB_TIME_NEVER;
	requester->rnr_until = requester->local_retry_at = requester->pace_until = 0;
	requester->sampling = requester->rewound = requester->probe_owed = requester->expired = requester->probed = false;
	requester->failure.waits = false;
	vb_roce_selective_end(requester);
	vb_roce_flow_close(requester);
}

/* UC, UD: what was handed to the network is done, whatever comes after it. */
static void complete_sent(struct vb_qp *qp, vb_time now)
{
	const struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;

	if (vb_qp_is_reliable(qp))
		return;
	while (vb_send_queue_count(&qp->send) > 0 && (int32_t)(requester->send_index - qp->send.tail) > 0)
		vb_qp_complete_send(qp, IBV_WC_SUCCESS, VB_FAULT_NONE, now);
}

/* A receive that a message under way had taken is flushed like those that still stand in the queue. */
static void flush_receive_in_hand(struct vb_qp *qp, vb_time now)
{
	struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;
	struct vb_completion completion = {
		.wr_id = responder->taken.wr_id,
		.status = IBV_WC_WR_FLUSH_ERR,
		.opcode = IBV_WC_RECV,
		.vendor_error = VB_FAULT_FLUSHED,
		.qpn = qp->qpn,
		.timestamp = now,
	};

	if (!responder->has_receive)
		return;
	responder->has_receive = false;
	vb_qp_complete_receive(qp, &completion);
}

static void enter_error(struct vb_qp *qp, enum ibv_qp_state from, vb_time now)
{
	struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;

	if (from == IBV_QPS_RTS || from == IBV_QPS_SQD)
		complete_sent(qp, now);
	stop_requester(qp);
	flush_receive_in_hand(qp, now);
	responder->underway = VB_UNDERWAY_NOTHING;
	/* The responder's own NAK, and the answers it owed before, are still to be sent. */
	if (!responder->fatal) {
		responder->ack_owed = responder->nak_owed = false;
		responder->late_at = 0;
		responder->ack_withheld = false;
		vb_roce_resources_clear(responder);
	}
}

static void modified(struct vb_qp *qp, enum ibv_qp_state from, int attr_mask, vb_time now)
{
	vb_roce_tally_add(&vb_roce_engine(qp)->tally, qp->host->counters);
	switch (qp->state) {
	case IBV_QPS_RESET:
		clear(qp);
		break;
	case IBV_QPS_RTR:
		if (from == IBV_QPS_INIT)
			open_responder(qp);
		break;
	case IBV_QPS_RTS:
		if (from == IBV_QPS_RTR)
			open_requester(qp);
		else if (from == IBV_QPS_SQE)
			vb_roce_engine(qp)->requester.send_index = qp->send.tail;
		break;
	case IBV_QPS_SQE:
		stop_requester(qp);
		break;
	case IBV_QPS_ERR:
		enter_error(qp, from, now);
		break;
	default:
		break;
	}
	(void)attr_mask;
	vb_roce_check_invariants(qp);
}

static void resumed(struct vb_qp *qp)
{
	vb_roce_engine(qp)->requester.send_index = qp->send.tail;
}

static void srq_gone(struct vb_qp *qp, const struct vb_srq *srq)
{
	struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;

	vb_roce_resources_forget(responder, srq);
	if (qp->srq != srq)
		return;
	vb_roce_hold_end_batch(qp);
	responder->has_receive = false;
	responder->underway = VB_UNDERWAY_NOTHING;
}

const struct vb_transport vb_roce_transport = {
	.name = "roce",
	.engine_size = sizeof(struct vb_roce_engine),
	.note_size = sizeof(struct vb_roce_note),
	.attach = attach,
	.detach = detach,
	.modified = modified,
	.resumed = resumed,
	.srq_gone = srq_gone,
	.query = vb_roce_query,
};

/* ---- receive ---- */

static bool takes_packets(const struct vb_qp *qp)
{
	switch (qp->state) {
	case IBV_QPS_RTR:
	case IBV_QPS_RTS:
	case IBV_QPS_SQD:
	case IBV_QPS_SQE:
		return true;
	case IBV_QPS_ERR:
		/* Only to repeat the NAK that ended it. */
		return vb_roce_engine_of(qp)->responder.fatal;
	default:
		return false;
	}
}

static enum ibv_qp_type type_of(const struct vb_roce_opcode *op)
{
	switch (op->service) {
	case VB_SERVICE_UC:
		return IBV_QPT_UC;
	case VB_SERVICE_UD:
		return IBV_QPT_UD;
	case VB_SERVICE_XRC:
		return op->is_request ? IBV_QPT_XRC_RECV : IBV_QPT_XRC_SEND;
	default:
		return IBV_QPT_RC;
	}
}

static bool is_of_type(const struct vb_qp *qp, const struct vb_roce_opcode *op)
{
	switch (op->service) {
	case VB_SERVICE_CNP:
		return qp->type != IBV_QPT_UD;
	case VB_SERVICE_VENDOR:
		return qp->type == IBV_QPT_UC || qp->type == IBV_QPT_UD || qp->type == IBV_QPT_RC;
	default:
		return qp->type == type_of(op);
	}
}

/* What holds for every packet before its role is asked (IBA 9.6.1). */
static bool is_for(struct vb_qp *qp, const struct vb_roce_packet *packet)
{
	struct vb_counters *counters = qp->host->counters;
	bool is_cnp = packet->op->service == VB_SERVICE_CNP;

	if (!takes_packets(qp) || !is_of_type(qp, packet->op)) {
		VB_COUNT(counters, dropped_pkts);
		if (qp->type == IBV_QPT_UD && packet->op->service == VB_SERVICE_UD)
			vb_roce_datagram_dropped(qp, packet, VB_DROP_STATE);
		return false;
	}
	/* CNPs of some adapters carry none. */
	if (!is_cnp && !vb_pkeys_match(packet->pkey, qp->pkey)) {
		VB_COUNT(counters, bad_pkey_pkts);
		return false;
	}
	if (qp->type != IBV_QPT_UD && !vb_path_leads_back(&qp->path, &packet->from)) {
		VB_COUNT(counters, bad_address_pkts);
		memcpy(qp->stray_source, packet->from.source, sizeof(qp->stray_source));
		return false;
	}
	return true;
}

static void note_congestion(struct vb_qp *qp, vb_time now, const struct vb_roce_packet *packet)
{
	struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;

	/* The traffic class of a GRH has no such bits. */
	if ((packet->from.traffic_class & ECN_MASK) != ECN_CONGESTION_EXPERIENCED || packet->from.framing != VB_FRAMING_UDP)
		return;
	VB_COUNT(qp->host->counters, np_ecn_marked_roce_packets);
	if (qp->type != IBV_QPT_UD && (responder->cnp_sent == 0 || now - responder->cnp_sent >= responder->cnp_interval))
		responder->cnp_owed = true;
}

static void dispatch(struct vb_qp *qp, vb_time now, const struct vb_roce_packet *packet)
{
	if (packet->op->service == VB_SERVICE_CNP) {
		struct vb_roce_congestion *congestion = &vb_roce_engine(qp)->requester.congestion;

		/* Before RTS nothing was sent that could be too fast. */
		if (congestion->algorithm && congestion->algorithm->notified(congestion, now))
			VB_COUNT(qp->host->counters, rp_cnp_handled);
	} else if (packet->op->service == VB_SERVICE_VENDOR) {
		if (packet->op->kind == VB_KIND_FLOW_PROBE)
			vb_roce_flow_probed(qp, now, packet);
		else
			vb_roce_flow_reported(qp, now, packet);
	} else if (qp->type == IBV_QPT_UD) {
		vb_roce_datagram_receive(qp, now, packet);
	} else if (qp->type == IBV_QPT_UC) {
		vb_roce_unreliable_receive(qp, now, packet);
	} else if (packet->op->is_request) {
		vb_roce_responder_receive(qp, now, packet);
	} else {
		vb_roce_completer_receive(qp, now, packet);
	}
}

/* Where the peer was not told that it may, reserved bits mean nothing (IBA 9.2), and all of it is payload. */
VB_RARE static void receive_unexpected_piggyback(struct vb_qp *qp, vb_time now, const struct vb_roce_packet *packet)
{
	struct vb_roce_packet plain = *packet;

	plain.piggybacks = false;
	plain.payload -= VB_PIGGYBACK_LENGTH;
	plain.payload_length += VB_PIGGYBACK_LENGTH;
	dispatch(qp, now, &plain);
}

/* The acknowledgement first, as if it had come alone. */
static void receive_both(struct vb_qp *qp, vb_time now, const struct vb_roce_packet *packet)
{
	if ((packet->aeth.syndrome & VB_AETH_TYPE_MASK) == VB_AETH_ACK)
		vb_roce_completer_acknowledged(qp, now, packet->acknowledged, packet->aeth.syndrome);
	/* A completion queue that overruns ends the QP. */
	if (takes_packets(qp))
		dispatch(qp, now, packet);
	else
		VB_COUNT(qp->host->counters, dropped_pkts);
}

void vb_roce_receive(struct vb_qp *qp, vb_time now, const struct vb_roce_packet *packet)
{
	vb_lock_assert_held(&qp->lock);
	if (!is_for(qp, packet))
		return;
	if (qp->state == IBV_QPS_RTR)
		vb_qp_communication_established(qp);
	note_congestion(qp, now, packet);
	if (!packet->piggybacks)
		dispatch(qp, now, packet);
	else if (vb_roce_engine(qp)->responder.is_known)
		receive_both(qp, now, packet);
	else
		receive_unexpected_piggyback(qp, now, packet);
	vb_roce_check_invariants(qp);
}

/* ---- send ---- */

static void send_cnp(struct vb_qp *qp, vb_time now, struct vb_burst *out)
{
	struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;
	int opcode = vb_roce_opcode_find(VB_SERVICE_CNP, VB_KIND_CNP, VB_POSITION_ONLY, 0);
	struct vb_roce_packet packet;

	vb_roce_prepare(qp, &packet, opcode, psn_of(0));
	packet.becn = true;
	vb_burst_append(out, &qp->path, &packet, NULL, 0);
	responder->cnp_owed = false;
	responder->cnp_sent = now;
	VB_COUNT(qp->host->counters, np_cnp_sent);
}

static bool send_answers(struct vb_qp *qp, vb_time now, struct vb_burst *out)
{
	struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;

	if (responder->cnp_owed) {
		if (!vb_burst_has_room(out, 0))
			return true;
		send_cnp(qp, now, out);
	}
	if (responder->reports_owed && vb_roce_flow_report(qp, out))
		return true;
	return vb_roce_responder_owes(qp) && vb_roce_responder_send(qp, now, out);
}

static bool send_requests(struct vb_qp *qp, vb_time now, struct vb_burst *out)
{
	if (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD)
		return false;
	switch (qp->type) {
	case IBV_QPT_UC:
		return vb_roce_unreliable_send(qp, now, out);
	case IBV_QPT_UD:
		return vb_roce_datagram_send(qp, now, out);
	default:
		return vb_roce_requester_send(qp, now, out);
	}
}

/* A mere acknowledgement leaves with a single packet: within it (piggyback.c) or, if the packet is not shorter, behind it in one run. */
static bool acknowledgement_joins(struct vb_qp *qp)
{
	const struct vb_roce_engine *engine = vb_roce_engine(qp);
	const struct vb_roce_responder *responder = &engine->responder;
	const struct vb_send_wqe *wqe = vb_send_queue_at(&qp->send, engine->requester.send_index);

	return responder->ack_owed && !responder->nak_owed && responder->resources_owed == 0 && !responder->cnp_owed &&
	       engine->requester.send_index + 1 == qp->send.head && !wqe->started && wqe->length > 0 &&
	       wqe->length <= engine->mtu && !vb_work(wqe->opcode)->is_read && vb_work(wqe->opcode)->kind != VB_WORK_LOCAL;
}

bool vb_roce_send(struct vb_qp *qp, vb_time now, struct vb_burst *out)
{
	struct vb_roce_engine *engine = vb_roce_engine(qp);
	bool answers, requests, joins;

	vb_lock_assert_held(&qp->lock);
	vb_roce_hold_end_batch(qp);
	if (vb_roce_requester_send_lone(qp, now, out)) {
		vb_roce_tally_add(&engine->tally, qp->host->counters);
		vb_roce_check_invariants(qp);
		return false;
	}
	/* UC, UD: what the last call appended is in the kernel's hands by now. */
	if (!vb_qp_is_reliable(qp))
		vb_roce_completer_retire(qp, now);
	/* Answers go first, but a long read response does not keep our own requests waiting for more than a burst. */
	joins = acknowledgement_joins(qp);
	/* One that awaited a message of several packets leaves behind that: who polls for the one has received the other. */
	if (engine->answers_waited || joins || (engine->responder.awaits && engine->requester.send_index != qp->send.head)) {
		if (!engine->answers_waited)
			vb_roce_await_answered(&engine->responder);
		engine->responder.ack_rides = joins && !engine->answers_waited && vb_roce_piggyback_suits(qp);
		requests = send_requests(qp, now, out);
		engine->responder.ack_rides = false;
		answers = send_answers(qp, now, out);
	} else {
		answers = send_answers(qp, now, out);
		requests = send_requests(qp, now, out);
	}
	engine->answers_waited = answers && !engine->answers_waited;
	/* RC: local work, and failures found while sending. UC, UD: when this is in the kernel's hands. */
	if (vb_qp_is_reliable(qp))
		vb_roce_completer_retire(qp, now);
	else
		requests |= vb_roce_completer_owes(qp);
	vb_roce_hold_end_send(qp);
	vb_roce_tally_add(&engine->tally, qp->host->counters);
	vb_roce_check_invariants(qp);
	return answers || requests;
}

enum vb_roce_patience vb_roce_can_wait(struct vb_qp *qp)
{
	const struct vb_roce_engine *engine = vb_roce_engine_of(qp);
	const struct vb_roce_responder *responder = &engine->responder;

	if ((!responder->ack_owed && responder->late_at == 0) || responder->nak_owed || responder->cnp_owed ||
	    responder->resources_owed > 0 || responder->reports_owed || engine->requester.send_index != qp->send.head ||
	    engine->requester.probe_owed || engine->requester.selective_owed || engine->requester.early.ask_owed ||
	    engine->requester.lost_ask_owed || vb_roce_completer_owes(qp))
		return VB_CANNOT_WAIT;
	return responder->ack_owed ? VB_CAN_WAIT_FOR_A_PASS : VB_CAN_WAIT_FOR_DEADLINE;
}

bool vb_roce_knows_peer(const struct vb_qp *qp)
{
	const struct vb_roce_engine *engine = vb_roce_engine_of(qp);

	return qp->type == IBV_QPT_RC && (engine->responder.is_known || engine->requester.peer_remembers);
}

bool vb_roce_complains(const struct vb_qp *qp)
{
	return vb_roce_engine_of(qp)->responder.nak_owed;
}

bool vb_roce_is_losing(const struct vb_qp *qp, vb_time now)
{
	return vb_roce_timers_is_losing(&vb_roce_engine_of(qp)->requester, now);
}

bool vb_roce_answers_reads(const struct vb_qp *qp)
{
	const struct vb_roce_engine *engine = vb_roce_engine_of(qp);

	return engine->responder.resources_owed > 0 && !vb_roce_resources_fill_run(&engine->responder, engine->mtu);
}

/* ---- time ---- */

vb_time vb_roce_next_deadline(const struct vb_qp *qp)
{
	vb_time late_at = vb_roce_engine_of(qp)->responder.late_at, next = vb_roce_timers_next(qp);

	return late_at != 0 ? vb_time_earlier(late_at, next) : next;
}

void vb_roce_expire(struct vb_qp *qp, vb_time now)
{
	vb_lock_assert_held(&qp->lock);
	vb_roce_completer_retire(qp, now);
	if (vb_roce_engine(qp)->responder.late_at != 0 && vb_roce_engine(qp)->responder.late_at <= now) {
		vb_roce_await_expired(&vb_roce_engine(qp)->responder);
		vb_roce_hurry(qp);
	}
	vb_roce_timers_expire(qp, now);
	vb_roce_check_invariants(qp);
}

void vb_roce_query(const struct vb_qp *qp, struct vb_transport_status *status)
{
	const struct vb_roce_engine *engine = vb_roce_engine_of(qp);
	const struct vb_roce_requester *requester = &engine->requester;

	*status = (struct vb_transport_status){
		.send = requester->send.v,
		.acknowledged = requester->acknowledged.v,
		.expected = engine->responder.expected.v,
		.msn = engine->responder.msn,
		.outstanding = psn_ahead(requester->high, requester->acknowledged),
		.window = requester->congestion.requests.size / vb_roce_charge(engine->mtu, 1),
		.control = requester->congestion.algorithm ? (uint32_t)(requester->congestion.algorithm - vb_roce_algorithms) : 0,
		.rate = requester->congestion.rate,
		.outstanding_reads = requester->asked_head - requester->asked_tail,
		.retries_left = qp->attr.retry_cnt - vb_roce_timers_retries(qp),
		.rnr_retries_left = qp->attr.rnr_retry - requester->rnr_retries,
		.round_trip = requester->round_trip,
		.retransmit_timeout = vb_roce_timers_retransmit(qp),
	};
}
