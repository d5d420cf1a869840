/* SPDX-License-Identifier: MIT
 *
 * Flow control of UC and UD between two of our own. Neither service has an acknowledgement, so a sender cannot know
 * how much of what it sent still lies in the receiver's socket; a sender in bulk asks. A probe follows its packets,
 * the receiver's report names the probe by its PSN, and all that was sent before that probe has left the socket, or
 * was lost on the way:
 *
 *        reported             probe        probe     sent
 *   ---------|------------------|------------|---------|
 *     taken  |       may still lie in the receiver's buffer: at most `window`, which the report tells
 *
 * Probe and report are packets of the opcodes that are left to manufacturers (IBA table 38: 0xC0 and up), with an
 * ICRC and all: a peer that is no Verbena drops them without a word. Who does not report is sent to by time
 * (pace.c), and after a few probes asked no more. A queue pair that is not held up by that pace never sends one.
 * Over frames and InfiniBand links there are none.
 *
 * One of RC asks a few times at most, when the response to a read is lost, many short messages have asked for
 * acknowledgements that no completion waits for, or many acknowledgements have left beside messages: a peer that reports answers parts of
 * reads in any order (early.c), and may acknowledge unasked (late.c) and take acknowledgements with messages (piggyback.c), which bits
 * of its report say.
 *
 * UD asks the destination that it sends to, if that stays the same for a while. Groups are not asked.
 *
 * When the pace is first in the way all waits for a while: a peer that reports will have done so by then, and one
 * that does not is held up once.
 *
 * A receiver that is off its processor reports nothing, and nothing is sent beyond the window. Probes and reports
 * may be lost: the probe is repeated, and after SILENCE the sender goes on by time. Not so if the caller has found out meanwhile that the
 * receiver lives (vb_roce_receiver_lives): a busy machine keeps a process from its processor for seconds now and then, and by time its
 * socket overflows in a fraction of a millisecond. For ABSENCE at most.
 *
 * Time for which the sender itself was away is not the receiver's silence: reports may lie unread. One that comes when the sender has gone
 * on by time counts like any other.
 */
#include <stdlib.h>
#include <string.h>

#include "roce/engine.h"
#include "roce/roce.h"

enum {
	PROBES_KEPT = 8,
	UNANSWERED = 8,                  /* then the peer is not asked any more */
	FIRST_STEP = 64 * 1024,          /* from probe to probe while no report has come */
	RARE_STEP = 4 * 1024 * 1024,     /* the same after UNANSWERED of them, if ever one came */
	STEPS = 4,                       /* probes a window */
	SENDERS = 8,                     /* that one UD queue pair reports to at a time */
	HOP_LIMIT = 64,
	PERIOD_BITS = 24,                /* 16.8 ms: who has asked since counts as a sender */
};
/* No window is as wide. */
#define ACKNOWLEDGES_UNASKED (UINT32_C(1) << 31)
#define TAKES_PIGGYBACK (UINT32_C(1) << 30)
#define ASK_AGAIN VB_MICROSECONDS(200) /* then twice as late each time, up to: */
#define ASK_AGAIN_MOST VB_MILLISECONDS(4)
#define BEGINNING VB_MILLISECONDS(50)
#define SILENCE VB_MILLISECONDS(200) /* longer than a busy machine keeps most processes from their processors */
#define ABSENCE VB_SECONDS(10)
/* So seldom one is asked that has never reported, or is known to live: what was asked fills its socket, and it answers when it runs. */
#define ASK_SILENT_MOST VB_MILLISECONDS(64)
/* A look at what has come that is later than it was to be by more than that: it was we who were away. */
#define LATE VB_MILLISECONDS(1)

struct vb_roce_flow {
	bool reports;                    /* the peer does: the window holds instead of the pace */
	bool begins;                     /* was asked for the first time, and may be about to report */
	bool reported_once;
	bool probe_owed;
	bool waits;                      /* the window is used up */
	bool lives;                      /* the caller says so of a silent receiver */
	vb_time looked;                  /* when that was last seen */
	vb_time silent;                  /* for so long, of the time that the sender ran, no report has come */
	vb_time absent;                  /* and before that, of one that was known to live */
	vb_time full;                    /* for so long no report has come that has room for a packet */
	vb_time ask_at, ask_after;
	uint8_t unanswered;
	uint32_t window;
	uint64_t sent, probed, reported; /* charge, in all: up to the last packet, probe, and probe that was answered */
	uint32_t head, tail;             /* of probes */
	struct {
		struct psn psn;
		uint64_t sent;
	} probe[PROBES_KEPT];
	uint32_t qpn, qkey;
	struct vb_path path;
};

struct vb_roce_report {
	bool owed;
	uint32_t period;                 /* when it was last asked for; 0: never */
	uint32_t qpn;
	struct psn psn;
	struct vb_path path;
};

/* ---- the sender ---- */

static const struct vb_path *path_of(const struct vb_qp *qp, const struct vb_send_wqe *wqe)
{
	return qp->type == IBV_QPT_UD ? &wqe->datagram.path : &qp->path;
}

static void aim(struct vb_qp *qp, struct vb_roce_flow *flow, const struct vb_send_wqe *wqe)
{
	*flow = (struct vb_roce_flow){
		.qpn = qp->type == IBV_QPT_UD ? wqe->datagram.qpn : qp->attr.dest_qp_num,
		.qkey = qp->type == IBV_QPT_UD ? wqe->datagram.qkey : 0,
		.path = *path_of(qp, wqe),
	};
	if (flow->path.framing != VB_FRAMING_UDP || flow->qpn == VB_MULTICAST_QPN ||
	    vb_gid_is_multicast(flow->path.destination))
		flow->unanswered = UNANSWERED;
}

static bool goes_elsewhere(const struct vb_qp *qp, const struct vb_roce_flow *flow, const struct vb_send_wqe *wqe)
{
	return qp->type == IBV_QPT_UD && (wqe->datagram.qpn != flow->qpn || wqe->datagram.qkey != flow->qkey ||
					  !vb_path_equal(&wqe->datagram.path, &flow->path));
}

/* By time from now on, with nothing in hand: what lies in the receiver's buffer lies there. */
static void go_by_time(struct vb_roce_requester *requester, struct vb_roce_flow *flow, vb_time now)
{
	if (flow->reports)
		flow->unanswered = 0;
	flow->begins = flow->reports = flow->waits = flow->probe_owed = false;
	flow->probed = flow->reported = flow->sent;
	requester->paced = now + VB_PACE_BURST;
}

static bool is_open(const struct vb_roce_flow *flow, uint32_t charge)
{
	/* Once it was used up it must open by a step: a system call carries many packets. */
	uint32_t least = flow->waits && flow->head != flow->tail ? flow->window / STEPS : 0;

	return flow->sent - flow->reported + (charge > least ? charge : least) <= flow->window;
}

static vb_time patience(const struct vb_roce_flow *flow)
{
	return flow->begins && flow->absent == 0 ? BEGINNING : SILENCE;
}

/* True: the receiver has been waited for long enough. */
static bool is_given_up(struct vb_roce_flow *flow, vb_time now)
{
	vb_time since = now - flow->looked, most = flow->ask_after + LATE;

	flow->looked = now;
	flow->silent += since < most ? since : most;
	flow->full += since < most ? since : most;
	if (flow->silent < patience(flow))
		return flow->full >= SILENCE;
	if (!flow->lives || flow->absent >= ABSENCE)
		return true;
	flow->absent += flow->silent;
	flow->silent = flow->full = 0;
	flow->lives = false;
	return false;
}

static void wait_for_report(struct vb_roce_requester *requester, struct vb_roce_flow *flow, vb_time now)
{
	if (!flow->waits) {
		flow->waits = true;
		flow->lives = false;
		flow->looked = now;
		flow->silent = flow->absent = flow->full = 0;
		flow->ask_after = ASK_AGAIN;
		flow->ask_at = now + flow->ask_after;
		flow->probe_owed |= flow->head == flow->tail;
	} else if (is_given_up(flow, now)) {
		go_by_time(requester, flow, now);
		requester->pace_until = now + VB_PACE_RESUME;
		return;
	} else if (now >= flow->ask_at) {
		if (flow->ask_after < (flow->reports && flow->absent == 0 ? ASK_AGAIN_MOST : ASK_SILENT_MOST))
			flow->ask_after *= 2;
		flow->ask_at = now + flow->ask_after;
		flow->probe_owed = true;
	}
	requester->pace_until = flow->ask_at;
}

bool vb_roce_misses_receiver(const struct vb_qp *qp, struct vb_path *path, uint32_t *qpn)
{
	const struct vb_roce_flow *flow = vb_roce_engine_of(qp)->requester.flow;

	if (!flow || !flow->waits || flow->silent < patience(flow) / 8)
		return false;
	*path = flow->path;
	*qpn = flow->qpn;
	return true;
}

void vb_roce_receiver_lives(struct vb_qp *qp, bool lives)
{
	vb_lock_assert_held(&qp->lock);
	vb_roce_engine(qp)->requester.flow->lives = lives;
}

static void begin(struct vb_qp *qp, const struct vb_send_wqe *wqe, vb_time now)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;
	struct vb_roce_flow *flow = malloc(sizeof(*flow));

	requester->flow = flow;
	if (!flow)
		return;
	aim(qp, flow, wqe);
	flow->begins = flow->unanswered < UNANSWERED;
	if (flow->begins)
		wait_for_report(requester, flow, now);
}

bool vb_roce_flow_allows(struct vb_qp *qp, const struct vb_send_wqe *wqe, uint32_t charge, vb_time now)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;
	struct vb_roce_flow *flow = requester->flow;

	if (charge < VB_PACE_PACKET)
		charge = VB_PACE_PACKET;
	if (flow && goes_elsewhere(qp, flow, wqe)) {
		if (flow->reports)
			go_by_time(requester, flow, now);
		aim(qp, flow, wqe);
	}
	if (flow && (flow->reports || flow->begins)) {
		if (flow->begins || !is_open(flow, charge)) {
			wait_for_report(requester, flow, now);
			return false;
		}
		flow->waits = false;
		requester->pace_until = 0;
	} else if (!vb_roce_work_paced(requester, charge, now)) {
		if (!flow)
			begin(qp, wqe, now);
		return false;
	}
	if (flow)
		flow->sent += charge;
	return true;
}

uint32_t vb_roce_flow_room(const struct vb_roce_requester *requester, uint32_t charge)
{
	const struct vb_roce_flow *flow = requester->flow;

	if (!flow || !flow->reports || !is_open(flow, charge))
		return 0;
	return (uint32_t)(flow->window - (flow->sent - flow->reported)) / charge;
}

void vb_roce_flow_sent(struct vb_roce_requester *requester, uint32_t charge)
{
	requester->flow->sent += charge;
	requester->flow->waits = false;
	requester->pace_until = 0;
}

static bool should_ask(const struct vb_roce_flow *flow)
{
	if (flow->probe_owed)
		return true;
	if (flow->reports)
		return flow->sent != flow->probed && flow->sent - flow->probed >= flow->window / STEPS;
	return flow->unanswered < UNANSWERED ? flow->sent - flow->probed >= FIRST_STEP :
					       flow->reported_once && flow->sent - flow->probed >= RARE_STEP;
}

static void send_probe(struct vb_qp *qp, const struct vb_path *path, uint32_t qpn, uint32_t qkey, struct psn psn,
		       struct vb_burst *out)
{
	struct vb_roce_packet packet;

	vb_roce_prepare(qp, &packet, vb_roce_opcode_find(VB_SERVICE_VENDOR, VB_KIND_FLOW_PROBE, VB_POSITION_ONLY, 0), psn);
	packet.destination_qpn = qpn;
	packet.deth.qkey = qkey;
	packet.deth.source_qpn = qp->qpn;
	vb_burst_append(out, path, &packet, NULL, 0);
}

void vb_roce_flow_probe(struct vb_qp *qp, struct psn psn, struct vb_burst *out)
{
	send_probe(qp, &qp->path, qp->attr.dest_qp_num, 0, psn, out);
}

void vb_roce_flow_ask(struct vb_qp *qp, struct vb_burst *out)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;
	struct vb_roce_flow *flow = requester->flow;

	if (!flow || !should_ask(flow) || !vb_burst_has_room(out, 0))
		return;
	send_probe(qp, &flow->path, flow->qpn, flow->qkey, requester->send, out);
	if (flow->head - flow->tail == PROBES_KEPT)
		flow->tail++;
	flow->probe[flow->head % PROBES_KEPT].psn = requester->send;
	flow->probe[flow->head++ % PROBES_KEPT].sent = flow->sent;
	flow->probed = flow->sent;
	flow->probe_owed = false;
	if (!flow->reports && flow->unanswered < UNANSWERED)
		flow->unanswered++;
}

void vb_roce_flow_reported(struct vb_qp *qp, vb_time now, const struct vb_roce_packet *packet)
{
	struct vb_roce_requester *requester = &vb_roce_engine(qp)->requester;
	struct vb_roce_flow *flow = requester->flow;
	uint32_t told = be32_get(packet->immediate), window = told & ~(ACKNOWLEDGES_UNASKED | TAKES_PIGGYBACK);

	/* RC: a peer that reports is of our own. */
	if (requester->peer_probes > 0 && psn_equal(packet->psn, requester->peer_probed)) {
		requester->peer_remembers = true;
		requester->peer_acknowledges = told & ACKNOWLEDGES_UNASKED;
		requester->peer_takes_piggyback = told & TAKES_PIGGYBACK;
	}
	if (!flow || !vb_path_leads_back(&flow->path, &packet->from))
		return;
	for (uint32_t i = flow->tail; i != flow->head; i++) {
		if (!psn_equal(flow->probe[i % PROBES_KEPT].psn, packet->psn))
			continue;
		flow->reported = flow->probe[i % PROBES_KEPT].sent;
		flow->tail = i + 1;
		flow->reports = flow->reported_once = true;
		flow->begins = false;
		flow->unanswered = 0;
		flow->window = window < VB_WINDOW_MAX ? window : VB_WINDOW_MAX;
		flow->looked = now;
		flow->silent = flow->absent = 0;
		flow->lives = false;
		/* Too little for a packet: the receiver has no receives. It is asked again, but not for ever. */
		if (window >= vb_roce_charge(vb_roce_engine(qp)->mtu, 1))
			flow->full = 0;
		flow->ask_after = ASK_AGAIN;
		flow->ask_at = now + ASK_AGAIN;
		requester->pace_until = 0;
		return;
	}
}

void vb_roce_flow_close(struct vb_roce_requester *requester)
{
	free(requester->flow);
	requester->flow = NULL;
}

/* ---- the receiver ---- */

#define GET(number) __atomic_load_n(&(number), __ATOMIC_RELAXED)
#define SET(number, value) __atomic_store_n(&(number), (value), __ATOMIC_RELAXED)

/* Senders of this period and of the one before it share the buffer. Two threads that count at once may count one: then each is told of a
 * little more than its share. */
static void count_sender(struct vb_receive_share *share, uint32_t period)
{
	uint32_t last = GET(share->period);

	if (last != period) {
		SET(share->senders_before, last + 1 == period ? GET(share->senders) : 0);
		SET(share->senders, 0);
		SET(share->period, period);
	}
	SET(share->senders, GET(share->senders) + 1);
}

/* The kernel counts 2.3 KB for a datagram of 1 KiB that came alone, we 1,280 bytes. */
static uint32_t share_of(const struct vb_receive_share *share)
{
	uint32_t senders, before;
	uint64_t window;

	if (!share)
		return VB_FLOW_WINDOW;
	senders = GET(share->senders);
	before = GET(share->senders_before);
	senders = senders > before ? senders : before;
	window = (uint64_t)share->bytes * 9 / 20 / (senders ? senders : 1);
	if (window > VB_WINDOW_MAX)
		return VB_WINDOW_MAX;
	return window < VB_WINDOW_MIN ? (uint32_t)VB_WINDOW_MIN : (uint32_t)window;
}

/* Nor more messages like the last one than there are receives: it is the application that is behind then, and not its
 * socket. */
static uint32_t window_of(const struct vb_qp *qp, const struct vb_roce_responder *responder)
{
	uint32_t share = share_of(qp->host->share);
	uint64_t receives;

	if (qp->srq || responder->message_charge == 0 || responder->underway == VB_UNDERWAY_WRITE)
		return share;
	receives = ((uint64_t)vb_receive_queue_count(&qp->receive) + responder->has_receive) * responder->message_charge;
	return receives < share ? (uint32_t)receives : share;
}

static bool provide_reports(struct vb_qp *qp, struct vb_roce_responder *responder)
{
	responder->report_room = qp->type == IBV_QPT_UD ? SENDERS : 1;
	if (!responder->reports)
		responder->reports = calloc(responder->report_room, sizeof(*responder->reports));
	return responder->reports != NULL;
}

static bool is_of(const struct vb_roce_report *report, const struct vb_roce_packet *packet)
{
	return report->period != 0 && report->qpn == packet->deth.source_qpn &&
	       vb_path_leads_back(&report->path, &packet->from);
}

/* Of this sender, or that of another, which is not owed and was asked for longest ago; NULL: others come first. */
static struct vb_roce_report *report_for(struct vb_roce_responder *responder, const struct vb_roce_packet *packet)
{
	struct vb_roce_report *found = NULL;

	for (unsigned i = 0; i < responder->report_room; i++) {
		struct vb_roce_report *report = &responder->reports[i];

		if (is_of(report, packet))
			return report;
		if (!report->owed && (!found || report->period < found->period))
			found = report;
	}
	return found;
}

static struct vb_path path_back(const struct vb_qp *qp, const struct vb_roce_packet *packet)
{
	struct vb_path path = {.hop_limit = HOP_LIMIT, .interface_index = packet->from.interface_index};

	if (qp->type != IBV_QPT_UD)
		return qp->path;
	memcpy(path.source, packet->from.destination, sizeof(path.source));
	memcpy(path.destination, packet->from.source, sizeof(path.destination));
	if (qp->host->source_port)
		path.source_port = qp->host->source_port(qp->host, &path, packet->deth.source_qpn);
	return path;
}

/* Whom a UD queue pair answers must know its Q_Key, as every sender to it. */
static bool may_ask(struct vb_qp *qp, const struct vb_roce_packet *packet)
{
	if (qp->type == IBV_QPT_UD && packet->deth.qkey != qp->attr.qkey) {
		VB_COUNT(qp->host->counters, bad_qkey_pkts);
		return false;
	}
	/* RC that plays an adapter does not say that it is none. */
	return !vb_roce_engine(qp)->responder.drops_ahead && packet->from.framing == VB_FRAMING_UDP &&
	       !vb_gid_is_multicast(packet->from.destination);
}

void vb_roce_flow_probed(struct vb_qp *qp, vb_time now, const struct vb_roce_packet *packet)
{
	struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;
	uint32_t period = (uint32_t)(now >> PERIOD_BITS) + 1;
	struct vb_roce_report *report;

	if (!may_ask(qp, packet) || !provide_reports(qp, responder))
		return;
	report = report_for(responder, packet);
	if (!report)
		return;
	responder->is_known = qp->type == IBV_QPT_RC;
	if (!is_of(report, packet)) {
		report->qpn = packet->deth.source_qpn;
		report->path = path_back(qp, packet);
	}
	/* Where senders take turns at one place it has been counted already: more than SENDERS of a queue pair are not told apart. */
	if (report->period != period && qp->host->share)
		count_sender(qp->host->share, period);
	report->period = period;
	report->psn = packet->psn;
	report->owed = responder->reports_owed = true;
}

bool vb_roce_flow_report(struct vb_qp *qp, struct vb_burst *out)
{
	struct vb_roce_responder *responder = &vb_roce_engine(qp)->responder;
	int opcode = vb_roce_opcode_find(VB_SERVICE_VENDOR, VB_KIND_FLOW_REPORT, VB_POSITION_ONLY, VB_HEADER_IMMEDIATE);

	for (unsigned i = 0; i < responder->report_room; i++) {
		struct vb_roce_report *report = &responder->reports[i];
		struct vb_roce_packet packet;

		if (!report->owed)
			continue;
		if (!vb_burst_has_room(out, 0))
			return true;
		vb_roce_prepare(qp, &packet, opcode, report->psn);
		packet.destination_qpn = report->qpn;
		packet.immediate = be32_of(window_of(qp, responder) | (responder->is_known ? ACKNOWLEDGES_UNASKED | TAKES_PIGGYBACK : 0));
		vb_burst_append(out, &report->path, &packet, NULL, 0);
		report->owed = false;
	}
	responder->reports_owed = false;
	return false;
}

void vb_roce_flow_forget(struct vb_roce_responder *responder)
{
	free(responder->reports);
	responder->reports = NULL;
	responder->reports_owed = false;
	responder->report_room = 0;
}
