/* SPDX-License-Identifier: MIT
 *
 * A failed completion, a refused request of the peer, an overrun, a flush. Order of a report: what was attempted, the
 * cause with its numbers (asking the peer where the wire says too little), what was flushed with it, what helps; and
 * all the evidence as fields.
 */
#include "explain/failure.h"

#include <string.h>

#include "base/time.h"
#include "explain/access.h"
#include "explain/stream.h"
#include "explain/words.h"
#include "wire/path.h"

/* The peer's own fault, as it told us. */
static bool far_fault(const struct vb_explain_failure *f, struct vb_fault_record *out)
{
	if (f->reach != VB_REACH_ANSWERED || f->far.status != VB_INQUIRY_YOUR_PEER || f->far.fault == VB_FAULT_NONE ||
	    f->far.fault >= VB_FAULT_COUNT)
		return false;
	*out = (struct vb_fault_record){
		.fault = (enum vb_fault)f->far.fault,
		.key = f->far.key,
		.address = f->far.address,
		.length = f->far.length,
		.region_start = f->far.region_start,
		.region_length = f->far.region_length,
		.rights_asked = f->far.rights_asked,
		.rights_granted = f->far.rights_granted,
		.pd = f->far.pd,
		.region_pd = f->far.region_pd,
		.psn = f->far.psn,
		.swapped_key = f->far.swapped_key,
		.gone_for = (int64_t)f->far.gone_for,
	};
	return true;
}

bool vb_explain_failure_wants_peer(const struct vb_explain_failure *f)
{
	if (f->kind != VB_FAILED_SEND || f->type == IBV_QPT_UD || !f->has_peer)
		return false;
	switch (f->fault.fault) {
	case VB_FAULT_RETRY_EXCEEDED:
	case VB_FAULT_RNR_RETRY_EXCEEDED:
	case VB_FAULT_REMOTE_INVALID_REQUEST:
	case VB_FAULT_REMOTE_ACCESS:
	case VB_FAULT_REMOTE_OPERATION:
	case VB_FAULT_BAD_RESPONSE:
		return true;
	default:
		return false;
	}
}

/* ---- what ---- */

static void say_peer(const struct vb_explain_failure *f, struct vb_report *report, const char *preposition)
{
	char address[VB_WORDS_ADDRESS];

	if (f->has_peer)
		vb_report_say(report, VB_REPORT_WHAT, " %s %s", preposition, vb_words_address(address, f->peer));
	if (f->peer_qpn != 0)
		vb_report_say(report, VB_REPORT_WHAT, "%s%s QP 0x%06x", f->has_peer ? "" : " ",
			      f->has_peer ? "" : preposition, f->peer_qpn);
}

static void say_what(const struct vb_explain_failure *f, struct vb_report *report)
{
	switch (f->kind) {
	case VB_FAILED_SEND:
		vb_report_say(report, VB_REPORT_WHAT, "%s wr_id %llu on QP 0x%06x",
			      f->has_opcode ? vb_words_opcode(f->opcode) : "send work", (unsigned long long)f->wr_id,
			      f->qpn);
		say_peer(f, report, "to");
		vb_report_say(report, VB_REPORT_WHAT, " failed: %s", vb_words_status(f->status));
		break;
	case VB_FAILED_RECEIVE:
		vb_report_say(report, VB_REPORT_WHAT, "receive wr_id %llu on QP 0x%06x", (unsigned long long)f->wr_id,
			      f->qpn);
		say_peer(f, report, "from");
		vb_report_say(report, VB_REPORT_WHAT, " failed: %s", vb_words_status(f->status));
		break;
	case VB_FAILED_REQUEST:
		vb_report_say(report, VB_REPORT_WHAT, "%s QP 0x%06x", vb_explain_stream_ended(&f->fault) ? "the stream of" : "a request to",
			      f->qpn);
		say_peer(f, report, "from");
		vb_report_say(report, VB_REPORT_WHAT, "%s", vb_explain_stream_ended(&f->fault) ? " ended" : " was refused");
		if (f->has_event)
			vb_report_say(report, VB_REPORT_WHAT, ": %s", vb_words_event(f->event));
		break;
	case VB_FAILED_OVERRUN:
		vb_report_say(report, VB_REPORT_WHAT,
			      "a completion of QP 0x%06x (wr_id %llu) was lost: CQ_ERR and QP_FATAL", f->qpn,
			      (unsigned long long)f->wr_id);
		break;
	case VB_FLUSHED_BY_APPLICATION:
		vb_report_say(report, VB_REPORT_WHAT,
			      "QP 0x%06x was moved from %s to ERR: what it held completes with WR_FLUSH_ERR", f->qpn,
			      vb_words_state(f->state));
		break;
	case VB_FLUSHED_LATE:
		vb_report_say(report, VB_REPORT_WHAT,
			      "work was posted to QP 0x%06x, which is in %s: it completes with WR_FLUSH_ERR", f->qpn,
			      vb_words_state(f->state));
		break;
	}
}

/* ---- no answer ---- */

static void say_reach(const struct vb_explain_failure *f, struct vb_report *report)
{
	char address[VB_WORDS_ADDRESS];

	vb_words_address(address, f->peer);
	switch (f->reach) {
	case VB_REACH_REFUSED:
		vb_report_say(report, VB_REPORT_CAUSE,
			      "The host %s is there, but nothing listens on its UDP port 4791. ", address);
		vb_report_say(report, VB_REPORT_FIX, "Start the peer's program (and check that it has not ended).");
		break;
	case VB_REACH_NO_ROUTE:
		vb_report_say(report, VB_REPORT_CAUSE, "This host has no route to %s. ", address);
		vb_report_say(report, VB_REPORT_FIX,
			      "Check addresses and routes (ip route get %s); the GID index must be that of an address "
			      "from which the peer can be reached.",
			      address);
		break;
	case VB_REACH_UNREACHABLE:
		vb_report_say(report, VB_REPORT_CAUSE,
			      "The host is not there: no host answers for %s (ARP, neighbour discovery), or a router says "
			      "that it is unreachable. ",
			      address);
		vb_report_say(report, VB_REPORT_FIX,
			      "Check that the host is up and has this address, and that ah_attr.grh.dgid is the GID that the "
			      "peer gave.");
		break;
	case VB_REACH_PINGED:
		vb_report_say(report, VB_REPORT_CAUSE,
			      "The host %s answers ping, but not a word comes from its UDP port 4791. ", address);
		vb_report_say(report, VB_REPORT_FIX,
			      "Check firewalls for UDP port 4791 in both directions, and that the peer's queue pair is "
			      "in RTR or RTS with our QPN and PSN.");
		break;
	case VB_REACH_SILENT:
		vb_report_say(report, VB_REPORT_CAUSE,
			      "Not a word from %s: neither from its UDP port 4791 nor to a ping. ", address);
		vb_report_say(report, VB_REPORT_FIX,
			      "Check that the host is up, its address, and firewalls for UDP port 4791.");
		break;
	case VB_REACH_SILENT_UNPINGED:
		vb_report_say(report, VB_REPORT_CAUSE,
			      "Not a word from UDP port 4791 of %s; could not ping it, so the host may be up or not. ", address);
		vb_report_say(report, VB_REPORT_FIX,
			      "Check that the host is up, its address, and firewalls for UDP port 4791. (This user may not "
			      "ping: sysctl net.ipv4.ping_group_range.)");
		break;
	default:
		vb_report_say(report, VB_REPORT_FIX,
			      "Check that the peer's queue pair is in RTR or RTS with our QPN and PSN, and that UDP "
			      "port 4791 is open in both directions.");
	}
}

/* The peer waits for a packet behind this one, and not for one that was never sent: its rq_psn is right. */
static bool request_arrived(const struct vb_explain_failure *f)
{
	uint32_t ahead = (f->far.expected_psn - f->fault.psn) & 0xffffff, sent = (f->next_psn - f->fault.psn) & 0xffffff;

	return f->reach == VB_REACH_ANSWERED && f->far.status == VB_INQUIRY_YOUR_PEER && ahead > 0 && ahead <= sent;
}

/* An adapter acknowledges for a process that does not run; here the process is the adapter. */
static void say_what_does_not_run(const struct vb_explain_failure *f, struct vb_report *report)
{
	vb_report_say(report, VB_REPORT_FIX,
		      "A process acknowledges only while it runs: let it run (SIGCONT, the debugger, processors that are not all "
		      "taken), or set timeout and retry_cnt for longer than it may stand still (they were %u and %u).",
		      f->timeout, f->retry_cnt);
}

static void say_silent_peer(const struct vb_explain_failure *f, struct vb_report *report)
{
	char address[VB_WORDS_ADDRESS];

	switch (f->far.status) {
	case VB_INQUIRY_NO_PROCESS:
		vb_report_say(report, VB_REPORT_CAUSE, "Its verbenad answers: no process there has queue pair 0x%06x. ",
			      f->peer_qpn);
		vb_report_say(report, VB_REPORT_FIX, "The peer's program has ended, or dest_qp_num is wrong.");
		break;
	case VB_INQUIRY_STOPPED:
		vb_report_say(report, VB_REPORT_CAUSE,
			      "Its verbenad answers: the process that has queue pair 0x%06x lives, but a signal or a debugger has "
			      "stopped it. ",
			      f->peer_qpn);
		say_what_does_not_run(f, report);
		break;
	case VB_INQUIRY_LIVES:
		vb_report_say(report, VB_REPORT_CAUSE,
			      "Its verbenad answers: the process that has queue pair 0x%06x lives, but it does not answer: it does "
			      "not run. ",
			      f->peer_qpn);
		say_what_does_not_run(f, report);
		break;
	case VB_INQUIRY_NO_QP:
		vb_report_say(report, VB_REPORT_CAUSE,
			      "The peer's process answers: it has no queue pair 0x%06x (any more). ", f->peer_qpn);
		vb_report_say(report, VB_REPORT_FIX,
			      "The peer destroyed its queue pair too early, or dest_qp_num is wrong.");
		break;
	case VB_INQUIRY_NOT_CONNECTED:
		vb_report_say(report, VB_REPORT_CAUSE, "The peer's QP 0x%06x is still in %s and takes no packets. ",
			      f->peer_qpn, vb_words_state(f->far.state));
		vb_report_say(report, VB_REPORT_FIX, "Move the peer's queue pair to RTR before this side sends.");
		break;
	case VB_INQUIRY_OTHER_PEER:
		vb_report_say(report, VB_REPORT_CAUSE,
			      "The peer's QP 0x%06x is in %s but connected to somebody else: its ah_attr or "
			      "dest_qp_num are not ours. ",
			      f->peer_qpn, vb_words_state(f->far.state));
		vb_report_say(report, VB_REPORT_FIX,
			      "Exchange QPN and GID in both directions; the peer's dest_qp_num must be 0x%06x.",
			      f->qpn);
		break;
	case VB_INQUIRY_OTHER_PSN:
		vb_report_say(report, VB_REPORT_CAUSE,
			      "The peer's QP 0x%06x is in %s and connected to ours, but waits for other packets: its rq_psn is not "
			      "this side's sq_psn 0x%06x. ",
			      f->peer_qpn, vb_words_state(f->far.state), f->sq_psn);
		vb_report_say(report, VB_REPORT_FIX,
			      "Exchange PSNs: each side's rq_psn must equal the other's sq_psn.");
		break;
	case VB_INQUIRY_NOT_TOLD:
		vb_report_say(report, VB_REPORT_CAUSE,
			      "The peer's process is there; it has been asked too often to say more. ");
		vb_report_say(report, VB_REPORT_FIX, "Look at the peer's queue pair (verbena res).");
		break;
	case VB_INQUIRY_YOUR_PEER:
		if (f->far.type != f->type && f->type != IBV_QPT_XRC_SEND) {
			vb_report_say(report, VB_REPORT_CAUSE, "The peer's QP 0x%06x is %s queue pair, ours %s: it drops our packets. ",
				      f->peer_qpn, vb_words_a_type((enum ibv_qp_type)f->far.type), vb_words_a_type(f->type));
			vb_report_say(report, VB_REPORT_FIX, "Create both queue pairs with the same qp_type.");
		} else if (f->far.state == IBV_QPS_ERR) {
			vb_report_say(report, VB_REPORT_CAUSE, "The peer's QP 0x%06x is in ERR. ", f->peer_qpn);
			vb_report_say(report, VB_REPORT_FIX, "Look for the first failure on the peer's side.");
		} else if (f->far.state == IBV_QPS_RESET || f->far.state == IBV_QPS_INIT) {
			vb_report_say(report, VB_REPORT_CAUSE, "The peer's QP 0x%06x is in %s and takes no packets. ",
				      f->peer_qpn, vb_words_state(f->far.state));
		} else if (request_arrived(f)) {
			vb_report_say(report, VB_REPORT_CAUSE,
				      "The peer's QP 0x%06x is in %s and waits for PSN 0x%06x: it has taken this request, but its "
				      "acknowledgements do not come back. ",
				      f->peer_qpn, vb_words_state(f->far.state), f->far.expected_psn);
			vb_report_say(report, VB_REPORT_FIX,
				      "Look for a firewall that keeps UDP port 4791 from coming in at this host or from going "
				      "out at the peer's (verbena doctor --peer %s). If there is none, the peer's process had no "
				      "processor for that long: raise timeout and retry_cnt.",
				      vb_words_address(address, f->peer));
		} else if (f->far.expected_psn != f->fault.psn) {
			vb_report_say(report, VB_REPORT_CAUSE,
				      "The peer's QP 0x%06x is in %s and waits for PSN 0x%06x, we sent 0x%06x. ",
				      f->peer_qpn, vb_words_state(f->far.state), f->far.expected_psn, f->fault.psn);
			vb_report_say(report, VB_REPORT_FIX, "The peer's rq_psn must equal this side's sq_psn.");
		} else {
			vb_report_say(report, VB_REPORT_CAUSE,
				      "The peer's QP 0x%06x is in %s and waits for this very packet: packets are lost "
				      "on the way. ",
				      f->peer_qpn, vb_words_state(f->far.state));
			vb_report_say(report, VB_REPORT_FIX,
				      "Raise timeout and retry_cnt, and look for loss (verbena stat).");
		}
		break;
	default:
		say_reach(f, report);
	}
}

static bool is_set(const uint8_t gid[16])
{
	static const uint8_t none[16];

	return memcmp(gid, none, sizeof(none)) != 0;
}

/* A host with several addresses answers from the one that its queue pair has (IBA 9.6.1.1.3: any other is not the peer). */
static bool say_stray_answers(const struct vb_explain_failure *f, struct vb_report *report)
{
	char address[VB_WORDS_ADDRESS], peer[VB_WORDS_ADDRESS];

	if (!is_set(f->stray_source))
		return false;
	vb_words_address(address, f->stray_source);
	vb_words_address(peer, f->peer);
	vb_report_say(report, VB_REPORT_CAUSE,
		      "But packets of that queue pair come from %s, and are dropped because ah_attr.grh.dgid says %s. ", address,
		      peer);
	vb_report_say(report, VB_REPORT_FIX,
		      "Set dgid to the GID at the sgid_index that the peer's queue pair uses (%s), or let the peer use the "
		      "index of %s.",
		      address, peer);
	return true;
}

/* 127.0.0.1 is another host for each that says it. */
static bool say_loopback(const struct vb_explain_failure *f, struct vb_report *report)
{
	char address[VB_WORDS_ADDRESS];
	bool process_answers = f->reach == VB_REACH_ANSWERED && f->far.status != VB_INQUIRY_NO_PROCESS;

	if (!vb_gid_is_loopback(f->peer) || (vb_gid_is_loopback(f->source) && process_answers))
		return false;
	vb_report_say(report, VB_REPORT_CAUSE,
		      "%s is a loopback address: it names this host itself, where no process has queue pair 0x%06x. ",
		      vb_words_address(address, f->peer), f->peer_qpn);
	vb_report_say(report, VB_REPORT_FIX,
		      "If the peer is on another host it gave the GID of its loopback device (roce_lo): both sides must use the "
		      "device of an interface that joins them. If it is on this one, its program has ended.");
	return true;
}

static void say_retry(const struct vb_explain_failure *f, struct vb_report *report)
{
	char address[VB_WORDS_ADDRESS];

	vb_report_say(report, VB_REPORT_CAUSE,
		      "no answer from %s QP 0x%06x to PSN 0x%06x: sent again %u times in %lld.%03lld s (timeout %u, "
		      "retry_cnt %u). ",
		      vb_words_address(address, f->peer), f->peer_qpn, f->fault.psn, f->fault.tries,
		      (long long)(f->fault.waited / VB_SECONDS(1)),
		      (long long)(f->fault.waited % VB_SECONDS(1) / VB_MILLISECONDS(1)), f->timeout, f->retry_cnt);
	if (say_stray_answers(f, report) || say_loopback(f, report))
		return;
	if (f->reach == VB_REACH_ANSWERED)
		say_silent_peer(f, report);
	else
		say_reach(f, report);
}

static void say_receiver_not_ready(const struct vb_explain_failure *f, struct vb_report *report)
{
	vb_report_say(report, VB_REPORT_CAUSE, "the peer had no receive posted: it said so %u times (rnr_retry %u). ",
		      f->fault.tries + 1, f->rnr_retry);
	if (f->reach == VB_REACH_ANSWERED && f->far.status == VB_INQUIRY_YOUR_PEER)
		vb_report_say(report, VB_REPORT_CAUSE, "It has %u posted now. ", f->far.receives);
	vb_report_say(report, VB_REPORT_FIX,
		      "Post receives on the peer before sending to it, and more of them; or set rnr_retry to 7 (wait "
		      "for ever) or the peer's min_rnr_timer higher.");
}

/* ---- the peer refused ---- */

static const char *nak_words(enum vb_fault fault)
{
	switch (fault) {
	case VB_FAULT_REMOTE_ACCESS:
		return "remote access error";
	case VB_FAULT_REMOTE_INVALID_REQUEST:
		return "invalid request";
	default:
		return "remote operational error";
	}
}

/* The usual suspects, when only the NAK speaks. */
static void say_suspects(const struct vb_explain_failure *f, struct vb_report *report)
{
	switch (f->fault.fault) {
	case VB_FAULT_REMOTE_ACCESS:
		vb_report_say(report, VB_REPORT_FIX,
			      "Check on the peer: is rkey 0x%08x still registered, in the queue pair's domain, with "
			      "the right that is needed, and does it cover %llu bytes at 0x%llx?",
			      f->fault.key, (unsigned long long)f->fault.length, (unsigned long long)f->fault.address);
		break;
	case VB_FAULT_REMOTE_INVALID_REQUEST:
		vb_report_say(report, VB_REPORT_FIX,
			      "Check on the peer: is its receive large enough, do its qp_access_flags allow the "
			      "operation, is max_dest_rd_atomic at least our max_rd_atomic, is its path_mtu %u too?",
			      f->mtu);
		break;
	default:
		vb_report_say(report, VB_REPORT_FIX, "Look for the failed receive on the peer.");
	}
}

/* Faults that only a responder finds. Says cause and fix. */
static bool say_responder_fault(const struct vb_fault_record *fault, const char *whose, struct vb_report *report)
{
	switch (fault->fault) {
	case VB_FAULT_LOCAL_LENGTH:
		vb_report_say(report, VB_REPORT_CAUSE,
			      "a message of %llu bytes or more met a receive of %llu bytes on %s side. ",
			      (unsigned long long)fault->length, (unsigned long long)fault->region_length, whose);
		vb_report_say(report, VB_REPORT_FIX,
			      "Post receives at least as long as the longest message (UD: 40 bytes more).");
		return true;
	case VB_FAULT_TOO_MANY_READS:
		vb_report_say(report, VB_REPORT_CAUSE,
			      "more reads and atomics are outstanding than max_dest_rd_atomic allows on %s side. ",
			      whose);
		vb_report_say(report, VB_REPORT_FIX,
			      "max_rd_atomic of the requester must not exceed max_dest_rd_atomic of its peer.");
		return true;
	case VB_FAULT_PACKET_LENGTH:
		vb_report_say(report, VB_REPORT_CAUSE,
			      "a packet of %llu bytes came (PSN 0x%06x), which does not fit the path_mtu of %llu on %s side. ",
			      (unsigned long long)fault->length, fault->psn, (unsigned long long)fault->region_length, whose);
		vb_report_say(report, VB_REPORT_FIX, "path_mtu must be the same on both sides.");
		return true;
	case VB_FAULT_MESSAGE_LENGTH:
		vb_report_say(report, VB_REPORT_CAUSE, "%s (PSN 0x%06x). ", vb_fault_sentence(fault->fault),
			      fault->psn);
		vb_report_say(report, VB_REPORT_FIX, "path_mtu must be the same on both sides.");
		return true;
	case VB_FAULT_XRC_SRQ:
		vb_report_say(report, VB_REPORT_CAUSE,
			      "the request named SRQ number 0x%06x, and %s side has no such XRC SRQ in the queue pair's XRC domain. ",
			      fault->key, whose);
		vb_report_say(report, VB_REPORT_FIX,
			      "Use the number that ibv_get_srq_num gives there; SRQ and XRC_RECV queue pair must be of one XRC "
			      "domain of one process.");
		return true;
	case VB_FAULT_OPCODE_SEQUENCE:
	case VB_FAULT_OPCODE_UNSUPPORTED:
		vb_report_say(report, VB_REPORT_CAUSE, "%s (PSN 0x%06x). ", vb_fault_sentence(fault->fault),
			      fault->psn);
		vb_report_say(report, VB_REPORT_FIX,
			      "Both queue pairs must be of the same type, and start from matching PSNs.");
		return true;
	default:
		return false;
	}
}

static bool has_remote_key(enum vb_fault fault, const struct vb_explain_failure *f)
{
	return fault != VB_FAULT_LOCAL_LENGTH && f->has_opcode &&
	       (f->opcode == IBV_WR_RDMA_WRITE || f->opcode == IBV_WR_RDMA_WRITE_WITH_IMM ||
		f->opcode == IBV_WR_RDMA_READ || f->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
		f->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || f->opcode == IBV_WR_ATOMIC_WRITE ||
		f->opcode == IBV_WR_SEND_WITH_INV);
}

static void say_refused_by_peer(const struct vb_explain_failure *f, struct vb_report *report)
{
	struct vb_fault_record far;

	if (far_fault(f, &far)) {
		vb_report_say(report, VB_REPORT_CAUSE, "the peer says: ");
		if (vb_explain_access(&far, has_remote_key(far.fault, f), "the peer's", report) ||
		    say_responder_fault(&far, "the peer's", report))
			return;
		vb_report_say(report, VB_REPORT_CAUSE, "%s. ", vb_fault_sentence(far.fault));
		return;
	}
	vb_report_say(report, VB_REPORT_CAUSE, "the peer refused with a NAK (%s)", nak_words(f->fault.fault));
	vb_report_say(report, VB_REPORT_CAUSE,
		      f->reach == VB_REACH_UNASKED || f->reach == VB_REACH_ANSWERED ? " and does not say why. "
										    : "; it is no Verbena, or gone, so "
										      "it cannot be asked why. ");
	say_suspects(f, report);
}

/* ---- found here ---- */

static void say_local(const struct vb_explain_failure *f, struct vb_report *report)
{
	const struct vb_fault_record *fault = &f->fault;

	/* What the peer names in its request is an rkey of ours; what our work and our receives name is an lkey. */
	if (vb_explain_access(fault, f->kind == VB_FAILED_REQUEST, "this", report))
		return;
	if (f->kind == VB_FAILED_SEND && fault->fault == VB_FAULT_LOCAL_LENGTH) {
		vb_report_say(report, VB_REPORT_CAUSE,
			      "the message has %llu bytes, a datagram takes at most the port's MTU of %u. ",
			      (unsigned long long)fault->length, f->mtu);
		vb_report_say(report, VB_REPORT_FIX, "Send less per datagram: see active_mtu of ibv_query_port.");
		return;
	}
	if (fault->fault == VB_FAULT_LOCAL_OPERATION) {
		vb_report_say(report, VB_REPORT_CAUSE, "%s cannot be executed on this %s queue pair%s. ",
			      f->has_opcode ? vb_words_opcode(f->opcode) : "the work", vb_words_type(f->type),
			      f->type == IBV_QPT_RC ? ": reads and atomics need max_rd_atomic > 0" : "");
		vb_report_say(report, VB_REPORT_FIX,
			      "Set max_rd_atomic in the ibv_modify_qp to RTS (rdma_cm: initiator_depth).");
		return;
	}
	if (say_responder_fault(fault, "this", report))
		return;
	vb_report_say(report, VB_REPORT_CAUSE, "%s. ", vb_fault_sentence(fault->fault));
}

static void say_overrun(const struct vb_explain_failure *f, struct vb_report *report)
{
	vb_report_say(report, VB_REPORT_CAUSE, "the completion queue has room for %u entries and was full. ",
		      f->cq_capacity);
	vb_report_say(report, VB_REPORT_FIX,
		      "Create the CQ with at least as many entries as work can be outstanding on all its queue pairs "
		      "(max_send_wr + max_recv_wr each), or poll it more often.");
}

static void say_first_cause(const struct vb_explain_failure *f, struct vb_report *report)
{
	if (f->fault.fault == VB_FAULT_NONE) {
		vb_report_say(report, VB_REPORT_CAUSE,
			      "the application (or rdma_disconnect) moved it to ERR; nothing had failed. ");
		vb_report_say(report, VB_REPORT_FIX,
			      "Nothing to fix at the end of a connection; else do not post after it.");
		return;
	}
	vb_report_say(report, VB_REPORT_CAUSE, "its first failure was %s (%s) of wr_id %llu. ",
		      vb_fault_name(f->fault.fault), vb_fault_sentence(f->fault.fault),
		      (unsigned long long)f->fault.wr_id);
	vb_report_say(report, VB_REPORT_FIX,
		      "Stop posting at the first error; to use the queue pair again move it to RESET, INIT, RTR, RTS.");
}

static void say_cause(const struct vb_explain_failure *f, struct vb_report *report)
{
	switch (f->kind) {
	case VB_FAILED_OVERRUN:
		say_overrun(f, report);
		return;
	case VB_FLUSHED_BY_APPLICATION:
	case VB_FLUSHED_LATE:
		say_first_cause(f, report);
		return;
	default:
		break;
	}
	if (vb_explain_stream(&f->fault, report))
		return;
	switch (f->fault.fault) {
	case VB_FAULT_RETRY_EXCEEDED:
		say_retry(f, report);
		break;
	case VB_FAULT_RNR_RETRY_EXCEEDED:
		say_receiver_not_ready(f, report);
		break;
	case VB_FAULT_REMOTE_INVALID_REQUEST:
	case VB_FAULT_REMOTE_ACCESS:
	case VB_FAULT_REMOTE_OPERATION:
		say_refused_by_peer(f, report);
		break;
	default:
		say_local(f, report);
	}
}

static void say_flush(const struct vb_explain_failure *f, struct vb_report *report)
{
	if (f->flushed_sends == 0 && f->flushed_receives == 0)
		return;
	vb_report_say(report, VB_REPORT_FLUSH, "%u sends and %u receives of this queue pair %s with WR_FLUSH_ERR",
		      f->flushed_sends, f->flushed_receives,
		      f->kind == VB_FLUSHED_LATE ? "complete" : "go with it and complete");
	if (f->kind != VB_FLUSHED_LATE)
		vb_report_say(report, VB_REPORT_FLUSH, "; this is their cause");
	vb_report_say(report, VB_REPORT_FLUSH, ".");
}

/* ---- evidence ---- */

static const char *kind_of(enum vb_failure_kind kind)
{
	switch (kind) {
	case VB_FAILED_SEND:
	case VB_FAILED_RECEIVE:
		return "completion";
	case VB_FAILED_REQUEST:
		return "refused_request";
	case VB_FAILED_OVERRUN:
		return "overrun";
	default:
		return "flush";
	}
}

/* Which side's check it was. */
static const char *side_of(const struct vb_explain_failure *f)
{
	switch (f->fault.fault) {
	case VB_FAULT_REMOTE_INVALID_REQUEST:
	case VB_FAULT_REMOTE_ACCESS:
	case VB_FAULT_REMOTE_OPERATION:
	case VB_FAULT_RNR_RETRY_EXCEEDED:
		return "peer";
	case VB_FAULT_RETRY_EXCEEDED:
		if (f->reach == VB_REACH_NO_ROUTE || is_set(f->stray_source))
			return "local";
		return f->reach == VB_REACH_ANSWERED && !request_arrived(f) ? "peer" : "network";
	default:
		return "local";
	}
}

static void add_far_evidence(const struct vb_explain_failure *f, struct vb_report *report)
{
	static const char *const statuses[VB_INQUIRY_STATUS_END] = {
		"?",         "no_process", "no_qp",     "not_connected", "other_peer",
		"your_peer", "daemon",     "other_psn", "not_told",
		"lives",     "stopped",
	};
	struct vb_fault_record far;

	if (f->reach == VB_REACH_UNASKED)
		return;
	vb_report_word(report, "reach", vb_words_reach(f->reach));
	if (f->reach != VB_REACH_ANSWERED)
		return;
	vb_report_word(report, "far_verdict", f->far.status < VB_INQUIRY_STATUS_END ? statuses[f->far.status] : "?");
	if (f->far.status >= VB_INQUIRY_NOT_CONNECTED && f->far.status <= VB_INQUIRY_YOUR_PEER)
		vb_report_word(report, "far_state", vb_words_state(f->far.state));
	if (f->far.status == VB_INQUIRY_YOUR_PEER) {
		vb_report_number(report, "far_receives", f->far.receives);
		vb_report_hex(report, "far_expected_psn", f->far.expected_psn, 6);
	}
	if (far_fault(f, &far)) {
		vb_report_word(report, "far_fault", vb_fault_name(far.fault));
		vb_explain_access_evidence(&far, true, report);
	}
}

static void add_evidence(const struct vb_explain_failure *f, struct vb_report *report)
{
	const struct vb_fault_record *fault = &f->fault;
	char address[VB_WORDS_ADDRESS];
	bool work = f->kind == VB_FAILED_SEND || f->kind == VB_FAILED_RECEIVE || f->kind == VB_FAILED_OVERRUN;

	if (f->kind != VB_FAILED_REQUEST && f->kind != VB_FAILED_OVERRUN)
		vb_report_word(report, "status", vb_words_status(f->status));
	vb_report_word(report, "fault", vb_fault_name(fault->fault));
	if (f->kind != VB_FLUSHED_BY_APPLICATION && f->kind != VB_FLUSHED_LATE)
		vb_report_word(report, "side", side_of(f));
	if (work)
		vb_report_number(report, "wr_id", f->wr_id);
	if (f->kind == VB_FAILED_RECEIVE)
		vb_report_word(report, "opcode", "RECV");
	else if (f->has_opcode)
		vb_report_word(report, "opcode", vb_words_opcode(f->opcode));
	vb_report_hex(report, "qpn", f->qpn, 6);
	vb_report_word(report, "qp_type", vb_words_type(f->type));
	vb_report_word(report, "state", vb_words_state(f->state));
	if (f->has_peer)
		vb_report_word(report, "peer", vb_words_address(address, f->peer));
	if (f->peer_qpn != 0)
		vb_report_hex(report, "peer_qpn", f->peer_qpn, 6);
	if (fault->fault == VB_FAULT_RETRY_EXCEEDED && is_set(f->stray_source))
		vb_report_word(report, "stray_source", vb_words_address(address, f->stray_source));
	if (fault->fault == VB_FAULT_REMOTE_INVALID_REQUEST)
		vb_report_number(report, "path_mtu", f->mtu);
	if (f->has_event)
		vb_report_word(report, "event", vb_words_event(f->event));
	if (f->kind == VB_FLUSHED_LATE && fault->fault != VB_FAULT_NONE)
		vb_report_number(report, "first_wr_id", fault->wr_id);
	if (f->kind == VB_FAILED_OVERRUN)
		vb_report_number(report, "cqe", f->cq_capacity);
	vb_explain_access_evidence(fault, false, report);
	if (fault->psn != 0)
		vb_report_hex(report, "psn", fault->psn, 6);
	if (fault->syndrome != 0)
		vb_report_hex(report, "syndrome", fault->syndrome, 2);
	vb_explain_stream_evidence(fault, report);
	if (fault->fault == VB_FAULT_RETRY_EXCEEDED || fault->fault == VB_FAULT_RNR_RETRY_EXCEEDED) {
		vb_report_number(report, "tries", fault->tries);
		vb_report_number(report, "waited_us", (uint64_t)fault->waited / 1000);
		vb_report_number(report, "timeout", f->timeout);
		vb_report_number(report, "retry_cnt", f->retry_cnt);
		vb_report_number(report, "rnr_retry", f->rnr_retry);
	}
	if (f->flushed_sends != 0 || f->flushed_receives != 0) {
		vb_report_number(report, "flushed_sends", f->flushed_sends);
		vb_report_number(report, "flushed_receives", f->flushed_receives);
	}
	add_far_evidence(f, report);
}

void vb_explain_failure(const struct vb_explain_failure *failure, struct vb_report *report)
{
	vb_report_begin(report, kind_of(failure->kind));
	say_what(failure, report);
	say_cause(failure, report);
	say_flush(failure, report);
	add_evidence(failure, report);
}
