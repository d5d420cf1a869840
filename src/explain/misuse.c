/* SPDX-License-Identifier: MIT
 *
 * See misuse.h. Not only misuse: also what a user would not hear of otherwise.
 */
#include "explain/misuse.h"

#include "explain/words.h"

static void begin(struct vb_report *report, const char *what)
{
	vb_report_begin(report, "misuse");
	vb_report_word(report, "misuse", what);
}

void vb_explain_buffer_changed(uint32_t qpn, uint64_t wr_id, enum ibv_wr_opcode opcode, uint64_t length,
			       struct vb_report *report)
{
	begin(report, "buffer_changed");
	vb_report_hex(report, "qpn", qpn, 6);
	vb_report_number(report, "wr_id", wr_id);
	vb_report_word(report, "opcode", vb_words_opcode(opcode));
	vb_report_number(report, "length", length);
	vb_report_say(report, VB_REPORT_WHAT,
		      "the buffer of %s wr_id %llu on QP 0x%06x was changed between its post and its completion",
		      vb_words_opcode(opcode), (unsigned long long)wr_id, qpn);
	vb_report_say(report, VB_REPORT_CAUSE,
		      "its %llu bytes are not those that were posted: the peer may have got either.",
		      (unsigned long long)length);
	vb_report_say(report, VB_REPORT_FIX,
		      "Leave a buffer alone until its completion was polled; use more buffers, or IBV_SEND_INLINE.");
}

void vb_explain_region_in_use(uint32_t key, uint64_t start, uint64_t length, uint32_t qpn, uint64_t wr_id,
			      bool is_receive, uint32_t others, struct vb_report *report)
{
	begin(report, "region_in_use");
	vb_report_hex(report, "key", key, 8);
	vb_report_hex(report, "region_start", start, 1);
	vb_report_number(report, "region_length", length);
	vb_report_hex(report, "qpn", qpn, 6);
	vb_report_number(report, "wr_id", wr_id);
	vb_report_word(report, "opcode", is_receive ? "RECV" : "SEND");
	vb_report_number(report, "others", others);
	vb_report_say(report, VB_REPORT_WHAT,
		      "ibv_dereg_mr of lkey 0x%08x (%llu bytes at 0x%llx) while work refers to it", key,
		      (unsigned long long)length, (unsigned long long)start);
	vb_report_say(report, VB_REPORT_CAUSE, "%s wr_id %llu on QP 0x%06x%s uses it and has not completed.",
		      is_receive ? "receive" : "send", (unsigned long long)wr_id, qpn,
		      others > 0 ? " (and more work)" : "");
	vb_report_say(report, VB_REPORT_FIX,
		      "Wait for the completions, or destroy the queue pair (or move it to RESET) first.");
}

void vb_explain_cq_crowded(uint32_t capacity, uint32_t waiting, uint32_t outstanding, uint32_t qpn,
			   struct vb_report *report)
{
	begin(report, "cq_crowded");
	vb_report_number(report, "cqe", capacity);
	vb_report_number(report, "waiting", waiting);
	vb_report_number(report, "outstanding", outstanding);
	vb_report_hex(report, "qpn", qpn, 6);
	vb_report_say(report, VB_REPORT_WHAT, "a completion queue of %u entries is about to overrun", capacity);
	vb_report_say(report, VB_REPORT_CAUSE,
		      "%u completions wait in it and %u more can come from work that was posted (the last to QP "
		      "0x%06x).",
		      waiting, outstanding, qpn);
	vb_report_say(report, VB_REPORT_FIX,
		      "Create the CQ larger, poll more often, or post less at a time: an overrun is the end of the "
		      "CQ.");
}

void vb_explain_unacknowledged(const char *object, const char *acknowledge, uint32_t read, uint32_t acknowledged,
			       struct vb_report *report)
{
	begin(report, "unacknowledged_events");
	vb_report_word(report, "object", object);
	vb_report_number(report, "events_read", read);
	vb_report_number(report, "events_acknowledged", acknowledged);
	vb_report_say(report, VB_REPORT_WHAT, "destroying %s %s waits: %u events of it were read, %u acknowledged",
		      object[0] == 'S' || object[0] == 'r' ? "an" : "a", object, read, acknowledged);
	vb_report_say(report, VB_REPORT_CAUSE, "%s was not called for every event; the destruction blocks until it is.",
		      acknowledge);
	vb_report_say(report, VB_REPORT_FIX, "Call %s once for every event that was read, before destroying.",
		      acknowledge);
}

void vb_explain_field_not_valid(const char *field, uint32_t qpn, uint64_t wr_id, enum ibv_wc_status status,
				struct vb_report *report)
{
	begin(report, "field_not_valid");
	vb_report_word(report, "field", field);
	vb_report_hex(report, "qpn", qpn, 6);
	vb_report_number(report, "wr_id", wr_id);
	vb_report_word(report, "status", vb_words_status(status));
	vb_report_say(report, VB_REPORT_WHAT, "ibv_wc_read_%s of wr_id %llu on QP 0x%06x (%s): the field is not valid",
		      field, (unsigned long long)wr_id, qpn, vb_words_status(status));
	if (status == IBV_WC_SUCCESS) {
		vb_report_say(report, VB_REPORT_CAUSE, "the completion carries no immediate data.");
		vb_report_say(report, VB_REPORT_FIX, "Look for IBV_WC_WITH_IMM in ibv_wc_read_wc_flags first.");
	} else {
		vb_report_say(report, VB_REPORT_CAUSE,
			      "of a failed completion only wr_id, status, qp_num and vendor_err mean anything.");
		vb_report_say(report, VB_REPORT_FIX, "Look at status first.");
	}
}

static const char *drop_name(enum vb_drop_cause cause)
{
	switch (cause) {
	case VB_DROP_QKEY:
		return "qkey";
	case VB_DROP_NO_RECEIVE:
		return "no_receive";
	case VB_DROP_TOO_LONG:
		return "too_long";
	default:
		return "state";
	}
}

static void say_drop(const struct vb_explain_drops *drops, struct vb_report *report)
{
	const struct vb_drop *drop = drops->drop;

	switch (drop->cause) {
	case VB_DROP_QKEY:
		vb_report_hex(report, "far_qkey", drop->qkey, 8);
		vb_report_hex(report, "qkey", drops->qkey, 8);
		vb_report_say(report, VB_REPORT_CAUSE, "it was sent with Q_Key 0x%08x, the queue pair has 0x%08x.",
			      drop->qkey, drops->qkey);
		vb_report_say(report, VB_REPORT_FIX,
			      "wr.ud.remote_qkey of the sender must be the qkey that the receiver gave ibv_modify_qp.");
		break;
	case VB_DROP_NO_RECEIVE:
		vb_report_say(report, VB_REPORT_CAUSE, "no receive was posted on this side when it came.");
		vb_report_say(report, VB_REPORT_FIX,
			      "Post receives before the peer sends, and enough of them: UD knows no RNR, nobody sends "
			      "it again.");
		break;
	case VB_DROP_TOO_LONG:
		vb_report_number(report, "limit", drop->mtu);
		vb_report_say(report, VB_REPORT_CAUSE, "%u bytes are more than this port's MTU of %u.", drop->length,
			      drop->mtu);
		vb_report_say(report, VB_REPORT_FIX, "A datagram is at most as long as the smaller MTU of both ports.");
		break;
	default:
		vb_report_word(report, "state", vb_words_state(drops->state));
		vb_report_say(report, VB_REPORT_CAUSE, "the queue pair is in %s; it takes packets from RTR on.",
			      vb_words_state(drops->state));
		vb_report_say(report, VB_REPORT_FIX, "Move it to RTR before its number and Q_Key are given to anybody.");
		break;
	}
}

void vb_explain_dropped(const struct vb_explain_drops *drops, struct vb_report *report)
{
	char peer[VB_WORDS_ADDRESS];

	vb_report_begin(report, "dropped");
	vb_report_word(report, "dropped", drop_name(drops->cause));
	vb_report_hex(report, "qpn", drops->qpn, 6);
	vb_report_number(report, "count", drops->count);
	if (!drops->drop) {
		vb_report_say(report, VB_REPORT_WHAT, "%llu datagrams to QP 0x%06x were dropped in all (%s)",
			      (unsigned long long)drops->count, drops->qpn, drop_name(drops->cause));
		return;
	}
	vb_report_word(report, "peer", vb_words_address(peer, drops->drop->source));
	vb_report_hex(report, "peer_qpn", drops->drop->source_qpn, 6);
	vb_report_number(report, "length", drops->drop->length);
	vb_report_say(report, VB_REPORT_WHAT, "a datagram of %u bytes from %s QP 0x%06x to QP 0x%06x was dropped",
		      drops->drop->length, peer, drops->drop->source_qpn, drops->qpn);
	say_drop(drops, report);
}

bool vb_explain_event(enum ibv_event_type event, const char *device, uint32_t capacity, struct vb_report *report)
{
	const char *cause, *fix;

	switch (event) {
	case IBV_EVENT_CQ_ERR:
		cause = "the completion queue was full and a completion was lost; it takes no more.";
		fix = "Create the CQ with as many entries as work can be outstanding, or poll it more often.";
		break;
	case IBV_EVENT_PORT_ERR:
		cause = "the interface went down, lost its carrier or its last address.";
		fix = "See ip link and ip address; the port is active again when the interface is.";
		break;
	case IBV_EVENT_DEVICE_FATAL:
		cause = "the interface is gone, or verbenad took this process's numbers back while it did not run (the log says so).";
		fix = "Close the device, take a new list and open one of it.";
		break;
	case IBV_EVENT_GID_CHANGE:
		cause = "addresses of the interface were added or removed: GID indices may name others than before.";
		fix = "Query the GID table again; queue pairs whose address is gone will run into RETRY_EXC_ERR.";
		break;
	case IBV_EVENT_SRQ_ERR:
		cause = "the shared receive queue failed.";
		fix = "Destroy and create it again.";
		break;
	default:
		return false;
	}
	vb_report_begin(report, "event");
	vb_report_word(report, "event", vb_words_event(event));
	vb_report_word(report, "device", device);
	if (event == IBV_EVENT_CQ_ERR)
		vb_report_number(report, "cqe", capacity);
	vb_report_say(report, VB_REPORT_WHAT, "%s on %s", vb_words_event(event), device);
	vb_report_say(report, VB_REPORT_CAUSE, "%s", cause);
	vb_report_say(report, VB_REPORT_FIX, "%s", fix);
	return true;
}
