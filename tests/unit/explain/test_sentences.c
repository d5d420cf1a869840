/* SPDX-License-Identifier: MIT
 *
 * From evidence to report, without a library: every fault is explained with a cause, nothing is cut off, what the
 * peer says wins over what the NAK says, JSON is JSON, and the wire's two datagrams come out as they went in.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/time.h"
#include "explain/connection.h"
#include "explain/failure.h"
#include "explain/refusal.h"
#include "explain/words.h"
#include "profiles/profile.h"
#include "queue/host.h"
#include "queue/qp.h"
#include "wire/inquiry.h"

static const uint8_t far_away[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 7};

static const char *evidence(const struct vb_report *report, const char *name)
{
	for (unsigned i = 0; i < report->fields; i++)
		if (strcmp(report->field[i].name, name) == 0)
			return report->field[i].value;
	return "";
}

static struct vb_explain_failure failed_write(enum vb_fault fault)
{
	struct vb_explain_failure failure = {
		.kind = VB_FAILED_SEND,
		.status = vb_fault_to_wc_status(fault),
		.fault = {.fault = fault, .key = 0x1234, .address = 0x10000, .length = 4096, .psn = 0x55, .tries = 7,
			  .waited = VB_MILLISECONDS(540)},
		.has_opcode = true,
		.opcode = IBV_WR_RDMA_WRITE,
		.wr_id = 42,
		.qpn = 0xabcdef,
		.peer_qpn = 0x123456,
		.type = IBV_QPT_RC,
		.state = IBV_QPS_RTS,
		.has_peer = true,
		.timeout = 14,
		.retry_cnt = 7,
	};

	memcpy(failure.peer, far_away, sizeof(far_away));
	return failure;
}

static void every_fault_has_a_cause(void **state)
{
	static const enum vb_failure_kind kinds[] = {VB_FAILED_SEND, VB_FAILED_RECEIVE, VB_FAILED_REQUEST};

	(void)state;
	for (unsigned k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		for (unsigned i = 1; i < VB_FAULT_COUNT; i++) {
			struct vb_explain_failure failure = failed_write((enum vb_fault)i);
			struct vb_report report;
			char text[VB_REPORT_ROOM];
			size_t length;

			failure.kind = kinds[k];
			vb_explain_failure(&failure, &report);
			assert_string_equal(evidence(&report, "fault"), vb_fault_name((enum vb_fault)i));
			assert_true(strlen(report.part[VB_REPORT_CAUSE]) > 10);
			for (unsigned part = 0; part < VB_REPORT_PARTS; part++)
				assert_true(strlen(report.part[part]) < VB_REPORT_SENTENCES - 1);
			assert_true(report.fields < VB_REPORT_FIELDS);
			length = vb_report_render(&report, true, 1, text, sizeof(text));
			assert_true(length > 2 && text[0] == '{' && text[length - 2] == '}' && text[length - 1] == '\n');
			length = vb_report_render(&report, false, 1, text, sizeof(text));
			assert_true(length < sizeof(text) && text[length - 1] == '\n');
		}
	}
}

/* A stream's end, and what either side said of it. */
static void streams_end_with_a_reason(void **state)
{
	static const struct {
		enum vb_fault fault;
		bool remote;
		uint16_t terminate;
		const char *cause, *fix;
	} rows[] = {
		{VB_FAULT_TERMINATED, true, 0x1100, "TERMINATE 1/1/00 (DDP: tagged buffer error: invalid STag)", "REMOTE_WRITE"},
		{VB_FAULT_TERMINATED, true, 0x1202, "no buffer available", "Post receives"},
		{VB_FAULT_REMOTE_ACCESS, true, 0x0101, "base or bounds violation", "REMOTE_READ"},
		{VB_FAULT_RIGHTS, false, 0x1100, "The peer was told: TERMINATE 1/1/00", ""},
		{VB_FAULT_FRAME_CRC, false, 0x2002, "CRC of an FPDU", "siw now and then, a wrong one (VERBENA_IWARP=crc=off"},
		{VB_FAULT_NO_RECEIVE, false, 0x1202, "waited five seconds", "Post receives"},
		{VB_FAULT_RESET, true, 0, "reset", "firewalls"},
		{VB_FAULT_CLOSED, true, 0, "closed the connection", "rdma_disconnect"},
		{VB_FAULT_TIMED_OUT, false, 0, "nothing came back", "ping"},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct vb_explain_failure failure = failed_write(rows[i].fault);
		struct vb_report report;

		failure.kind = VB_FAILED_REQUEST;
		failure.fault.remote = rows[i].remote;
		failure.fault.terminate = rows[i].terminate;
		vb_explain_failure(&failure, &report);
		if (!strstr(report.part[VB_REPORT_CAUSE], rows[i].cause) || !strstr(report.part[VB_REPORT_FIX], rows[i].fix))
			fail_msg("row %u says: %s %s", i, report.part[VB_REPORT_CAUSE], report.part[VB_REPORT_FIX]);
		assert_int_equal(rows[i].terminate != 0, evidence(&report, "terminate")[0] != 0);
		if (rows[i].fault == VB_FAULT_RESET || rows[i].fault == VB_FAULT_TERMINATED)
			assert_non_null(strstr(report.part[VB_REPORT_WHAT], "the stream of QP"));
		else if (rows[i].fault == VB_FAULT_RIGHTS)
			assert_non_null(strstr(report.part[VB_REPORT_WHAT], "a request to QP"));
	}
}

static void an_srq_that_is_not_there(void **state)
{
	struct vb_explain_failure failure = failed_write(VB_FAULT_XRC_SRQ);
	struct vb_report report;

	(void)state;
	failure.kind = VB_FAILED_REQUEST;
	failure.type = IBV_QPT_XRC_RECV;
	failure.fault.key = 0x123456;
	vb_explain_failure(&failure, &report);
	assert_non_null(strstr(report.part[VB_REPORT_CAUSE], "SRQ number 0x123456"));
	assert_non_null(strstr(report.part[VB_REPORT_FIX], "ibv_get_srq_num"));
}

static void the_peers_word_wins(void **state)
{
	struct vb_explain_failure failure = failed_write(VB_FAULT_REMOTE_ACCESS);
	struct vb_report report;

	(void)state;
	assert_true(vb_explain_failure_wants_peer(&failure));
	failure.reach = VB_REACH_SILENT;
	vb_explain_failure(&failure, &report);
	assert_string_equal(evidence(&report, "reach"), "silent");
	assert_string_equal(evidence(&report, "far_fault"), "");
	failure.reach = VB_REACH_ANSWERED;
	failure.far = (struct vb_inquiry_answer){
		.status = VB_INQUIRY_YOUR_PEER, .state = IBV_QPS_ERR, .fault = VB_FAULT_RIGHTS, .key = 0x1234,
		.rights_asked = IBV_ACCESS_REMOTE_WRITE, .rights_granted = IBV_ACCESS_LOCAL_WRITE,
	};
	vb_explain_failure(&failure, &report);
	assert_string_equal(evidence(&report, "far_fault"), "RIGHTS");
	assert_string_equal(evidence(&report, "far_rights_asked"), "REMOTE_WRITE");
	assert_non_null(strstr(report.part[VB_REPORT_CAUSE], "without REMOTE_WRITE"));
	/* A peer may say anything. */
	failure.far.fault = 0xffffffff;
	failure.far.state = 0x7fffffff;
	failure.far.status = 99;
	vb_explain_failure(&failure, &report);
	assert_string_equal(evidence(&report, "far_fault"), "");
}

static void silence_has_many_reasons(void **state)
{
	static const struct {
		enum vb_inquiry_reach reach;
		enum vb_inquiry_status status;
		enum ibv_qp_state far_state;
		const char *side, *words;
	} cases[] = {
		{VB_REACH_REFUSED, 0, 0, "network", "nothing listens on its UDP port 4791"},
		{VB_REACH_NO_ROUTE, 0, 0, "local", "no route"},
		{VB_REACH_UNREACHABLE, 0, 0, "network", "unreachable"},
		{VB_REACH_PINGED, 0, 0, "network", "answers ping"},
		{VB_REACH_SILENT, 0, 0, "network", "Not a word"},
		{VB_REACH_ANSWERED, VB_INQUIRY_NO_PROCESS, 0, "peer", "no process"},
		{VB_REACH_ANSWERED, VB_INQUIRY_NO_QP, 0, "peer", "no queue pair"},
		{VB_REACH_ANSWERED, VB_INQUIRY_NOT_CONNECTED, IBV_QPS_INIT, "peer", "still in INIT"},
		{VB_REACH_ANSWERED, VB_INQUIRY_OTHER_PEER, IBV_QPS_RTS, "peer", "somebody else"},
		{VB_REACH_ANSWERED, VB_INQUIRY_OTHER_PSN, IBV_QPS_RTS, "peer", "its rq_psn is not this side's sq_psn"},
		{VB_REACH_ANSWERED, VB_INQUIRY_NOT_TOLD, 0, "peer", "asked too often"},
		{VB_REACH_ANSWERED, VB_INQUIRY_LIVES, 0, "peer", "it does not run"},
		{VB_REACH_ANSWERED, VB_INQUIRY_STOPPED, 0, "peer", "has stopped it"},
		{VB_REACH_ANSWERED, VB_INQUIRY_YOUR_PEER, IBV_QPS_ERR, "peer", "in ERR"},
		{VB_REACH_ANSWERED, VB_INQUIRY_YOUR_PEER, IBV_QPS_RTS, "peer", "waits for PSN 0x000000"},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct vb_explain_failure failure = failed_write(VB_FAULT_RETRY_EXCEEDED);
		struct vb_report report;

		failure.reach = cases[i].reach;
		failure.far.status = cases[i].status;
		failure.far.state = cases[i].far_state;
		failure.far.type = failure.type;
		failure.next_psn = failure.fault.psn + 1;
		vb_explain_failure(&failure, &report);
		assert_string_equal(evidence(&report, "side"), cases[i].side);
		assert_string_equal(evidence(&report, "tries"), "7");
		assert_string_equal(evidence(&report, "waited_us"), "540000");
		assert_string_equal(evidence(&report, "peer"), "192.0.2.7");
		assert_non_null(strstr(report.part[VB_REPORT_CAUSE], cases[i].words));
		assert_true(strlen(report.part[VB_REPORT_FIX]) > 0);
	}
}

/* Everything else is right then, and nothing arrives. */
static void the_peer_is_of_another_type(void **state)
{
	struct vb_explain_failure failure = failed_write(VB_FAULT_RETRY_EXCEEDED);
	struct vb_report report;

	(void)state;
	failure.reach = VB_REACH_ANSWERED;
	failure.far.status = VB_INQUIRY_YOUR_PEER;
	failure.far.state = IBV_QPS_RTS;
	failure.type = IBV_QPT_RC;
	failure.far.type = IBV_QPT_UC;
	vb_explain_failure(&failure, &report);
	assert_non_null(strstr(report.part[VB_REPORT_CAUSE], "is a UC queue pair, ours an RC: it drops"));
	assert_non_null(strstr(report.part[VB_REPORT_FIX], "qp_type"));
	/* XRC has two types, one for each end. */
	failure.type = IBV_QPT_XRC_SEND;
	failure.far.type = IBV_QPT_XRC_RECV;
	vb_explain_failure(&failure, &report);
	assert_null(strstr(report.part[VB_REPORT_CAUSE], "queue pair, ours"));
}

/* It is the device that has none, not the type of queue pair. */
static void what_iwarp_has_not(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND_WITH_IMM, IBV_WR_ATOMIC_FETCH_AND_ADD};
	static struct vb_qp qp = {.type = IBV_QPT_RC, .state = IBV_QPS_RTS, .qpn = 3};
	static struct vb_queue_host host;

	(void)state;
	host.profile = vb_profile_of(VB_DEVICE_IWARP);
	qp.host = &host;
	for (size_t i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); i++) {
		struct ibv_send_wr wr = {.opcode = opcodes[i]};
		struct vb_report report;

		vb_explain_post_send(&qp, &wr, EINVAL, &report);
		assert_non_null(strstr(report.part[VB_REPORT_CAUSE], i < 2 ? "iWARP has no immediate data" : "iWARP has no atomics"));
		assert_non_null(strstr(report.part[VB_REPORT_FIX], "RoCE"));
		assert_int_equal(strstr(report.part[VB_REPORT_FIX], "extensions=on") != NULL, opcodes[i] != IBV_WR_SEND_WITH_IMM);
	}
}

static void rejections(void **state)
{
	struct vb_explain_connection connection = {.event = "RDMA_CM_EVENT_REJECTED", .rejected = true, .has_addresses = true,
						   .destination_port = 7174};
	struct vb_report report;

	(void)state;
	memcpy(connection.destination, far_away, sizeof(far_away));
	for (int reason = 0; reason < 40; reason++) {
		connection.status = reason;
		vb_explain_connection(&connection, &report);
		assert_int_equal(atoi(evidence(&report, "reason")), reason);
		assert_true(strlen(report.part[VB_REPORT_CAUSE]) > 0);
	}
	assert_non_null(vb_explain_reject_reason(8));
	assert_non_null(vb_explain_reject_reason(28));
	assert_null(vb_explain_reject_reason(99));
	/* iWARP has no reasons, but what TCP says. */
	connection.status = -ECONNREFUSED;
	vb_explain_connection(&connection, &report);
	assert_non_null(strstr(report.part[VB_REPORT_CAUSE], "nobody listens on TCP port 7174"));
	assert_string_equal(evidence(&report, "error"), "ECONNREFUSED");
	connection.status = -ECONNRESET;
	vb_explain_connection(&connection, &report);
	assert_non_null(strstr(report.part[VB_REPORT_CAUSE], "without a reply of MPA"));
	connection.status = -EPROTO;
	vb_explain_connection(&connection, &report);
	assert_non_null(strstr(report.part[VB_REPORT_CAUSE], "is no reply of MPA"));
	assert_string_equal(evidence(&report, "error"), "EPROTO");
	connection = (struct vb_explain_connection){.event = "RDMA_CM_EVENT_UNREACHABLE", .status = -ETIMEDOUT, .reach = VB_REACH_REFUSED};
	vb_explain_connection(&connection, &report);
	assert_string_equal(evidence(&report, "error"), "ETIMEDOUT");
	assert_string_equal(evidence(&report, "reach"), "port_refused");
}

/* One of a thing has no plural, eleven have. */
static void one_is_singular(void **state)
{
	struct vb_report report;

	(void)state;
	vb_report_begin(&report, "test");
	vb_report_say(&report, VB_REPORT_CAUSE, "%u sends and %u receives, sent again %u times (%u entries), ", 1, 21, 1, 1);
	vb_report_say(&report, VB_REPORT_CAUSE, "%u bytes at 0x%x bytes", 1, 0x1);
	assert_string_equal(report.part[VB_REPORT_CAUSE],
			    "1 send and 21 receives, sent again 1 time (1 entry), 1 byte at 0x1 bytes");
	assert_string_equal(vb_words_a_type(IBV_QPT_RC), "an RC");
	assert_string_equal(vb_words_a_type(IBV_QPT_UD), "a UD");
}

static void json_escapes(void **state)
{
	struct vb_report report;
	char text[VB_REPORT_ROOM];
	size_t length;

	(void)state;
	vb_report_begin(&report, "test");
	vb_report_word(&report, "name", "a\"b\\c\nd");
	vb_report_number(&report, "n", UINT64_MAX);
	length = vb_report_render(&report, true, 3, text, sizeof(text));
	text[length] = '\0';
	assert_string_equal(text, "{\"explain\":\"test\",\"pid\":3,\"name\":\"a\\\"b\\\\c\\u000ad\",\"n\":18446744073709551615}\n");
	/* Too little room: cut, never overrun. */
	memset(text, 'x', sizeof(text));
	assert_true(vb_report_render(&report, false, 3, text, 20) <= 20);
	assert_int_equal(text[20], 'x');
}

static void addresses(void **state)
{
	static const struct {
		uint8_t gid[16];
		const char *text;
	} cases[] = {
		{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1}, "10.0.0.1"},
		{{0xfe, 0x80, [15] = 1}, "fe80::1"},
		{{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7}, "2001:db8:0:1::7"},
		{{[15] = 1}, "::1"},
		{{0x20, 0x01}, "2001::"},
	};
	char text[VB_WORDS_ADDRESS];

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(vb_words_address(text, cases[i].gid), cases[i].text);
}

static void inquiries_come_out_as_they_went_in(void **state)
{
	const struct vb_inquiry inquiry = {.qpn = 0x123456, .asker_qpn = 0x654321, .send_psn = 0xabcdef, .receive_psn = 0xfedcba,
					   .about_qpn = 0x777777, .nonce = 0x1122334455667788};
	const struct vb_inquiry_answer answer = {
		.nonce = 9, .status = VB_INQUIRY_YOUR_PEER, .qpn = 0x123456, .state = 3, .type = 2, .receives = 4, .expected_psn = 5,
		.fault = 6, .key = 7, .rights_asked = 8, .rights_granted = 1, .pd = 10, .region_pd = 11, .address = 12, .length = 13,
		.region_start = 14, .region_length = 15, .psn = 16, .swapped_key = 17, .gone_for = 18, .version = 19,
	};
	uint8_t bytes[VB_INQUIRY_LENGTH];
	struct vb_inquiry_answer told;
	struct vb_inquiry asked;

	(void)state;
	vb_inquiry_encode(&inquiry, bytes);
	assert_true(vb_inquiry_is_likely(bytes, sizeof(bytes)));
	assert_int_equal(bytes[1] & 0x0f, 0x0f);                       /* a transport version nobody has */
	assert_memory_equal(bytes + 5, "\x12\x34\x56", 3);            /* where the steering program looks */
	assert_true(vb_inquiry_decode(&asked, bytes, sizeof(bytes)));
	assert_int_equal(asked.qpn, inquiry.qpn);
	assert_int_equal(asked.asker_qpn, inquiry.asker_qpn);
	assert_int_equal(asked.send_psn, inquiry.send_psn);
	assert_int_equal(asked.receive_psn, inquiry.receive_psn);
	assert_int_equal(asked.about_qpn, inquiry.about_qpn);
	assert_int_equal(asked.nonce, inquiry.nonce);
	assert_false(vb_inquiry_decode(&asked, bytes, sizeof(bytes) - 1));
	assert_false(vb_inquiry_answer_decode(&told, bytes, sizeof(bytes)));
	vb_inquiry_answer_encode(&answer, bytes);
	assert_true(vb_inquiry_answer_decode(&told, bytes, sizeof(bytes)));
	assert_int_equal(told.region_length, 15);
	assert_int_equal(told.psn, 16);
	assert_int_equal(told.swapped_key, 17);
	assert_int_equal(told.gone_for, 18);
	assert_int_equal(told.version, 19);
	assert_int_equal(told.rights_granted, 1);
	assert_int_equal(told.region_pd, 11);
	assert_false(vb_inquiry_decode(&asked, bytes, sizeof(bytes)));
	bytes[19] = 77;                                                /* a status nobody knows */
	assert_false(vb_inquiry_answer_decode(&told, bytes, sizeof(bytes)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_fault_has_a_cause),
		cmocka_unit_test(streams_end_with_a_reason),
		cmocka_unit_test(an_srq_that_is_not_there),
		cmocka_unit_test(the_peers_word_wins),
		cmocka_unit_test(silence_has_many_reasons),
		cmocka_unit_test(the_peer_is_of_another_type),
		cmocka_unit_test(what_iwarp_has_not),
		cmocka_unit_test(rejections),
		cmocka_unit_test(one_is_singular),
		cmocka_unit_test(json_escapes),
		cmocka_unit_test(addresses),
		cmocka_unit_test(inquiries_come_out_as_they_went_in),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
