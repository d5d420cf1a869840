/* SPDX-License-Identifier: MIT
 *
 * See stream.h.
 */
#include "explain/stream.h"

#include <stdio.h>

#include "wire/terminate.h"

enum { WORDS = 160 };

static const char *terminate_words(char words[WORDS], uint16_t cause_number)
{
	struct vb_terminate_cause cause = {cause_number};

	snprintf(words, WORDS, "%u/%u/%02x (%s: %s: %s)", vb_terminate_layer(cause), vb_terminate_type(cause), vb_terminate_code(cause),
		 vb_terminate_layer_name(cause), vb_terminate_type_name(cause), vb_terminate_code_name(cause));
	return words;
}

bool vb_explain_stream_ended(const struct vb_fault_record *fault)
{
	switch (fault->fault) {
	case VB_FAULT_FRAME:
	case VB_FAULT_FRAME_CRC:
	case VB_FAULT_MESSAGE_SEQUENCE:
	case VB_FAULT_TERMINATED:
	case VB_FAULT_CLOSED:
	case VB_FAULT_RESET:
	case VB_FAULT_TIMED_OUT:
		return true;
	default:
		return false;
	}
}

/* What to look at, by what the peer complained of. */
static const char *advice(uint16_t cause)
{
	switch (cause) {
	case 0x1100:
	case 0x1101:
	case 0x1102:
	case 0x1103:
		return "A WRITE of this side named memory that the peer does not grant; it had completed before the peer found out. "
		       "Check rkey, address, length and REMOTE_WRITE on the peer.";
	case 0x0100:
	case 0x0101:
	case 0x0102:
	case 0x0103:
	case 0x0104:
		return "Check rkey, address, length and REMOTE_READ on the peer.";
	case 0x0109:
	case 0x0209:
		return "SEND with invalidate takes the rkey of a type 2 window that is bound on the peer, and no region's.";
	case 0x1202:
		return "Post receives on the peer before sending to it; or more READs were asked at once than it answers "
		       "(initiator_depth, responder_resources).";
	case 0x1205:
		return "Post receives on the peer that are as long as the longest message.";
	case 0x0206:
		return "The peer does not know an operation: immediate data and atomics are an extension (RFC 7306).";
	case 0x2002:
		return "Something between the two changes bytes behind TCP's checksum; or one side computes no CRC, or, as Linux's siw "
		       "now and then, a wrong one (VERBENA_IWARP=crc=off shows whether that is it).";
	default:
		return "Look at the peer for what failed there.";
	}
}

static void say_terminated(const struct vb_fault_record *fault, struct vb_report *report)
{
	char words[WORDS];

	vb_report_say(report, VB_REPORT_CAUSE, "the peer ended the stream with TERMINATE %s. ", terminate_words(words, fault->terminate));
	vb_report_say(report, VB_REPORT_FIX, "%s", advice(fault->terminate));
}

bool vb_explain_stream(const struct vb_fault_record *fault, struct vb_report *report)
{
	if (fault->remote && fault->terminate != 0) {
		say_terminated(fault, report);
		return true;
	}
	switch (fault->fault) {
	case VB_FAULT_FRAME_CRC:
		vb_report_say(report, VB_REPORT_CAUSE, "the CRC of an FPDU of %llu bytes is wrong: the bytes were changed on their way, "
			      "behind TCP's checksum, or the peer computes it otherwise. ", (unsigned long long)fault->length);
		vb_report_say(report, VB_REPORT_FIX, "%s", advice(0x2002));
		return true;
	case VB_FAULT_FRAME:
	case VB_FAULT_MESSAGE_SEQUENCE:
		vb_report_say(report, VB_REPORT_CAUSE, "%s. ", vb_fault_sentence(fault->fault));
		vb_report_say(report, VB_REPORT_FIX, "The peer does not speak iWARP as the RFCs have it, or is out of step.");
		return true;
	case VB_FAULT_CLOSED:
		vb_report_say(report, VB_REPORT_CAUSE, "the peer closed the connection while something was under way. ");
		vb_report_say(report, VB_REPORT_FIX, "Complete READs and messages on both sides before rdma_disconnect or exit.");
		return true;
	case VB_FAULT_RESET:
		vb_report_say(report, VB_REPORT_CAUSE, "TCP's connection was reset: the peer's process ended or aborted, or something "
			      "between the two cut it. ");
		vb_report_say(report, VB_REPORT_FIX, "Look at how the peer's process ended, and at firewalls between the two.");
		return true;
	case VB_FAULT_TIMED_OUT:
		vb_report_say(report, VB_REPORT_CAUSE, "TCP sent again and again, and nothing came back from the peer's host. ");
		vb_report_say(report, VB_REPORT_FIX, "Is the peer's host up, and can it be reached (ping)? Its process may well live.");
		return true;
	case VB_FAULT_NO_RECEIVE:
		if (fault->terminate == 0)
			return false;
		vb_report_say(report, VB_REPORT_CAUSE, "a message waited five seconds for a receive, and none was posted. ");
		vb_report_say(report, VB_REPORT_FIX, "Post receives before the peer sends, and more of them.");
		return true;
	default:
		return false;
	}
}

void vb_explain_stream_evidence(const struct vb_fault_record *fault, struct vb_report *report)
{
	char words[WORDS], number[16];

	if (fault->terminate == 0)
		return;
	if (!fault->remote)
		vb_report_say(report, VB_REPORT_CAUSE, "The peer was told: TERMINATE %s. ", terminate_words(words, fault->terminate));
	snprintf(number, sizeof(number), "%u/%u/%02x", fault->terminate >> 12, fault->terminate >> 8 & 15, fault->terminate & 0xff);
	vb_report_word(report, "terminate", number);
}
